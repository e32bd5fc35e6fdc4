"""The form of the forecast: few fitted parameters over what a step reads and computes.

A step takes the time of reading and of computing, each at the share of the GPU's peak
that was measured, and an overhead for each layer and each request. Prompts of others
are computed between the steps of an answer.

Source of the parameters: `planner/data/speed.json`, fitted by `tools/fit_speed.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import hypot
from typing import TypeAlias

from planner.engine.gpu import GPU
from planner.engine.links import Link, link_of
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.solve.speed.running import Same, known_work, running
from planner.solve.speed.step import Peaks, Step, decode_step, mean_of, prompt_steps
from planner.values import frozen

Parameters: TypeAlias = "Mapping[str, float]"
"""Values by name; their units and sources are in the data file."""
_LINK_BYTES_PER_SECOND = {"NVLink": 300e9, "PCIe": 5e9, "network": 12e9}
"""What connects the GPUs of a start: `planner.engine.links`, or a network.

Assumed, rounded: NVLink of the A100, PCIe 4.0 through the memory of the processor
(of 3 to 12 GB/s, what explains sources that were left out), a port of 100 Gbit/s."""
_EAGER = 2.5
"""Assumed: times the overhead of a layer whose kernels no CUDA graph starts at once."""
_REDUCES, _ELEMENT_BYTES = 2, 2
"""All-reduces in a layer: after attention and after the feed-forward network."""
_WITH_HBM = frozenset({(8, 0), (9, 0), (10, 0), (10, 3)})
_FIRST_MEASURED = (8, 0)
_MOST_BITS = {"4 bits": 6.0, "8 bits": 12.0}
FORMATS = (*_MOST_BITS, "16 bits")
"""Classes of formats, by the bits in which a weight is stored on average."""


@frozen
class Kind:
    """What a measurement has in common with others near it."""

    memory: str
    """HBM, GDDR or unified: the class of the GPU."""
    weights: str
    """One of `FORMATS`."""
    gpus: str
    """one, or several: whether ranks talk to each other."""


@frozen
class Point:
    """What the time of a plan's steps depends on, besides the parameters."""

    kind: Kind
    link: str
    layers: int
    hidden_size: int
    tensor_ranks: int
    stages: int
    replicas: int
    has_experts: bool
    is_eager: bool
    load: Load
    running: int
    """Requests at once, in all replicas."""
    tokens: int
    """Of each request in a step: one, or those that speculation verifies."""
    step: Step
    """Of all running requests, at the GPU's peaks."""
    prompt: Step
    """All steps of one prompt alone."""
    prompt_steps: int
    prompt_tokens: int
    """Of a prompt, those that are computed: not found in the cache."""


@frozen
class Times:
    """What the form says, in seconds and tokens per second."""

    next_token_seconds: float
    first_token_seconds: float
    each_tokens_per_second: float
    """Of one request, after its first token."""
    total_tokens_per_second: float
    gained: float
    """Tokens of a request in a step; more than one with speculation."""
    parts: StepParts
    others_seconds: float
    """Of a next token, the prompts of others that are computed meanwhile."""


def figures_of(times: Times) -> dict[str, float]:
    """Return the figures that are measured, by name."""
    return {
        "next_token": times.next_token_seconds,
        "first_token": times.first_token_seconds,
        "total": times.total_tokens_per_second,
    }


@frozen
class StepParts:
    """The parts of a step, in seconds; reading and computing overlap in part."""

    reading: float
    computing: float
    layers: float
    requests: float
    reducing: float

    @property
    def seconds(self) -> float:
        """The whole step."""
        overhead = self.layers + self.requests + self.reducing
        return hypot(self.reading, self.computing) + overhead


def memory_of(gpu: GPU) -> str | None:
    """Return the kind of a GPU's memory; None where nothing like it was measured.

    >>> [memory_of(GPU.named(name)) for name in ("H100", "L40S", "GB10", "T4")]
    ['HBM', 'GDDR', 'unified', None]
    """
    if gpu.is_cpu or gpu.compute_capability < _FIRST_MEASURED:
        return None
    if gpu.is_integrated:
        return "unified"
    return "HBM" if gpu.compute_capability in _WITH_HBM else "GDDR"


def format_of(bits_per_weight: float) -> str:
    """Return the class of a format by the bits of a weight.

    >>> format_of(4.25), format_of(8), format_of(16)
    ('4 bits', '8 bits', '16 bits')
    """
    within = (name for name, most in _MOST_BITS.items() if bits_per_weight < most)
    return next(within, FORMATS[-1])


def kind_of(plan: Plan, memory: str) -> Kind:
    """Return what a plan on a GPU with that memory has in common with measured ones.

    Raises:
        PlannerError: for a plan that vLLM refuses.
    """
    work, ranks = known_work(Same(plan)), plan.settings.tensor_parallel_size or 1
    return Kind(
        memory=memory,
        weights=format_of(work.bits_per_weight),
        gpus="one" if ranks * len(work.stages) == 1 else "several",
    )


