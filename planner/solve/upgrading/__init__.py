"""upgrade(): what another release of vLLM does to the same start, and why."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from planner.engine.releases import NEWEST, between
from planner.errors import PlannerError
from planner.given import named_in_errors
from planner.planning.inputs import Inputs
from planner.planning.result import Plan
from planner.solve.upgrading.steps import (
    Cause,
    Setting,
    Step,
    figures_of,
    steps,
)
from planner.values import frozen
from planner.views import Charted, Viewed

__all__ = ["Cause", "Difference", "Setting", "Step", "Upgrade", "Way", "upgrade"]

_SWITCHES = (
    ("VLLM_USE_V2_MODEL_RUNNER", "0"),
    ("VLLM_USE_V2_MODEL_RUNNER", "1"),
    ("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "0"),
    ("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "1"),
    ("VLLM_USE_FLASHINFER_SAMPLER", "0"),
    ("VLLM_USE_FLASHINFER_SAMPLER", "1"),
)
"""Environment variables with which a release can behave like another.

Source: vLLM 0.33.0 `envs.py`.
"""
_DERIVED = frozenset(
    (
        "cudagraph_capture_sizes",
        "uses_v2_model_runner",
        "is_compiled",
        "mamba_block_size",
    )
)
"""Resolved values that follow from others, or that no argument sets."""


@frozen
class Difference:
    """A memory line, or a number of blocks or tokens, under both releases."""

    name: str
    before: int
    after: int

    @property
    def change(self) -> int:
        """The difference: bytes of a line, else a number."""
        return self.after - self.before


@frozen
class Way:
    """A setting that brings the new release back towards the old one."""

    setting: str
    """An engine argument, or an environment variable."""
    value: Any
    is_env: bool
    plan: Plan
    """The start with it."""
    change_bytes: int
    """What it changes in the KV cache of the limiting rank."""


@frozen
class Upgrade(Viewed, Charted):
    """The same start under one release after another."""

    steps: tuple[Step, ...]
    """One per release, both ends included."""
    ways: tuple[Way, ...]
    """What to set to get nearer to the old KV cache; the nearest first."""

    @property
    def before(self) -> Plan:
        """The plan of the first release."""
        plan = self.steps[0].plan
        if plan is None:
            raise PlannerError(self.steps[0].error)
        return plan

    @property
    def after(self) -> Plan | None:
        """The plan of the last release; None: it cannot be planned."""
        return self.steps[-1].plan

    @property
    def causes(self) -> tuple[tuple[str, Cause], ...]:
        """Each release with each rule that changed something, in order."""
        return tuple(
            (step.release, cause) for step in self.steps for cause in step.causes
        )

    @property
    def changes(self) -> tuple[Difference, ...]:
        """The figures of the limiting rank under the first and the last release."""
        if self.after is None:
            return ()
        old, new = figures_of(self.before), figures_of(self.after)
        return tuple(
            Difference(name=name, before=old.get(name, 0), after=new.get(name, 0))
            for name in dict.fromkeys([*old, *new])
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values: sizes in whole bytes, plans as `Plan.to_dict`."""
        return {
            "from": self.steps[0].release,
            "to": self.steps[-1].release,
            "changes": [{**asdict(one), "change": one.change} for one in self.changes],
            "steps": [_step_dict(step) for step in self.steps],
            "ways": [
                {
                    "setting": way.setting,
                    "value": way.value,
                    "is_env": way.is_env,
                    "kv_cache_change_bytes": way.change_bytes,
                }
                for way in self.ways
            ],
            "before": self.before.to_dict(),
            "after": None if self.after is None else self.after.to_dict(),
        }


@named_in_errors
def upgrade(plan: Plan | Inputs, to: str = NEWEST) -> Upgrade:
    """Plan the same start under each release from its own to another.

    Every difference comes with the rule that changed: the new release is planned with
    its new rules ignored, and then they are let in one after the other, so that what
    they change adds up to the whole difference.

    Args:
        plan: a plan, or inputs; its vllm_version is where the upgrade starts.
        to: the release to upgrade to; an older one shows the way back.

    Raises:
        PlannerError: for input that cannot be planned under its own release.
    """
    given: object = plan
    if not isinstance(given, Plan | Inputs):
        raise PlannerError(
            f"upgrade() takes a plan or inputs, not {type(given).__name__}: make one "
            "with planner.plan(model, gpu=..., vllm_version=...)."
        )
    inputs = Inputs.of(plan) if isinstance(plan, Plan) else plan
    found = tuple(steps(inputs, between(inputs.vllm_version, to)))
    if found[0].plan is None:
        raise PlannerError(found[0].error)
    return Upgrade(steps=found, ways=_ways(inputs.changed(vllm_version=to), found))


def _ways(inputs: Inputs, found: tuple[Step, ...]) -> tuple[Way, ...]:
    """Return the settings that bring the KV cache nearer to what it was."""
    before, after = found[0].plan, found[-1].plan
    if before is None or after is None or before.resolved is None:
        return ()
    wanted, now = _kv_cache_bytes(before), _kv_cache_bytes(after)
    tried = [
        _way(inputs, after, *candidate) for candidate in _candidates(inputs, found)
    ]
    near = [
        way
        for way in tried
        if way is not None and abs(now + way.change_bytes - wanted) < abs(now - wanted)
    ]
    return tuple(sorted(near, key=lambda way: abs(now + way.change_bytes - wanted)))


def _candidates(
    inputs: Inputs, found: tuple[Step, ...]
) -> list[tuple[str, object, bool]]:
    """Return arguments that resolve to something else now, and vLLM's switches."""
    changed = {
        setting.name: setting.before
        for step in reversed(found)
        for cause in step.causes
        for setting in cause.settings
        if setting.name not in _DERIVED and setting.name not in inputs.engine_args
    }
    arguments = [(name, value, False) for name, value in changed.items()]
    return [
        *arguments,
        *((*one, True) for one in _SWITCHES if one[0] not in inputs.env),
    ]


def _way(
    inputs: Inputs, after: Plan, name: str, value: object, is_env: bool
) -> Way | None:
    changes = {"env": {**inputs.env, name: value}} if is_env else {name: value}
    try:
        plan = inputs.changed(**changes).plan()
    except PlannerError:
        return None
    return Way(
        setting=name,
        value=value,
        is_env=is_env,
        plan=plan,
        change_bytes=_kv_cache_bytes(plan) - _kv_cache_bytes(after),
    )


def _kv_cache_bytes(plan: Plan) -> int:
    rank = plan.limiting_rank
    return 0 if rank is None else rank.available_kv_cache_bytes


def _step_dict(step: Step) -> dict[str, Any]:
    plan = step.plan
    return {
        "release": step.release,
        "error": step.error or None,
        "verdict": None if plan is None else str(plan.outcome),
        "figures": {} if plan is None else figures_of(plan),
        "max_concurrency": None if plan is None else plan.max_concurrency,
        "causes": [
            {
                "rule": None if cause.rule is None else asdict(cause.rule),
                "changes": dict(cause.changes),
                "settings": [asdict(setting) for setting in cause.settings],
                "verdict": cause.verdict or None,
            }
            for cause in step.causes
        ],
    }
