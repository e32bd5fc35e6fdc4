"""The HTML of what was read: the answer, what was set, the text with its pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from planner.app.widgets.callbacks import alert_html
from planner.errors import PlannerError
from planner.show.account import account_html, not_understood, summary_of
from planner.show.html import Content, Html, fragment, tag
from planner.show.pieces import to_copy, to_open

if TYPE_CHECKING:
    from planner.app.widgets.pasted import ReadText
    from planner.reading import Reading
    from planner.reading.logs.explaining import Explanation
    from planner.reading.logs.fixing import Fix
    from planner.reading.passage import Edit

_MOST_FIXES = 3
"""Changes that are shown at first."""
_MOST_NAMES = 80
"""Items that a list shows; a text can hold any number."""
_LONGEST_ITEM = 600
_KINDS = {
    "container": "container command",
    "error": "error message",
    "log": "log of vLLM",
}
"""Words for a kind of text, where they are not its own."""


def button(
    press: str, shown: str, *, label: str | None = None, is_pressed: bool | None = None
) -> Html:
    """Write a button that tells the kernel `press`; `label` is its spoken name."""
    state = None if is_pressed is None else str(is_pressed).lower()
    return tag(
        "button",
        shown,
        type="button",
        class_="pl-action",
        data_press=press,
        data_key=press,
        aria_label=label,
        aria_pressed=state,
    )


def buttons(*made: Html) -> Html:
    """Write buttons in a row."""
    return tag("div", made, class_="pl-read-buttons")


def taken_for(reading: Reading) -> str:
    """Say in a line what a text was taken for."""
    kind = _KINDS.get(reading.kind, str(reading.kind))
    article = "An" if kind[0] in "aeio" else "A"
    named = f" for {reading.model}" if reading.model else ""
    return ", ".join([f"{article} {kind}{named}", *_facts(reading)]) + "."


def _facts(reading: Reading) -> Iterator[str]:
    if reading.vllm_version:
        yield f"vLLM {reading.vllm_version}"
    gpu = getattr(reading.gpu, "name", reading.gpu)
    if reading.gpus:
        yield f"{reading.gpus} {gpu or 'GPU'}{'s' * (reading.gpus > 1 and not gpu)}"
    elif gpu:
        yield f"on {gpu}"


def set_by(reading: Reading) -> set[str]:
    """Return the names of the controls that a text sets."""
    start = {
        "model": reading.model,
        "gpu": reading.gpu,
        "vllm_version": reading.vllm_version,
        "entrypoint": reading.start,
    }
    return {
        *reading.engine_args,
        *(name for name, value in start.items() if value is not None),
        *(reading.load.to_dict() if reading.load is not None else ()),
    }


def reading_html(
    reading: Reading,
    controls: Sequence[str],
    inside: Content,
    release: str = "",
    *,
    is_answered: bool = False,
) -> Html:
    """Write what was done with each part of a text; `inside` comes before.

    `release` says what another release would answer, where the text names none.
    Where the text is answered and all of it was understood, only what was assumed
    stands there, and the rest is folded.
    """
    unknown = [note for note in reading.notes if _is_unknown(reading, note)]
    others = not_understood(
        [one for one in reading.account if one.text not in reading.unknown]
    )
    rows = [
        ("Set", _names(controls, "marked “pasted” in the controls")),
        ("Kept", _names(_flags(reading.kept), "server flags: no effect on memory")),
        (
            reading.noted_as,
            _list(note for note in reading.notes if note not in unknown),
        ),
        ("Open", _list(filter(None, [*reading.open, release]))),
        ("Not understood", _list([*unknown, *others])),
    ]
    account = account_html(reading)
    if not is_answered or unknown or others:
        return fragment(inside, _told(rows), account)
    said = f"How it was read: {summary_of(reading.account)}"
    folded = to_open(said, fragment(_told(rows[:2]), account), "pl-how", key="how")
    return fragment(inside, _told(rows[2:]), folded)


def _told(rows: Iterable[tuple[str, Content]]) -> Html | None:
    """Write the rows that say anything; None without one."""
    lines = [(tag("dt", name), tag("dd", what)) for name, what in rows if what]
    return tag("dl", lines, class_="pl-read") if lines else None


def answered_html(lines: Sequence[str]) -> Html | None:
    """Write the answer to a question, its first line large; None without one."""
    if not lines:
        return None
    first, *others = lines
    rest = [tag("p", line) for line in others]
    return tag("div", tag("p", first, class_="pl-first"), rest, class_="pl-answered")


def explained_html(explanation: Explanation) -> Html:
    """Write why a start failed, or how it compares, with buttons that apply changes."""
    from planner.show.explanation import explanation_sheet  # noqa: PLC0415 - once it is open

    written = explanation_sheet(explanation, _fixes_html(explanation)).to_html()
    heading = tag("h2", "What the text tells")
    return tag("div", heading, written, class_="pl-explained")


def _fixes_html(explanation: Explanation) -> Html:
    """List what helps; few at first, so that what follows stays in sight."""
    fixes = [_fix_html(number, fix) for number, fix in enumerate(explanation.fixes)]
    if not fixes:
        return Html("")
    first, more = fixes[:_MOST_FIXES], fixes[_MOST_FIXES:]
    others = tag("ol", more, class_="pl-fixes", start=str(len(first) + 1))
    return fragment(
        tag("h3", "What would help, the cheapest first"),
        tag("ol", first, class_="pl-fixes"),
        to_open(f"The other {len(more)}", others, key="fixes") if more else None,
    )


def _fix_html(number: int, fix: Fix) -> Html:
    code = tag("code", fix.text)
    text = to_copy(code, label=f"Your text: {fix.title}", copied="text")
    return tag(
        "li",
        tag("p", fix.title, class_="pl-row-title"),
        tag("p", fix.result),
        tag("p", fix.cost, class_="pl-row-detail"),
        buttons(button(f"apply {number}", "Apply", label=f"Apply: {fix.title}")),
        tag("p", fix.by_hand) if fix.by_hand else None,
        to_open(fix.heading, text, key=f"text {number}") if fix.text else None,
    )


def _is_unknown(reading: Reading, note: str) -> bool:
    return note.startswith(tuple(f"{name} " for name in reading.unknown))


def _flags(names: Iterable[str]) -> list[str]:
    return [f"--{name.replace('_', '-')}" for name in names]


def _names(names: Sequence[str], remark: str) -> Content:
    """Write names in a line; empty without any."""
    if not names:
        return None
    shown = [tag("code", _short(name)) for name in names[:_MOST_NAMES]]
    parts: list[Content] = [part for one in shown for part in (", ", one)]
    rest = len(names) - len(shown)
    return [parts[1:], f" and {rest} more" if rest else None, f" ({remark})"]


def _list(sentences: Iterable[str]) -> Content:
    given = list(sentences)
    if not given:
        return None
    items = [tag("li", _short(one)) for one in given[:_MOST_NAMES]]
    rest = len(given) - len(items)
    return tag("ul", items, tag("li", f"{rest} more") if rest else None)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_ITEM else f"{text[:_LONGEST_ITEM]} …"


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return what differs; None for what is no longer asked for.

    >>> changes({"gpu": "L4", "seed": 1}, {"gpu": "L4", "max_num_seqs": 8})
    {'seed': None, 'max_num_seqs': 8}
    """
    names = dict.fromkeys([*before, *now])
    different = {n: now.get(n) for n in names if before.get(n) != now.get(n)}
    if "env" in different:
        different["env"] = changes(before.get("env") or {}, now.get("env") or {})
    return different


