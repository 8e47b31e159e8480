"""P-identity strategies by gradient: the best few rows to add to the identity, for Laplace noise."""
