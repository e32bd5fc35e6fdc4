"""The list of what each release of vLLM changed, from the planner's `Change`s."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from planner.engine.releases.change import Change
from tools.changes import by_release


class ReleaseChanges(SphinxDirective):
    """`{release-changes}`: a section for each release, an item for each change."""

    def run(self) -> list[nodes.Node]:
        """Return the sections; a release that changed nothing has none."""
        return [
            self._section(release, began, ended)
            for release, began, ended in by_release()
            if began or ended
        ]

    def _section(
        self, release: str, began: list[Change], ended: list[Change]
    ) -> nodes.section:
        title = f"vLLM {release}"
        section = nodes.section("", nodes.title("", title), names=[title])
        self.state.document.note_implicit_target(section)
        items = [*_items("", began), *_items("No longer: ", ended)]
        section += nodes.bullet_list("", *items)
        return section


def _items(opening: str, found: list[Change]) -> list[nodes.list_item]:
    return [
        nodes.list_item("", *_paragraphs(opening + one.what, one.source))
        for one in found
    ]


def _paragraphs(what: str, source: str) -> list[nodes.Node]:
    said: list[nodes.Node] = [nodes.paragraph("", what)]
    if source:
        plain = source.replace("`", "")  # the page has no code in slanted words
        said.append(nodes.paragraph("", "", nodes.emphasis("", f"Source: {plain}")))
    return said


def setup(app: Sphinx) -> dict[str, bool]:
    """Give Sphinx the directive."""
    app.add_directive("release-changes", ReleaseChanges)
    return {"parallel_read_safe": True}
