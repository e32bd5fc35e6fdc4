"""Dry runs: vLLM's own start on a GPU that is not there.

`start` begins one and returns what vLLM measured; `false_gpu` builds the libraries that
stand in for CUDA's (`driver/`, in C); `inside_vllm/` holds what runs in vLLM's Python.
"""
