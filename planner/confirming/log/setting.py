"""Version, model, arguments and times of a start, if its log has them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import TypeAlias

from planner.confirming.log.lines import LogLine
from planner.values import frozen

Argument: TypeAlias = (
    "str | int | float | bool | list[object] | dict[str, object] | None"
)

_VERSION = r"v?(\d+\.\d+(?:\.\d+)?(?:[.\w+-]*\w)?)"
# Source: vLLM of each release, `entrypoints/openai/api_server.py`,
# `entrypoints/common/startup.py`, `v1/engine/core.py`, `engine/llm_engine.py`.
_VERSIONS = (
    rf"Initializing\s+an?\s+(?:V\d\s+)?LLM\s+engine\s+\({_VERSION}\)",
    rf"vLLM\s+(?:API\s+)?server\s+version\s+{_VERSION}",
    rf"█\s+version\s+{_VERSION}",
    rf"vLLM\s+batch\s+processing\s+API\s+version\s+{_VERSION}",
    rf"LLM\s+engine\s+\({_VERSION}\)",
    rf"vllm-openai:{_VERSION}",
    rf"\bvLLM(?:\s+[Vv]ersion)?[\s:=]+{_VERSION}",
    rf"\bvllm==\s*{_VERSION}",
    rf"(?:^|[;|]\s*)version\s+{_VERSION}",
    rf"\bupgrad\w+\s+(?:from\s+\S+\s+)?to\s+{_VERSION}",
    rf"(?<![\w.])(?<!rom ){_VERSION}\s+(?:cold|warm|fails|refuses)\b",
    r"(?:^|[;|]\s*)v(\d+\.\d+(?:\.\d+)?)\s*(?:$|[;|])",
)
"""The last four are people's notes."""
_MODEL = (
    r"LLM engine \([^)]{0,200}\) with config:\s+model='([^']+)'",
    r"█\s+model\s+(\S+)",
    r"vLLM\s+server\s+version\s+\S+,\s+serving\s+model\s+(\S+)",
    r"Starting\s+to\s+load\s+model\s+(\S+?)\.\.\.",
    r"args:\s+Namespace\([^\n]{0,3000}?\bmodel='([^']+)'",
    r"\bvllm\s+serve\s+([\w./-]*\w)",
    r"LLM\s+engine\b[^\n]{0,300}?\bmodel='([^']+)'",
    r"\bLLM\(\s*(?:model=)?['\"]([^'\"]+)['\"]",
    r"(?<![\w-])--model(?:=|\s+)['\"]?([\w./-]*\w)",
    r'^[ \t]*\{[^\n]{0,3000}?"model":\s*"([^"]+)"',
    r"(?:^|[;|,]\s*)model[ :]+([\w.-]+/[\w.-]*\w)",
    r"\bserved_model_name='?([\w.-]+/[\w.-]*\w)",
)
"""From the config's own value to what a note or a command says."""
_ARGUMENTS = re.compile(r"non-default\s+args:\s+\{")
_PAIR = re.compile(r"['\"](?P<name>\w+)['\"]:\s*")
_CONFIG = re.compile(
    r"LLM\s+engine\s+(?:\([^)]{0,200}\)\s*)?(?:with\s+config:|\.\.\.)\s+(?P<config>.*)",
    re.S,
)
_RESOLVED = {
    "model": "model",
    "revision": "revision",
    "trust_remote_code": "trust_remote_code",
    "dtype": "dtype",
    "max_seq_len": "max_model_len",
    "load_format": "load_format",
    "tensor_parallel_size": "tensor_parallel_size",
    "pipeline_parallel_size": "pipeline_parallel_size",
    "data_parallel_size": "data_parallel_size",
    "decode_context_parallel_size": "decode_context_parallel_size",
    "quantization": "quantization",
    "enforce_eager": "enforce_eager",
    "kv_cache_dtype": "kv_cache_dtype",
    "enable_prefix_caching": "enable_prefix_caching",
    "enable_chunked_prefill": "enable_chunked_prefill",
    "device_config": "device",
}
"""Names in vLLM's line of the engine's configuration, with the arguments' names."""

