"""A running server of vLLM, read over HTTP: what it has, and what it uses.

Read only, and never in a published app.

Source: vLLM 0.33.0 `entrypoints/openai/models/serving.py`, `v1/metrics/loggers.py`,
`entrypoints/serve/dev/server_info/api_router.py` (VLLM_SERVER_DEV_MODE=1),
`config/cache.py` CacheConfig.metrics_info; 0.10.0 `v1/metrics/loggers.py`; Prometheus'
text format 0.0.4.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.confirming.log import LogReading, read_log
from planner.engine.arguments import ARGUMENTS
from planner.engine.gpu import GPU
from planner.engine.releases import NEWEST, is_old, number_of
from planner.errors import PlannerError
from planner.reading.flag_values import literal
from planner.reading.logs.server_pages import Pages
from planner.reading.questions.noted import planned_model
from planner.reading.reading import Kind, Reading
from planner.reading.sign_table import signs
from planner.reading.starts.images import gpu_named_in
from planner.surroundings import asks_servers
from planner.values import frozen

_ADDRESS = re.compile(
    r"https?://[^\s/?#@]+(?:/\S*)?"
    r"|(?:localhost|\[[0-9a-fA-F:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)"
    r":\d{3,5}(?:/\S*)?"
)
_LONGEST = 2_000
_SAMPLE = re.compile(r"(vllm:\w+)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*\Z")
_OF_METRICS = re.compile(r"# (?:HELP|TYPE|EOF)\b|[A-Za-z_:][\w:]*(?:\{.*\})? \S+")
_LABEL = re.compile(r'(?<!\w)(\w+)="((?:[^"\\]|\\.)*)"')
_HIGHEST = ("kv_cache_usage",)
"""Of several engines, the fullest."""
_MEANS = {
    "mean_prompt_tokens": "request_prompt_tokens",
    "mean_generation_tokens": "request_generation_tokens",
}
_PARALLEL = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")


def is_address(text: str) -> bool:
    """Return whether a text is one address, of a server and not of a model.

    >>> is_address("localhost:8000"), is_address("https://10.0.0.7/v1")
    (True, True)
    >>> is_address("org/name"), is_address("vllm/vllm-openai:v0.33.0")
    (False, False)
    """
    return len(text) < _LONGEST and _ADDRESS.fullmatch(text.strip()) is not None


@frozen
class Sample:
    """One value of a metric of vLLM."""

    name: str
    """Without "vllm:"."""
    labels: Mapping[str, str]
    value: float


def samples_of(text: str) -> tuple[Sample, ...]:
    r"""Return vLLM's metrics in a text of Prometheus.

    >>> samples_of('# HELP x\nvllm:kv_cache_usage_perc{engine="0"} 0.5')[0].value
    0.5
    """
    return tuple(
        Sample(
            name=match[1].removeprefix("vllm:"),
            labels=dict(_LABEL.findall(match[2] or "")),
            value=value,
        )
        for line in text.splitlines()
        if (match := _SAMPLE.match(line)) is not None
        if (value := _number(match[3])) is not None
    )


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def reading_of_server(address: str) -> Reading:
    """Return what a running server of vLLM tells of itself.

    Raises:
        PlannerError: where no server is asked, as in a published app, or for a server
            that is not vLLM's.
    """
    if not asks_servers():
        raise PlannerError(
            "This planner asks no servers. Paste the text of the server's "
            "/metrics, its log or its command."
        )
    pages = Pages(address)
    version = _version(pages)
    models = pages.json("/v1/models")
    samples = samples_of(pages.text("/metrics"))
    cards = models.get("data") if isinstance(models, dict) else None
    card: dict[str, Any] = next((one for one in cards or [] if _is_of_vllm(one)), {})
    if version is None and not samples and not card:
        raise PlannerError(
            f"{pages.shown} answers, but not as vLLM: /version, /v1/models and "
            "/metrics have nothing of it. Give the address of vLLM itself, not of a "
            "router before it."
        )
    told = _Told(version, card, samples, pages.json("/server_info?config_format=json"))
    return told.reading(address, pages.shown, pages.notes)


def reading_of_metrics(text: str) -> Reading | None:
    """Return what the text of a server's /metrics tells; None where it is none."""
    samples = samples_of(text)
    lines = [line for line in text.splitlines() if line.strip()]
    others = [line for line in lines if not _OF_METRICS.match(line)]
    if not samples or len(others) > len(samples):
        return None
    served = next(filter(None, (one.labels.get("model_name") for one in samples)), None)
    card = {"id": served}
    return _Told(None, card, samples, None).reading(text, "its /metrics", ())


def _is_of_vllm(card: object) -> bool:
    """Return whether a model's card is that of the model itself, not an adapter's."""
    return (
        isinstance(card, dict)
        and card.get("owned_by") == "vllm"
        and not card.get("parent")
    )


def _version(pages: Pages) -> str | None:
    answer = pages.json("/version")
    version = answer.get("version") if isinstance(answer, dict) else None
    return version if isinstance(version, str) else None


