"""Which of vLLM's two model runners serves a model, and checks while it builds one.

The runners allocate different buffers and do different work in the profile run. The
checks follow the order in which vLLM builds a model before its decoder layers: sizes
are checked again with the weights, but the user sees vLLM's first complaint.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.engine.releases.shared import HAS_V2_RUNNER
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
_RUNS_ALL_V2 = Change(
    since=(0, 29),
    what="The second model runner serves every model.",
    source="vLLM 0.29.0 `config/vllm.py` use_v2_model_runner",
)
_RUNS_DENSE_V2 = Change(
    since=(0, 25),
    what="The second model runner serves all models without experts and states.",
    source="vLLM 0.25.0 `config/vllm.py` _is_default_v2_model_runner_model",
)
_RUNS_QUANTIZED_V2 = Change(
    since=(0, 24),
    what=(
        "The second model runner serves quantised models and models with experts where "
        "their architecture is listed."
    ),
    source="vLLM 0.24.0 `config/vllm.py` _is_default_v2_model_runner_model",
)
_RUNS_HYBRIDS_V2 = Change(
    since=(0, 27),
    what=(
        "The second model runner serves hybrids of attention and states where their "
        "architecture is listed."
    ),
    source="vLLM 0.27.0 `config/vllm.py` _is_default_v2_model_runner_model",
)
_SERVES_QWEN3_V2 = Change(
    since=(0, 22),
    what="The second model runner serves Qwen3.",
    source="vLLM 0.22.0 `config/vllm.py` DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES",
)
_SERVES_LLAMA_V2 = Change(
    since=(0, 23),
    what="The second model runner serves Llama and Mistral.",
)
_SERVES_EXPERTS_V2 = Change(
    since=(0, 24),
    what="The second model runner serves DeepSeek-V2, Qwen2-MoE and Granite-MoE.",
)
_SERVES_NGRAMS_V2 = Change(
    since=(0, 26),
    what="The second model runner serves Inkling and LongCat-Flash with n-grams.",
)
_SERVES_KIMI_K3_V2 = Change(
    since=(0, 27),
    what="The second model runner serves Kimi K3.",
)
_SERVES_DEEPSEEK_V4_V2 = Change(
    since=(0, 28),
    what="The second model runner serves DeepSeek V4.",
)
_LISTED = (
    (_SERVES_DEEPSEEK_V4_V2, _WITH_DEEPSEEK_V4),
    (_SERVES_KIMI_K3_V2, _WITH_KIMI_K3),
    (_SERVES_NGRAMS_V2, _WITH_NGRAMS),
    (_RUNS_DENSE_V2, _EXPERTS),
    (_SERVES_EXPERTS_V2, _DENSE | _EXPERTS),
    (_SERVES_LLAMA_V2, _DENSE),
    (_SERVES_QWEN3_V2, _FIRST),
)
"""What each release lists, newest first; as from 0.25.0 not what is dense."""
_SPECULATES_V2 = Change(
    since=(0, 22),
    what=(
        "The second model runner serves speculative decoding with EAGLE, MTP and most "
        "other methods."
    ),
    source="vLLM 0.22.0 `config/vllm.py` _get_v2_model_runner_unsupported_features",
)
_SPECULATES_BY_NGRAMS_V2 = Change(
    since=(0, 32),
    what="The second model runner serves speculative decoding by n-grams.",
)
_SPECULATES_BY_MODEL_V2 = Change(
    since=(0, 31),
    what="The second model runner serves speculative decoding with a draft model.",
)
_SPECULATES_IN_STAGES_V2 = Change(
    since=(0, 30),
    what=(
        "The second model runner serves speculative decoding with EAGLE-3 and several "
        "pipeline stages."
    ),
)
_SPECULATION: Mapping[str, Change | None] = {
    "suffix": None,
    "medusa": None,
    "ngram": _SPECULATES_BY_NGRAMS_V2,
    "ngram_gpu": _SPECULATES_BY_NGRAMS_V2,
    "draft_model": _SPECULATES_BY_MODEL_V2,
}
"""By method, where it is not `_SPECULATES_V2`; None: no release."""


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
        return forced and release.has(HAS_V2_RUNNER)
    if not _supports_speculation(model, release, has_stages=pipeline_parallel_size > 1):
        return False
    return release.has(_RUNS_ALL_V2) or _is_listed(model, release)


def _is_listed(model: ModelArchitecture, release: Release) -> bool:
    """Return whether a release with both runners uses the second for a model."""
    if model.is_pooling or model.is_attention_free:
        return False
    is_listed = model.architecture in _v2_architectures(release)
    if model.state_layers:
        return is_listed and release.has(_RUNS_HYBRIDS_V2)
    if not release.has(_RUNS_QUANTIZED_V2):
        return is_listed and not (model.is_moe or _is_stored_quantised(model))
    return is_listed or (release.has(_RUNS_DENSE_V2) and not model.is_moe)


def _is_stored_quantised(model: ModelArchitecture) -> bool:
    """Return whether the checkpoint is quantised, not only what is loaded from it.

    Source: vLLM 0.22.0 `config/model.py` ModelConfig.is_quantized; a dry run of
    Qwen3-8B with quantization="fp8".
    """
    if model.files is None:
        return model.quantization is not None
    is_apart = model.files.hf_quant_config is not None
    return is_apart or "quantization_config" in model.files.config


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
    change = _SPECULATION.get(method, _SPECULATES_V2)
    if change is None or not release.has(change):
        return False
    is_in_stages = method == "eagle3" and has_stages
    return not is_in_stages or release.has(_SPECULATES_IN_STAGES_V2)


def _v2_architectures(release: Release) -> frozenset[str]:
    """Return the architectures for which a release lists the second runner."""
    found = (names for change, names in _LISTED if release.has(change))
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
