"""A field for each engine argument that the planner knows, by vLLM's groups."""

from __future__ import annotations

from planner.app.widgets import parsing
from planner.app.widgets.fields import (
    VLLMS_CHOICE,
    ChoiceField,
    EntryField,
    Field,
    SwitchField,
)
from planner.engine.arguments import ARGUMENTS, Argument, Group, Kind

SECRET = ("hf_token",)
"""Has no control: a page must not hold a token. vLLM reads HF_TOKEN."""

_ENTRIES = {
    Kind.WHOLE: parsing.WHOLE,
    Kind.COUNT: parsing.COUNT,
    Kind.LENGTH: parsing.LENGTH,
    Kind.SIZE: parsing.TEXT,
    Kind.NUMBER: parsing.NUMBER,
    Kind.SHARE: parsing.NUMBER,
    Kind.TEXT: parsing.TEXT,
    Kind.TABLE: parsing.JSON,
    Kind.NAMES: parsing.LIST,
    Kind.NUMBERS: parsing.LIST,
}


def field_of(name: str) -> Field:
    """Return a field for an argument, which shows vLLM's default."""
    argument = ARGUMENTS[name]
    field = _made(argument)
    field.title = argument.label
    field.show_default(argument.default)
    return field


def _made(argument: Argument) -> Field:
    name, hint = argument.name, argument.hint
    if argument.kind is Kind.SWITCH:
        return SwitchField(name, hint)
    if argument.kind is Kind.CHOICE:
        return _choice(argument, argument.choices)
    if argument.offered:
        return _choice(argument, argument.offered)
    return EntryField(name, hint, _ENTRIES[argument.kind])


def _choice(argument: Argument, words: tuple[str | int, ...]) -> ChoiceField:
    options = [(str(word), word) for word in words]
    return ChoiceField(argument.name, argument.hint, [(VLLMS_CHOICE, None), *options])


def groups(without: frozenset[str]) -> dict[Group, list[Field]]:
    """Return a field for each argument except `without` and secrets, by group."""
    made: dict[Group, list[Field]] = {group: [] for group in Group}
    for argument in ARGUMENTS.values():
        if argument.name not in (*without, *SECRET) and not argument.gone:
            made[argument.group].append(field_of(argument.name))
    return {group: fields for group, fields in made.items() if fields}
