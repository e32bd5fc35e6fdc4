"""Programs that speak with Ray in a process of their own."""
