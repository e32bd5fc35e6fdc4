"""Measures the app: one page of figures against their limits; `make bench-app`."""
