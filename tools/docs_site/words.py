"""The words of the glossary: each can be linked to, and a search finds it first."""

from __future__ import annotations

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

GLOSSARY = "glossary"


class Words(SphinxTransform):
    """Give each word of the glossary a name and a place in Sphinx's index.

    In an item of names alone each has a name; the index leads to the reference.
    """

    # Before Sphinx reads the index of a page, at 850.
    default_priority = 800

    def apply(self) -> None:
        """Name the items of the one page."""
        if self.env.current_document.docname != GLOSSARY:
            return
        for item in list(self.document.findall(nodes.list_item)):
            said = [child for child in item[0] if child.astext().strip(", ")]
            if all(isinstance(child, nodes.literal) for child in said):
                for child in said:
                    child["ids"].append(nodes.make_id(f"word-{child.astext()}"))
            elif isinstance(said[0], nodes.strong | nodes.literal):
                _name(item, said[0].astext())


def _name(item: nodes.list_item, word: str) -> None:
    name = nodes.make_id(f"word-{word}")
    item["ids"].append(name)
    item.insert(0, addnodes.index(entries=[("single", word, name, "main", None)]))


def setup(app: Sphinx) -> dict[str, bool]:
    """Give Sphinx the step."""
    app.add_transform(Words)
    return {"parallel_read_safe": True}
