"""Each entry point of the planner with drawn input; what is wrong is an `Escaped`."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import logging
import os
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import planner
from planner.engine.arguments import ARGUMENTS
from planner.engine.gpu import catalogue as gpus
from planner.engine.releases import NEWEST
from planner.errors import PlannerError, Refused
from planner.models import catalogue
from planner.models.families import read
from planner.models.files import ModelFiles
from planner.planning.planning import plan
from tests.fuzz import tables
from tests.fuzz.repeated import repeated as repeated_text
from tests.fuzz.values import (
    PIECES,
    TEXTS,
    cut,
    nested,
    number,
    python_value,
    spoilt,
    value,
)

LONGEST_SENTENCE = 30_000
"""Characters; vLLM lists all of its architectures where it knows none."""
DATA = Path(__file__).parents[1] / "data"
MODEL = "Qwen/Qwen3-8B"
_SMALL = ("Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B-Instruct", "google/gemma-3-4b-it")


class Escaped(AssertionError):  # noqa: N818 - what did, not what is wrong
    """Something that is neither a result nor a sentence."""


@contextlib.contextmanager
def sentences() -> Iterator[None]:
    """Let refusals pass that say something, in few words."""
    try:
        yield
    except (PlannerError, Refused) as error:
        if not 0 < len(str(error)) <= LONGEST_SENTENCE:
            raise Escaped(
                f"{len(str(error))} characters: {str(error)[:200]}"
            ) from error


@cache
def configs() -> tuple[tuple[str, dict[str, Any]], ...]:
    """Return the bundled models' configs."""
    found = ((row.name, catalogue.find(row.name)) for row in catalogue.entries())
    return tuple((name, dict(files.config)) for name, files in found if files)


@cache
def texts() -> tuple[str, ...]:
    """Return texts as people have them, to be spoilt."""
    paths = [path for path in sorted((DATA / "texts").iterdir()) if _is_text(path)]
    return tuple(path.read_text("utf-8")[:LONGEST_SENTENCE] for path in paths)


def _is_text(path: Path) -> bool:
    return path.suffix != ".json"


@cache
def logs() -> tuple[str, ...]:
    """Return logs to be spoilt."""
    return tuple(
        path.read_text("utf-8") for path in sorted((DATA / "logs").glob("*.log"))
    )


def shown(result: Any) -> None:
    """Show a plan in the ways that people see it."""
    str(result)
    json.dumps(result.to_dict())


def config(random: Random) -> None:
    """A config.json whose fields are dropped, retyped or nested."""
    _, table = random.choice(configs())
    with sentences():
        model = read(
            ModelFiles(name="fuzzed", config=spoilt(table, random), source="x")
        )
        options = _few_arguments(random) if random.random() < 0.3 else {}
        shown(plan(model, gpu="H100", **options))


def _few_arguments(random: Random) -> dict[str, Any]:
    names = random.sample(sorted(ARGUMENTS), random.randint(1, 3))
    return {name: python_value(random) for name in names}


def arguments(random: Random) -> None:
    """Engine arguments, GPU, release and variables of odd types."""
    options = _few_arguments(random)
    start = {
        "gpu": "H100",
        "vllm_version": NEWEST,
        "entrypoint": "serve",
        "env": None,
    }
    for name in start:
        if random.random() < 0.15:
            options[name] = python_value(random)
    with sentences():
        shown(planner.plan(random.choice(_SMALL), **options))


def inner(random: Random) -> None:
    """A JSON argument, or two, whose inner values are spoilt."""
    name, _ = random.choice(configs())
    pairs = random.sample(tables.ARGUMENTS, random.randint(1, 2))
    options = {argument: spoilt(table, random) for argument, table in pairs}
    with sentences():
        result = planner.plan(name, gpu="H100", **options)
        shown(result)
        result.command()
        if random.random() < 0.1:
            str(planner.advise(result))


