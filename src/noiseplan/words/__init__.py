"""What is printed for people, from facts: plans, what privacy promises, comparisons."""
