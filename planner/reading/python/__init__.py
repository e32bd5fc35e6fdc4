"""Python code and notebooks, evaluated as syntax and never run."""
