"""The explorer's section on Ray Data LLM: lazy, of the plan on the screen, bounded."""

import pytest

from planner.app.widgets.explorer import Explorer
from planner.app.widgets.ray_section import RaySection
from planner.show.glossary import explained

pytest.importorskip("ipywidgets")


@pytest.fixture
def section() -> RaySection:
    """Return the section of an explorer, opened."""
    found = Explorer().results.ray
    found.toggle.value = True
    return found


def put(section: RaySection, **values: object) -> str:
    """Type into fields and return what the section then says."""
    assert section.controls is not None
    for name, value in values.items():
        section.controls.fields[name].value = str(value)
    return str(section.tables.value)


def test_nothing_is_planned_while_it_is_closed() -> None:
    """No control, no picture, no text: other controls stay as fast."""
    section = Explorer().results.ray

    assert (None, "", (section.toggle,)) == (
        section.controls,
        section.tables.value,
        section.children,
    )


def test_it_shows_the_plan_on_the_screen_as_replicas(section: RaySection) -> None:
    """Two replicas of one GPU on a node of eight."""
    assert "2 GPUs at most: 1 to 2 replicas of 1" in section.tables.value
    assert section.chart is not None
    assert 8 == len(section.chart.figure["data"][0]["y"])


def test_replicas_beyond_the_nodes_wait(section: RaySection) -> None:
    """Ten replicas of one GPU: eight placed, two wait."""
    said = put(section, replicas_max=10)

    assert "8 of 10 replicas placed, 2 waiting" in said
    assert "concurrency=(1, 10)" in said  # in the program to take away


def test_stages_beside_the_engine_take_their_gpus(section: RaySection) -> None:
    """2 replicas and 2 x 0.5 before them: 3 GPUs."""
    said = put(section, preprocess_workers=2, preprocess_gpus=0.5)

    assert "3 GPUs at most" in said


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"replicas_min": 5}, "the minimum, 5, is above the maximum, 2"),
        ({"replicas_max": 10_000}, "at most 64 on this page"),
        ({"nodes": 1_000_000}, "at most 64 on this page"),
        ({"preprocess_workers": 1_000_000}, "at most 32"),
        ({"nodes": 0}, "No node was given"),
        ({"ray_version": "<b>2"}, "&lt;b&gt;2"),
    ],
)
def test_what_cannot_be_is_a_sentence(
    section: RaySection, values: dict, said: str
) -> None:
    """And nothing of it is drawn, or taken as HTML."""
    assert said in put(section, **values)


def test_it_follows_the_plan() -> None:
    """Tensor parallel 4: replicas of four GPUs."""
    explorer = Explorer(tensor_parallel_size=4)
    explorer.results.tabs.choose("export")
    explorer.results.ray.toggle.value = True

    assert "replicas of 4" in explorer.results.ray.tables.value


def test_every_field_is_explained(section: RaySection) -> None:
    """In the glossary, under a name of its own."""
    assert section.controls is not None
    terms = [field.term for field in section.controls.fields.values()]

    assert [] == [term for term in terms if not explained(term)]
