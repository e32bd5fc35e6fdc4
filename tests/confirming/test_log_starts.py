"""The starts in a log: restarts, replicas beside each other, attempts in a text."""

from __future__ import annotations

from planner.confirming.log import read_log, starts_in

HEAD = "docker compose up\n"


def start(model: str, *lines: str) -> str:
    """Return the lines of one start of a model."""
    begin = f"INFO 11-20 10:00:00 [utils.py:1] non-default args: {{'model': '{model}'}}"
    return "".join(f"{line}\n" for line in (begin, *lines))


UP = start("org/up", "INFO 11-20 10:01:00 [g.py:1] Available KV cache memory: 5.5 GiB")
DOWN = start(
    "org/down",
    "(EngineCore pid=2) ERROR 11-20 10:01:00 [core.py:1] ValueError: No room",
)
BEGUN = start("org/begun", "(EngineCore pid=3) INFO 11-20 10:01:00 [g.py:1] Starting")


def models(text: str) -> list[str | None]:
    """Return the model of each start."""
    return [read_log(one.text).model for one in starts_in(text)]


def test_the_last_with_an_outcome_comes_first() -> None:
    """Then the others, from the last to the first."""
    assert models(UP + DOWN) == ["org/down", "org/up"]
    assert models(DOWN + UP + BEGUN) == ["org/up", "org/down", "org/begun"]
    assert models(BEGUN) == ["org/begun"]
    assert models("") == [None]


def test_what_stands_before_the_first_belongs_to_each() -> None:
    """The command, or the machine's GPUs; its place is that of its own lines only."""
    text = HEAD + UP + DOWN
    down, up = starts_in(text)

    assert [one.text.startswith(HEAD) for one in (down, up)] == [True, True]
    assert down.spans == ((len(HEAD + UP), len(text)),)
    assert up.spans == ((0, len(HEAD + UP)),)


def test_replicas_are_told_apart_by_their_containers() -> None:
    """Line by line beside each other; a proxy between them starts nothing."""
    lines = [
        line
        for pair in zip(UP.splitlines(), DOWN.splitlines(), strict=True)
        for line in (f"a-1   | {pair[0]}", "proxy | GET /health", f"b-1   | {pair[1]}")
    ]
    text = "\n".join(lines) + "\n"
    found = starts_in(text)

    assert {one.replica: read_log(one.text).model for one in found} == {
        "a-1": "org/up",
        "b-1": "org/down",
    }
    for one in found:
        assert "".join(text[begin:end] for begin, end in one.spans) == one.text


def test_attempts_in_a_text_are_told_apart_by_their_outcome() -> None:
    """A start without room for its cache cannot say its size: another one does."""
    failed = "Available KV cache memory: -0.3 GiB\nValueError: No available memory for "
    failed += "the cache blocks\n"
    held = "Available KV cache memory: 0.65 GiB\nGPU KV cache size: 10,944 tokens\n"

    last, first = starts_in(f"First:\n{failed}Then, with less:\n{held}")

    assert read_log(last.text).figures["available_kv_gib"] == 0.65
    assert read_log(first.text).started is False
    # The error is often quoted before its own log.
    assert len(starts_in(f"{failed}The log:\n{failed}")) == 1
