"""How many vLLM share one GPU, and the share that each gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from planner.errors import PlannerError
from planner.gpu import GPU
from planner.inputs import Inputs
from planner.load import Load
from planner.result import Plan
from planner.solve.asking import Start, asked, told_apart, whole
from planner.solve.budgets import STEP, Shares, at_share, smallest_share
from planner.solve.equal_shares import EqualShares
from planner.solve.nearest import nearest
from planner.solve.sharing import Instance, in_order
from planner.solve.solution import Solution
from planner.solve.words import counted, fails, wanted_text, where
from planner.units import format_gib

_QUESTION = "instances"


def instances_on_one_gpu(
    model: Start | Sequence[Start],
    gpu: str | GPU | Load | None = None,
    *,
    instances: int | None = None,
    load: Load | None = None,
    step: float = STEP,
    **arguments: Any,  # noqa: ANN401 - vLLM's own argument names and types
) -> Solution:
    """Find how many vLLM fit on one GPU, started one after the other, and their shares.

    `gpu_memory_utilization` is a share of the whole GPU for each of them, and vLLM
    checks that it is free. The k-th instance finds what the earlier ones leave: less
    their shares, and less what they hold beside (contexts, uncharged graphs).

    One model: the most instances of it, each with the same share, the largest with
    which so many start. A list: each with the share it was given, or the smallest that
    serves it, in this order.

    Args:
        model: as `planner.plan` takes it, or a plan whose arguments count; or a list.
        gpu: as `planner.plan` takes it; None: the (first) plan's, else H100. A Load
            counts as load=.
        instances: how many of one model are wanted; None: as many as there can be.
        load: that each must serve, also as prompt_tokens=, output_tokens= and
            requests=; None: one request of max_model_len tokens.
        step: of the shares that are tried.
        arguments: engine arguments of all, vllm_version, entrypoint and env.

    Raises:
        PlannerError: for input that cannot be planned; instances that do not fit are
            an answer.
    """
    shares = Shares.of(step)
    if isinstance(model, Sequence) and not isinstance(model, str):
        if instances is not None:
            raise PlannerError(
                f"instances={instances!r}: a list says how many there are; leave it "
                "out, or give one model."
            )
        where, each = told_apart(gpu, load)
        return _listed(model, where, each, shares, arguments)
    inputs, wanted = asked(model, gpu, load, arguments)
    number = None if instances is None else whole("instances", instances)
    return _equal(EqualShares.of(inputs, wanted, shares), number)


def _equal(equal: EqualShares, wanted: int | None) -> Solution:
    """Answer for instances of one model."""
    most = equal.most()
    if equal.least is None or not most:
        return _none_at_all(equal)
    one_more = equal.nth(equal.least, most + 1)
    beyond = (
        f"With {_share(one_more)} each, the least that serves, instance {most + 1} "
        f"{_fails(one_more)}."
    )
    asked_text = _asked(one_more.serving.plan, equal.load, wanted)
    if wanted is not None and wanted > most:
        return Solution(
            question=_QUESTION,
            asked=asked_text,
            value=None,
            unit="instances",
            plan=None,
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
        asked=asked_text,
        value=number,
        unit="instances",
        plan=started[-1].serving.plan,
        next_plan=one_more.serving.plan,
        why=f"{_told(started)} {beyond}",
        load=equal.load,
        plans=tuple(instance.serving.plan for instance in started),
    )


def _none_at_all(equal: EqualShares) -> Solution:
    """Say why not even one instance serves its load."""
    short = equal.alone()
    other = nearest(equal.inputs, equal.load)
    return Solution(
        question=_QUESTION,
        asked=_asked(short.serving.plan, equal.load, None),
        value=None,
        unit="instances",
        plan=None,
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
    """Answer for different instances, in the order of their start."""
    if not models:
        raise PlannerError("An empty list: give at least one model or plan.")
    starts: list[Inputs] = []
    wanted = None
    for model in models:
        where_to = gpu if not starts else starts[0].gpu
        inputs, wanted = asked(model, where_to, load, arguments)
        starts.append(_with_smallest_share(inputs, wanted, shares))
    started = in_order(starts, wanted)
    failed = [number for number, one in enumerate(started, 1) if not one.is_served]
    plans = tuple(instance.serving.plan for instance in started)
    names = " + ".join(plan.name for plan in plans)
    why = _told([one for one in started if one.is_served])
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
    """Return an instance with the share it was given, else the smallest it needs."""
    if inputs.engine_args.get("gpu_memory_utilization") is not None:
        return inputs
    least = smallest_share(at_share(inputs, load, shares), shares)
    share = shares.share(shares.most if least is None else least)
    return inputs.changed(gpu_memory_utilization=share)


def _told(started: Sequence[Instance]) -> str:
    """Say what each of some starts finds and takes."""
    return " ".join(
        f"Instance {number} at {_share(one)} finds {format_gib(one.free_bytes)} "
        f"free and holds {format_gib(one.held_bytes)} of it."
        for number, one in enumerate(started, 1)
    )


def _fails(instance: Instance) -> str:
    """Say why a start among others fails."""
    if not instance.serving.is_served:
        said = fails(instance.serving)
        return f"finds {format_gib(max(0, instance.free_bytes))} free: {said}"
    return (
        f"finds {format_gib(instance.free_bytes)} free, and would hold "
        f"{format_gib(instance.held_bytes)} with what lies beside its share"
    )


def _share(instance: Instance) -> str:
    share = instance.serving.plan.settings.gpu_memory_utilization
    return "vLLM's default share" if share is None else f"{share:g}"


def _asked(plan: Plan, load: Load | None, wanted: int | None) -> str:
    what = "most instances" if wanted is None else counted(wanted, "instances")
    return f"{what} of {where(plan)}, each for {wanted_text(load)}"
