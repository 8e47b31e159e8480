"""Plans of pure differential privacy: what to measure, and with how much Laplace noise."""
