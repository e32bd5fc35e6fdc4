"""The same start under one release after another, and which rule changed what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from planner.engine.releases import MODELLED, number_of, resolve_version
from planner.engine.releases.watched import Boundary, watched
from planner.errors import PlannerError
from planner.planning.inputs import Inputs
from planner.planning.planning import plan_as
from planner.planning.result import Plan
from planner.solve.upgrading.rules import Rule, rule_of
from planner.values import frozen

_FIGURES = ("num_gpu_blocks", "kv_cache_size_tokens")
HOST = "host memory"
_MOST_ROUNDS = 8
"""Rules that only others made visible are found after at most so many plans."""
_Number = tuple[int, int, int]


@frozen
class Setting:
    """An argument that vLLM resolves to another value."""

    name: str
    before: object
    after: object


@frozen
class Cause:
    """A rule that changed, and what it changes in this start."""

    rule: Rule | None
    """None: what is written in data, not code, such as when an argument came."""
    changes: Mapping[str, int]
    """Bytes of each line of the limiting rank that changed, and blocks and tokens."""
    settings: tuple[Setting, ...]
    """Arguments that vLLM resolves to something else."""
    verdict: str = ""
    """The new verdict, where it is another one."""


@frozen
class Step:
    """One release beside the one before it."""

    release: str
    plan: Plan | None
    """None: it cannot be planned, for the reason in `error`."""
    causes: tuple[Cause, ...] = ()
    error: str = ""


def between(first: str, last: str) -> list[str]:
    """Return the releases from one to another, both ends included."""
    first, last = str(first), str(last)  # a number does for `plan` as well
    low, high = sorted((first, last), key=number_of)
    inner = [n for n in MODELLED if number_of(low) < number_of(n) < number_of(high)]
    found = [low, *reversed(inner), *([high] if first != last else [])]
    return found if low == first else found[::-1]


def steps(inputs: Inputs, releases: Sequence[str]) -> Iterator[Step]:
    """Yield the start under each release; the first is what the others are beside.

    A release that cannot be planned is skipped: the next is beside the last that can.
    """
    before: tuple[str, Plan] | None = None
    for release in releases:
        try:
            rules, notes = resolve_version(release)
            plan = _plan(inputs, rules.number, rules.number, frozenset())
            plan = replace(plan, notes=(*notes, *plan.notes)) if notes else plan
        except PlannerError as error:
            yield Step(release=release, plan=None, error=str(error))
            continue
        causes = () if before is None else _causes(inputs, before, (release, plan))
        yield Step(release=release, plan=plan, causes=causes)
        before = (release, plan)


def _plan(
    inputs: Inputs, number: _Number, old: _Number, ignored: frozenset[Boundary]
) -> Plan:
    return plan_as(inputs, watched(number, old, ignored))


def _causes(
    inputs: Inputs, before: tuple[str, Plan], after: tuple[str, Plan]
) -> tuple[Cause, ...]:
    """Return what turns one plan into the next, rule after rule.

    All rules are put back first; each that is then let in changes what it changes.
    """
    if not _difference(before[1], after[1]):
        return ()
    old, new = (resolve_version(one[0])[0].number for one in (before, after))
    changed = _changed_rules(inputs, old, new)
    found, last = [], before[1]
    for count in range(len(changed) + 1):
        ignored = frozenset(changed[count:])
        plan = _plan(inputs, new, old, ignored) if ignored else after[1]
        cause = _difference(last, plan)
        if cause is not None:
            rule = rule_of(changed[count - 1]) if count else None
            found.append(replace(cause, rule=rule))
        last = plan
    return tuple(found)


def _changed_rules(inputs: Inputs, old: _Number, new: _Number) -> list[Boundary]:
    """Return the boundaries between two releases that planning this start asks for."""
    low, high = sorted((old, new))
    found: set[Boundary] = set()
    for _round in range(_MOST_ROUNDS):
        ignored = frozenset(found)
        release = watched(new, old, ignored)
        plan_as(inputs, release)
        asked = release.seen | watched(new, new).seen | watched(old, old).seen
        found |= {b for b in asked if low < (*b.release, 0, 0)[:3] <= high}
        if found == ignored:
            break
    ordered = sorted(found, key=lambda b: (b.release, b.file, b.line))
    return ordered if new >= old else ordered[::-1]


def _difference(before: Plan, after: Plan) -> Cause | None:
    """Return what differs between two plans; None where nothing does."""
    old, new = figures_of(before), figures_of(after)
    names = dict.fromkeys([*old, *new])
    changes = {
        name: new.get(name, 0) - old.get(name, 0)
        for name in names
        if new.get(name, 0) != old.get(name, 0)
    }
    settings = _settings(before, after)
    verdict = "" if before.outcome is after.outcome else str(after.outcome)
    if not changes and not settings and not verdict:
        return None
    return Cause(rule=None, changes=changes, settings=settings, verdict=verdict)


def figures_of(plan: Plan) -> dict[str, int]:
    """Return the bytes of each line of the limiting rank, its blocks and tokens.

    Last are the bytes of host memory, where the plan counts them.
    """
    rank = plan.limiting_rank
    if rank is None:
        return {}
    host = sum(node.needed_bytes for node in plan.host)
    return {
        **{line.name: line.size_bytes for line in rank.lines},
        **{name: getattr(plan, name) for name in _FIGURES},
        **({HOST: host} if host else {}),
    }


def _settings(before: Plan, after: Plan) -> tuple[Setting, ...]:
    if before.resolved is None or after.resolved is None:
        return ()
    fields = type(before.resolved).__dataclass_fields__
    pairs = (
        (name, getattr(before.resolved, name), getattr(after.resolved, name))
        for name in fields
    )
    return tuple(
        Setting(name=name, before=old, after=new)
        for name, old, new in pairs
        if old != new
    )
