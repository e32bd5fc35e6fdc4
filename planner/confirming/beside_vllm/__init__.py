"""Programs that run beside vLLM, in vLLM's Python environment.

Each file imports only the standard library and vLLM, because that environment need not
have this package; `planner.confirming` starts them by their path.
"""
