"""The section on GPUs: searched beside the page, priced, applied; bounded input."""

import asyncio
import json
import re

import pytest

import planner
from planner import GPU, Load, solve
from planner.app.widgets.gpus_section import NO_LOAD, GpusSection
from planner.app.widgets.set_up_table import read_price
from planner.errors import PlannerError
from planner.solve import gpus

MODEL = "Qwen/Qwen3-32B"
LOAD = Load(prompt_tokens=32_000, output_tokens=768, requests=20)


FEW = ("B300", "GB300", "B200", "H200", "H100", "RTX6000Ada", "A40", "L4")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder of its own for saved prices, and a short catalogue to search."""
    monkeypatch.setenv("PLANNER_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(gpus, "catalogue", lambda: tuple(map(GPU.named, FEW)))
    return tmp_path


@pytest.fixture(scope="module")
def plan():
    """Eight requests too many for one H100."""
    return planner.plan(MODEL, gpu="H100", load=LOAD)


@pytest.fixture
def applied():
    """Receives what a press of Apply changes."""
    return []


@pytest.fixture
def section(plan, applied):
    """Return the section, opened on the plan: the search has ended."""
    found = GpusSection(applied.append)
    found.turn(True)
    found.show(plan)
    return found


def say(section, **message):
    """Send what a page would send."""
    section.table._on_message(section.table, message, [])


def row(section, name):
    """Return the row of a kind of GPU."""
    return next(one for one in section.table.rows if one["gpu"] == name)


def test_nothing_is_searched_while_it_is_closed(plan):
    """No row, no chart; the page's other controls stay as fast."""
    section = GpusSection(print)
    section.show(plan)

    assert () == section.children
    assert [] == section.table.rows
    assert section.map.chart is None


def test_the_rows_are_the_set_ups_that_python_finds(section):
    """The same GPUs, layouts, prices and bounds, in the same order."""
    found = solve.set_ups(MODEL, LOAD)

    rows = section.table.rows
    best = found.trade_offs()
    others = [one for one in found.ranked() if one not in best]
    assert [f"{x.gpus_total} x {x.gpu.name}" for x in (*best, *others)] == [
        one["gpus"] for one in rows
    ]
    assert len(best) == section.table.best
    h200 = row(section, "H200")
    (expected,) = (one for one in found.ranked() if one.gpu.name == "H200")
    assert f"{expected.price_per_hour:.2f}" == h200["price"]
    assert str(expected.requests_held) == h200["held"]
    assert len(found.others(expected)) == len(h200["others"])
    assert (1.0, False) == (section.table.progress, section.table.is_stale)
    assert "Fewest: 1 x B300" in section.table.answer
    assert 20 == section.table.needs


def test_apply_hands_on_gpu_and_layout_exactly(section, applied, plan):
    """The plan with the row's changes has the row's GPUs, and serves the load."""
    say(section, apply=row(section, "H200")["key"])

    (changes,) = applied
    changed = plan.changed(**changes)
    assert ("H200", 2) == (changes["gpu"], changes["tensor_parallel_size"])
    assert 2 == changed.gpus_total
    assert changed.serving.is_served


def test_another_layout_of_a_row_is_applied_by_its_own_key(section, applied):
    """Two stages on the same two GPUs."""
    (other,) = row(section, "H200")["others"]
    say(section, apply=other["key"])

    assert "PP 2" == other["layout"]
    assert 2 == applied[0]["pipeline_parallel_size"]
    assert applied[0]["tensor_parallel_size"] is None


def test_the_rows_stay_when_one_of_them_is_applied(section, applied, plan):
    """GPU and layout are what is searched for: the answer is the same."""
    say(section, apply=row(section, "H200")["key"])
    before = section._search
    section.show(plan.changed(**applied[0]))

    assert section._search is before
    assert section.table.is_stale is False
    assert row(section, "H200")["key"] == section.table.current


def test_a_search_that_nobody_sees_is_given_up(plan):
    """Closed in the middle, it begins anew when it is opened."""

    async def use() -> GpusSection:
        section = GpusSection(print)
        section._slices.seconds = 0.001
        section.show(plan)
        section.turn(True)
        assert section.is_searching
        section.turn(False)
        assert not section.is_searching
        section.turn(True)
        while section.is_searching:
            await asyncio.sleep(0.001)
        return section

    assert 7 == len(asyncio.run(use()).table.rows)


def test_another_load_is_searched_anew(section, plan):
    """Twice the users need twice the GPUs."""
    more = Load(prompt_tokens=32_000, output_tokens=768, requests=40)
    section.show(plan.changed(load=more))

    assert 40 == section.table.needs
    assert "2 x B300" == row(section, "B300")["gpus"]


