"""What a model is made of, as vLLM builds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from planner.engine.releases.change import Change
from planner.models.caches import AttentionLayer, CacheLayer, MLALayer
from planner.models.layers import Module
from planner.models.passes import TowerPass
from planner.models.states import StateLayer
from planner.values import frozen

if TYPE_CHECKING:
    from planner.models.files import ModelFiles


@frozen(kw_only=False)
class LayerKind:
    """Decoder layers that are alike."""

    caches: tuple[CacheLayer, ...]
    """What the layer keeps between steps, in vLLM's order; empty: nothing."""
    modules: tuple[Module, ...]
    shared: tuple[Module, ...] = ()
    """What a stage holds once for all its layers that name it: rotary caches."""


@frozen
class Frames:
    """What the longest video becomes."""

    count: int
    tokens: int
    """Of one frame."""


@frozen
class Resizing:
    """How mm_processor_kwargs sets an item's size: as many tokens as pixels allow.

    Source: vLLM 0.33.0 `models/qwen2_vl.py` Qwen2VLProcessingInfo.
    """

    token_pixels: int
    """Pixels that become one token."""
    parts: int = 1
    """Among which max_pixels is divided: 2 for the frames of a pair."""
    least_pixels: int
    """Smaller images are enlarged to it, unless min_pixels is given."""
    most_pixels: int
    """max_pixels where it is not given."""
    since: Change | None = None
    """The change that brings this to vLLM; None: every release has it."""


@frozen
class DummySizes:
    """Sizes that limit_mm_per_prompt sets for the items of the profile run.

    Source: vLLM 0.33.0 `config/multimodal.py` ImageDummyOptions, VideoDummyOptions,
    AudioDummyOptions.
    """

    width: int | None = None
    """In pixels; None: the largest, as for the others."""
    height: int | None = None
    num_frames: int | None = None
    length: int | None = None
    """Samples of a sound."""


class Sizing(Protocol):
    """What limit_mm_per_prompt and mm_processor_kwargs make of an item."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Of mm_processor_kwargs that it understands."""

    @property
    def options(self) -> tuple[str, ...]:
        """Sizes of limit_mm_per_prompt that it understands."""

    @property
    def is_counted(self) -> bool:
        """Whether the budget counts what the sizes leave, not the largest item."""

    def processed(self, item: MediaItem, settings: Mapping[str, int]) -> MediaItem:
        """Return the largest item that mm_processor_kwargs leaves."""

    def shrunk(self, item: MediaItem, sizes: DummySizes) -> MediaItem:
        """Return the item that the profile run encodes."""


@frozen(kw_only=False)
class MediaItem:
    """The largest image, video or sound with which vLLM profiles a tower.

    A video has parts (frames, or pairs of them); its figures are those of one part.
    """

    modality: str
    tokens: int
    """Placeholders in the prompt."""
    patches: int
    """Rows that the tower's layers work on."""
    inputs: int
    """Input values: pixels, or a spectrogram's."""
    marks: int = 0
    """Tokens of text among the placeholders, which some releases count."""
    embeddings: int | None = None
    """Output rows, where they are not as many as tokens."""
    most_parts: int = 1
    """Parts of the longest video, as far as max_model_len has room for them."""
    leaves_room: bool = False
    """Whether a video leaves room for the largest image when its tokens are counted."""
    pieces: int | None = None
    """Pieces of it that are encoded one after the other; None: all items at once."""
    per_prompt: int | None = None
    """Most of them in a prompt, where the class has a limit."""
    resizing: Resizing | None = None
    """How max_pixels changes it; None: that is not known."""
    sizing: Sizing | None = None
    """How sizes and other settings change it; None: that is not known."""
    since: Change | None = None
    """The change that brings this form of it; None: the oldest release has it."""
    until: Change | None = None
    """The change that ends this form of it; None: the newest release has it."""
    for_lengths: range | None = None
    """The values of max_model_len for which it is the largest; None: all."""


@frozen(eq=False, kw_only=False)
class Tower:
    """An encoder of images, videos or sounds with its projector.

    vLLM builds it on the first pipeline stage only, and not at all when every
    modality it serves is switched off. Two towers are never equal, so that what was
    computed for one is cached without comparing all its modules.

    Source: vLLM 0.33.0 `models/interfaces.py` _mark_tower_model.
    """

    modalities: tuple[str, ...]
    modules: tuple[Module, ...]
    """Of all its blocks, under their full names."""
    item_tokens: int = 0
    """Most tokens that one image or sound becomes, where vLLM's class says so."""
    frames: Frames | None = None
    """The same of a video, frame by frame."""
    items: tuple[MediaItem, ...] = ()
    """What the profile run encodes; empty: not known."""
    rotates_in_fp32: bool = False
    """Whether queries and keys become float32 for the rotary embedding."""
    supports_data_parallel: bool = False
    """Whether mm_encoder_tp_mode="data" puts it on every rank in full."""
    tile_rows: int = 0
    """Rows of a tile, where ranks then divide the tiles of all items; 0: the items."""
    whole_unless_heads_divide: int | None = None
    """Its heads, where ranks that do not divide them hold it in full."""
    reads_raw_pixels_since: Change | None = None
    """The change that passes pixels to the GPU as bytes; None: none does."""
    forward: TowerPass | None = None
    """The widest points of its pass; None: a range is assumed from its layers."""
    gathers_attention: bool = False
    """Whether each rank gathers queries, keys and values and then copies its part."""
    has_mistral_format: bool = False
    """Whether it is published in Mistral's own format beside Transformers'."""


