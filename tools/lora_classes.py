"""Record what vLLM's model classes let adapters change, release by release.

    python tools/lora_classes.py SOURCES

SOURCES holds a folder for each release, named by its version, with the package `vllm`
in it. Nothing is imported: the classes are read as syntax. Writes
`planner/data/lora_classes.json`, for the architectures that the planner reads.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any

from planner.engine.releases import MODELLED, Release, number_of
from planner.memory.lora import wrapping
from planner.models.families.registry import readers

OUTPUT = Path(__file__).parent.parent / "planner" / "data" / "lora_classes.json"
MODELS = "vllm.model_executor.models"
PACKAGES = (MODELS, "vllm.models")
INTERFACE = "SupportsLoRA"
TOLD_BY_CONFIG = "?"
_OTHER_PLATFORMS = ("amd", "cpu", "rocm", "vl_stub", "xpu")
"""Modules with classes for others than CUDA's GPUs."""

Class = tuple[str, str]
"""Module and name."""


def _top(tree: ast.Module) -> Iterator[ast.stmt]:
    """Return the statements of a module, those within a condition too."""
    for node in tree.body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from (n for n in ast.walk(node) if isinstance(n, ast.stmt))


class Sources:
    """The model classes of one release, as syntax."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.classes: dict[Class, ast.ClassDef] = {}
        self._modules: dict[str, ast.Module | None] = {}
        self._imports: dict[str, dict[str, Class]] = {}
        self._set: dict[Class, list[tuple[ast.expr, ast.expr]]] = {}
        self._lineages: dict[Class, list[Class]] = {}

    def module(self, name: str) -> ast.Module | None:
        """Return a module of the models' packages, read when it is first asked for."""
        if name not in self._modules:
            self._modules[name] = None
            if name.startswith(PACKAGES):
                self._read(name)
        return self._modules[name]

    def _read(self, name: str) -> None:
        path = self.folder / name.replace(".", "/")
        is_package = path.is_dir()
        path = path / "__init__.py" if is_package else path.with_suffix(".py")
        if not path.exists():
            return
        tree = ast.parse(path.read_text(encoding="utf-8"))
        self._modules[name] = tree
        around = name.split(".") if is_package else name.split(".")[:-1]
        found: dict[str, Class] = {}
        for node in _top(tree):
            if isinstance(node, ast.ClassDef):
                self.classes.setdefault((name, node.name), node)
            if isinstance(node, ast.ImportFrom):
                base = around[: len(around) - node.level + 1] if node.level else []
                source = ".".join([*base, *([node.module] if node.module else [])])
                if any(part in _OTHER_PLATFORMS for part in source.split(".")):
                    continue
                for alias in node.names:
                    found.setdefault(alias.asname or alias.name, (source, alias.name))
        self._imports[name] = found

    def resolve(self, module: str, name: str, depth: int = 8) -> Class | None:
        """Return the class that a name in a module means."""
        tree = self.module(module)
        if (module, name) in self.classes:
            return module, name
        if not depth or tree is None:
            return None
        if name in self._imports[module]:
            return self.resolve(*self._imports[module][name], depth - 1)
        for node in tree.body:
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Name)
                and isinstance(node.targets[0], ast.Name)
                and node.targets[0].id == name
            ):
                return self.resolve(module, node.value.id, depth - 1)
        return None

    def lineage(self, start: Class) -> list[Class]:
        """Return a class and all it inherits from, nearest first."""
        if start not in self._lineages:
            self._lineages[start] = self._lineage(start)
        return self._lineages[start]

    def _lineage(self, start: Class) -> list[Class]:
        found, waiting = [], [start]
        while waiting:
            here = waiting.pop(0)
            if here in found:
                continue
            found.append(here)
            for base in self.classes[here].bases:
                parts = base.args if isinstance(base, ast.Call) else [base]
                for part in parts:
                    name = ast.unparse(part).partition("[")[0].rpartition(".")[2]
                    parent = self.resolve(here[0], name)
                    if parent is not None:
                        waiting.append(parent)
        return found

    def attribute(self, of: Class, name: str) -> Any:  # noqa: ANN401 - any literal
        """Return a class attribute's literal value; None where it has none."""
        for here in self.lineage(of):
            if here[1] == INTERFACE:
                continue
            for node in self.classes[here].body:
                if not isinstance(node, ast.Assign | ast.AnnAssign):
                    continue
                left = node.targets if isinstance(node, ast.Assign) else [node.target]
                if node.value is not None and name in map(ast.unparse, left):
                    return self.literal(here, node.value)
        return None

    def literal(self, of: Class, node: ast.expr) -> Any:  # noqa: ANN401 - as above
        """Return what an expression of literals and other classes' attributes is."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            other = self.resolve(of[0], node.value.id)
            return self.attribute(other, node.attr) if other else None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            left, right = self.literal(of, node.left), self.literal(of, node.right)
            return {**(left or {}), **(right or {})}
        if isinstance(node, ast.Dict):
            whole: dict[Any, Any] = {}
            for key, value in zip(node.keys, node.values, strict=True):
                got = self.literal(of, value)
                name = None if key is None else ast.literal_eval(key)
                whole.update((got or {}) if key is None else {name: got})
            return whole
        if isinstance(node, ast.Subscript):
            return self.literal(of, node.value)[ast.literal_eval(node.slice)]
        if isinstance(node, ast.Name):
            return self.constant(of[0], node.id)
        return ast.literal_eval(node)

    def constant(self, module: str, name: str, depth: int = 8) -> Any:  # noqa: ANN401 - as above
        """Return the literal that a name at the top of a module stands for."""
        tree = self.module(module)
        for node in tree.body if tree else ():
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
                return self.literal((module, ""), node.value)
        if tree is not None and depth and name in self._imports[module]:
            return self.constant(*self._imports[module][name], depth - 1)
        raise ValueError(f"{module} does not say what {name} is.")

    def set_on_self(self, of: Class) -> Iterator[tuple[Class, ast.expr, ast.expr]]:
        """Return what a class and those it inherits from set on an instance."""
        for here in self.lineage(of):
            if here not in self._set:
                self._set[here] = list(_set_on_self(self.classes[here]))
            for target, value in self._set[here]:
                yield here, target, value

    def registered(self, names: Container[str]) -> dict[str, Class]:
        """Return the class of each of these architectures."""
        registry = self.module(f"{MODELS}.registry")
        found: dict[str, Class] = {}
        for node in registry.body if registry else ():
            value = getattr(node, "value", None)
            if not isinstance(value, ast.Dict):
                continue
            for key, entry in zip(value.keys, value.values, strict=True):
                if not isinstance(key, ast.Constant) or key.value not in names:
                    continue
                if not isinstance(entry, ast.Tuple):
                    continue
                module, name = ast.literal_eval(entry)[:2]
                full = module if module.startswith("vllm.") else f"{MODELS}.{module}"
                here = self.resolve(full, name)
                if here is not None:
                    found.setdefault(str(key.value), here)
        return found


_ON_SELF = ("packed_modules_mapping", "language_model", "lm_head")


def _set_on_self(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Return targets and values of the attributes of `self` that matter here."""
    for inner in ast.walk(node):
        if not isinstance(inner, ast.Assign):
            continue
        target = inner.targets[0]
        base = target.value if isinstance(target, ast.Subscript) else target
        if isinstance(base, ast.Attribute) and base.attr in _ON_SELF:
            yield target, inner.value


