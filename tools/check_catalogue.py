"""Hold every bundled model to what others publish of it: length, format, size, files.

    python -m tools.check_catalogue

Names each model that differs, and ends with 1 where there is one. A model is compared
with its releases in other formats, with its own name, and with the number of parameters
that the Hub states. What is right although it differs is in `RIGHT`, with the reason.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import planner
from planner.errors import PlannerError
from planner.models.layers import Part

DATA = Path(__file__).parent.parent / "planner" / "data" / "models.jsonl"
GPU = "H200"
SMALL_BATCH: Mapping[str, Any] = {"max_num_batched_tokens": 2048, "max_num_seqs": 16}
"""Buffers of tokens are no parameters."""
SHORTEST = 512
"""Tokens: who compiles a model for a fixed length writes this one into its config."""
SIZE_SHARE = 0.03
"""By how much a published number of parameters and the computed one may differ."""
_FORMATS = (
    r"fp8|nvfp4|mxfp4|mxfp8|awq|gptq|int4|int8|w4a16|w8a8|w8a16|w4a8|bnb|4bit|8bit"
)
_NAMES_FORMAT = re.compile(rf"(?<![a-z0-9])({_FORMATS})(?![a-z])", re.IGNORECASE)
_BESIDE_FORMAT = re.compile(
    rf"[-_.](({_FORMATS})|quantized|dynamic|block|static|marlin|bf16|unsloth|hf)"
    r"(?![a-z0-9])",
    re.IGNORECASE,
)
_NAMES_LENGTH = re.compile(r"[-_](\d+)k(?![a-z0-9-])", re.IGNORECASE)
_LENGTHS = ("max_position_embeddings", "seq_length", "n_positions", "max_seq_len")
RIGHT: Mapping[str, str] = {
    "nvidia/MiniMax-M2.7-NVFP4": "196,608 in its own config.json, and 204,800 in the "
    "original's",
    "poolside/Laguna-S-2.1-FP8": "262,144 in its own config.json, and 1,048,576 in the "
    "others'",
    "deepseek-ai/deepseek-llm-7b-base": "the Hub's number is not that of its 30 layers",
    "deepseek-ai/deepseek-llm-7b-chat": "the Hub's number is not that of its 30 layers",
    "deepseek-ai/deepseek-math-7b-instruct": "the Hub's number is not that of its 30 "
    "layers",
    "internlm/internlm2-7b": "the Hub's number is not that of its 32 layers",
    "PaddlePaddle/PaddleOCR-VL": "its file holds a head for pooling images and packed "
    "positions too, which vLLM leaves out",
    "openai-community/gpt2": "its file holds causal masks too",
    "openai-community/gpt2-large": "its file holds causal masks too",
}


@dataclass(frozen=True)
class Model:
    """A bundled model, and what a plan of it says."""

    row: Mapping[str, Any]
    config: Mapping[str, Any]
    max_model_len: int
    quantization: str | None
    is_generative: bool
    num_parameters: int
    head_parameters: int
    """Of the head, or of the embeddings that it is tied to."""
    layer_parameters: int
    """Of one layer: a checkpoint may hold the layer of a draft too."""

    @property
    def name(self) -> str:
        """Name on the Hub."""
        return str(self.row["id"])


def main() -> int:
    """Write what differs."""
    found = list(differences())
    print("\n".join(found))
    return 1 if found else 0


def differences() -> Iterator[str]:
    """Yield a sentence for each model that differs from what is published of it."""
    models = list(read())
    checks = (lengths, formats, sizes, files)
    for check in checks:
        for name, text in check(models):
            if name not in RIGHT:
                yield f"{name}: {text}"


def read() -> Iterator[Model]:
    """Read every bundled model that differs from the one whose config.json it has."""
    lines = DATA.read_text(encoding="utf-8").splitlines()
    rows = {row["id"]: row for row in map(json.loads, lines)}
    for row in rows.values():
        if row.get("like") and not row.get("changes"):
            continue
        config = row.get("config") or rows[row["like"]].get("config") or {}
        made = _planned(row["id"])
        if made is not None:
            yield _model(row, config, made)


def _planned(name: str) -> planner.Plan | None:
    try:
        made = planner.plan(name, GPU, trust_remote_code=True, **SMALL_BATCH)
    except PlannerError:
        return None
    return made if made.ranks and made.resolved is not None else None


def _model(
    row: Mapping[str, Any], config: Mapping[str, Any], made: planner.Plan
) -> Model:
    model, rank = made.model, made.ranks[0]
    assert model is not None
    assert made.resolved is not None
    parts = {part.name: part.size_bytes for part in rank.weight_parts}
    held = rank.weights_bytes - parts.get(Part.BUFFERS, 0)
    return Model(
        row=row,
        config=config,
        max_model_len=made.resolved.max_model_len,
        quantization=made.resolved.quantization,
        is_generative=not model.is_pooling and not model.is_encoder_decoder,
        num_parameters=held // 2,
        head_parameters=model.vocab_size * model.hidden_size,
        layer_parameters=held // 2 // max(len(model.layers), 1),
    )


def lengths(models: Iterable[Model]) -> Iterator[tuple[str, str]]:
    """Compare lengths: of one model's formats, with its name, with a compiler's."""
    by_stem: dict[str, list[Model]] = defaultdict(list)
    for one in models:
        by_stem[_stem(one.name)].append(one)
        said = _NAMES_LENGTH.search(one.name)
        own = [one.config[n] for n in _LENGTHS if isinstance(one.config.get(n), int)]
        if said and own and min(own) < int(said[1]) * 1000:
            yield one.name, f"{min(own):,} tokens in its config, {said[1]}k in its name"
        if one.is_generative and one.max_model_len <= SHORTEST:
            yield one.name, f"{one.max_model_len} tokens, which a compiler writes"
    for alike in by_stem.values():
        most = max(one.max_model_len for one in alike)
        for one in alike:
            if one.max_model_len < most:
                others = ", ".join(x.name for x in alike if x.max_model_len == most)
                yield one.name, f"{one.max_model_len:,} tokens, {most:,} of {others}"


def _stem(name: str) -> str:
    """Return what the releases of one model in several formats have in common."""
    plain = name.partition("/")[2]
    while (shorter := _BESIDE_FORMAT.sub("", plain)) != plain:
        plain = shorter
    return plain.lower()


def formats(models: Iterable[Model]) -> Iterator[tuple[str, str]]:
    """Compare the format with the one that the name says."""
    for one in models:
        said = _NAMES_FORMAT.search(one.name.partition("/")[2])
        if said and one.quantization is None:
            yield one.name, f"unquantised, and {said[1]} in its name"
        if "bf16" in one.name.lower() and one.quantization is not None:
            yield one.name, f"{one.quantization}, and BF16 in its name"


def sizes(models: Iterable[Model]) -> Iterator[tuple[str, str]]:
    """Compare unquantised models with the number of parameters that the Hub states.

    A checkpoint may hold a tied head once more, or the layer of a draft.
    """
    for one in models:
        published = one.row.get("parameters")
        if published is None or one.quantization is not None:
            continue
        beside = (0, one.head_parameters, one.layer_parameters)
        apart = min(
            abs(one.num_parameters + more - published) / published for more in beside
        )
        if apart > SIZE_SHARE:
            yield (
                one.name,
                f"{one.num_parameters:,} parameters computed, {published:,} published",
            )


def files(models: Iterable[Model]) -> Iterator[tuple[str, str]]:
    """Look for what a side file lacks that vLLM reads."""
    for one in models:
        beside = one.row.get("hf_quant_config")
        if beside is None or one.config.get("quantization_config"):
            continue
        if beside.get("producer", {}).get("name") != "modelopt":
            yield one.name, "its hf_quant_config.json names no producer"


if __name__ == "__main__":
    sys.exit(main())
