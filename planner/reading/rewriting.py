"""Changes written into a text, which is read again before it is given back.

An edit goes where a reader found the value. Whether that is where the value comes from
is known only when the changed text is read: it must say what it said, but for the
change, of this start and of all others.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from planner.engine.arguments import ARGUMENTS, PLANNER_ONLY
from planner.engine.flags import plain
from planner.engine.server import SERVER_FLAGS
from planner.errors import PlannerError
from planner.reading.flag_values import literal, unknown_notes
from planner.reading.passage import Edit, edited, line_at
from planner.reading.reading import NOT_NAMED, Reading
from planner.reading.recognising import all_in
from planner.reading.sites import Start
from planner.reading.starts.command import flag_words

_SAME = ("gpu", "entrypoint", "load")
"""What no change of a text may change."""
_MAY_FOLLOW: Mapping[str, Callable[[Iterable[str]], bool]] = {
    "shown": lambda names: "model" in names,
    "gpus": lambda names: any(
        n.endswith("_parallel_size") or n == "env" for n in names
    ),
}
"""What the same place may say as well: a name, the GPUs of a container."""
_STRAY = "belongs to no flag"
_OF_START = ("model", "env", "vllm_version")
_MOST_LINES, _MOST_WRONG = 3, 4
_BETWEEN = " \t\r\n\\"


def edits(reading: Reading, changes: Mapping[str, Any]) -> list[Edit]:
    """Return the places that changes write anew, once the result is read again.

    Raises:
        PlannerError: for a change that has no place in the text, or that would change
            what else the text says.
    """
    if (start := reading.start) is None:
        raise PlannerError(
            f"A {reading.kind} holds no arguments that could be changed. "
            "`.inputs(...).plan().command()` writes a command."
        )
    found = _together(_edits(start, *change) for change in changes.items())
    wrong = _read_otherwise(reading, found, changes)
    if wrong and _is_behind(start, changes):
        behind = _together(start.add(*change) for change in changes.items())
        if not _read_otherwise(reading, behind, changes):
            return behind
    if wrong:
        raise PlannerError(_by_hand(reading.given, found, changes, wrong))
    return found


def _together(made: Iterable[Sequence[Edit]]) -> list[Edit]:
    """Return edits once each: a list or table that two need is begun once."""
    found = list(dict.fromkeys(edit for each in made for edit in each))
    _check_apart(found)
    return found


def _is_behind(start: Start, changes: Mapping[str, Any]) -> bool:
    """Return whether flags behind a command's last word count in place of its own."""
    written = [site.written for site in start.sites if site.name in changes]
    is_given = all(value is not None for value in changes.values())
    return is_given and bool(written) and all(w.startswith("-") for w in written)


def _edits(start: Start, name: str, value: object) -> list[Edit]:
    """Return the edits that change one input in its place."""
    if name == "env":
        return _env_edits(start, value)
    if name == "vllm_version":
        if start.version is None or value is None:
            raise PlannerError("The text names no release that could be changed.")
        return start.version.replace(value)
    if name in ("gpu", "entrypoint"):
        raise PlannerError(f"The text has no place for {name}: change it where it is.")
    sites = [site for site in start.sites if site.name == name]
    if value is None:
        return [edit for site in sites for edit in site.remove()]
    _check_known(name)
    whole = [site for site in sites if not site.path]
    if whole and whole == sites:
        return whole[-1].replace(value)
    taken_out = [edit for site in sites for edit in site.remove()]
    return [*taken_out, *start.add(name, value)]


def _check_known(name: str) -> None:
    """Refuse to write what vLLM would refuse."""
    if name in PLANNER_ONLY:
        raise PlannerError(
            f"{name} is the planner's own: vLLM has no flag for it, and the text no "
            "place."
        )
    if name not in ARGUMENTS and name not in SERVER_FLAGS and name != "model":
        raise PlannerError(" ".join(unknown_notes([name])))


def _check_apart(found: Iterable[Edit]) -> None:
    """Refuse edits of one place that cannot both be made."""
    done = -1
    for edit in sorted(found, key=lambda edit: (edit.start, edit.end)):
        if edit.start < done:
            raise PlannerError(
                "Two changes have the same place in the text: make one, read the text "
                "again, and make the other."
            )
        done = max(done, edit.end)


def _env_edits(start: Start, value: object) -> list[Edit]:
    wanted = value if isinstance(value, Mapping) else {}
    missing = [name for name in wanted if name not in start.env]
    if missing:
        raise PlannerError(
            f"The text does not set {', '.join(missing)}: set it where vLLM is started."
        )
    if None in wanted.values():
        raise PlannerError("A variable is taken out by hand, where it is set.")
    return [
        edit for name, new in wanted.items() for edit in start.env[name].replace(new)
    ]


