"""What stands around a command: the GPUs and the release that a text names elsewhere.

A job's directives, the function that a cloud runs, an installation, a sentence.

Source: Slurm 24.11 sbatch (--gres, --gpus, --gpus-per-node, --nodes, SLURM_*); PBS
Professional (select, ngpus); Modal (`gpu="H100:2"`); vLLM's own requirement and images.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from planner.engine.cloud_machines import Machine, machine_named
from planner.engine.gpu import GPU
from planner.engine.not_covered import not_covered_in
from planner.errors import PlannerError
from planner.reading.passage import Passage
from planner.reading.questions.noted import noted_gpu
from planner.reading.scripts.shell import Word
from planner.reading.sites import Site, Start
from planner.reading.starts.command import env_site
from planner.reading.starts.images import gpu_named_in

_LONGEST = 20_000
"""Characters of a text that is searched."""
_RELEASE = re.compile(
    r"(?:\bvllm(?:\[[\w,-]+\])?\s*==\s*|\bvllm-openai[:_]v?"
    r"|(?i:\bvllm(?: version| release)?(?: is|:)? v?))"
    r"(?P<version>\d{1,4}\.\d{1,4}(?:\.\d{1,4}(?:\.?(?:post|rc)\d{1,4})?)?)"
    r"(?![\w.]*\d)"
)
_SLURM = re.compile(
    r"--?(?P<flag>gres|gpus-per-node|gpus|G)[= ]\s*(?:gpu:)?"
    r"(?:(?P<gpu>[A-Za-z][\w.-]*):)?(?P<count>[1-9]\d?)\b"
)
_SLURM_NODES = re.compile(r"^#SBATCH\s+(?:--nodes=|-N\s*)(?P<count>[1-9]\d?)\b", re.M)
_PBS = re.compile(r"^#PBS\s.*?\bngpus=(?P<count>[1-9]\d?)\b", re.MULTILINE)
_BY_NAME = re.compile(
    r"\b(?:gpu|gpu_type|accelerator|accelerator_type)[\"']?\s*[=:]\s*"
    r"[fF]?[\"'](?P<gpu>[A-Za-z][\w. -]*?)!?(?::(?P<count>[1-9]\d?))?[\"']"
)
_MACHINE = re.compile(r"(?i:\b[DH]GX[ -][ABH]\d00\b)|[A-Za-z][.\w-]*\w")
_LIKE_NVIDIA = re.compile(
    r"(?<![\w./-])(?:(?:NVIDIA|GeForce|Tesla|Quadro)\s+){0,3}"
    r"(?:(?i:RTX|GTX)[\s-]*(?i:PRO[\s-]*)?A?\d{3,4}(?:[\s-]*(?i:Ti|SUPER|Ada|Laptop|Mobile|Max-Q)\b)*"
    r"|[ABHRV][1-9]\d0[A-Z]?|L\d0S?|P40|P100|K80|M[46]0"
    r"|(?<=[aAoOeE] )[KMPT]\d{3,4}M?|(?i:MX)[1-5]\d0)(?!\w)",
    re.ASCII,
)
_ON_CPU = re.compile(
    r"(?i:\bCPU[\s-]*only\b|\b(?:no|without(?: a| any)?|sans|ohne|sin|kein\w*) GPU\b"
    r"|\b(?:on|auf|sur|en|mit|with)(?: (?:a|an|the|my|einer|der|meiner|un|une|una|mon"
    r"|mi|el|le|la))? CPU\b(?![ -]?(?:mem|off))"
    r"|[\u4ec5\u53ea]\S{0,2} ?CPU|[\u65e0\u6ca1]\S? ?GPU|CPU ?\u4e0a)"
)
_ON_A_CPU = (
    "The text names a CPU, and not its memory. Plan on that machine with gpu='CPU', or "
    "describe it: planner.GPU(name='CPU', total_memory_bytes=...)."
)
_COUNT_OF_JOB = ("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE")


def told_around(start: Start, text: str, others: Iterable[Start] = ()) -> Start:
    """Return a start with the GPU, their number and the release named around it.

    What the command itself tells stays, and what the text names twice is left open. The
    release of another start's image is that start's alone.
    """
    if len(text) > _LONGEST:
        return start
    gpu, count = (start.gpu, None) if start.gpu else _gpu(text)
    granted = _granted(text) or count
    notes = [_words(gpu)] if gpu and not start.gpu else []
    release = release_in(text)
    own = {span for one in others if one.version for span in one.version.at}
    return replace(
        start,
        gpu=gpu,
        gpus=start.gpus or granted,
        version=start.version or (None if release and own & {*release.at} else release),
        notes=(*start.notes, *notes),
    )


@lru_cache(maxsize=1)  # of a text with many starts, each asks
def why_not_planned(text: str) -> str:
    """Return why the device of a text is none to plan for; empty: it names none.

    >>> why_not_planned("Qwen3-8B on an RTX 9090").partition(".")[0]
    "GPU 'RTX 9090' is not in the catalogue"
    """
    name, _ = next(not_planned_in(text[:_LONGEST]), ("", None))
    if not name:
        return _ON_A_CPU if _ON_CPU.search(text[:_LONGEST]) else ""
    return why_unknown(name)


def why_unknown(name: str) -> str:
    """Return why a device is none to plan for."""
    try:
        GPU.named(name)
    except PlannerError as error:
        return str(error)
    return ""


def not_planned_in(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the devices of a text that no plan is for, with their places.

    Of a machine's name and its chip's, as in "MacBook with M3 Max", the chip comes
    first, which has a number.
    """
    found = not_covered_in(text)
    for match in _LIKE_NVIDIA.finditer(text):
        is_apart = all(
            match.end() <= at or to <= match.start() for _, (at, to) in found
        )
        if is_apart and not gpu_named_in(match[0]):
            found.append((match[0], match.span()))
    yield from sorted(found, key=lambda one: not re.search(r"\d", one[0]))


