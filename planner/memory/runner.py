"""Which of vLLM's two model runners serves a model, and checks while it builds one.

The runners allocate different buffers and do different work in the profile run. The
checks follow the order in which vLLM builds a model before its decoder layers: sizes
are checked again with the weights, but the user sees vLLM's first complaint.
"""

from __future__ import annotations

from functools import lru_cache

from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.errors import Refused
from planner.models.architecture import ModelArchitecture, Tower

_FIRST = frozenset({"Qwen3ForCausalLM"})
_DENSE = _FIRST | {"LlamaForCausalLM", "MistralForCausalLM"}
_EXPERTS = frozenset(
    {"DeepseekV2ForCausalLM", "Qwen2MoeForCausalLM", "GraniteMoeForCausalLM"}
)
_WITH_NGRAMS = _EXPERTS | {
    "InklingForCausalLM",
    "InklingForConditionalGeneration",
    "LongcatFlashNgramForCausalLM",
}
_WITH_KIMI_K3 = _WITH_NGRAMS | {"KimiK3ForConditionalGeneration"}
_WITH_DEEPSEEK_V4 = _WITH_KIMI_K3 | {"DeepseekV4ForCausalLM"}
_RUNS_ALL_V2_SINCE = (0, 29)
"""The second runner serves every model.

Source: vLLM 0.29.0 `config/vllm.py` use_v2_model_runner.
"""
_RUNS_DENSE_V2_SINCE = (0, 25)
"""The second runner serves all models without experts and states.

Source: vLLM 0.25.0 `config/vllm.py` _is_default_v2_model_runner_model.
"""
_RUNS_QUANTIZED_V2_SINCE = (0, 24)
"""It serves quantised models and experts where their architecture is listed.

Source: vLLM 0.24.0 `config/vllm.py` _is_default_v2_model_runner_model.
"""
_RUNS_HYBRIDS_V2_SINCE = (0, 27)
"""It serves hybrids of attention and states where their architecture is listed.

Source: vLLM 0.27.0 `config/vllm.py` _is_default_v2_model_runner_model.
"""


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
    if not _supports_speculation(model, release, has_stages=pipeline_parallel_size > 1):
        return False
    return release >= _RUNS_ALL_V2_SINCE or _is_listed(model, release)


def _is_listed(model: ModelArchitecture, release: Release) -> bool:
    """Return whether a release with both runners uses the second for a model."""
    if model.is_pooling or model.is_attention_free:
        return False
    is_listed = model.architecture in _v2_architectures(release)
    if model.state_layers:
        return is_listed and release >= _RUNS_HYBRIDS_V2_SINCE
    if release < _RUNS_QUANTIZED_V2_SINCE:
        is_plain = not model.is_moe and model.quantization is None
        return is_listed and is_plain
    return is_listed or (release >= _RUNS_DENSE_V2_SINCE and not model.is_moe)


def _supports_speculation(
    model: ModelArchitecture, release: Release, *, has_stages: bool
) -> bool:
    """Return whether the second runner supports the requested speculative decoding.

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
    if first is None or release < first:
        return False
    return not (method == "eagle3" and has_stages and release < (0, 30))


def _v2_architectures(release: Release) -> frozenset[str]:
    """Return the architectures for which a release lists the second runner.

    Source: vLLM 0.22.0 `config/vllm.py` DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES.
    """
    named = (
        ((0, 28), _WITH_DEEPSEEK_V4),
        ((0, 27), _WITH_KIMI_K3),
        ((0, 26), _WITH_NGRAMS),
        ((0, 25), _EXPERTS),
        ((0, 24), _DENSE | _EXPERTS),
        ((0, 23), _DENSE),
        ((0, 22), _FIRST),
    )
    found = (names for since, names in named if release >= since)
    return next(found, frozenset())


@lru_cache(maxsize=256)
def check_before_layers(
    model: ModelArchitecture,
    layout: ParallelLayout,
    towers: tuple[tuple[Tower, ParallelLayout], ...],
) -> None:
    """Refuse a number of ranks that does not divide a tower or, then, the vocabulary.

    Raises:
        Refused: in vLLM's words.
    """
    for tower, ranks in towers:
        for module in tower.modules:
            module.tensors(ranks)
    for module in (*model.first_stage, *model.every_stage):
        module.tensors(layout)


def check_deepstack(model: ModelArchitecture, layout: ParallelLayout) -> None:
    """Refuse a first stage that lacks some of the layers that take a tower's features.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `models/qwen3_vl.py` Qwen3VLForConditionalGeneration.
    """
    first, *others = layout.stage_sizes(model.num_hidden_layers)
    if others and first < model.deepstack_layers:
        raise Refused(
            "start_layer should be greater than or equal to "
            "len(deepstack_visual_indexes)"
        )


def check_kv_sources(model: ModelArchitecture, layout: ParallelLayout) -> None:
    """Refuse a stage whose layers read keys and values stored on an earlier stage.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 `layers/attention/attention.py` validate_kv_sharing_target.
    """
    if not model.kv_sources:
        return
    begin = 0
    for size in layout.stage_sizes(model.num_hidden_layers):
        for layer in range(begin, begin + size):
            source = model.kv_sources[layer]
            if source < begin:
                names = [
                    f"{model.layer_prefix}.{i}.self_attn.attn" for i in (layer, source)
                ]
                raise Refused(
                    f"Specified KV sharing target layer for {names[0]} is not valid: "
                    f"target layer {names[1]} is not a valid Attention layer in the "
                    "model."
                )
        begin += size