def point_of(plan: Plan, load: Load, memory: str, drafts: int = 0) -> Point:
    """Return what the time of a plan's steps depends on.

    Args:
        plan: the plan.
        load: the load.
        memory: kind of the GPU's memory.
        drafts: tokens that a step verifies for each request, besides its own.

    Raises:
        PlannerError: for a plan or a length that vLLM refuses, or for a GPU of unknown
            bandwidth.
    """
    work = known_work(Same(plan))
    resolved, model, settings = plan.resolved, plan.model, plan.settings
    if resolved is None or model is None:  # known_work has raised already
        raise AssertionError(plan.name)
    peaks = Peaks.of(plan.gpu, resolved.dtype)
    likely = running(plan, load).likely
    cached = load.reused_tokens if resolved.enable_prefix_caching else 0
    stages, most = len(work.stages), resolved.max_num_batched_tokens
    in_a_stage = max(likely / stages, work.replicas)
    tensor_ranks = settings.tensor_parallel_size or 1
    return Point(
        kind=kind_of(plan, memory),
        link=_link(plan, memory),
        layers=model.num_hidden_layers,
        hidden_size=model.hidden_size,
        tensor_ranks=tensor_ranks,
        stages=stages,
        replicas=work.replicas,
        has_experts=any(stage.experts for stage in work.stages),
        is_eager=resolved.enforce_eager,
        load=load,
        running=likely,
        tokens=1 + drafts,
        step=decode_step(
            work, peaks, in_a_stage, mean_of(load), cached, tokens=1 + drafts
        ),
        prompt=prompt_steps(work, peaks, load.mean_prompt, most, cached),
        prompt_steps=-(-(load.mean_prompt - cached) // most),
        prompt_tokens=load.mean_prompt - cached,
    )


def _link(plan: Plan, memory: str) -> str:
    """Return what all-reduces go over: unified memory stands for single machines."""
    if memory == "unified":
        return "network"
    is_slow = link_of(plan.gpu, plan.settings.interconnect) is Link.PCIE
    return "PCIe" if is_slow else "NVLink"


def times_of(point: Point, parameters: Parameters, gained: float = 1.0) -> Times:
    """Return the times of a point.

    Args:
        point: what they depend on.
        parameters: by name.
        gained: tokens that a request gains in a step; more than one with speculation.
    """
    load, at = point.load, parameters
    each = point.running / point.replicas
    parts = _step_parts(point, at, max(each / point.stages, 1))
    step = parts.seconds
    computing, alone = _prompt_seconds(point, at)
    # While one answer is generated, each other request brings a prompt once.
    others = max(each - 1, 0) * computing / point.stages
    others_each = others / max(load.mean_output, 1)
    token = step / gained + others_each
    first = at["server_seconds"] + alone + (step / 2 if point.running > 1 else 0)
    answer = max(load.mean_output - 1, 0) * token
    total = point.running * max(load.mean_output, 1) / (first + answer)
    waiting = max(load.requests - point.running, 0) / 2
    return Times(
        next_token_seconds=token,
        first_token_seconds=first
        + at["prompts_ahead"] * others
        + waiting * max(load.mean_output, 1) / total,
        each_tokens_per_second=1 / token,
        total_tokens_per_second=total,
        gained=gained,
        parts=parts,
        others_seconds=others_each,
    )


def _step_parts(point: Point, at: Parameters, each: float) -> StepParts:
    """Return the parts of a step; `each`: requests in one stage of a replica."""
    share = at[f"bandwidth_share_{point.kind.memory}"]
    return StepParts(
        reading=point.step.memory_seconds / share,
        computing=(point.step.compute_seconds or 0.0) / at[_peak_share(point)],
        layers=point.layers * _layer_seconds(point, at),
        requests=each * at["request_seconds"],
        reducing=_reducing(point, at, each * point.tokens),
    )


def _prompt_seconds(point: Point, at: Parameters) -> tuple[float, float]:
    """Return the time that a prompt computes, and its time alone."""
    share = at[_peak_share(point)]
    sent = _sent_seconds(point, point.prompt_tokens)
    computing = (point.prompt.compute_seconds or 0.0) / share + sent
    read = point.prompt.memory_seconds / at[f"bandwidth_share_{point.kind.memory}"]
    overhead = point.prompt_steps * point.layers * _layer_seconds(point, at)
    return computing, max(computing, read) + overhead


def _peak_share(point: Point) -> str:
    return f"peak_share_{'experts' if point.has_experts else 'dense'}"


def _layer_seconds(point: Point, at: Parameters) -> float:
    seconds = at["layer_seconds"] * (_EAGER if point.is_eager else 1)
    return seconds + (at["expert_layer_seconds"] if point.has_experts else 0)


def _reducing(point: Point, at: Parameters, tokens: float) -> float:
    """Return the time of the all-reduces of a step over tensor parallel ranks."""
    if point.tensor_ranks == 1:
        return 0.0
    times = _REDUCES * point.layers
    return times * at[f"reduce_seconds_{point.link}"] + _sent_seconds(point, tokens)


def _sent_seconds(point: Point, tokens: float) -> float:
    """Return the time in which a rank sends its part of all all-reduces."""
    ranks = point.tensor_ranks
    size_bytes = tokens * point.hidden_size * _ELEMENT_BYTES
    sent = 2 * (ranks - 1) / ranks * size_bytes
    return _REDUCES * point.layers * sent / _LINK_BYTES_PER_SECOND[point.link]
