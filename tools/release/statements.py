"""The statements of a body, each under its conditions, and what of memory they are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tools.release.trees import FUNCTIONS, called

KINDS: dict[str, int] = {
    "refusal": 5,
    "value": 5,
    "choice": 5,
    "profiled": 5,
    "kept": 3,
    "allocation": 3,
    "default": 2,
    "size": 2,
    "setting": 2,
    "dtype": 1,
    "module": 1,
    "assert": 1,
}
"""What a body can change of memory, with what it weighs: a refusal, a number with a
name, what is supported or which implementation serves (it brings its own tensors), what
the measured profile run allocates, a tensor that an object keeps, one of a step, a
default of an argument, a size, a setting, a dtype, a module, what vLLM takes for
granted."""
_TENSORS = re.compile(
    r"(?:empty|zeros|ones|full|rand|randn|arange|linspace|tensor|as_tensor)(?:_like)?\Z"
    r"|new_\w+\Z|(?:to|float|half|bfloat16|int|long|cuda|clone|contiguous|cat|stack"
    r"|concat|pad|repeat|repeat_interleave|expand|gather|topk|softmax|pin_memory"
    r"|from_numpy|register_buffer|register_parameter|Parameter|ModelWeightParameter"
    r"|CpuGpuBuffer|UvaBuffer|StagedWriteTensor|get_simultaneous|_?reserve|_?reserve_\w+"
    r"|make_buffer|_make_buffer|_?alloc\w*|empty_cache|create_weights|replace_parameter"
    r"|\w*workspace\w*|\w*buffer\w*)\Z"
)
_KEPT = re.compile(r"self\.\w+ = ")
_KEPT_ANEW = re.compile(r"(self\.\w+ = ).*\btorch\.(?:empty|zeros|ones|full)\b")
_CHOOSES = re.compile(
    r"support|verify|check|valid|reject|refuse|allow|^_?can_|^_?is_.*(?:able|compatible)"
    r"|(?:^|_)(?:select|choose|resolve|priorit)"
    r"|get_.*(?:backend|backends|kernels?|method|impl|cls)(?:_|$)"
)
_PROFILES = re.compile(
    r"profil|dummy|reserve_|attn_metadata is None|not isinstance\(attn_metadata, dict\)"
)
"""Names of what the profile run calls, and conditions that hold in it alone."""
_TORCH_ALONE = ("float", "int")
"""Also what Python itself calls a conversion of a number."""
_WORDED = {
    "dtype": re.compile(r"dtype|bfloat16|float\d+|fp8|fp4|uint8|int8|quant"),
    "setting": re.compile(r"config|envs|args|environ|_mode\b|enable|backend"),
    "size": re.compile(
        r"size|bytes|num_|max_|_len|block|tokens|seqs|shape|dim|width|heads|layers"
        r"|memory|budget|capacity|factor|ratio|limit|_mb|_gb|positions|world|rank"
    ),
}
"""What is known by its words, in a statement or in a condition on it."""
_QUIET = frozenset(
    {
        *("len", "int", "str", "float", "bool", "max", "min", "sum", "any", "all"),
        *("isinstance", "getattr", "hasattr", "range", "zip", "enumerate", "dict"),
        *("list", "set", "tuple", "sorted", "repr", "type", "join", "format", "keys"),
        *(
            "values",
            "items",
            "get",
            "startswith",
            "endswith",
            "lower",
            "upper",
            "strip",
        ),
        *("perf_counter", "monotonic", "time", "time_ns", "perf_counter_ns", "round"),
    }
)
"""Calls that keep and change nothing."""
_WATCHES = re.compile(
    r"\b(?:\w*_)?(?:stats|metrics|tracer|tracing|nvtx|prometheus|telemetry)\b|"
    r"\busage_\w+|\bperf_counter\b|\btime\.(?:time|monotonic)\b|\w+_start_time\b"
)
_BLOCKS = (ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Statement:
    """One statement under the conditions of a body."""

    under: tuple[str, ...]
    """Conditions, loops and contexts around it, the outermost first."""
    text: str
    node: ast.AST
    """What it is; of a block its head."""

    @property
    def key(self) -> tuple[tuple[str, ...], str]:
        """What tells it from others."""
        return self.under, self.text


def of_body(nodes: Iterable[ast.AST]) -> Iterator[Statement]:
    """Yield the statements of a body; of a function its arguments' defaults first."""
    for node in nodes:
        if isinstance(node, FUNCTIONS):
            for one in node.decorator_list:
                yield _one((), one, "@" + ast.unparse(one))
            yield from _defaults(node.args)
            yield from _inside(node.body, ())
        else:
            yield from _inside([node], ())


def _defaults(args: ast.arguments) -> Iterator[Statement]:
    named = [*args.posonlyargs, *args.args]
    with_default = named[len(named) - len(args.defaults) :]
    pairs = {
        **{one.arg: None for one in (*named, *args.kwonlyargs)},
        **{a.arg: d for a, d in zip(with_default, args.defaults, strict=True)},
        **{a.arg: d for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True)},
    }
    for name, value in pairs.items():
        tail = f" = {ast.unparse(value)}" if value is not None else ""
        yield _one((), value or ast.Pass(), f"argument {name}{tail}")


def _one(under: tuple[str, ...], node: ast.AST, text: str = "") -> Statement:
    return Statement(under=under, node=node, text=text or ast.unparse(node))


