"""The planner's data files, each with what one new release changes.

Each writer takes what the file holds and adds what the release has, so that no other
release's sources are needed. What a file holds that was written by hand stays.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from tools import argument_table, lora_classes, release_history, server_flags
from tools.release.following import FOLLOWING, followed

Names = Mapping[str, list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """An installed release, and what was known before it."""

    release: str
    python: str
    """Of the environment in which it is installed."""
    packages: Path
    """The folder that holds its package `vllm`."""
    names: Names
    """What its sources list, as `sources.names`."""
    before: Names
    """The same of the last release."""
    root: Path
    """Of the planner's repository."""

    @property
    def data(self) -> Path:
        """The planner's data files."""
        return self.root / "planner" / "data"

    @property
    def parser(self) -> Path:
        """Where the flags of its `vllm serve` are recorded."""
        return self.root / "tests" / "data" / "parsers" / f"{self.release}.json"


def write(wheel: Wheel) -> list[str]:
    """Write every file; return the names of those that changed.

    The parser comes first, for others read it, and the release itself last.
    """
    changed = []
    for path, make in writers(wheel).items():
        file = wheel.root / path
        before = file.read_text(encoding="utf-8") if file.is_file() else ""
        after = make(wheel, before)
        if after != before:
            file.write_text(after, encoding="utf-8")
            changed.append(path)
    return changed


def writers(wheel: Wheel) -> dict[str, Callable[[Wheel, str], str]]:
    """Return what makes each file, in order."""
    parser = wheel.parser.relative_to(wheel.root).as_posix()
    return {
        parser: recorded_parser,
        "planner/data/release_history.json": history,
        "planner/data/variables.json": variables,
        "planner/data/model_type_history.json": model_type_history,
        "planner/data/model_types.txt": model_types,
        "planner/data/vllm_architectures.txt": architectures,
        "planner/data/transformers_architectures.txt": transformers_architectures,
        "planner/data/config_defaults.json": config_defaults,
        "planner/data/lora_classes.json": adapters,
        "planner/data/server_flags.json": flags,
        "planner/data/arguments.json": arguments,
        "planner/engine/releases/__init__.py": releases,
        **{path: partial(following, pattern=one) for path, one in FOLLOWING.items()},
    }


def asked(wheel: Wheel, tool: str, *words: str) -> str:
    """Return what a tool writes in the Python of the release.

    Raises:
        SystemExit: with the end of what it said, when it fails.
    """
    command = [wheel.python, str(wheel.root / "tools" / tool), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"tools/{tool} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def recorded_parser(wheel: Wheel, _before: str) -> str:
    """Return the flags of `vllm serve`, as the release's own parser has them."""
    wheel.parser.parent.mkdir(parents=True, exist_ok=True)
    asked(wheel, "record_parser.py", str(wheel.parser))
    return wheel.parser.read_text(encoding="utf-8")


def history(wheel: Wheel, before: str) -> str:
    """Add arguments, architectures and KV cache dtypes that the last one had not."""
    table: dict[str, dict[str, str]] = json.loads(before)
    for kind, firsts in table.items():
        known = {*wheel.before[kind], *firsts}
        new = [name for name in wheel.names[kind] if name not in known]
        firsts.update(dict.fromkeys(new, wheel.release))
    return json.dumps(table, indent=1, sort_keys=True) + "\n"


def variables(wheel: Wheel, before: str) -> str:
    """Add environment variables that came, and the release with which others went."""
    table: dict[str, list[str]] = json.loads(before)
    here = {*wheel.names["variables"]}
    for name, row in table.items():
        if name in here:
            row[1] = ""
        elif not row[1]:
            row[1] = wheel.release
    for name in here - {*table}:
        table[name] = [wheel.release, ""]
    return release_history.compact(dict(sorted(table.items()))) + "\n"


def model_types(wheel: Wheel, _before: str) -> str:
    """Return the model types that the release and its Transformers know."""
    return asked(wheel, "model_types.py")


def model_type_history(wheel: Wheel, before: str) -> str:
    """Add model types that were not known; leave out those that no longer are."""
    firsts: dict[str, str] = json.loads(before)
    listed = (wheel.data / "model_types.txt").read_text(encoding="utf-8")
    known = {*listed.splitlines()[1:]}
    here = {*model_types(wheel, "").splitlines()[1:]}
    firsts |= dict.fromkeys(here - known - {*firsts}, wheel.release)
    left = {name: first for name, first in firsts.items() if name in here}
    return json.dumps(left, indent=1, sort_keys=True) + "\n"


def architectures(wheel: Wheel, _before: str) -> str:
    """Return the registry's names in its order, which refusals list."""
    head = f"# vLLM {wheel.release} `models/registry.py` _VLLM_MODELS, in its order"
    return "\n".join([head, *wheel.names["architectures"]]) + "\n"


def transformers_architectures(wheel: Wheel, _before: str) -> str:
    """Return the model classes of the release's Transformers."""
    return asked(wheel, "model_types.py", "--classes")


def config_defaults(wheel: Wheel, _before: str) -> str:
    """Return the defaults of configuration classes in the release's Transformers."""
    return asked(wheel, "config_defaults.py")


def adapters(wheel: Wheel, before: str) -> str:
    """Add what the release's classes let adapters change otherwise.

    An older class that the table leaves out stays out: nobody has compared what the
    planner makes of its adapters.
    """
    classes = json.loads(before)["classes"]
    known = {*classes}
    lora_classes.add(classes, wheel.packages, wheel.release)
    came = {*wheel.names["architectures"]} - {*wheel.before["architectures"]}
    kept = {name: steps for name, steps in classes.items() if name in known | came}
    return lora_classes.written(kept)


def flags(wheel: Wheel, before: str) -> str:
    """Add the server's flags that came, and the release with which others went."""
    engine = {*wheel.names["arguments"]}
    every = server_flags.flags_of(wheel.packages, wheel.release)
    found = {name: flag for name, flag in every.items() if name not in engine}
    table = server_flags.added(json.loads(before), found, wheel.release)
    return server_flags.written(table) + "\n"


def arguments(wheel: Wheel, before: str) -> str:
    """Add arguments that came, with what the parser says; mark those that went."""
    rows: dict[str, dict[str, Any]] = argument_table.table(wheel.packages, wheel.parser)
    for name in {*wheel.before["arguments"]} - {*wheel.names["arguments"]}:
        rows[name].setdefault("gone", wheel.release)
    return argument_table.written(rows) if rows != json.loads(before) else before


def releases(wheel: Wheel, before: str) -> str:
    """Put the release first in MODELLED, in a line of its own, and note the day."""
    if f'"{wheel.release}"' in before:
        return before
    row = f'MODELLED = (\n    "{wheel.release}",\n'
    day = f'NEWEST_ON = "{datetime.now(tz=UTC).date()}"'
    text = re.sub(r"^MODELLED = \(\n", row, before, count=1, flags=re.MULTILINE)
    return re.sub(r"^NEWEST_ON = .*", day, text, count=1, flags=re.MULTILINE)


def following(wheel: Wheel, before: str, pattern: re.Pattern[str]) -> str:
    """Name the release where the newest one is named."""
    return followed(before, pattern, wheel.release)
