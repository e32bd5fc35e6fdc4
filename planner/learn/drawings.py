"""Pictures of lessons, slides and pages: SVG drawn from the figures of plans.

They are 480 units wide with text of 13, on a phone of 16 (`drawings.css`): leave room
for both. Ink and rules are those of the page around them, so that they read the same in
light and dark. No figure is told by colour alone, and each says itself in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path

from planner.errors import PlannerError
from planner.learn.account import rank_of
from planner.learn.display import ShownAsText, folded
from planner.memory.account import Line
from planner.planning.inputs import Inputs
from planner.planning.planning import layer_groups
from planner.planning.result import Plan
from planner.show.document import whole
from planner.show.html import Html, tag
from planner.show.palette import swatch
from planner.units import format_gib, format_size
from planner.values import frozen

WIDTH = 480
KEY, VALUE = "#0072B2", "#E69F00"
REQUESTS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
"""Colours of requests, Okabe and Ito's."""
_NARROW = 72
"""Below it a segment's name stands beneath the bar."""
_LOWER = 40
"""The second row of such names lies so far below the first."""


@cache
def styles() -> str:
    """Return the style sheet of all pictures."""
    return (Path(__file__).parent / "drawings.css").read_text(encoding="utf-8")


@frozen(repr=False)
class Picture(ShownAsText):
    """A picture, and the same in words."""

    title: str
    told: tuple[str, ...]
    """What it shows, a sentence each."""
    height: float
    drawn: tuple[Html, ...]
    """The elements of the SVG."""

    @property
    def svg(self) -> Html:
        """The picture for a page, on one line: to Markdown it is one block of HTML."""
        return tag(
            "svg",
            tag("title", self.title),
            tag("desc", " ".join(self.told)),
            self.drawn,
            class_="picture",
            viewbox=f"0 0 {WIDTH} {self.height:.0f}",
            role="img",
        )

    def __str__(self) -> str:
        return "\n".join([f"{self.title}:", *self.told])

    def _repr_html_(self) -> str:
        words = folded("The picture in words", "\n".join(self.told))
        return whole(self.svg, words, sheets=Html(styles()))


def rect(box: tuple[float, float, float, float], fill: str, kind: str = "part") -> Html:
    """Draw a box: x, y, width and height."""
    x, y, width, height = (f"{max(one, 0):.1f}" for one in box)
    return tag("rect", class_=kind, x=x, y=y, width=width, height=height, fill=fill)


def text(
    x: float, y: float, words: str, anchor: str = "end", ink: str | None = None
) -> Html:
    """Write words that end, begin or have their middle at `x`.

    `ink` is a colour, or "head" for words that stand out.
    """
    is_head = ink == HEAD
    return tag(
        "text",
        words,
        x=f"{x:.1f}",
        y=f"{y:.1f}",
        text_anchor=anchor,
        class_=ink if is_head else None,
        style=f"fill:{ink}" if ink and not is_head else None,
    )


def path(steps: str, kind: str, dashes: str | None = None) -> Html:
    """Draw a line in the steps of SVG's paths."""
    return tag("path", class_=kind, d=steps, stroke_dasharray=dashes)


HEAD = "head"