def packed(sources: Sources, of: Class) -> dict[str, int]:
    """Return packed_modules_mapping by the number of layers packed in each.

    What an instance adds when its config asks for such layers counts too: where the
    model has none, the name stands for nothing.
    """
    own = sources.attribute(of, "packed_modules_mapping") or {}
    mapping = {name: len(layers) for name, layers in own.items()}
    for here, target, value in sources.set_on_self(of):
        text = ast.unparse(target)
        if text == "self.packed_modules_mapping" and isinstance(value, ast.BinOp):
            for inner in language_classes(sources, of):
                mapping |= packed(sources, inner)
        if text.startswith("self.packed_modules_mapping[") and isinstance(
            target, ast.Subscript
        ):
            layers = sources.literal(here, value)
            mapping[ast.literal_eval(target.slice)] = len(layers)
    return mapping


def language_classes(sources: Sources, of: Class) -> list[Class]:
    """Return the classes that are made as self.language_model by name."""
    found = []
    for here, target, value in sources.set_on_self(of):
        is_model = ast.unparse(target) == "self.language_model"
        if not is_model or not isinstance(value, ast.Call):
            continue
        named = [k.value for k in value.keywords if k.arg == "model_class"]
        maker = named[0] if named else value.func
        inner = sources.resolve(here[0], ast.unparse(maker))
        if inner is not None:
            found.append(inner)
    return found


def language_names(sources: Sources, of: Class) -> list[str]:
    """Return the architectures of the language model within, as its class asks."""
    found: list[str] = []
    for _, _, value in sources.set_on_self(of):
        if not isinstance(value, ast.Call) or not ast.unparse(value.func).endswith(
            "init_vllm_registered_model"
        ):
            continue
        for keyword in value.keywords:
            if keyword.arg == "architectures" and isinstance(keyword.value, ast.List):
                found += ast.literal_eval(keyword.value)
    return list(dict.fromkeys(found))


def method(sources: Sources, of: Class, name: str) -> ast.FunctionDef | None:
    """Return a method of a class, its own or inherited from another model's."""
    for here in sources.lineage(of):
        if here[0].endswith(".interfaces"):
            continue
        for node in sources.classes[here].body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return node
    return None


