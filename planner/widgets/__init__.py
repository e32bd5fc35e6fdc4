"""Thin ipywidgets: they gather what a user chose and show what the planner answers."""
