"""Starts that a framework's or a platform's settings describe.

What a setting is to vLLM says the table of `frameworks`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from planner.engine.arguments import ARGUMENTS
from planner.engine.server import flag_named
from planner.errors import PlannerError
from planner.reading.documents.yaml_edits import added, added_below, passage_of
from planner.reading.documents.yaml_nodes import Node
from planner.reading.documents.yaml_words import as_it_is, list_of
from planner.reading.flag_values import typed
from planner.reading.passage import Edit
from planner.reading.reading import FoundStart, Kind
from planner.reading.scripts.shell import Command, Word, commands_of
from planner.reading.sites import Site, Start, WordList, shell_list
from planner.reading.starts.command import Program, env_site, flag_words, start_of
from planner.reading.starts.frameworks import (
    Framework,
    Setting,
    Settings,
    device_named,
    framework_of,
    framework_run_by,
    not_given,
    plainly,
    referred,
    refusal,
    setting_of,
    settings_in,
    settings_in_words,
    text_at,
    trains_beside,
)
from planner.reading.starts.images import version_of, visible
from planner.units import whole_number

_HF = re.compile(r"hf://\"?|huggingface://")
_INTERPOLATED = re.compile(r"\$\{[^}]*\}|\$[A-Za-z_]\w*|\?\?\?")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_TYPES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}
_FALSE = ("", "none", "null", "auto")
"""What leaves a setting to the framework."""
_NO_STARTS = ("echo", "printf", "pip", "pip3")
"""What names a program and runs none."""


def starts_of_document(
    root: Node, roots: Sequence[Node], text: str, *, is_last: bool = False
) -> Iterator[FoundStart | str]:
    """Yield the starts by the framework of a document, or why it has none.

    Args:
        root: the document.
        roots: all documents of its file.
        text: the whole text.
        is_last: whether nothing else reads it.
    """
    catalogue = root.get("catalog")  # of KubeAI's chart
    for key, entry in () if catalogue is None else catalogue.pairs:
        found = _start_of(entry, roots, text, is_last=is_last)
        if entry.word("enabled").lower() == "false" or found is None:
            continue
        if isinstance(found, FoundStart):
            found = replace(found, start=replace(found.start, shown=key.text))
        yield found
    found = _start_of(root, roots, text, is_last=is_last)
    if found is not None:
        yield found


def _start_of(
    root: Node, roots: Sequence[Node], text: str, *, is_last: bool
) -> FoundStart | str | None:
    is_variables = root.style == "names"
    settings: Settings = settings_in(root)
    row = framework_of(settings, text, is_variables=is_variables, is_last=is_last)
    if row is None:
        return None
    settings = referred(row, settings, roots)
    tables = partial(_add_to_tables, row, root, settings)
    add = partial(_add_nowhere, row) if is_variables else tables
    return refusal(row, settings) or _found(row, settings, text, add)


def start_of_variables(
    env: Mapping[str, Word], text: str, image: Word | None = None
) -> FoundStart | None:
    """Return the start that variables of a container or a process describe."""
    settings = {name: setting_of(word) for name, word in env.items()}
    named = "" if image is None else image.value
    row = framework_of(settings, f"{text} {named}", is_variables=True)
    if row is None or refusal(row, settings):
        return None
    found = _found(row, settings, text, partial(_add_nowhere, row))
    version = None if image is None else version_of(image)
    return replace(found, start=replace(found.start, version=version))


def starts_by_frameworks(
    commands: Sequence[Command], text: str
) -> Iterator[FoundStart | str]:
    """Yield the starts by the programs of frameworks, or why they start none."""
    for command in commands:
        line = " ".join(word.value for word in command.words)
        row = framework_run_by(line)
        begins = [word.value for word in command.words[:2]]
        if row is None or begins[0] in _NO_STARTS or begins[1:] == ["pip"]:
            continue
        found = shell_list(command.words, text)
        settings = settings_in_words(found)
        why = refusal(row, settings, line)
        add = partial(_add_to_words, row, found)
        yield why or _found(row, settings, text, add, visible(command.assigned))


def _found(
    row: Framework,
    settings: Settings,
    text: str,
    add: Callable[[str, object], list[Edit]],
    granted: int | None = None,
) -> FoundStart:
    start = _start(row, settings, text, add)
    machine = next((one for path in row.devices if (one := settings.get(path))), None)
    device = "" if machine is None else machine.word.value
    gpu, count = device_named(device)
    is_unknown = bool(device) and gpu is None
    said = f"The GPU {device[:80]} is not in the catalogue."
    count = start.gpus or count or granted
    several = next((one for path in row.nodes if (one := settings.get(path))), None)
    nodes = None if several is None else whole_number(several.word.value)
    sets = {
        name: (value, settings.get(path)) for name, (value, path) in row.sets.items()
    }
    if row.nodes and (count or 1) > 1:
        sets["tensor_parallel_size"] = (count, machine)
    if row.nodes and (nodes or 1) > 1:
        sets["pipeline_parallel_size"] = (nodes, several)
    return FoundStart(
        kind=Kind(row.kind),
        start=replace(
            start,
            sites=(*start.sites, *_set_by(sets, start)),
            gpu=gpu,
            gpus=None if count is None else count * (nodes or 1),
            open=(*start.open, *([said] if is_unknown else [])),
        ),
    )


def _set_by(
    sets: Mapping[str, tuple[object, Setting | None]], start: Start
) -> Iterator[Site]:
    """Yield the arguments that a controller gives vLLM where the text gives none."""
    for name, (value, setting) in sets.items():
        is_given = any(site.name == name for site in start.sites)
        if setting is not None and not is_given:
            yield Site(
                name=name,
                value=value,
                replace=partial(start.add, name),
                remove=list,
                written=f"what {start.shown} is",
                at=setting.at,
            )


def _start(
    row: Framework,
    settings: Settings,
    text: str,
    add: Callable[[str, object], list[Edit]],
) -> Start:
    """Return the start that a framework's settings describe."""
    sites, unknown = _models(row, settings)
    for path, setting in settings.items():
        name = "" if path in row.model else _argument(row, path)
        if name:
            sites.append(_site(name, path, setting))
    for path in row.words:
        if path in settings:
            sites += _of_words(settings[path], text)
    names = {site.name for site in sites}
    for name in row.sums.keys() - names:
        can_add = name in row.args.values()
        sites += _sum(name, row.sums[name], settings, add if can_add else _by_hand)
    unknown += not_given(row, names)
    whole = [
        f"{path} is {text_at(settings, path)[:40]}: GPUs or engines of the whole job."
        for path in row.shared
        if path in settings
    ]
    counts = [whole_number(text_at(settings, path)) for path in row.counts]
    release = next((settings[path] for path in row.version if path in settings), None)
    return Start(
        sites=tuple(sites),
        add=add,
        entrypoint=row.entrypoint,
        gpus=next((count for count in counts if count), None),
        version=None if release is None else _release(release.word),
        shown=text_at(settings, row.shown),
        trainer=row.name if trains_beside(row, settings) else "",
        notes=(*row.notes, *whole),
        open=(*row.open, *unknown),
    )


