"""The names of GPUs as people write them: "4090s", "2080ti", "A100 PCIe"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from planner.engine.gpu import GPU
from planner.reading.starts.images import GPU_FORM, NAMED_GPU, gpu_named_in
from planner.units import GIB, format_gib
from planner.values import frozen

_GPU = re.compile(
    r"(?:(?<![A-Za-z0-9.-])|(?<=\d[xX*])(?<!\d\d\d[xX*]))"
    r"(?P<gpu>(?:NVIDIA[\s-]+|GeForce\s+|Tesla\s+|Quadro\s+|Jetson\s+|AGX\s+)*"
    rf"(?:{NAMED_GPU}"
    r"|(?P<bare>[1-5]0[5-9]0)"
    r"(?!\s?(?:tok|user|(?:ctx|cont|Kont)(?!\w*[ =:]*\d)|req|jet|Nutz|词|トー|上下)))"
    rf"(?:[\s-]*(?:{GPU_FORM}|MIG-\dg\.\d+gb|(?<=-)\d+GB?|(?<=[AH]100[ -])[48]0)"
    r"(?![A-Za-z0-9]))*)s?(?!(?!x\d)[A-Za-z0-9_-]|\.\d)",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"(?:\b(?:an?|my|the|our|this|one|two|three|four|eight|single|dual|\d{1,2})"
    r"|\d ?[xX*\u00d7]|[\u5f20\u5757\u679a])\s?\Z",
    re.IGNORECASE,
)
"""What stands before a number that is a GPU's, also in a text with other numbers."""
_BEFORE = 12
_USUAL = (
    (re.compile(r"(?i)RTX[\s-]*(\d{4})[\s-]*(?:PRO|Blackwell)\b"), r"RTX PRO \1"),
    (re.compile(r"(?i)(?<=[\s-])(\d{2,3})G?\Z"), r"\1GB"),
)
"""What people turn round or cut short in a GPU's name."""
_SIZE = re.compile(r"[\s(-]{0,2}(?P<gigabytes>\d{1,3}) ?(?:GiB|GB?)\b", re.IGNORECASE)
"""The memory that is written behind a GPU."""
_OF_A_LAPTOP = re.compile(
    r"[\s(-]{0,2}(?:Laptop|Mobile|Notebook|Max-Q)(?![A-Za-z0-9])(?: ?GPU)?\)?",
    re.IGNORECASE,
)
"""It has the name of a desktop's GPU and another memory, which has to be told."""
_ALIKE = 0.12
"""A size that is sold as so much is reported a little smaller."""
_REPORTED = 0.98
"""What a GPU reports of the memory that it is sold with, about."""
_LEAST, _MOST = 0.4, 2.2
"""A laptop's GPU has half of the desktop's memory, a rebuilt one twice as much."""


@frozen
class WrittenGPU:
    """A GPU where a text names it."""

    name: str
    gpu: str | GPU | None
    """None for one that the catalogue does not have."""
    span: tuple[int, int]
    is_bare: bool
    """Whether it is a number alone, such as 3090."""
    is_counted: bool
    """Whether a number or an article stands before it."""
    gigabytes: int | None = None
    """The memory that is written right behind it."""


def gpus_written_in(text: str) -> Iterator[WrittenGPU]:
    """Yield the GPUs that a text names, in its order.

    >>> [one.gpu.name for one in gpus_written_in("two 3090s, or an l4")]
    ['RTX3090', 'L4']
    """
    for match in _GPU.finditer(text):
        written = re.sub(r"\s+", " ", match["gpu"]).strip()
        name = f"RTX {written}" if match["bare"] else _usual(written)
        start, end = match.span("gpu")
        mobile = _OF_A_LAPTOP.match(text, match.end())
        end = mobile.end() if mobile else end
        size = _SIZE.match(text, max(end, match.end()))
        sold = f"{name} {size['gigabytes']}GB" if size else ""
        gpu = gpu_named_in(name) or gpu_named_in(sold)
        yield WrittenGPU(
            name=f"{name} Laptop" if mobile else name,
            gpu=None if mobile and not size else gpu,
            span=(start, end),
            is_bare=bool(match["bare"]),
            is_counted=bool(_COUNTED.search(text[max(start - _BEFORE, 0) : start])),
            gigabytes=int(size["gigabytes"]) if size else None,
        )


def _usual(written: str) -> str:
    """Return a name as the catalogue has it: of "A100s", "RTX 6000 Pro", "A100-80G"."""
    name = written
    for pattern, usual in _USUAL:
        name = pattern.sub(usual, name)
    is_several = name[-1:] in "sS" and gpu_named_in(name) is None
    return name[:-1] if is_several else name


def with_memory(
    name: str, gpu: str | GPU, gigabytes: float
) -> tuple[str | GPU | None, str]:
    """Return a GPU with the memory that a text gives it, and what to say of that.

    Args:
        name: what the text calls it.
        gpu: what the catalogue has under that name.
        gigabytes: the memory; no GPU comes back where such a one has never so much.

    >>> with_memory("RTX 9999", "H100", 1000)
    (None, '')
    """
    named = gpu_named_in(f"{name} {gigabytes:g}GB")
    if named is not None or is_of_size(gpu, gigabytes):
        return named or gpu, ""
    known = gpu if isinstance(gpu, GPU) else GPU.named(gpu)
    total = round(_REPORTED * gigabytes * GIB)
    if not _LEAST <= total / known.total_memory_bytes <= _MOST:
        return None, ""
    return GPU.named(known.name, total_memory_bytes=total), (
        f"{known.name} has {format_gib(known.total_memory_bytes)} in the catalogue; "
        f"planned with {format_gib(total)}, of the text's {gigabytes:g} GB."
    )


def is_of_size(gpu: str | GPU | None, gigabytes: float) -> bool:
    """Return whether a GPU is sold with so many GB."""
    named = gpu if isinstance(gpu, GPU) else GPU.named(str(gpu))
    total = named.total_memory_bytes / GIB
    return abs(total / gigabytes - 1) <= _ALIKE if gigabytes else False
