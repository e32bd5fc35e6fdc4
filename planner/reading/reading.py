"""What a text says of a start of vLLM: inputs, what is kept, what is open."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, field, replace
from enum import StrEnum
from typing import Any

from planner.confirming.log import LogReading
from planner.engine.arguments import ARGUMENTS, Argument, Memory, is_gone
from planner.engine.environment_names import is_variable
from planner.engine.gpu import GPU
from planner.engine.releases import NEWEST, NEWEST_RELEASE, resolve_version
from planner.engine.server import SERVER_FLAGS, ServerFlag
from planner.errors import PlannerError
from planner.planning.inputs import Inputs
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.reading.account import Piece, account_of
from planner.reading.flag_values import unknown_notes
from planner.reading.passage import Edit, edited
from planner.reading.sites import Start, merged
from planner.registries import provided
from planner.values import frozen
from planner.views import Viewed

NOT_NAMED = {"model": "The model is not named.", "gpu": "The GPU is not named."}
_GPU_OPEN = (NOT_NAMED["gpu"], "On which GPU: gpu='H100'.")
_NOT_SET = "which the text does not set"
_OF_GPUS = re.compile(r"nvidia-smi|device_count|GPUS?_(?:ON|PER)_NODE|NUM_GPUS")
"""What counts the GPUs where a script runs."""
_MOST_MISNAMED = 8


class Kind(StrEnum):
    """What a text was taken for."""

    MODEL = "model"
    QUESTION = "question"
    COMMAND = "command"
    CONTAINER = "container"
    COMPOSE = "compose file"
    KUBERNETES = "Kubernetes manifest"
    RAY = "Ray configuration"
    HELM = "Helm values"
    RECIPE = "vLLM recipe"
    CONFIG = "vLLM configuration file"
    SKYPILOT = "SkyPilot task"
    DSTACK = "dstack configuration"
    FRAMEWORK = "framework's settings"
    PLAN_FILE = "plan file"
    PYTHON = "Python code"
    EVALUATION = "evaluation command"
    LOG = "log"
    ERROR = "error"
    SERVER = "running server"
    GPUS = "list of GPUs"


@frozen
class Reading(Viewed):
    """What a text says of one start of vLLM.

    Nothing of the text is ever run, and what it does not tell is None.
    """

    kind: Kind
    given: str = field(repr=False)
    """The text itself."""
    model: str | None = None
    planned_as: str = ""
    """The catalogue's model for a folder that is not here; empty: the model itself."""
    gpu: str | GPU | None = None
    vllm_version: str | None = None
    entrypoint: str = "serve"
    env: Mapping[str, str] = field(default_factory=dict)
    engine_args: Mapping[str, Any] = field(default_factory=dict)
    """Every engine argument that the text gives, by vLLM's names."""
    intent: str = ""
    """What a question asks: fits, users, cheapest, which_models, speed, why, upgrade or
    other; empty for any other text."""
    load: Load | None = None
    """What a question asks to serve: arguments that are not given follow from it."""
    kept: Mapping[str, Any] = field(default_factory=dict)
    """Flags of the server: without effect on memory, given back as they are."""
    unknown: tuple[str, ...] = ()
    """Names that no release of vLLM knows, as they are written."""
    open: tuple[str, ...] = ()
    """What must still be said, in sentences."""
    notes: tuple[str, ...] = ()
    """What was left aside, and why, in sentences."""
    gpus: int | None = None
    """GPUs that the text grants, such as a container's limit."""
    refused_gpu: str = ""
    """Why the GPU that the text names is none to plan for; empty: it names none."""
    shown: str = ""
    """What the text calls this start: a container's or a service's name."""
    num_starts: int = 1
    """Starts in the text; `planner.read(text, start=2)` reads the second."""
    number: int = 1
    """Which of them this is, from 1."""
    log: LogReading | None = None
    """The figures of a log, an error or a running server."""
    start: Start | None = field(default=None, repr=False)
    """Where the arguments stand in the text; None for a log or an error."""

    places: tuple[Piece, ...] = field(default=(), repr=False)
    """What was taken beside the arguments of `start`, where it stands in the text."""

    @property
    def account(self) -> tuple[Piece, ...]:
        """Every piece of the text, in order: used, kept, open or not understood."""
        lines = () if self.log is None else provided(Explainer).lines(self)
        is_question = self.kind in (Kind.QUESTION, Kind.MODEL)
        return account_of(self, lines=lines, is_question=is_question)

    @property
    def noted_as(self) -> str:
        """The title of the notes."""
        return "Taken as" if self.kind in (Kind.QUESTION, Kind.MODEL) else "Left aside"

    def inputs(self, gpu: str | GPU | None = None, **changes: Any) -> Inputs:  # noqa: ANN401
        """Return the inputs of a plan, with changes made.

        Raises:
            PlannerError: if model or GPU are neither in the text nor given, or for a
                name that vLLM does not know.
        """
        model = changes.pop("model", None) or self.planned_as or self.model
        device = gpu or self.gpu
        if model is None:
            asked = (
                "The text does not say which model is served. Name it: "
                "model='org/name'."
            )
            refused = "" if gpu else self.refused_gpu
            raise PlannerError(f"{asked} {refused}".strip())
        if device is None:
            raise PlannerError(
                self.refused_gpu
                or "The text does not say on which GPU vLLM runs. Name it: gpu='H100'."
            )
        if self.unknown:
            raise PlannerError(" ".join(unknown_notes(self.unknown)))
        version = changes.pop("vllm_version", None) or self.vllm_version or NEWEST
        env = changes.pop("env", None)
        return Inputs(
            model=model,
            gpu=device,
            vllm_version=version,
            entrypoint=changes.pop("entrypoint", None) or self.entrypoint,
            env=dict(self.env if env is None else env),
            engine_args=self._arguments(version),
            load=self.load,
        ).changed(**changes)

    def _arguments(self, version: str) -> dict[str, Any]:
        """Return the arguments that the planned release still has."""
        told = {} if self.log is None else _told(self.log)
        if self.vllm_version is not None:
            return {**told, **self.engine_args, **self.kept}
        release, _ = resolve_version(version)
        lasting = {
            name: value
            for name, value in self.engine_args.items()
            if not is_gone(name, release)
        }
        return {**told, **lasting, **self.kept}

    def plan(self, gpu: str | GPU | None = None, **changes: Any) -> Plan:  # noqa: ANN401
        """Plan the start that the text describes, with changes made.

        Raises:
            PlannerError: for inputs that cannot be planned, or that are still open.
            UnknownArchitecture: for a model that is not modelled.
        """
        return self.inputs(gpu, **changes).plan()

    def explain(self, gpu: str | GPU | None = None, **changes: Any) -> Any:  # noqa: ANN401
        """Say why the start failed, or how it compares with its plan.

        Raises:
            PlannerError: for inputs that cannot be planned, or that are still open.
        """
        return provided(Explainer).explain(self, gpu, **changes)

    def text(self, **changes: Any) -> str:  # noqa: ANN401 - vLLM's own types
        """Return the text with engine arguments, model or release changed.

        None takes an argument out. All else stays as it is written: comments, order,
        flags of the server, the image. The changed text is read again.

        Raises:
            PlannerError: for a change that has no place in the text, or after which
                the text would not say the same but for the change: it names the line
                to change by hand.
        """
        return edited(self.given, self.edits(**changes))

    def edits(self, **changes: Any) -> list[Edit]:  # noqa: ANN401 - vLLM's own types
        """Return the places that these changes write anew; raises as `text` does."""
        return provided(Explainer).edits(self, changes) if changes else []

    def to_dict(self) -> dict[str, Any]:
        """Return the reading in the form of the public contract."""
        modelled = {n: v for n, v in self.engine_args.items() if not _is_idle(n)}
        idle = {n: v for n, v in self.engine_args.items() if _is_idle(n)}
        log = self.log
        return {
            "kind": str(self.kind),
            "intent": self.intent or None,
            "inputs": {
                "model": self.model,
                "gpu": self.gpu.name if isinstance(self.gpu, GPU) else self.gpu,
                "vllm_version": self.vllm_version,
                "entrypoint": self.entrypoint,
                "env": dict(self.env),
                "engine_args": modelled,
            },
            "gpus": self.gpus,
            "load": None if self.load is None else asdict(self.load),
            "kept": {**self.kept, **idle},
            "unknown": list(self.unknown),
            "open": list(self.open),
            "notes": list(self.notes),
            "figures": {} if log is None else dict(log.figures),
            "started": None if log is None else log.started,
            "error": None if log is None else log.error,
        }


