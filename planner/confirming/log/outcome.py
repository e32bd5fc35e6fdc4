"""The outcome of a start: ready, or the error that stopped it.

A failure is reported by every process above it: the worker's error, the engine core's,
then the server's, which only says that there is a cause above. The cause counts. An
error of a request, once the server is ready, is not a failed start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from planner.confirming.log.lines import LogLine
from planner.confirming.log.starts import BEGIN
from planner.values import frozen

# Source: vLLM of each release, `entrypoints/openai/api_server.py` (up to 0.31),
# `entrypoints/launchers/`, `v1/metrics/loggers.py`, `v1/engine/core.py`; uvicorn.
READY = re.compile(
    r"Application startup complete|Uvicorn running on|Started server process \["
    r"|Starting vLLM (?:API )?server(?: \d+)? on|vLLM gRPC server started"
    r"|API server: HTTP server started|vllm cache_config_info with initialization"
    r"|Avg prompt throughput:"
)
_ENGINE_READY = re.compile(
    r"init\s+engine\s+\(profile,\s+create\s+kv\s+cache,\s+warmup\s+model\)\s+took"
)
"""The last line of an engine core's start; a script without a server ends with it."""
_FAILED = re.compile(
    r"EngineCore (?:failed to start|hit an exception)|Engine core initialization failed"
    r"|WorkerProc (?:initialization )?failed|Engine core proc \S+ died unexpectedly"
    r"|Engine process failed to start|No KV cache room"
)

_ERROR = re.compile(
    r"(?:^|[;|]\s|->\s|\bwith\s)(?:\[\w+\]:?\s)?"
    r"(?P<type>(?:[a-z_]\w*\.)*(?:[A-Z]\w*)?(?:Error|Exception|Interrupt|Exit|NotFound"
    r"|OutOfResources))\b(?:\([\w.]+\))?:\s*(?P<words>.*)"
)
_BARE = re.compile(r"^(?P<type>(?:[a-z_]\w*\.)*(?:[A-Z]\w*)?(?:Error|Exception))\s*$")
_WITHOUT_TYPE = re.compile(
    r"(?P<words>(?:No\s+available\s+memory\s+for\s+the\s+cache\s+blocks"
    r"|To\s+serve\s+at\s+least\s+one\s+request\s+with\s+the\s+model"
    r"|The\s+model's\s+max\s+seq\s+len\s+\("
    r"|Free\s+memory\s+on\s+device\s[^;]*?is\s+less\s+than"
    r"|Available\s+memory\s+on\s+node\s[^;]*?is\s+less\s+than"
    r"|User-specified\s+max_model_len\s+\("
    r"|max_num_seqs\s+\(\d+\)\s+exceeds\s+available"
    r"|Error\s+in\s+memory\s+profiling\."
    r"|CUDA\s+out\s+of\s+memory|CUDA\s+error:\s+out\s+of\s+memory).*)"
)
"""vLLM's refusals, quoted without the error's type."""
_USAGE = re.compile(r"^(?:vllm\b.*|\w+\.py): error: (?P<words>.+)")
_KILLED = re.compile(
    r"^(?:(?:\S+: line \d+:\s+\d+ )?(?P<words>Killed|Bus error|Segmentation fault)\b)"
)

_WRAPPERS = re.compile(
    r"Engine core initialization failed|WorkerProc initialization failed"
    r"|Engine process failed to start|EngineDeadError|EngineGenerationError"
    r"|EngineCore encountered an issue|See (?:stack trace|root cause)"
    r"|ProcessRaisedException|ChildFailedError|Engine loop (?:is not running|has died)"
    r"|Background loop has errored|ActorDiedError|RayActorError"
)
_STOPPED = re.compile(
    r"KeyboardInterrupt|SystemExit|CancelledError|BrokenPipeError|EOFError"
    r"|ConnectionResetError|GeneratorExit|BrokenResourceError"
)
_OF_A_REQUEST = re.compile(
    r"This model's maximum context length is|The engine prompt length \d+ exceeds"
    r"|is too large: \d+\. This model's"
)
_QUIET = frozenset({"DEBUG", "INFO", "WARNING"})
_CHAINED = re.compile(
    r"^(?:During handling of the above exception|The above exception was the direct)"
)
_NEW = re.compile(
    r"^\s*$|^\s+File |^Traceback|^During handling|^The above|^\[|^\w+:\s|^\S+Error\b"
    r"|^For further information|^/|^\s*\^|^INFO:|^Exception"
)
_VALIDATION = re.compile(r"\d+ validation errors? for (?P<of>\S+)")
_DETAILS = re.compile(r"\[type=\w+.*", re.DOTALL)
_PYDANTIC = (("Value error, ", "ValueError"), ("Assertion failed, ", "AssertionError"))
_MAX_LINES = 12
"""Lines that an error's sentence may have been wrapped into."""
_FULL_WIDTH = 60
"""Length from which a line may continue in the next one."""
_NO_CAUSE = 2
"""Rank of an error that is not the cause of a failed start."""


@frozen
class LoggedOutcome:
    """How a start ended."""

    is_started: bool | None = None
    """None if the lines end before the outcome."""
    error: str | None = None
    """The error that stopped it, with the error's type."""
    later_error: str | None = None
    """The first error after it was ready."""
    end: int = 0
    """Number of lines up to the one with the outcome."""


