"""Templates in manifests: filled from values of the same text, else open pieces.

Source: Helm 3 and Go text/template (`.Values`, `default`), Jinja 3.1 and Ansible 2.19
(`vars`), GitHub Actions (`env`, `inputs`), Task 3 (`vars`), llama-swap (`macros`), Argo
Workflows and OpenShift (`parameters`), Terraform 1.13 (`variable`, `locals`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from planner.reading.documents.nodes import Node
from planner.reading.passage import Composer, Passage
from planner.reading.sites import Site, Start
from planner.values import frozen

_PRIVATE = 0xE000
"""Templates are read as characters of Unicode's private use, each in its place."""
HIDDEN = re.compile(f"[{chr(_PRIVATE)}-{chr(_PRIVATE + 0x7F)}]+")
_TEMPLATE = re.compile(r"\$?\{\{[^\n{}]*\}\}|(?<![\w$%{}])\{[A-Za-z_]\w*\}(?!\})")
_TEMPLATE_LINE = re.compile(
    r"^[ \t]*(?:(?:\{\{[^\n{}]*\}\}[ \t]*)+"
    r"|-[ \t]+[\"']?\{\{-?[ \t]*(?:\.|\$\w+|include|toYaml)[ \t|][^\n{}]*\}\}"
    r"[\"']?[ \t]*)"
    r"(?=\r?$)",
    re.MULTILINE,
)
"""A line of the template alone, or an item that a loop or a helper writes."""
_CONTROL_LINE = re.compile(r"^[ \t]*\{%[^\n]*%\}[ \t]*(?=\r?$)", re.MULTILINE)
_OF_HCL = re.compile(r"\$\{[^{}\n]*\}|(?<![\w.\"$/-])(?:var|local)\.\w+")
_PIECE = re.compile(
    r"\$?\{\{(?P<words>[^\n{}]*)\}\}|\$\{(?P<macro>[A-Za-z][\w.-]*)\}"
    r"|(?<![\w$}])\{(?P<name>[A-Za-z_]\w*)\}"
    r"|(?<![\w.\"$/-])(?P<bare>(?:var|local)\.\w+)"
)
_ENV_LINE = re.compile(
    r"^(?:export )?(?P<name>[A-Z_][A-Z0-9_]*)=(?P<value>[^\n]*)$", re.MULTILINE
)
_FILTERS = re.compile(r"\s*(?<!\|)\|(?!\|)\s*|\s*\|\|(?=\s)")
_DEFAULT = re.compile(
    r"(?:default[ (]|(?=[ ]))\s*(?P<value>[^()\"']+|\"[^\"]*\"|'[^']*')\s*\)?\Z"
)
_IDLE = ("quote", "squote", "int", "string", "toString", "trim", "int64")
"""Filters that leave a value as it is read."""
_TABLES: Mapping[str, str] = {
    **dict.fromkeys(("vars", "env", "variables", "environment", "envs", "inputs"), ""),
    "variable": "var.",
    "locals": "local.",
    "macros": "${",
    "defaults": "{",
    "parameters": "",
}
"""Tables of variables, with what stands before a name where one is asked for."""
_DEEPEST, _ROUNDS, _LONGEST = 12, 3, 4096


@frozen
class Scope:
    """The values of a text that its templates may name."""

    names: Mapping[str, str] = field(default_factory=dict)
    """Of tables of variables, by name and what stands before it where it is asked for;
    one that has several values is not here."""
    values: Sequence[Node] = ()
    """Documents of values, whose paths `.Values.a.b` names."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Lines of NAME=value beside the documents, such as of an .env file."""

    def words(self, text: str) -> str | None:
        """Return what {{ text }} stands for; None where the text does not tell."""
        first, *filters = _FILTERS.split(text.strip("- \t"))
        found = self.named(first.strip())
        for one in filters:
            default = _DEFAULT.match(one)
            if default is not None:
                found = default["value"].strip(" \"'") if found is None else found
            elif one.strip() not in _IDLE:
                return None
        return found

    def named(self, name: str) -> str | None:
        """Return the value of a name or a path."""
        if name[:1] in ("'", '"') and name.count(name[0]) == len(name[:1]) + 1:
            return name.strip("'\"")
        if name.startswith(".Values."):
            path = name.split(".")[2:]
            found = [root.word(*path) for root in self.values]
            return next((readable(one) for one in found if one), None)
        own = name.removeprefix(".").rpartition(".")[2]
        return self.names.get(name, self.names.get(own))


def scope_of(roots: Sequence[Node]) -> Scope:
    """Return the values that the documents of a text set."""
    plain = [root for root in roots if _is_values(root)] if len(roots) > 1 else []
    found: dict[str, set[str]] = {}
    for name, text in (
        *(pair for root in roots for pair in _variables(root, 0)),
        *(
            (n.text, v.text)
            for root in plain
            for n, v in root.pairs
            if not v.is_nothing
        ),
    ):
        found.setdefault(name, set()).add(text)
    values = [root for root in roots if root.get("apiVersion") is None]
    return Scope(names=_unlike(found), values=values)


def _unlike(found: Mapping[str, set[str]]) -> dict[str, str]:
    """Return the names with one value, by their defaults where they name themselves."""
    names = {
        name: readable(next(iter(texts)))
        for name, texts in found.items()
        if len(texts) == 1
    }
    for name, text in names.items():
        match = _TEMPLATE.fullmatch(text.strip())
        own = re.escape(name.lstrip("${"))
        if match is not None and re.search(rf"\b{own}\b", text):
            names[name] = Scope().words(text.strip().strip("${}")) or text
    return names