def test_rows_of_an_earlier_plan_cannot_be_applied(section, applied):
    """While a control moves, or an entry is wrong, the list is marked and stays."""
    section.pause()
    say(section, apply=row(section, "H200")["key"])

    assert section.table.is_stale is True
    assert [] == applied


def test_without_a_load_it_says_what_to_do(section):
    """There is nothing that a set-up could serve."""
    section.show(planner.plan(MODEL, gpu="H100"))

    assert NO_LOAD == section.table.note
    assert ([], None) == (section.table.rows, section.map.chart)


def test_the_order_is_chosen(section):
    """Of those that no other beats, the cheapest first; no order is left out."""
    say(section, order="cheapest")
    rows = section.table.rows[: section.table.best]
    prices = [float(one["price"]) for one in rows if one["price"]]

    assert sorted(prices) == prices
    assert section.table.rows[0]["key"] == section.table.mapped
    assert 1 < len(prices)
    say(section, order="fastest")
    texts = [one["speed"][0] or "0" for one in section.table.rows]
    speeds = [float(text.replace(",", "")) for text in texts]
    assert max(speeds) == speeds[0]
    say(section, order="dearest")
    assert "fastest" == section.table.order


def test_a_price_is_typed_saved_and_used(section, folder):
    """1.25 x 2: from then on it is the user's own, here and in Python."""
    say(section, gpu="H200", price="1,25")

    assert ("2.50", "1.25", True) == tuple(
        row(section, "H200")[name] for name in ("price", "each", "own")
    )
    assert {"H200": 1.25} == json.loads((folder / "prices.json").read_text())["prices"]
    found = solve.set_ups(MODEL, LOAD, "H200")
    assert 2.5 == found.fewest.price_per_hour

    say(section, gpu="H200", price="")
    assert row(section, "H200")["own"] is False
    assert {} == json.loads((folder / "prices.json").read_text())["prices"]


def test_what_is_no_price_is_said_and_changes_nothing(section, folder):
    """The old price stays, and nothing is saved."""
    before = row(section, "H200")["price"]
    for text in ("free", "-1", "1e999", "nan", "9" * 40):
        say(section, gpu="H200", price=text)

        assert "is no price" in section.table.remarks[0]
        assert before == row(section, "H200")["price"]
        assert not (folder / "prices.json").exists()


def test_a_published_page_keeps_its_prices_itself(plan, folder, monkeypatch):
    """The server writes nothing; what the page kept comes back with it."""
    monkeypatch.setenv("PLANNER_PUBLISHED", "1")
    section = GpusSection(print)
    section.turn(True)
    section.show(plan)
    say(section, prices={"H200": 2.0, "B200": "x", "L4": -1, 5: 1.0, "A40": True})
    say(section, gpu="B300", price="3")

    assert section.table.is_kept_by_page is True
    assert ("4.00", True) == (
        row(section, "H200")["price"],
        row(section, "H200")["own"],
    )
    assert "3.00" == row(section, "B300")["price"]
    assert row(section, "B200")["own"] is row(section, "A40")["own"] is False
    assert [] == list(folder.iterdir())


STRANGE = (
    {"apply": "no such row"},
    {"apply": 5},
    {"map": "x"},
    {"most": "1000"},
    {"price": "1", "gpu": "<b>"},
    {"prices": [1]},
    {"cancel": "yes"},
    {"what": 1},
)


def test_a_strangers_message_does_nothing(section, applied):
    """A page can send anything."""
    before = section.table.rows
    for message in STRANGE:
        say(section, **message)
    section.table._on_message(section.table, "text", [])

    assert before == section.table.rows
    assert [] == applied
    assert "8" == section.table.most


def test_more_machines_are_searched_on_demand(section, plan):
    """What needs more than eight GPUs is found among sixteen."""
    section.show(
        plan.changed(load=Load(prompt_tokens=32_000, output_tokens=768, requests=200))
    )
    few = {one["gpu"] for one in section.table.rows}
    say(section, most="16")

    assert few < {one["gpu"] for one in section.table.rows}


def test_the_map_is_of_the_row_that_was_chosen(section):
    """The first at once; another at a press."""
    first = section.table.rows[0]["key"]
    assert first == section.table.mapped
    assert "B300" in section.map.chart.label
    drawn = section.map.chart.figure["data"][0]

    assert 6 * 5 == len(drawn["text"])
    assert "✔ 20" in drawn["text"]
    say(section, map=row(section, "H200")["key"])
    assert "2 x H200" in section.map.chart.label


