"""The GPUs and the processor of this machine.

`attached` reads the GPUs from the NVIDIA driver, `processor` reads the CPU from the
operating system, `planned_gpu` turns what the driver reports into the GPU of a plan.
"""
