"""The GPU that a plan is made for, and the catalogue of known ones.

Most callers use `GPU.named`; `catalogue` and `search` are for lists. The figures and
their sources are in `planner/data/gpus.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, field, fields, replace
from functools import cache
from typing import Any

from planner.data import DATA
from planner.engine.generations import generation_of
from planner.engine.gpu_text import EXAMPLE, check_name, facts_of, is_description
from planner.engine.not_covered import why_not_covered
from planner.errors import PlannerError, close_words
from planner.units import GIB, format_gib
from planner.values import frozen

_LONGEST_KEY = 64
"""Of a name that is compared with all others, which takes the square of its length."""
_NO_CAPABILITY = (0, 0)
CPU = "CPU"
"""The name that selects a processor, on which vLLM's CPU build runs."""
FLOPS_DTYPES = ("bfloat16", "float16", "fp8", "fp4", "int8")
"""Dtypes for which vendors publish peak matrix throughput."""
_MEMORY_TOLERANCE = 0.12
"""How much "24GB" may differ from the total: less than two sizes of one card."""
_SAME_SIZE = 0.01
"""How much a total may differ from that of the GPU it identifies."""


@frozen
class Processor:
    """What vLLM's CPU build needs to know about its processor.

    Source: vLLM 0.33.0 `platforms/cpu.py`.
    """

    architecture: str = "x86_64"
    """As the operating system names it."""
    flags: tuple[str, ...] | None = None
    """Instruction sets by their names in /proc/cpuinfo; None: unknown."""
    memory_node: int = 0
    """The NUMA node whose memory counts."""

    def has(self, flag: str) -> bool | None:
        """Return whether it has an x86 instruction set; None: unknown."""
        if self.architecture not in ("x86_64", "amd64"):
            return False
        return None if self.flags is None else flag in self.flags


@frozen
class GPU:
    """One GPU as vLLM sees it, or the processor where vLLM's CPU build runs.

    >>> GPU.named("rtx 4090").name
    'RTX4090'
    >>> GPU(name="CPU", total_memory_bytes=64 * 2**30).is_cpu
    True

    Raises:
        PlannerError: for an impossible figure: a size that is not a positive whole
            number, more free memory than the total, a compute capability that is not a
            pair.
    """

    name: str
    """Catalogue name, such as H100."""
    total_memory_bytes: int
    """As the CUDA runtime reports it (`cudaMemGetInfo`), not the marketing size."""
    compute_capability: tuple[int, int] = _NO_CAPABILITY
    """Such as (9, 0); a processor has none."""
    free_memory_bytes: int | None = None
    """Free before vLLM starts; None: nothing else uses the GPU."""
    device_name: str = ""
    """As the driver reports it, such as "NVIDIA H100 80GB HBM3"."""
    num_sms: int | None = None
    """Streaming multiprocessors."""
    memory_bandwidth_bytes_per_second: int | None = None
    dense_flops: tuple[tuple[str, int], ...] = field(default=(), compare=False)
    """Peak matrix operations per second by dtype (bfloat16, float16, fp8, fp4, int8),
    without sparsity; a mapping may be given. Empty: unknown."""
    is_integrated: bool = False
    """Whether GPU and CPU share one memory (GB10, Thor)."""
    is_under_wsl: bool = False
    """Whether vLLM runs under the Windows Subsystem for Linux."""
    source: str = ""
    """Where the total comes from."""
    nvml_memory_bytes: int | None = None
    """nvidia-smi's total, from which vLLM chooses defaults; None: the same total."""
    total_basis: str = "given"
    """measured (`source` names the record), assumed (`source` says how), or given."""
    mig_profile: str = ""
    """Such as 1g.10gb for a slice; empty for a whole GPU."""
    processor: Processor | None = None
    """The processor, where the name is CPU; None for a GPU."""
    host_memory_bytes: int | None = field(default=None, compare=False)
    """CPU memory of the GPU's machine; None: unknown."""
    aliases: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Other names that `named` accepts."""
    sources: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    """Pairs of a field's name and the source of its figure."""

    def __post_init__(self) -> None:
        if self.name == CPU and self.processor is None:
            object.__setattr__(self, "processor", Processor())
        if isinstance(self.dense_flops, Mapping):
            object.__setattr__(self, "dense_flops", tuple(self.dense_flops.items()))
        _check(self)

    @property
    def is_cpu(self) -> bool:
        """Whether vLLM's CPU build runs here."""
        return self.processor is not None

    @property
    def kind(self) -> str:
        """GPU or CPU, as vLLM's log names the device."""
        return CPU if self.is_cpu else "GPU"

    @classmethod
    def named(cls, name: str | None, /, **replacements: object) -> GPU:
        """Return the catalogue entry of that name, with some facts replaced.

        Case, spaces, dashes and the vendor's words do not matter. A description in one
        line, such as "name=MyGPU,memory=48GiB,capability=8.9,bandwidth=900GB/s", gives
        a GPU that is not in the catalogue (`gpu_text`). A replaced total sets
        the basis to "given", and nvidia-smi's total with it unless given as well. A log
        often has the total but not the name: with None, the entry whose total is
        nearest to the given one is used.

        Raises:
            PlannerError: for an unknown name, an unknown fact or an impossible figure,
                and for an accelerator that is not NVIDIA's.
        """
        total_bytes = replacements.get("total_memory_bytes")
        if isinstance(name, str) and name.strip().upper() == CPU:
            return _described_processor(replacements)
        if isinstance(name, str) and is_description(name):
            return cls(**{**facts_of(name), **replacements})
        if name is None and isinstance(total_bytes, int):
            known = _of_size(total_bytes)
        else:
            known = _find(name)
        if not replacements:
            return known
        _check_fact_names(replacements)
        if "total_memory_bytes" in replacements:
            replacements = {
                "nvml_memory_bytes": None,
                "total_basis": "given",
                "source": f"given; other facts from the catalogue's {known.name}",
                **replacements,
            }
        facts: dict[str, Any] = replacements
        return replace(known, **facts)

    def source_of(self, fact: str) -> str:
        """Return the source of a figure; empty if unknown."""
        return dict(self.sources).get(fact, "")


