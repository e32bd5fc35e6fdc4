"""Questions in words of six languages, and what people note in words."""