def prefixes(sources: Sources, of: Class, part: str) -> list[str] | None:
    """Return the beginnings of the names of a part of a model that has encoders.

    `part` is language_model, tower_model or connector; None without a say.
    """
    function = method(sources, of, "get_mm_mapping")
    if function is None:
        return None
    for node in ast.walk(function):
        if not isinstance(node, ast.Call):
            continue
        for keyword in node.keywords:
            if keyword.arg == part:
                value = keyword.value
                names = value.elts if isinstance(value, ast.List) else [value]
                if all(isinstance(name, ast.Constant) for name in names):
                    return [ast.literal_eval(name) for name in names]
    return [TOLD_BY_CONFIG]


def changes_towers(sources: Sources, of: Class) -> bool:
    """Whether enable_tower_connector_lora has an effect: by a flag, or by methods."""
    flag = sources.attribute(of, "supports_tower_connector_lora")
    by_method = method(sources, of, "get_num_mm_encoder_tokens") is not None
    return by_method if flag is None else bool(flag)


def facts(sources: Sources, of: Class) -> dict[str, Any]:
    """Return what a class lets adapters change."""
    is_lora = INTERFACE in [name for _, name in sources.lineage(of)]
    if not is_lora and sources.attribute(of, "supports_lora") is not True:
        return {"supports_lora": False}
    embeddings = set(sources.attribute(of, "embedding_modules") or {})
    for inner in language_classes(sources, of):
        embeddings |= set(sources.attribute(inner, "embedding_modules") or {})
    shares = any(
        ast.unparse(target) == "self.lm_head"
        and ast.unparse(value) == "self.model.embed_tokens"
        for _, target, value in sources.set_on_self(of)
    )
    language = prefixes(sources, of, "language_model")
    reaches = language is not None and changes_towers(sources, of)
    answer = {
        "supports_lora": True,
        "embeddings": sorted(embeddings),
        "packed": packed(sources, of),
        "has_3d_experts": bool(sources.attribute(of, "is_3d_moe_weight")),
        "is_non_gated": bool(sources.attribute(of, "is_non_gated_moe")),
        "language": language[0] if language else None,
        "towers": prefixes(sources, of, "tower_model") if reaches else None,
        "connectors": prefixes(sources, of, "connector") if reaches else None,
        "language_models": language_names(sources, of),
        "shares_head": shares,
        "is_of_transformers": any(".models.transformers" in m for m, _ in [of]),
    }
    return {name: value for name, value in answer.items() if value}


def _stand_in(name: str) -> str:
    """Return the architecture whose class vLLM makes a pooling model of.

    Source: vLLM 0.33.0 `models/registry.py` _normalize_arch.
    """
    for suffix in ("ForSequenceClassification", "ForRewardModel", "Model"):
        if name.endswith(suffix):
            return name.removesuffix(suffix) + "ForCausalLM"
    return name


def _known(release: Release) -> Iterable[str]:
    """Return the architectures of which a release is read."""
    if release.has(wrapping.WRAPS_ALL_MODELS):
        return readers()
    has_more = release.has(wrapping.WRAPS_MORE_MODELS)
    return (*wrapping.LONG_KNOWN, *(wrapping.MORE_KNOWN if has_more else ()))


def history(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the facts of each architecture, from each release that changed them."""
    found: dict[str, list[dict[str, Any]]] = {}
    for version in sorted(MODELLED, key=number_of):
        add(found, folder / version, version)
    return found


def add(found: dict[str, list[dict[str, Any]]], folder: Path, version: str) -> None:
    """Add what a release, newer than all in `found`, has otherwise.

    `folder` holds its package `vllm`.
    """
    names = sorted(_known(Release(number_of(version))))
    sources = Sources(folder)
    stand_ins = {_stand_in(name) for name in names}
    registered = sources.registered({*names, *stand_ins})
    for name in names:
        of = registered.get(name) or registered.get(_stand_in(name))
        if of is None:
            continue
        here = facts(sources, of)
        steps = found.setdefault(name, [])
        if not steps or {**steps[-1], "since": ""} != {**here, "since": ""}:
            steps.append({"since": version, **here})


def main(folder: Path) -> None:
    """Write the file."""
    OUTPUT.write_text(written(history(folder)), encoding="utf-8")


def written(classes: dict[str, list[dict[str, Any]]]) -> str:
    """Write the table, one step a line."""
    lines = ",\n".join(
        f"  {json.dumps(name)}: [\n    "
        + ",\n    ".join(json.dumps(step) for step in steps)
        + "\n  ]"
        for name, steps in sorted(classes.items())
    )
    source = (
        "vLLM's model classes, release by release: SupportsLoRA, embedding_modules, "
        "packed_modules_mapping, is_3d_moe_weight, is_non_gated_moe, get_mm_mapping; "
        "tools/lora_classes.py"
    )
    return f'{{\n"source": {json.dumps(source)},\n"classes": {{\n{lines}\n}}\n}}\n'


if __name__ == "__main__":
    main(Path(sys.argv[1]))
