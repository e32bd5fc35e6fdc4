"""What vLLM measured in one start: figures of its workers, its engine and its log.

Values only: `planner.confirming.run` collects all of them, and `from_log` those that a
log alone has.
"""

from __future__ import annotations

from dataclasses import field, replace

from planner.confirming.log import LogReading
from planner.planning.result import KVCacheGroup
from planner.units import GIB
from planner.values import frozen

_GROUPED = ("persistent buffers", "non-torch")
_KV_CACHE = "KV cache"
_PEAK, _GRAPHS = "peak activation", "CUDA graphs"


@frozen
class WorkerFigures:
    """One worker's account; None where its release or backend has no such figure.

    Source: vLLM 0.33.0 `v1/worker/gpu_worker.py` Worker, the attributes in brackets;
    earlier releases and the CPU backend have some of them.
    """

    rank: int
    total_memory_bytes: int | None = None
    """[init_snapshot.total_memory]."""
    free_at_start_bytes: int | None = None
    """[init_snapshot.free_memory]: before the model is loaded."""
    requested_memory_bytes: int | None = None
    """[requested_memory]: the budget."""
    weights_bytes: int | None = None
    """[model_runner.model_memory_usage]: what "Model loading took"."""
    parameter_bytes: int | None = None
    """Bytes of the parameters, without the allocator's rounding."""
    consumed_bytes: int | None = None
    """[total_consumed]: weights and what remains after the profile run; from 0.27."""
    peak_activation_bytes: int | None = None
    """[peak_activation_memory], without the graphs that it includes from 0.27 on."""
    non_torch_bytes: int | None = None
    """[non_torch_memory]: up to 0.26."""
    cudagraph_estimate_bytes: int | None = None
    """[cudagraph_memory_estimate]: measured by a trial capture; from 0.18."""
    is_estimate_charged: bool = False
    """Whether the graphs' estimate is subtracted from the budget."""
    available_kv_cache_bytes: int | None = None
    """[available_kv_cache_memory_bytes], or the size that was set."""
    kv_cache_bytes: int | None = None
    """Size of the KV cache's tensors."""
    num_blocks: int | None = None
    """[model_runner.kv_cache_config.num_blocks]."""
    groups: tuple[KVCacheGroup, ...] = ()


@frozen
class EngineFigures:
    """Figures of the engine's configuration after its start.

    Source: vLLM 0.33.0 `config/cache.py` CacheConfig, `config/scheduler.py`
    SchedulerConfig, as the client or the /metrics page reports them.
    """

    num_gpu_blocks: int | None = None
    block_size: int | None = None
    kv_cache_size_tokens: int | None = None
    max_concurrency: float | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    gpu_memory_utilization: float | None = None


@frozen
class LoadFigures:
    """The result of a load: requests of the planned length, sent all at once."""

    num_requests: int
    prompt_tokens: int
    """Of each request."""
    output_tokens: int
    """Of each request, at most."""
    num_finished: int
    peak_running: int
    """Most requests that ran at once."""
    peak_waiting: int
    peak_kv_cache_usage: float
    """Highest share of the KV cache's blocks in use, 0 to 1."""
    num_readings: int
    """How often the figures were read while requests ran; the peaks are the highest of
    these readings."""
    preemptions: int
    """Preempted requests: they lost their blocks and were computed again."""
    seconds: float


@frozen
class MeasuredLine:
    """One part of the measured account, and the lines of a plan that it covers."""

    name: str
    covers: tuple[str, ...]
    """Names of the plan's lines whose sum this figure is."""
    size_bytes: int


