"""Checkpoints of AutoRound, which vLLM calls Intel Neural Compressor (`inc`).

Integers are packed as GPTQ's or AWQ's and served by the same kernels, other widths by
Humming; MXFP4, MXFP8 and FP8 blocks came later. `extra_config` names exceptions.

Source: vLLM 0.33.0 `layers/quantization/inc/`; 0.19.1 `layers/quantization/inc.py`;
0.11.0 `layers/quantization/auto_round.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from planner.engine.layout import ParallelLayout
from planner.engine.releases.change import Change
from planner.errors import Refused, UnknownArchitecture
from planner.models.quantization.awq import AWQLinear
from planner.models.quantization.experts.fp8 import Mxfp8Experts
from planner.models.quantization.experts.mxfp4 import Mxfp4Experts, Mxfp4Source
from planner.models.quantization.experts.wna16 import AWQExperts, GPTQExperts
from planner.models.quantization.fp8 import Fp8BlockLinear
from planner.models.quantization.gptq import GPTQLinear
from planner.models.quantization.interface import (
    Context,
    Place,
    QuantizationConfig,
    given_integer,
    required,
)
from planner.models.quantization.linear_kernels import Mxfp4Linear, Mxfp8Linear
from planner.models.quantization.packed_ints import is_marlin_group
from planner.models.quantization.padding import Packing, humming_tensors
from planner.models.tensors import (
    ExpertsMethod,
    LinearMethod,
    LinearOnRank,
    Tensors,
)
from planner.values import frozen

_WIDTHS = range(2, 9)
_FORMATS = (
    *("auto_round:auto_gptq", "auto_round:auto_awq"),
    *("auto_round:fp8", "auto_round:llm_compressor"),
)
_BACKENDS = ("auto", "gptq", "gptq:marlin", "awq", "awq:marlin", "marlin")
_WHOLE = (4, 8)
_PLAIN = 16
_FP8_BLOCK = [128, 128]
_PATTERN = frozenset(r"*+?^$()[]{}|\\")
"""Characters by which a name in extra_config counts as a regular expression."""
_KNOWS_MX = Change(
    since=(0, 27),
    what="INC serves MXFP4 and MXFP8 weights (data_type mx_fp).",
    source="vLLM 0.26.0 and 0.27.0 `layers/quantization/inc/schemes/`",
)
_KNOWS_FP8 = Change(
    since=(0, 29),
    what="INC serves weights of FP8 blocks (data_type fp).",
    source="vLLM 0.28.0 and 0.29.0 `layers/quantization/inc/schemes/`",
)
_KNOWS_OTHER_WIDTHS = Change(
    since=(0, 30),
    what="INC serves weights of 2, 3, 5, 6 and 7 bits, by Humming's kernel.",
    source=(
        "vLLM 0.29.0 and 0.30.0 `layers/quantization/inc/schemes/inc_wna16_scheme.py`"
    ),
)


@frozen
class SinceLinear:
    """A format that earlier releases refuse."""

    method: LinearMethod
    since: Change
    message: str

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return what the format's own method holds.

        Raises:
            Refused: in vLLM's words, in earlier releases.
        """
        if not layout.release.has(self.since):
            raise Refused(self.message)
        return self.method.tensors(on_rank, layout)


@frozen
class HummingLinear:
    """Integers of any width, as Humming's kernel holds them.

    Source: vLLM 0.33.0 `layers/quantization/humming.py` HummingLinearMethod.
    """

    packing: Packing

    def tensors(self, on_rank: LinearOnRank, layout: ParallelLayout) -> Tensors:
        """Return weight, scales and locks on a rank."""
        return humming_tensors(self.packing, on_rank, layout)


@frozen
class Settings:
    """How a layer is quantised; 16 bits: not at all."""

    bits: int
    group_size: Any
    is_sym: bool


