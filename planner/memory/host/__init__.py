"""CPU memory and disk of the nodes on which vLLM runs."""
