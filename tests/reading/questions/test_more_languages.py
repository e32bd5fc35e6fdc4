"""Questions in Russian, Portuguese, Italian, Korean, traditional Chinese and others."""
# ruff: noqa: RUF001 - letters of Cyrillic look like those of Latin

from __future__ import annotations

import pytest

import planner

ASKED = {
    "У меня две RTX 3090. Запустится ли Qwen3-32B-AWQ с контекстом 32к?": (
        ("fits", "RTX3090", 2, 32_768, None)
    ),
    "Сколько пользователей выдержит Qwen3-8B на одной L40S при контексте 8192?": (
        ("users", "L40S", 1, 8192, None)
    ),
    "Влезет ли Qwen3-14B в 2х4090 с контекстом 16к и 10 пользователями?": (
        ("fits", "RTX4090", 2, None, 10)
    ),
    "Qwen3-32B не на A100, а на H100 работает?": ("fits", "H100", None, None, None),
    "Qual a GPU mais barata para rodar Qwen3-14B?": (
        ("cheapest", None, None, None, None)
    ),
    "Qwen3-8B em duas L4, 10 usuários, prompts de 2000 tokens e respostas de 500": (
        ("fits", "L4", 2, None, 10)
    ),
    "Quanti utenti regge Qwen3-8B su una L40S con 8k di contesto?": (
        ("users", "L40S", 1, 8192, None)
    ),
    "Qwen3-32B ci sta su due RTX 4090 con contesto di 16k?": (
        ("fits", "RTX4090", 2, 16_384, None)
    ),
    "RTX 4090 2장으로 Qwen3-32B-AWQ 돌릴 수 있나요? 컨텍스트 32k": (
        ("fits", "RTX4090", 2, 32_768, None)
    ),
    "Qwen3-32B L40S 4장, 20명 사용자, 입력 3000 토큰 출력 500 토큰": (
        ("fits", "L40S", 4, None, 20)
    ),
    "兩張 L40S 能跑 Qwen3-32B 嗎？上下文 16k，6 個使用者同時用": (
        "fits",
        "L40S",
        2,
        None,
        6,
    ),
    "A100 80GB 말고 H100에서 Qwen3-32B 가능?": ("fits", "H100", None, None, None),
}


@pytest.mark.parametrize("text", ASKED)
def test_what_is_asked(text: str) -> None:
    """The intent, the GPU and how many, the length, the requests at once."""
    found = planner.read(text)
    intent, gpu, gpus, length, requests = ASKED[text]
    load = found.load
    assert (found.intent, getattr(found.gpu, "name", None), found.gpus) == (
        intent,
        gpu,
        gpus,
    )
    assert found.engine_args.get("max_model_len") == length
    assert (None if load is None else load.requests) == requests


NOT_READ = {
    "İki L4 kartında Qwen3-8B kaç kullanıcıya yeter?": "Turkish",
    "Ilu użytkowników obsłuży Qwen3-8B na dwóch L4, jednocześnie?": "Polish",
    "Hoeveel gebruikers haalt Qwen3-8B op een L4?": "Dutch",
    "Kan jeg have 8 brugere på en L4 med Qwen3-8B?": "a Scandinavian language",
    "Qwen3-8B trên một L4 phục vụ được bao nhiêu người?": "Vietnamese",
    "كم مستخدما يخدم Qwen3-8B على L4؟": "Arabic or Persian",
    "L4 पर Qwen3-8B कितने लोगों के लिए चलेगा?": "an Indian language",
    "Чи вистачить L4 для Qwen3-8B, скільки користувачів?": "Ukrainian",
}


@pytest.mark.parametrize("text", NOT_READ)
def test_a_language_that_is_not_read_is_named_and_no_verdict_stands_for_it(
    text: str,
) -> None:
    """What its numbers count is not known: figures of the start alone are given."""
    said = planner.read(text).explain()
    assert NOT_READ[text] in said.headline
    assert said.headline.startswith("Not answered: what is asked, in words that seem")
    assert said.answer[0].startswith("Serving it: The longest context on 1 x L4 is")
    assert "Yes" not in str(said.answer)


def test_a_foreign_name_in_a_text_makes_it_no_other_language() -> None:
    """One word of a language is none."""
    said = planner.read("Łukasz asks: does Qwen3-8B fit on an L4 with 4k?").explain()
    assert said.headline.startswith("Yes:")
