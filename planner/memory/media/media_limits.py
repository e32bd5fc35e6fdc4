"""limit_mm_per_prompt: how many items of each modality, and of which sizes.

Source: vLLM 0.33.0 `config/multimodal.py` MultiModalConfig.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.engine.releases import Release
from planner.engine.releases.change import Change
from planner.engine.settings import EngineSettings
from planner.errors import PlannerError, Refused, UnknownArchitecture
from planner.memory.media.towers import UNLIMITED, is_of, served_towers
from planner.models.architecture import DummySizes, MediaItem, ModelArchitecture
from planner.values import frozen

SIZES: Mapping[str, tuple[str, ...]] = {
    "image": ("width", "height"),
    "video": ("num_frames", "width", "height"),
    "audio": ("length",),
}
"""Options beside the count, by modality."""
_MODES = ("weights", "data")
_NO_SIZES = DummySizes()
_TAKES_SIZES = Change(
    since=(0, 11, 1),
    what="limit_mm_per_prompt takes sizes of items beside their number.",
)
_APPLIES_SIZES = Change(
    since=(0, 13),
    what=(
        "Sizes in limit_mm_per_prompt determine what the profile run encodes as from "
        "0.13.0, the oldest release whose way is modelled."
    ),
)


@frozen
class Limit:
    """The limit that limit_mm_per_prompt sets for a modality."""

    count: int = UNLIMITED
    sizes: DummySizes = _NO_SIZES


def sizes_of(
    settings: EngineSettings, model: ModelArchitecture
) -> tuple[tuple[str, DummySizes], ...]:
    """Return the sizes of the modalities for which any are set."""
    if not model.towers:
        return ()
    found = {
        name: _limit(name, value).sizes
        for name, value in (settings.limit_mm_per_prompt or {}).items()
    }
    return tuple((name, sizes) for name, sizes in found.items() if sizes != _NO_SIZES)


def check_limits(
    settings: EngineSettings, model: ModelArchitecture, release: Release
) -> None:
    """Refuse limits that vLLM cannot read, and sizes that are not modelled.

    For text-only models vLLM ignores them.

    Raises:
        PlannerError: for limits that are not names and numbers.
        Refused: in vLLM's words.
        UnknownArchitecture: for sizes of a family or release that is not modelled.
    """
    given = settings.limit_mm_per_prompt
    if given is not None and not isinstance(given, Mapping):
        raise PlannerError(
            f"limit_mm_per_prompt={given!r}: modalities and numbers are needed, such "
            "as {'image': 2, 'video': 0}."
        )
    if not model.towers:
        return
    _check_mode(settings)
    for name, value in (given or {}).items():
        limit = _limit(name, value)
        if limit.sizes != _NO_SIZES:
            _check_sizes(name, limit, settings, model, release)


def _check_mode(settings: EngineSettings) -> None:
    mode = settings.mm_encoder_tp_mode
    if mode is not None and mode not in _MODES:
        raise _invalid(
            "mm_encoder_tp_mode",
            f"Input should be 'weights' or 'data' [type=literal_error, "
            f"input_value={mode!r}, input_type={type(mode).__name__}]",
        )


def _limit(name: str, value: object) -> Limit:
    """Read one modality's limit: a number, or options with a count and sizes."""
    options = value if isinstance(value, Mapping) else {"count": value}
    count = _whole("count", options.get("count", UNLIMITED), least=0)
    sizes = {}
    for option, size in options.items():
        if option == "count":
            continue
        if option not in SIZES.get(name, ()):
            raise _invalid(
                f"limit_per_prompt.{option}",
                f"Unexpected keyword argument [type=unexpected_keyword_argument, "
                f"input_value={size!r}, input_type={type(size).__name__}]",
            )
        if size is not None:
            sizes[option] = _whole(option, size, least=1)
    return Limit(count=count, sizes=DummySizes(**sizes))


def _whole(option: str, value: object, *, least: int) -> int:
    where = f"limit_per_prompt.{option}"
    if not isinstance(value, int):
        raise _invalid(
            where,
            f"Input should be a valid integer [type=int_type, input_value={value!r}, "
            f"input_type={type(value).__name__}]",
        )
    if value < least:
        rule, kind = (
            ("greater than 0", "greater_than")
            if least
            else ("greater than or equal to 0", "greater_than_equal")
        )
        raise _invalid(
            where,
            f"Input should be {rule} [type={kind}, input_value={value!r}, "
            "input_type=int]",
        )
    return int(value)


def _invalid(where: str, what: str) -> Refused:
    return Refused(f"1 validation error for ModelConfig\n{where}\n  {what}")


def _check_sizes(
    name: str,
    limit: Limit,
    settings: EngineSettings,
    model: ModelArchitecture,
    release: Release,
) -> None:
    if not release.has(_TAKES_SIZES):
        since = ".".join(map(str, _TAKES_SIZES.since))
        raise PlannerError(
            f"limit_mm_per_prompt: vLLM {release.version} takes a number for each "
            f"modality; sizes of {name} came with {since}. Leave them out."
        )
    items = _served_items(name, settings, model, release)
    if items is None:
        return
    requested = [
        option for option in SIZES[name] if getattr(limit.sizes, option) is not None
    ]
    for item in items:
        known = item.sizing.options if item.sizing is not None else ()
        unknown = [option for option in requested if option not in known]
        if unknown or not release.has(_APPLIES_SIZES):
            raise UnknownArchitecture(
                f"limit_mm_per_prompt: what {(unknown or requested)[0]} of "
                f"{name} makes of the items of {model.architecture} in vLLM "
                f"{release.version} is not modelled. Give the count alone."
            )
    if not items:
        raise UnknownArchitecture(
            f"limit_mm_per_prompt: the items of {model.architecture} are not known, "
            f"so that {requested[0]} of {name} is not modelled. Give the count alone."
        )


def _served_items(
    name: str, settings: EngineSettings, model: ModelArchitecture, release: Release
) -> list[MediaItem] | None:
    """Return the items of a modality; None where no served tower takes it."""
    towers = [t for t in served_towers(model, settings) if name in t.modalities]
    if not towers:
        return None
    return [
        item
        for tower in towers
        for item in tower.items
        if item.modality == name and is_of(item, release)
    ]


def known_sizes(
    modality: str, model: ModelArchitecture, release: Release
) -> tuple[str, ...]:
    """Return the sizes of a modality that are modelled for a model's items."""
    items = [
        item
        for tower in model.towers
        for item in tower.items
        if item.modality == modality and is_of(item, release)
    ]
    options = [() if one.sizing is None else one.sizing.options for one in items]
    return tuple(
        option
        for option in SIZES.get(modality, ())
        if items
        and release.has(_APPLIES_SIZES)
        and all(option in one for one in options)
    )
