"""speculative_config, read and checked as vLLM does.

Source of all rules: vLLM 0.33.0 `config/speculative.py` SpeculativeConfig;
`engine/arg_utils.py` create_speculative_config.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.engine.settings import EngineSettings, check_keys
from planner.errors import PlannerError, Refused
from planner.values import frozen

_SPELLINGS = {
    "spec_method": ("--spec-method", "method"),
    "spec_model": ("--spec-model", "model"),
    "spec_tokens": ("--spec-tokens", "num_speculative_tokens"),
}
MTP_METHODS = frozenset(
    """
    deepseek_mtp dots3_note_mtp mimo_mtp mimo_v2_mtp glm4_moe_mtp glm4_moe_lite_mtp
    glm_ocr_mtp ernie_mtp nemotron_h_mtp exaone_moe_mtp exaone4_5_mtp qwen3_next_mtp
    qwen4_exp_mtp qwen3_5_mtp longcat_flash_mtp bailing_hybrid_v3_mtp minimax_m3_mtp
    bailing_hybrid_mtp mtp kimi_k3_mtp pangu_ultra_moe_mtp step3p5_mtp step5_mtp
    hy_v3_mtp hy_v4_mtp gemma4_mtp inkling_mtp glm5_next_mtp
    """.split()
)
METHODS = MTP_METHODS | {
    *("ngram", "draft_model", "suffix", "custom_class", "eagle", "eagle3"),
    *("extract_hidden_states", "dflash", "ngram_gpu", "dspark"),
}
HEADS_ALONE = ("medusa", "mlp_speculator")
"""Methods of heads without layers, which older releases know."""
HAS_HEADS_ALONE = Change(
    until=(0, 33),
    what="Heads without layers, such as Medusa's, serve as drafts.",
    source="vLLM 0.32.0 and 0.33.0 `config/speculative.py` SpeculativeConfig",
)
_DEFAULT_LOOKUP = 5
_SUFFIX_DEPTH = 24


@frozen
class SpeculativeConfig:
    """speculative_config, with vLLM's defaults."""

    method: str
    """As far as the arguments determine it; the draft's config may name another."""
    model: str | None = None
    """Of the draft; None: there is none, or it is the target itself."""
    num_speculative_tokens: int | None = None
    draft_tensor_parallel_size: int | None = None
    quantization: str | None = None
    max_model_len: int | None = None
    is_probabilistic: bool = False
    dspark_draft_topk: int | None = None
    xpress_topc: int | None = None
    target_quantization: str | None = None
    """The engine argument, which also holds for layers of the target's checkpoint."""


def requested_speculation(
    settings: EngineSettings, release: Release
) -> SpeculativeConfig | None:
    """Return the requested configuration; None without speculative decoding.

    Raises:
        PlannerError: for text that is not JSON.
        Refused: in vLLM's words.
    """
    given = _given(settings)
    if given is None:
        return None
    check_keys("speculative_config", given, release)
    _check_types(given)
    method = _method(given, release)
    tokens = given.get("num_speculative_tokens")
    if method in ("ngram", "ngram_gpu"):
        _check_lookup(given)
    if method == "suffix" and tokens is None:
        tokens = _suffix_depth(given)
    model = given.get("model")
    if model is None and tokens is not None and _needs_model(method):
        raise Refused(
            "num_speculative_tokens was provided but without speculative model."
        )
    if model is None and tokens is None:
        raise Refused(
            "num_speculative_tokens must be provided with speculative model unless the "
            "draft model config contains an n_predict parameter."
        )
    return SpeculativeConfig(
        method=method,
        model=None if method.startswith(("ngram", "suffix")) else model,
        num_speculative_tokens=tokens,
        draft_tensor_parallel_size=given.get("draft_tensor_parallel_size"),
        quantization=given.get("quantization"),
        max_model_len=given.get("max_model_len"),
        is_probabilistic=given.get("draft_sample_method") == "probabilistic",
        dspark_draft_topk=given.get("dspark_draft_topk"),
        xpress_topc=given.get("xpress_topc"),
        target_quantization=settings.quantization,
    )


