"""The one table of vLLM's engine arguments: `planner/data/arguments.json`.

The command line, its help, links, controls, checks, plan files, the glossary and the
reference are made from it. To add an argument:

1. **Entry** in `planner/data/arguments.json`, under the argument's name: `group`,
   `kind`, `memory` and `text`, and what else of `Argument` applies. For a new release,
   `tools/argument_table.py` writes it from vLLM's parser with memory "unknown": plans
   then say what they do not count (`uncounted`), until somebody has read what it does.
   Where `memory` is "none", the entry with its `source` is all that is needed.
2. **Rule**, where `memory` is "modelled": a field of the same name and kind in
   `planner.engine.settings.EngineSettings`, and the code that reads it. vLLM's default
   is filled in by `planner/planning/defaults.py`, what vLLM refuses is refused by
   `planner/planning/refusals.py`, bytes are computed in `planner/memory/`.
3. **Test** of that rule, beside the tests of its module, with figures from vLLM. The
   entry itself is tested already: against vLLM's parser by
   `tests/engine/test_argument_table.py`, everywhere it is used by
   `tests/app/test_argument_everywhere.py`.

The first release that has an argument is in `planner/data/release_history.json`, which
`tools/release_history.py` writes; the release that removed it is `Argument.gone`.

Source: vLLM 0.33.0 `engine/arg_utils.py` EngineArgs and AsyncEngineArgs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from planner.data import DATA
from planner.engine.releases import Release, came_later
from planner.engine.releases.change import Change, recorded
from planner.errors import PlannerError
from planner.values import frozen

_DATA = DATA / "arguments.json"
_RECORDED = "planner/data/arguments.json"
_CHOICES_SHOWN = 6
"""Choices that a line of help has room for."""
_CHOICES_BEGUN = 3
"""Of more choices, those that it shows before an ellipsis."""
_FITS_LENGTH = Change(
    since=(0, 14),
    what="A max_model_len of -1 or auto is fitted to the memory.",
    source="vLLM 0.14.0 `v1/core/kv_cache_utils.py` _auto_fit_max_model_len",
)
_HAVE_OTHER_NAMES = ("cudagraph_capture_sizes", "max_cudagraph_capture_size")
"""Older releases have them in compilation_config, or as cuda_graph_sizes."""


class Kind(StrEnum):
    """The type of an argument's value."""

    SWITCH = "switch"
    WHOLE = "whole"
    COUNT = "count"
    """A whole number that may be written 8k (8000) or 8K (8192)."""
    LENGTH = "length"
    """Like `COUNT`; auto or -1 for the longest that fits."""
    SIZE = "size"
    """Bytes, like `COUNT` or with a unit: 8GiB."""
    NUMBER = "number"
    SHARE = "share"
    """A number above 0 and at most 1."""
    CHOICE = "choice"
    TEXT = "text"
    TABLE = "table"
    """Names and values: JSON on a command line."""
    NAMES = "names"
    """A list of strings."""
    NUMBERS = "numbers"
    """A list of whole numbers."""


_METAVARS: Mapping[Kind, str] = {
    Kind.LENGTH: "N|auto",
    Kind.SIZE: "BYTES",
    Kind.NUMBER: "NUMBER",
    Kind.SHARE: "SHARE",
    Kind.SWITCH: "true|false",
    Kind.TEXT: "TEXT",
    Kind.TABLE: "JSON",
    Kind.NAMES: "NAME",
}


class Memory(StrEnum):
    """What is known of an argument's effect on memory."""

    MODELLED = "modelled"
    """It is a field of `planner.engine.settings.EngineSettings`, and rules read it."""
    NONE = "none"
    """It does not change GPU memory; it is kept for the command line."""
    BOUNDED = "bounded"
    """A line's range is widened by the most that it can change, and a note says so."""
    UNKNOWN = "unknown"
    """Planned without it; the plan names it among its conditions, unless it is off."""


class Group(StrEnum):
    """Where an argument is listed: vLLM's configuration classes, in plain words."""

    MACHINE = "Machine"
    MODEL = "Model"
    LOAD = "Load"
    CACHE = "Cache"
    PARALLEL = "Parallel"
    SCHEDULER = "Scheduler"
    LORA = "LoRA"
    MULTIMODAL = "Multimodal"
    SPECULATIVE = "Speculative"
    OFFLOAD = "Offload"
    COMPILATION = "Compilation"
    KERNELS = "Kernels"
    TRANSFER = "Transfer between engines"
    OUTPUT = "Output"
    OBSERVABILITY = "Logs and metrics"
    OTHER = "Other"

    @property
    def classes(self) -> str:
        """vLLM's configuration classes, or who reads the arguments."""
        return _CLASSES[self]


