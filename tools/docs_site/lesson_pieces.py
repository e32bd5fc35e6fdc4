"""The interactive pieces of lessons in a page: the code that makes one, and the piece.

    ```{piece}
    planner.learn.slide("Qwen/Qwen3-8B", "L4", vary="max_model_len")
    ```

A code host shows the code alone.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import planner
import planner.learn


class Piece(SphinxDirective):
    """Shows a call of planner.learn, and what it returns."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the code, and the HTML of its value."""
        code = "\n".join(self.content)
        value = eval(code, {"planner": planner})
        is_drawn = hasattr(value, "_repr_html_")
        page = (
            value._repr_html_() if is_drawn else value._repr_mimebundle_()["text/html"]
        )
        shown = nodes.literal_block(code, code, language="python")
        return [shown, nodes.raw("", page, format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Name the directive."""
    app.add_directive("piece", Piece)
    return {"parallel_read_safe": True}
