"""Bytes that a token takes in KV caches that pack more than plain values.

Source: vLLM 0.33.0 `utils/torch_utils.py` STR_DTYPE_TO_TORCH_DTYPE,
nvfp4_kv_cache_full_dim; `v1/attention/backends/triton_attn.py` customize_spec;
`layers/quantization/turboquant/config.py`.
"""

from __future__ import annotations

from planner.dtypes import element_bytes
from planner.memory.kv_spec import AttentionSpec

PER_TOKEN_HEAD = ("int4_per_token_head", "int8_per_token_head", "fp8_per_token_head")
TURBOQUANT_BITS = {
    "turboquant_k8v4": (8, 4),
    "turboquant_4bit_nc": (4, 4),
    "turboquant_k3v4_nc": (3, 4),
    "turboquant_3bit_nc": (3, 3),
}
"""Bits of a key's value and of a value's."""
TURBOQUANT = tuple(TURBOQUANT_BITS)
_NORM_BYTES = 2
_SCALE_AND_ZERO_BYTES = 4
_SCALES_BYTES = 2 * 4
_FP8_BITS = 8


def kv_element_bytes(dtype: str, kv_cache_dtype: str) -> int:
    """Bytes of one kept value; packed dtypes count in bytes."""
    if kv_cache_dtype == "auto":
        return element_bytes(dtype)
    plain = kv_cache_dtype in ("bfloat16", "float16")
    return element_bytes(kv_cache_dtype) if plain else 1


def quant_mode(kv_cache_dtype: str) -> str:
    """Return how values are packed; FP8 has two names."""
    if kv_cache_dtype in ("auto", "float16", "bfloat16"):
        return "none"
    return "fp8" if kv_cache_dtype in ("fp8", "fp8_e4m3") else kv_cache_dtype


def nvfp4_bytes(head_size: int) -> int:
    """Bytes of one head's key or value: half a byte each, a scale per 16."""
    return head_size // 2 + head_size // 16


def per_token_head_bytes(spec: AttentionSpec) -> int:
    """Bytes of one head's key and value with a float32 scale each."""
    sizes = (spec.head_size, spec.head_size_v or spec.head_size)
    parts = 2 if spec.kv_quant_mode.startswith("int4") else 1
    return sum(size // parts for size in sizes) * spec.element_bytes + _SCALES_BYTES


def turboquant_bytes(kv_cache_dtype: str, head_size: int) -> int:
    """Bytes of one head's key and value, rounded up to even."""
    key_bits, value_bits = TURBOQUANT_BITS[kv_cache_dtype]
    key = -(-head_size * key_bits // 8) + (_NORM_BYTES if key_bits < _FP8_BITS else 0)
    value = -(-head_size * value_bits // 8) + _SCALE_AND_ZERO_BYTES
    return key + value + (key + value) % 2
