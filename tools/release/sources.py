"""Names and defaults that a release's sources list; nothing is imported."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from email.parser import HeaderParser
from functools import lru_cache
from pathlib import Path

from tools import release_history

NAMES = {
    "architectures": "Architectures",
    "arguments": "Engine arguments",
    "kv_cache_dtypes": "KV cache dtypes",
    "quantization": "Quantisation methods",
    "variables": "Environment variables",
    "backends": "Attention backends",
    "requirements": "Packages that it requires",
    "dropped_architectures": "Architectures that vLLM says it dropped",
}
"""What is a name only, with the heading that the report gives it."""
VALUES = {
    "batch_defaults": "Default batch sizes by GPU",
    "config_defaults": "Defaults of configuration classes",
}
"""What is a name with a value."""

_HOLDS_MEMORY = re.compile(
    r"(?:torch|transformers|flashinfer|nvidia-\w+|humming|compressed|triton"
    r"|tokenspeed-mla|safetensors|ray|xgrammar|tilelang|apache-tvm|quack)\b"
)

_BATCHES = (
    *("get_batch_defaults", "_set_default_args_v1"),
    "_set_default_max_num_seqs_and_batched_tokens_args",
)
"""Where releases keep the defaults that depend on the GPU."""


@lru_cache(maxsize=4096)
def parsed(path: Path) -> ast.Module:
    """Return the syntax of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def names(package: Path) -> dict[str, list[str]]:
    """Return the names of each kind in NAMES; architectures in the registry's order."""
    found = {
        "architectures": release_history.architectures(package),
        "arguments": release_history.arguments(package),
        "kv_cache_dtypes": release_history.kv_cache_dtypes(package),
        "quantization": quantization_methods(package),
        "variables": release_history.variables_of(package),
        "backends": backends(package),
        "requirements": requirements(package),
        "dropped_architectures": dropped(package),
    }
    return {kind: list(dict.fromkeys(each)) for kind, each in found.items()}


def values(package: Path) -> dict[str, dict[str, str]]:
    """Return the values of each kind in VALUES, as vLLM's source has them."""
    return {
        "batch_defaults": dict(batch_defaults(package)),
        "config_defaults": dict(config_defaults(package)),
    }


def quantization_methods(package: Path) -> Iterator[str]:
    """Yield the values of `quantization` that a release knows."""
    path = package / "model_executor" / "layers" / "quantization" / "__init__.py"
    for node in parsed(path).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            left = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(left) in ("QuantizationMethods", "QUANTIZATION_METHODS"):
                yield from _strings(node.value)


def backends(package: Path) -> Iterator[str]:
    """Yield the attention backends that a release lists, Mamba's too."""
    path = package / "v1" / "attention" / "backends" / "registry.py"
    for node in parsed(path).body if path.is_file() else ():
        if isinstance(node, ast.ClassDef) and node.name.endswith("BackendEnum"):
            for part in node.body:
                if isinstance(part, ast.Assign):
                    yield ast.unparse(part.targets[0])


def requirements(package: Path) -> Iterator[str]:
    """Yield what a release requires of packages that hold memory, with versions."""
    for path in package.parent.glob("vllm-*.dist-info/METADATA"):
        named = HeaderParser().parsestr(path.read_text(encoding="utf-8"))
        for one in named.get_all("Requires-Dist") or []:
            if _HOLDS_MEMORY.match(one) and "extra ==" not in one:
                yield one.partition(";")[0].strip()


def dropped(package: Path) -> Iterator[str]:
    """Yield the architectures that vLLM refuses with the release that dropped them."""
    path = package / "model_executor" / "models" / "registry.py"
    for node in parsed(path).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(
            node.value, ast.Dict
        ):
            left = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(left) == "_PREVIOUSLY_SUPPORTED_MODELS":
                for key, value in zip(node.value.keys, node.value.values, strict=True):
                    if isinstance(key, ast.Constant):
                        last = ast.literal_eval(value)
                        yield str(key.value) + f" (last in {last})"


def batch_defaults(package: Path) -> Iterator[tuple[str, str]]:
    """Yield the batch sizes that depend on the GPU, each under its conditions."""
    for node in ast.walk(parsed(package / "engine" / "arg_utils.py")):
        if isinstance(node, ast.FunctionDef) and node.name in _BATCHES:
            for condition, statement in _under(node.body, ()):
                value = statement.value
                if isinstance(value, ast.Dict) and isinstance(statement, ast.Assign):
                    name = ast.unparse(statement.targets[0])
                    yield f"{name} if {condition or 'true'}", ast.unparse(value)


def _under(
    body: list[ast.stmt], conditions: tuple[str, ...]
) -> Iterator[tuple[str, ast.Assign | ast.AnnAssign]]:
    """Yield assignments with the conditions above them."""
    for node in body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            yield " and ".join(conditions), node
        elif isinstance(node, ast.If):
            test = ast.unparse(node.test)
            yield from _under(node.body, (*conditions, f"({test})"))
            yield from _under(node.orelse, (*conditions, f"not ({test})"))
        elif isinstance(node, ast.Try):
            yield from _under(node.body, conditions)


def config_defaults(package: Path) -> Iterator[tuple[str, str]]:
    """Yield the default of each field of vLLM's configuration classes."""
    folder = package / "config"
    files = sorted(folder.glob("*.py")) if folder.is_dir() else [package / "config.py"]
    for path in files:
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef):
                for field in node.body:
                    if isinstance(field, ast.AnnAssign) and field.value is not None:
                        name = f"{node.name}.{ast.unparse(field.target)}"
                        yield name, ast.unparse(field.value)


def _strings(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value
