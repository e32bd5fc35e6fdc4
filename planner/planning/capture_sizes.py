"""The batch sizes for which vLLM captures CUDA graphs.

Source of all rules: vLLM 0.33.0 `config/vllm.py` _set_cudagraph_sizes;
`models/config.py` GptOssForCausalLMConfig.
"""

from __future__ import annotations

from planner.engine.generations import DATACENTER_BLACKWELL
from planner.engine.gpu import GPU
from planner.engine.releases import NEWEST_RELEASE, Release
from planner.engine.releases.change import Change
from planner.engine.settings import EngineSettings
from planner.errors import Refused
from planner.memory.compilation import Compilation, GraphMode, resolve_compilation
from planner.models.architecture import ModelArchitecture
from planner.values import frozen

_GPT_OSS = "GptOssForCausalLM"
_FIRST = (1, 2, 4)
_EIGHTS_FROM, _SIXTEENS_FROM = 8, 256
_CAPTURES_BY_REQUESTS = Change(
    since=(0, 10),
    what="The largest CUDA graph size is twice max_num_seqs, not always 512.",
    source="vLLM 0.10.0 `config.py` SchedulerConfig.cuda_graph_sizes",
)
_WIDENS_CAPTURE_STEPS = Change(
    since=(0, 11, 1),
    what="CUDA graph sizes from 256 on are 16 apart, and none exceeds the limit.",
    source="vLLM 0.11.1 `config/vllm.py` _set_cudagraph_sizes",
)
_CAPTURES_LARGEST_STEP = Change(
    since=(0, 20, 1),
    what=(
        "max_num_batched_tokens is itself a CUDA graph size where it is within the "
        "limit."
    ),
    source="vLLM 0.20.1 `config/vllm.py` _set_cudagraph_sizes",
)
_CAPTURES_MORE_ON_BLACKWELL = Change(
    since=(0, 28),
    what=(
        "CUDA graph sizes reach 1,024 on data centre GPUs of the Blackwell family, "
        "such as B200."
    ),
    source="vLLM 0.28.0 `config/vllm.py` _set_cudagraph_sizes",
)
_CAPTURES_ALL_REQUESTS = Change(
    since=(0, 31),
    what="max_num_seqs is itself a CUDA graph size.",
    source="vLLM 0.31.0 `config/vllm.py` _set_cudagraph_sizes",
)
_CAPTURES_BY_QUERY_LENGTH = Change(
    since=(0, 13),
    what="The largest CUDA graph size counts the draft tokens of each request.",
    source="vLLM 0.13.0 `config/vllm.py` _set_cudagraph_sizes",
)
_CAPTURES_DECODE_STEPS = Change(
    since=(0, 29),
    what=(
        "Decode steps of whole requests with their draft tokens are CUDA graph sizes "
        "too."
    ),
    source="vLLM 0.29.0 `config/vllm.py` _set_cudagraph_sizes",
)
_LIMITS_GPT_OSS = Change(
    since=(0, 10, 1),
    what="gpt-oss has CUDA graphs of sizes up to 1,024 by default.",
    source="vLLM 0.10.1 `models/config.py` GptOssForCausalLMConfig",
)
_LIMITS_GPT_OSS_TO_992 = Change(
    since=(0, 11),
    until=(0, 11, 1),
    what="gpt-oss has CUDA graphs of sizes up to 992 by default, not 1,024.",
    source="vLLM 0.11.0 `models/config.py` GptOssForCausalLMConfig",
)


def capture_sizes(
    settings: EngineSettings,
    model: ModelArchitecture,
    gpu: GPU,
    batch: tuple[int, int],
    release: Release = NEWEST_RELEASE,
) -> tuple[int, ...]:
    """Return the batch sizes for which CUDA graphs are captured.

    `batch` is max_num_batched_tokens and max_num_seqs.

    Raises:
        Refused: when sizes are given twice, disagree, or allow no graph.
    """
    compilation = resolve_compilation(settings, model, gpu, release)
    if compilation.graph_mode is GraphMode.NONE:
        return ()
    max_num_batched_tokens, max_num_seqs = batch
    requested = compilation.capture_sizes
    if not release.has(_WIDENS_CAPTURE_STEPS):
        sizes = _sizes_in_eights(compilation, model, max_num_seqs, release)
        # Sizes that the user lists are not filtered.
        kept = requested is not None
        return tuple(sorted(s for s in sizes if kept or s <= max_num_batched_tokens))
    seqs = _Requests(count=max_num_seqs, query_len=model.query_len)
    limit, uniform = _largest(compilation, model, gpu, seqs, release)
    limit = min(max_num_batched_tokens, limit)
    if limit < 1:
        raise Refused(
            "Maximum cudagraph size should be greater than or equal to 1 when using "
            "cuda graph."
        )
    if requested is not None:
        if not requested:
            raise Refused(
                "cudagraph_capture_sizes should contain at least one element when "
                "using cuda graph."
            )
        sizes = {s for s in requested if s <= max_num_batched_tokens}
    else:
        sizes = _widening_sizes(settings.performance_mode, limit)
        if max_num_batched_tokens <= limit and release.has(_CAPTURES_LARGEST_STEP):
            sizes.add(max_num_batched_tokens)
        sizes.update(size for size in uniform if size <= max_num_batched_tokens)
    _check_sizes(compilation, max(sizes, default=0))
    return tuple(sorted(sizes))


