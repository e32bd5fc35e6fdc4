"""models(): which models of the bundled catalogue a GPU serves, by facts alone.

Nothing is said about how good their answers are: the catalogue has no source for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import inf
from typing import TYPE_CHECKING, Any

from planner.engine.devices import gpu_named
from planner.engine.gpu import GPU
from planner.errors import PlannerError
from planner.given import named_in_errors
from planner.models import catalogue
from planner.models.catalogue import Entry
from planner.planning.inputs import Inputs
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.planning.serving import Serving, serve
from planner.planning.words import fails
from planner.solve.advice.makers.checkpoints import stem_of
from planner.solve.arguments import load_from, require_load, whole_number
from planner.solve.fewest_gpus import room_for
from planner.solve.layouts import Room, keeps_given, spread
from planner.solve.model_fits import ModelFit, ModelFits
from planner.solve.speed.bound import speed_bound

if TYPE_CHECKING:
    from planner.solve.speed.speed import SpeedBound

KINDS = ("text", "chat", "code", "vision", "audio", "embedding")
"""What a model is for: by its name (chat, code) and by what vLLM builds of it."""
ORDERS = ("downloads", "parameters", "requests", "speed")
"""What comes first: the most of it."""
_CHAT = re.compile(r"instruct|chat|thinking|assistant|(?:^|[-_])it(?:$|[-_])|hermes")
_CODE = re.compile(r"code|devstral")
_LEAST_BYTES = 0.45
"""Of a parameter, in the narrowest format: 3.6 bits, less than any is published in."""


@named_in_errors
def models(  # noqa: PLR0913 - the load, and what limits the list
    gpu: str | GPU,
    gpus: int = 1,
    load: Load | None = None,
    *,
    kind: str | None = None,
    search: str = "",
    at_most_parameters: float | None = None,
    at_least_parameters: float | None = None,
    order: str = "downloads",
    **arguments: Any,  # noqa: ANN401 - vLLM's own argument names and types
) -> ModelFits:
    """Find which models of the bundled catalogue serve a load on a GPU, or on several.

    Several GPUs are in one machine; of the layouts, the first that serves is taken,
    tensor parallel before pipeline stages before replicas.

    Args:
        gpu: as `planner.plan` accepts it.
        gpus: number of GPUs.
        load: also as prompt_tokens=, output_tokens= and requests=.
        kind: text, chat, code, vision, audio or embedding; None: all. Chat and code are
            told by a model's name.
        search: words that a name must have.
        at_most_parameters: as the publisher counts them; a model of which that is not
            known is left out.
        at_least_parameters: the same.
        order: what comes first: downloads, parameters, requests (held at once) or
            speed (its bound).
        arguments: engine arguments, vllm_version, entrypoint and env.

    Raises:
        PlannerError: without a load, or for input that cannot be planned.
    """
    find = ModelSearch.of(
        gpu,
        gpus,
        load,
        entries=_entries(search, at_least_parameters, at_most_parameters),
        **arguments,
    )
    checked_choice("kind", kind, (None, *KINDS))
    checked_choice("order", order, ORDERS)
    for _ in find.steps():
        pass
    return find.result(order, kind)


def checked_choice(name: str, value: object, known: Sequence[object]) -> None:
    """Refuse a value that there is not.

    Raises:
        PlannerError: naming those there are.
    """
    if value not in known:
        names = ", ".join(str(one) for one in known if one is not None)
        raise PlannerError(f"{name}={value!r}: use one of {names}.")


@dataclass(kw_only=True)
class ModelSearch:
    """Plans a model at a time, the most used first, so that a page can draw between."""

    gpu: GPU
    gpus: int
    load: Load
    inputs: Mapping[str, Any]
    """Of `Inputs`, besides model and GPU."""
    entries: Sequence[Entry]
    found: list[ModelFit] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        gpu: str | GPU,
        gpus: int,
        load: Load | None,
        *,
        entries: Sequence[Entry],
        **arguments: Any,  # noqa: ANN401 - vLLM's own argument names and types
    ) -> ModelSearch:
        """Return a search that has not begun; see `models`.

        Raises:
            PlannerError: without a load, or for an unknown GPU.
        """
        rest, wanted = load_from(load, arguments)
        return cls(
            gpu=gpu if isinstance(gpu, GPU) else gpu_named(gpu),
            gpus=Room.of(whole_number("gpus", gpus), 1).gpus,
            load=require_load(wanted, "models"),
            inputs=rest,
            entries=entries,
        )

    def steps(self) -> Iterator[None]:
        """Search, and yield after each model; `found` grows.

        Raises:
            PlannerError: for engine arguments that cannot be planned with any model.
        """
        room = self.gpus * self.gpu.total_memory_bytes
        for entry in self.entries:
            if (entry.num_parameters or 0) * _LEAST_BYTES > room:
                why = "its weights are too large in any format"
                self.found.append(ModelFit(entry=entry, why=why))
                continue
            self.found.append(self._planned(entry))
            yield

    def result(
        self, order: str, kind: str | None = None, *, at_most: float = inf
    ) -> ModelFits:
        """Return what has been found so far, of models of a kind and size."""
        kept = [
            one
            for one in self.found
            if (kind is None or kind in one.kinds)
            and (at_most == inf or (one.entry.num_parameters or inf) <= at_most)
        ]
        return ModelFits(
            gpu=self.gpu,
            gpus=self.gpus,
            load=self.load,
            order=order,
            found=tuple(
                sorted((o for o in kept if o.is_served), key=lambda o: _rank(o, order))
            ),
            others=tuple(one for one in kept if not one.is_served),
        )

    def _planned(self, entry: Entry) -> ModelFit:
        start = Inputs(model=entry.name, gpu=self.gpu).changed(**self.inputs)
        best: Serving | None = None
        why = "vLLM refuses every layout"
        for layout in spread(self.gpus, Room(gpus_per_node=self.gpus)):
            if not keeps_given(layout, start):
                continue
            try:
                tried = serve(start.changed(**layout.arguments()), self.load)
            except PlannerError as error:
                why = str(error)
                continue
            best = max(filter(None, (best, tried)), key=_nearness)
            if best.is_served:
                break
        if best is None:
            return ModelFit(entry=entry, why=why)
        return ModelFit(
            entry=entry,
            kinds=_kinds(entry.name, best.plan),
            serving=best,
            speed=_speed(best),
            why="" if best.is_served else fails(best),
        )


def page_search(gpu: GPU, gpus: int, load: Load, vllm_version: str) -> ModelSearch:
    """Return the search of a page: the whole catalogue, with vLLM's defaults.

    Raises:
        PlannerError: for input that cannot be planned.
    """
    entries = catalogue.popular()
    return ModelSearch.of(gpu, gpus, load, entries=entries, vllm_version=vllm_version)


def _entries(
    search: str, at_least: float | None, at_most: float | None
) -> tuple[Entry, ...]:
    names = None
    if search.strip():
        names = {one.name for one in catalogue.search(search, limit=1 << 20)}
    return tuple(
        entry
        for entry in catalogue.popular()
        if (names is None or entry.name in names)
        and (at_least is None or (entry.num_parameters or 0) >= at_least)
        and (at_most is None or (entry.num_parameters or at_most + 1) <= at_most)
    )


def _kinds(name: str, plan: Plan) -> tuple[str, ...]:
    model, text = plan.model, name.rpartition("/")[2].lower()
    if model is None:
        return ()
    if model.is_pooling:
        return ("embedding",)
    seen = {one for tower in model.towers for one in tower.modalities}
    tests = {
        "text": True,
        "chat": bool(_CHAT.search(text)) or _is_tuned(name),
        "code": bool(_CODE.search(text)),
        "vision": bool(seen & {"image", "video"}),
        "audio": "audio" in seen,
    }
    return tuple(kind for kind, is_so in tests.items() if is_so)


def _is_tuned(name: str) -> bool:
    """Whether the catalogue has the same name with -Base: then this one is tuned."""
    return f"{stem_of(name)}-base" in _stems()


@cache
def _stems() -> frozenset[str]:
    return frozenset(stem_of(one.name) for one in catalogue.entries())


def _speed(serving: Serving) -> SpeedBound | None:
    if not serving.is_served or not serving.load.output_tokens:
        return None
    try:
        return speed_bound(serving.plan, serving.load)
    except PlannerError:
        return None


def _nearness(serving: Serving) -> tuple[bool, int, int]:
    return serving.is_served, *room_for(serving, serving.plan.engines)


def _rank(one: ModelFit, order: str) -> tuple[float, str]:
    held = one.requests_held
    values = {
        "downloads": one.entry.num_downloads or 0,
        "parameters": one.entry.num_parameters or 0,
        "requests": float("inf") if held is None else held,
        "speed": one.at_most_tokens_per_second or 0.0,
    }
    return -values[order], one.name