def _models(row: Framework, settings: Settings) -> tuple[list[Site], list[str]]:
    """Return the model, or a sentence where its name is not one of the Hub."""
    path = next((path for path in row.model if path in settings), None)
    if path is None:
        return [], []
    site = _model(row, settings[path], path)
    if site.value is None and not site.variables:
        value = settings[path].word.value[:80]
        return [], [f"The model {value} is not known: name it, model='org/name'."]
    return [site], []


def _release(word: Word) -> Site | None:
    if re.fullmatch(r"v?\d+\.\d+\.\d+\S*", word.value):
        return env_site("vllm_version", word.part(word.value.startswith("v")))
    return version_of(word)


def _model(row: Framework, setting: Setting, path: str) -> Site:
    """Return the model, without the scheme of its address."""
    word = setting.word
    scheme = _HF.match(word.value)
    if scheme is not None:
        end = len(word.value.partition("?")[0])
        part = word.part(scheme.end(), end)
        setting = replace(setting_of(part), at=setting.at)
    value: str | None = row.models.get(setting.word.value, setting.word.value)
    is_address = "://" in str(value) or (bool(row.models) and "/" not in str(value))
    site = _site("model", path, setting)
    return replace(site, value=None if is_address or site.variables else value)


def _argument(row: Framework, path: str) -> str:
    """Return the argument of vLLM that a setting is; empty for one of its own."""
    if path in row.args:
        return row.args[path]
    for table in row.tables:
        if path.startswith(f"{table}."):
            return _own(path[len(table) + 1 :])
    for prefix in row.prefixes:
        is_written = prefix or path.isupper() or bool(row.program) or row.is_last
        if is_written and path.startswith(prefix):
            name = path[len(prefix) :]
            found = row.args.get(name.lower()) or _own(name)
            if found:
                return found
    return ""


