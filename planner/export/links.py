"""A plan as a link: the query string that opens a page with the same plan.

A link can come from anywhere, and the page that opens it may offer to start vLLM. So it
has only the engine arguments that `is_carried` names, and of tables the keys that
`planner.engine.foreign` knows: never names of files, addresses in a network, secrets,
code or flags of the server. A model is a bundled one or owner/name on the Hub, never a
folder or file, which the server would read for whoever opens the link. A GPU is its
name in the catalogue and each fact that differs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from planner.engine import gpu as gpus
from planner.engine.arguments import ARGUMENTS
from planner.engine.environment import KNOWN
from planner.engine.foreign import safe_part
from planner.engine.gpu import GPU, Processor
from planner.engine.gpu_text import LONGEST_NAME, is_description
from planner.engine.releases import came_later, resolve_version
from planner.engine.server import SERVER_FLAGS
from planner.engine.settings import given_arguments
from planner.errors import PlannerError
from planner.export.values import to_text
from planner.given import named_in_errors
from planner.models import catalogue
from planner.models.sources.hub_errors import is_repo_id
from planner.planning.load import LOAD_PARTS, Load
from planner.surroundings import is_published
from planner.user_files import user_path

if TYPE_CHECKING:
    from planner.planning.result import Plan

DEFAULT_MODEL = "meta-llama/Llama-3.1-8B-Instruct"
"""For links without a model, or with one that is not permitted."""
ENVIRONMENT = KNOWN
"""The environment variables a link may set: those that decide memory."""
TRUST = "trust_remote_code"
FOREIGN = ("token", "voila-template", "voila-theme")
"""Parameters that the servers of pages add to an address."""
MOST = 2**50
"""The largest number of any argument: a thousand terabytes."""
_HUB = "https://huggingface.co/"
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}\Z")
_SHORT = {"method": "spec_method", "num_speculative_tokens": "spec_tokens"}
_READABLE = "/:@,"
"""Characters of a query that are not quoted."""
_SIZE = re.compile(r"[0-9]{1,18}\Z", re.ASCII)
_CAPABILITY = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})\Z", re.ASCII)
_COUNT = re.compile(r"[0-9]{1,9}\Z", re.ASCII)
_NONE = "none"
_TEXT_FACTS = ("device_name", "source", "total_basis", "mig_profile")
_BASES = ("given", "measured", "assumed")
_PEAKS = "dense_flops"
_OWN = ("name", "processor")
"""What of a GPU is written in a form of its own."""


@named_in_errors
def link(plan: Plan, base: str = "") -> str:
    """Return a link that opens the explorer or the app with this plan.

    It has the model, the GPU with the facts that differ from the catalogue, the
    release, engine arguments, and variables that affect memory. What may name a file,
    code or a secret is left out; the table of engine arguments has the reasons.

    Args:
        plan: the plan to open.
        base: address of the page, such as http://127.0.0.1:8866/.

    Raises:
        PlannerError: for a model in a folder, which another machine does not have,
            and for a text with half of a character.

    >>> import planner
    >>> link(planner.plan("Qwen/Qwen3-8B", max_model_len=32768))
    '?model=Qwen/Qwen3-8B&gpu=H100&vllm_version=0.33.0&max_model_len=32768'
    """
    query = "&".join(
        f"{_quoted(name)}={_quoted(text)}" for name, text in _pairs(plan).items()
    )
    page, mark, fragment = base.partition("#")
    between = "&" if "?" in page else "?"
    return f"{page}{between}{query}{mark}{fragment}"


def _pairs(plan: Plan) -> dict[str, str]:
    entrypoint = {"entrypoint": plan.entrypoint} if plan.entrypoint != "serve" else {}
    environment = {
        f"env.{name}": value for name, value in plan.env if name in ENVIRONMENT
    }
    given = {
        name: value
        for name, value in given_arguments(plan.settings).items()
        if name not in plan.follows
    }
    safe = {n: safe_part(n, value)[0] for n, value in given.items() if is_carried(n)}
    if given.get(TRUST):
        # No link decides to trust a model's code, but the page must be able to tell
        # its reader that the plan did.
        safe[TRUST] = True
    arguments = {n: to_text(n, kept) for n, kept in safe.items() if kept is not None}
    release, _ = resolve_version(plan.vllm_version)
    if came_later("arguments", "spec_method", release) is None:
        arguments |= _speculation(given.get("speculative_config"))
    return {
        "model": model_to_link(plan.name),
        **gpu_to_link(plan.gpu),
        "vllm_version": plan.vllm_version,
        **entrypoint,
        **environment,
        **load_to_link(plan.load),
        **arguments,
    }


def load_to_link(load: Load | None) -> dict[str, str]:
    """Return a load as "load.<part>"; empty without one."""
    parts = {} if load is None else load.to_dict()
    return {f"load.{name}": str(number) for name, number in parts.items()}


def load_from_link(parts: Mapping[str, str]) -> Load | None:
    """Return the load of a link.

    Args:
        parts: text of each part, by its name in `Load`.

    Raises:
        PlannerError: for parts that make no load.
    """
    if not parts:
        return None
    numbers: dict[str, int] = {}
    for name, text in parts.items():
        if name not in LOAD_PARTS:
            raise PlannerError(f"load.{name} is not part of a load.")
        if not _COUNT.match(text):
            raise PlannerError(
                f"load.{name}={text!r}: a whole number of at most 9 digits is needed."
            )
        numbers[name] = int(text)
    if "prompt_tokens" not in numbers:
        raise PlannerError("load.prompt_tokens is missing.")
    return Load(**{"output_tokens": 0, **numbers})


def _speculation(config: object) -> dict[str, str]:
    """Return speculative decoding by its short arguments, if these express all of it.

    The table itself may name a folder, so no link sets it.
    """
    table = dict(config) if isinstance(config, Mapping) else {}
    if not table or not table.keys() <= _SHORT.keys():
        return {}
    return {_SHORT[name]: to_text(_SHORT[name], value) for name, value in table.items()}


def _quoted(text: str) -> str:
    try:
        return quote(text, safe=_READABLE)
    except UnicodeEncodeError:
        raise PlannerError(
            f"{text!r} holds bytes that are no text in UTF-8, so no link can have it: "
            "give it without them."
        ) from None


def gpu_to_link(gpu: GPU) -> dict[str, str]:
    """Return a GPU's name as "gpu", and the facts that differ as "gpu.<fact>"."""
    known = _known(gpu.name)
    usual = {
        fact.name: getattr(known, fact.name) if known else _default(fact.default)
        for fact in fields(GPU)
        if (fact.compare or fact.name == _PEAKS) and fact.name not in _OWN
    }
    facts = {
        name: _fact_text(getattr(gpu, name))
        for name, value in usual.items()
        if getattr(gpu, name) != value
    }
    named = {f"gpu.{name}": value for name, value in facts.items()}
    return {"gpu": gpu.name} | named | _processor(gpu.processor)


