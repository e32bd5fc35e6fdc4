"""Answers to questions: that question first, with the figures of the one who asks."""

from __future__ import annotations

import pytest

import planner
from planner.reading.questions.answering import MOST_LINES

FIRST = {
    # 4 x 513 blocks of 16 tokens and 2.25 MiB are 4.50 GiB, and one stays empty.
    "Qwen3-8B on an L4, 4 users at 8k?": "No: 4 requests of 8,192 tokens at once need "
    "4.50 GiB of KV cache, ",
    "Qwen3-8B on an H100, 4 users at 8k?": "Yes: 4 requests of 8,192 tokens at once ",
    "Qwen3-8B on an L4 with 16k?": "Yes: one request of 16,384 tokens needs 2.25 GiB ",
    "Does Qwen3-14B fit on a 4090?": "No: the weights are too large. They take ",
    "How many users with 8k for Qwen3-8B on an L4?": "2 users of 8,192 tokens, at once",
    "What is the longest context of Qwen3-8B on an L4?": "The longest context on 1 x ",
    "Qwen3-8B on an L4, a context as big as can fit": "The longest context on 1 x L4",
    "How fast is Qwen3-8B on an L4?": "About 12 (",
    "Why does Qwen3-8B fill my L4?": "No: one request of 40,960 tokens needs ",
    "Warum belegt vLLM den ganzen Grafikspeicher?": "By design: at its start vLLM ",
    "What changes for Qwen3-8B on an L4 from vLLM 0.11.0 to 0.19.0?": "Qwen/Qwen3-8B "
    "on L4, vLLM 0.11.0 to 0.19.0: KV cache ",
    "What changes for Qwen3-8B on an L4 from vLLM 0.8.5 to 0.11.0?": "vllm_version='0.",
    "Which models fit on an A40?": "1 x A40 can serve 1 request of 4,096 tokens (ass",
    "Cheapest GPU for Qwen3-8B?": "1 x RTX4000Ada at 0.26 USD per hour, for ",
    "Does Qwen3-8B fit on an MI300X?": "Open: 'MI300X' is an AMD GPU",
    "Foo-13B on an L4?": 'Open: "Foo-13B" is not in the catalogue',
    "Does Qwen3-8B fit?": "Open: The GPU is not named.",
    # What a start fails with is no memory that is taken by design.
    "Foo-13B takes 15 seconds an answer on my L4, why?": 'Open: "Foo-13B" is not in th',
    "Foo-13B got CUDA out of memory on my L4, why?": 'Open: "Foo-13B" is not in the',
    # Neither "serves it" nor "not" where something else than that is asked.
    "How many L4 do Qwen3-32B and Qwen3-14B need?": "2 starts are asked for, each pla",
    "Which models run on an L4 or on an L40S?": "2 starts are asked for, each planned",
}


def test_the_first_line_answers_the_question() -> None:
    """Whatever it asks, in at most eight lines; no verdict where something is open."""
    found = {text: planner.read(text).explain() for text in FIRST}
    wrong = {
        text: one.headline
        for text, one in found.items()
        if not one.headline.startswith(FIRST[text])
        or len(one.answer) >= MOST_LINES
        or str(one).splitlines()[0][:40] != one.headline[:40]
    }
    assert {} == wrong


def test_the_load_decides_where_the_start_is_too_close_to_call() -> None:
    """One request of four may fit, and four never do: no estimate changes that."""
    found = planner.read("Qwen3-8B on an L4, 4 requests of 24168 tokens").explain()
    assert found.plan.outcome == "too close to call"
    assert found.headline.startswith("No: 4 requests of 24,168 tokens at once need")
    said = "✘ Does not hold the load: serves at most 1 of 4 at once"
    assert said in str(found)


def test_a_shorter_length_is_the_first_change() -> None:
    """Requantising comes after it; `advise` has an order of its own."""
    fixes = planner.read("Qwen3-8B on an L4 with 40k context").explain().fixes
    assert [*fixes[0].changes] == ["max_model_len"]
    assert fixes[0].starts


