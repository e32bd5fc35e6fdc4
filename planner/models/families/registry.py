"""Which reader understands which entry of config.json's `architectures`.

To add an architecture:

- It differs from Llama by facts only: give it a row in the table `ROWS` of `decoders`,
  `mixtures` (with experts) or `transformers` (left to Transformers).
- It has a tower or layers that a module of this package is about (`siglip`, `qwen_vl`,
  `whisper`, `mamba2_hybrids`): add it there, to the table `READERS`.
- Else write a module, called as vLLM calls its own, that ends with such a table.

Then write `planner/data/architectures.txt` (`python -m tools.architectures`), by which
a plan imports the one module that it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module

from planner.engine.releases import Release
from planner.engine.releases.change import Change, recorded
from planner.models.families.assembly import Reader
from planner.models.families.names import FAMILIES

Before = Change
"""What holds up to a release, from which on a class is built otherwise."""

_OWN = {
    f"{name}ForCausalLM": recorded(
        f"{name}ForCausalLM is a class of vLLM's own, not left to Transformers.",
        until=until,
        source=(
            "vLLM 0.24.0 to 0.32.0 `models/registry.py` _TEXT_GENERATION_MODELS, later "
            "_TRANSFORMERS_SUPPORTED_MODELS"
        ),
    )
    for until, names in (
        ("0.25", "GPTBigCode Starcoder2"),
        ("0.26", "Olmo Olmo2"),
        ("0.29", "FlexOlmo HunYuanDenseV1 HunYuanMoEV1 Olmo3"),
        ("0.32", "Arcee Cwm GPTNeoX Glm Jais2 Mellum Phi SeedOss"),
    )
    for name in names.split()
}
"""Classes that vLLM had and then left to Transformers."""
_MODERNBERT = Change(
    until=(0, 29),
    what="Every rank holds the first layer of ModernBERT's MLPs in full.",
    source="vLLM 0.28.0 `models/modernbert.py` ModernBertMLP (Wi)",
)
BUILT_OTHERWISE: dict[str, tuple[Change, ...]] = {
    **{name: (change,) for name, change in _OWN.items()},
    "GPTBigCodeForCausalLM": (
        _OWN["GPTBigCodeForCausalLM"],
        Change(
            until=(0, 27),
            what="Every rank holds GPT-BigCode's attention in full.",
            source="vLLM 0.27.0 `models/transformers/fusers/packed_qkv.py`",
        ),
    ),
    "Glm4vForConditionalGeneration": (
        Change(
            until=(0, 33),
            what="The language model of GLM-4.1V reads its values in a flat config.",
            source="Transformers before 5.20, Glm4vConfig",
        ),
    ),
    "GlmMoeDsaForCausalLM": (
        Change(
            until=(0, 25),
            what="GLM-5's routers have the model's dtype, as from 0.26.0 on.",
            source="vLLM 0.25.0 and 0.26.0 `models/deepseek_v2.py`",
        ),
        Change(
            until=(0, 26),
            what="GLM-5's routers are in float32.",
            source="vLLM 0.25.0 and 0.26.0 `models/deepseek_v2.py`",
        ),
    ),
    "Ministral3ForCausalLM": (
        Change(
            until=(0, 20),
            what="Ministral3ForCausalLM is left to Transformers.",
            source="vLLM 0.19.1 `models/registry.py` _try_resolve_transformers",
        ),
    ),
    "ModernBertModel": (_MODERNBERT,),
    "ColBERTModernBertModel": (_MODERNBERT,),
    "ModernBertForTokenClassification": (_MODERNBERT,),
    "ModernBertForSequenceClassification": (_MODERNBERT,),
    "Olmo3ForCausalLM": (
        Change(
            until=(0, 25),
            what="Transformers keeps OLMo 3's rope_theta where vLLM looks for it.",
            source="Transformers before 5.13, Olmo3Config",
        ),
        Change(
            until=(0, 26),
            what="OLMo 3 does not start with Transformers 5.13 and later.",
            source="vLLM 0.25.1 `models/olmo2.py` Olmo2Attention",
        ),
        _OWN["Olmo3ForCausalLM"],
    ),
}
"""Changes up to which a class was built otherwise, oldest first; `older` has how."""

_FAMILY_OF = {name: family for family, names in FAMILIES.items() for name in names}


class Readers(Mapping[str, Reader]):
    """The readers by architecture name; reading one imports its family."""

    def __init__(self, before: Before | None = None) -> None:
        """Return the readers of classes as they were before a release; None: now."""
        self._before = before

    def __getitem__(self, name: str) -> Reader:
        """Return the reader of a name."""
        if self._before is not None:
            forms = import_module(".older", __package__)
            older: Reader = forms.OLDER[name, self._before.until]
            return older
        family = import_module(f".{_FAMILY_OF[name]}", __package__)
        rows = getattr(family, "ROWS", {})
        if name in rows:
            llama = import_module(".llama", __package__)
            return partial(llama.read, style=rows[name])
        reader: Reader = family.READERS[name]
        return reader

    def __contains__(self, name: object) -> bool:
        """Return whether an architecture is understood; imports nothing."""
        return name in _FAMILY_OF

    def __iter__(self) -> Iterator[str]:
        """Go through the names; imports nothing."""
        return iter(_FAMILY_OF)

    def __len__(self) -> int:
        """Return how many architectures are understood."""
        return len(_FAMILY_OF)


def readers(before: Before | None = None) -> Mapping[str, Reader]:
    """Return every architecture name the planner understands, with its reader.

    `before` is an answer of `built_otherwise`.
    """
    return Readers(before)


def built_otherwise(architecture: str, release: Release) -> Before | None:
    """Return the change until which a class was built as `release` does.

    None: it is built as in the newest.
    """
    forms = BUILT_OTHERWISE.get(architecture, ())
    return next((one for one in forms if release.has(one)), None)
