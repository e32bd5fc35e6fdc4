"""Which reader understands which entry of config.json's `architectures`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from planner.architectures import (
    bert,
    deepseek,
    deepseek_v4,
    gemma3_mm,
    gemma4,
    glm4v,
    glm5_next,
    gpt,
    gpt_oss,
    internvl,
    kimi_linear,
    llama,
    llama4,
    longcat,
    mimo_v2,
    minicpm3,
    minicpm_v,
    minimax_m3,
    moe,
    nas,
    picturing,
    qwen_audio,
    qwen_vl,
    recurrent,
    voxtral,
    whisper,
    windowed_moe,
)
from planner.architectures.facts import Facts
from planner.model import ModelArchitecture

Reader = Callable[..., ModelArchitecture]

_LLAMA_NAMES = (
    "LlamaForCausalLM",
    "LLaMAForCausalLM",
    "LlamaModel",
    "MistralModel",
    "LlamaForSequenceClassification",
    "InternLM3ForCausalLM",
    "IQuestCoderForCausalLM",
    "TeleChat3ForCausalLM",
    "MistralForCausalLM",
    "SolarForCausalLM",
    "Ministral3ForCausalLM",
    "GraniteForCausalLM",
    "Ernie4_5ForCausalLM",
)

_STYLE_BY_NAME = {
    "Qwen2ForCausalLM": "Qwen2",
    "Qwen2Model": "Qwen2",
    "Qwen2ForSequenceClassification": "Qwen2",
    "Qwen3ForCausalLM": "Qwen3",
    "Qwen3Model": "Qwen3",
    "Qwen3ForSequenceClassification": "Qwen3",
    "Phi3ForCausalLM": "Phi3",
    "GemmaForCausalLM": "Gemma",
    "Gemma2ForCausalLM": "Gemma2",
    "Gemma3ForCausalLM": "Gemma3",
    "Exaone4ForCausalLM": "Exaone4",
    "Cohere2ForCausalLM": "Cohere2",
    "Olmo3ForCausalLM": "Olmo3",
    "MiMoForCausalLM": "MiMo",
    "ApertusForCausalLM": "Apertus",
    "ExaoneForCausalLM": "Exaone",
    "Glm4ForCausalLM": "Glm4",
    "CohereForCausalLM": "Cohere",
    "NemotronForCausalLM": "Nemotron",
    "OrionForCausalLM": "Orion",
    "StableLmForCausalLM": "StableLm",
    "InternLM2ForCausalLM": "InternLM2",
    "MiniCPMForCausalLM": "MiniCPM",
    "OlmoForCausalLM": "Olmo",
    "Olmo2ForCausalLM": "Olmo2",
    "SmolLM3ForCausalLM": "SmolLM3",
    "SeedOssForCausalLM": "SeedOss",
    "GlmForCausalLM": "Glm",
    "HeliumForCausalLM": "Helium",
    "ArceeForCausalLM": "Arcee",
    "Jais2ForCausalLM": "Jais2",
    "Starcoder2ForCausalLM": "Starcoder2",
}

_OTHER_READERS: dict[str, Callable[..., ModelArchitecture]] = {
    "GPT2LMHeadModel": gpt.read_gpt2,
    "GPTBigCodeForCausalLM": gpt.read_gpt_bigcode,
    "GPTJForCausalLM": gpt.read_gptj,
    "GPTNeoXForCausalLM": gpt.read_gpt_neox,
    "PhiForCausalLM": gpt.read_phi,
    "OPTForCausalLM": gpt.read_opt,
    "FalconForCausalLM": gpt.read_falcon,
    "BloomForCausalLM": gpt.read_bloom,
    "ChatGLMModel": gpt.read_chatglm,
    "ChatGLMForConditionalGeneration": gpt.read_chatglm,
    "MixtralForCausalLM": moe.read_mixtral,
    "Qwen2MoeForCausalLM": moe.read_qwen_moe,
    "Qwen3MoeForCausalLM": moe.read_qwen_moe,
    "Glm4MoeForCausalLM": moe.read_glm4_moe,
    "MiniMaxM2ForCausalLM": moe.read_minimax_m2,
    "DbrxForCausalLM": moe.read_dbrx,
    "OlmoeForCausalLM": moe.read_olmoe,
    "GraniteMoeForCausalLM": moe.read_granite_moe,
    "GraniteMoeSharedForCausalLM": moe.read_granite_moe,
    "PhiMoEForCausalLM": moe.read_phimoe,
    "Ernie4_5_MoeForCausalLM": moe.read_ernie45_moe,
    "DeciLMForCausalLM": nas.read_deci,
    **deepseek.READERS,
    **deepseek_v4.READERS,
    **glm4v.READERS,
    **glm5_next.READERS,
    **gpt_oss.READERS,
    **gemma3_mm.READERS,
    **gemma4.READERS,
    **internvl.READERS,
    **kimi_linear.READERS,
    **llama4.READERS,
    **longcat.READERS,
    **mimo_v2.READERS,
    **minimax_m3.READERS,
    **minicpm3.READERS,
    **minicpm_v.READERS,
    **picturing.READERS,
    **qwen_audio.READERS,
    **qwen_vl.READERS,
    **recurrent.READERS,
    **voxtral.READERS,
    **whisper.READERS,
    **windowed_moe.READERS,
    "BertModel": bert.read_bert,
    "RobertaModel": bert.read_bert,
    "RobertaForMaskedLM": bert.read_bert,
    "XLMRobertaModel": bert.read_bert,
    "RobertaForSequenceClassification": bert.read_bert,
    "XLMRobertaForSequenceClassification": bert.read_bert,
}


@cache
def readers() -> dict[str, Reader]:
    """Return every architecture name the planner understands, with its reader."""
    table: dict[str, Reader] = {
        name: partial(llama.read, style=llama.LLAMA) for name in _LLAMA_NAMES
    }
    for name, style in _STYLE_BY_NAME.items():
        table[name] = partial(llama.read, style=llama.STYLES[style])
    return {**table, **_OTHER_READERS}


# What a config class means by its own names, where Facts' defaults do not know it.
EXTRA_DEFAULTS: dict[str, dict[str, object]] = {
    "mimo": {"tie_word_embeddings": False},
}


def facts_for(config: dict[str, object], model_type: str) -> Facts:
    """Return the config with the defaults that vLLM would put behind it."""
    return Facts(config, model_type, EXTRA_DEFAULTS.get(model_type))