_BLOCK_SIZES = (
    r"Setting attention block size to (\d+) tokens",
    r"(?:Setting|Forcing) kv cache block size to (\d+)",
    r"'block_size': (\d+)",
)
_DEVICE_NAME = re.compile(
    r"device_name=([A-Z][\w-]+)"
    r"|GPU(?: \d+)?: ((?:NVIDIA|AMD|Tesla) [\w -]+?)\s*(?:[;,|(]|$)"
    r"|^\|\s+\d+\s+((?:NVIDIA|Tesla) [\w -]+?)\s{2,}",
    re.M,
)
"""The second in torch's collect_env, the third in nvidia-smi's table."""
_DEVICE = re.compile(
    r"\b(GPU|CPU) KV cache size|desired (CPU|GPU) memory utilization", re.IGNORECASE
)
_OTHER_DEVICE = re.compile(
    r"\b(CPU|TPU|XPU)(?: \+ host)? KV cache size|VLLM_(CPU)_KVCACHE_SPACE"
    r"|for (NPU) graph memory|available (HPU) memory|\b(ROCm)\b"
)
"""Beside "GPU", which plugins for other devices write as well."""
_COLD = re.compile(
    r"Compiling a graph for|sav(?:ed|ing) AOT compiled function|Compiling model again"
    r"|Cache the graph (?:for|of)|torch\.compile cache is disabled"
)
_CHARGED = (
    (True, r"CUDA\s+graph\s+memory\s+profiling\s+is\s+enabled"),
    (False, r"CUDA\s+graph\s+memory\s+profiling\s+(?:is\s+disabled|will\s+be)"),
)
"""Source: vLLM 0.18 to 0.33 `v1/worker/gpu_worker.py` determine_available_memory."""
_NOTED = (
    ("max_model_len", r"Auto-fit max_model_len: reduced from \d+ to (\d+)"),
    ("max_model_len", r"Using max model len (\d+)"),
    ("max_num_batched_tokens", r"Defaulting max_num_batched_tokens to (\d+)"),
    (
        "max_num_batched_tokens",
        r"Chunked prefill is enabled with max_num_batched_tokens=(\d+)",
    ),
    ("max_num_seqs", r"Defaulting max_num_seqs to (\d+)"),
    (
        "gpu_memory_utilization",
        r"(?i:desired)\s+(?:GPU|CPU)\s+memory\s+utilization\s+(?:is\s+)?\(([\d.]+),",
    ),
    ("gpu_memory_utilization", r"gpu_memory_utilization\s+\(([\d.]+)\)"),
    (
        "gpu_memory_utilization",
        r"--gpu-memory-utilization(?:=([\d.]+\d)\s+is\s+equivalent"
        r"|\s+from\s+([\d.]+)\s+to\s+[\d.]+)",
    ),
    ("max_model_len", r"max\s+seq\s+len\s+\((\d+)\)"),
    ("max_model_len", r"User-specified\s+max_model_len\s+\((\d+)\)"),
    ("max_model_len", r"Maximum\s+concurrency\s+for\s+([\d,]*\d)\s+tokens"),
    ("max_num_seqs", r"max_num_seqs\s+\((\d+)\)\s+exceeds"),
    ("max_num_seqs", r"warming\s+up\s+sampler\s+with\s+(\d+)\s+dummy\s+requests"),
)
_WARM = re.compile(r"Directly load (?:the compiled graph|AOT compilation)")
_SAMPLERS = (
    ("flashinfer", re.compile(r"Using FlashInfer for top-p & top-k sampling")),
    (
        "pytorch",
        re.compile(
            r"FlashInfer (?:is not available|is available, but|version >= \S+ req)"
        ),
    ),
)
"""Which code samples, and what says so.

Source: vLLM 0.10.1 and 0.15.1 `v1/sample/ops/topk_topp_sampler.py`.
"""
_SECONDS = {
    "loading_weights": r"Loading\s+weights\s+took\s+([\d.]+)\s+s",
    "loading_model": (
        r"Model\s+loading\s+took\s+\S+\s+G\S+(?:\s+memory)?\s+and\s+([\d.]+)"
    ),
    "compiling": (
        r"torch\.compile\s+(?:and\s+initial\s+profiling/warmup\s+run\s+together\s+)?"
        r"t(?:akes|ook)\s+([\d.]+)\s+s\s+in\s+total"
        r"|\(compilation:\s+([\d.]+)\s+s"
    ),
    "profiling": (
        r"Memory\s+profiling\s+takes\s+([\d.]+)\s+s"
        r"|Initial\s+profiling/warmup\s+run\s+took\s+([\d.]+)\s+s"
    ),
    "capturing": r"Graph\s+capturing\s+finished\s+in\s+([\d.]+)\s+s",
    "init_engine": r"warmup\s+model\)\s+took\s+([\d.]+)\s+s",
}
_UNREADABLE = "\0"
"""Marks a value that is not a literal: an object's repr, or a truncated line."""
_OPENING, _CLOSING = "([{", ")]}"


