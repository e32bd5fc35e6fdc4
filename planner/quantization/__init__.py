"""Quantisation methods: how a checkpoint's or a user's choice changes the tensors.

`choosing` finds the method (`methods` lists them), one module per method reads its
settings and answers for each linear layer, `experts` for routed experts; `applying`
hands the answers to a model's modules.
"""

from planner.quantization.choosing import checkpoint_config, quantised, requantised

__all__ = ["checkpoint_config", "quantised", "requantised"]
