"""The method that vLLM resolves a draft to, by its name and its config.

Source of all rules: vLLM 0.33.0 `config/speculative.py` SpeculativeConfig.__post_init__
and hf_config_override.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.engine.releases import Release
from planner.engine.releases.change import Change, recorded
from planner.errors import Refused, UnknownArchitecture
from planner.models.drafts.config import HEADS_ALONE, MTP_METHODS, SpeculativeConfig
from planner.models.files import ModelFiles

_NAMES_NGRAM_GPU = Change(
    since=(0, 32),
    what="The method ngram_gpu is another name of ngram.",
    source="vLLM 0.32.0 `v1/worker/gpu/spec_decode/__init__.py` init_speculator",
)
_SPECULATORS_OWN = "speculators_model_type"
_EXPLICIT = ("eagle", "eagle3", "dflash", "dspark")
_NOT_MODELLED = ("ngram_gpu", "extract_hidden_states", "custom_class")
_SPECULATORS = {
    "eagle3": "eagle3",
    "dflash": "dflash",
    "dflash2": "dflash",
    "dspark": "dspark",
}
_DSPARK = ("Qwen3DSparkModel", "Qwen3OmniDSparkModel", "Gemma4DSparkModel")
_BY_TYPE = {
    "deepseek_v3": "deepseek_mtp",
    "deepseek_v32": "deepseek_mtp",
    "glm_moe_dsa": "deepseek_mtp",
    "deepseek_v4": "deepseek_v4_mtp",
    "dots3_note": "dots3_note_mtp",
    "pangu_ultra_moe": "pangu_ultra_moe_mtp",
    "kimi_k3": "kimi_k3_mtp",
    "ernie4_5_moe": "ernie_mtp",
    "qwen3_next": "qwen3_next_mtp",
    "qwen4_exp": "qwen4_exp_mtp",
    "qwen4_exp_text": "qwen4_exp_mtp",
    "bailing_hybrid": "bailing_hybrid_mtp",
    "exaone_moe": "exaone_moe_mtp",
    "qwen3_5": "qwen3_5_mtp",
    "qwen3_5_moe": "qwen3_5_mtp",
    "qwen3_5_text": "qwen3_5_mtp",
    "qwen3_5_moe_text": "qwen3_5_mtp",
    "intern_s2_preview": "qwen3_5_mtp",
    "interns2_mobius": "qwen3_5_mtp",
    "longcat_flash": "longcat_flash_mtp",
    "step3p5": "step3p5_mtp",
    "step3p7": "step3p5_mtp",
    "step5": "step5_mtp",
    "step5_vl": "step5_mtp",
    "hy_v3": "hy_v3_mtp",
    "hy_v4": "hy_v4_mtp",
    "inkling_mm_model": "inkling_mtp",
    "inkling_model": "inkling_mtp",
    "gemma4_assistant": "gemma4_mtp",
    "gemma4_unified_assistant": "gemma4_mtp",
    "minimax_m3_vl": "minimax_m3_mtp",
    "glm5_next": "glm5_next_mtp",
}
_BY_ARCHITECTURE = {
    "MiMoForCausalLM": "mimo_mtp",
    "MiMoV2ForCausalLM": "mimo_v2_mtp",
    "MiMoV2OmniForCausalLM": "mimo_v2_mtp",
    "MiMoV2FlashForCausalLM": "mimo_v2_mtp",
    "Glm4MoeForCausalLM": "glm4_moe_mtp",
    "Glm4MoeLiteForCausalLM": "glm4_moe_lite_mtp",
    "GlmOcrForConditionalGeneration": "glm_ocr_mtp",
    "BailingMoeV3ForCausalLM": "bailing_hybrid_v3_mtp",
    "BailingMoeV2_5ForCausalLM": "bailing_hybrid_mtp",
}


def needs_no_draft(method: str, release: Release) -> bool:
    """Whether tokens are looked up in the text so far, without a draft."""
    is_other_name = method == "ngram_gpu" and release.has(_NAMES_NGRAM_GPU)
    return method in ("ngram", "suffix") or is_other_name


def mtp_type(config: Mapping[str, Any]) -> str | None:
    """Return vLLM's model type of a checkpoint's layers for multi-token prediction.

    None where it has none that vLLM supports.
    """
    name = next(iter(config.get("architectures") or ()), "")
    model_type = str(config.get("model_type") or "")
    if model_type in MTP_METHODS:
        return model_type
    if model_type in ("nemotron_h", "nemotron_h_puzzle"):
        return "nemotron_h_mtp" if config.get("num_nextn_predict_layers") else None
    if "exaone4_5" in model_type:
        return "exaone4_5_mtp"
    return _BY_TYPE.get(model_type) or _BY_ARCHITECTURE.get(str(name))


def resolved_method(
    requested: SpeculativeConfig, target: ModelFiles, draft: ModelFiles | None
) -> str:
    """Return the method as vLLM resolves it with the draft's config.

    Raises:
        Refused: in vLLM's words.
        UnknownArchitecture: for a method that is not modelled.
    """
    method = requested.method
    if method in _NOT_MODELLED:
        raise not_modelled(method, "its buffers are not")
    if draft is not None and draft.config.get(_SPECULATORS_OWN) is not None:
        return _speculators_method(draft)
    if method in _EXPLICIT:
        return method
    if method in HEADS_ALONE:
        return method
    files = target if draft is None else draft
    named = _method_by_name(files)
    if named is not None:
        return named
    if mtp_type(files.config) is not None:
        return "mtp"
    if method == "draft_model":
        return method
    raise Refused(f"Unsupported speculative method: '{method}'")


def _method_by_name(files: ModelFiles) -> str | None:
    """Return the method that a draft's name, or its architecture, implies."""
    name, config = files.name.lower(), files.config
    architectures = config.get("architectures") or ()
    for part, found in (("eagle-", "eagle"), ("eagle3", "eagle3")):
        if part in name:
            return found
    if "dflash" in name or "MuseGlimmerAssistantModel" in architectures:
        return "dflash"
    is_spark = any(architecture in _DSPARK for architecture in architectures)
    is_dense = "DSparkDraftModel" in architectures and (
        config.get("model_type") == "qwen3"
    )
    if "dspark" in name or is_spark or is_dense:
        return "dspark"
    return None


def runs(what: str, since: str) -> Change:
    """Return the change from which on the planner knows how vLLM runs a draft."""
    return recorded(
        f"vLLM runs {what} as in {since}, the oldest release whose way is modelled.",
        since=since,
    )


def check_modelled(since: Change, what: str, release: Release) -> None:
    """Refuse a draft in a release whose way of running it is not known.

    Raises:
        UnknownArchitecture: naming the first release that is.
    """
    if not release.has(since):
        first = ".".join(map(str, since.since))
        raise UnknownArchitecture(
            f"speculative_config with {what} is not modelled for vLLM before {first}."
        )


def not_modelled(method: str, why: str) -> UnknownArchitecture:
    """Build the error for a method whose memory is not known."""
    return UnknownArchitecture(
        f"speculative_config with method={method!r} is not modelled yet: {why} known. "
        "Leave it out."
    )


def _speculators_method(draft: ModelFiles) -> str:
    """Return the method of a checkpoint in the format of vLLM's speculators library.

    Source: vLLM 0.33.0 `transformers_utils/configs/speculators/base.py`.
    """
    kind = str(draft.config[_SPECULATORS_OWN])
    if kind not in _SPECULATORS:
        raise not_modelled(kind, "its draft is not")
    return _SPECULATORS[kind]
