"""The edge between what serves and what does not."""

from hypothesis import given
from hypothesis import strategies as st

import planner
from planner import Load
from planner.planning.serving import serve
from planner.solve.search import largest, smallest

numbers = st.integers(1, 2000)
guesses = st.one_of(st.none(), st.integers(-5, 2500))


@given(edge=st.integers(0, 2000), most=numbers, guess=guesses)
def test_one_edge_is_found_from_any_guess(edge, most, guess):
    """What serves up to an edge is found exactly, or where the search ends."""
    assert min(edge, most) == largest(lambda n: n <= edge, 1, most, guess)


@given(edge=st.integers(1, 2001), guess=guesses)
def test_the_smallest_is_found_from_any_guess(edge, guess):
    """Mirrored: 2,001 says that not even the largest serves."""
    assert edge == smallest(lambda n: n >= edge, 1, 2000, guess)


@given(serving=st.sets(st.integers(1, 300)), guess=st.integers(1, 300))
def test_the_next_number_never_serves_whatever_serves(serving, guess):
    """Where there are many edges, the answer is one of them."""
    found = largest(serving.__contains__, 1, 300, guess)

    assert found == 0 or found in serving
    assert found == 300 or found + 1 not in serving


def test_a_gap_behind_the_edge_is_seen():
    """1 to 10 and 12 to 20 serve: halving alone could stop at 10."""
    assert 20 == largest(lambda n: n <= 20 and n != 11, 1, 1000, 8)


def test_each_number_is_tried_once():
    """A trial is a plan."""
    tried = []

    def serves(number):
        tried.append(number)
        return number <= 700

    assert 700 == largest(serves, 1, 100_000)
    assert len(tried) == len(set(tried)) < 40


def test_a_length_is_found_though_the_shortest_are_refused():
    """239 requests of few tokens make steps too small for one image of Gemma 3."""
    given = planner.Inputs(model="google/gemma-3-12b-it", gpu="H200")
    found = planner.solve.longest_context(given, requests=239)

    assert not serve(given, Load(prompt_tokens=1, output_tokens=0, requests=239)).admits
    assert found.value >= 1100
    assert found.plan.serving.is_served
