"""Programs that talk to Ray in a process of their own."""
