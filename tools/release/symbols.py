"""What the planner cites, in `Source:` lines and `Change`s, with a release's syntax.

A citation is a file of vLLM, a symbol in it, or both: "vLLM 0.33.0 `config/cache.py`
CacheConfig." Whether a word is a symbol is decided by the sources: what a release has
under that name is one. A symbol's syntax is stored as a digest that comments, layout
and docstrings do not change.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from tools.release.sources import parsed

_SOURCE = re.compile(r"(?:^|\s)(?:Sources?|sources?):\s(.*?)(?:\n\s*\n|\Z)", re.DOTALL)
_OTHERS = re.compile(
    r"\b(?:Ray|Transformers|PyTorch|KubeRay|FlashInfer|safetensors|NVIDIA|CUDA|Triton"
    r"|compressed-tensors|huggingface_hub|published|humming-kernels)\b"
)
"""What else is cited: what follows, up to a semicolon, is not vLLM's."""
_WORD = re.compile(r"`([\w/.*-]+)`|([A-Za-z_]\w*(?:\.\w+)*)")
_PATH = re.compile(r"[\w/-]*(?:\.py|/)\Z")
_SYMBOL = re.compile(r"_\w+|\w+_\w+|[A-Z]\w*[a-z]\w*[A-Z0-9]\w*|[A-Z]+[a-z]\w+[A-Z]\w*")
_PLACES = ("", "model_executor/", "model_executor/layers/", "v1/")
_NOT_SYNTAX = ("ctx", "kind", "type_comment", "type_params", "type_ignores")
_DEFINED = re.compile(r"^\s*(?:class|def|async def) (\w+)", re.MULTILINE)
_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A file or symbol of vLLM that a rule of the planner rests on."""

    path: str
    """As it is written; empty: only the symbol is cited."""
    symbol: str
    """Empty: the whole file."""
    rule: str
    """The planner's module and the function or constant that cites it."""