@frozen
class FoundStart:
    """A start and the form that it was found in."""

    kind: Kind
    start: Start


@frozen
class Explainer:
    """Explains and rewrites a reading, by what reads texts."""

    explain: Callable[..., Any]
    """Of a reading, as `Reading.explain`."""
    edits: Callable[[Reading, Mapping[str, Any]], list[Edit]]
    lines: Callable[[Reading], tuple[tuple[int, int], ...]]
    """Where the lines of a log are that tell of its start."""


def _is_idle(name: str) -> bool:
    return name in ARGUMENTS and ARGUMENTS[name].memory is Memory.NONE


def reading_of(
    kind: Kind, given: str, start: Start, num_starts: int = 1, number: int = 1
) -> Reading:
    """Return what a text says, from the places of its arguments."""
    values = merged(start.sites)
    model = values.pop("model", None)
    engine = {name: value for name, value in values.items() if name in ARGUMENTS}
    kept = {
        name: value
        for name, value in values.items()
        if name in SERVER_FLAGS and name not in ARGUMENTS
    }
    unknown = tuple(
        dict.fromkeys(site.written for site in start.sites if not _is_known(site.name))
    )
    version = None if start.version is None else start.version.value
    return Reading(
        kind=kind,
        given=given,
        model=model if isinstance(model, str) else None,
        gpu=start.gpu,
        vllm_version=version,
        entrypoint=start.entrypoint,
        env={
            name: str(site.value)
            for name, site in start.env.items()
            if site.value is not None and _is_read(name)
        },
        engine_args=engine,
        kept=kept,
        unknown=unknown,
        open=(*start.open, *_open(start)),
        notes=(
            *start.notes,
            *_gone_notes(engine, kept, version),
            *_file_notes(kept),
            *unknown_notes(unknown),
            *_misnamed_notes(start.env),
        ),
        gpus=start.gpus,
        shown=start.shown,
        num_starts=num_starts,
        number=number,
        start=start,
    )


