"""The box that takes a text: what a page sends, and the HTML of what was read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import traitlets

from planner.app.widgets.page_widget import PageWidget
from planner.app.widgets.static_files import script, sheet
from planner.errors import PlannerError
from planner.models import catalogue
from planner.show.account import account_html, not_understood
from planner.show.html import Content, Html, fragment, tag
from planner.show.pieces import to_copy, to_open
from planner.surroundings import is_published
from planner.user_files import user_path

if TYPE_CHECKING:
    from planner.reading import Reading
    from planner.reading.logs.explaining import Explanation
    from planner.reading.logs.fixing import Fix
    from planner.reading.passage import Edit

LABEL = "Paste a model, a command, a manifest, a log or an error, or ask"
HINT = "vllm serve …, docker run …, YAML, Python, a log, owner/model"
LONGEST, LONGEST_PUBLISHED = 5_000_000, 200_000
"""Characters of a text, here and where strangers paste."""
_LONGEST_PRESS = 40
_HUB = ("https://huggingface.co/", "https://hf.co/")
_LONGEST_NAME = 200
_ADDRESS = re.compile(r"(?:\w+://\S+|[\w.-]+:\d+(?:/\S*)?)\Z")
_NAME = re.compile(r"(?:[\w.-]+/)?[\w.-]+(?:@[\w./-]+)?\Z")
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


class PasteBox(PageWidget):
    """A box for a text, and a line that says what it was taken for.

    `given` is called with a text and whether the reader is done with it. A text is
    never logged, nor kept as a trait.
    """

    _esm = script("paste.js")
    _css = sheet("paste.css")
    called = "box"

    label = traitlets.Unicode(LABEL).tag(sync=True)
    hint = traitlets.Unicode(HINT).tag(sync=True)
    most = traitlets.Int().tag(sync=True)
    """Characters that are read; the page sends one more of a longer text."""
    said = traitlets.Unicode().tag(sync=True)
    """What the text was taken for, as HTML; spoken when it changes."""
    is_busy = traitlets.Bool(False).tag(sync=True)

    def __init__(self, given: Callable[[str, bool], None]) -> None:
        super().__init__(most=LONGEST_PUBLISHED if is_published() else LONGEST)
        self._given = given
        self._pieces: list[str] = []

    def _readable(self, content: object) -> object:
        """Return it as it is: a character may be cut in two."""
        return content

    def hear(self, message: Any) -> bool:  # noqa: ANN401 - what a page sent
        """Gather the pieces of a text, and pass it on when it is whole."""
        match message:
            case {
                "piece": str(piece),
                "is_first": bool(is_first),
                "is_last": bool(is_last),
                "is_whole": bool(is_whole),
            }:
                self._add(piece, is_first=is_first)
                if is_last:
                    text, self._pieces = _joined(self._pieces), []
                    self._given(text, is_whole)
                return True
        return False

    def _add(self, piece: str, *, is_first: bool) -> None:
        if is_first:
            self._pieces = []
        if piece and sum(map(len, self._pieces)) <= self.most:
            self._pieces.append(piece)


class ReadingView(PageWidget):
    """What was read, as HTML; `pressed` is called with the name of a button."""

    _esm = script("read.js")
    called = "text that was read"

    html = traitlets.Unicode().tag(sync=True)
    """Empty: nothing is shown."""

    def __init__(self, pressed: Callable[[str], None]) -> None:
        super().__init__()
        self._pressed = pressed

    def hear(self, message: Any) -> bool:  # noqa: ANN401 - what a page sent
        """Pass on a press."""
        match message:
            case {"press": str(name)} if len(name) <= _LONGEST_PRESS:
                self._pressed(name)
                return True
        return False


def _joined(pieces: list[str]) -> str:
    """Join pieces; a character that was cut in two is one again."""
    text = "".join(pieces)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def model_named(text: str) -> str:
    """Return the model that a text names; empty where it is no name."""
    if len(text) > _LONGEST_NAME or len(text.splitlines()) > 1:
        return ""
    if text.startswith(_HUB):
        return text
    if not is_published() and _is_there(text, folder=True):
        return text
    if not _NAME.match(text) or (not is_published() and _is_there(text)):
        return ""
    return text if "/" in text else searched(text) or text


def _is_there(text: str, *, folder: bool = False) -> bool:
    try:
        path = user_path(text)
        return path.is_dir() if folder else path.is_file()
    except (OSError, ValueError, RuntimeError):
        return False


def searched(text: str) -> str:
    """Return the best match of a few words among the bundled models; empty: none."""
    if not text or len(text) > _LONGEST_NAME or len(text.splitlines()) > 1:
        return ""
    found = catalogue.search(text, limit=1)
    return found[0].name if found else ""


def is_address(text: str) -> bool:
    """Return whether a text is the address of a server, not of a model's page."""
    return bool(_ADDRESS.match(text)) and not text.startswith(_HUB)


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
    reading: Reading, controls: Sequence[str], inside: Content, release: str = ""
) -> Html:
    """Write what was done with each part of a text; `inside` comes before.

    `release` says what another release would answer, where the text names none.
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
    lines = [(tag("dt", name), tag("dd", what)) for name, what in rows if what]
    return fragment(
        inside,
        tag("dl", lines, class_="pl-read") if lines else None,
        account_html(reading),
    )


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
