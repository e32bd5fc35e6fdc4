"""Confirmations with the real vLLM, its CPU build: `make test-vllm` runs these."""
