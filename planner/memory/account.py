"""The values of a memory account: lines, how each is known, parts of the weights."""

from __future__ import annotations

from enum import StrEnum

from planner.values import frozen


class Basis(StrEnum):
    """How a figure is known, most certain first."""

    EXACT = "exact"  # determined by the model's files and vLLM's code
    DRY_RUN = "dry run"  # measured by vLLM itself, on a GPU that is not there
    FORMULA = "formula"  # derived from vLLM's code, with a range where it is a bound
    MEASURED = "measured"  # from a named measured record
    ASSUMED = "assumed"  # an assumption of the planner


@frozen
class Variant:
    """A line as it is where something is so that no engine argument shows."""

    argument: str
    """The planner's own argument that says it: compile_cache or sampler."""
    value: str
    more_bytes: int
    """How much more the line takes than planned; 0 for what is planned."""
    is_open: bool
    """Whether the user has not said which it is."""


@frozen
class Line:
    """One line of a rank's memory account."""

    name: str
    """vLLM's name for the line, as shown in tables and legends."""
    size_bytes: int
    low_bytes: int
    high_bytes: int
    basis: Basis
    why: str
    """The arithmetic with this plan's numbers, written by the code that computed it."""
    record: str = ""
    """Id of the user's own measured start that the figure is taken from, if any."""
    variants: tuple[Variant, ...] = ()
    """What the line is otherwise; the range holds for what is planned."""


@frozen
class WeightPart:
    """Bytes of one part of the weights (attention, mlp, experts, ...) on a rank."""

    name: str
    size_bytes: int


NOT_SERVED = "not_served"
"""The kind of the error of a start that ends once it has loaded what is planned."""


@frozen
class VLLMError:
    """Why vLLM would not start, as vLLM words it."""

    kind: str
    """refused, weights, no_kv, max_model_len, free_memory, num_seqs; too_close,
    host_memory, outside_budget and not_served are the planner's own."""
    message: str


class Per(StrEnum):
    """The unit that allocates a line of CPU memory: how often the line counts."""

    WORKER = "worker"  # once per GPU, by its process
    ENGINE = "engine"  # once per engine, that is per data-parallel rank
    NODE = "node"  # once per machine


@frozen
class HostLine:
    """Something that one worker, engine or node allocates in CPU memory."""

    name: str
    """As shown in tables and legends."""
    size_bytes: int
    """Per worker, engine or node."""
    basis: Basis
    why: str
    """The arithmetic with this plan's numbers."""
    per: Per = Per.WORKER
    is_usual: bool = False
    """Whether every start allocates it, so that it alone needs no mention."""


@frozen
class Sized:
    """A size and its arithmetic."""

    size_bytes: int
    why: str = ""
    """Empty where the size is 0."""
    tensors: tuple[int, ...] = ()
    """Bytes of the tensors that it is made of, as far as they are known."""


NOTHING = Sized(size_bytes=0)


def larger(sizes: list[Sized]) -> Sized:
    """Return the largest of the sizes; NOTHING for an empty list."""
    return max(sizes, key=lambda sized: sized.size_bytes, default=NOTHING)


@frozen
class Ranged:
    """A size with its range and its arithmetic."""

    size_bytes: int
    low_bytes: int
    high_bytes: int
    why: str = ""


def around(size_bytes: int, spread_bytes: int, why: str) -> Ranged:
    """Return a size whose range is as wide on both sides."""
    low, high = size_bytes - spread_bytes, size_bytes + spread_bytes
    return Ranged(size_bytes=size_bytes, low_bytes=low, high_bytes=high, why=why)


def line_of(
    name: str, sizes: int | tuple[int, int, int], basis: Basis, why: str
) -> Line:
    """Return a line of one size, or of a low end, middle and high end."""
    low, middle, high = (sizes,) * 3 if isinstance(sizes, int) else sizes
    return Line(
        name=name,
        size_bytes=middle,
        low_bytes=low,
        high_bytes=high,
        basis=basis,
        why=why,
    )
