"""A text with its pieces marked."""

import planner
from planner.show.account import account_html

SCRIPT = "vllm serve Qwen/Qwen3-8B --api-key 's3cret' --max-model-len 8K\n"


def test_each_piece_is_marked_with_what_became_of_it() -> None:
    """The text is all there, in its order, and escaped."""
    html = account_html(planner.read("echo '<b>'\n" + SCRIPT))

    assert "&lt;b&gt;" in html
    assert "kept: outside of this start" in html
    assert html.index("&lt;b&gt;") < html.index("--max-model-len")


def test_keys_are_hidden() -> None:
    """In each way that people write them, at their length."""
    secrets = ("s3cret", "hf_abc", "pa55word")
    text = SCRIPT + "export HF_TOKEN=hf_abc DB_PASSWORD: pa55word\n"
    html = account_html(planner.read(text))

    assert not [one for one in secrets if one in html]
    assert html.count("\u2022" * len("s3cret")) >= 1


def test_a_long_text_is_folded_and_a_log_left_to_its_own_page() -> None:
    """Twelve lines stand open."""
    long = account_html(planner.read("# one\n" * 20 + SCRIPT))
    log = account_html(planner.read("INFO 04-22 01:47:55 [gpu_worker.py:436] x"))

    assert "<details" in long
    assert log == ""