_CLASSES: Mapping[Group, str] = {
    Group.MACHINE: "for the planner alone",
    Group.MODEL: "ModelConfig",
    Group.LOAD: "LoadConfig",
    Group.CACHE: "CacheConfig",
    Group.PARALLEL: "ParallelConfig",
    Group.SCHEDULER: "SchedulerConfig",
    Group.LORA: "LoRAConfig",
    Group.MULTIMODAL: "MultiModalConfig",
    Group.SPECULATIVE: "SpeculativeConfig",
    Group.OFFLOAD: "OffloadConfig",
    Group.COMPILATION: "CompilationConfig",
    Group.KERNELS: "AttentionConfig, KernelConfig, MambaConfig",
    Group.TRANSFER: "KVTransferConfig, KVEventsConfig, ECTransferConfig",
    Group.OUTPUT: "StructuredOutputsConfig, ReasoningConfig",
    Group.OBSERVABILITY: "ObservabilityConfig, ProfilerConfig",
    Group.OTHER: "VllmConfig and the server",
}


class Feature(StrEnum):
    """A feature that users turn on: the page groups its arguments."""

    ADAPTERS = "adapters"
    ADAPTERS_OF_EXPERTS = "adapters of experts"
    ADAPTERS_OF_ENCODERS = "adapters of encoders"
    ENCODERS = "encoders"
    DRAFTS = "drafts"
    OFFLOADING = "offloading"
    PREFETCHING = "prefetching"
    HOST_MEMORY = "host memory"
    GRAPH_SIZES = "graph sizes"


@frozen
class Argument:
    """One engine argument under vLLM's name."""

    name: str
    group: Group
    kind: Kind
    memory: Memory
    text: str
    """Its meaning and its effect on memory, in whole sentences."""
    label: str = ""
    """Its name in plain words, where its control is among the first of the page."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Names in plain words for keys of a table that have controls."""
    hint: str = ""
    """Its meaning in a few words, shown beside a control."""
    unit: str = ""
    """Placeholder for a value in the help, where the kind's does not fit."""
    default: object = None
    """vLLM's default, if it is the same for all models and GPUs."""
    choices: tuple[str | int, ...] = ()
    """All values that the newest release accepts, for `Kind.CHOICE`."""
    planned: tuple[str, ...] = ()
    """The choices that the planner accepts; empty: all."""
    earlier: tuple[str, ...] = ()
    """Further choices of earlier releases; "None" is read as no value."""
    checked_by_rule: bool = False
    """Whether its rule checks the choices, which depend on the release."""
    offered: tuple[str, ...] = ()
    """Suggested values, where vLLM accepts others too."""
    least: int | None = None
    most: int | None = None
    """The largest value that is planned; above it a plan can take minutes."""
    example: object = None
    """A correct value to name in an error message; None: its rule checks the type."""
    off: tuple[object, ...] = ()
    """Values without effect on memory, where the effect is unknown or bounded."""
    uncounted: str = ""
    """What plans do not count, where the effect is unknown, as part of a sentence."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys of a table: what plans do not count of each; empty: modelled, or none."""
    keys_gone: Mapping[str, str] = field(default_factory=dict)
    """Keys of a table that vLLM refuses since a release."""
    safe_keys: tuple[str, ...] = ()
    """Keys of a table, "a.b" in a table of it, that name no file, code or address."""
    safe_values: tuple[str, ...] = ()
    """Values that are vLLM's own, where others may name code."""
    is_data: bool = False
    """Whether what it names is only read, as the model is: a start does not ask."""
    bound: str = ""
    """What a bounded effect is, and by how much at most, as part of a sentence."""
    below_mib: int = 0
    """By how much less memory it takes at most."""
    above_mib: int = 0
    """By how much more it takes at most."""
    source: str = ""
    """Where vLLM shows that there is no effect, or what bounds it: file and symbol."""
    feature: Feature | None = None
    gone: str = ""
    """The release that removed it."""
    kept_out: str = ""
    """Why links must not set it; `planner.engine.foreign` also asks about it."""
    short: str = ""
    """Its short flag."""
    has_flag: bool = True
    """False for an argument of the Python API only."""
    only_on: bool = False
    """A switch without a --no-... form: off is its default."""
    joined: bool = False
    """A list written as one word, with commas."""
    server_only: bool = False
    """An argument of the server's engine that the LLM class refuses or ignores."""

    @property
    def flag(self) -> str:
        """Its flag for `vllm serve`."""
        return "--" + self.name.replace("_", "-")

    @property
    def is_modelled(self) -> bool:
        """Whether it is a field of `planner.engine.settings.EngineSettings`."""
        return self.memory is Memory.MODELLED

    @property
    def is_list(self) -> bool:
        """Whether it takes several values, each a word of the command line."""
        return self.kind in (Kind.NAMES, Kind.NUMBERS)

    @property
    def is_text(self) -> bool:
        """Whether its value is always a string."""
        is_word = self.kind is Kind.CHOICE and isinstance(self.choices[0], str)
        return is_word or self.kind is Kind.TEXT

    @property
    def metavar(self) -> str:
        """Placeholder for a value in the help."""
        if self.unit:
            return self.unit
        shown = [*map(str, self.taken or self.offered)]
        if len(shown) > _CHOICES_SHOWN or (shown and not self.taken):
            shown = [*shown[:_CHOICES_BEGUN], "..."]
        if shown and not self.is_list:
            return "{" + ",".join(shown) + "}"
        return _METAVARS.get(self.kind, "N")

    @property
    def taken(self) -> tuple[str | int, ...]:
        """The choices that the planner accepts."""
        return self.planned or self.choices

    @property
    def explained(self) -> str:
        """Its text, followed by its effect on memory unless the text says it."""
        return self.text + _EFFECTS[self.memory](self)


