"""Puts a draft beside its target: the model that every line is then planned for."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from planner.engine.layout import ParallelLayout
from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.errors import PlannerError, Refused, UnknownArchitecture
from planner.models.architecture import ModelArchitecture, Speculation
from planner.models.drafts.assistant import MODEL_TYPES as ASSISTANTS
from planner.models.drafts.assistant import read_assistant
from planner.models.drafts.config import HAS_HEADS_ALONE, HEADS_ALONE, SpeculativeConfig
from planner.models.drafts.dflash import read_block_draft
from planner.models.drafts.eagle import read_eagle
from planner.models.drafts.heads import num_heads, read_heads
from planner.models.drafts.methods import (
    mtp_type,
    needs_no_draft,
    not_modelled,
    resolved_method,
)
from planner.models.drafts.shared import (
    Target,
    longest_request,
    only_sizes_rope,
    shortened,
    stage_notes,
)
from planner.models.drafts.standalone import read_draft, read_medusa
from planner.models.families.facts import Facts
from planner.models.files import ModelFiles

_REMEMBERED = 64
_RUNS_SPECULATION = Change(
    since=(0, 13),
    what="vLLM guesses tokens as in 0.13.0, the oldest release that is modelled.",
)
_GUESSES_BY_NGRAMS = Change(
    since=(0, 12),
    what="Guesses by n-grams are as in 0.13.0.",
    source="a dry run of Qwen3-8B with 0.12.0",
)
_COUNTS_LOOKAHEAD = Change(
    since=(0, 33),
    what="A step needs room for one request's guesses, not a token of each request.",
)
_RUNS_HEADS_IN_TURN = Change(
    since=(0, 28),
    what="Several layers for multi-token prediction run one after the other.",
)
_REFUSES_DRAFT_RANKS = Change(
    until=(0, 31),
    what="draft_tensor_parallel_size=1 is refused for a draft model on several ranks.",
    source="vLLM 0.30.0 `v1/spec_decode/draft_model.py` _raise_if_draft_tp_mismatch",
)
_IGNORES_DRAFT_RANKS = Change(
    since=(0, 33),
    what="A draft model is divided like its target despite draft_tensor_parallel_size.",
    source="vLLM 0.33.0 `config/speculative.py` _verify_and_get_draft_tp",
)


@lru_cache(maxsize=_REMEMBERED)
def speculating(
    model: ModelArchitecture,
    requested: SpeculativeConfig,
    draft: ModelFiles | None,
    max_model_len: int,
    layout: ParallelLayout,
) -> ModelArchitecture:
    """Return the model with its speculation.

    Cached, so that the same arguments return the same object.

    Raises:
        Refused: in vLLM's words.
        UnknownArchitecture: for a draft that is not modelled.
    """
    release = layout.release
    has_draft = not needs_no_draft(requested.method, release)
    if not release.has(_RUNS_SPECULATION if has_draft else _GUESSES_BY_NGRAMS):
        raise UnknownArchitecture(
            "speculative_config is not modelled for vLLM before 0.13.0. Leave it out."
        )
    if model.is_pooling:
        raise UnknownArchitecture(
            "speculative_config with a model that gives embeddings is not modelled. "
            "Leave it out."
        )
    if not has_draft:
        return replace(model, speculation=_without_draft(requested, model))
    if model.files is None:
        raise PlannerError(
            "speculative_config needs the files of the model: give its name or folder."
        )
    method = _headless_method(draft, release) or resolved_method(
        requested, model.files, draft
    )
    if layout.decode_context_parallel_size > 1:
        raise UnknownArchitecture(
            "speculative_config with decode_context_parallel_size above 1 is not "
            "modelled yet. Leave one of them out."
        )
    target = Target(model=model, files=model.files, max_model_len=max_model_len)
    return replace(
        model, speculation=_by_method(method, requested, target, draft, layout)
    )


def _without_draft(
    requested: SpeculativeConfig, model: ModelArchitecture
) -> Speculation:
    assert requested.num_speculative_tokens is not None
    notes: tuple[str, ...] = ()
    if requested.method == "suffix":
        notes = (
            "method='suffix' needs the package arctic-inference in addition to vLLM.",
        )
    return Speculation(
        method=requested.method,
        target=model,
        num_speculative_tokens=requested.num_speculative_tokens,
        notes=notes,
    )


def _headless_method(draft: ModelFiles | None, release: Release) -> str | None:
    """Return the method of heads without layers, by the type of a draft's config."""
    kind = None if draft is None else draft.config.get("model_type")
    is_known = kind in HEADS_ALONE and release.has(HAS_HEADS_ALONE)
    return str(kind) if is_known else None


