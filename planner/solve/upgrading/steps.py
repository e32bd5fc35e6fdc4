"""The same start under one release after another, and which rule changed what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from planner.engine.releases import resolve_version
from planner.engine.releases.change import Change, Number
from planner.engine.releases.watched import watched
from planner.errors import PlannerError
from planner.planning.inputs import Inputs
from planner.planning.planning import plan_as
from planner.planning.result import Plan
from planner.values import frozen

_FIGURES = ("num_gpu_blocks", "kv_cache_size_tokens")
HOST = "host memory"
_MOST_ROUNDS = 8
"""Rules that only others made visible are found after at most so many plans."""


@frozen
class Setting:
    """An argument that vLLM resolves to another value."""

    name: str
    before: object
    after: object


@frozen
class Rule:
    """A rule of vLLM that changed with a release."""

    release: str
    """The first release that follows the new form."""
    what: str
    """What vLLM does, or did until then."""
    is_over: bool
    """Whether it held up to this release, and no longer does."""
    source: str
    """Release, file and symbol of vLLM."""


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
    notes: tuple[str, ...] = ()
    """What is to be said of the release itself, such as that it is not known yet."""


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
        yield Step(release=release, plan=plan, causes=causes, notes=notes)
        before = (release, plan)


def _plan(
    inputs: Inputs, number: Number, old: Number, ignored: frozenset[Change]
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
    changed = _silent_first(_changed_rules(inputs, old, new), inputs, before, new)
    found: list[Cause] = []
    last = before[1]
    for count in range(len(changed) + 1):
        ignored = frozenset(changed[count:])
        plan = _plan(inputs, new, old, ignored) if ignored else after[1]
        cause = _difference(last, plan)
        if cause is not None:
            rule = _rule(changed[count - 1], max(old, new)) if count else None
            found.append(replace(cause, rule=rule))
        last = plan
    return tuple(found)


def _changed_rules(inputs: Inputs, old: Number, new: Number) -> list[Change]:
    """Return the changes between two releases that planning this start asks for."""
    low, high = sorted((old, new))
    found: set[Change] = set()
    for _round in range(_MOST_ROUNDS):
        ignored = frozenset(found)
        release = watched(new, old, ignored)
        plan_as(inputs, release)
        asked = release.seen | watched(new, new).seen | watched(old, old).seen
        found |= {one for one in asked if one.holds_in(low) != one.holds_in(high)}
        if found == ignored:
            break
    ordered = sorted(found, key=lambda one: (_boundary(one, high), one.source))
    return ordered if new >= old else ordered[::-1]


def _silent_first(
    changed: Sequence[Change], inputs: Inputs, before: tuple[str, Plan], new: Number
) -> list[Change]:
    """Return those first that alone change nothing: later they would undo others."""
    old = resolve_version(before[0])[0].number

    def speaks(one: Change) -> bool:
        others = frozenset(changed) - {one}
        return _difference(before[1], _plan(inputs, new, old, others)) is not None

    return sorted(changed, key=speaks)


def _boundary(change: Change, high: Number) -> tuple[int, ...]:
    """Return the release that brought a change, or ended it, up to another."""
    return change.since if change.holds_in(high) else change.until or ()


def _rule(change: Change, high: Number) -> Rule:
    """Say for users what changed between two releases, of which `high` is the later."""
    return Rule(
        release=".".join(map(str, (*_boundary(change, high), 0)[:3])),
        what=change.what,
        is_over=not change.holds_in(high),
        source=change.source,
    )


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
