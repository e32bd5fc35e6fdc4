"""The inputs of `planner.plan` as one value that can be changed and planned again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from planner.engine.gpu import GPU
from planner.engine.releases import NEWEST
from planner.engine.settings import given_arguments
from planner.models.architecture import ModelArchitecture
from planner.planning.load import Load
from planner.planning.result import Plan, Replanner
from planner.registries import provided
from planner.values import frozen

_START = ("model", "gpu", "vllm_version", "entrypoint", "env", "load")
"""Inputs that are not engine arguments."""


@frozen
class Inputs:
    """A model, a GPU, a release and engine arguments, as a user gives them.

    >>> given = Inputs(model="Qwen/Qwen3-8B", engine_args={"max_model_len": 4096})
    >>> given.changed(max_model_len=None, kv_cache_dtype="fp8").engine_args
    {'kv_cache_dtype': 'fp8'}
    """

    model: str | ModelArchitecture
    gpu: str | GPU = "H100"
    vllm_version: str = NEWEST
    entrypoint: str = "serve"
    env: Mapping[str, str] = field(default_factory=dict)
    engine_args: Mapping[str, Any] = field(default_factory=dict)
    load: Load | None = None
    """What the start must serve; arguments that are not given follow from it."""

    @classmethod
    def of(cls, plan: Plan) -> Inputs:
        """Return the inputs from which `plan` was made.

        A model that has been read is not read again, unless `quantization=` changed how
        it was read.
        """
        is_as_published = plan.settings.quantization is None
        return cls(
            model=plan.model if is_as_published and plan.model else plan.name,
            gpu=plan.gpu,
            vllm_version=plan.vllm_version,
            entrypoint=plan.entrypoint,
            env=dict(plan.env),
            engine_args={
                name: value
                for name, value in given_arguments(plan.settings).items()
                if name not in plan.follows
            },
            load=plan.load,
        )

    def changed(self, **changes: Any) -> Inputs:  # noqa: ANN401 - vLLM's own types
        """Return a copy with engine arguments, model, gpu, ... replaced.

        None removes an engine argument, so that vLLM's default applies.
        """
        start = {name: changes[name] for name in _START if name in changes}
        arguments = {
            **self.engine_args,
            **{name: value for name, value in changes.items() if name not in _START},
        }
        given = {name: value for name, value in arguments.items() if value is not None}
        return replace(self, engine_args=given, **start)

    def plan(self) -> Plan:
        """Return the plan of these inputs.

        Raises:
            PlannerError: for input that cannot be planned; not fitting is not an error.
            UnknownArchitecture: for a model or setting that is not modelled.
        """
        return provided(Replanner).plan(self)


def changed(plan: Plan, changes: Mapping[str, Any]) -> Plan:
    """Plan again with what `changes` names replaced; see `Plan.changed`."""
    return Inputs.of(plan).changed(**changes).plan()
