"""Typed reading of a config.json, with the defaults of its configuration class."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextvars import ContextVar
from copy import copy
from functools import cache
from typing import Any

from planner.data import DATA
from planner.errors import UnknownArchitecture


@cache
def _config_defaults() -> Mapping[str, Mapping[str, Any]]:
    path = DATA / "config_defaults.json"
    table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    del table["source"]
    return table


@cache
def own_defaults(name: str) -> Mapping[str, Any]:
    """Return the defaults of a class that is vLLM's own, or comes with its models.

    Source: `data/own_defaults.json`, with the file of each class.
    """
    path = DATA / "own_defaults.json"
    table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    values: dict[str, Any] = table[name]["values"]
    return values


_EXTRA_DEFAULTS = {"mimo": {"tie_word_embeddings": False}}
"""Defaults of configuration classes that come with a model, by model type."""

_MOST = 1 << 40
"""More than any size, count or length of a model."""

_MOST_LAYERS = 2_000
_COUNTS_OF_LAYERS = ("layers", "layer", "depth", "blocks", "depths")
"""How the names of such fields end: each layer is built, so their number is limited."""
_LONGEST_SHOWN = 60
_PAIR = 2

_last_field: ContextVar[str] = ContextVar("last field", default="")


def last_field() -> str:
    """Return the field read last and its value, for a reader that then failed."""
    return _last_field.get()


class Facts:
    """A config, and the defaults of its configuration class for what it lacks.

    Names are tried in order, first in the config, then in the defaults.

    Source of the defaults: Transformers' configuration classes, through which vLLM
    reads config.json (`data/config_defaults.json`, `tools/config_defaults.py`).
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        model_type: str,
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        """Read `config` with the defaults of `model_type`, `defaults` over them."""
        self.config = config
        self.model_type = model_type
        table = _config_defaults()
        self._defaults = {**table.get(model_type, {}), **(defaults or {})}
        self._names: Mapping[str, tuple[str, ...]] = {}

    def called(
        self, names: Mapping[str, tuple[str, ...]], given: Mapping[str, object]
    ) -> Facts:
        """Return the config as asked by usual names.

        Args:
            names: the config's own, by the usual one.
            given: values that stand for what the config says.
        """
        same = copy(self)
        same.config = {**self.config, **given}
        same._names = names
        return same

    def having(self, **given: object) -> Facts:
        """Return the config with other values for some of its fields."""
        return Facts({**self.config, **given}, self.model_type)

    def _own(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the config's names of what is asked by usual ones."""
        if not self._names:
            return names
        own = (one for name in names for one in self._names.get(name, (name,)))
        return tuple(dict.fromkeys(own))

    def value(self, *names: str) -> Any:  # noqa: ANN401 - the untyped border
        """Return the first value that is given, or None.

        A null in the config is an answer: the class default does not replace it.
        """
        return self._value(self._own(names))

    def _value(self, names: tuple[str, ...]) -> Any:  # noqa: ANN401 - the untyped border
        found = self._find(names)
        _last_field.set(f"{' or '.join(names)} = {_short(found)}")
        return found

    def _find(self, names: tuple[str, ...]) -> Any:  # noqa: ANN401 - the untyped border
        given = [name for name in names if name in self.config]
        for source, keys in ((self.config, given), (self._defaults, names)):
            for name in keys:
                if source.get(name) is not None:
                    return source[name]
            if given:
                return None
        return None

    def integer(self, *names: str, default: int | None = None, least: int = 0) -> int:
        """Return a whole number from `least`.

        Raises:
            UnknownArchitecture: when the config lacks it or holds something else.
        """
        names = self._own(names)
        value: Any = self._value(names)
        if value is None and default is None:
            raise self._lacking(names)
        if value is None:
            value = default
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        most = _MOST_LAYERS if names[0].endswith(_COUNTS_OF_LAYERS) else _MOST
        if not is_whole or not least <= value <= most:
            raise UnknownArchitecture(
                f"config.json of model type {self.model_type!r}: "
                f"{self._called(names)} is {_short(value)}, a whole number from "
                f"{least} to {most:,} is needed."
            )
        return int(value)

    def _lacking(self, names: tuple[str, ...]) -> UnknownArchitecture:
        return UnknownArchitecture(
            f"config.json of model type {self.model_type!r}: {self._called(names)} is "
            "None: vLLM's class needs it, and there is no default. Use the "
            "config.json that the model was published with, as copies often leave "
            f"fields out, or add {names[0]}."
        )

    def _called(self, names: tuple[str, ...]) -> str:
        """Return the name that the config uses, or all it might have used."""
        given = [name for name in names if name in self.config]
        return given[0] if given else " or ".join(names)

    def integers(self, *names: str) -> tuple[int, ...]:
        """Return several whole numbers from 0."""
        return tuple(self.integer(name) for name in names)

    def optional_integer(self, *names: str) -> int | None:
        """Return a whole number, or None when the config has none."""
        return None if self.value(*names) is None else self.integer(*names)

    def number(self, *names: str, default: float | None = None) -> float:
        """Return a number from 0, such as a factor or a ratio.

        Raises:
            UnknownArchitecture: when the config lacks it or holds something else.
        """
        names = self._own(names)
        value: Any = self._value(names)
        if value is None:
            value = default
        if value is None:
            raise self._lacking(names)
        if isinstance(value, bool) or not isinstance(value, int | float):
            value = -1
        if not 0 <= value <= _MOST:
            raise UnknownArchitecture(
                f"config.json of model type {self.model_type!r}: "
                f"{self._called(names)} is {_short(self._value(names))}, a number "
                f"from 0 to {_MOST:,} is needed."
            )
        return float(value)

    def pair(self, name: str) -> tuple[int, int]:
        """Return two whole numbers from 1, such as the rows and columns of a patch.

        Raises:
            UnknownArchitecture: when the config holds something else.
        """
        value: Any = self.value(name)
        if not isinstance(value, list | tuple) or len(value) != _PAIR:
            raise UnknownArchitecture(
                f"config.json of model type {self.model_type!r}: {name} is "
                f"{_short(value)}, two whole numbers are needed."
            )
        first, second = (
            Facts({name: one}, self.model_type).integer(name, least=1) for one in value
        )
        return first, second

    def flag(self, *names: str, default: bool = False) -> bool:
        """Return whether a field is set to true."""
        value = self.value(*names)
        return default if value is None else bool(value)

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Return a nested mapping, empty when the config has none."""
        value = self.value(name)
        return value if isinstance(value, Mapping) else {}

    def unsupported(self, name: str, why: str) -> UnknownArchitecture:
        """Build the error for a field whose memory the planner does not know."""
        return UnknownArchitecture(
            f"config.json of model type {self.model_type!r}: "
            f"{name} = {self.value(name)!r} is not modelled: {why}"
        )


def facts_for(config: Mapping[str, Any], model_type: str) -> Facts:
    """Return the config of a whole model, with the defaults of its class."""
    return Facts(config, model_type, _EXTRA_DEFAULTS.get(model_type))


def _short(value: object) -> str:
    """Return a value as text that fits into a message."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."