def _own(name: str) -> str:
    name = _CAMEL.sub("_", name).replace("-", "_").lower()
    if name in ARGUMENTS:
        return name
    known = flag_named("--" + name) if re.fullmatch(r"[a-z]\w*", name) else None
    return known[0] if known is not None and known[0] == name else ""


def _site(name: str, path: str, setting: Setting) -> Site:
    word = setting.word
    value = _value(name, setting)
    variables = word.variables or tuple(_INTERPOLATED.findall(word.value))
    if name.endswith("_parallel_size") and isinstance(value, str):  # such as "max"
        variables = variables or (value,)
    is_left = name != "model" and str(value).lower() in _FALSE
    return Site(
        name=name,
        value=None if variables or is_left else value,
        replace=setting.replace,
        remove=setting.remove,
        variables=variables,
        written=path,
        at=setting.at,
    )


def _value(name: str, setting: Setting) -> object:
    node = setting.node
    if node is not None and node.kind != "scalar":
        return node.value
    if node is not None and node.style == "json":
        return node.value
    text = setting.word.value
    if name == "model":
        return text
    if name == "dtype":
        return _TYPES.get(text, text)
    known = flag_named("--" + name)
    return typed(None if known is None else known[1], [text] if text else [])


def _of_words(setting: Setting, text: str) -> Sequence[Site]:
    """Return the arguments among words that a framework passes on."""
    node = setting.node
    program = Program(first=0, takes_model=False)
    if node is not None and node.items:
        return start_of(list_of(node, as_it_is), program, {}).sites
    page = setting.word.passage if node is None else passage_of(node)
    found = [shell_list(one.words, text) for one in commands_of(page)]
    return [site for one in found for site in start_of(one, program, {}).sites]


def _sum(
    name: str,
    parts: Sequence[str],
    settings: Settings,
    add: Callable[[str, object], list[Edit]],
) -> Iterator[Site]:
    """Yield the argument that a framework adds up from its own settings."""
    counts = [whole_number(text_at(settings, part)) for part in parts]
    if all(counts):
        yield Site(
            name=name,
            value=sum(count for count in counts if count),
            replace=partial(add, name),
            remove=partial(_by_hand, name),
            written=" + ".join(parts),
            at=tuple(span for part in parts for span in settings[part].at),
        )


def _by_hand(name: str, _value: object = None) -> list[Edit]:
    raise PlannerError(f"{name} is a sum of the framework's settings: change these.")


def _add_to_tables(
    row: Framework, root: Node, settings: Settings, name: str, value: object
) -> list[Edit]:
    """Return the edits that add an argument to a document of a framework."""
    paths = [path for path, own in row.args.items() if own == name and "." in path]
    paths += [f"{table}.{name}" for table in row.tables]
    paths += [path for path, own in row.args.items() if own == name and "." not in path]
    for path in paths:
        above, _, leaf = path.rpartition(".")
        table = root.get(*above.split(".")) if above else root
        if above.startswith("@"):  # in another object of the text
            table = _table_at(settings, above)
        if table is not None and table.pairs:
            return added(table, _like(table, leaf), value)
        outer, _, last = above.rpartition(".")
        holder = root.get(*outer.split(".")) if outer else root
        if holder is not None and holder.pairs:
            return added_below(holder, last, leaf, value)
    raise PlannerError(f"{row.name} has no place for {name} in this text.")


def _table_at(settings: Settings, path: str) -> Node | None:
    """Return the table whose entries have this path."""
    entries = {at.rpartition(".")[0]: one.table for at, one in settings.items()}
    return entries.get(path)


def _like(table: Node, name: str) -> str:
    return name.replace("_", "-") if any("-" in own for own in table.names) else name


def _add_to_words(
    row: Framework, found: WordList, name: str, value: object
) -> list[Edit]:
    """Return the edits that add an argument to a command of a framework."""
    paths = [path for path, own in row.args.items() if own == name]
    after = len(found.words) - 1
    if paths and "." in paths[0]:
        return found.insert(after, [f"{paths[0]}={plainly(value)}"])
    if paths:
        return found.insert(after, [f"--{paths[0]}", plainly(value)])
    if "" in row.prefixes:  # it has vLLM's own flags
        return found.insert(after, flag_words(name, value))
    raise PlannerError(f"{row.name} has no place for {name} in this command.")


def _add_nowhere(row: Framework, name: str, _value: object) -> list[Edit]:
    """Refuse to add a variable, whose form this text may not have."""
    raise PlannerError(f"Add {name} to the variables of {row.name} by hand.")