def bar(plan: Plan) -> Picture:
    """Draw a card: each line of its account named, vLLM's budget and the total."""
    rank, total = rank_of(plan), plan.gpu.total_memory_bytes
    scale = WIDTH / total
    lines = [line for line in rank.lines if line.size_bytes > 0]
    edges = [
        scale * one for one in accumulate((x.size_bytes for x in lines), initial=0)
    ]
    drawn = [rect((0, 44, WIDTH, 54), "none", "rest")]
    small: list[tuple[Line, float]] = []
    for line, (left, right) in zip(lines, pairwise(edges), strict=True):
        colours, middle = swatch(line.name), (left + right) / 2
        drawn.append(rect((left, 44, right - left, 54), colours.fill))
        if right - left < _NARROW:
            small.append((line, middle))
            continue
        for y, words in ((67, line.name), (84, format_gib(line.size_bytes))):
            drawn.append(text(middle, y, words, "middle", colours.label))
    drawn += _beneath(small)
    budget = scale * rank.requested_memory_bytes
    drawn += [
        path(f"M{budget:.1f} 30V106", "budget"),
        text(budget, 25, f"vLLM requests {format_gib(rank.requested_memory_bytes)}"),
        path(f"M{WIDTH - 1} 12V106", "total"),
        text(WIDTH - 6, 10, f"{plan.gpu.name} has {format_gib(total)}"),
    ]
    return Picture(
        title=f"The memory of one {plan.gpu.name}",
        told=(
            *(f"{one.name}: {format_gib(one.size_bytes)}." for one in lines),
            f"vLLM requests {format_gib(rank.requested_memory_bytes)} of "
            f"{format_gib(total)}.",
        ),
        height=166 + (_LOWER if len(small) > 1 else 0),
        drawn=tuple(drawn),
    )


def _beneath(small: Sequence[tuple[Line, float]]) -> list[Html]:
    """Name narrow segments beneath the bar, in two rows by turns."""
    drawn = []
    for number, (line, middle) in enumerate(small):
        x = WIDTH * (number + 0.5) / len(small)
        y = 128 + _LOWER * (number % 2)
        anchor = "middle"
        if number in (0, len(small) - 1) and len(small) > 1:
            anchor = "end" if number else "start"
        at = {"start": 0.0, "middle": x, "end": float(WIDTH)}[anchor]
        drawn += [
            path(f"M{middle:.1f} 98V106L{x:.1f} 122V{y}", "lead"),
            text(at, y + 14, line.name, anchor),
            text(at, y + 31, format_gib(line.size_bytes), anchor, HEAD),
        ]
    return drawn


Sizes = Sequence[tuple[str, int, int, str]]
"""Bars below each other: name, where the bar begins, its bytes, and its colour."""


def sizes(title: str, rows: Sizes) -> Picture:
    """Draw sizes below each other, on one scale from zero."""
    scale = WIDTH / max(begin + size for _, begin, size, _ in rows)
    drawn = []
    for number, (name, begin, size, fill) in enumerate(rows):
        y = 46 * number
        drawn += [
            text(0, y + 13, name, "start"),
            text(WIDTH, y + 13, format_gib(size), "end", HEAD),
            rect((scale * begin, y + 18, scale * size, 20), fill),
        ]
    told = tuple(f"{name}: {format_gib(size)}." for name, _, size, _ in rows)
    return Picture(title=title, told=told, height=46 * len(rows), drawn=tuple(drawn))


def budget(plan: Plan) -> Picture:
    """Draw how the KV cache is what remains: the total, the request, the rest of it."""
    rank, total = rank_of(plan), plan.gpu.total_memory_bytes
    share = plan.resolved.gpu_memory_utilization if plan.resolved else 0.0
    asked, left = rank.requested_memory_bytes, rank.available_kv_cache_bytes
    return sizes(
        f"The budget of one {plan.gpu.name}",
        (
            (f"{plan.gpu.name}, as CUDA reports it", 0, total, "#767676"),
            (f"vLLM requests {share:g} of it", 0, asked, "#56B4E9"),
            ("everything except the KV cache", 0, asked - left, "#E69F00"),
            ("left for the KV cache", asked - left, left, swatch("KV cache").fill),
        ),
    )


