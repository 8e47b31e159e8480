"""Medians, quantiles, means, shares and ratios of what was released, with their errors."""
