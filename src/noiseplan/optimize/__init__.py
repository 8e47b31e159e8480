"""Explicit matrices: the matrix mechanism over domains of up to a few thousand cells.

A workload W (rows × cells) is met through its Gram matrix G = WᵀW wherever that is enough; a
strategy A is measured with noise in proportion to its sensitivity, and everything else is least
squares. Errors are in units of the base noise: P = 1 at privacy cost one for Gaussian noise (L2
sensitivity), P = 2/ε² for Laplace noise (L1 sensitivity).

| module | one idea |
| --- | --- |
| `reduction` | cells no query tells apart are one cell |
| `array_namespace`, `mirror_symmetry`, `anderson` | array libraries; mirror symmetry; fixed points that climb |
| `optimum` | the least total variance, with its certificate |
| `rows_with_targets`, `priced_covariance`, `interior_point` | rows with targets; the best covariance for prices; the prices |
| `convex_losses` | the least of any convex loss of variances, with its certificate |
| `fitness`, `fitness_result` | the least cost that meets targets, the smallest scaling within a budget |
| `cost_profiles` | what each cell pays, the kindest of the optima, what is free |
| `gram_bounds`, `closed_forms`, `accuracy` | how hard a workload is; where that is a formula; α and β |
| `allocation`, `laplace_allocation` | how to share a budget among what is measured |
| `split_coordinates`, `integer_rounding`, `lbfgs` | coordinates of a split; rows in integers; smooth minimisation |
| `sm2`, `correlated`, `identity_sum` | the published solver, mechanism and closed forms |
"""
