"""Sphinx's settings for the documentation site: `make docs` builds it, offline.

The pages are the Markdown files of this folder, which are read as they are too.
`tools/docs_site/` does what Sphinx does not: links that leave the site, the command
line's reference, sources in docstrings, slides.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ipython_pygments_lexers import IPython3Lexer
from sphinx.application import Sphinx

import planner

ROOT = Path(__file__).resolve().parents[1]

project = "vLLM memory planner"
author = "the authors of the vLLM memory planner"
copyright = "the authors; Apache-2.0"  # noqa: A001 - Sphinx's name for it
release = planner.__version__
version = release

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "tools.docs_site.changes",
    "tools.docs_site.command_line",
    "tools.docs_site.docstrings",
    "tools.docs_site.engine_arguments",
    "tools.docs_site.lesson_pieces",
    "tools.docs_site.lessons",
    "tools.docs_site.links",
    "tools.docs_site.mending",
    "tools.docs_site.names",
    "tools.docs_site.words",
    "tools.docs_site.workshop_slides",
]
# Programs, not pages: Sphinx would look for sources in them.
exclude_patterns = ["workshop/slides.md", "workshop/handout.md", "_static"]
nitpicky = True
nitpick_ignore_regex = [
    # Code in a docstring that names nothing of the reference.
    ("py:obj", ".*"),
    # Of Python and of others: their documentation is not at hand offline.
    ("py:.*", r"(collections|datetime|os|pathlib|t)\..*|DataFrame|Figure"),
    # What values hold for the planner's own use.
    ("py:.*", r"(planner\.)?(confirming|learn|memory|models)\..*"),
    ("py:.*", "EngineSettings|LayerKind|ModelFiles|Module|ProfileRun|Reconciliation"),
    ("py:.*", "QuantizationLimits|RopeParameters|Speculation|Start|Tower|Counted"),
]

# As on GitHub: every heading can be linked to, by GitHub's name for it.
myst_heading_anchors = 6
# What is no page is plain text; a language that Pygments does not know is a mistake.
highlight_language = "none"

# A docstring's backticks are code, as in Markdown, and a link where they name what
# stands in the reference.
default_role = "py:obj"
toc_object_entries_show_parents = "hide"
python_use_unqualified_type_names = True
# Longer ones have a parameter a line.
python_maximum_signature_line_length = 72
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": True}


def setup(app: Sphinx) -> None:
    """Colour Python as notebooks have it: `%plan` is no mistake."""
    app.add_lexer("python", IPython3Lexer)


html_theme = "pydata_sphinx_theme"
html_title = "vLLM memory planner"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(ROOT / "tools" / "docs_site" / "scorer.js")
# A copy of each source would be a second site, unread.
html_copy_source = False
html_show_sourcelink = False
# Nothing leads to either; the search and the reference do what they did.
html_use_index = False
html_domain_indices = False
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "primary_sidebar_end": [],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
# No section, no list of its pages.
html_sidebars = {"index": [], "tutorial": []}
