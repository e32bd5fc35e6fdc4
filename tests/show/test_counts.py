"""A count agrees with its noun in every text that a plan leads to."""

import html
import re
from collections.abc import Iterator

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import planner
from planner.errors import PlannerError
from planner.planning.result import Plan
from planner.show.page import PANELS, panels_html

_NOUNS = (
    "adapters|answers|batches|blocks|changes|copies|engines|experts|GPUs|graphs|groups"
    "|heads|layers|machines|nodes|plans|positions|prompts|ranks|replicas|requests|rows"
    "|sequences|set-ups|stages|steps|tokens|users|values"
)
_ONE = re.compile(
    # Not part of a number or a name; "2 piecewise + 1 full graphs" are several.
    rf"(?<![\w.,/^*-])1 (?:(?!full|of|to|x|on|in|and|is|a|the|for|or)[A-Za-z-]+ )?"
    rf"(?:{_NOUNS})\b"
)
_MANY = re.compile(
    r"(?<![\w.,/=-])(?:0|[2-9]|[1-9][\d,]*\d) "
    r"(?:adapter|block|engine|expert|group|layer|machine|node|plan|replica|request|row"
    r"|stage|step|token|user)\b(?![-/])"
)
MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "Qwen/Qwen3-30B-A3B",
    "google/gemma-3-4b-it",
    "deepseek-ai/DeepSeek-R1",
    "BAAI/bge-m3",
    "openai/whisper-large-v3",
)
SMALL = st.sampled_from([1, 2, 500])
STATES = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS),
        "gpu": st.sampled_from(["L4", "H100", "H200"]),
        "load": st.builds(
            planner.Load, prompt_tokens=SMALL, output_tokens=SMALL, requests=SMALL
        ),
    },
    optional={
        "max_model_len": st.sampled_from([1, 512, 8192]),
        "max_num_seqs": st.sampled_from([1, 2]),
        "tensor_parallel_size": st.sampled_from([1, 8]),
        "data_parallel_size": st.sampled_from([1, 2]),
        "cudagraph_capture_sizes": st.just([1]),
    },
)
ONE_OF_ALL = planner.Load(prompt_tokens=1, output_tokens=1, requests=1)


def disagreeing(text: str) -> list[str]:
    """Return each count that does not agree with its noun, with what is around it."""
    plain = re.sub(r"<style.*?</style>", " ", text, flags=re.DOTALL)
    plain = html.unescape(re.sub(r"<[^>]+>", " . ", plain))
    found = (m for wrong in (_ONE, _MANY) for m in wrong.finditer(plain))
    return [plain[max(0, m.start() - 60) : m.end() + 30] for m in found]


def texts(plan: Plan) -> Iterator[str]:
    """Yield what a reader may see of a plan, as text and as a page."""
    yield from plan._repr_mimebundle_().values()
    yield from panels_html(plan, PANELS).values()
    yield from planner.advise(plan)._repr_mimebundle_().values()
    yield planner.export.markdown(plan)
    yield str(planner.compare(plan, plan.changed(max_num_seqs=3)))
    if plan.load is not None and plan.fits:
        yield from planner.speed_bound(plan, plan.load)._repr_mimebundle_().values()


def test_a_count_of_one_takes_the_singular() -> None:
    """The rule that the sweep below checks, on sentences of its own."""
    assert disagreeing("it holds 1 requests at once")
    assert disagreeing("a first token + 1 more tokens x 9 ms")
    assert disagreeing("<td>1</td><td>tokens</td>") == []
    assert disagreeing("a step of 20 request")
    assert (
        disagreeing("1 request of 4,096 tokens; vLLM 0.19.1 requests 2 piecewise") == []
    )


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@example(state={"model": MODELS[0], "gpu": "H100", "load": ONE_OF_ALL})
@example(
    state={
        "model": MODELS[0],
        "gpu": "L4",
        "load": planner.Load(prompt_tokens=1, output_tokens=2, requests=1),
        "enable_lora": True,
        "max_model_len": 3,
    }
)
@given(state=STATES)
def test_every_text_of_a_plan_counts_in_grammar(state) -> None:
    """Law: no text writes "1 requests" or "20 request"."""
    try:
        plan = planner.plan(**state)
        found = [wrong for text in texts(plan) for wrong in disagreeing(text)]
    except PlannerError as error:
        found = disagreeing(str(error))
    assert found == []