def _is_read(variable: str) -> bool:
    return variable.startswith("VLLM_") and is_variable(variable)


def _misnamed_notes(env: Iterable[str]) -> list[str]:
    """Return that what no shell takes for a name is no variable of vLLM."""
    wrong = [n for n in env if n.startswith("VLLM_") and not is_variable(n)]
    return [
        f"{name[:40]!a} is not the name of an environment variable: left out."
        for name in wrong[:_MOST_MISNAMED]
    ]


def _told(log: LogReading) -> dict[str, Any]:
    """Return what no argument shows and a log's lines say."""
    said = {"compile_cache": log.compile_cache, "sampler": log.sampler}
    return {name: value for name, value in said.items() if value is not None}


def _is_known(name: str) -> bool:
    return name in ARGUMENTS or name in SERVER_FLAGS or name == "model"


def _open(start: Start) -> list[str]:
    """Return what variables leave open, of arguments and of the environment."""
    sites = [site for site in start.sites if site.name in ARGUMENTS]
    models = [site for site in start.sites if site.name == "model"]
    variables = [one for name, one in start.env.items() if _is_read(name)]
    unset = [
        f"{site.written or site.name} is {said}, "
        f"{'the GPUs of the machine' if _OF_GPUS.search(said) else _NOT_SET}."
        for site in (*models, *sites, *variables)
        if (said := " ".join(site.variables[:12]))
    ]
    missing = [] if models else [NOT_NAMED["model"]]
    return [*missing, *unset, *([] if start.gpu else [NOT_NAMED["gpu"]])]


def _gone_notes(
    engine: Mapping[str, Any], kept: Mapping[str, Any], version: str | None
) -> list[str]:
    """Return a note for each flag that the newest release no longer has."""
    if version is not None:
        return []
    newest = NEWEST_RELEASE.version
    removed: list[Argument | ServerFlag] = [
        ARGUMENTS[name] for name in engine if is_gone(name, NEWEST_RELEASE)
    ]
    removed += [SERVER_FLAGS[name] for name in kept if SERVER_FLAGS[name].gone]
    return [f"{_missing(one, newest)}: left out.{_instead(one)}" for one in removed]


def _missing(flag: Argument | ServerFlag, newest: str) -> str:
    if isinstance(flag, ServerFlag) and flag.is_mistaken:
        return f"No release of vLLM has {flag.flag}, so it refuses the command"
    return f"vLLM {newest} has no {flag.flag} any more (it went with {flag.gone})"


def _file_notes(kept: Mapping[str, Any]) -> list[str]:
    """Return that a configuration file, which a flag names, is a text of its own."""
    name = kept.get("config")
    if name is None:
        return []
    return [f"What {name} says is not read: give the file's own text as well."]


def _instead(flag: Argument | ServerFlag) -> str:
    instead = flag.instead if isinstance(flag, ServerFlag) else ""
    return f" In its place: {instead}." if instead else ""


def without_gpu(reading: Reading, why: str) -> Reading:
    """Return a reading that says why the GPU it names cannot be planned for.

    Beside a GPU that can be, a note says it.
    """
    if not why or reading.gpu is not None:
        return with_notes(reading, why) if why else reading
    rest = (said for said in reading.open if said not in _GPU_OPEN)
    kind = Kind.QUESTION if reading.kind is Kind.MODEL else reading.kind
    return replace(reading, kind=kind, refused_gpu=why, open=(*rest, why))


def with_notes(reading: Reading, *notes: str) -> Reading:
    """Return a reading with further notes."""
    return replace(reading, notes=(*reading.notes, *notes))
