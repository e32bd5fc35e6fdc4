"""The workshop's slides in the site, built as `make slides` builds them."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

from tools import slides


def _on_finished(app: Sphinx, error: Exception | None) -> None:
    if error is None:
        page = Path(app.outdir) / "workshop" / "slides.html"
        page.write_text(slides.build(), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx when to build them."""
    app.connect("build-finished", _on_finished)
    return {"parallel_read_safe": True}