@frozen
class RopeParameters:
    """One set of rotary embedding parameters, as far as lengths depend on it."""

    rope_type: str
    factor: float | None = None
    original_max_position_embeddings: int | None = None
    """Tokens before stretching, which older releases start from."""


@frozen
class QuantizationLimits:
    """What a quantisation method requires of the engine, checked once that resolved."""

    supported_dtypes: tuple[str, ...] = ()
    """In vLLM's order; empty: any."""
    min_capability: int = 0
    """Of the GPU, such as 75 for (7, 5)."""
    kv_cache_dtype: str | None = None
    """What kv_cache_dtype "auto" becomes; None: unchanged."""
    has_kv_scales: bool = False
    """Whether attention layers load scales, which fp8_e5m2 caches cannot use."""
    forces_eager: bool = False
    """Whether vLLM captures no CUDA graphs for it."""
    mismatch: str | None = None
    """vLLM's refusal of the argument `quantization`, with the model's settings."""
    refusal: str | None = None
    """vLLM's refusal of the checkpoint's own settings, after parallel checks."""
    refused_since: Change | None = None
    """The change that makes vLLM refuse so; None: every release does."""
    was_taken: bool = False
    """Whether earlier releases took it, and are modelled."""


@frozen(eq=False)
class Speculation:
    """How tokens are guessed ahead of a model, which then checks them.

    Source: vLLM 0.33.0 `config/speculative.py` SpeculativeConfig.
    """

    method: str
    """As vLLM resolves it: ngram, suffix, mtp, eagle, eagle3, draft_model, dflash."""
    num_speculative_tokens: int
    """Tokens guessed in each step."""
    target: ModelArchitecture
    """The model without speculation."""
    draft: ModelArchitecture | None = None
    """The model that guesses, as held beside its target; None: there is none."""
    draft_tensor_parallel_size: int | None = None
    """Ranks over which the draft is cut; None: as its target."""
    is_probabilistic: bool = False
    """Whether the draft's logits are kept to check its guesses by."""
    counts_lookahead: bool = True
    """Whether a step needs room for one request's guesses, not a token of each."""
    num_aux_states: int | None = None
    """Layers of the target that the draft reads; None: as its method usually does."""
    num_streams: int = 1
    """Residual streams of the target that the draft reads, not yet joined."""
    guesses_at_once: bool = False
    """Whether all tokens are guessed in one pass of the draft."""
    has_bonus: bool = False
    """Whether that pass takes one token more than it guesses."""
    longest: int | None = None
    """Tokens to which the draft limits a request on the second runner; None: none."""
    draft_vocab_size: int | None = None
    """Vocabulary of the draft's head; None: that of its embeddings."""
    notes: tuple[str, ...] = ()
    """What a reader should know about what was assumed."""

    @property
    def reads_target(self) -> bool:
        """Whether the draft reads the target's hidden states.

        Source: vLLM 0.33.0 `config/speculative.py` use_eagle.
        """
        return self.method in ("eagle", "eagle3", "mtp", "dflash", "dspark")

    @property
    def num_lookahead_tokens(self) -> int:
        """Places of the KV cache that the draft writes beyond the target's.

        Source: vLLM 0.33.0 `config/vllm.py` num_lookahead_tokens.
        """
        return self.num_speculative_tokens + (1 if self.has_bonus else 0)

    @property
    def query_len(self) -> int:
        """Tokens of a request in a step that checks guesses."""
        return 1 + self.num_speculative_tokens


