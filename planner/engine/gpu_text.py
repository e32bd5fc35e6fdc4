"""A GPU described in one line of text, as the command line and links take it.

    name=MyGPU,memory=48GiB,capability=8.9,bandwidth=900GB/s,bf16=180TFLOPS

`facts_of` reads such a line, `gpu_text` writes it. Semicolons may separate the parts as
well, for lists of GPUs, and colons may follow the names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from planner.errors import PlannerError
from planner.units import GIB, MIB, format_gib, parse_size

if TYPE_CHECKING:
    from planner.engine.gpu import GPU

EXAMPLE = "name=MyGPU,memory=48GiB,capability=8.9,bandwidth=900GB/s"
_LONGEST = 256
LONGEST_NAME = 128
"""Characters of a GPU's name: the driver's has up to 95, and a slice's profile."""
_PART = r"(?s)\s*(\w+)\s*[=:](.*)"
_NUMBER = r"(?a)([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z/]*)\Z"
_CAPABILITY = r"(?a)([0-9]{1,3})\.([0-9]{1,3})\Z"

_SIZES = {"GiB": GIB, "MiB": MIB, "B": 1}
_RATES = {f"{unit}/s": 10**power for unit, power in (("GB", 9), ("MB", 6), ("TB", 12))}
_RATES["B/s"] = 1
_PEAKS = {
    f"{prefix}{unit}": 10**power
    for prefix, power in (("T", 12), ("G", 9), ("P", 15), ("", 0))
    for unit in ("FLOPS", "FLOP/s", "OPS")
}
_DTYPES = {
    "bf16": "bfloat16",
    "bfloat16": "bfloat16",
    "fp16": "float16",
    "float16": "float16",
    "fp8": "fp8",
    "fp4": "fp4",
    "int8": "int8",
}
_SHORT = {"bfloat16": "bf16", "float16": "fp16"}


def is_description(text: str) -> bool:
    """Whether a text describes a GPU rather than naming one.

    >>> is_description("name=MyGPU,memory=48GiB,capability=8.9"), is_description("L4")
    (True, False)
    """
    first = re.match(_PART, re.split("[,;]", text, maxsplit=1)[0])
    return first is not None and first[1].lower() in (*_READERS, *_DTYPES)


def facts_of(text: str) -> dict[str, Any]:
    """Return the facts of a described GPU, by their names in `GPU`.

    Raises:
        PlannerError: for a part that is unknown, missing, repeated or not understood.

    >>> facts_of("name=A,memory=1GiB,capability=8.9")
    {'name': 'A', 'total_memory_bytes': 1073741824, 'compute_capability': (8, 9)}
    """
    if len(text) > _LONGEST:
        raise _wrong(f"a GPU is described in at most {_LONGEST} characters")
    facts: dict[str, Any] = {}
    peaks: dict[str, int] = {}
    seen = set()
    for key, value in _parts(text):
        field = _DTYPES.get(key, key)
        if field in seen:
            raise _wrong(f"{key!r} is given twice")
        seen.add(field)
        if key in _DTYPES:
            peaks[field] = _scaled(key, value, _PEAKS)
        else:
            fact, reader = _READERS[key]
            facts[fact] = reader(key, value)
    for key in _NEEDED:
        if key not in seen:
            raise _wrong(f"{key!r} is missing")
    return facts | ({"dense_flops": peaks} if peaks else {})


def gpu_text(gpu: GPU) -> str:
    """Write a GPU as one line: the facts that `facts_of` reads, and no others.

    >>> from planner.engine.gpu import GPU
    >>> gpu_text(GPU(name="A", total_memory_bytes=48 * GIB, compute_capability=(8, 9)))
    'name=A,memory=48GiB,capability=8.9'

    Raises:
        PlannerError: for a processor, or a name with a separator in it.
    """
    if gpu.is_cpu or re.search("[,;]", gpu.name):
        raise _wrong(f"{gpu.name!r} cannot be written so")
    major, minor = gpu.compute_capability
    texts = {
        "name": gpu.name,
        "memory": _shortest(gpu.total_memory_bytes, ("GiB", "MiB", "B"), _SIZES),
        "capability": f"{major}.{minor}",
    }
    free, rate = gpu.free_memory_bytes, gpu.memory_bandwidth_bytes_per_second
    if free is not None:
        texts["free"] = _shortest(free, ("GiB", "MiB", "B"), _SIZES)
    if rate is not None:
        texts["bandwidth"] = _shortest(rate, ("GB/s", "MB/s", "B/s"), _RATES)
    if gpu.num_sms is not None:
        texts["sms"] = str(gpu.num_sms)
    for dtype, peak in gpu.dense_flops:
        written = _shortest(peak, ("TFLOPS", "GFLOPS", "FLOPS"), _PEAKS)
        texts[_SHORT.get(dtype, dtype)] = written
    return ",".join(f"{key}={value}" for key, value in texts.items())


