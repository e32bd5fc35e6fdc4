"""Quantisation methods: how a checkpoint's or a user's choice changes the tensors.

`choosing` finds the method (`methods` lists them) and gives it to a model's layers; one
module per method reads its settings and answers for each linear layer, `experts` for
routed experts.
"""

from planner.models.quantization.choosing import (
    checkpoint_config,
    quantised,
    requantised,
)

__all__ = ["checkpoint_config", "quantised", "requantised"]