@frozen
class LogSetting:
    """What was started, and how long the parts of the start took."""

    vllm_version: str | None = None
    model: str | None = None
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    """Arguments that were given: vLLM's "non-default args", also of the server."""
    resolved: Mapping[str, Argument] = field(default_factory=dict)
    """Values in the line of the engine's configuration, by arguments' names."""
    noted: Mapping[str, Argument] = field(default_factory=dict)
    """Arguments in lines of their own: defaults that vLLM chose."""
    block_size: int | None = None
    device: str | None = None
    """cuda, cpu, ..., as vLLM names it."""
    device_name: str | None = None
    """Name of the GPU, if a line has it."""
    is_compile_cache_cold: bool | None = None
    """Whether the model was compiled in this start; None if unknown."""
    sampler: str | None = None
    """flashinfer or pytorch, if a line says which samples."""
    is_estimate_charged: bool | None = None
    """Whether the graphs' estimate was subtracted from the budget; None if unknown."""
    is_estimate_in_peak: bool = False
    """Whether "for peak activation" includes that estimate."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """By part of the start; of several ranks, the longest."""

    @property
    def shown(self) -> Mapping[str, Argument]:
        """All arguments that the log shows; resolved values have priority."""
        return {**self.noted, **self.arguments, **self.resolved}


def setting_of(text: str) -> LogSetting:
    """Return the setting of a start from its messages."""
    resolved = dict(_resolved(text))
    arguments = dict(_arguments(text))
    device = resolved.pop("device", None)
    model = arguments.get("model") or resolved.get("model") or _found(_MODEL, text)
    block_size = _found(_BLOCK_SIZES, text)
    return LogSetting(
        vllm_version=_found(_VERSIONS, text),
        model=model if isinstance(model, str) else None,
        arguments=arguments,
        resolved=resolved,
        noted=dict(_noted(text)),
        block_size=None if block_size is None else int(block_size),
        device=device if isinstance(device, str) else _device(text),
        device_name=_device_name(text),
        is_compile_cache_cold=_is_cold(text),
        sampler=next((name for name, sign in _SAMPLERS if sign.search(text)), None),
        is_estimate_charged=_is_charged(text),
        is_estimate_in_peak=_is_in_peak(text),
        seconds=dict(_seconds(text)),
    )


def seconds_between(lines: Sequence[LogLine]) -> float:
    """Return the time from the first to the last line with a time; 0.0 without one."""
    stamps = [line.stamp for line in lines if line.stamp]
    if not stamps:
        return 0.0
    first, last = (_moment(stamp) for stamp in (stamps[0], stamps[-1]))
    if first is None or last is None:
        return 0.0
    # Stamps have no year: a start on New Year's Eve may end in the next year.
    seconds = (last - first).total_seconds()
    return (
        seconds if seconds >= 0 else (last.replace(year=2025) - first).total_seconds()
    )


def _moment(stamp: str) -> datetime | None:
    try:
        return datetime.strptime(f"2024-{stamp}", "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return None


def _found(patterns: Sequence[str], text: str) -> str | None:
    for pattern in patterns:
        match = re.search(pattern, text, re.MULTILINE)
        if match is not None:
            return match[1]
    return None


def _device(text: str) -> str | None:
    match = _OTHER_DEVICE.search(text) or _DEVICE.search(text)
    device = "" if match is None else next(filter(None, match.groups())).lower()
    return {"": None, "gpu": "cuda"}.get(device, device)


def _device_name(text: str) -> str | None:
    match = _DEVICE_NAME.search(text)
    if match is None:
        return None
    return (match[1] or match[2] or match[3]).replace("_", " ").strip()


def _is_cold(text: str) -> bool | None:
    if _COLD.search(text):
        return True
    return False if _WARM.search(text) else None


def _is_charged(text: str) -> bool | None:
    for is_charged, pattern in _CHARGED:
        if re.search(pattern, text):
            return is_charged
    return None


def _is_in_peak(text: str) -> bool:
    """Return whether the log's peak activation includes the graphs' estimate.

    From 0.27 on if the estimate is charged, which is the default; before that only in
    0.18 and 0.19, if it was enabled, and not in the profile's own line.
    Source: vLLM of each release, `v1/worker/gpu_worker.py` peak_activation_memory.
    """
    if re.search(r"for\s+consumed\s+memory", text):
        return _is_charged(text) is not False
    is_early = re.search(r"will\s+become\s+the\s+default\s+in\s+v0\.19", text)
    return bool(is_early) and not re.search(r"torch\s+peak\s+memory", text)


def _noted(text: str) -> Iterator[tuple[str, Argument]]:
    seen: set[str] = set()
    for name, pattern in _NOTED:
        match = re.search(pattern, text)
        if match is not None and name not in seen:
            seen.add(name)
            digits = (match[1] or match[2]).replace(",", "")
            yield name, _literal(digits, otherwise=digits)


def _seconds(text: str) -> Iterator[tuple[str, float]]:
    for name, pattern in _SECONDS.items():
        found = [
            float(digits.strip("."))
            for match in re.finditer(pattern, text)
            for digits in match.groups()
            if digits and digits.strip(".").count(".") <= 1 and digits.strip(".")
        ]
        if found:
            yield name, max(found)


def _resolved(text: str) -> Iterator[tuple[str, Argument]]:
    match = _CONFIG.search(text)
    if match is None:
        return
    config = match["config"].split("compilation_config=")[0]
    for name, argument in _RESOLVED.items():
        value = re.search(rf"\b{name}=\s*('[^']*'|\"[^\"]*\"|[\w.+-]+)", config)
        if value is not None:
            plain = value[1].removeprefix("torch.")
            if plain.startswith("LoadFormat."):
                plain = plain.removeprefix("LoadFormat.").lower()
            yield argument, _literal(plain, otherwise=plain)


def _arguments(text: str) -> Iterator[tuple[str, Argument]]:
    match = _ARGUMENTS.search(text)
    if match is None:
        return
    body = _balanced(text, match.end() - 1)
    for name, value in _pairs(body[1:-1]):
        read = _literal(value, otherwise=_UNREADABLE)
        if read != _UNREADABLE:
            yield name, read


def _literal(text: str, *, otherwise: str) -> Argument:
    try:
        value: Argument = ast.literal_eval(" ".join(text.split()))
        json.dumps(value)  # no argument is a set, bytes or complex
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return {"true": True, "false": False, "null": None}.get(text, otherwise)
    return value


def _pairs(body: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values at the top level of a dictionary's text."""
    position = 0
    while (match := _PAIR.search(body, position)) is not None:
        end = _end_of_value(body, match.end())
        yield match["name"], body[match.end() : end].strip()
        position = end + 1


def _balanced(text: str, start: int) -> str:
    """Return the bracketed text that begins at `start`, or all if it never ends."""
    end = _end_of_value(text, start)
    return text[start:end]


def _end_of_value(text: str, start: int) -> int:
    """Return the end of a value: a comma or bracket that is not inside it."""
    depth, quote = 0, ""
    position = start
    while position < len(text):
        char = text[position]
        if quote:
            position += char == "\\"
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in _OPENING:
            depth += 1
        elif char in _CLOSING:
            depth -= 1
            if depth <= 0:
                return position + (depth == 0)
        elif char == "," and depth == 0:
            return position
        position += 1
    return len(text)
