"""The words of the glossary: each can be linked to, and a search finds it first."""

from __future__ import annotations

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

GLOSSARY = "glossary"


class Words(SphinxTransform):
    """Give each item of the glossary a name and a place in Sphinx's index."""

    # Before Sphinx reads the index of a page, at 850.
    default_priority = 800

    def apply(self) -> None:
        """Name the items of the one page."""
        if self.env.current_document.docname != GLOSSARY:
            return
        for item in list(self.document.findall(nodes.list_item)):
            said = next(child for child in item[0] if child.astext())
            if isinstance(said, nodes.strong | nodes.literal):
                word = said.astext()
                name = nodes.make_id(f"word-{word}")
                item["ids"].append(name)
                entry = ("single", word, name, "main", None)
                item.insert(0, addnodes.index(entries=[entry]))


def setup(app: Sphinx) -> dict[str, bool]:
    """Give Sphinx the step."""
    app.add_transform(Words)
    return {"parallel_read_safe": True}
