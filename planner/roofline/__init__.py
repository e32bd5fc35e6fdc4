"""A bound on speed from bytes and operations, nothing more."""
