"""The modules of a draft that guesses whole blocks.

Source: vLLM 0.33.0 `models/qwen3_dflash.py`, `qwen3_dflash2.py`, `qwen3_dspark.py`,
`qwen3_xpress.py`.
"""

from __future__ import annotations

from dataclasses import replace

from planner.engine.layout import ParallelLayout, pad_vocabulary
from planner.errors import Refused
from planner.models.architecture import LayerKind, ModelArchitecture
from planner.models.drafts.block_facts import BlockHead, windows
from planner.models.drafts.shared import names_tensor, target_ids
from planner.models.families.assembly import Frame, Label, assemble
from planner.models.families.decoder import (
    AttentionShape,
    attention,
    embeddings,
    gated_mlp,
    kv_of,
    lm_head,
    norms,
)
from planner.models.families.facts import Facts
from planner.models.layers import (
    Module,
    Part,
    Replicated,
    ReplicatedLinear,
    Sharded,
    kv_heads_per_rank,
    prefixed,
)
from planner.models.tensors import Tensor, Tensors
from planner.values import frozen


@frozen
class FusedContext:
    """Projections to keys and values of all layers, copied into one.

    Source: vLLM 0.33.0 `models/qwen3_dflash.py` _build_context_kv_buffers.
    """

    shape: AttentionShape
    num_layers: int
    name: str = "model._fused_kv_weight"
    part: Part = Part.ATTENTION

    def tensors(self, layout: ParallelLayout) -> Tensors:
        """Return the copy of weights, and that of biases."""
        heads = kv_heads_per_rank(self.shape.num_kv_heads, layout)
        rows = self.num_layers * 2 * heads * self.shape.head_size
        bias = (Tensor(rows, None),) if self.shape.qkv_bias else ()
        return (Tensor(rows * self.shape.hidden_size, None), *bias)


def assembled(head: BlockHead) -> ModelArchitecture:
    """Return the draft, its layers' modules all on the last stage."""
    facts, shape = head.facts, head.shape
    kinds = [
        LayerKind(
            (replace(kv_of(shape), sliding_window=window, has_sinks=head.has_sinks),),
            (),
        )
        for window in windows(head)
    ]
    base = assemble(
        facts,
        Label(name=head.files.name, architecture="Qwen3ForCausalLM"),
        Frame(shape.hidden_size, vocab_size=head.vocab_size, final_norm=()),
        kinds,
        num_experts=0,
    )
    words = embeddings(head.vocab_size, shape.hidden_size)
    first = head.target.model.num_hidden_layers
    modules: list[Module] = []
    for layer in range(first, first + head.num_layers):
        modules += prefixed(_layer(head), f"model.layers.{layer}.")
    modules += _outside_layers(head)
    return replace(
        base,
        first_stage=() if head.has_embeddings else (words,),
        last_stage=(*modules, *((words,) if head.has_embeddings else ())),
        every_stage=(),
        tied_embeddings=(),
    )


def _layer(head: BlockHead) -> tuple[Module, ...]:
    shape = head.shape
    modules: tuple[Module, ...] = (
        *attention(shape),
        *gated_mlp(shape.hidden_size, head.facts.integer("intermediate_size")),
        norms(shape.hidden_size),
    )
    if head.has_sinks:
        sinks = Sharded(
            "self_attn.attention_sink_bias", Part.ATTENTION, ((shape.num_heads,),)
        )
        modules = (*modules, sinks)
    if not head.is_second:
        return modules
    return (
        *modules,
        *_convolution(head, "attention_conv"),
        *_convolution(head, "mlp_conv"),
    )


