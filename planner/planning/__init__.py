"""`plan()`: from a model and engine arguments to the verdict."""
