"""Quantisation methods: how a checkpoint's or a user's choice changes the tensors.

One module per method of vLLM, with a class that answers for each linear layer and each
block of experts; `config_for` finds the method, `apply` hands it to a model's modules.
"""

from planner.quantization.applying import apply
from planner.quantization.choosing import config_for, quantization_method

__all__ = ["apply", "config_for", "quantization_method"]
