"""Pictures of lessons: what a request takes in the KV cache, model by model."""

from __future__ import annotations

from planner.learn.display import ShownAsText
from planner.planning.result import Plan
from planner.show.document import whole
from planner.show.html import Html, tag
from planner.show.palette import css_background
from planner.show.pieces import row, table
from planner.units import format_gib
from planner.values import frozen

_COLUMNS = ("Model", ("Of one request", "pl-number"), "Beside the first model")


@frozen(repr=False)
class PerRequest(ShownAsText):
    """The KV cache of one request of the same length, model by model."""

    plans: tuple[Plan, ...]

    @property
    def title(self) -> str:
        """State the length that is compared."""
        resolved = self.plans[0].resolved
        tokens = 0 if resolved is None else resolved.max_model_len
        return f"KV cache of one request of {tokens:,} tokens"

    def __str__(self) -> str:
        lines = [
            f"{one.name}: {format_gib(one.needed_kv_cache_bytes)}, {self._share(one)}"
            for one in self.plans
        ]
        return "\n".join([f"{self.title}:", *lines])

    def _repr_html_(self) -> str:
        rows = map(self._row, self.plans)
        return whole(table(self.title, _COLUMNS, rows, "pl-lines pl-stacked"))

    def _row(self, one: Plan) -> Html:
        most = max(plan.needed_kv_cache_bytes for plan in self.plans)
        basis = one.ranks[0].line("KV cache").basis
        width = 70 * one.needed_kv_cache_bytes / most
        bar = tag(
            "span",
            style=f"display:inline-block;height:1em;vertical-align:middle;"
            f"width:{width:.1f}%;background:{css_background('KV cache', basis)}",
            aria_hidden="true",
        )
        size = format_gib(one.needed_kv_cache_bytes)
        return row(
            one.name,
            tag("td", size, class_="pl-number", data_label="Of one request"),
            tag(
                "td",
                tag("span", bar, " ", self._share(one), style="flex:1;text-align:left"),
                style="min-width:10em",
            ),
        )

    def _share(self, one: Plan) -> str:
        first = self.plans[0].needed_kv_cache_bytes
        return f"{one.needed_kv_cache_bytes / first:.0%}"


def per_request(*plans: Plan) -> PerRequest:
    """Compare what one request of max_model_len tokens takes; the first is the measure.

    The plans do not have to start: what a request takes does not depend on the card's
    size.
    """
    return PerRequest(plans=plans)