@frozen
class Measurement:
    """Everything that was measured in one start of vLLM."""

    vllm_version: str | None = None
    device_name: str = ""
    driver_version: str = ""
    date: str = ""
    """ISO date of the start; empty if unknown."""
    workers: tuple[WorkerFigures, ...] = ()
    engine: EngineFigures = field(default_factory=EngineFigures)
    log: LogReading = field(default_factory=LogReading)
    error: str | None = None
    """The first error in vLLM's words; None if it started."""
    is_started: bool | None = None
    """Whether the engine started; None if unknown, as when a log ends early."""
    generated_tokens: tuple[int, ...] = ()
    """Token ids of the answer to one prompt, which shows that it serves."""
    generated_text: str = ""
    """The answer as text, if there is a tokenizer."""
    load: LoadFigures | None = None
    is_compile_cache_cold: bool | None = None
    """Whether vLLM compiled the model in this start; None if unknown."""
    is_dummy: bool = False
    """Whether the weights were random numbers of the right shapes."""
    is_dry: bool = False
    """Whether vLLM started on a GPU that is not there."""
    seconds: float = 0.0
    """From the start of the process until it was ready, or failed."""

    @property
    def limiting_worker(self) -> WorkerFigures | None:
        """The worker with the least memory for the KV cache; None for a log alone."""
        known = [w for w in self.workers if w.available_kv_cache_bytes is not None]
        return (
            min(known, key=lambda one: one.available_kv_cache_bytes or 0)
            if known
            else None
        )

    @property
    def weights_bytes(self) -> int | None:
        """The largest worker's "Model loading took"; for a log its rounded figure."""
        return max(
            (one.weights_bytes or 0 for one in self.workers), default=0
        ) or self._logged("weights_gib")

    @property
    def available_kv_cache_bytes(self) -> int | None:
        """The smallest worker's figure; for a log its rounded figure."""
        worker = self.limiting_worker
        if worker is not None:
            return worker.available_kv_cache_bytes
        return self._logged("available_kv_gib")

    @property
    def cudagraph_bytes(self) -> int | None:
        """Size of the captured graphs, as the log rounds it."""
        return self._logged("cudagraph_gib")

    @property
    def num_gpu_blocks(self) -> int | None:
        """Blocks of the KV cache."""
        return self.engine.num_gpu_blocks or self._count("num_gpu_blocks")

    @property
    def kv_cache_size_tokens(self) -> int | None:
        """As vLLM logs it."""
        return self.engine.kv_cache_size_tokens or self._count("kv_tokens")

    @property
    def max_concurrency(self) -> float | None:
        """Unrounded if the engine reports it; else as logged, with two decimals."""
        return self.engine.max_concurrency or self.log.figures.get("max_concurrency")

    @property
    def lines(self) -> tuple[MeasuredLine, ...]:
        """The limiting worker's account as far as it is known, the KV cache last."""
        worker = self.limiting_worker
        if worker is None:
            return self._logged_lines()
        return _worker_lines(
            self._completed(worker), is_cpu=worker.weights_bytes is None
        )

    def _completed(self, worker: WorkerFigures) -> WorkerFigures:
        """Add the figures that releases before 0.12 only log."""
        if worker.consumed_bytes is not None or worker.non_torch_bytes is not None:
            return worker
        return replace(
            worker,
            peak_activation_bytes=self._logged("activation_gib"),
            non_torch_bytes=self._logged("non_torch_gib"),
        )

    def _logged_lines(self) -> tuple[MeasuredLine, ...]:
        """Return the account in the log, rounded to 0.01 GiB."""
        setting = self.log.setting
        lines = _worker_lines(
            WorkerFigures(
                rank=0,
                weights_bytes=self._logged("weights_gib"),
                consumed_bytes=self._logged("consumed_gib"),
                peak_activation_bytes=self._logged("activation_gib"),
                non_torch_bytes=self._logged("non_torch_gib"),
                cudagraph_estimate_bytes=self._logged("cudagraph_estimated_gib"),
                is_estimate_charged=bool(setting.is_estimate_charged),
                available_kv_cache_bytes=self._logged("available_kv_gib"),
            ),
            is_cpu=setting.device == "cpu",
        )
        if not self._has_unknown_graphs():
            return lines
        covers = (_PEAK, _GRAPHS)
        return tuple(
            replace(line, name=" + ".join(covers), covers=covers)
            if line.name == _PEAK
            else line
            for line in lines
        )

    def _has_unknown_graphs(self) -> bool:
        """Return whether the log's peak contains an estimate that no line tells.

        Source: vLLM 0.33.0 `v1/worker/gpu_worker.py` determine_available_memory.
        """
        figures, setting = self.log.figures, self.log.setting
        is_captured = figures.get("cudagraph_gib", 1) > 0
        is_eager = setting.shown.get("enforce_eager") is True
        is_told = "cudagraph_estimated_gib" in figures
        return setting.is_estimate_in_peak and is_captured and not (is_eager or is_told)

    def _logged(self, name: str) -> int | None:
        gib = self.log.figures.get(name)
        return None if gib is None else round(gib * GIB)

    def _count(self, name: str) -> int | None:
        count = self.log.figures.get(name)
        return None if count is None else int(count)


def _worker_lines(worker: WorkerFigures, *, is_cpu: bool) -> tuple[MeasuredLine, ...]:
    weights, consumed = worker.weights_bytes, worker.consumed_bytes
    found: list[tuple[str, tuple[str, ...], int | None]] = [
        ("weights", ("weights",), weights)
    ]
    if consumed is not None and weights is not None:
        found.append((" + ".join(_GROUPED), _GROUPED, consumed - weights))
    elif is_cpu:  # its backend measures the process as a whole
        found.append(("all but the KV cache", ("weights", *_GROUPED, _PEAK), consumed))
    else:
        rest = ("weights", *_GROUPED)
        found.append((" + ".join(rest), rest, consumed))
    found += [
        ("non-torch", ("non-torch",), worker.non_torch_bytes),
        (_PEAK, (_PEAK,), worker.peak_activation_bytes),
    ]
    if worker.is_estimate_charged:
        found.append((_GRAPHS, (_GRAPHS,), worker.cudagraph_estimate_bytes))
    found.append((_KV_CACHE, (_KV_CACHE,), worker.available_kv_cache_bytes))
    return tuple(
        MeasuredLine(name=name, covers=covers, size_bytes=size)
        for name, covers, size in found
        if size is not None
    )