@cache
def catalogue() -> tuple[GPU, ...]:
    """Return the known GPUs: data centre, workstation, GeForce, unified, MIG slices."""
    return tuple(map(_entry, _table()["gpus"]))


def search(text: str) -> tuple[GPU, ...]:
    """Return the GPUs whose names, or generation, contain every word of `text`.

    Those whose own name begins with the text come first; an empty text finds all.
    """
    words = [_key(word) for word in text.split()]
    found = []
    for gpu in catalogue():
        names = [*names_of(gpu), generation_of(gpu.compute_capability)]
        if all(any(word in _key(name) for name in names) for word in words):
            found.append(gpu)
    start = _key(text)
    return tuple(sorted(found, key=lambda gpu: not _key(gpu.name).startswith(start)))


def gpu_dict(gpu: GPU) -> dict[str, Any]:
    """Return a GPU as plain values for JSON: its facts and their sources by name."""
    facts = {fact.name: getattr(gpu, fact.name) for fact in fields(GPU)}
    facts["processor"] = None if gpu.processor is None else asdict(gpu.processor)
    return facts | {
        "compute_capability": list(gpu.compute_capability),
        "dense_flops": dict(gpu.dense_flops),
        "aliases": list(gpu.aliases),
        "sources": dict(gpu.sources),
    }


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads((DATA / "gpus.json").read_text(encoding="utf-8"))
    return table | {"gpus": {facts["name"]: facts for facts in table["gpus"]}}


@cache
def _entry(name: str) -> GPU:
    """Read one entry; all sources except the total's are keys of `documents`."""
    facts, documents = dict(_table()["gpus"][name]), _table()["documents"]
    sources: dict[str, str] = dict(facts.pop("sources"))
    total_source = sources.pop("total_memory_bytes")
    named = {fact: documents[source] for fact, source in sources.items()}
    facts |= {name: tuple(facts[name]) for name in ("compute_capability", "aliases")}
    return GPU(
        source=total_source,
        sources=(("total_memory_bytes", total_source), *named.items()),
        **facts,
    )


def _of_size(total_bytes: int) -> GPU:
    """Return the GPU, not a MIG slice, whose total is nearest.

    Raises:
        PlannerError: where none is near enough.
    """
    whole = [gpu for gpu in catalogue() if not gpu.mig_profile]
    nearest = min(whole, key=lambda gpu: abs(gpu.total_memory_bytes - total_bytes))
    if abs(nearest.total_memory_bytes - total_bytes) > _SAME_SIZE * total_bytes:
        raise PlannerError(
            f"No GPU of the catalogue has {format_gib(total_bytes)}; the nearest is "
            f"{nearest.name} with {format_gib(nearest.total_memory_bytes)}. {_OWN_GPU}"
        )
    return nearest


def find_gpu(name: str) -> GPU | None:
    """Look up a name as written, its key, its key without a memory size, a machine."""
    if name in _table()["gpus"]:
        return _entry(name)  # the others need not be read
    index = _index()
    found = index.get(_key(name)) or _with_memory_size(name)
    if found is None:
        from planner.engine.cloud_machines import machine_named  # noqa: PLC0415 - rarely named

        found = index[machine.gpu] if (machine := machine_named(name)) else None
    return found


def _find(name: str | None) -> GPU:
    if not isinstance(name, str):
        what = f"A GPU is named by text such as 'H100', not by {name!r}."
        raise PlannerError(f"{what} {_OWN_GPU}")
    if (found := find_gpu(name)) is None:
        raise PlannerError(why_not_covered(name) or _why_unknown(name))
    return found


def _why_unknown(name: str) -> str:
    from planner.engine.cloud_machines import counted  # noqa: PLC0415 - rarely named

    named, many = counted(name)
    if known := _index().get(_key(named)):
        return (
            f"{name!r} names {many} GPUs: give one, gpu={known.name!r}, and spread the "
            f"model over them, such as by tensor_parallel_size={many}."
        )
    nearest = ", ".join(_nearest(name))
    return f"GPU {name!r} is not in the catalogue. Nearest: {nearest}. {_OWN_GPU}"


