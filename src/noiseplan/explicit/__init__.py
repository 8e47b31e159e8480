"""Explicit matrices: the matrix mechanism over domains of up to a few thousand cells.

A workload W (rows × cells) is met through its Gram matrix G = WᵀW wherever that is enough; a
strategy A is measured with noise in proportion to its sensitivity, and everything else is least
squares. Errors are in units of the base noise: P = 1 at privacy cost one for Gaussian noise (L2
sensitivity), P = 2/ε² for Laplace noise (L1 sensitivity).

| module | one idea |
| --- | --- |
| `reduction` | cells no query tells apart are one cell |
| `namespace`, `halves`, `mixing` | array libraries; mirror symmetry; fixed points that climb |
| `optimum` | the least total variance, with its certificate |
| `demands`, `balance`, `interior` | rows with targets; the best covariance for prices; the prices |
| `losses` | the least of any convex loss of variances, with its certificate |
| `fitness` | the least cost that meets targets, the smallest scaling within a budget |
| `profiles` | what each cell pays, the kindest of the optima, what is free |
| `bounds`, `closed_forms`, `accuracy` | how hard a workload is; where that is a formula; α and β |
| `strategies/` | what to measure, by name |
| `sm2`, `correlated`, `identity_sum` | the published solver, mechanism and closed forms |
"""