def citations(folder: Path) -> Iterator[Citation]:
    """Yield what docstrings and `Change`s of a package of the planner's cite."""
    for file in sorted(folder.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        module = file.relative_to(folder.parent).as_posix()
        for owner, text in _docstrings(tree, ""):
            rule = f"{module}::{owner}" if owner else module
            for match in _SOURCE.finditer(text):
                yield from _cited(" ".join(match[1].split()), rule)
        for owner, source in _changes(tree):
            yield from _cited(source, f"{module}::{owner}")


def _docstrings(node: ast.AST, owner: str) -> Iterator[tuple[str, str]]:
    """Yield strings that stand alone, each with what it describes."""
    last = owner
    for child in getattr(node, "body", ()):
        value = child.value if isinstance(child, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield last, value.value
        elif isinstance(child, ast.Assign | ast.AnnAssign):
            left = child.targets[0] if isinstance(child, ast.Assign) else child.target
            last = f"{owner}.{ast.unparse(left)}".lstrip(".")
        elif isinstance(child, ast.ClassDef | ast.FunctionDef):
            last = f"{owner}.{child.name}".lstrip(".")
            yield from _docstrings(child, last)


def _changes(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the source of each `Change`, with the constant that it is part of."""
    for child in tree.body:
        if isinstance(child, ast.Assign | ast.AnnAssign) and child.value is not None:
            left = child.targets[0] if isinstance(child, ast.Assign) else child.target
            for node in ast.walk(child.value):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "Change":
                    for keyword in node.keywords:
                        if keyword.arg == "source":
                            yield (
                                ast.unparse(left),
                                str(ast.literal_eval(keyword.value)),
                            )


def _cited(text: str, rule: str) -> Iterator[Citation]:
    for part in text.split(";"):
        own = _OTHERS.split(part, maxsplit=1)[0]
        path, is_used = "", True
        for quoted, plain in _WORD.findall(own):
            word = quoted or plain
            if _PATH.search(word):
                if path and not is_used:
                    yield Citation(path=path, symbol="", rule=rule)
                path, is_used = word, False
            elif _SYMBOL.fullmatch(word.rpartition(".")[2]) or "." in word:
                is_used = True
                yield Citation(path=path, symbol=word, rule=rule)
        if path and not is_used:
            yield Citation(path=path, symbol="", rule=rule)


class Sources:
    """The sources of one release, and the symbols in them."""

    def __init__(self, package: Path) -> None:
        self.package = package

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Every file of the package, the shortest paths first."""
        found = (p.relative_to(self.package).as_posix() for p in self._paths())
        return tuple(sorted(found, key=lambda path: (path.count("/"), path)))

    def _paths(self) -> Iterable[Path]:
        return (p for p in self.package.rglob("*.py") if "third_party" not in p.parts)

    @cached_property
    def _known_files(self) -> frozenset[str]:
        return frozenset(self.files)

    @cached_property
    def _defined(self) -> dict[str, list[str]]:
        """The files that define each class, function and method."""
        found: dict[str, list[str]] = {}
        for file in self.files:
            text = (self.package / file).read_text(encoding="utf-8")
            for name in dict.fromkeys(_DEFINED.findall(text)):
                found.setdefault(name, []).append(file)
        return found

    def moved(self, file: str, symbol: str) -> Iterator[tuple[str, str]]:
        """Yield where else this release has a symbol of that name."""
        for other in self._defined.get(symbol.rpartition(".")[2], ()):
            place = self._in(other, symbol)
            if other != file and place is not None:
                yield place

    def digests(self, cited: Iterable[Citation]) -> dict[str, str]:
        """Return the digest of each cited file or symbol that this release has."""
        found = {}
        for one in cited:
            place = self.find(one)
            if place is not None:
                found[f"{place[0]}::{place[1]}"] = self.digest(*place)
        return dict(sorted(found.items()))

    def find(self, cited: Citation) -> tuple[str, str] | None:
        """Return the file and the full name of what is cited; None: not there."""
        if not cited.path:
            first = cited.symbol.partition(".")[0]
            places = (self._in(f, cited.symbol) for f in self._defined.get(first, ()))
            return next(filter(None, places), None)
        for file in self._files_of(cited.path):
            if not cited.symbol:
                return file, ""
            found = self._in(file, cited.symbol)
            if found is not None:
                return found
        return None

    def digest(self, file: str, symbol: str) -> str:
        """Return the digest of a symbol's syntax; without a symbol, of the file's."""
        path = self.package / file
        tree: ast.AST = self._symbols(file)[symbol] if symbol else parsed(path)
        text: list[str] = []
        _syntax(tree, text)
        return hashlib.sha256("".join(text).encode()).hexdigest()[:_DIGITS]

    def _in(self, file: str, symbol: str) -> tuple[str, str] | None:
        known = self._symbols(file)
        if symbol in known:
            return file, symbol
        last = symbol.rpartition(".")[2]
        inner = next((name for name in known if name.endswith("." + last)), None)
        return (file, last) if last in known else (file, inner) if inner else None

    def _files_of(self, path: str) -> Iterator[str]:
        """Yield the files that a cited path can mean, the likeliest first."""
        wanted = path.removeprefix("vllm/")
        for place in _PLACES:
            if place + wanted in self._known_files:
                yield place + wanted
        if wanted.endswith("/"):
            yield from (f for f in self.files if f"/{wanted}" in f"/{f}")
        else:
            yield from (f for f in self.files if f.endswith("/" + wanted))

    def _symbols(self, file: str) -> dict[str, ast.AST]:
        return _symbols_of(self.package / file)


@lru_cache(maxsize=4096)
def _symbols_of(path: Path) -> dict[str, ast.AST]:
    found: dict[str, ast.AST] = {}
    for name, node in _named(parsed(path), ""):
        found.setdefault(name, node)
    return found


def _named(node: ast.AST, owner: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield classes, functions and what is assigned, keys of tables too."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{owner}.{child.name}".lstrip(".")
            yield name, child
            yield from _named(child, name)
        elif isinstance(child, ast.Assign | ast.AnnAssign):
            yield from _assigned(child, owner)
        elif isinstance(child, ast.If | ast.Try | ast.With):
            yield from _named(child, owner)


def _assigned(
    node: ast.Assign | ast.AnnAssign, owner: str
) -> Iterator[tuple[str, ast.AST]]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    # The getter of an environment variable, before its annotation.
    if isinstance(node.value, ast.Dict) and not owner:
        for key, value in zip(node.value.keys, node.value.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, value
    for target in targets:
        name = ast.unparse(target).removeprefix("self.")
        if name.isidentifier():
            yield f"{owner}.{name}".lstrip("."), node


def _syntax(node: ast.AST, text: list[str]) -> None:
    """Write a tree as text that does not depend on the Python that parsed it."""
    text.append(f"({type(node).__name__}")
    for name, value in ast.iter_fields(node):
        if name in _NOT_SYNTAX:
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST):
                if not _is_text_alone(part):
                    _syntax(part, text)
            elif part is not None:
                text.append(f" {name}={part!r}")
    text.append(")")


def _is_text_alone(node: ast.AST) -> bool:
    """Whether a statement is only a string: a docstring."""
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)