def in_whole_requests(
    sizes: tuple[int, ...], compilation: GraphMode, query_len: int
) -> tuple[int, ...]:
    """Return the sizes as the first model runner rounds them: to whole requests.

    Raises:
        Refused: in vLLM's words, when no size is left.

    Source: vLLM 0.33.0 `config/compilation.py` adjust_cudagraph_sizes_for_spec_decode.
    """
    if not sizes or query_len == 1 or not compilation.has_full:
        return sizes
    largest = sizes[-1]
    rounded = {-(-size // query_len) * query_len for size in sizes}
    kept = tuple(sorted(size for size in rounded if size <= largest))
    if not kept and query_len <= largest:
        kept = (query_len,)
    if not kept:
        raise Refused(
            f"No valid cudagraph sizes after rounding to multiple of {query_len} "
            "(num_speculative_tokens + 1) please adjust num_speculative_tokens "
            f"({query_len - 1}) or max_cudagraph_capture_size ({largest}) or "
            f"cudagraph_capture_sizes ({list(sizes)})"
        )
    return kept


@frozen
class _Requests:
    """The number of requests in a step, and the tokens of each in a decode step."""

    count: int
    query_len: int


def _largest(
    compilation: Compilation,
    model: ModelArchitecture,
    gpu: GPU,
    requests: _Requests,
    release: Release,
) -> tuple[int, tuple[int, ...]]:
    """Return the largest size, default or requested, and sizes of decode steps.

    The latter may fall between the usual sizes.
    """
    requested = compilation.max_capture_size
    if requested is not None:
        return requested, ()
    if model.architecture == _GPT_OSS and compilation.capture_sizes is None:
        return _gpt_oss_capture_size(release), ()
    is_blackwell = gpu.compute_capability[0] == DATACENTER_BLACKWELL.major
    is_wide = is_blackwell and release.has(_CAPTURES_MORE_ON_BLACKWELL)
    default = 1024 if is_wide else 512
    length = requests.query_len if release.has(_CAPTURES_BY_QUERY_LENGTH) else 1
    limit = min(requests.count * length * 2, default)
    if length > 1 and release.has(_CAPTURES_DECODE_STEPS):
        steps = {n * length for n in _request_counts(min(requests.count, default))}
        return limit, tuple(size for size in steps if size <= limit)
    is_captured = release.has(_CAPTURES_ALL_REQUESTS) and requests.count <= limit
    is_captured = is_captured and requests.query_len == 1
    return limit, (requests.count,) if is_captured else ()


def _request_counts(most: int) -> set[int]:
    return {*_widening_sizes(None, most), most}


def _widening_sizes(performance_mode: str | None, limit: int) -> set[int]:
    if performance_mode == "interactivity":
        sizes = set(range(1, min(limit, 32) + 1))
    else:
        sizes = {size for size in _FIRST if size <= limit}
    if limit >= _EIGHTS_FROM:
        sizes.update(range(_EIGHTS_FROM, min(limit + 1, _SIXTEENS_FROM), 8))
    if limit >= _SIXTEENS_FROM:
        sizes.update(range(_SIXTEENS_FROM, limit + 1, 16))
    return sizes


def _sizes_in_eights(
    compilation: Compilation,
    model: ModelArchitecture,
    max_num_seqs: int,
    release: Release,
) -> set[int]:
    """Return the sizes in releases where they are 8 apart throughout.

    Source: vLLM 0.11.0 `config/vllm.py` _set_cudagraph_sizes, `config/scheduler.py`
    cuda_graph_sizes, `models/config.py` GptOssForCausalLMConfig.
    """
    if compilation.capture_sizes is not None:
        return set(compilation.capture_sizes)
    is_by_requests = release.has(_CAPTURES_BY_REQUESTS)
    by_default = min(max_num_seqs * 2, 512) if is_by_requests else 512
    limit = compilation.max_capture_size or by_default
    if model.architecture == _GPT_OSS and limit < _gpt_oss_capture_size(release):
        return _widening_sizes(None, _gpt_oss_capture_size(release))
    return {*_FIRST, *range(_EIGHTS_FROM, limit + 1, 8)}


def _check_sizes(compilation: Compilation, largest: int) -> None:
    given = compilation.max_capture_size
    if compilation.capture_sizes is None or given in (None, largest):
        return
    raise Refused(
        f"customized max_cudagraph_capture_size(={given}) should be consistent with "
        f"the max value of cudagraph_capture_sizes(={largest})"
    )


def _gpt_oss_capture_size(release: Release) -> int:
    """Return the largest size for gpt-oss; 0 where gpt-oss has no limit of its own."""
    if release.has(_LIMITS_GPT_OSS_TO_992):
        return 992
    return 1024 if release.has(_LIMITS_GPT_OSS) else 0
