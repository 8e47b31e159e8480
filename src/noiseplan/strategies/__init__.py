"""Strategies that can be named: what to measure, without a search over all matrices.

A strategy is a matrix A whose largest column norm is one: L2 for Gaussian noise, L1 for Laplace
noise. Its total error is tr(G (AᵀA)⁺) for the Gram matrix G of the workload.

| module | one idea |
| --- | --- |
| `column_norms` | column norms: scaling to one, filling up to the longest, errors |
| `weighting` | the best weights of given rows, independent or not, for either noise |
| `eigen` | eigenvectors of the workload as rows: in closed form, with weights; the Fourier basis |
| `hierarchies` | weighted wavelets and trees, for Laplace noise |
| `given_rows` | rows that a user brings; with the same AᵀA, some with small L1 columns |
| `catalogue` | all of them by name |
"""