def gpu_from_link(name: str, facts: Mapping[str, str]) -> GPU:
    """Return the GPU of a link.

    Args:
        name: one of the catalogue, or any name if the total is among the facts.
        facts: text of each fact, by its name in `GPU`.

    Raises:
        PlannerError: for an impossible name or fact.
    """
    if is_description(name):
        name, facts = _described(name, facts)
    if len(name) > LONGEST_NAME:
        raise PlannerError(f"gpu: a name of at most {LONGEST_NAME} characters.")
    read = {fact: _parsed_fact(fact, text) for fact, text in facts.items()}
    described = _with_processor(read)
    if _known(name) is None and "total_memory_bytes" in described:
        return GPU(name=name, **described)
    return replace(GPU.named(name), **described)


def _described(text: str, facts: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the name and the facts of a GPU that is described in one line."""
    gpu = GPU.named(text)
    named = gpu_to_link(gpu)
    own = {key.removeprefix("gpu."): value for key, value in named.items()}
    return own.pop("gpu"), own | dict(facts)


def _known(name: str) -> GPU | None:
    return next((gpu for gpu in gpus.catalogue() if gpu.name == name), None)


def _default(value: object) -> object:
    return None if value is MISSING else value


def _fact_text(value: object) -> str:
    if value is None:
        return _NONE
    if isinstance(value, tuple):
        if value and isinstance(value[0], tuple):
            return ",".join(f"{dtype}:{peak}" for dtype, peak in value)
        return ".".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _processor(processor: Processor | None) -> dict[str, str]:
    if processor is None:
        return {}
    facts = {
        "architecture": processor.architecture,
        "flags": _NONE if processor.flags is None else ",".join(processor.flags),
        "memory_node": str(processor.memory_node),
    }
    usual = {"architecture": "x86_64", "flags": _NONE, "memory_node": "0"}
    return {
        f"gpu.processor.{name}": text
        for name, text in facts.items()
        if text != usual[name]
    }


def _parsed_fact(fact: str, text: str) -> Any:  # noqa: ANN401 - as the fact's type is
    reader = _READERS.get(fact)
    if reader is None:
        raise PlannerError(f"gpu.{fact} is not a property of a GPU.")
    return reader(fact, text)


def _size(fact: str, text: str) -> int | None:
    if text == _NONE and fact != "total_memory_bytes":
        return None
    if not _SIZE.match(text):
        raise PlannerError(f"gpu.{fact}={text!r}: a whole number is needed.")
    return int(text)


def _switch(fact: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise PlannerError(f"gpu.{fact}={text!r}: true or false is needed.")
    return text == "true"


def _capability(fact: str, text: str) -> tuple[int, int]:
    match = _CAPABILITY.match(text)
    if match is None:
        raise PlannerError(f"gpu.{fact}={text!r}: two numbers are needed, as in 9.0.")
    return int(match[1]), int(match[2])


def _text(fact: str, text: str) -> str:
    if fact == "total_basis" and text not in _BASES:
        raise PlannerError(f"gpu.{fact}={text!r}: use one of {', '.join(_BASES)}.")
    return text


def _peaks(fact: str, text: str) -> tuple[tuple[str, int], ...]:
    found = []
    for part in filter(None, text.split(",")):
        dtype, _, peak = part.partition(":")
        if not _SIZE.match(peak):
            raise PlannerError(
                f"gpu.{fact}={text!r}: dtypes with a whole number each are needed, as "
                "in bfloat16:100000000000000."
            )
        found.append((dtype, int(peak)))
    return tuple(found)


def _flags(_fact: str, text: str) -> tuple[str, ...] | None:
    return None if text == _NONE else tuple(filter(None, text.split(",")))


_READERS: Mapping[str, Callable[[str, str], Any]] = {
    **dict.fromkeys(_TEXT_FACTS, _text),
    **dict.fromkeys(("is_integrated", "is_under_wsl"), _switch),
    **dict.fromkeys(
        (
            *("total_memory_bytes", "free_memory_bytes", "nvml_memory_bytes"),
            *("num_sms", "memory_bandwidth_bytes_per_second", "processor.memory_node"),
        ),
        _size,
    ),
    "compute_capability": _capability,
    _PEAKS: _peaks,
    "processor.architecture": _text,
    "processor.flags": _flags,
}


def _with_processor(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts, those of the processor combined into one."""
    own = {
        name.removeprefix("processor."): value
        for name, value in facts.items()
        if name.startswith("processor.")
    }
    plain = {name: value for name, value in facts.items() if "." not in name}
    return plain | {"processor": Processor(**own)} if own else plain


def model_to_link(name: str) -> str:
    """Return a model's name as a link writes it.

    Raises:
        PlannerError: for a folder or file, which another machine does not have.
    """
    is_bundled = catalogue.find(name) is not None
    if _is_local(name) or not (is_bundled or _is_on_hub(name)):
        raise PlannerError(
            f"A link cannot hold the model {name!r}: it would open on other machines, "
            "which do not have this folder or file. Give owner/name on the Hub, or "
            "keep the plan as YAML."
        )
    return name


def model_from_link(text: str) -> str:
    """Return the model that a link names, in a form that never reads a folder.

    Raises:
        PlannerError: for every other text.
    """
    bundled = catalogue.find(text)
    name = text if bundled is None else bundled.name
    if bundled is None and not _is_on_hub(text):
        raise PlannerError(
            f"model={text!r}: a link names a bundled model or owner/name on the Hub."
        )
    # A folder of that name beside the server would take precedence over a name, but
    # not over an address.
    return f"{_HUB}{name.replace('@', '/tree/')}" if _is_local(name) else name


def _is_on_hub(text: str) -> bool:
    name, at, revision = text.partition("@")
    has_revision = not at or _REVISION.match(revision) is not None
    return name.count("/") == 1 and is_repo_id(name) and has_revision


def _is_local(name: str) -> bool:
    if is_published():
        return False
    try:
        return user_path(name).exists()
    except (OSError, RuntimeError, ValueError):
        return False


def why_kept_out(name: str) -> str:
    """Return why no link sets an argument; empty where links may, or none is known.

    >>> why_kept_out("download_dir"), why_kept_out("port"), why_kept_out("seed")
    ('names a folder', 'is a flag of the server', '')
    """
    if name in ARGUMENTS:
        return ARGUMENTS[name].kept_out
    known = SERVER_FLAGS.get(name)
    return "" if known is None else known.kept_out or "is a flag of the server"


def is_carried(name: str) -> bool:
    """Whether a link may set an engine argument; of tables, `safe_part` of them."""
    return name in ARGUMENTS and not ARGUMENTS[name].kept_out