@frozen
class INCConfig(QuantizationConfig):
    """AutoRound as read from a checkpoint."""

    settings: Settings
    data_type: str
    packing: str
    """The packing format and the backend, which name GPTQ or AWQ."""
    blocks: tuple[str, ...]
    """Beginnings of names of the layers that are quantised; empty: all but the head."""
    extra: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    model_type: str = ""
    name: str = "inc"

    def linear(self, place: Place) -> LinearMethod | None:
        """Quantise a layer as the settings of its name say."""
        found = self._settings(place, is_head=False)
        return None if found.bits >= _PLAIN else self._linear(found)

    def head(self, place: Place) -> LinearMethod | None:
        """Quantise the LM head only where it is named."""
        found = self._settings(place, is_head=True)
        return None if found.bits >= _PLAIN else self._linear(found)

    def experts(self, place: Place) -> ExpertsMethod | None:
        """Quantise routed experts as the settings of their block say.

        Raises:
            UnknownArchitecture: for experts in FP8 or of a width that Humming serves.
        """
        found = self._settings(Place(prefix=place.prefix), is_head=False)
        if found.bits >= _PLAIN:
            return None
        if "mx_fp" in self.data_type:
            if found.bits == _WHOLE[0]:
                return Mxfp4Experts(source=Mxfp4Source.COMPRESSED_TENSORS)
            return Mxfp8Experts()
        if self.data_type != "int" or found.bits not in _WHOLE:
            raise UnknownArchitecture(
                f"quantization_config: experts of {found.bits} bits ({self.data_type}) "
                "are not modelled for AutoRound: integers of 4 and 8 bits, MXFP4 and "
                "MXFP8 are."
            )
        method = GPTQExperts if "gptq" in self.packing else AWQExperts
        return method(
            num_bits=found.bits,
            group_size=found.group_size,
            has_zero_points=not found.is_sym,
        )

    def _linear(self, found: Settings) -> LinearMethod:
        if "mx_fp" in self.data_type:
            is_4bit = found.bits == _WHOLE[0]
            return SinceLinear(
                method=Mxfp4Linear() if is_4bit else Mxfp8Linear(),
                since=_KNOWS_MX,
                message=f"Unsupported data_type: {self.data_type}, currently only "
                "support {'int'}.",
            )
        if self.data_type == "fp":
            return SinceLinear(
                method=Fp8BlockLinear(model_type=self.model_type),
                since=_KNOWS_FP8,
                message="Unsupported data_type: fp, currently only support "
                "{'int', 'mx_fp'}.",
            )
        return self._ints(found)

    def _ints(self, found: Settings) -> LinearMethod:
        """Return how packed integers are held.

        Raises:
            Refused: in vLLM's words.
        """
        packing = Packing(
            num_bits=found.bits,
            group_size=found.group_size,
            has_zero_points=not found.is_sym,
        )
        if found.bits not in _WHOLE:
            return SinceLinear(
                method=HummingLinear(packing=packing),
                since=_KNOWS_OTHER_WIDTHS,
                message=f"INC quantization with bits={found.bits} is not supported.",
            )
        if "gptq" in self.packing:
            if not (found.is_sym and is_marlin_group(found.group_size)):
                raise Refused(
                    f"INC quantization with bits={found.bits}, sym={found.is_sym} is "
                    "not supported. Only 4-bit and 8-bit symmetric quantization is "
                    "supported with Marlin kernels."
                )
            return GPTQLinear(packing=packing)
        if found.bits != _WHOLE[0]:
            raise Refused(
                f"Unsupported num_bits = {found.bits}. Supported: 4. For 8-bit AWQ, "
                "use Marlin backend by setting backend='awq:marlin' or "
                "backend='marlin'."
            )
        uses_marlin = not found.is_sym and is_marlin_group(found.group_size)
        return AWQLinear(packing=packing, uses_marlin=uses_marlin)

    def _settings(self, place: Place, *, is_head: bool) -> Settings:
        """Return the settings of a layer.

        Raises:
            Refused: in vLLM's words, where packed layers differ.

        Source: vLLM 0.33.0 INCConfigParser._resolve_raw.
        """
        prefix = place.prefix
        for name in (prefix, *(n for n in self.extra if prefix.endswith(f".{n}"))):
            if name in self.extra:
                return self._given(name, is_quantised=True)
        is_quantised = not is_head
        if self.blocks:
            is_quantised = prefix.startswith(self.blocks)
        if place.shards and any(map(self._is_named, place.shard_prefixes)):
            found = {
                self._given(name, is_quantised=is_quantised)
                for name in place.shard_prefixes
            }
            if len(found) > 1:
                raise Refused(
                    f"Fused module '{prefix}' requires consistent quant config for "
                    f"{list(place.shard_prefixes)}"
                )
            return found.pop()
        return self._given(prefix, is_quantised=is_quantised)

    def _given(self, name: str, *, is_quantised: bool) -> Settings:
        own = self.settings
        if not is_quantised:
            own = Settings(bits=_PLAIN, group_size=-1, is_sym=True)
        change = self.extra.get(name)
        if change is None:
            change = next((self.extra[p] for p in self._patterns(name)), {})
        return Settings(
            bits=change.get("bits", own.bits),
            group_size=_size(change.get("group_size", own.group_size)),
            is_sym=bool(change.get("sym", own.is_sym)),
        )

    def _is_named(self, name: str) -> bool:
        return name in self.extra or any(True for _ in self._patterns(name))

    def _patterns(self, name: str) -> tuple[str, ...]:
        """Return the regular expressions of extra_config that a name matches."""
        return tuple(
            pattern
            for pattern in self.extra
            if _PATTERN.intersection(pattern) and _matches(pattern, name)
        )


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return False


