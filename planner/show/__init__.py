"""Plans and other results as text, tables and HTML, by the standard library alone."""