def _medusa(
    method: str,
    requested: SpeculativeConfig,
    target: Target,
    draft: ModelFiles | None,
    layout: ParallelLayout,
) -> Speculation:
    """Return the speculation of Medusa's heads.

    Raises:
        Refused: for mlp_speculator, which vLLM reads and then rejects.
    """
    if requested.num_speculative_tokens is None:
        raise _missing_number()
    _check_ranks(requested.draft_tensor_parallel_size, layout, method)
    if method != "medusa":
        raise Refused(f"Unknown speculative decoding method: {method}")
    draft = _own_files(draft, method)
    is_named = requested.method == "medusa"
    return Speculation(
        method=method,
        target=target.model,
        num_speculative_tokens=requested.num_speculative_tokens,
        draft=read_medusa(draft, target, layout.release, is_named=is_named),
        counts_lookahead=False,
    )


def _by_method(
    method: str,
    requested: SpeculativeConfig,
    target: Target,
    draft: ModelFiles | None,
    layout: ParallelLayout,
) -> Speculation:
    if method in HEADS_ALONE:
        return _medusa(method, requested, target, draft, layout)
    if method in ("dflash", "dspark"):
        return _block_draft(method, requested, target, draft, layout)
    if draft is not None and draft.config.get("model_type") in ASSISTANTS:
        return _assisted(requested, target, draft, layout)
    return _speculation(method, requested, target, draft, layout)


def _speculation(
    method: str,
    requested: SpeculativeConfig,
    target: Target,
    draft: ModelFiles | None,
    layout: ParallelLayout,
) -> Speculation:
    release = layout.release
    notes: tuple[str, ...] = ()
    longest: int | None = None
    files = target.files if draft is None else draft
    tokens = requested.num_speculative_tokens
    kind = mtp_type(files.config) if method == "mtp" else None
    if kind is not None:
        tokens = _tokens_of_heads(tokens, num_heads(kind, files.config), release)
    if tokens is None:
        raise _missing_number()
    _check_ranks(requested.draft_tensor_parallel_size, layout, method)
    if kind is not None:
        if draft is not None:
            raise not_modelled(kind, "layers in a checkpoint of their own are not")
        found = read_heads(kind, files, requested.target_quantization, release)
    elif method == "draft_model":
        draft = _own_files(draft, method)
        _check_stages(layout)
        found = read_draft(
            draft, requested.quantization, target.model, target.files, release
        )
        longest = longest_request(requested, found, target.max_model_len, release)
    else:
        draft = _own_files(draft, method)
        found, notes = read_eagle(requested, method, draft, target, release)
        notes = (*notes, *stage_notes(method, draft, target, layout))
        if not only_sizes_rope(draft.config):
            longest = longest_request(requested, found, target.max_model_len, release)
    return Speculation(
        method=method,
        target=target.model,
        num_speculative_tokens=tokens,
        draft=_without_shared(found, method, layout),
        is_probabilistic=requested.is_probabilistic,
        counts_lookahead=release.has(_COUNTS_LOOKAHEAD),
        num_streams=_streams(kind, files),
        longest=longest,
        notes=(*notes, *shortened(longest, target.max_model_len)),
    )


def _own_files(draft: ModelFiles | None, method: str) -> ModelFiles:
    """Return the draft's files, which are not the target's.

    Raises:
        UnknownArchitecture: where the draft's model is the target itself.
    """
    if draft is None:
        raise not_modelled(method, "drafts whose model is the target itself are not")
    return draft


def _block_draft(
    method: str,
    requested: SpeculativeConfig,
    target: Target,
    draft: ModelFiles | None,
    layout: ParallelLayout,
) -> Speculation:
    """Return the speculation of a draft that guesses a whole block in one pass."""
    if draft is None:
        raise not_modelled(method, "a draft in the target's own checkpoint is not")
    if layout.pipeline_parallel_size > 1:
        raise UnknownArchitecture(
            f"speculative_config with method={method!r} and pipeline_parallel_size "
            "above 1 is not modelled: few targets pass on what the draft reads."
        )
    release = layout.release
    found = read_block_draft(requested, method, draft, target, release)
    tokens = requested.num_speculative_tokens
    if tokens is None and method == "dspark":
        tokens = found.block_size
    if tokens is None:
        raise _missing_number()
    _check_ranks(requested.draft_tensor_parallel_size, layout, method)
    longest = None
    if not only_sizes_rope(draft.config):
        longest = longest_request(requested, found.model, target.max_model_len, release)
    return Speculation(
        method=method,
        target=target.model,
        num_speculative_tokens=tokens,
        draft=_without_shared(found.model, method, layout),
        is_probabilistic=requested.is_probabilistic,
        counts_lookahead=release.has(_COUNTS_LOOKAHEAD),
        num_aux_states=found.num_aux_states,
        guesses_at_once=True,
        has_bonus=found.has_bonus,
        longest=longest,
        draft_vocab_size=found.vocab_size,
        notes=(*found.notes, *shortened(longest, target.max_model_len)),
    )


