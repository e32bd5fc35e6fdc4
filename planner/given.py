"""Arguments of public functions: of a wrong type, they end in a sentence.

Nothing is checked before a call: a plan takes a millisecond. Where one fails, its
arguments are compared with the function's annotations, and what does not fit is named.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from planner.errors import PlannerError, Refused

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")
_LONGEST = 80
"""Characters of a value that are shown."""
_WORDS = {
    "str": (str, "a text"),
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
    "bool": (bool, "True or False"),
    "None": (type(None), "None"),
    "PathLike": (os.PathLike, "a path"),
    "Mapping": (Mapping, "a dictionary"),
    "dict": (dict, "a dictionary"),
    "list": (list, "a list"),
    "tuple": (tuple, "a tuple"),
    "Iterable": (Iterable, "a list"),
    "Sequence": (Sequence, "a list"),
}
_GENERIC = r"(?s)([\w.]+)(?:\[(.*)\])?\Z"
_Types = list[tuple[str, list[str]]]
"""Names of types, each with the types of its elements."""


def named_in_errors(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Make a public function name the argument whose type it cannot take.

    Raises:
        PlannerError: by the function made, where one of its own errors is due to that.
    """

    @wraps(function)
    def call(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        try:
            return function(*args, **kwargs)
        except (PlannerError, Refused):
            raise
        except RecursionError:
            raise PlannerError(
                f"{function.__name__}: an argument is nested too deeply."
            ) from None
        except OverflowError:
            raise PlannerError(
                f"{function.__name__}: a number of the model or of an argument is "
                "larger than any machine can hold."
            ) from None
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            for sentence in _unfit(function, args, kwargs):
                raise PlannerError(sentence) from None
            raise

    return call


def _unfit(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[str]:
    """Yield a sentence on each argument that is not of its annotated type."""
    signature = inspect.signature(function)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:  # Python's own words tell what is missing or not known
        return
    scope = getattr(function, "__globals__", {})
    for name, value in given.items():
        one = signature.parameters[name]
        types = _types(str(one.annotation), scope)
        values = value if one.kind is one.VAR_POSITIONAL else (value,)
        if one.kind is one.VAR_KEYWORD:
            continue
        for single in values:
            if not _fits(single, types, scope):
                yield (
                    f"{name}={_shown(single)}: {_words(types)} is needed, not "
                    f"{_with_article(type(single).__name__)}."
                )


def _types(annotation: str, scope: Mapping[str, Any]) -> _Types:
    """Return the types that an annotation allows; an alias stands for its own."""
    found: _Types = []
    for part in _split(annotation, "|"):
        match = re.match(_GENERIC, part)
        if match is None:
            continue
        name = match[1].rpartition(".")[2]
        alias = scope.get(name)
        if isinstance(alias, str):
            found += _types(alias, scope)
        else:
            found.append((name, _split(match[2] or "", ",")))
    return found


def _split(text: str, at: str) -> list[str]:
    """Split a text where it is not within brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "[") - (char == "]")
        if char == at and not depth:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


def _fits(value: object, types: _Types, scope: Mapping[str, Any]) -> bool:
    return any(_is_of(value, name, inner, scope) for name, inner in types)


def _is_of(
    value: object, name: str, inner: Sequence[str], scope: Mapping[str, Any]
) -> bool:
    if name not in _WORDS:
        own = [cls.__name__ for cls in type(value).__mro__]
        is_class = name[0].isupper() and name not in ("Any", "Callable", "Literal")
        known = scope.get(name)
        return not is_class or name in own or not isinstance(known, type | None)
    kind: Any = _WORDS[name][0]
    if not isinstance(value, kind) or (
        name in ("Iterable", "Sequence") and isinstance(value, str | bytes)
    ):
        return False
    if isinstance(value, Mapping) and len(inner) > 1:
        return all(
            _fits(key, _types(inner[0], scope), scope)
            and _fits(one, _types(inner[1], scope), scope)
            for key, one in value.items()
        )
    if isinstance(value, list | tuple) and inner:
        return all(_fits(one, _types(inner[0], scope), scope) for one in value)
    return True


def _words(types: _Types) -> str:
    named = [
        _WORDS[name][1] if name in _WORDS else _with_article(name) for name, _ in types
    ]
    return " or ".join(dict.fromkeys(named))


def _with_article(name: str) -> str:
    if name == "NoneType":
        return "None"
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested deeply, or of too many digits
        return type(value).__name__
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
