"""Settings and page template of the Voila app; `make app` points Jupyter at them."""
