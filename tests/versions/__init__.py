"""The explorer in other people's Jupyter: `make test-versions` installs those."""