_OWN_GPU = (
    "`planner gpus` lists all; describe another as planner.GPU(name=..., total_memory_"
    f"bytes=..., compute_capability=(9, 0)), or in one line: {EXAMPLE}."
)


@cache
def _index() -> Mapping[str, GPU]:
    """Return the GPU of every key, and of each catalogue name as written."""
    keyed = {_key(name): gpu for gpu in catalogue() for name in names_of(gpu)}
    return keyed | {gpu.name: gpu for gpu in catalogue()}


def names_of(gpu: GPU) -> Iterator[str]:
    """Yield every name under which a GPU can be looked up."""
    yield gpu.name
    yield gpu.device_name
    yield from gpu.aliases


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]+|nvidia|geforce|tesla|quadro|jetson", "", name.lower())


def _with_memory_size(name: str) -> GPU | None:
    """Accept "RTX 4080 16GB", which has about that much; not "RTX 3080 12GB"."""
    match = re.match(r"(?i)(.+?)[\s_-]+([0-9]{1,3})\s*gb\s*\Z", name)
    gpu = _index().get(_key(match[1])) if match else None
    if match is None or gpu is None:
        return None
    named_bytes = int(match[2]) * GIB
    difference_bytes = abs(named_bytes - gpu.total_memory_bytes)
    return gpu if difference_bytes <= _MEMORY_TOLERANCE * named_bytes else None


def _nearest(name: str) -> list[str]:
    index, key = _index(), _key(name)[:_LONGEST_KEY]
    longer = [known for known in index if key and _key(known).startswith(key)]
    close = close_words(key, map(_key, index), most=9, cutoff=0.0)
    return list(dict.fromkeys(index[known].name for known in [*longer, *close]))[:3]


def _described_processor(facts: Mapping[str, Any]) -> GPU:
    """Return a processor with the given memory.

    Raises:
        PlannerError: without `total_memory_bytes`: no catalogue has it.
    """
    _check_fact_names(facts)
    if "total_memory_bytes" not in facts:
        raise PlannerError(
            "Only a machine itself can report its memory: plan with gpu='CPU' there, "
            "or describe it as planner.GPU(name='CPU', total_memory_bytes=...)."
        )
    return GPU(**{"name": CPU, **facts})


def _check_fact_names(replacements: Mapping[str, Any]) -> None:
    known = [fact.name for fact in fields(GPU)]
    for fact in replacements:
        if fact not in known:
            raise PlannerError(
                f"A GPU has no fact {fact!r}. It has: {', '.join(known)}."
            )


def _check(gpu: GPU) -> None:
    check_name(gpu.name)
    _check_size("total_memory_bytes", gpu.total_memory_bytes, minimum=1)
    for name in ("nvml_memory_bytes", "memory_bandwidth_bytes_per_second", "num_sms"):
        value = getattr(gpu, name)
        if value is not None:
            _check_size(name, value, minimum=1)
    _check_flops(gpu)
    _check_free(gpu)
    if not gpu.is_cpu:
        _check_capability(gpu)


def _check_size(name: str, value: object, *, minimum: int) -> None:
    # bool is a subclass of int, and "True bytes" is a mistake.
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise PlannerError(
            f"{name}={value!r} must be a whole number of at least {minimum}; "
            "80 GiB are written 80 * 2**30."
        )


def _check_flops(gpu: GPU) -> None:
    pairs: object = gpu.dense_flops
    if not isinstance(pairs, tuple) or any(
        not isinstance(pair, tuple) or len(pair) != len(("dtype", "figure"))
        for pair in pairs
    ):
        raise PlannerError(
            f"dense_flops={pairs!r}: give operations per second by dtype, such as "
            "{'bfloat16': 989 * 10**12}."
        )
    for dtype, figure in gpu.dense_flops:
        if dtype not in FLOPS_DTYPES:
            raise PlannerError(
                f"dense_flops has no dtype {dtype!r}: use {', '.join(FLOPS_DTYPES)}."
            )
        _check_size(f"dense_flops[{dtype!r}]", figure, minimum=1)


def _check_free(gpu: GPU) -> None:
    if gpu.free_memory_bytes is None:
        return
    _check_size("free_memory_bytes", gpu.free_memory_bytes, minimum=0)
    if gpu.free_memory_bytes > gpu.total_memory_bytes:
        raise PlannerError(
            f"free_memory_bytes is {format_gib(gpu.free_memory_bytes)}, more than "
            f"total_memory_bytes, {format_gib(gpu.total_memory_bytes)}."
        )


def _check_capability(gpu: GPU) -> None:
    capability: object = gpu.compute_capability
    # The repr of the tuple shows types, length and signs at once.
    if not re.match(r"\((?!0, 0\))[0-9]+, [0-9]+\)\Z", repr(capability)):
        raise PlannerError(
            f"compute_capability={capability!r} must be a pair of whole numbers, "
            "such as (9, 0)."
        )
