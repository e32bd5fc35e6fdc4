"""Starts of vLLM in Python code, read as syntax and never run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from planner.reading.passage import Composer, Passage
from planner.reading.python import tables
from planner.reading.python.calls import FUNCTIONS
from planner.reading.python.constructors import Commands
from planner.reading.python.lines import lines_of_code
from planner.reading.python.syntax import parsed
from planner.reading.python.tables import STARTERS, Starter
from planner.reading.python.values import Call, Scope, Slot, Value
from planner.reading.reading import FoundStart
from planner.reading.sites import Site, Start
from planner.reading.starts.frameworks import frameworks, not_given
from planner.reading.starts.images import gpu_named_in

_CALLED = re.compile(
    r"\b(?:LLM|AsyncLLM|EngineArgs|AsyncEngineArgs|LLMConfig|v?LLMEngine\w*Config)\b"
    r"|(?i:vllm)|fast_inference|lm_eval"
)
_SURE = re.compile(
    r"^(?:from|import) \w|\b(?:LLM|EngineArgs|AsyncEngineArgs|v?LLM\w*Config)\(",
    re.MULTILINE,
)
"""What tells code from words, and from a script of a shell."""
_MAGIC = re.compile(r"^[ \t]*(?P<sign>[%!])(?:[^\\\n]|\\(?:\r?\n|.))*$", re.MULTILINE)
_IN_MAGIC = re.compile(r"\{(?P<name>[A-Za-z_]\w*)\}|\$(?P<plain>[A-Za-z_]\w*)")
_OF_RAY = ("model_loading_config", "accelerator_type", "runtime_env")
_MOST_NAMED = 16
_OF_ENV = re.compile(r"[ \t]*%(?:set_)?env[ \t]+(?P<name>\w+)[ \t=]+(?P<value>\S+)")


def starts_in_code(page: Passage, text: str) -> Iterator[FoundStart]:
    """Yield the starts of vLLM in Python code, in order.

    Args:
        page: the code.
        text: the whole text that it stands in.
    """
    if not _CALLED.search(page.text):
        return
    tree = parsed(page.text)
    if tree is not None:
        if not _is_data(tree.body):
            yield from _starts(_Code(page, text, {}), tree)
        return
    magics = {
        match.start("sign"): page.part(*match.span())
        for match in _MAGIC.finditer(page.text)
    }
    cells = replace(page, text=_MAGIC.sub(_hidden, page.text))
    tree = parsed(cells.text) if magics else None
    if tree is not None:
        yield from _starts(_Code(cells, text, magics), tree)


def _is_data(body: Sequence[ast.stmt]) -> bool:
    """Return whether code is one table, or a list of them: JSON is."""
    (one, *others) = body or [ast.Pass()]
    value = one.value if isinstance(one, ast.Expr) and not others else None
    items = value.elts if isinstance(value, ast.List) else [value]
    return bool(items) and all(isinstance(item, ast.Dict) for item in items)


def starts_in_lines(page: Passage, text: str) -> Iterator[FoundStart]:
    """Yield the starts in lines of code between lines of words, in order."""
    plain = lines_of_code(page) if _SURE.search(page.text) else None
    tree = None if plain is None else parsed(plain.text)
    if plain is not None and tree is not None:
        yield from _starts(_Code(plain, text, {}), tree)


def _hidden(line: re.Match[str]) -> str:
    """Return a number in the place of a line of a notebook that is no code."""
    blank = re.sub(r"[^\n]", " ", line[0])
    at = line.start("sign") - line.start()
    return f"{blank[:at]}0{blank[at + 1 :]}"


def _starts(code: _Code, tree: ast.Module) -> Iterator[FoundStart]:
    try:
        yield from code.starts(tree)
    except RecursionError:
        return


class _Code(Commands):
    """One piece of code, and what it starts."""

    def __init__(
        self, page: Passage, whole: str, magics: Mapping[int, Passage]
    ) -> None:
        super().__init__(page, whole)
        self.magics = magics
        self.models: dict[str, Slot] = {}
        """What another call names as the model, by the function."""

    def starts(self, tree: ast.Module) -> Iterator[FoundStart]:
        """Yield the starts in the order of the text."""
        self.run_all(tree)
        self.take_pending()
        if not self.found:  # what runs only with other values than those in the text
            for statements, scopes in self.skipped:
                self.scopes = scopes
                self.run(statements)
            self.take_pending()
        for _, found in sorted(self.found.values(), key=lambda one: one[0]):
            yield self._completed(found)

    def _completed(self, found: FoundStart) -> FoundStart:
        """Return a start with the model and the GPU that other calls name."""
        start = found.start
        if start.gpu is None and len(self.devices) == 1:
            ((gpu, count),) = self.devices.values()
            start = replace(start, gpu=gpu, gpus=start.gpus or count)
        if start.shown != "?":
            return replace(found, start=start)
        slot = next(iter(self.models.values()), None)
        sites = (
            start.sites if slot is None else (self.site("model", slot), *start.sites)
        )
        return replace(found, start=replace(start, sites=sites, shown=""))

    def _expr(self, node: ast.Expr) -> None:
        magic = self.magics.get(self.span(node.value)[0])
        if magic is None:
            super()._expr(node)
            return
        setting = _OF_ENV.match(magic.text)
        if setting is not None and self.environ.fields is not None:
            part = magic.part(*setting.span("value"))
            value = Value(constant=part.text, text=part, node=node.value)
            self.put(self.environ.fields, setting["name"], Slot(value=value))
        elif magic.text.lstrip().startswith("!"):
            self.command(self._filled(node.value, magic))

    def _filled(self, node: ast.expr, magic: Passage) -> Value:
        """Return a command of a notebook with what its names stand for."""
        made, done = Composer(magic), magic.text.index("!") + 1
        is_open = False
        for match in _IN_MAGIC.finditer(magic.text):
            value = self.look_up(match["name"] or match["plain"])
            if value is None or value.text is None:
                continue
            made.keep(done, match.start())
            is_open |= self.put_in(made, value, match.start())
            done = match.end()
        made.keep(done, len(magic.text))
        return self.made_of(node, made.passage(len(magic.text)), is_open=is_open)

    def started(self, call: Call) -> Value | None:
        """Take a call that starts vLLM; return what stands for its result."""
        several, named, last = call.several, call.named, call.last
        if last in tables.PRINTS or last.endswith(("Error", "Exception")):
            self.forget([*several, *named.values()])
            return None
        self.forget([named[name] for name in tables.WORDS if name in named])
        model = call.at(0, "model") if last.endswith("Trainer") else None
        if model is not None:
            self.models.setdefault(last, named.get("model", model))
        self.named_devices(named)
        starter = self._starter(call.name)
        told = named.get("model_args")
        if starter is not None and told is not None and told.value.is_text:
            self.evaluated(named)
        elif starter is not None:
            return self._constructed(call, starter)
        if self.in_image(call.node, several, named) or self.by_variables(
            call.node, named
        ):
            return self.unknown(call.node)
        if last not in FUNCTIONS:
            self._around_command(several, named)
        if call.first.constant == "vllm":
            words = [replace(slot, owner=call.node) for slot in several]
            self.command(Value(node=call.node, items=words))
        return None

    def _around_command(self, several: Sequence[Slot], named: Scope) -> None:
        """Take a command with the variables that it is given."""
        outer, given = self.environ, named.get("env")
        if given is not None and given.value.fields is not None:
            self.environ = given.value
        for slot in (*several, *(one for name, one in named.items() if name != "env")):
            self.command(slot.value)
        self.environ = outer

    def _starter(self, name: str) -> Starter | None:
        parts = name.replace("()", "").split(".")
        for known in (".".join(parts[-2:]), parts[-1]):
            starter = STARTERS.get(known)
            if starter is None:
                continue
            is_bare = len(parts) == len(known.split("."))
            is_its = parts[0] in starter.modules or any(
                m in parts[0] for m in starter.modules
            )
            if is_its or (is_bare and known not in tables.UNNAMED_MODULES):
                return starter
        return None

    def _constructed(self, call: Call, starter: Starter) -> Value | None:
        several, named, node = call.several, call.named, call.node
        given = {**dict(zip(starter.first, several, strict=False)), **named}
        for name, needed in starter.needs.items():
            slot = given.get(name)
            if (None if slot is None else slot.value.constant) not in needed:
                return None
        inner: ast.expr = node
        sites = [*self._sites(given, starter.names, starter)]
        for name, slot in given.items():
            fields = slot.value.fields
            if name in starter.tables and fields is not None:
                inner = slot.value.node or inner
                sites += self._sites(fields, starter.names)
            elif name == "model_loading_config" and fields is not None:
                source = fields.get("model_source") or fields.get("model_id")
                sites += [] if source is None else [self.site("model", source)]
        start = Start(
            sites=tuple(sites),
            add=partial(self.added, inner, starter.names),
            entrypoint=starter.entrypoint,
            env={**self.variables(), **self._of_runtime(given)},
            shown="?" if starter.model_of else "",
        )
        start = self._told(_beside_trainer(start, starter), call.last, starter, given)
        start = self._labelled(start, given.get("accelerator_type"))
        found = FoundStart(kind=starter.kind, start=self.placed(start))
        self.record(self.page.places[self.span(node)[0]], found)
        return Value(node=node, open=self.unknown(node).open, fields=dict(given))

    def _of_runtime(self, given: Scope) -> dict[str, Site]:
        """Return the variables that Ray sets for its workers."""
        around = given.get("runtime_env")
        inner = None if around is None else (around.value.fields or {}).get("env_vars")
        fields = {} if inner is None else inner.value.fields or {}
        return {name: self.site(name, slot) for name, slot in fields.items()}

    def _told(self, start: Start, by: str, starter: Starter, given: Scope) -> Start:
        """Return a start that says what was left aside, and what is put in later."""
        sites = list(start.sites)
        for name, (argument, value) in starter.means.items():
            if name in given and given[name].value.constant is True:
                sites.append(
                    replace(self.site(argument, given[name], name), value=value)
                )
        known = {site.written for site in sites}
        used = {*known, *starter.tables, *starter.needs, *_OF_RAY}
        left = [n for n in given if n not in used and not n.startswith("**")]
        rest = [n.lstrip("*") for n in given if n.startswith("**")]
        shown = ", ".join(left[:_MOST_NAMED])
        return replace(
            start,
            sites=tuple(sites),
            notes=(*start.notes, *([f"Read by {by} itself: {shown}."] if left else ())),
            open=(
                *start.open,
                *(
                    f"{one} may add arguments: the text does not set it."
                    for one in rest
                ),
            ),
        )

    def _labelled(self, start: Start, label: Slot | None) -> Start:
        """Return a start with the GPU that Ray asks its cluster for."""
        name = None if label is None else label.value.constant
        if not isinstance(name, str):
            return start
        gpu = gpu_named_in(name)
        open_ = () if gpu else (f"The GPU {name[:80]} is not in the catalogue.",)
        return replace(start, gpu=gpu, open=(*start.open, *open_))

    def _sites(
        self, given: Scope, names: Mapping[str, str], starter: Starter | None = None
    ) -> Iterator[Site]:
        for name, slot in given.items():
            if name.startswith("**"):
                continue
            if starter is not None and name not in names:
                is_own = not starter.takes_all or name in starter.own
                if is_own or name in starter.tables:
                    continue
            yield self.site(names.get(name, name), slot, name)


def _beside_trainer(start: Start, starter: Starter) -> Start:
    """Return a start with what is said of the framework that trains on its GPUs."""
    row = next((one for one in frameworks() if one.name == starter.trainer), None)
    if row is None:
        return start
    given = {site.name for site in start.sites}
    return replace(
        start, trainer=row.name, notes=(*row.notes,), open=(*not_given(row, given),)
    )
