"""Encoders of images, videos and sounds, one module for each kind that vLLM has.

Each has a function from the tower's own config to the modules of all its blocks, under
the names that vLLM gives them.
"""
