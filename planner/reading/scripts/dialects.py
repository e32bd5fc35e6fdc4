r"""Texts in which another program fills in names before a shell reads the commands.

A row says how a language sets a name and how it uses one; what it stands for is put in
with the place where it is set.

Source: GNU Make 4.4 "How to Use Variables"; just 1.43 "Variables", "Recipe Parameters";
Windows 11 `cmd` (set, delayed expansion); PowerShell 7.5 about_Variables,
about_Splatting.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from planner.reading.passage import Composer, Passage, together
from planner.values import frozen

_TERM = r"(?:\"[^\"\n]*+\"|'[^'\n]*+'|\$(?:env:)?\w+|[\d.]+(?![\w.]))"
_NAMES = ("one", "two", "three")
_BETWEEN = " \t\r\n,()@+`"
_DEEPEST = 32


@frozen
class _Dialect:
    """How one language sets and uses names."""

    signs: re.Pattern[str]
    """What a text in it has."""
    sets: re.Pattern[str]
    """A name and its value; `how` is `?` or `+`, `env` where programs see it."""
    uses: re.Pattern[str]
    blanks: re.Pattern[str]
    """What no shell reads: comments, marks before a command."""
    is_declared: bool = False
    """Whether a value counts wherever it is set, as in a file of rules."""
    terms: re.Pattern[str] | None = None
    """Parts of a value that is an expression; else it is what is written."""
    keeps_lines: bool = False
    """Whether the shell reads the lines that set names as well."""
    has_recipes: bool = False
    """Whether a line before commands names what they are given."""
    default: re.Pattern[str] = re.compile(r"(?!)")
    """A name that is set outside, or else has this value."""


_DIALECTS = (
    _Dialect(  # make
        signs=re.compile(r"^(?:\.PHONY\b|[\w./%-]+[ \t]*:(?![=/])[^\n=]*\n\t)", re.M),
        sets=re.compile(
            r"^(?P<env>export[ \t]+)?(?:override[ \t]+)?(?:[\w./%-]+:[ \t]+)?"
            r"(?P<name>[A-Za-z_][\w.-]*)[ \t]*(?::{0,3}|(?P<how>[?+]))=[ \t]*"
            r"(?P<value>(?:[^\\\n#]|\\\r?\n|\\[^\r\n])*+)(?:\#[^\n]*)?$",
            re.MULTILINE,
        ),
        uses=re.compile(
            r"\$(?:(?P<dollar>\$)|\((?P<one>[\w.-]+)\)|\{(?P<two>[\w.-]+)\})"
        ),
        blanks=re.compile(r"^\t[@+-]+", re.MULTILINE),
        is_declared=True,
    ),
    _Dialect(  # just
        signs=re.compile(
            r"^[\w-]+[ \t]*:=|^@?[\w-]++[^\n:=]*+(?:=[^\n:]*+)?:\r?\n[ \t]", re.M
        ),
        sets=re.compile(
            r"^(?P<env>export[ \t]+)?(?P<name>[A-Za-z_][\w-]*)[ \t]*:=[ \t]*"
            r"(?P<value>[^\n#]*+)(?:\#[^\n]*)?$",
            re.MULTILINE,
        ),
        uses=re.compile(r"\{\{[ \t]*(?P<one>[A-Za-z_][\w-]*)[ \t]*\}\}"),
        blanks=re.compile(r"^[ \t]+@(?=\w)", re.MULTILINE),
        is_declared=True,
        has_recipes=True,
        terms=re.compile(r"\"[^\"\n]*+\"|'[^'\n]*+'|[A-Za-z_][\w-]*"),
        default=re.compile(r"env(?:_var_or_default)?\([^,()]*,[ \t]*([^,()]*)\)\s*\Z"),
    ),
    _Dialect(  # cmd
        signs=re.compile(
            r"^[ \t]*@?(?:echo off|setlocal\b|rem\b|set +\"?\w+=)", re.M | re.I
        ),
        sets=re.compile(
            r"(?:^|[&(])[ \t]*@?set[ \t]+\"?(?P<name>\w+)=\"?(?P<value>[^\"\r\n&)]*)",
            re.MULTILINE | re.IGNORECASE,
        ),
        uses=re.compile(
            r"%(?P<one>\w+)%|!(?P<two>\w+)!|%%?~?(?P<three>[0-9*]|(?<=%%)\w)"
        ),
        blanks=re.compile(
            r"^[ \t]*(?:@(?:echo off|rem\b[^\n]*)?|rem\b[^\n]*|::[^\n]*)",
            re.MULTILINE | re.IGNORECASE,
        ),
        keeps_lines=True,
    ),
    _Dialect(  # PowerShell
        signs=re.compile(r"^[ \t]*(?:\$(?:env:)?\w+[ \t]*=|param\s*\()", re.M | re.I),
        sets=re.compile(
            r"(?:^|[(,;])[ \t]*(?:\[[\w.]+(?:\[\])?\][ \t]*)?"
            r"\$(?:(?P<env>env:)|script:|global:)?(?P<name>\w+)[ \t]*"
            r"(?P<how>\+)?=[ \t]*"
            r"(?P<value>@\((?:[^()\"']|\"[^\"]*\"|'[^']*')*+\)"
            rf"|(?:\$env:\w+[ \t]*\?\?[ \t]*)?{_TERM}(?:[ \t]*\+[ \t]*{_TERM})*+)",
            re.MULTILINE | re.IGNORECASE,
        ),
        uses=re.compile(
            r"\$(?:env:)?(?P<one>[A-Za-z_]\w*)|\$\{(?:env:)?(?P<two>\w+)\}"
            r"|(?<![\w\"'/@])@(?P<three>[A-Za-z_]\w*)\b"
        ),
        blanks=re.compile(r"^[ \t]*&(?=[ \t])", re.MULTILINE),
        terms=re.compile(rf"{_TERM}|[^\s,()@+?]+"),
        default=re.compile(rf"\$env:\w+[ \t]*\?\?[ \t]*({_TERM})\s*\Z"),
    ),
)
_PARAMETERS = re.compile(
    r"^@?[A-Za-z_][\w-]*(?P<given>(?:[^\n:\"'=]|=|\"[^\"\n]*+\"|'[^'\n]*+')*+):(?!=)[^\n]*$",
    re.MULTILINE,
)
_PARAMETER = re.compile(r"[*+$]*([A-Za-z_][\w-]*)(?:=(\"[^\"]*\"|'[^']*'|[^\s\"']+))?")
"""Of a recipe of just."""


def filled_in(page: Passage) -> Passage:
    r"""Return a text as the shell reads it, once names are filled in.

    >>> filled_in(Passage.whole("@echo off\nset M=a\nrun %M%")).text.split()[-1]
    'a'
    """
    text = page.text
    for one in _DIALECTS:
        if one.signs.search(text) and one.uses.search(text):
            plain = one.blanks.sub(lambda mark: " " * len(mark[0]), text)
            return _Filling(replace(page, text=plain), one).filled()
    return page


class _Filling:
    """Fills in the names of one text."""

    def __init__(self, page: Passage, dialect: _Dialect) -> None:
        self.page, self.dialect = page, dialect
        self.known: dict[str, Passage] = {}
        self.declared: dict[str, list[re.Match[str]]] = {}
        """Of each name that is still to be looked up, what sets it."""
        self.depth = 0

    def filled(self) -> Passage:
        """Return the text with what its names stand for."""
        sets = list(self.dialect.sets.finditer(self.page.text))
        if self.dialect.is_declared:
            self._declare(sets)
        headers = (
            _PARAMETERS.finditer(self.page.text) if self.dialect.has_recipes else ()
        )
        made = Composer(self.page)
        at = 0
        for match in sorted((*sets, *headers), key=lambda one: one.start()):
            self._use(made, at, match.start())
            at = match.start() if self.dialect.keeps_lines else match.end()
            if "given" in match.groupdict():
                self._take_parameters(match)
            elif not self.dialect.is_declared:
                self._set(match)
            if match.groupdict().get("env"):
                made.add(f"export {match['name']}=", match.start())
                made.put_in(self._find(match["name"]), match.start(), match[0])
        self._use(made, at, len(self.page.text))
        return made.passage(len(self.page.text))

    def _declare(self, sets: Sequence[re.Match[str]]) -> None:
        for match in sets:
            how = match.groupdict().get("how")
            if how is None or match["name"] not in self.declared:
                self.declared[match["name"]] = [match]
            elif how == "+":
                self.declared[match["name"]].append(match)

    def _take_parameters(self, header: re.Match[str]) -> None:
        """Read what a recipe is given: its defaults, else nothing is told."""
        start = header.start("given")
        for one in _PARAMETER.finditer(header["given"]):
            self.declared.pop(one[1], None)
            self.known.pop(one[1], None)
            if one[2] is not None:
                cut = one[2][0] in "\"'"
                first, last = start + one.start(2) + cut, start + one.end(2) - cut
                self.known[one[1]] = self.page.part(first, last)

    def _set(self, match: re.Match[str]) -> None:
        """Set a name for what follows; an argument of the script changes no value."""
        name = match["name"]
        value = self._value(match)
        if value is None or (value.unknown and name in self.known):
            return
        before = self.known.get(name) if match.groupdict().get("how") else None
        self.known[name] = value if before is None else together([before, value], " ")

    def _find(self, name: str) -> Passage | None:
        """Return what a name stands for; None where the text does not tell it."""
        if name in self.declared and self.depth < _DEEPEST:
            self.depth += 1
            values = [self._value(match) for match in self.declared.pop(name)]
            self.depth -= 1
            told = [value for value in values if value is not None]
            if len(told) == len(values):
                self.known[name] = together(told, " ")
        return self.known.get(name)

    def _value(self, match: re.Match[str]) -> Passage | None:
        start, end = match.span("value")
        terms = self.dialect.terms
        if terms is None:
            text = match["value"]
            end -= len(text) - len(text.rstrip())
            made = Composer(self.page)
            self._use(made, start, end)
            return made.passage(end)
        default = self.dialect.default.search(match["value"])
        if default is not None:
            start, end = start + default.start(1), start + default.end(1)
        return self._expression(terms.finditer(self.page.text, start, end), start, end)

    def _expression(
        self, terms: Iterable[re.Match[str]], start: int, end: int
    ) -> Passage | None:
        """Return what texts, names and lists come to; None for anything else."""
        text, done = self.page.text, start
        is_list = text.startswith("@(", start)
        found: list[Passage] = []
        for term in terms:
            if text[done : term.start()].strip(_BETWEEN):
                return None
            done = term.end()
            value = self._term(term, is_list=is_list)
            if value is None:
                return None
            found.append(value)
        if not found or text[done:end].strip(_BETWEEN):
            return None
        return together(found, " " if is_list else "")

    def _term(self, term: re.Match[str], *, is_list: bool) -> Passage | None:
        start, end = term.span()
        if term[0][0] in "\"'" and not is_list:
            start, end = start + 1, end - 1
        if self.dialect.uses.search("{{" + term[0] + "}}") and term[0][0].isalpha():
            return self._find(term[0])
        made = Composer(self.page)
        self._use(made, start, end)
        return made.passage(end)

    def _use(self, made: Composer, start: int, end: int) -> None:
        """Append a stretch of the text, with what its names stand for."""
        for use in self.dialect.uses.finditer(self.page.text, start, end):
            made.keep(start, use.start())
            start = use.end()
            groups = use.groupdict()
            name = next((groups[g] for g in _NAMES if groups.get(g)), "")
            if groups.get("dollar"):
                made.add("$", use.start())
            else:
                made.put_in(self._find(name), use.start(), use[0])
        made.keep(start, end)
