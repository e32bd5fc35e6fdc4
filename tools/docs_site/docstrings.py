"""Docstrings as reStructuredText, for the reference that Sphinx generates.

Napoleon, which comes with Sphinx, reads Google's sections; it takes the words before a
colon for a type where a field is described, so it is asked here and not by itself.
`Source:` becomes a field, as "Returns" and "Raises" are.
"""

from __future__ import annotations

import re
from dataclasses import is_dataclass
from inspect import Parameter, signature
from pkgutil import resolve_name

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.napoleon import Config
from sphinx.ext.napoleon.docstring import GoogleDocstring
from sphinx.util.nodes import make_refnode

from planner.show.glossary import explained

_FOR_READERS_OF_SOURCE = "Read in this order:"
_CODE = re.compile(r"(`[^`\n]+`)(\w?)")
"""With what follows it at once: "`GPU`s", which reStructuredText wants apart."""
_NAPOLEON = Config(napoleon_numpy_docstring=False, napoleon_use_rtype=False)


def as_rest(docstring: str) -> list[str]:
    """Return the lines of a docstring, its sections as fields."""
    paragraphs = re.split(r"\n\s*\n", docstring.strip())
    kept = [one for one in paragraphs if not one.startswith(_FOR_READERS_OF_SOURCE)]
    text = "\n\n".join(_source(paragraph) for paragraph in kept)
    text = _CODE.sub(lambda found: "\\ ".join(filter(None, found.groups())), text)
    # Napoleon's settings alone are enough for it, whatever its types say.
    read = GoogleDocstring(text, _NAPOLEON, what="function")  # type: ignore[arg-type]
    return [*str(read).splitlines(), ""]


def _source(paragraph: str) -> str:
    """Return a paragraph that names sources as a field, any other as it is."""
    if not paragraph.startswith("Source:"):
        return paragraph
    said = " ".join(paragraph.removeprefix("Source:").split())
    return f":Source: {said}"


def _on_docstring(
    _app: Sphinx,
    what: str,
    name: str,
    _value: object,
    _options: object,
    lines: list[str],
) -> None:
    said = "\n".join(lines).strip() or _explained(name)
    lines[:] = as_rest(said)
    default = _default(name) if what == "attribute" else ""
    if default:
        lines += ["", default, ""]


def _on_signature(
    _app: Sphinx,
    _what: str,
    _name: str,
    value: object,
    _options: object,
    _arguments: str | None,
    _returned: str | None,
) -> tuple[str, None] | None:
    """Leave out a value's fields, all keyword-only: they follow, one by one."""
    if not (isinstance(value, type) and is_dataclass(value)):
        return None
    return "", None


def _explained(name: str) -> str:
    """Return what the glossary says of an argument as vLLM resolves it, or nothing."""
    owner, _, argument = name.rpartition(".")
    return explained(argument) if owner.endswith(".ResolvedSettings") else ""


def _default(name: str) -> str:
    """Return a sentence on what a value's field is where nothing is given, or none."""
    owner, _, field_name = name.rpartition(".")
    value = resolve_name(owner)
    if not (isinstance(value, type) and is_dataclass(value)):
        return ""
    parameter = signature(value).parameters.get(field_name)
    if parameter is None or parameter.default is Parameter.empty:
        return ""
    default = repr(parameter.default)
    if default.startswith("<"):  # made anew for each value
        return ""
    return f"*Default:* ``{default}``"


def _on_missing_reference(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: nodes.TextElement
) -> nodes.reference | None:
    """Find a type by its last name: annotations write it as their module imports it."""
    if node.get("refdomain") != "py":
        return None
    last = node["reftarget"].rpartition(".")[2]
    named = {
        entry.docname: (entry.node_id, name)
        for name, entry in env.domains.python_domain.objects.items()
        if name.rpartition(".")[2] == last and entry.objtype == "class"
    }
    if len(named) != 1:
        return None
    ((page, (anchor, name)),) = named.items()
    return make_refnode(app.builder, node["refdoc"], page, anchor, shown, name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx when to ask."""
    app.connect("autodoc-process-docstring", _on_docstring)
    app.connect("autodoc-process-signature", _on_signature)
    app.connect("missing-reference", _on_missing_reference)
    return {"parallel_read_safe": True}