def _assisted(
    requested: SpeculativeConfig,
    target: Target,
    draft: ModelFiles,
    layout: ParallelLayout,
) -> Speculation:
    """Return the speculation of Gemma 4's assistant, which has no cache of its own."""
    if layout.pipeline_parallel_size > 1:
        raise UnknownArchitecture(
            "speculative_config with Gemma 4's assistant and pipeline_parallel_size "
            "above 1 is not modelled: it would hold embeddings of another width."
        )
    _check_ranks(requested.draft_tensor_parallel_size, layout, "mtp")
    return Speculation(
        method="mtp",
        target=target.model,
        num_speculative_tokens=requested.num_speculative_tokens or 1,
        draft=read_assistant(requested, draft, target, layout.release),
        is_probabilistic=requested.is_probabilistic,
        counts_lookahead=layout.release.has(_COUNTS_LOOKAHEAD),
    )


def _missing_number() -> Refused:
    return Refused(
        "A speculative model was provided, but `num_speculative_tokens` was not "
        "provided"
    )


def _streams(kind: str | None, files: ModelFiles) -> int:
    """Return how many residual streams a target passes to its draft, not yet joined.

    Source: vLLM 0.33.0 `vllm/models/deepseek_v4/nvidia/model.py`
    get_mtp_target_hidden_states.
    """
    if kind != "deepseek_v4_mtp":
        return 1
    return Facts(files.config, "deepseek_v4").integer("hc_mult", default=4)


def _tokens_of_heads(
    tokens: int | None, heads: int | None, release: Release
) -> int | None:
    """Return the tokens guessed with this many layers that guess one each.

    Raises:
        Refused: in vLLM's words.
    """
    if heads is None:
        return tokens
    if tokens is None:
        return heads
    if heads == 0:  # vLLM stops at dividing by it
        raise Refused("integer modulo by zero")
    if tokens > heads and tokens % heads:
        raise Refused(
            f"num_speculative_tokens:{tokens} must be divisible by n_predict={heads}"
        )
    if min(tokens, heads) > 1 and release.has(_RUNS_HEADS_IN_TURN):
        raise UnknownArchitecture(
            f"speculative_config: {heads} layers for multi-token prediction, one after "
            "the other, are not modelled yet."
        )
    return tokens


def _check_ranks(requested: int | None, layout: ParallelLayout, method: str) -> None:
    """Refuse another number of ranks than one or the target's.

    The draft is divided like its target in either case.

    Raises:
        Refused: in vLLM's words.
        UnknownArchitecture: for releases whose second runner was not read.

    Source: vLLM 0.33.0 `config/speculative.py` _verify_and_get_draft_tp.
    """
    ranks, release = layout.tensor_parallel_size, layout.release
    if requested is None or requested == ranks:
        return
    if requested != 1:
        raise Refused(
            f"speculative_draft_tensor_parallel_size={requested} cannot be other value "
            "than 1 or target model tensor_parallel_size"
        )
    if method != "draft_model" or release.has(_IGNORES_DRAFT_RANKS):
        return
    if not release.has(_REFUSES_DRAFT_RANKS):
        raise UnknownArchitecture(
            "speculative_config.draft_tensor_parallel_size=1 with "
            f"tensor_parallel_size={ranks} is not modelled for vLLM "
            f"{release.version}. Leave it out."
        )
    raise Refused(
        "Currently, 'draft_tensor_parallel_size' and 'tensor_parallel_size' must be "
        f"the same. Got 1 and {ranks}. Please pass 'draft_tensor_parallel_size' in the "
        "speculative_config."
    )


def _check_stages(layout: ParallelLayout) -> None:
    if layout.pipeline_parallel_size > 1:
        raise UnknownArchitecture(
            "speculative_config with a draft model and pipeline_parallel_size above 1 "
            "is not modelled. Leave one of them out."
        )


def _without_shared(
    draft: ModelArchitecture, method: str, layout: ParallelLayout
) -> ModelArchitecture:
    """Return the draft without the modules it shares with its target.

    A draft on a later pipeline stage than the word embeddings holds them itself.
    """
    if method == "draft_model" or layout.pipeline_parallel_size > 1:
        return draft
    return replace(draft, first_stage=())
