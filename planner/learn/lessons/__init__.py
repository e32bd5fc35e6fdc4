"""The exercises of the six lessons, one module per lesson."""
