"""Planners: each says which problems are its own, what it refuses, and proposes a candidate.

| planner | noise | names |
| --- | --- | --- |
| `automatic` | both | auto; by `laplace_choice` for Laplace noise |
| `residual_family` | Gaussian | residual, residual+, product |
| `optimal` | Gaussian | optimal, refined, sm2 |
| `table_plans` | Laplace | identity, p-identity, tree, wavelet |
| `laplace_matrix` | Laplace | matrix, workload |
| `noise_on_rows` | both | workload, over domains too large for one matrix |
| `named` | both | known strategies, and one's own |
"""
