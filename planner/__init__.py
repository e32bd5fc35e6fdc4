"""Plan vLLM's GPU memory: what vLLM would log, before it starts.

Read in this order: `layers` (what vLLM builds models from), `model`, `architectures/`
(config.json to model), `engine` and `defaults` (what is typed, what vLLM fills in),
`memory/` (one module per line of vLLM's account), `estimate` (the lines of a rank),
`planning` (the whole), `result` (the answer). `sources/` reads files and the Hub,
`charts/`, `presentation/` and `widgets/` show.

>>> from planner import plan
>>> plan("Qwen/Qwen3-8B", gpu="H100", max_model_len=32768).num_gpu_blocks > 20000
True
"""

from __future__ import annotations

from planner.errors import (
    ModelNotFound,
    ModelUnavailable,
    PlannerError,
    UnknownArchitecture,
)
from planner.gpu import GPU
from planner.model import ModelArchitecture
from planner.planning import plan
from planner.result import Plan

__version__ = "0.1.0"

__all__ = [
    "GPU",
    "ModelArchitecture",
    "ModelNotFound",
    "ModelUnavailable",
    "Plan",
    "PlannerError",
    "UnknownArchitecture",
    "plan",
]