def _inside(body: Iterable[ast.AST], under: tuple[str, ...]) -> Iterator[Statement]:
    for node in body:
        if isinstance(node, ast.If):
            test = ast.unparse(node.test)
            if _calls(node.test):
                yield _one(under, node.test)
            yield from _inside(node.body, (*under, test))
            yield from _inside(node.orelse, (*under, f"not ({test})"))
        elif isinstance(node, _BLOCKS):
            words, head = _head(node)
            yield _one(under, head, words)
            yield from _inside(node.body, (*under, words))
            yield from _inside(getattr(node, "orelse", ()), under)
        elif isinstance(node, (ast.Try, ast.ClassDef, *FUNCTIONS)):
            yield from _of_parts(node, under)
        else:
            yield _one(under, node)


def _of_parts(
    node: ast.Try | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
    under: tuple[str, ...],
) -> Iterator[Statement]:
    """Yield what is tried and handled, or what is inside a function in a function."""
    if isinstance(node, ast.Try):
        yield from _inside([*node.body, *node.orelse, *node.finalbody], under)
        for one in node.handlers:
            kind = ast.unparse(one.type) if one.type else ""
            yield from _inside(one.body, (*under, f"except {kind}"))
    else:
        word = "class" if isinstance(node, ast.ClassDef) else "def"
        yield from _inside(node.body, (*under, f"{word} {node.name}"))


def _head(node: ast.AST) -> tuple[str, ast.AST]:
    if isinstance(node, ast.For | ast.AsyncFor):
        words = f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"
        head = ast.Assign(targets=[node.target], value=node.iter)
        return words, ast.copy_location(head, node.iter)
    if isinstance(node, ast.While):
        return f"while {ast.unparse(node.test)}", node.test
    items = node.items if isinstance(node, ast.With | ast.AsyncWith) else []
    what = [one.context_expr for one in items]
    together = ast.Tuple(elts=what, ctx=ast.Load())
    return "with " + ", ".join(map(ast.unparse, items)), (
        ast.copy_location(together, what[0]) if what else together
    )


def _calls(node: ast.AST) -> bool:
    return any(
        isinstance(part, ast.Call) and called(part)[1] not in _QUIET
        for part in ast.walk(node)
    )


def kinds(one: Statement) -> set[str]:
    """Return what of KINDS a statement is."""
    found = {*_calls_of(one.node)}
    if isinstance(one.node, ast.Raise | ast.Assert):
        found.add("refusal" if isinstance(one.node, ast.Raise) else "assert")
    if one.text.startswith("argument "):
        found.add("default")
    if "allocation" in found and _KEPT.match(one.text):
        found.add("kept")
    for kind, pattern in _WORDED.items():
        if pattern.search(one.text) or any(map(pattern.search, one.under)):
            found.add(kind)
    return found


def kinds_of_body(
    name: str, edit: tuple[Iterable[Statement], Iterable[Statement]]
) -> set[str]:
    """Return what of KINDS the edit of a function of that name is."""
    went, came = map(list, edit)
    found = {kind for each in (*went, *came) for kind in kinds(each)}
    if _CHOOSES.search(name):
        found.add("choice")
    if _TENSORS.match(name):
        found.add("allocation")
    where = (name, *(one for each in came for one in each.under))
    if "allocation" in found and any(map(_PROFILES.search, where)):
        found.add("profiled")
    return found


def kept_anew(went: Iterable[Statement], came: Iterable[Statement]) -> Iterator[str]:
    """Yield statements by which an object keeps a tensor that it had not."""
    before = " ".join(each.text for each in went)
    for each in came:
        match = _KEPT_ANEW.match(each.text)
        if match and match[1] not in before:
            yield each.text


def _calls_of(node: ast.AST) -> Iterator[str]:
    """Yield whether a statement makes tensors, and whether modules."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call):
            before, name = called(part)
            if _TENSORS.match(name) and (before or name not in _TORCH_ALONE):
                yield "allocation"
            elif name[:1].isupper() and any(map(str.islower, name)):
                yield "module"


def only_watches(changed: Iterable[Statement], body: Iterable[ast.AST]) -> bool:
    """Whether statements only measure time, count, or fill what only those read."""
    nodes = list(body)
    if not all(isinstance(one, FUNCTIONS) for one in nodes):
        return False
    every = list(of_body(nodes))
    keys = {one.key for one in changed}
    suspects = [one for one in every if one.key in keys]
    quiet: list[Statement] = []
    while True:
        read = _read([one for one in every if one not in quiet])
        more = [one for one in suspects if one not in quiet and _is_quiet(one, read)]
        if not more:
            return len(quiet) == len(suspects)
        quiet += more


def _read(body: Iterable[Statement]) -> set[str]:
    found: set[str] = set()
    for one in body:
        found.update(re.findall(r"\w+", " ".join(one.under)))
        for part in ast.walk(one.node):
            if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Store):
                found.add(part.id)
    return found


def _is_quiet(one: Statement, read: set[str]) -> bool:
    """Whether a statement keeps nothing but a local that nobody reads."""
    node = one.node
    if isinstance(node, ast.Raise | ast.Assert | ast.Return | ast.Delete):
        return False
    if isinstance(node, ast.Assign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if all(isinstance(t, ast.Name) and t.id not in read for t in targets):
            return not _calls(node.value)
        words = " ".join(map(ast.unparse, targets))
        return bool(_WATCHES.search(words)) and not _allocates(node)
    if isinstance(node, ast.Expr):
        is_one = isinstance(node.value, ast.Call)
        head = ast.unparse(node.value.func) if isinstance(node.value, ast.Call) else ""
        return is_one and bool(_WATCHES.search(head)) and not _allocates(node)
    return False


def _allocates(node: ast.AST) -> bool:
    return "allocation" in kinds(_one((), node))
