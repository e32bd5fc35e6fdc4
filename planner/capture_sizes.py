"""The batch sizes for which vLLM captures CUDA graphs.

Source of all rules: vLLM 0.33.0 `config/vllm.py` _set_cudagraph_sizes;
`models/config.py` GptOssForCausalLMConfig.
"""

from __future__ import annotations

from planner.engine import EngineSettings
from planner.errors import Refused
from planner.gpu import GPU
from planner.model import ModelArchitecture
from planner.parallel import DATACENTER_BLACKWELL
from planner.releases import NEWEST_RELEASE, Release

_GPT_OSS = "GptOssForCausalLM"
_FIRST = (1, 2, 4)
_EIGHTS_FROM, _SIXTEENS_FROM = 8, 256


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
        Refused: when both size arguments are given and disagree, or allow no graph.
    """
    if settings.enforce_eager or gpu.is_cpu:
        return ()
    max_num_batched_tokens, max_num_seqs = batch
    if not release.widens_capture_steps:
        sizes = _in_eights(settings, model, max_num_seqs, release)
        # Sizes that the user lists are taken as they are.
        kept = settings.cudagraph_capture_sizes is not None
        return tuple(sorted(s for s in sizes if kept or s <= max_num_batched_tokens))
    limit, uniform = _largest(settings, model, gpu, max_num_seqs, release)
    limit = min(max_num_batched_tokens, limit)
    if limit < 1:
        raise Refused(
            "Maximum cudagraph size should be greater than or equal to 1 when using "
            "cuda graph."
        )
    if settings.cudagraph_capture_sizes is not None:
        sizes = {
            s for s in settings.cudagraph_capture_sizes if s <= max_num_batched_tokens
        }
    else:
        sizes = _widening(settings.performance_mode, limit)
        if max_num_batched_tokens <= limit and release.captures_the_largest_step:
            sizes.add(max_num_batched_tokens)
        sizes.update(size for size in uniform if size <= max_num_batched_tokens)
    _check_sizes(settings, max(sizes, default=0))
    return tuple(sorted(sizes))


def _largest(
    settings: EngineSettings,
    model: ModelArchitecture,
    gpu: GPU,
    max_num_seqs: int,
    release: Release,
) -> tuple[int, tuple[int, ...]]:
    """Return the largest size by default or as asked, and a size of its own.

    The latter is that of all requests at once.
    """
    asked = settings.max_cudagraph_capture_size
    if asked is not None:
        return asked, ()
    if model.architecture == _GPT_OSS and settings.cudagraph_capture_sizes is None:
        return release.gpt_oss_capture_size, ()
    is_blackwell = gpu.compute_capability[0] == DATACENTER_BLACKWELL
    is_wide = is_blackwell and release.captures_more_on_blackwell
    limit = min(max_num_seqs * 2, 1024 if is_wide else 512)
    is_captured = release.captures_all_requests and max_num_seqs <= limit
    return limit, (max_num_seqs,) if is_captured else ()


def _widening(performance_mode: str | None, limit: int) -> set[int]:
    if performance_mode == "interactivity":
        sizes = set(range(1, min(limit, 32) + 1))
    else:
        sizes = {size for size in _FIRST if size <= limit}
    if limit >= _EIGHTS_FROM:
        sizes.update(range(_EIGHTS_FROM, min(limit + 1, _SIXTEENS_FROM), 8))
    if limit >= _SIXTEENS_FROM:
        sizes.update(range(_SIXTEENS_FROM, limit + 1, 16))
    return sizes


def _in_eights(
    settings: EngineSettings,
    model: ModelArchitecture,
    max_num_seqs: int,
    release: Release,
) -> set[int]:
    """Return the sizes of releases in which they are eight apart throughout.

    Source: vLLM 0.11.0 `config/vllm.py` _set_cudagraph_sizes, `config/scheduler.py`
    cuda_graph_sizes, `models/config.py` GptOssForCausalLMConfig.
    """
    if settings.cudagraph_capture_sizes is not None:
        return set(settings.cudagraph_capture_sizes)
    by_default = min(max_num_seqs * 2, 512) if release.captures_by_requests else 512
    limit = settings.max_cudagraph_capture_size or by_default
    if model.architecture == _GPT_OSS and limit < release.gpt_oss_capture_size:
        return _widening(None, release.gpt_oss_capture_size)
    return {*_FIRST, *range(_EIGHTS_FROM, limit + 1, 8)}


def _check_sizes(settings: EngineSettings, largest: int) -> None:
    asked = settings.max_cudagraph_capture_size
    if settings.cudagraph_capture_sizes is None or asked in (None, largest):
        return
    raise Refused(
        f"customized max_cudagraph_capture_size(={asked}) should be consistent with "
        f"the max value of cudagraph_capture_sizes(={largest})"
    )
