"""The exercises of the seven lessons, one module per lesson."""
