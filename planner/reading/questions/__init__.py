"""Questions in words of ten languages, and what people note in words."""