def _convolution(head: BlockHead, name: str) -> tuple[Module, ...]:
    """Return one of DFlash2's convolutions, with kernels made of its input.

    Source: vLLM 0.33.0 `models/qwen3_dflash2.py` DFlashGroupedConv.
    """
    own, size = Facts(head.own, "qwen3"), head.hidden_size
    taps, group = own.integer("conv_kernel_size"), own.integer("conv_group_size")
    if group == 0 or size % group:
        raise Refused(f"conv_group_size={group} must divide hidden_size={size}.")
    return (
        Replicated(f"{name}.base_kernel", Part.MLP, ((2, taps, size),)),
        ReplicatedLinear(
            f"{name}.kernel_projection", Part.MLP, size, (2 * taps * (size // group),)
        ),
    )


def _outside_layers(head: BlockHead) -> list[Module]:
    """Return what surrounds the layers."""
    size, found = head.hidden_size, []
    if head.reads_layers:
        each = head.facts.optional_integer("target_hidden_size") or size
        found.append(_linear("model.fc", each * len(head.target_layers), size))
    vectors = Replicated("norms and mask embedding", Part.NORMS, ((size,),) * 3)
    key_norms = Replicated(
        "model._k_norm_weights", Part.NORMS, ((head.num_layers, head.shape.head_size),)
    )
    return [*found, vectors, key_norms, *_heads(head), *_extras(head)]


def _heads(head: BlockHead) -> list[Module]:
    """Return the head where it is not the target's, and what DSpark adds to it."""
    found: list[Module] = []
    draft, target = head.draft_vocab_size, head.target.model.vocab_size
    if head.has_head:
        words = lm_head(draft, head.hidden_size)
        found.append(replace(words, is_quantizable=False))
    if draft < target or (draft != target and not head.is_spark):
        found.append(target_ids(draft))
    return [*found, *_markov(head)] if head.is_spark else found


def _markov(head: BlockHead) -> list[Module]:
    """Return DSpark's bias by the token before, and its estimate of acceptance.

    Every rank holds all of them.

    Source: vLLM 0.33.0 `models/qwen3_dspark.py` DSparkMarkovHead, DSparkConfidenceHead.
    """
    facts, rank = head.facts, head.facts.integer("markov_rank")
    found: list[Module] = [
        Replicated(
            "model.markov_head",
            Part.LM_HEAD,
            (
                (head.vocab_size, rank),
                (pad_vocabulary(head.draft_vocab_size), rank),
            ),
        )
    ]
    is_loaded = names_tensor(head.files, "confidence_head") is not False
    if facts.flag("enable_confidence_head") and is_loaded:
        inputs = head.hidden_size
        if facts.flag("confidence_head_with_markov"):
            inputs += rank
        found.append(
            Replicated(
                "model.confidence_head",
                Part.LM_HEAD,
                ((inputs,), (1,)),
                dtype="float32",
            )
        )
    return found


def _extras(head: BlockHead) -> list[Module]:
    return [*_candidates(head), *_refiner(head)]


def _candidates(head: BlockHead) -> list[Module]:
    """Return what DFlash2 chooses among likely words with.

    Source: vLLM 0.33.0 `models/qwen3_dflash2.py` CandidateSelector.
    """
    if not head.is_second:
        return []
    rank = Facts(head.own, "qwen3").integer("selector_rank")
    words = (head.vocab_size, rank)
    return [
        Replicated(
            "model.candidate_selector",
            Part.LM_HEAD,
            (words, words, (rank, head.hidden_size)),
        )
    ]


def _refiner(head: BlockHead) -> list[Module]:
    """Return the modules with which XPress refines its guesses, some also transposed.

    Source: vLLM 0.33.0 `models/qwen3_xpress.py` XPressRefinerHead.
    """
    if not head.is_xpress:
        return []
    facts, words = head.facts, head.vocab_size
    rank = facts.integer("xpress_rank", default=256)
    middle = facts.integer("xpress_mlp_hidden", default=512)
    block = facts.optional_integer("xpress_block_size") or (
        1 + facts.integer("num_speculative_steps", default=15)
    )
    down = ((rank, head.hidden_size),) * 2
    copied = (
        (rank, 3 * rank),
        (rank, block, block),
        *((middle, rank),) * 3,
        (words, rank),
    )
    return [
        Replicated(
            "model.xpress_head", Part.LM_HEAD, ((words, rank), *down, *copied, *copied)
        )
    ]


def _linear(name: str, inputs: int, outputs: int) -> ReplicatedLinear:
    return ReplicatedLinear(name, Part.MLP, inputs, (outputs,))
