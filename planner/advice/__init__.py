"""What to change in a plan: every single change that helps, ranked, with its price."""