def token(*plans: Plan) -> Picture:
    """Draw what each layer of a model stores of one token, model by model.

    On the left the layers, of which dashed ones forget; on the right what one of them
    stores, on one scale for all models.
    """
    stored = [_of_a_layer(plan) for plan in plans]
    scale = (WIDTH - 76) / max(size for size, _ in stored)
    drawn: list[Html] = []
    told = []
    for number, (plan, (size, boxes)) in enumerate(zip(plans, stored, strict=True)):
        top = 88 * number
        name, (way, window) = plan.name.rpartition("/")[2], _way(plan)
        layers = _layers(plan)
        total = f"{format_size(size * sum(layers.values()))} for each token"
        drawn += [
            text(0, top + 13, name, "start", HEAD),
            text(WIDTH, top + 13, total, "end", HEAD),
            *_stack(layers, top + 22),
            path(f"M56 {top + 22}L76 {top + 26}M56 {top + 58}L76 {top + 50}", "lead"),
        ]
        width = scale * size / boxes
        drawn += [
            rect((76 + width * box, top + 26, width, 24), VALUE if box % 2 else KEY)
            for box in range(boxes)
        ]
        drawn.append(text(0, top + 76, f"{way}{window}", "start"))
        told.append(
            f"{name}: {sum(layers.values())} layers store {format_size(size)} each, "
            f"{total}; {way}{window}."
        )
    return Picture(
        title="What one token leaves in the KV cache",
        told=tuple(told),
        height=88 * len(plans),
        drawn=tuple(drawn),
    )


def _of_a_layer(plan: Plan) -> tuple[int, int]:
    """Return the bytes that a layer stores of a token, and of how many vectors."""
    group, model = plan.kv_groups[0], plan.model
    latent = group.kind == "MLAAttentionSpec" or model is None
    return (
        group.page_size_bytes // group.block_size,
        1 if latent or model is None else 2 * model.num_kv_heads,
    )


def _layers(plan: Plan) -> Mapping[str, int]:
    """Return the number of layers by the kind of what they store."""
    found: dict[str, int] = {}
    for group in plan.kv_groups:
        found[group.kind] = found.get(group.kind, 0) + group.num_layers
    return found


def _stack(layers: Mapping[str, int], top: float) -> Iterable[Html]:
    """Draw a line for each layer; dashed: it forgets what is older than its window."""
    number, y = sum(layers.values()), top
    for kind, count in sorted(layers.items(), reverse=True):
        dashes = "4 3" if kind == "SlidingWindowSpec" else None
        for _ in range(count):
            yield path(f"M0 {y:.1f}h50", "layer", dashes)
            y += 36 / number


def _way(plan: Plan) -> tuple[str, str]:
    """Say how heads share what is stored, and which layers forget."""
    model, kinds = plan.model, _layers(plan)
    if model is None or "MLAAttentionSpec" in kinds:
        return "one small vector for all heads (MLA)", ""
    heads = model.num_attention_heads // model.num_kv_heads
    way = f"{heads} heads share a key and a value (GQA)"
    if heads == 1:
        way = "each head has its key and its value (MHA)"
    windows = kinds.get("SlidingWindowSpec", 0)
    if not windows:
        return way, ""
    kept = max(
        getattr(group.spec, "sliding_window", None) or 0
        for group in layer_groups(Inputs.of(plan))
    )
    return way.rpartition("(")[2].rstrip(
        ")"
    ), f"; {windows} layers keep {kept:,} tokens"


