"""The lines of vLLM's memory account other than weights and KV cache."""