@frozen(eq=False, slots=False)
class ModelArchitecture:
    """A model as vLLM builds it: its modules per stage and layer, and its limits.

    Two of them are never equal, as with `ModelFiles`: what was computed for one is
    cached under the object.
    """

    name: str
    """As the user gave it; shown in the command."""
    architecture: str
    """The entry of config.json's `architectures` that vLLM uses."""
    language_architecture: str | None = None
    """That of the language model, in a model that also takes images or sounds."""
    model_type: str
    config_dtype: str
    """dtype of the published weights, float32 where the config has none."""
    hidden_size: int
    vocab_size: int
    num_attention_heads: int
    """As the config declares it; vLLM checks it against tensor parallel."""
    num_kv_heads: int
    head_size: int
    max_position_embeddings: float
    """The smallest length key of the config; infinite when it has none."""
    max_len_key: str | None
    """Which key that was."""
    model_max_length: int | None = None
    original_max_position_embeddings: int | None = None
    """LongRoPE's shorter length, which vLLM takes when max_model_len is not set."""
    rope_parameters: tuple[RopeParameters, ...] = ()
    first_stage: tuple[Module, ...]
    """Modules of the first pipeline stage only: embeddings."""
    last_stage: tuple[Module, ...]
    """Modules of the last pipeline stage only: final norm, LM head."""
    every_stage: tuple[Module, ...] = ()
    """Modules that each stage holds once: rotary caches."""
    tied_embeddings: tuple[Module, ...] = ()
    """Embeddings that the last stage needs as its head when it is not the first."""
    layer_kinds: tuple[LayerKind, ...]
    layers: tuple[int, ...]
    """For each decoder layer its index in `layer_kinds`."""
    layer_prefix: str = "model.layers"
    """vLLM's name of the list of decoder layers."""
    prefix_renames: tuple[tuple[str, str], ...] = ()
    """Beginnings of names in the checkpoint, and what vLLM's class calls them."""
    towers: tuple[Tower, ...] = ()
    deepstack_layers: int = 0
    """First layers that take a tower's features, all on the first pipeline stage."""
    quantization: str | None = None
    """vLLM's name of the quantisation method, the checkpoint's or the user's."""
    quantization_limits: QuantizationLimits = QuantizationLimits()
    num_experts: int = 0
    kv_sources: tuple[int, ...] = ()
    """For each layer the one whose keys and values it reads; empty: its own."""
    mixes_head_sizes: bool = False
    """Whether layers have heads of several sizes, served by one kernel (Gemma 4)."""
    supports_pp: bool = True
    is_pooling: bool = False
    is_encoder_only: bool = False
    """What vLLM counts as an encoder, whose prompts are never split: BERT and similar,
    and what pools a prompt's first token or its steps."""
    attention_chunk_size: int | None = None
    """As the config declares it: of Llama 4's chunks, or of nothing."""
    has_softcap: bool = False
    """Whether the config caps attention's logits."""
    residual_streams: int = 1
    """Hidden states that pass from layer to layer: several with hyper-connections."""
    is_encoder_decoder: bool = False
    """A decoder that attends to an encoder's output (Whisper)."""
    float16_refusal: str | None = None
    """vLLM's reason for refusing float16 with this model type."""
    source: str = ""
    is_certain: bool = True
    shape_of: str = ""
    """The model of the same shape whose config.json was read; empty for its own."""
    speculation: Speculation | None = None
    """How tokens are guessed ahead of it; None: they are not."""
    files: ModelFiles | None = field(default=None, repr=False)
    """What it was read from; None for a model built by hand."""

    @cached_property
    def num_hidden_layers(self) -> int:
        """Decoder layers."""
        return len(self.layers)

    @property
    def query_len(self) -> int:
        """Tokens of a request in a decode step: one, and those guessed before it."""
        return 1 if self.speculation is None else self.speculation.query_len

    @cached_property
    def is_moe(self) -> bool:
        """Whether vLLM treats it as a mixture-of-experts model."""
        return self.num_experts > 0

    @cached_property
    def is_multimodal(self) -> bool:
        """Whether it takes images, videos or sounds beside text."""
        return bool(self.towers)

    @cached_property
    def cache_layers(self) -> tuple[CacheLayer, ...]:
        """Distinct layers that keep something between steps."""
        return tuple(
            dict.fromkeys(layer for kind in self.layer_kinds for layer in kind.caches)
        )

    @cached_property
    def state_layers(self) -> tuple[StateLayer, ...]:
        """Distinct layers that keep states of a fixed size."""
        return tuple(
            layer for layer in self.cache_layers if isinstance(layer, StateLayer)
        )

    @cached_property
    def is_attention_free(self) -> bool:
        """Whether it keeps nothing but states."""
        return bool(self.cache_layers) and self.cache_layers == self.state_layers

    @cached_property
    def has_latent_attention(self) -> bool:
        """Whether vLLM treats it as a model of multi-head latent attention."""
        return any(isinstance(layer, MLALayer) for layer in self.cache_layers)

    @cached_property
    def attention_layers(self) -> tuple[AttentionLayer, ...]:
        """Distinct attention layers with a KV cache of keys and values."""
        return tuple(
            layer for layer in self.cache_layers if isinstance(layer, AttentionLayer)
        )