def _given(settings: EngineSettings) -> dict[str, Any] | None:
    given: Any = settings.speculative_config
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError as error:
            raise PlannerError(
                f"speculative_config={settings.speculative_config!r} is not JSON "
                f"({error}). Write a table such as "
                '{"method": "ngram", "num_speculative_tokens": 4}.'
            ) from None
    if given is not None and not isinstance(given, Mapping):
        raise PlannerError(
            f"speculative_config={given!r}: names and values are needed, such as "
            '{"method": "ngram", "num_speculative_tokens": 4}.'
        )
    found = None if given is None else dict(given)
    for argument, (flag, name) in _SPELLINGS.items():
        value = getattr(settings, argument)
        if value is None:
            continue
        found = {} if found is None else found
        if name in found:
            raise Refused(
                f"{flag} and --speculative-config['{name}'] are mutually exclusive"
            )
        found[name] = value
    if found is None:
        return None
    return {str(name).replace("-", "_"): value for name, value in found.items()}


def _check_types(given: Mapping[str, Any]) -> None:
    """Refuse values of the wrong type or range, and a misspelt setting."""
    least = {
        "num_speculative_tokens": ("greater than 0", "greater_than"),
        "draft_tensor_parallel_size": (
            "greater than or equal to 1",
            "greater_than_equal",
        ),
        "max_model_len": ("greater than or equal to 1", "greater_than_equal"),
        "prompt_lookup_max": ("greater than or equal to 1", "greater_than_equal"),
        "prompt_lookup_min": ("greater than or equal to 1", "greater_than_equal"),
        "dspark_draft_topk": ("greater than or equal to 1", "greater_than_equal"),
        "xpress_topc": ("greater than or equal to 0", "greater_than_equal"),
    }
    for name, (wanted, kind) in least.items():
        value = given.get(name)
        if value is None:
            continue
        if type(value) is not int:
            raise PlannerError(
                f"speculative_config.{name}={value!r}: a whole number is needed."
            )
        if value < (0 if name == "xpress_topc" else 1):
            raise Refused(
                f"1 validation error for SpeculativeConfig\n{name}\n  Input should be "
                f"{wanted} [type={kind}, input_value={value}, input_type=int]"
            )
    for name in ("model", "method", "quantization"):
        if not isinstance(given.get(name), str | None):
            raise PlannerError(
                f"speculative_config.{name}={given[name]!r}: a text is needed."
            )
    if given.get("tensor_parallel_size") is not None:
        raise Refused(
            "'tensor_parallel_size' is not a valid argument in the speculative_config. "
            "Please pass 'draft_tensor_parallel_size' instead."
        )


def _method(given: Mapping[str, Any], release: Release) -> str:
    requested = given.get("method")
    if requested is None:
        named = given.get("model")
        if named in ("ngram", "[ngram]"):
            return "ngram"
        return "draft_model"
    if requested in HEADS_ALONE and release.has(HAS_HEADS_ALONE):
        return str(requested)
    if requested not in METHODS:
        raise Refused(
            "1 validation error for SpeculativeConfig\nmethod\n  Input should be "
            f"'ngram', 'draft_model', 'suffix', 'custom_class', 'eagle', 'eagle3', ... "
            f"[type=literal_error, input_value={requested!r}, input_type=str]"
        )
    return "mtp" if requested in MTP_METHODS else str(requested)


def _suffix_depth(given: Mapping[str, Any]) -> int:
    name = "suffix_decoding_max_tree_depth"
    depth = given.get(name)
    if depth is None:
        return _SUFFIX_DEPTH
    if type(depth) is not int:
        raise PlannerError(
            f"speculative_config.{name}={depth!r}: a whole number is needed."
        )
    if depth < 1:
        raise Refused(f"{name}={depth} must be >= 1")
    return depth


def _needs_model(method: str) -> bool:
    return method in (
        *("draft_model", "eagle", "eagle3", "dflash", "custom_class"),
        *HEADS_ALONE,
    )


def _check_lookup(given: Mapping[str, Any]) -> None:
    least, most = given.get("prompt_lookup_min"), given.get("prompt_lookup_max")
    if least is None and most is None:
        least = most = _DEFAULT_LOOKUP
    least = most if least is None else least
    most = least if most is None else most
    assert least is not None
    assert most is not None
    if least > most:
        raise Refused(f"prompt_lookup_min={least} must be <= prompt_lookup_max={most}")
