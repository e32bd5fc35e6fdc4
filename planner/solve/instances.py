"""How many vLLM instances share one GPU, and the share that each gets.

`gpu_memory_utilization` is a share of the whole GPU for each instance. vLLM only checks
that its share is free, so the order of the starts matters. The next instance also lacks
what one holds outside its share: CUDA context, graphs that are not charged, workspaces.

Source: vLLM 0.33.0 `v1/worker/utils.py` request_memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.given import named_in_errors
from planner.memory.estimate import RankMemory
from planner.memory.lines.outside import CUDA_CONTEXT
from planner.planning.inputs import Inputs
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.planning.serving import Serving, serve
from planner.planning.words import fails, wanted_text, where
from planner.solve.arguments import Start, read_start, split_load, whole_number
from planner.solve.nearest import nearest
from planner.solve.search import STEP, Shares, at_share, largest, smallest_share
from planner.solve.search import largest_share as largest_free
from planner.solve.solution import Solution
from planner.units import counted, format_gib
from planner.values import frozen

_NOT_PLANNED = "not planned"
_MOST_INSTANCES = 1024
_QUESTION = "instances"


@frozen
class Instance:
    """One of several instances on the same GPU."""

    serving: Serving
    """The plan with the free memory that vLLM finds when it starts."""
    free_bytes: int
    """Free memory before it starts, without its own context."""
    held_bytes: int
    """Memory held once it serves: its share, and the most that is outside it."""

    @property
    def is_served(self) -> bool:
        """Whether it starts and serves, and everything it holds fits."""
        return self.serving.is_served and self.held_bytes <= self.free_bytes


@frozen
class EqualShares:
    """Identical instances: the model, the load of each, and the smallest share."""

    inputs: Inputs
    load: Load | None
    shares: Shares
    least: int | None
    """Steps of the smallest share that serves; None: not even one instance serves."""

    @classmethod
    def of(cls, inputs: Inputs, load: Load | None, shares: Shares) -> EqualShares:
        """Find the smallest share with which an instance serves its load."""
        least = smallest_share(at_share(inputs, load, shares), shares)
        return cls(inputs=inputs, load=load, shares=shares, least=least)

    def nth(self, steps: int, number: int) -> Instance:
        """Return instance `number`, where all have a share of `steps`."""
        return nth(self._with_share(steps), self.load, number)

    def most(self) -> int:
        """Return how many instances start one after the other; 0 where none does."""
        steps = self.least
        if steps is None:
            return 0
        return largest(lambda k: self.nth(steps, k).is_served, 1, _MOST_INSTANCES, 2)

    def alone(self) -> Instance:
        """Return a single instance with the largest free share."""
        at = at_share(self.inputs, self.load, self.shares)
        return self.nth(largest_free(at, self.shares), 1)

    def largest_share(self, number: int) -> int:
        """Return the steps of the largest share with which `number` instances start."""

        def starts(steps: int) -> bool:
            return self.nth(steps, number).is_served

        most = self.shares.most
        return largest(starts, self.least or 1, most, most // number)

    def started(self, steps: int, number: int) -> tuple[Instance, ...]:
        """Return `number` instances in the order of their start."""
        return in_order([self._with_share(steps)] * number, self.load)

    def _with_share(self, steps: int) -> Inputs:
        return self.inputs.changed(gpu_memory_utilization=self.shares.share(steps))


@named_in_errors
def instances_on_one_gpu(
    model: Start | Sequence[Start],
    gpu: str | GPU | Load | None = None,
    *,
    instances: int | None = None,
    load: Load | None = None,
    step: float = STEP,
    **arguments: Any,  # noqa: ANN401 - vLLM's own argument names and types
) -> Solution:
    """Find how many instances fit on one GPU, started one after the other.

    `gpu_memory_utilization` is a share of the whole GPU for each of them, and vLLM
    checks that it is free. The k-th instance finds what the earlier ones leave: the GPU
    less their shares and what they hold outside them (contexts, uncharged graphs).

    One model: the most instances of it, each with the same share, the largest with
    which that many start. A list: each with its given share, or the smallest that
    serves, in this order.

    Args:
        model: as `planner.plan` accepts it, or a plan whose arguments are reused;
            or a list.
        gpu: as `planner.plan` accepts it; None: the (first) plan's, else H100. A Load
            here is treated as load=.
        instances: how many of one model are wanted; None: as many as there can be.
        load: load of each instance, also as prompt_tokens=, output_tokens= and
            requests=; None: one request of max_model_len tokens.
        step: difference between the shares that are tried.
        arguments: engine arguments of all, vllm_version, entrypoint and env.

    Raises:
        PlannerError: for input that cannot be planned; instances that do not fit are
            not an error.
    """
    shares = Shares.of(step)
    if isinstance(model, Sequence) and not isinstance(model, str):
        if instances is not None:
            raise PlannerError(
                f"instances={instances!r}: the list already says how many; leave it "
                "out, or give one model."
            )
        where, each = split_load(gpu, load)
        return _listed(model, where, each, shares, arguments)
    inputs, wanted = read_start(model, gpu, load, arguments)
    number = None if instances is None else whole_number("instances", instances)
    return _equal(EqualShares.of(inputs, wanted, shares), number)


def _equal(equal: EqualShares, wanted: int | None) -> Solution:
    """Return the solution for instances of one model."""
    most = equal.most()
    if equal.least is None or not most:
        return _none_at_all(equal)
    one_more = equal.nth(equal.least, most + 1)
    beyond = (
        f"With {_share(one_more)} each, the smallest share that serves, instance "
        f"{most + 1} "
        f"{_fails(one_more)}."
    )
    question = _question_text(one_more.serving.plan, equal.load, wanted)
    if wanted is not None and wanted > most:
        return Solution(
            question=_QUESTION,
            asked=question,
            unit="instances",
            next_plan=one_more.serving.plan,
            why=f"{beyond} Nearest that fits: {counted(most, 'instances')}.",
        )
    number = wanted or most
    steps = equal.largest_share(number)
    started = equal.started(steps, number)
    if number < most:
        one_more = equal.nth(steps + 1, number)
        beyond = f"With {_share(one_more)} each, instance {number} {_fails(one_more)}."
    return Solution(
        question=_QUESTION,
        asked=question,
        value=number,
        unit="instances",
        plan=started[-1].serving.plan,
        next_plan=one_more.serving.plan,
        why=f"{_starts_text(started)} {beyond}",
        load=equal.load,
        plans=tuple(instance.serving.plan for instance in started),
    )


def _none_at_all(equal: EqualShares) -> Solution:
    """Return the solution where not even one instance serves its load."""
    short = equal.alone()
    other = nearest(equal.inputs, equal.load)
    return Solution(
        question=_QUESTION,
        asked=_question_text(short.serving.plan, equal.load, None),
        unit="instances",
        next_plan=short.serving.plan,
        why=f"Not even one serves it: {_fails(short)}. {other.sentence}",
        nearest=other.loads,
    )


def _listed(
    models: Sequence[Start],
    gpu: str | GPU | None,
    load: Load | None,
    shares: Shares,
    arguments: Mapping[str, Any],
) -> Solution:
    """Return the solution for different instances, in the order of their start."""
    if not models:
        raise PlannerError("An empty list: give at least one model or plan.")
    starts: list[Inputs] = []
    wanted = None
    for model in models:
        where_to = gpu if not starts else starts[0].gpu
        inputs, wanted = read_start(model, where_to, load, arguments)
        starts.append(_with_smallest_share(inputs, wanted, shares))
    started = in_order(starts, wanted)
    failed = [number for number, one in enumerate(started, 1) if not one.is_served]
    plans = tuple(instance.serving.plan for instance in started)
    names = " + ".join(plan.name for plan in plans)
    why = _starts_text([one for one in started if one.is_served])
    for number in failed:
        instance = started[number - 1]
        why += f" Instance {number} at {_share(instance)} {_fails(instance)}."
    if failed:
        count = len(started) - len(failed)
        why += f" Nearest that fits: {counted(count, 'instances')} without it."
    return Solution(
        question=_QUESTION,
        asked=f"{names} on one {plans[0].gpu.name} (vLLM {plans[0].vllm_version})",
        value=None if failed else len(started),
        unit="instances",
        plan=None if failed else plans[-1],
        next_plan=plans[failed[0] - 1] if failed else None,
        why=why.strip(),
        load=None if failed else wanted,
        plans=() if failed else plans,
    )


def _with_smallest_share(inputs: Inputs, load: Load | None, shares: Shares) -> Inputs:
    """Return the inputs with their given share, else with the smallest that serves."""
    if inputs.engine_args.get("gpu_memory_utilization") is not None:
        return inputs
    least = smallest_share(at_share(inputs, load, shares), shares)
    share = shares.share(shares.most if least is None else least)
    return inputs.changed(gpu_memory_utilization=share)


def in_order(starts: Iterable[Inputs], load: Load | None) -> tuple[Instance, ...]:
    """Start instances one after the other; one that does not start holds nothing."""
    found: list[Instance] = []
    for inputs in starts:
        before = found[-1] if found else None
        free: int | None = None
        if before is not None:
            held = before.held_bytes if before.is_served else 0
            free = before.free_bytes - held
        found.append(after(inputs, load, free))
    return tuple(found)


def nth(inputs: Inputs, load: Load | None, number: int) -> Instance:
    """Return the last of `number` identical instances."""
    first = after(inputs, load, None)
    if number == 1:
        return first
    return after(inputs, load, first.free_bytes - (number - 1) * first.held_bytes)


def after(inputs: Inputs, load: Load | None, free_bytes: int | None) -> Instance:
    """Start with the memory that others have left free; None: as the GPU reports."""
    alone = serve(inputs, load)
    gpu = alone.plan.gpu
    held = held_bytes(alone.plan)
    if free_bytes is None:
        free = gpu.free_memory_bytes
        seen = gpu.total_memory_bytes if free is None else free
        return Instance(serving=alone, free_bytes=seen, held_bytes=held)
    # vLLM checks after its own context is allocated.
    seen = max(0, free_bytes - _context_bytes(alone.plan))
    here: GPU = replace(gpu, free_memory_bytes=seen)
    return Instance(
        serving=serve(inputs.changed(gpu=here), load),
        free_bytes=free_bytes,
        held_bytes=held,
    )


def held_bytes(plan: Plan) -> int:
    """Return what an instance holds of each GPU, inside and outside its share."""
    return max((_held(rank) for rank in plan.ranks), default=0)


def _held(rank: RankMemory) -> int:
    beside = sum(line.high_bytes for line in rank.outside)
    rest = [line.size_bytes for line in rank.lines if line.name == _NOT_PLANNED]
    return rank.requested_memory_bytes - sum(rest) + beside


def _context_bytes(plan: Plan) -> int:
    return max(
        (
            line.high_bytes
            for rank in plan.ranks
            for line in rank.outside
            if line.name == CUDA_CONTEXT
        ),
        default=0,
    )


def _starts_text(started: Sequence[Instance]) -> str:
    """Describe what each instance finds free and holds."""
    return " ".join(
        f"Instance {number} at {_share(one)} finds {format_gib(one.free_bytes)} "
        f"free and holds {format_gib(one.held_bytes)} of it."
        for number, one in enumerate(started, 1)
    )


def _fails(instance: Instance) -> str:
    """Describe why an instance fails."""
    if not instance.serving.is_served:
        reason = fails(instance.serving)
        return f"finds {format_gib(max(0, instance.free_bytes))} free: {reason}"
    return (
        f"finds {format_gib(instance.free_bytes)} free, and would hold "
        f"{format_gib(instance.held_bytes)} together with what is outside its share"
    )


def _share(instance: Instance) -> str:
    share = instance.serving.plan.settings.gpu_memory_utilization
    return "vLLM's default share" if share is None else f"{share:g}"


def _question_text(plan: Plan, load: Load | None, wanted: int | None) -> str:
    what = "most instances" if wanted is None else counted(wanted, "instances")
    return f"{what} of {where(plan)}, each for {wanted_text(load)}"
