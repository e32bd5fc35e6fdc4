"""The explorer's widgets: they gather the user's input and show the plan."""
