"""The exercises of the six lessons, one module a lesson."""
