"""Memory of LoRA adapters, on GPUs and on the host."""
