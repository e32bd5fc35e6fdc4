"""Odd values, and good ones spoilt."""

from __future__ import annotations

from random import Random
from typing import Any

from planner.engine.releases import NEWEST

DEEPEST = 12
"""Of places that are spoilt."""
LONGEST = 4_000
"""Characters that a spoilt text may have more than before."""
NUMBERS: tuple[Any, ...] = (
    *(0, -1, 1, 2, 3, 7, 1.5, -0.0, 0.5, 1e-300, 1e300, 10**12, 2**31, 2**63, 2**64),
    *(10**30, -(2**63), 10**400, float("nan"), float("inf"), float("-inf"), True),
)
TEXTS: tuple[str, ...] = (
    *("", " ", "x", "0", "-1", "nan", "NaN", "inf", "-Infinity", "1e400", "auto"),
    *("9" * 5_000, "1_0", "\uff11", "8k", "8K", "1GiB", "true", "None", "null", "[]"),
    *("{}", "[1]", '{"a": 1}', "[" * 3_000, '{"a":' * 2_000, "$X", "${X}", "$$", "$("),
    *("a\ud800b", "\udcff", "\0", "\x1b[31m", "\u202e", "\ufeff", "é", "🙂", "\r\n"),
    *(
        "~nosuchuser",
        "/dev/null",
        "../..",
        "a/b",
        "a" * 300,
        "%s",
        "{0}",
        "<b>",
        "&lt;",
    ),
    *("Qwen/Qwen3-8B", "H100", "attached", "CPU", NEWEST, "0.0.0", "fp8", "1,2", ";"),
)
PIECES: tuple[str, ...] = (
    *TEXTS,
    *("'", '"', "\\", "\n", "`", ")", "(", "{", "}", "]", "--", "=", ",", ":", ": "),
    *("- ", "? ", "!!set ", "!!binary ", "&a ", "*a", "<<: ", "|\n", "#", "\t", "\\\n"),
    *("vllm serve ", "docker run ", "--model ", " GiB", " tokens", "Error: ", "INFO "),
    *(
        "Qwen3 32B ",
        " on two ",
        "RTX 4090s",
        " 24 GB VRAM",
        "20 users ",
        "4k in / 1k out",
    ),
    *(
        "bash -c '",
        "$(cat <<E\n",
        "'''",
        "{{ x }}",
        "LLM(",
        "1" * 90,
        "1," * 90,
        "\u2028",
    ),
)


def number(random: Random) -> Any:
    """Draw a number, rarely a usual one."""
    if random.random() < 0.3:
        return random.randrange(1, 1 << random.randrange(1, 40))
    return random.choice(NUMBERS)


def value(random: Random, depth: int = 0) -> Any:
    """Draw whatever JSON or Python can hold."""
    kind = random.randrange(8 if depth < 3 else 5)
    if kind < 2:
        return number(random)
    if kind < 4:
        return random.choice(TEXTS)
    if kind == 4:
        return random.choice((None, True, False, (), [], {}, [None], b"x", "a" * 3_000))
    if kind == 5:
        return [value(random, depth + 1) for _ in range(random.randrange(4))]
    if kind == 6:
        return nested(random.choice((3, 40, 200)), random.choice((list, dict)))
    return {
        random.choice(TEXTS): value(random, depth + 1)
        for _ in range(random.randrange(4))
    }


def nested(depth: int, kind: type) -> Any:
    """Return lists or tables within each other."""
    made: Any = 1
    for _ in range(depth):
        made = [made] if kind is list else {"a": made}
    return made


def python_value(random: Random) -> Any:
    """Draw a value that only a program can pass."""
    odd = (object(), len, int, {1, 2}, range(3), 1j, b"\xff", bytearray(3), {1: 2})
    return random.choice(odd) if random.random() < 0.3 else value(random)


def places(found: object, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return every place in a table, however deep."""
    here = [before] if before else []
    if len(before) > DEEPEST:
        return here
    items: list[tuple[Any, object]] = []
    if isinstance(found, dict):
        items = list(found.items())
    elif isinstance(found, list):
        items = list(enumerate(found))[:3]
    for key, inner in items:
        here += places(inner, (*before, key))
    return here


def copied(found: Any) -> Any:
    """Return a table as JSON has it: the catalogue's share their equal parts."""
    if isinstance(found, dict):
        return {key: copied(inner) for key, inner in found.items()}
    return [copied(inner) for inner in found] if isinstance(found, list) else found


def spoilt(table: dict[str, Any], random: Random) -> dict[str, Any]:
    """Return a table with one to three values dropped, replaced, nested or moved."""
    table = copied(table)
    for _ in range(random.randint(1, 3)):
        known = places(table)
        if not known:
            break
        *way, last = random.choice(known)
        holder: Any = table
        for step in way:
            holder = holder[step]
        action = random.randrange(5)
        if action == 0:
            del holder[last]
        elif action < 3:
            holder[last] = value(random)
        elif action == 3:
            holder[last] = {str(last): holder[last]}
        else:
            holder[last] = number(random)
    return table


def cut(text: str, random: Random, others: tuple[str, ...] = PIECES) -> str:
    """Return a text cut, doubled, turned, or with pieces put in, up to four times."""
    longest = len(text) + LONGEST
    for _ in range(random.randint(1, 4)):
        at, end = sorted(random.randint(0, len(text)) for _ in range(2))
        piece = random.choice(others)
        text = random.choice(
            (
                text[:at],
                text[at:],
                text[:at] + text[end:],
                text[:end] + text[at:],
                text[:at] + piece + text[at:],
                text[:at] + piece * random.randint(2, 60) + text[end:],
                text[:at] + text[at:end][::-1] + text[end:],
                text.replace(random.choice(" \n:=-_/.,"), piece, random.randint(1, 9)),
            )
        )[:longest]
    return text
