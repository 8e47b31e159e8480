"""Answers from a partition of ordered cells that is drawn from the data, with a proof."""
