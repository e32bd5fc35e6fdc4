"""What vLLM loads: the layers of a model, their tensors and what they cache."""
