"""The planner for agents."""