def two_cards(alone: Plan, pair: Plan) -> Picture:
    """Draw the weights of a model on one card, and on each of several."""
    one, several = (
        {part.name: part.size_bytes for part in rank_of(plan).weight_parts}
        for plan in (alone, pair)
    )
    cards = pair.gpus_total
    copied = [part for part in one if several[part] == one[part]]
    rows = [("one card", one)] + [
        (f"card {number} of {cards}", several) for number in range(1, cards + 1)
    ]
    scale = WIDTH / sum(one.values())
    drawn = []
    for number, (name, parts) in enumerate(rows):
        y, x = 62 * number, 0.0
        drawn += [
            text(0, y + 13, name, "start", HEAD),
            text(WIDTH, y + 13, format_gib(sum(parts.values())), "end", HEAD),
        ]
        for place, (part, size) in enumerate(parts.items()):
            fill = "#DDDDDD" if part in copied else REQUESTS[place % len(REQUESTS)]
            width = scale * size
            drawn.append(rect((x, y + 19, width, 30), fill))
            if width > _NARROW:
                ink = "#fff" if fill == REQUESTS[0] else "#000"
                drawn.append(text(x + width / 2, y + 39, part, "middle", ink))
            x += width
    foot = 62 * len(rows)
    told = [f"{name}: {format_gib(sum(parts.values()))}." for name, parts in rows]
    for part, num_bytes in one.items():
        how = "copied" if part in copied else "split"
        each = f"{format_size(several[part])} on each of {cards}"
        told.append(f"{part}: {format_size(num_bytes)} on one card, {each}: {how}.")
    drawn += [
        text(
            0, foot + 12, ", ".join(part for part in one if part not in copied), "start"
        ),
        text(0, foot + 32, f"copied to every card: {', '.join(copied)}", "start"),
    ]
    return Picture(
        title=f"{alone.name} on one card and on {cards}",
        told=tuple(told),
        height=foot + 40,
        drawn=tuple(drawn),
    )


def sharing(plan: Plan, shared_tokens: int = 70, own_tokens: int = 40) -> Picture:
    """Draw the blocks of three requests with one beginning, shared and not shared.

    Only full blocks are shared: a block that the beginning fills in part is each
    request's own.
    """
    size, requests = plan.kv_groups[0].block_size, 3
    each = -(-(shared_tokens + own_tokens) // size)
    common = shared_tokens // size
    cell = 26
    drawn = [text(0, 13, "three requests that begin alike", "start", HEAD)]
    for one in range(requests):
        y = 24 + 34 * one
        drawn.append(text(0, y + 18, f"request {one + 1}", "start"))
        for at in range(each):
            fill = REQUESTS[3] if at < common else REQUESTS[one]
            drawn.append(rect((96 + cell * at, y, cell - 3, cell - 3), fill))
    y = 24 + 34 * requests
    pool = common + requests * (each - common)
    drawn.append(text(0, y + 22, "their blocks in the KV cache", "start", HEAD))
    for at in range(pool):
        owner = (at - common) // (each - common)
        fill = REQUESTS[3] if at < common else REQUESTS[owner]
        drawn.append(rect((cell * at, y + 32, cell - 3, cell - 3), fill))
    ends = f"a block holds {size} tokens; {common} blocks are shared"
    saved = f"{pool} blocks instead of {requests * each}"
    drawn += [text(0, y + 76, saved, "start", HEAD), text(0, y + 96, ends, "start")]
    return Picture(
        title="Prefix caching: requests share blocks",
        told=(
            f"{requests} requests of {shared_tokens + own_tokens} tokens begin with "
            f"the same {shared_tokens} tokens; a block holds {size}.",
            f"{common} full blocks are stored once, and {each - common} blocks of each "
            f"request are its own: {saved}.",
        ),
        height=y + 104,
        drawn=tuple(drawn),
    )


_DRAWN: Mapping[str, Callable[..., Picture]] = {
    "bar": bar,
    "budget": budget,
    "token": token,
    "two cards": two_cards,
    "sharing": sharing,
}


def picture(name: str, *plans: Plan) -> Picture:
    """Draw a picture of a lesson from plans, such as `picture("budget", desk)`.

    Args:
        name: "bar", "budget" or "sharing" of a plan, "token" of one or more, "two
            cards" of a plan for one card and one for several.
        plans: what it is drawn from.

    Raises:
        PlannerError: for a name that no picture has, and for a plan that vLLM refuses.
    """
    if name not in _DRAWN:
        raise PlannerError(f"There is no picture {name!r}: {', '.join(_DRAWN)}.")
    return _DRAWN[name](*plans)
