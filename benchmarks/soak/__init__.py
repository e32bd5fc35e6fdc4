"""Lets visitors come and go for long, and looks for what they leave; `make soak`."""