def side_files(random: Random) -> None:
    """A folder with a spoilt params.json alone, or a spoilt file beside a config."""
    folder = Path(tempfile.mkdtemp(prefix="planner-fuzz-"))
    try:
        if random.random() < 0.5:
            name, table = "params.json", dict(random.choice(tables.MISTRAL))
        else:
            name, table = random.choice(tables.BESIDE)
            kept = random.choice(configs())[1]
            (folder / "config.json").write_text(json.dumps(kept, default=str))
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(spoilt(table, random), default=str))
        with sentences():
            shown(planner.plan(folder, gpu="H100"))
    finally:
        shutil.rmtree(folder)


@cache
def base() -> Any:
    """Return a plan that functions take."""
    return planner.plan(MODEL, gpu="L4", max_model_len=8192)


@cache
def functions() -> Mapping[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Return the public functions, with the arguments that each must be given."""
    solve, export = planner.solve, planner.export
    given: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "plan": (planner.plan, (MODEL,)),
        "advise": (planner.advise, (base(),)),
        "compare": (planner.compare, (base(), base())),
        "compare_gpus": (planner.compare_gpus, (base(),)),
        "sweep": (planner.sweep, (base(),)),
        "upgrade": (planner.upgrade, (base(),)),
        "speed_bound": (planner.speed_bound, (base(),)),
        "speed_forecast": (planner.speed_forecast, (base(),)),
        "read": (planner.read, ("vllm serve a/b",)),
        "read_log": (planner.read_log, ("x",)),
        "read_link": (export.read_link, ("model=a/b",)),
        "read_yaml": (export.read_yaml, ("model: a/b",)),
        "GPU": (planner.GPU, ()),
        "GPU.named": (planner.GPU.named, ("H100",)),
        "Load": (planner.Load, ()),
        "changed": (base().changed, ()),
        "pipeline": (planner.ray.pipeline, (MODEL,)),
    }
    given |= {f"solve.{one}": (getattr(solve, one), (base(),)) for one in _SOLVERS}
    given |= {f"export.{one}": (getattr(export, one), (base(),)) for one in _EXPORTS}
    return given


_SOLVERS = (
    *("fewest_gpus", "instances_on_one_gpu", "layouts", "longest_context"),
    *("most_requests", "smallest_kv_cache_memory", "smallest_utilization", "serving"),
)
_EXPORTS = (
    "compose",
    "csv",
    "html",
    "json",
    "kubernetes",
    "link",
    "markdown",
    "python",
)


def calls(random: Random) -> None:
    """Public functions with arguments of odd types."""
    function, usual = functions()[random.choice(sorted(functions()))]
    taken = [
        one
        for one in inspect.signature(function).parameters.values()
        if one.kind is not one.VAR_KEYWORD
    ]
    places = [one for one in taken if one.kind is one.POSITIONAL_OR_KEYWORD]
    positional = list(usual[: len(places)])
    named = {}
    for one in taken:
        if one.kind is one.KEYWORD_ONLY and random.random() < 0.5:
            named[one.name] = _fitting(one.name, random)
    if positional and random.random() < 0.4:
        positional[random.randrange(len(positional))] = python_value(random)
    for one in places[len(positional) :]:
        if one.default is one.empty or random.random() < 0.4:
            positional.append(_fitting(one.name, random))
    with sentences(), _own_type_errors():
        str(function(*positional, **named))


def _fitting(name: str, random: Random) -> Any:
    if random.random() < 0.4:
        usual = {
            "load": planner.Load(prompt_tokens=100, output_tokens=10),
            "gpu": "L4",
            "model": MODEL,
            "over": {"max_model_len": [1024, 2048]},
            "to": "0.32.0",
            "gpus": ("L4", "H100"),
            "prices": {"L4": 1.0},
        }
        if name in usual:
            return usual[name]
    return python_value(random)


@contextlib.contextmanager
def _own_type_errors() -> Iterator[None]:
    """Let Python's own refusal of a call pass: an argument missing or unknown."""
    try:
        yield
    except TypeError as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = "" if trace is None else trace.tb_frame.f_code.co_filename
        if not place.endswith(("tests/fuzz/entries.py", "planner/given.py")):
            raise


_PIPELINE: dict[str, Any] = {
    "concurrency": [1, 4],
    "accelerator_type": "H100",
    "ray_version": "2.60",
    "batch_size": 64,
    "max_concurrent_batches": 8,
    "max_pending_requests": 10,
    "preprocess_map_kwargs": {"num_gpus": 0.5, "concurrency": 2, "resources": {"a": 1}},
    "postprocess_map_kwargs": {"num_cpus": 1, "memory": 1000},
    "tokenize_stage": {"num_cpus": 1, "concurrency": 2},
    "placement_group_config": {"bundles": [{"GPU": 1, "CPU": 1}], "strategy": "PACK"},
}
_NODE_TYPE = {"name": "n", "gpus": 8, "cpus": 96, "min_nodes": 0, "max_nodes": 4}


def ray(random: Random) -> None:
    """A pipeline of Ray Data LLM and a type of node, spoilt."""
    names = random.sample(sorted(_PIPELINE), random.randint(1, 4))
    options = spoilt({name: _PIPELINE[name] for name in names}, random)
    options = {name: one for name, one in options.items() if name in _PIPELINE}
    fields = spoilt(_NODE_TYPE, random) if random.random() < 0.4 else _NODE_TYPE
    fields = {name: one for name, one in fields.items() if name in _NODE_TYPE}
    with sentences():
        found = planner.ray.pipeline(base(), **options)
        shown(found)
        if random.random() < 0.5:
            planner.export.ray_cluster(found)
        kind = planner.ray.NodeType(**({"name": "n"} | fields))
        needed = found.nodes_needed([kind])
        shown(found.on(needed.nodes()))


def log(random: Random) -> None:
    """A log of vLLM, spoilt."""
    text = cut(random.choice(logs()), random)
    with sentences():
        json.dumps(planner.read_log(text).to_dict())
        _understood(text)


def text(random: Random) -> None:
    """A command, manifest, code or note, spoilt."""
    with sentences():
        _understood(cut(random.choice(texts()), random, (*PIECES, *texts())))


def repeated(random: Random) -> None:
    """A long text of one repeated fragment, read and shown."""
    with sentences():
        found = planner.read(repeated_text(random))
        json.dumps(found.to_dict())
        str(found)


def _understood(given: str) -> None:
    if len(given.strip()) < 300 and "/" in given and "\n" not in given:
        given += "\n#"  # no path of this machine, no address
    found = planner.read(given)
    json.dumps(found.to_dict())
    str(found)
    with sentences():
        shown(found.plan(gpu="H100"))
    with sentences():
        str(found.explain(gpu="H100"))
    with sentences():
        found.text(max_model_len=4096)


_PLAN_FILES = (
    f"model: Qwen/Qwen3-8B\ngpu: H100\nvllm_version: {NEWEST}\nentrypoint: serve\n"
    "env:\n  VLLM_X: '1'\nload:\n  prompt_tokens: 100\n  output_tokens: 10\n"
    "  requests: 4\nengine_args:\n  max_model_len: 32768\n  kv_cache_dtype: fp8\n"
    "  gpu_memory_utilization: 0.9\n",
    "model: Qwen/Qwen3-8B\ngpu:\n  name: H100\n  total_memory_bytes: 85000000000\n"
    "engine_args:\n  lora_target_modules: [q_proj]\n  hf_overrides: {a: 1}\n",
)


def plan_file(random: Random) -> None:
    """A plan file in YAML or JSON, spoilt."""
    if random.random() < 0.6:
        given = cut(random.choice(_PLAN_FILES), random)
    else:
        table = {
            "model": MODEL,
            "gpu": {"name": "H100", "total_memory_bytes": 85 * 10**9},
            "env": {"VLLM_X": "1"},
            "load": {"prompt_tokens": 100, "output_tokens": 10, "requests": 2},
            "engine_args": {"max_model_len": 4096, "hf_overrides": {"a": [1]}},
        }
        given = json.dumps(spoilt(table, random), default=str)
    with sentences():
        shown(planner.export.read_yaml(given).inputs.plan())


def headers(random: Random) -> None:
    """A folder with a spoilt header of weights, index or side file."""
    tensors: dict[str, Any] = {
        "__metadata__": {"format": "pt"},
        "model.embed_tokens.weight": {"dtype": "BF16", "shape": [16, 8]},
        "lm_head.weight": {
            "dtype": "F8_E4M3",
            "shape": [16, 8],
            "data_offsets": [0, 8],
        },
    }
    text = json.dumps(spoilt(tensors, random), default=str)
    raw = (cut(text, random) if random.random() < 0.4 else text).encode(
        "utf-8", "replace"
    )
    length = len(raw) if random.random() < 0.9 else random.getrandbits(64)
    prefix = struct.pack("<Q", length)
    folder = Path(tempfile.mkdtemp(prefix="planner-fuzz-"))
    try:
        kept = configs()[0][1]
        (folder / "config.json").write_text(json.dumps(kept))
        index = {
            "weight_map": {"a": "model.safetensors"},
            "metadata": {"total_size": 1},
        }
        side = random.choice(
            (
                (
                    "model.safetensors.index.json",
                    json.dumps(spoilt(index, random), default=str),
                ),
                ("hf_quant_config.json", json.dumps(value(random), default=str)),
                ("preprocessor_config.json", json.dumps(value(random), default=str)),
                ("params.json", json.dumps(value(random), default=str)),
                ("modules.json", json.dumps(nested(900, list))),
            )
        )
        if random.random() < 0.5:
            (folder / side[0]).write_text(side[1])
        (folder / "model.safetensors").write_bytes(prefix + raw)
        with sentences():
            shown(planner.plan(folder, gpu="H100"))
    finally:
        shutil.rmtree(folder)


_LINES = (
    ("plan", MODEL, "--gpu", "H100", "--max-model-len", "8192"),
    ("plan", MODEL, "--gpu", "L4", "--json", "--kv-cache-dtype", "fp8"),
    ("advise", MODEL, "--gpu", "L4"),
    ("compare", MODEL, "--gpus", "L4,H100", "--price", "L4=0.8"),
    ("export", MODEL, "--gpu", "L4", "--format", "compose"),
    ("export", MODEL, "--gpu", "L4", "--format", "kubernetes"),
    ("solve", "requests", MODEL, "--prompt-tokens", "30", "--output-tokens", "10"),
    ("speed", MODEL, "--gpu", "L4", "--prompt-tokens", "30"),
    ("sweep", MODEL, "--gpu", "L4", "--over", "max_model_len=1024,2048"),
    ("read", "vllm serve a/b --max-model-len 8k"),
    ("read", "Will Qwen3 8B run on two RTX 3090s, for 20 users at 32k?"),
    ("upgrade", MODEL, "--gpu", "L4", "--from", "0.32.0"),
    ("models", "qwen"),
    ("gpus", "--json"),
    ("ray", MODEL, "--gpu", "L4", "--concurrency", "1,2"),
)
_FLAGS = tuple("--" + name.replace("_", "-") for name in sorted(ARGUMENTS))


def line(random: Random) -> None:
    """The command line with words dropped, replaced and put in."""
    from planner.app.cli import main

    words = list(random.choice(_LINES))
    for _ in range(random.randint(1, 3)):
        at = random.randrange(1, len(words) + 1)
        action = random.randrange(4)
        if action == 0:
            words[at:at] = [random.choice(_FLAGS), random.choice(TEXTS)]
        elif action == 1:
            words.insert(at, random.choice(TEXTS))
        elif action == 2 and at < len(words):
            words[at] = random.choice(TEXTS)
        else:
            del words[at : at + 1]
    words = [word for word in words if "\0" not in word]  # no program can be given one
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(words)
        except SystemExit as end:
            status = end.code
    said = err.getvalue()
    if status not in (0, 1, 2) or len(said) > LONGEST_SENTENCE:
        raise Escaped(f"status {status}: {said[:300]}")
    # `planner read` answers what it read first, and at its end why it plans nothing.
    # With --json an error is JSON, where the answer would be.
    answers = ("\nNot planned: ", '"code": ')
    if status == 2 and not said.strip() and not any(map(out.getvalue().count, answers)):
        raise Escaped("refused without a sentence")


def link(random: Random) -> None:
    """The query of a link, spoilt."""
    good = "model=Qwen/Qwen3-8B&gpu=H100&max_model_len=32768&env.VLLM_X=1&load=1,2,3"
    pieces = (*PIECES, "&", "%00", "%ff", "%F0%9F", "gpu.total_memory_bytes=1e400&")
    with sentences():
        found = planner.export.read_link(cut(good, random, pieces))
        shown(found.inputs.plan())


class _Heard(logging.Handler):
    """What a guarded callback hides from a visitor, and logs."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.errors.append(record.exc_info[1])


@cache
def _page() -> tuple[Any, list[Any], _Heard]:
    """Return an explorer and all of its widgets, whose errors are heard."""
    from ipywidgets.widgets.widget import Widget, _instances

    from planner.app.widgets.explorer import Explorer

    heard = _Heard()
    for name in ("planner", "traitlets"):  # ipywidgets logs what a callback raises
        logger = logging.getLogger(name)
        logger.addHandler(heard)
        logger.propagate = False
    Widget._send = _sent
    before = set(_instances)
    page = Explorer(MODEL, gpu="L4")
    made = [one for key, one in _instances.items() if key not in before]
    return page, made, heard


def _sent(_widget: Any, message: Any, **_buffers: object) -> None:
    """Do what a socket would do with a message: it must be writable."""
    json.dumps(message, default=str, ensure_ascii=False).encode()


_WORDS = (
    *("set", "value", "n", "ready", "explain", "find", "press", "row", "tab", "panel"),
    *("open", "opened", "format", "piece", "first", "last", "click", "name", "view"),
    *("apply", "undo", "pin", "load", "sort", "key", "step", "part", "of", "text"),
)


def message(random: Random) -> None:
    """What a page's widgets are sent."""
    page, widgets, heard = _page()
    heard.errors.clear()
    one = random.choice(widgets)
    if random.random() < 0.5:  # what is most often understood
        fields = {**page.form.fields}
        content: Any = {
            "set": random.choice(sorted(fields)),
            "value": value(random),
            "n": number(random),
        }
        one = page.form.main
    elif random.random() < 0.3:
        content = {
            "piece": cut(random.choice(texts()), random),
            "first": True,
            "last": True,
        }
        one = page.pasted.box
    else:
        count = random.randrange(4)
        content = {random.choice(_WORDS): value(random) for _ in range(count)}
        content = value(random) if random.random() < 0.1 else content
    if random.random() < 0.9:
        one._handle_custom_msg(content, [])
    else:
        state = {random.choice((*one.keys, *_WORDS)): value(random)}
        _told(one, state)
    if heard.errors:
        raise Escaped(f"{type(one).__name__}: {content!r:.300}") from heard.errors[0]
    json.dumps([one.get_state() for one in (page.form.main, page.header)], default=str)


def _told(widget: Any, state: dict[str, Any]) -> None:
    """Give a widget a state; traitlets and ipywidgets refuse in their own words."""
    import traitlets

    with contextlib.suppress(
        traitlets.TraitError,
        TypeError,
        ValueError,
        KeyError,
        AttributeError,
        OverflowError,
    ):
        widget.set_state(state)


ENTRIES: Mapping[str, Callable[[Random], None]] = {
    "config": config,
    "arguments": arguments,
    "inner": inner,
    "side_files": side_files,
    "calls": calls,
    "ray": ray,
    "log": log,
    "text": text,
    "repeated": repeated,
    "plan_file": plan_file,
    "headers": headers,
    "line": line,
    "link": link,
    "message": message,
}


def prepare() -> None:
    """Keep to this machine: no Hub, no folder of the user's."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.setdefault("PLANNER_DATA_DIR", tempfile.mkdtemp(prefix="planner-fuzz-"))
    os.environ["JUPYTER_PLATFORM_DIRS"] = "1"
    assert gpus()
