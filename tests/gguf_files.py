"""GGUF files for tests: true headers without weights."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from planner.models.sources.gguf import TYPES

_NUMBERS = {name: number for number, (name, _, _) in TYPES.items()}
_MAGIC = b"GGUF"

QWEN3: Mapping[str, Any] = {
    "general.architecture": "qwen3",
    "qwen3.block_count": 2,
    "qwen3.context_length": 40960,
    "qwen3.embedding_length": 1024,
    "qwen3.feed_forward_length": 3072,
    "qwen3.attention.head_count": 16,
    "qwen3.attention.head_count_kv": 8,
    "qwen3.attention.key_length": 128,
    "qwen3.attention.layer_norm_rms_epsilon": 1e-6,
    "qwen3.rope.freq_base": 1e6,
    "qwen3.vocab_size": 151936,
}


def qwen3_tensors(**types: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The tensors of two layers; `types` of some, by the last part of their names."""
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd": (151936, 1024),
        "output": (151936, 1024),
    }
    layer = {
        "attn_q": (2048, 1024),
        "attn_k": (1024, 1024),
        "attn_v": (1024, 1024),
        "attn_output": (1024, 2048),
        "ffn_gate": (3072, 1024),
        "ffn_up": (3072, 1024),
        "ffn_down": (1024, 3072),
    }
    for number in range(2):
        shapes |= {f"blk.{number}.{name}": shape for name, shape in layer.items()}
    found = {}
    for name, shape in shapes.items():
        kind = types.get(name.rpartition(".")[2], "Q4_K")
        if kind:
            found[f"{name}.weight"] = (kind, shape)
    return found


def _text(value: str) -> bytes:
    content = value.encode()
    return struct.pack("<Q", len(content)) + content


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    texts: Sequence[str] = value
    return struct.pack("<IIQ", 9, 8, len(texts)) + b"".join(map(_text, texts))


def gguf_bytes(
    metadata: Mapping[str, Any],
    tensors: Mapping[str, tuple[str, tuple[int, ...]]],
    version: int = 3,
) -> bytes:
    """A file's header."""
    content = _MAGIC + struct.pack("<IQQ", version, len(tensors), len(metadata))
    for key, value in metadata.items():
        content += _text(key) + _value(value)
    for name, (kind, shape) in tensors.items():
        content += _text(name) + struct.pack("<I", len(shape))
        content += struct.pack(f"<{len(shape)}Q", *reversed(shape))
        content += struct.pack("<IQ", _NUMBERS[kind], 0)
    return content


def write_qwen3(path: Path, **types: str) -> Path:
    """Write a file of two layers, and return its path."""
    path.write_bytes(gguf_bytes(QWEN3, qwen3_tensors(**types)))
    return path
