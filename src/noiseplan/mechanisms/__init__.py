"""What a planner returns: measure, reconstruct, variance, covariance."""