def test_it_runs_beside_the_page_and_can_be_cancelled(plan):
    """On an event loop: rows come before the end, and none after Cancel."""

    async def use() -> tuple[float, GpusSection]:
        section = GpusSection(print)
        section._slices.seconds = 0.001
        section._later.seconds = 0.0
        section.turn(True)
        section.show(plan)
        while not section.table.rows:
            await asyncio.sleep(0.001)
        seen = section.table.progress
        say(section, cancel=True)
        return seen, section

    seen, section = asyncio.run(use())
    assert 0.0 <= seen < 1.0
    assert 1.0 == section.table.progress
    assert not section.is_searching
    assert 0 < len(section.table.rows) < 7
    assert re.match(r"Cancelled after \d of 8 kinds of GPU", section.table.remarks[0])


def test_a_search_that_fails_says_so(section):
    """An expected error in its own words, any other as the planner's own."""
    for error, words in (
        (PlannerError("no such thing"), "no such thing"),
        (ZeroDivisionError(), "Something went wrong in the planner itself"),
    ):
        section._failed(error)
        assert words in section.table.note
        assert [] == section.table.rows


def test_an_error_of_a_press_is_shown(section, monkeypatch):
    """In Voila, nothing else would say so."""

    def fail(_changes: object) -> None:
        raise PlannerError("this row cannot be applied")

    monkeypatch.setattr(section, "_apply", fail)
    say(section, apply=row(section, "H200")["key"])

    assert "this row cannot be applied" == section.table.note


def test_a_price_is_read_as_people_type_it():
    """A comma, a currency's sign, nothing."""
    assert [2.5, 3.99, 0.0, None] == [
        read_price(text) for text in ("2,50", "$3.99", "0", " ")
    ]


PROMPTS_FIRST = "try your prompts first"


@pytest.fixture
def in_formats(section):
    """Return the section after it has searched formats of four bits too."""
    say(section, quality=PROMPTS_FIRST)
    return section


def test_formats_are_searched_up_to_a_class(section, in_formats) -> None:
    """Published checkpoints, what vLLM makes while loading, and types of KV cache."""
    formats = {one["format"]: one["answers"] for one in in_formats.table.rows}

    assert "" == formats[""]
    awq = next(form for form in formats if "AWQ" in form)
    assert PROMPTS_FIRST == formats[awq]
    say(section, quality="little loss")
    few = {one["answers"] for one in section.table.rows}
    assert {"", "little loss"} == few
    say(section, quality="none")
    assert "little loss" == section.table.quality


def test_a_row_of_another_format_applies_it_and_stays(
    in_formats, applied, plan
) -> None:
    """The question is still about the model as it was given; so is the next row."""
    rows = in_formats.table.rows
    other = next(one for one in rows if "AWQ" in one["format"])
    before = in_formats._search
    say(in_formats, apply=other["key"])
    changed = plan.changed(**applied[0])
    in_formats.show(changed)

    assert "AWQ" in applied[0]["model"]
    assert changed.serving.is_served
    assert before is in_formats._search
    assert other["key"] == in_formats.table.current
    say(in_formats, apply=next(one for one in rows if not one["format"])["key"])
    assert (MODEL, None) == (applied[1]["model"], applied[1]["quantization"])


def test_while_it_counts_the_answer_is_one_so_far(section) -> None:
    """Nothing is called the fewest before the last kind of GPU was tried."""
    section._draw(0.5)

    assert section.table.answer.startswith("Counting. So far: Fewest: 1 x B300")


def test_a_map_of_an_earlier_plan_is_marked(section) -> None:
    """The rows, and the map of one of them."""
    section.pause()

    assert "is-stale" in section.map.chart._dom_classes


def test_list_prices_are_shown_in_the_users_currency(section, folder) -> None:
    """H200 at 4.59 dollars, half a euro each; a price of one's own stays."""
    listed = float(row(section, "H200")["each"])
    say(section, gpu="H100", price="3")
    say(section, currency="EUR", rate="0,5")

    assert ("EUR", "0.5") == (section.table.currency, section.table.rate)
    assert f"{listed / 2:g}" == row(section, "H200")["each"]
    assert "3" == row(section, "H100")["each"]
    assert "EUR" == json.loads((folder / "prices.json").read_text())["currency"]
    assert solve.gpu_prices().of(GPU.named("H200")).per_hour == listed / 2
    for rate in ("0", "", "much"):
        say(section, currency="GBP", rate=rate)
        assert "EUR" == section.table.currency
