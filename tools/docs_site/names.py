"""The names of the package's door, each with the first sentence of its docstring."""

from __future__ import annotations

from inspect import getdoc

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import planner


def first_sentence(name: str) -> str:
    """Return what the docstring of a public name begins with."""
    said = (getdoc(getattr(planner, name)) or "").partition("\n\n")[0]
    return " ".join(said.split())


class PublicNames(SphinxDirective):
    """`{public-names}`: a table of `planner.__all__`, each name a link."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        rows = [
            f"| {{py:obj}}`planner.{name}` | {first_sentence(name)} |"
            for name in sorted(planner.__all__, key=str.lower)
        ]
        text = "\n".join(["| Name | Is |", "| --- | --- |", *rows])
        return self.parse_text_to_nodes(text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Give Sphinx the directive."""
    app.add_directive("public-names", PublicNames)
    return {"parallel_read_safe": True}