def job_variables(text: str) -> dict[str, str]:
    """Return the variables that a scheduler sets for a job, by its directives.

    >>> job_variables("#SBATCH --gres=gpu:a100:4")["SLURM_GPUS_ON_NODE"]
    '4'
    """
    match = _SLURM.search(text) if "#SBATCH" in text[:_LONGEST] else None
    if match is None:
        return {}
    nodes = _SLURM_NODES.search(text)
    return dict.fromkeys(_COUNT_OF_JOB, match["count"]) | {
        "SLURM_NNODES": nodes["count"] if nodes else "1",
        "SLURM_JOB_NUM_NODES": nodes["count"] if nodes else "1",
    }


def release_in(text: str) -> Site | None:
    """Return the one release of vLLM that a text names; None for none or several."""
    found = list(_RELEASE.finditer(text))
    if len({match["version"] for match in found}) != 1:
        return None
    start, end = found[0].span("version")
    whole = Passage.whole(text).part(start, end)
    return env_site(
        "vllm_version", Word(passage=whole, start=start, end=end, write=str)
    )


def _words(gpu: str | GPU) -> str:
    return f"Planned on {_name(gpu)}, which the text names."


@lru_cache(maxsize=1)  # of a text with many starts, each asks
def _gpu(text: str) -> tuple[str | GPU | None, int | None]:
    """Return the one GPU that a text names, and how many where it says so."""
    named = list(_named(text))
    gpus = {_name(gpu): gpu for gpu, _ in named}
    if not gpus:
        return noted_gpu(text), None
    if len(gpus) > 1:
        return None, None
    count = next((count for _, count in named if count), None)
    return next(iter(gpus.values())), count


def _name(gpu: str | GPU) -> str:
    return gpu.name if isinstance(gpu, GPU) else gpu


def _named(text: str) -> Iterator[tuple[str | GPU, int | None]]:
    """Yield the GPUs that directives, arguments and types of machines name."""
    for match in (*_SLURM.finditer(text), *_BY_NAME.finditer(text)):
        gpu = gpu_named_in(match["gpu"]) if match["gpu"] else None
        if gpu is not None:
            yield gpu, int(match["count"]) if match["count"] else None
    for machine, _ in machines_in(text):
        yield machine.gpu, machine.gpus


def machines_in(text: str) -> Iterator[tuple[Machine, tuple[int, int]]]:
    """Yield the types of machines that a text names, with their places."""
    for match in _MACHINE.finditer(text):
        machine = machine_named(match[0].replace(" ", "-"))
        if machine is not None:
            yield machine, match.span()


def _granted(text: str) -> int | None:
    """Return the GPUs that a scheduler grants each node, times the nodes."""
    match = _SLURM.search(text) if "SBATCH" in text or "srun" in text else None
    match = match or _PBS.search(text)
    if match is None:
        return None
    nodes = _SLURM_NODES.search(text)
    return int(match["count"]) * (int(nodes["count"]) if nodes else 1)