class _Told:
    """What a server's pages tell together."""

    def __init__(
        self,
        version: str | None,
        card: Mapping[str, Any],
        samples: Sequence[Sample],
        info: Any,  # noqa: ANN401 - any JSON
    ) -> None:
        self.version = version
        self.card = card
        self.samples = samples
        self.info: Mapping[str, Any] = info if isinstance(info, dict) else {}
        self.cache = next(
            (one.labels for one in samples if one.name == "cache_config_info"), {}
        )

    def reading(self, given: str, shown: str, told: Sequence[str]) -> Reading:
        """Return all of it."""
        written = self._model()
        model, notes = (None, ()) if written is None else planned_model(written)
        gpu, gpus = self._gpu()
        engine = self._arguments()
        release = self.version and ".".join(map(str, number_of(self.version)))
        is_known = release and not is_old(release)
        return Reading(
            kind=Kind.SERVER,
            given=given,
            model=model,
            gpu=gpu,
            vllm_version=release if is_known else None,
            engine_args=engine,
            open=tuple(self._open(model, gpu, engine)),
            notes=(*notes, *dict.fromkeys(told)),
            gpus=gpus or self._gpus(engine),
            shown=shown,
            log=LogReading(
                figures=dict(self._figures()),
                started=True,
                is_vllm=True,
                num_starts=1,
            ),
        )

    def _model(self) -> str | None:
        config = self._config("model_config")
        names = (config.get("model"), self.card.get("root"), self.card.get("id"))
        return next((name for name in names if isinstance(name, str)), None)

    def _config(self, name: str) -> Mapping[str, Any]:
        whole = self.info.get("vllm_config")
        part = whole.get(name) if isinstance(whole, dict) else None
        return part if isinstance(part, dict) else {}

    def _arguments(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        length = self.card.get("max_model_len")
        if isinstance(length, int):
            found["max_model_len"] = length
        found |= dict(self._of_cache())
        engines = {one.labels.get("engine") for one in self.samples} - {None, ""}
        if len(engines) > 1:
            found["data_parallel_size"] = len(engines)
        return found | dict(self._of_info())

    def _of_cache(self) -> Iterator[tuple[str, Any]]:
        for name in signs("labels that are arguments"):
            value = _typed(self.cache.get(name, "None"))
            if value is not None and name in ARGUMENTS:
                yield name, value
        dtype = self.cache.get("cache_dtype")
        if dtype not in (None, "None"):
            yield "kv_cache_dtype", dtype
        if self.cache.get("user_specified_block_size") == "True":
            yield "block_size", _typed(self.cache.get("block_size", "None"))

    def _of_info(self) -> Iterator[tuple[str, Any]]:
        for part, names in signs("configurations of a server").items():
            config = self._config(part)
            for name in names:
                if config.get(name) is not None:
                    value = config[name]
                    is_text = isinstance(value, str)
                    yield name, value.removeprefix("torch.") if is_text else value
            if part == "lora_config" and config:
                yield "enable_lora", True
        text = self.info.get("vllm_config")
        if isinstance(text, str):
            line = f"LLM engine (v{self.version}) with config: {text}"
            yield from read_log(line).setting.resolved.items()

    def _gpu(self) -> tuple[str | GPU | None, int | None]:
        system = self.info.get("system_env")
        models = system.get("nvidia_gpu_models") if isinstance(system, dict) else None
        if not isinstance(models, str):
            return None, None
        names = re.findall(r"GPU \d+: ([^\n(]+)", models)
        return (gpu_named_in(names[0].strip()) if names else None), len(names) or None

    def _gpus(self, engine: Mapping[str, Any]) -> int | None:
        sizes = [engine[name] for name in _PARALLEL if name in engine]
        return math.prod(sizes) if "tensor_parallel_size" in engine else None

    def _figures(self) -> Iterator[tuple[str, float | int]]:
        names = {
            "num_gpu_blocks": "num_gpu_blocks",
            "kv_cache_size_tokens": "kv_tokens",
            "kv_cache_max_concurrency": "max_concurrency",
            "block_size": "block_size",
        }
        for label, name in names.items():
            value = _typed(self.cache.get(label, "None"))
            if isinstance(value, int | float) and not isinstance(value, bool):
                yield name, value
        for name, metrics in signs("metrics").items():
            total = self._total(metrics, is_highest=name in _HIGHEST)
            if total is not None:
                yield name, total
        for name, metric in _MEANS.items():
            count = self._total((f"{metric}_count",))
            total = self._total((f"{metric}_sum",))
            if count and total is not None:
                yield name, total / count

    def _total(
        self, metrics: Sequence[str], *, is_highest: bool = False
    ) -> float | int | None:
        for metric in metrics:
            values = [one.value for one in self.samples if one.name == metric]
            if values:
                total = max(values) if is_highest else math.fsum(values)
                return int(total) if total.is_integer() and not is_highest else total
        return None

    def _open(
        self, model: str | None, gpu: object, engine: Mapping[str, Any]
    ) -> Iterator[str]:
        """Yield what a server does not tell, in sentences."""
        if model is None:
            yield "Which model it serves: model='org/name'."
        if gpu is None:
            yield "On which GPU it runs: gpu='H100'. No page of vLLM names it."
        if self.version is None:
            yield f"Which release of vLLM: vllm_version='{NEWEST}'."
        if "tensor_parallel_size" not in engine:
            yield (
                "How many GPUs: tensor_parallel_size=... if more than one. vLLM tells "
                "it with VLLM_SERVER_DEV_MODE=1 only (/server_info)."
            )


def _typed(text: str) -> Any:  # noqa: ANN401 - a label's value
    """Return a label's value as Python wrote it."""
    known = {"None": None, "True": True, "False": False}
    return known[text] if text in known else literal(text)