def own_text_html(reading: Reading, changed: Mapping[str, Any]) -> Html:
    """Write the user's own text with changes in their places, to be copied."""
    edits, remarks = _placed(reading, changed)
    names = ", ".join(changed)
    since = f"Changed since it was pasted: {names}." if changed else "Nothing changed."
    code = tag("code", _marked(reading.given, edits))
    return tag(
        "div",
        tag("p", since),
        to_copy(code, label="Your text with the changes", copied="text"),
        _list(remarks),
        class_="pl-export pl-own-text",
    )


def _placed(
    reading: Reading, changed: Mapping[str, Any]
) -> tuple[list[Edit], list[str]]:
    """Return the edits of all changes that have a place, and why others have none."""
    try:  # at once, as a rule; one by one only to say which have no place
        return reading.edits(**changed), []
    except PlannerError:
        placed: dict[str, Any] = {}
    remarks: list[str] = []
    for name, value in changed.items():
        try:
            reading.edits(**placed, **{name: value})
        except PlannerError as error:
            remarks.append(str(error))
        else:
            placed[name] = value
    return reading.edits(**placed), remarks


def _marked(text: str, edits: Sequence[Edit]) -> list[Content]:
    """Mark what edits write; what stood there is drawn beside it, not part of it."""
    parts: list[Content] = []
    done = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        was = text[max(edit.start, done) : edit.end]
        parts.append(text[done : max(edit.start, done)])
        if was != edit.text:
            parts.append(tag("ins", edit.text, data_was=was or None))
        else:
            parts.append(was)
        done = max(edit.end, done)
    return [*parts, text[done:]]


def read_text_html(
    found: ReadText, start: int, controls: Sequence[str], wrong: str
) -> Html:
    """Write all of what was read.

    Args:
        found: what the thread read.
        start: which of its starts is shown.
        controls: names of those that the text set.
        wrong: the error of a control, for want of which there is no plan.
    """
    starts = [
        button(f"start {number}", label, is_pressed=number == start)
        for number, label in enumerate(found.starts, 1)
    ]
    first: list[Content] = [
        buttons(*starts) if starts else None,
        answered_html(found.answer),
        alert_html(f"There is no plan yet. {wrong}") if wrong else None,
        alert_html(found.refusal) if found.refusal else None,
        explained_html(found.explanation) if found.explanation else None,
    ]
    written = reading_html(
        *(found.reading, controls, first, found.other_release),
        is_answered=bool(found.answer),
    )
    return fragment(written, buttons(button("undo", "Undo")))
