"""An upper bound on speed, from the bytes and operations of a step."""
