"""Planning: objectives, planners, bounds."""