def _none(argument: Argument) -> str:
    shown = f" (vLLM: {argument.source})" if argument.source else ""
    return f" It does not change GPU memory{shown}."


def _unknown(argument: Argument) -> str:
    values = [
        value if isinstance(value, str) else json.dumps(value) for value in argument.off
    ]
    but = f", except for {', '.join(values)}, which change nothing" if values else ""
    return f" Plans do not count {argument.uncounted}, and say so{but}."


_EFFECTS: Mapping[Memory, Callable[[Argument], str]] = {
    Memory.MODELLED: lambda _argument: "",
    Memory.NONE: _none,
    Memory.BOUNDED: lambda argument: f" Plans say: {argument.bound}.",
    Memory.UNKNOWN: _unknown,
}


def _argument(name: str, row: Mapping[str, Any]) -> Argument:
    facts: dict[str, Any] = {
        key: _TYPES[key](value) if key in _TYPES else value
        for key, value in row.items()
    }
    return Argument(name=name, **facts)


_TYPES: Mapping[str, Callable[[Any], object]] = {
    "group": Group,
    "kind": Kind,
    "memory": Memory,
    "feature": Feature,
    **dict.fromkeys(("choices", "planned", "earlier", "offered", "off"), tuple),
    **dict.fromkeys(("safe_keys", "safe_values"), tuple),
}

ARGUMENTS = {
    name: _argument(name, row)
    for name, row in json.loads(_DATA.read_text(encoding="utf-8")).items()
}
"""Every argument by its name; by group, in vLLM's order."""


def named(memory: Memory) -> list[str]:
    """Return the arguments of the newest release with this effect on memory."""
    return [
        argument.name
        for argument in ARGUMENTS.values()
        if argument.memory is memory and not argument.gone
    ]


def featured(feature: Feature) -> list[str]:
    """Return the arguments of a feature."""
    return [
        argument.name for argument in ARGUMENTS.values() if argument.feature is feature
    ]


PLANNER_ONLY = tuple(
    argument.name for argument in ARGUMENTS.values() if argument.group is Group.MACHINE
)
"""Arguments that only the planner reads: the machines, and what lies on them."""


def check_release(engine_args: Mapping[str, object], release: Release) -> None:
    """Refuse arguments and values that the release does not have.

    Raises:
        PlannerError: names the first release that has it, or the one that removed it.
    """
    for name, value in engine_args.items():
        if value is None or name in _HAVE_OTHER_NAMES:
            continue
        first = came_later("arguments", name, release)
        if first is not None:
            raise _not_yet(f"the argument {name}", first, release)
        _check_not_gone(name, release)
    dtype = engine_args.get("kv_cache_dtype")
    first = came_later("kv_cache_dtypes", str(dtype), release)
    if first is not None:
        raise _not_yet(f"kv_cache_dtype={dtype!r}", first, release)
    length = engine_args.get("max_model_len")
    if length in ("auto", -1) and not release.has(_FITS_LENGTH):
        raise _not_yet(f"max_model_len={length!r}", "0.14.0", release)


def _check_not_gone(name: str, release: Release) -> None:
    if is_gone(name, release):
        raise PlannerError(
            f"vLLM {release.version} has no {name} any more: it went with "
            f"{ARGUMENTS[name].gone}. Leave it out."
        )


def is_gone(name: str, release: Release) -> bool:
    """Return whether a release no longer has an engine argument."""
    removed = ARGUMENTS[name].gone if name in ARGUMENTS else ""
    return bool(removed) and not release.has(
        recorded(f"vLLM has the argument {name}.", until=removed, source=_RECORDED)
    )


def has_key(name: str, key: str, release: Release) -> bool:
    """Return whether an argument's table may have a key in a release."""
    what, removed = f"{name} has the key {key}.", ARGUMENTS[name].keys_gone.get(key, "")
    return key in ARGUMENTS[name].keys and release.has(
        recorded(what, until=removed, source=_RECORDED)
    )


def _not_yet(what: str, first: str, release: Release) -> PlannerError:
    return PlannerError(
        f"vLLM {release.version} does not have {what} yet: it came with {first}. "
        f"Leave it out, or plan vllm_version={first!r} or later."
    )
