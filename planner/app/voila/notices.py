"""Pages shown instead of the app, by the app itself or by nginx in front of it."""

from __future__ import annotations

from pathlib import Path
from string import Template

from planner.show.html import fragment, tag
from planner.values import frozen

RETRY_SECONDS = 20
"""When such a page reloads."""


@frozen
class Notice:
    """The text of one of these pages."""

    title: str
    heading: str
    text: str
    retries: bool = True
    """Whether it loads again by itself."""


FULL = Notice(
    title="full at the moment",
    heading="Every place is taken at the moment",
    text="The planner runs a small process for each open page, and the maximum number "
    "is open. A place becomes free as soon as a visitor closes a page.",
)
CROWDED = Notice(
    title="no more pages for your network",
    heading="Your network has all of its places",
    text="One network may open only a part of the pages, so that there is room for "
    "others. A place becomes free as soon as one of them is closed.",
)
REFUSED = Notice(
    title="open it with its start address",
    heading="This planner belongs to whoever started it",
    text="Open the address with the token that it printed when it was started, or "
    "that is in the file which it named. If this browser did so before, and you "
    "followed a link on another site, open this address again.",
    retries=False,
)
BY_NGINX = {
    "planner-down.html": Notice(
        title="away for a moment",
        heading="The planner is away for a moment",
        text="It is being updated, or restarts. This takes a minute at most.",
    ),
    "planner-busy.html": Notice(
        title="too many requests",
        heading="Too many requests from your network",
        text="Your network opened more pages in a short time than one network may, so "
        "that there is room for others.",
    ),
}
"""Pages that nginx shows by itself, by their file names in `deploy/pages/`."""


def notice_html(notice: Notice) -> str:
    """Return the page, which loads no other file and reloads itself."""
    page = Template(Path(__file__).with_name("notice.html").read_text(encoding="utf-8"))
    again = tag("meta", http_equiv="refresh", content=str(RETRY_SECONDS))
    when = (
        fragment(
            f"This page retries every {RETRY_SECONDS} seconds; ",
            tag("a", "retry now", href=""),
            ".",
        )
        if notice.retries
        else fragment(tag("a", "Open this address again", href=""), ".")
    )
    return page.substitute(
        title=fragment(notice.title),
        heading=fragment(notice.heading),
        text=fragment(notice.text),
        refresh=f"{again}\n" if notice.retries else "",
        when=when,
    )
