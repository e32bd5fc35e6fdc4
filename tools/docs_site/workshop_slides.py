"""The workshop's slides and handout in the site, built as `make slides` builds them."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

from tools import slides


def _on_finished(app: Sphinx, error: Exception | None) -> None:
    if error is None:
        folder = Path(app.outdir) / "workshop"
        for source in (slides.SOURCE, slides.HANDOUT):
            page = (folder / source.name).with_suffix(".html")
            page.write_text(slides.build(source), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx when to build them."""
    app.connect("build-finished", _on_finished)
    return {"parallel_read_safe": True}