def _read_otherwise(
    reading: Reading, found: Sequence[Edit], changes: Mapping[str, Any]
) -> list[str]:
    """Return what the edited text says otherwise of any start, but for the changes.

    Starts that share a place, such as an anchor or a variable, change together.
    """
    try:
        before = _starts_of(reading.given)
        after = all_in(edited(reading.given, found))
    except PlannerError:
        return ["everything"]
    if not reading.number <= len(before) == len(after):
        return ["the number of starts"]
    wrong: list[str] = []
    for was, now in zip(before, after, strict=True):
        differing = _differing(was, now, changes)
        if differing and (was.number == reading.number or _differing(was, now, {})):
            wrong += differing
    return list(dict.fromkeys(wrong))


@lru_cache(maxsize=1)  # each change that is offered is written into the same text
def _starts_of(text: str) -> tuple[Reading, ...]:
    return all_in(text)


def _differing(was: Reading, now: Reading, changes: Mapping[str, Any]) -> list[str]:
    """Return the names of what a start has otherwise than with the changes."""
    if was.kind != now.kind:
        return ["its kind"]
    old, new = _inputs(was), _inputs(now)
    env = _with(was.env, changes.get("env"))
    others = [*_SAME, *(n for n, may in _MAY_FOLLOW.items() if not may(changes))]
    return [
        *(n for n in changes if n != "env" and not _is_written(n, changes[n], new)),
        *(n for n in sorted({*old, *new} - {*changes}) if old.get(n) != new.get(n)),
        *(n for n in others if getattr(was, n) != getattr(now, n)),
        *(n for n in sorted({*env, *now.env}) if env.get(n) != now.env.get(n)),
        *_said_otherwise(was, now, changes),
    ]


def _inputs(reading: Reading) -> dict[str, Any]:
    start = {"model": reading.model, "vllm_version": reading.vllm_version}
    return {**start, **reading.engine_args, **reading.kept}


def _with(env: Mapping[str, str], changed: Mapping[str, Any] | None) -> dict[str, str]:
    read = {n: str(v) for n, v in (changed or {}).items() if n.startswith("VLLM_")}
    return {**env, **read}


def _is_written(name: str, value: object, inputs: Mapping[str, Any]) -> bool:
    """Return whether a value that is read back is the one that was to be written."""
    read = inputs.get(name)
    if value is None or name in _OF_START:
        return read == value
    if read is None:  # off, or empty: what a flag that is not there says
        return not value and not flag_words(name, value)
    plainly = {repr(_plain(value)), repr([_plain(value)])}
    return repr(_plain(read)) in plainly or _plain(read) == _of_flag(name, value)


def _plain(value: object) -> object:
    """Return a value as JSON has it; a text that holds JSON as what it holds."""
    found = plain(value)
    return literal(found) if isinstance(found, str) else found


def _of_flag(name: str, value: object) -> object:
    """Return a value as a command's flag says it: `8K` is 8192."""
    line = shlex.join(["vllm", "serve", "org/m", *flag_words(name, value)])
    return _plain(_inputs(all_in(line)[0]).get(name))


def _said_otherwise(
    was: Reading, now: Reading, changes: Mapping[str, Any]
) -> Iterator[str]:
    """Yield what is new, or gone, of what is open, unknown or belongs to no flag."""
    sites = () if was.start is None else was.start.sites
    written = {site.written or site.name for site in sites if site.name in changes}
    named = {*written, *changes, *(changes.get("env") or ())} - {"model", "env"}
    own = {NOT_NAMED["model"]} if "model" in changes else set()

    def left(reading: Reading) -> dict[str, None]:
        said = [*reading.open, *(note for note in reading.notes if _STRAY in note)]
        said = [s for s in said if s not in own and not any(n in s for n in named)]
        return dict.fromkeys([*said, *(n for n in reading.unknown if n not in written)])

    before, after = left(was), left(now)
    yield from (repr(one) for one in after if one not in before)
    yield from (repr(one) for one in before if one not in after)


def _by_hand(
    text: str,
    found: Sequence[Edit],
    changes: Mapping[str, Any],
    wrong: Sequence[str],
) -> str:
    """Say which lines are to be changed by hand, and why."""
    names = ", ".join(changes)
    if not found:
        return f"The text has no place for {names}: change it where it is."
    places = (_place_of(text, edit) for edit in found)
    lines = list(dict.fromkeys(line_at(text, at) for at in places))[:_MOST_LINES]
    return (
        f"{names} cannot be written into the text: read again, it would say something "
        f"else of {', '.join(wrong[:_MOST_WRONG])}. Change it by hand, "
        f"{'; '.join(lines)}."
    )


def _place_of(text: str, edit: Edit) -> int:
    """Return where the word of an edit is, without the blanks that go with it."""
    words = text[edit.start : edit.end]
    if words.strip(_BETWEEN):
        return edit.end - len(words.lstrip(_BETWEEN))
    return max(len(text[: edit.start].rstrip(_BETWEEN)) - 1, 0)
