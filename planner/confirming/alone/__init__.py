"""Programs that run beside vLLM, in the Python that holds it.

Each file stands alone on the standard library, for that Python need not have this
package; `planner.confirm` starts them by their path.
"""