def _size(value: Any) -> Any:  # noqa: ANN401 - a number or rows and columns
    """Return a group size that can be compared: lists as tuples."""
    return tuple(value) if isinstance(value, list) else value


def read_inc(given: Mapping[str, Any], context: Context) -> INCConfig:
    """Read `quantization_config` of an AutoRound checkpoint.

    Raises:
        Refused: in vLLM's words.
        UnknownArchitecture: for FP8 blocks of another size.

    Source: vLLM 0.33.0 INCConfig.from_config.
    """
    data_type = given.get("data_type") or "int"
    data_type = "fp" if data_type == "fp8" else str(data_type)
    bits, size = given_integer(given, "bits"), required(given, "group_size")
    default = {"int": _FORMATS[0], "fp": _FORMATS[2]}.get(data_type, _FORMATS[3])
    packing = str(given.get("packing_format") or default)
    backend = str(given.get("backend") or given.get("vllm_backend") or "auto")
    _check(bits, data_type, packing, backend)
    if data_type == "fp" and size != _FP8_BLOCK:
        raise UnknownArchitecture(
            f"quantization_config.group_size = {size!r} is not modelled: [128, 128] is."
        )
    blocks = given.get("block_name_to_quantize") or given.get("to_quant_block_names")
    if isinstance(blocks, str):
        blocks = blocks.split(",")
    extra = given.get("extra_config") or {}
    return INCConfig(
        settings=Settings(
            bits=bits, group_size=_size(size), is_sym=bool(given.get("sym", True))
        ),
        data_type=data_type,
        packing=f"{packing} {backend}",
        blocks=context.vllm_names(_flat(blocks or ())),
        extra={context.vllm_name(name): change for name, change in extra.items()},
        model_type=context.text_model_type,
    )


def _flat(blocks: Any) -> tuple[str, ...]:  # noqa: ANN401 - untyped border
    """Return names from a list of them, or of lists of them."""
    return tuple(
        str(name)
        for part in blocks
        for name in (part if isinstance(part, list) else [part])
    )


def _check(bits: int, data_type: str, packing: str, backend: str) -> None:
    """Refuse what vLLM has no scheme for.

    Raises:
        Refused: in vLLM's words.

    Source: vLLM 0.33.0 INCConfig.__init__, _validate_int_quantization.
    """
    if bits not in _WIDTHS:
        raise Refused(
            f"Unsupported weight_bits: {bits}, currently only support {set(_WIDTHS)}."
        )
    if data_type not in ("int", "fp") and "mx_fp" not in data_type:
        raise Refused(
            f"Unsupported data_type: {data_type}, currently only support "
            "{'int', 'mx_fp', 'fp'}."
        )
    if packing not in _FORMATS:
        raise Refused(
            f"Unsupported packing_format: {packing}, currently only support "
            f"{set(_FORMATS)}."
        )
    if backend not in _BACKENDS:
        raise Refused(
            f"Unsupported backend: {backend}, currently only support {set(_BACKENDS)}."
        )
    if data_type == "int" and packing not in _FORMATS[:2]:
        raise Refused(
            f"INC int quantization only supports packing_format in "
            f"{sorted(_FORMATS[:2])!r}, but found packing_format={packing!r}."
        )
