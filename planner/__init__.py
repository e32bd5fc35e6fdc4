"""Plan vLLM's GPU memory: what vLLM would log, before it starts.

Thirteen folders, each importing only from those after it: `app/` (command line,
explorer, Voilà app), `learn/`, `reading/` (what people have), `export/`, `show/`,
`confirming/` (starts vLLM and compares), `ray/`, `solve/` (plans again), `planning/`
(`plan()`), `memory/` (vLLM's account), `models/` (what vLLM loads), `engine/` (what a
start is configured with), `data/`.
docs/tour.md follows one plan through them.

>>> import planner
>>> planner.plan("Qwen/Qwen3-8B", gpu="H100", max_model_len=32768).fits
True
"""

from __future__ import annotations

from importlib import import_module

from planner.registries import know
from planner.version import __version__ as __version__

TYPE_CHECKING = False  # as in `typing`, whose import takes half of `import planner`

if TYPE_CHECKING:
    from collections.abc import Iterator

    from IPython.core.interactiveshell import InteractiveShell

    from planner import export, learn, ray, solve
    from planner.app.widgets.explorer import Explorer
    from planner.confirming.confirmation import Confirmation
    from planner.confirming.dry.result import DryRun
    from planner.confirming.dry.run import dry_run
    from planner.confirming.log import LogReading, read_log
    from planner.confirming.many import Sweep, confirm_many
    from planner.confirming.run import confirm
    from planner.engine.gpu import GPU
    from planner.errors import (
        ModelNotFound,
        ModelUnavailable,
        PlannerError,
        UnknownArchitecture,
    )
    from planner.models.architecture import ModelArchitecture
    from planner.planning.inputs import Inputs
    from planner.planning.load import Load
    from planner.planning.planning import plan
    from planner.planning.result import Plan
    from planner.reading import Reading, check, read
    from planner.registries import Registry
    from planner.solve.advice import Advice, AdviceItem, advise
    from planner.solve.comparing.comparison import Comparison, compare
    from planner.solve.comparing.gpus import GPUComparison, compare_gpus
    from planner.solve.comparing.grid import Grid
    from planner.solve.comparing.sweep import sweep
    from planner.solve.set_up_search import set_ups
    from planner.solve.speed.bound import speed_bound
    from planner.solve.speed.forecast import SpeedForecast, speed_forecast
    from planner.solve.speed.speed import SpeedBound
    from planner.solve.upgrading import Upgrade, upgrade

__all__ = [
    "GPU",
    "Advice",
    "AdviceItem",
    "Comparison",
    "Confirmation",
    "DryRun",
    "Explorer",
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
    "Reading",
    "SpeedBound",
    "SpeedForecast",
    "Sweep",
    "UnknownArchitecture",
    "Upgrade",
    "advise",
    "check",
    "compare",
    "compare_gpus",
    "confirm",
    "confirm_many",
    "dry_run",
    "export",
    "learn",
    "plan",
    "ray",
    "read",
    "read_log",
    "set_ups",
    "solve",
    "speed_bound",
    "speed_forecast",
    "sweep",
    "upgrade",
]

_PACKAGES = ("export", "learn", "ray", "solve")

_MODULE_OF = {
    "Advice": ".solve.advice",
    "AdviceItem": ".solve.advice",
    "advise": ".solve.advice",
    "Comparison": ".solve.comparing.comparison",
    "compare": ".solve.comparing.comparison",
    "Upgrade": ".solve.upgrading",
    "upgrade": ".solve.upgrading",
    "GPUComparison": ".solve.comparing.gpus",
    "compare_gpus": ".solve.comparing.gpus",
    "Grid": ".solve.comparing.grid",
    "sweep": ".solve.comparing.sweep",
    "Confirmation": ".confirming.confirmation",
    "Sweep": ".confirming.many",
    "confirm": ".confirming.run",
    "confirm_many": ".confirming.many",
    "DryRun": ".confirming.dry.result",
    "dry_run": ".confirming.dry.run",
    "Explorer": ".app.widgets.explorer",
    "GPU": ".engine.gpu",
    "Inputs": ".planning.inputs",
    "Load": ".planning.load",
    "LogReading": ".confirming.log",
    "ModelArchitecture": ".models.architecture",
    "Plan": ".planning.result",
    "plan": ".planning.planning",
    "check": ".reading",
    "read": ".reading",
    "Reading": ".reading",
    "read_log": ".confirming.log",
    "SpeedBound": ".solve.speed.speed",
    "speed_bound": ".solve.speed.bound",
    "SpeedForecast": ".solve.speed.forecast",
    "speed_forecast": ".solve.speed.forecast",
    "set_ups": ".solve.set_up_search",
}


_RENAMED: dict[str, str] = {}
"""A name of the release before -> the name that replaces it, for one release."""


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: `import planner` stays cheap."""
    if name in _RENAMED:
        deprecated = import_module(".errors", __name__).deprecated
        deprecated(f"planner.{name}", f"planner.{_RENAMED[name]}", stacklevel=3)
        return __getattr__(_RENAMED[name])
    if name not in __all__:
        raise AttributeError(f"module 'planner' has no attribute {name!r}")
    if name in _PACKAGES:
        return import_module(f".{name}", __name__)
    try:
        module = import_module(_MODULE_OF.get(name, ".errors"), __name__)
    except ModuleNotFoundError as missing:
        lacking = import_module(".errors", __name__).lacking
        raise lacking(f"planner.{name}", missing) from missing
    value: object = getattr(module, name)
    globals()[name] = value
    return value


def _registries() -> Iterator[Registry]:
    """Import what the rooms do for values, until what is asked for is found."""
    from planner.planning import views as planning

    yield planning.REGISTRY
    from planner.show import views as show

    yield show.REGISTRY
    from planner.confirming import views as confirming

    yield confirming.REGISTRY
    from planner.reading import views as reading

    yield reading.REGISTRY
    from planner.app import views as app

    yield app.REGISTRY


know(_registries)


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted([*globals(), *__all__])


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Bring `%plan`: IPython calls this for `%load_ext planner`."""
    import_module(".app.magic", __name__).register(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take `%plan` back: IPython calls this for `%unload_ext planner`."""
    import_module(".app.magic", __name__).unregister(shell)