def _is_values(root: Node) -> bool:
    return bool(root.pairs) and all(value.kind == "scalar" for _, value in root.pairs)


def _variables(node: Node, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the entries of tables of variables, wherever they stand."""
    if depth > _DEEPEST:
        return
    for key, value in node.pairs:
        if key.text in _TABLES:
            for name, text in _entries(key.text, value):
                yield _TABLES[key.text] + name, text
                if key.text == "parameters" and not depth:
                    yield "${" + name, text
        if value.kind != "scalar":
            yield from _variables(value, depth + 1)
    for item in node.items:
        yield from _variables(item, depth + 1)


def _entries(key: str, table: Node) -> Iterator[tuple[str, str]]:
    """Yield the variables of a table: their values, or the defaults of them."""
    pairs = [(name.text, node) for name, node in table.pairs]
    if key == "parameters":
        pairs = [(item.word("name"), item) for item in table.items]
    for name, node in pairs:
        text = node.word("value") or node.word("default")
        if node.kind == "scalar" and not node.is_nothing:
            text = node.text
        elif node.kind == "sequence" and key == "locals":
            text = node.page.text[node.start : node.end]
        if name and text:
            yield name, text


def filled(page: Passage, scope: Scope, *, is_hcl: bool = False) -> Passage:
    """Return a page with the values in the place of its templates."""
    for _ in range(_ROUNDS):
        after = _filled(page, scope, is_hcl=is_hcl)
        if after is page:
            break
        page = after
    return page


def _filled(page: Passage, scope: Scope, *, is_hcl: bool) -> Passage:
    made, at = Composer(page), 0
    for match in _PIECE.finditer(page.text):
        value = _value(match, scope, is_hcl=is_hcl)
        if value is None or len(value) > _LONGEST:
            continue
        value = " ".join(value.replace("\\\n", " ").split())
        page.expansion.add(len(value))
        made.keep(at, match.start())
        made.add(value, match.start())
        at = match.end()
    if not at:
        return page
    made.keep(at, len(page.text))
    return made.passage(len(page.text))


def _value(match: re.Match[str], scope: Scope, *, is_hcl: bool) -> str | None:
    """Return what one template stands for; None where the text does not tell."""
    if is_hcl:
        name = match["macro"] or match["bare"]
        value = scope.names.get(name or "")
        is_text = match["bare"] is not None and value is not None and value[:1] != "["
        return f'"{value}"' if is_text else value
    if match["words"] is not None:
        return scope.words(match["words"])
    macro = match["macro"]
    return scope.names.get("${" + macro if macro else "{" + (match["name"] or ""))


def hidden(page: Passage, *, is_hcl: bool = False) -> Passage:
    """Return a page whose templates are no signs of its language."""
    if is_hcl:
        return replace(page, text=_OF_HCL.sub(_hide, page.text))
    text = _TEMPLATE_LINE.sub(_blanked, page.text)
    return replace(page, text=_TEMPLATE.sub(_hide, text))


def beside(page: Passage) -> tuple[Passage, dict[str, str]]:
    """Return a page without lines of NAME=value, and what these set."""
    found = {
        m["name"]: m["value"].strip("\"' \r") for m in _ENV_LINE.finditer(page.text)
    }
    if not found or len(page.text.splitlines()) <= len(found):
        return page, {}
    return replace(page, text=_ENV_LINE.sub(_blanked, page.text)), found


def without_control(page: Passage) -> Passage:
    """Return a page without the lines of Jinja's statements."""
    return replace(page, text=_CONTROL_LINE.sub(_blanked, page.text))


def _blanked(match: re.Match[str]) -> str:
    return " " * len(match[0])


def hide(text: str) -> str:
    """Return a text as characters that are no signs of any language."""
    return "".join(
        one if HIDDEN.match(one) else chr(_PRIVATE + (ord(one) if one < "\x7f" else 0))
        for one in text
    )


def _hide(match: re.Match[str]) -> str:
    return hide(match[0])


def readable(text: str) -> str:
    """Return a text whose hidden templates are readable again."""
    return HIDDEN.sub(
        lambda match: "".join(chr(ord(one) - _PRIVATE) for one in match[0]), text
    )


def shown(start: Start, text: str) -> Start:
    """Return a start whose templates are open, and readable again."""
    line = _TEMPLATE_LINE.search(text)
    said = "A line of the template is left aside: "
    left = [] if line is None else [f"{said}{line[0].strip()[:80]}"]
    return replace(
        start,
        sites=tuple(map(_opened, start.sites)),
        env={name: _opened(site) for name, site in start.env.items()},
        version=None if start.version is None else _opened(start.version),
        shown=readable(start.shown),
        notes=tuple(map(readable, start.notes)),
        open=(*map(readable, start.open), *left),
    )


def _opened(site: Site) -> Site:
    found = HIDDEN.findall(str(site.value)) + HIDDEN.findall("".join(site.variables))
    if not found and not HIDDEN.search(site.written):
        return site
    return replace(
        site,
        value=None if found else site.value,
        variables=tuple(map(readable, site.variables or found)),
        written=readable(site.written),
    )
