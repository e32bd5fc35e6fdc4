"""Figures as people shorten vLLM's sentences, in a table or in an issue's prose.

A note is short, has no head of a record in it, and names what its numbers are. What no
word stands beside is not guessed.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.log.sentences import Figure, compiled, number

MAX_LINES = 20
"""Longer texts are no notes."""

_BY = r"(?:[:=]|\s\([^)]*\):?)?"
"""Between a name and its number."""
_IN_A_ROW = r"S\s*\|\s*S\s*\|\s*N\s*\|\s*N(?:x)"
"""Weights, KV cache memory, tokens, concurrency: the order in which vLLM logs them."""

_NOTES: tuple[tuple[str, str], ...] = (
    ("weights_gib", rf"(?:Per-GPU )?model memory(?:/GPU)?{_BY} S"),
    ("weights_gib", rf"(?:Model|Weight) load(?:ing)?(?: to VRAM)?{_BY} S"),
    ("weights_gib", r"(?:Weight load \(|Loading weights: )S"),
    ("weights_gib", r"S(?:/GPU model memory| weights)"),
    ("weights_gib", r"\bweights N\b"),
    ("weights_gib", r"N weights\b"),
    ("weights_gib", r'"weight_memory_gib": N'),
    ("weights_gib", r"(?:^|\| )S[;|\s]+KV _ GiB"),
    ("available_kv_gib", rf"Available KV(?: cache)?{_BY} S"),
    ("available_kv_gib", r"(?:KV cache Available: |Available for KV |KV cache is )S"),
    ("available_kv_gib", r"(?:only S for|and S) KV cache"),
    ("available_kv_gib", r"limited KV cache \(S\)"),
    ("available_kv_gib", r"(?:only|exceeding the) S available"),
    ("available_kv_gib", r"only N available"),
    ("available_kv_gib", r"S remaining"),
    ("available_kv_gib", r"positive \(S\)"),
    ("available_kv_gib", r"\d x N = _ GiB pool"),
    ("available_kv_gib", r"\bKV S"),
    ("available_kv_gib", r"\bKV N(?= \||$| TP)"),
    ("available_kv_gib", r'"kv_cache_memory_gib": N'),
    ("available_kv_gib", r"S \(_ tok(?:ens)?\)"),
    ("kv_tokens", r"pool(?: size)?(?: at \w+ context)?: N tokens"),
    ("kv_tokens", r"GiB(?: \(|, )N tok(?:ens)?\b"),
    ("kv_tokens", r"\| N tokens"),
    ("kv_tokens", r'"kv_cache_tokens": N'),
    ("num_gpu_blocks", r'"kv_cache_blocks": N'),
    ("max_concurrency", r"N(?:x) max concurrency"),
    ("max_concurrency", r"(?:tok(?:ens)?\)|[|;]) (?:\| )?N(?:x)(?= \||$)"),
    ("max_concurrency", r'"max_concurrency": N'),
    ("needed_kv_gib", r"(?:needs|needed|requires) S"),
    ("estimated_max_len", r"suggested max N tokens"),
    ("cudagraph_gib", r"(?-i:CUDAGraph) N"),
    ("cudagraph_gib", r"CUDA graph capture \([^)]*\) _ s, S"),
    ("cudagraph_estimated_gib", r"CUDA graph memory S estimated"),
    ("cudagraph_estimated_gib", r"CUDA-graph reserve N"),
    ("activation_gib", r"\bactivation N\b"),
    ("activation_gib", r"S activation"),
    ("activation_gib", r"N activation"),
    ("non_torch_gib", r"\bnon-torch N\b"),
    ("non_torch_gib", r"N non-torch\b"),
)


def noted_figures(text: str, said: Mapping[str, Figure]) -> dict[str, Figure]:
    """Return the figures of vLLM's sentences, with those that a note adds."""
    found = dict(said)
    if text.count("\n") >= MAX_LINES:
        return found
    for name, wording in _NOTES:
        match = None if name in found else compiled(wording).search(text)
        if match is not None:
            found[name] = number(name, *[part for part in match.groups() if part])
    for name, figure in _row(text).items():
        found.setdefault(name, figure)
    return found


def _row(text: str) -> dict[str, Figure]:
    match = compiled(_IN_A_ROW).search(text)
    if match is None:
        return {}
    weights, unit, kv, kv_unit, tokens, requests = match.groups()
    return {
        "weights_gib": number("weights_gib", weights, unit),
        "available_kv_gib": number("available_kv_gib", kv, kv_unit),
        "kv_tokens": number("kv_tokens", tokens),
        "max_concurrency": number("max_concurrency", requests),
    }