def begins_with_start(lines: Sequence[LogLine]) -> bool:
    """Return whether the lines have the beginning of a start, not only a quote."""
    return any(BEGIN.search(line.text) and line.level for line in lines)


def outcome_of(lines: Sequence[LogLine]) -> LoggedOutcome:
    """Return how the start of these lines ended."""
    ready = _first(READY, lines)
    if ready is None and (engine := _first(_ENGINE_READY, lines)) is not None:
        failed = _first(_FAILED, lines[engine:])
        ready = engine if failed is None else None
    if ready is not None:
        later = _cause(lines[ready:])
        return LoggedOutcome(
            is_started=True,
            later_error=None if later is None or later.rank else later.sentence,
            end=ready + 1,
        )
    cause = _cause(lines)
    if cause is not None:
        return LoggedOutcome(is_started=False, error=cause.sentence, end=cause.line + 1)
    failed = _first(_FAILED, lines)
    if failed is None:
        return LoggedOutcome(end=len(lines))
    return LoggedOutcome(
        is_started=False, error=" ".join(lines[failed].text.split()), end=failed + 1
    )


@frozen
class _Error:
    type: str
    words: str
    line: int
    is_chained: bool = False
    """Whether another error was raised while this one was handled."""

    @property
    def sentence(self) -> str:
        words = " ".join(self.words.split())
        return f"{self.type}: {words}" if self.type and words else self.type or words

    @property
    def rank(self) -> int:
        """0 for a cause, 1 for an error that refers to one, 2 for any other end."""
        if _WRAPPERS.search(self.sentence):
            return 1
        is_other = _STOPPED.search(self.type) or _OF_A_REQUEST.search(self.words)
        return _NO_CAUSE if is_other else 0


def _cause(lines: Sequence[LogLine]) -> _Error | None:
    """Return the first error that is a cause; of a chain, the one raised last."""
    errors = [error for error in _errors(lines) if error.rank < _NO_CAUSE]
    for number, error in enumerate(errors):
        if error.rank == 0:
            return _end_of_chain(errors[number:])
    return errors[0] if errors else None


def _end_of_chain(errors: list[_Error]) -> _Error:
    last = errors[0]
    for error in errors[1:]:
        if not last.is_chained or error.rank:
            break
        last = error
    return last


def _errors(lines: Sequence[LogLine]) -> Iterator[_Error]:
    for number, line in enumerate(lines):
        if line.level in _QUIET:
            continue
        found = _error_in(line)
        if found is None:
            continue
        kind, words = found
        rest = list(_rest_of(lines, number))
        if _VALIDATION.search(words):
            kind, words = _validation(kind, words, lines[number + 1 : number + 9])
        else:
            words = " ".join([words, *(part.text.strip() for part in rest)])
        yield _Error(
            type=kind,
            words=words,
            line=number,
            is_chained=_is_chained(lines, number + 1 + len(rest)),
        )


def _error_in(line: LogLine) -> tuple[str, str] | None:
    """Return type and words of the error that a line names."""
    typed = _ERROR.search(line.text)
    if typed is not None:
        return typed["type"].removeprefix("builtins."), typed["words"]
    for pattern in (_USAGE, _WITHOUT_TYPE, _KILLED):
        match = pattern.search(line.text)
        if match is not None:
            return "", match["words"]
    bare = _BARE.search(line.text)
    return None if bare is None else (bare["type"], "")


def _rest_of(lines: Sequence[LogLine], number: int) -> Iterator[LogLine]:
    """Yield the further lines of an error's sentence that was wrapped."""
    width = lines[number].width
    for line in lines[number + 1 : number + _MAX_LINES]:
        is_new = bool(line.level or line.process or _NEW.search(line.text))
        if is_new or width < _FULL_WIDTH or _ERROR.search(line.text):
            return
        yield line
        width = line.width


def _is_chained(lines: Sequence[LogLine], after: int) -> bool:
    near = lines[after : after + _MAX_LINES]
    following = next((line.text for line in near if line.text.strip()), "")
    return bool(_CHAINED.search(following))


def _validation(kind: str, words: str, after: Sequence[LogLine]) -> tuple[str, str]:
    """Return the sentence of a validation error, which follows its first line."""
    texts = [line.text for line in after]
    for number, text in enumerate(texts):
        joined = " ".join(part.strip() for part in texts[number:])
        for prefix, raised in _PYDANTIC:
            if text.strip().startswith(prefix):
                sentence = joined.removeprefix(prefix)
                return raised, _DETAILS.sub("", _before_link(sentence)).rstrip()
        if "[type=" in text and number:
            field = texts[number - 1].strip()
            said = _DETAILS.sub("", text.strip()).rstrip()
            return "ValidationError", f"{field}: {said}"
    return kind, words


def _before_link(sentence: str) -> str:
    return sentence.split("For further information visit")[0]


def _first(pattern: re.Pattern[str], lines: Sequence[LogLine]) -> int | None:
    found = (
        number
        for number, line in enumerate(lines)
        if line.level != "DEBUG" or pattern is READY
        if pattern.search(line.text)
    )
    return next(found, None)
