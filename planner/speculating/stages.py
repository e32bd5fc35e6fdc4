"""EAGLE heads behind a target that is divided into pipeline stages.

Source: vLLM 0.33.0 `v1/worker/gpu/spec_decode/eagle/utils.py` maybe_share_target_embed,
`eagle/eagle3_utils.py` verify_supports_aux_hidden_states_over_pp.
"""

from __future__ import annotations

from planner.errors import Refused
from planner.model_files import ModelFiles
from planner.parallel import ParallelLayout
from planner.speculating.shared import Target, names_tensor

_FIRST = (0, 30, 0)
_CLASSES = {"eagle": "EagleLlamaForCausalLM", "eagle3": "Eagle3LlamaForCausalLM"}
_HANDING_ON = ("Llama", "Mistral", "Qwen2", "Qwen3ForCausalLM", "MiMoForCausalLM")


def stage_notes(
    method: str, files: ModelFiles, target: Target, layout: ParallelLayout
) -> tuple[str, ...]:
    """Return what a reader should know of a head on a later stage than the embeddings.

    Raises:
        Refused: where the head's checkpoint has no word embeddings, in vLLM's words.
    """
    if layout.pipeline_parallel_size == 1 or not layout.release.since(*_FIRST):
        return ()
    has_words = names_tensor(files, "embed_tokens")
    if has_words is False:
        raise Refused(
            f"{_CLASSES[method]} needs the target input embedding, but it is "
            "unavailable on this PP stage"
        )
    notes: tuple[str, ...] = ()
    if has_words is None:
        notes = (
            "With pipeline stages vLLM starts this draft only if its checkpoint has "
            "word embeddings of its own, which is taken for granted.",
        )
    if method == "eagle3" and not target.model.architecture.startswith(_HANDING_ON):
        notes = (
            *notes,
            "With pipeline stages few targets hand an EAGLE-3 draft what it reads; "
            f"whether {target.model.architecture} does is not known.",
        )
    return notes
