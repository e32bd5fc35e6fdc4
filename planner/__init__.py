"""Plan vLLM's GPU memory: what vLLM would log, before it starts.

Read in this order: `layers` (what vLLM builds models from), `model`, `architectures/`
(config.json to model), `engine` and `defaults` (what is typed, what vLLM fills in),
`memory/` (one module per line of vLLM's account), `estimate` (the lines of a rank),
`planning` (the whole), `result` (the answer). `sources/` reads files and the Hub,
`charts/`, `presentation/` and `widgets/` show. `confirming/` starts vLLM and compares,
`calibrations/` keeps what it measured.

>>> import planner
>>> planner.plan("Qwen/Qwen3-8B", gpu="H100", max_model_len=32768).fits
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from planner import export, learn, ray, solve
    from planner.advice import Advice, AdviceItem, advise
    from planner.comparing.comparison import Comparison, compare
    from planner.comparing.gpu_choices import GPUComparison
    from planner.comparing.gpus import compare_gpus
    from planner.comparing.grid import Grid
    from planner.comparing.sweep import sweep
    from planner.confirming.api import confirm
    from planner.confirming.confirmation import Confirmation
    from planner.confirming.many import Sweep, confirm_many
    from planner.errors import (
        ModelNotFound,
        ModelUnavailable,
        PlannerError,
        UnknownArchitecture,
    )
    from planner.gpu import GPU
    from planner.inputs import Inputs
    from planner.load import Load
    from planner.log import LogReading, read_log
    from planner.model import ModelArchitecture
    from planner.planning import plan
    from planner.result import Plan
    from planner.roofline.bound import speed_bound
    from planner.roofline.speed import SpeedBound

__version__ = "0.1.0"

__all__ = [
    "GPU",
    "Advice",
    "AdviceItem",
    "Comparison",
    "Confirmation",
    "GPUComparison",
    "Grid",
    "Inputs",
    "Load",
    "LogReading",
    "ModelArchitecture",
    "ModelNotFound",
    "ModelUnavailable",
    "Plan",
    "PlannerError",
    "SpeedBound",
    "Sweep",
    "UnknownArchitecture",
    "advise",
    "compare",
    "compare_gpus",
    "confirm",
    "confirm_many",
    "export",
    "learn",
    "plan",
    "ray",
    "read_log",
    "solve",
    "speed_bound",
    "sweep",
]

_PACKAGES = ("export", "learn", "ray", "solve")

_MODULE_OF = {
    "Advice": "planner.advice",
    "AdviceItem": "planner.advice",
    "advise": "planner.advice",
    "Comparison": "planner.comparing.comparison",
    "compare": "planner.comparing.comparison",
    "GPUComparison": "planner.comparing.gpu_choices",
    "compare_gpus": "planner.comparing.gpus",
    "Grid": "planner.comparing.grid",
    "sweep": "planner.comparing.sweep",
    "Confirmation": "planner.confirming.confirmation",
    "Sweep": "planner.confirming.many",
    "confirm": "planner.confirming.api",
    "confirm_many": "planner.confirming.many",
    "GPU": "planner.gpu",
    "Inputs": "planner.inputs",
    "Load": "planner.load",
    "LogReading": "planner.log",
    "ModelArchitecture": "planner.model",
    "Plan": "planner.result",
    "plan": "planner.planning",
    "read_log": "planner.log",
    "SpeedBound": "planner.roofline.speed",
    "speed_bound": "planner.roofline.bound",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: `import planner` stays cheap."""
    if name not in __all__:
        raise AttributeError(f"module 'planner' has no attribute {name!r}")
    if name in _PACKAGES:
        return import_module(f"planner.{name}")
    value: object = getattr(import_module(_MODULE_OF.get(name, "planner.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted([*globals(), *__all__])


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Bring `%plan`: IPython calls this for `%load_ext planner`."""
    import_module("planner.magic").load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take `%plan` back: IPython calls this for `%unload_ext planner`."""
    import_module("planner.magic").unload(shell)