def gpu_line(gpu: GPU) -> str:
    """Write a GPU as one line of a list.

    >>> from planner.engine.gpu import GPU
    >>> gpu_line(GPU.named("H100"))
    'H100                   79.19 GiB  cc 9.0   132 SMs  3,350 GB/s  measured'
    """
    capability = ".".join(map(str, gpu.compute_capability))
    capability = "" if gpu.is_cpu else f"cc {capability}"
    sms = "" if gpu.num_sms is None else f"{gpu.num_sms} SMs"
    bandwidth = gpu.memory_bandwidth_bytes_per_second
    speed = "" if bandwidth is None else f"{bandwidth // 10**9:,} GB/s"
    memory = format_gib(gpu.total_memory_bytes)
    return (
        f"{gpu.name:21} {memory:>10}  {capability:<7} {sms:>8}  "
        f"{speed:>10}  {gpu.total_basis}"
    )


def _parts(text: str) -> Iterator[tuple[str, str]]:
    for piece in re.split("[,;]", text):
        match = re.match(_PART, piece)
        if match is None:
            raise _wrong(f"{piece.strip()!r} is not of the form part=value")
        key = match[1].lower()
        if key not in _READERS and key not in _DTYPES:
            known = ", ".join((*_READERS, *_SHORT.values(), "fp8", "fp4", "int8"))
            raise _wrong(f"{match[1]!r} is not one of {known}")
        yield key, match[2].strip()


def _name(_key: str, text: str) -> str:
    if not 0 < len(text) <= LONGEST_NAME:
        raise _wrong(f"a name has 1 to {LONGEST_NAME} characters")
    return text


def check_name(name: object) -> None:
    """Refuse what no plan file and no link could say.

    Raises:
        PlannerError: for a name that is no text, or too long.
    """
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        raise PlannerError(
            f"A GPU's name is a text of at most {LONGEST_NAME} characters, such as "
            "'MyGPU'."
        )
    if any("\ud800" <= character <= "\udfff" for character in name):
        raise PlannerError(
            f"A GPU's name, {name[:40]!a}, has half a character of UTF-16."
        )


def _size(_key: str, text: str) -> int:
    return parse_size(text)


def _rate(key: str, text: str) -> int:
    return _scaled(key, text, _RATES)


def _count(key: str, text: str) -> int:
    if not re.fullmatch("[0-9]{1,6}", text, re.ASCII):
        raise _wrong(f"{key}={text!r} is not a whole number")
    return int(text)


def _pair(key: str, text: str) -> tuple[int, int]:
    match = re.match(_CAPABILITY, text)
    if match is None:
        raise _wrong(f"{key}={text!r} is not a compute capability such as 8.9")
    return int(match[1]), int(match[2])


def _scaled(key: str, text: str, units: Mapping[str, int]) -> int:
    """Read a number with a unit as a whole number; case does not matter."""
    match = re.match(_NUMBER, text)
    by_name = {unit.lower(): scale for unit, scale in units.items()}
    scale = None if match is None else by_name.get(match[2].lower())
    if match is None or scale is None:
        raise _wrong(f"{key}={text!r} needs a number and one of {', '.join(units)}")
    from decimal import Decimal  # noqa: PLC0415 - slow

    number = Decimal(match[1])
    return int(number * scale)


def _shortest(value: int, names: tuple[str, ...], units: Mapping[str, int]) -> str:
    """Write a number in the first unit of which it is a multiple."""
    name = next(name for name in names if value % units[name] == 0)
    return f"{value // units[name]}{name}"


def _wrong(reason: str) -> PlannerError:
    return PlannerError(
        f"The description of a GPU was not understood: {reason}. Write it as "
        f"{EXAMPLE}; free=, sms= and the peaks bf16=, fp16=, fp8=, fp4= and int8= "
        "(such as 180TFLOPS, without sparsity) may follow."
    )


_READERS: Mapping[str, tuple[str, Callable[[str, str], Any]]] = {
    "name": ("name", _name),
    "memory": ("total_memory_bytes", _size),
    "capability": ("compute_capability", _pair),
    "bandwidth": ("memory_bandwidth_bytes_per_second", _rate),
    "free": ("free_memory_bytes", _size),
    "sms": ("num_sms", _count),
}
_NEEDED = ("name", "memory", "capability")
