"""Explicit matrices: the matrix mechanism over domains of up to a few thousand cells.

A workload W (rows × cells) is met through its Gram matrix G = WᵀW wherever that is enough; a
strategy A is measured with noise in proportion to its sensitivity, and everything else is least
squares. Errors are in units of the base noise: P = 1 at privacy cost one for Gaussian noise (L2
sensitivity), P = 2/ε² for Laplace noise (L1 sensitivity).

| module | one idea |
| --- | --- |
| `gram_roots` | roots of Gram matrices, and what is taken for rounding there |
| `optimum`, `anderson` | the least total variance, with its certificate; fixed points that climb |
| `row_space_optimum`, `cell_columns` | the same where the rank is low and cells are many |
| `record_pairs` | the same where one record replaces another: pairs of cells |
| `rows_with_targets` | what is demanded of the variance of every row |
| `interior_point` | the best covariance for prices; the prices |
| `fitness` | the least cost that meets targets |
| `convex_losses` | the least of any convex loss of variances, with its certificate |
| `cost_profiles` | what each cell pays, the kindest of the optima, what is free |
| `gram_bounds`, `closed_forms`, `accuracy` | how hard a workload is, by formula too; α and β |
| `allocation`, `laplace_allocation` | how to share a budget among what is measured |
| `split_coordinates`, `p_identity` | coordinates of a split; the identity with a few rows more |
| `integer_rounding`, `integer_cost_matrix` | rows in integers, and those of cost matrices |
| `lbfgs`, `array_namespace` | the solver; array libraries |
| `sm2` | the published solver |
"""
