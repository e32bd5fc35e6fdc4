"""HTML written by one function, `tag()`, which escapes everything but HTML."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from html import escape
from typing import TypeAlias, final

_VOID = frozenset("area base br col embed hr img input link meta source wbr".split())
_ATTRIBUTE_NAME = re.compile(r"[a-z][a-z0-9-]*")
_MOST_STARTS = 512


@final
class Html(str):
    """Text that is HTML already: written by `tag()`, or by hand without any input.

    The result of a `+`, a `format` or an f-string is plain text again, so that nothing
    bypasses the escaping by being joined to HTML.

    >>> type(Html("<br>") + "<br>").__name__
    'str'
    """

    __slots__ = ()


Content: TypeAlias = "str | Iterable[Content] | None"
"""HTML, plain text, None, or any number of these in sequence."""


def tag(name: str, /, *content: Content, **attributes: str | bool | None) -> Html:
    """Write an element.

    Args:
        name: such as "p". A void element, such as "br", gets no end tag.
        content: `Html` is written unchanged, other text is escaped, None is left out,
            and the items of anything else are joined.
        attributes: their values are always escaped. `class_` and `for_` lose the
            trailing underscore, `data_key` becomes `data-key`. True writes only the
            name; False and None leave the attribute out.

    Raises:
        ValueError: for a name that no attribute can have.

    >>> tag("p", "1 < 2 ", tag("b", "& so on"), class_="a", data_key="it's", title=None)
    "<p class='a' data-key='it&#x27;s'>1 &lt; 2 <b>&amp; so on</b></p>"
    >>> tag("ul", (tag("li", item) for item in "ab"), hidden=True)
    '<ul hidden><li>a</li><li>b</li></ul>'
    >>> tag("meta", charset="utf-8")
    "<meta charset='utf-8'>"
    """
    start = _start(name, tuple(attributes.items())) if attributes else f"<{name}>"
    if name in _VOID:
        return Html(start)
    return _filled(start, content, f"</{name}>")


def element(name: str, /, **attributes: str | bool | None) -> Callable[..., Html]:
    """Return a function that writes elements of one kind: `tag()` with its attributes.

    It takes only the content, and half the time of `tag()`: for frequent elements.

    >>> number = element("td", class_="pl-number")
    >>> number("> 1"), number("2", " GiB")
    ("<td class='pl-number'>&gt; 1</td>", "<td class='pl-number'>2 GiB</td>")
    """
    start, end = _start(name, tuple(attributes.items())), f"</{name}>"

    def write(*content: Content) -> Html:
        return _filled(start, content, end)

    return write


def fragment(*content: Content) -> Html:
    """Write content without an element around it.

    >>> fragment(tag("b", "1"), " < ", ["2", None, "!"])
    '<b>1</b> &lt; 2!'
    """
    return _filled("", content, "")


def _filled(start: str, content: Iterable[Content], end: str) -> Html:
    written = start
    for part in content:
        if type(part) is Html:
            written += part
        elif isinstance(part, str):
            written += _escaped(part)
        elif part is not None:
            written += _filled("", part, "")
    return Html(written + end)


def _escaped(text: str) -> str:
    """Escape text; a check comes first, as most text has nothing to escape."""
    if "&" in text or "<" in text or ">" in text or '"' in text or "'" in text:
        return escape(text)
    return text


@lru_cache(_MOST_STARTS)
def _start(name: str, attributes: tuple[tuple[str, str | bool | None], ...]) -> str:
    """Write a start tag; cached, as the same few occur again and again."""
    written = f"<{name}"
    for given, value in attributes:
        attribute = given.rstrip("_").replace("_", "-")
        if not _ATTRIBUTE_NAME.fullmatch(attribute):
            raise ValueError(f"No attribute can be called {given!r}.")
        if value is True:
            written += f" {attribute}"
        elif isinstance(value, str):
            written += f" {attribute}='{escape(value)}'"
    return f"{written}>"
