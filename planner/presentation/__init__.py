"""A plan as text and HTML: values in, text out, standard library only."""