def test_a_load_that_is_short_is_answered_by_shorter_requests_first() -> None:
    """In the order in which people change things; not where little is left of them."""
    cut = planner.read("Qwen3-8B on an L4, 4 users at 8k?").explain()
    (would_do,) = (line for line in cut.answer if line.startswith("Would do: "))
    nothing = planner.read("Qwen3-8B on an L4, 200 users at 8k?").explain()

    # 1,498 blocks of 16 tokens, one of them empty: 374 for each of the four.
    assert would_do.startswith("Would do: Give each request 5,984 tokens at most; ")
    assert not any("Give each request" in line for line in nothing.answer)


BESIDE = {
    "Does Qwen3-8B support function calling on my L4?": "Not answered: what a model",
    "Is it safe to expose Qwen3-8B on an L4 to the internet?": "Not answered: who may",
    "Do I need CUDA 12.8 for Qwen3-8B on RTX 5090?": "Not answered: what is installed",
    "Is vLLM faster than llama.cpp for Qwen3-8B, RTX 4090?": "Not answered: other eng",
    "Are there known bugs with Qwen3-8B on L4?": "Whether it starts: No: one request",
    "8k of Qwen3-8B on an L4. Could it be the rate limit?": "Whether it starts: Yes: ",
    "Qwen3-8B on an L4, what settings do you advise?": "Whether it starts: No: one req",
    "In TGI it takes 30%. Does Qwen3-8B run on an L4 with 4k?": "Not answered: other",
    "lmdeploy能在L4上跑Qwen3-8B吗": "Not answered: other engines",
    "Do I have to limit Qwen3-8B on an L4 to handle more users?": "5 users of 4,",
    "Will Qwen3-8B on an H100 with 8k run out of memory?": "Whether it starts: Yes: ",
    "Would Qwen3-8B crash on an L4 with 8k?": "Whether it starts: Yes: ",
    "Can an L4 run Qwen3-8B with 8k without OOM?": "Yes: one request",
    "Cost per million tokens of Qwen3-8B on an L4?": "Not answered: what a token costs",
    "How many L4s for Qwen3-8B with 20 users at 8k?": "At least 2 x L4 for 20",
    "how many replicas of Qwen3-8B on L4, 20 users at 8k": "At least 2 x L4 for 20 re",
    "Qwen3-8B 需要几张 L4 才够 20 个用户 8k 上下文?": "At least 2 x L4 for 20 requests",
    "Combien de L4 pour Qwen3-8B et 20 utilisateurs à 8k ?": "At least 2 x L4 for 20",
    "Is Qwen3-8B multilingual? I have an L4": "Whether it starts: No: one request",
    "Will Qwen3-8B on an L4 be slower with long prompts?": "About ",
    "Is my L4 good enough for Qwen3-8B?": "No: one request of 40,960 tokens needs",
    "Can an A6000 run Qwen3-8B": "Yes: one request of 40,960 tokens needs",
    "Can two people use Qwen3-8B on my 4090?": "Yes: 2 requests of 4,096 tokens",
}


@pytest.mark.parametrize("text", BESIDE)
def test_yes_and_no_answer_what_was_asked(text: str) -> None:
    """Whether it starts is said as such where something else was asked."""
    assert planner.read(text).explain().headline.startswith(BESIDE[text])


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        (
            "3 servers with 4x L40S each: how many copies of Llama-3.3-70B FP8 at 32k?",
            "6 copies, each of 2 x L40S",
        ),
        ("How many Qwen3-8B replicas fit on 4x A100 80GB, 32k?", "4 copies, each of 1"),
        ("8张H100上能跑几个Qwen3-32B实例", "8 copies, each of 1 x H100"),
        ("Wie viele Instanzen von DeepSeek-R1 auf 4 H100?", "None: one copy takes"),
    ],
)
def test_copies_that_machines_hold_are_counted(text: str, begin: str) -> None:
    """A copy takes as few GPUs as serve it, all of one machine where it can."""
    found = planner.read(text)
    assert found.explain().headline.startswith(begin)
    assert any("the answer counts smaller ones" in note for note in found.notes)
