"""Which of vLLM's two model runners serves a model.

They keep other buffers and run other things in the profile run.
"""

from __future__ import annotations

from planner.model import ModelArchitecture
from planner.releases import Release


def uses_v2_runner(
    model: ModelArchitecture,
    release: Release,
    *,
    forced: bool | None = None,
    pipeline_parallel_size: int = 1,
) -> bool:
    """Return whether the second model runner serves the model.

    `forced` is VLLM_USE_V2_MODEL_RUNNER; None where it is not set.

    Source: vLLM 0.33.0 `config/vllm.py` use_v2_model_runner; 0.22.0 to 0.28.0 the same,
    _is_default_v2_model_runner_model.
    """
    if forced is not None:
        return forced and release.has_v2_runner
    if not _speculates(model, release, has_stages=pipeline_parallel_size > 1):
        return False
    return release.runs_all_v2 or _is_named(model, release)


def _is_named(model: ModelArchitecture, release: Release) -> bool:
    """Return whether a release that has both runners takes the second for a model."""
    if model.is_pooling or model.is_attention_free:
        return False
    is_named = model.architecture in release.v2_architectures
    if model.state_layers:
        return is_named and release.runs_hybrids_v2
    if not release.runs_quantized_v2:
        is_plain = not model.is_moe and model.quantization is None
        return is_named and is_plain
    return is_named or (release.runs_dense_v2 and not model.is_moe)


def _speculates(
    model: ModelArchitecture, release: Release, *, has_stages: bool
) -> bool:
    """Return whether the second runner does what is asked of speculative decoding.

    Source: vLLM 0.22.0 to 0.33.0 `config/vllm.py`
    _get_v2_model_runner_unsupported_features.
    """
    if model.speculation is None:
        return True
    method = model.speculation.method
    since = {
        "suffix": None,
        "medusa": None,
        "ngram": (0, 32),
        "ngram_gpu": (0, 32),
        "draft_model": (0, 31),
    }
    first = since.get(method, (0, 22))
    if first is None or not release.since(*first):
        return False
    return not (method == "eagle3" and has_stages and not release.since(0, 30))
