"""Regenerate planner/data/config_defaults.json: what a silent config.json means.

vLLM reads config.json through Transformers' configuration classes, whose defaults fill
in what the file leaves out. This tool asks those classes (run it where Transformers is
installed) and keeps the values that decide memory:

    python tools/config_defaults.py > planner/data/config_defaults.json

Values that a class derives from others (KV heads from heads, head size from hidden
size) are told apart by asking it twice, and left out: the readers derive them too.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import transformers

MODEL_TYPES = """
cohere2 afmoe exaone4 exaone_moe gemma2 gemma3_text olmo3
apertus arcee bert bloom cohere dbrx ernie4_5 ernie4_5_moe falcon gemma glm glm4
glm4_moe gpt2 gpt_bigcode gpt_neox gptj granite granitemoe granitemoeshared helium
jais2 llama minimax_m2 ministral3 mistral mixtral nemotron olmo olmo2 olmoe opt phi
phi3 phimoe qwen2 qwen2_moe qwen3 qwen3_moe roberta seed_oss smollm3 stablelm
starcoder2 xlm-roberta
falcon_h1 falcon_mamba granitemoehybrid jamba lfm2 lfm2_moe mamba mamba2 nemotron_h
olmo_hybrid qwen3_5_moe_text qwen3_5_text qwen3_next zamba2
glm4v glm4v_moe glm4v_moe_text glm4v_moe_vision glm4v_text glm4v_vision glm_ocr
glm_ocr_text glm_ocr_vision internvl internvl_vision qwen2_5_omni_audio_encoder
qwen2_5_omni qwen2_5_omni_text qwen2_5_omni_thinker qwen2_5_omni_vision_encoder
paddleocr_vl paddleocr_vl_text paddleocr_vl_vision qwen2_5_vl
qwen2_5_vl_text qwen2_5_vl_vision qwen2_audio qwen2_audio_encoder qwen2_vl
qwen2_vl_text qwen2_vl_vision qwen3_5 qwen3_5_moe qwen3_5_moe_vision qwen3_5_vision
qwen3_omni_moe qwen3_omni_moe_audio_encoder qwen3_omni_moe_text qwen3_omni_moe_thinker
qwen3_omni_moe_vision_encoder qwen3_vl qwen3_vl_moe qwen3_vl_moe_text
qwen3_vl_moe_vision qwen3_vl_text qwen3_vl_vision whisper ernie4_5_vl_moe
ernie4_5_vl_moe_text ernie4_5_vl_moe_vision
axk1 deepseek_v2 deepseek_v3 deepseek_v32 glm4_moe_lite glm_moe_dsa kimi_k2
longcat_flash minicpm3
clip_vision_model gemma3 gemma3n gemma3n_audio gemma3n_text gemma3n_vision gemma4
gemma4_audio gemma4_text gemma4_vision idefics3 idefics3_vision llama4
llama4_vision_model llava llava_next llava_onevision mistral3 paligemma pixtral
siglip_vision_model kimi_k25 kimi_k25_vision llama4_text muse_glimmer muse_glimmer_text
muse_glimmer_vision smolvlm smolvlm_vision
qwen4_exp_text qwen4_exp_vision diffusion_gemma_text
gemma4_unified_audio gemma4_unified_text gemma4_unified_vision
""".split()

# Model types that vLLM gives another class than Transformers does.
READ_AS = {"deepseek_v32": "deepseek_v3", "kimi_k2": "deepseek_v3"}

KEYS = """
vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads
num_key_value_heads head_dim max_position_embeddings tie_word_embeddings
attention_bias mlp_bias sliding_window use_sliding_window partial_rotary_factor
n_positions n_embd n_layer n_head n_inner rotary_dim use_qkv_bias qk_layernorm
multi_query bias alibi new_decoder_architecture parallel_attn num_ln_in_parallel_attn
word_embed_proj_dim ffn_dim do_layer_norm_before _remove_final_layer_norm enable_bias
layer_norm_elementwise_affine num_local_experts num_experts num_experts_per_tok
moe_intermediate_size shared_expert_intermediate_size decoder_sparse_step
n_routed_experts n_shared_experts first_k_dense_replace use_qk_norm moe_num_experts
moe_k moe_layer_start_index moe_layer_end_index moe_layer_interval
moe_num_shared_experts use_bias shared_intermediate_size type_vocab_size d_model
n_heads n_layers max_seq_len attention_out_bias
linear_conv_kernel_dim linear_key_head_dim linear_value_head_dim linear_num_key_heads
linear_num_value_heads ssm_state_size mamba_num_heads mamba_head_dim n_groups
conv_kernel use_conv_bias mamba_ssm_cache_dtype moe_shared_expert_intermediate_size
moe_latent_size mamba_d_state mamba_d_conv mamba_expand mamba_conv_bias
mamba_proj_bias attn_layer_period attn_layer_offset expert_layer_period
expert_layer_offset state_size mamba_n_heads mamba_d_head mamba_n_groups mamba_d_ssm
mamba_rms_norm conv_bias conv_L_cache conv_dim num_dense_layers num_heads head_dim
expand mamba_ngroups n_mamba_heads mamba_headdim num_mem_blocks adapter_rank
use_mem_rope use_shared_attention_adapter add_bias_linear intermediate_multiplier
depth embed_dim mlp_ratio num_heads in_channels patch_size spatial_merge_size
temporal_patch_size out_hidden_size num_position_embeddings deepstack_visual_indexes
image_size num_mel_bins encoder_layers encoder_attention_heads encoder_ffn_dim
max_source_positions decoder_layers decoder_attention_heads decoder_ffn_dim
max_target_positions output_dim n_window downsample_hidden_size qk_normalization
use_qk_norm use_mean_pooling layer_scale_init_value use_absolute_position_embeddings
use_mask_token temporal_merge_size norm_topk_prob norm_type num_channels
downsample_ratio
q_lora_rank kv_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim topk_method
index_topk index_head_dim index_n_heads num_layers ffn_hidden_size
expert_ffn_hidden_size moe_topk zero_expert_num
num_channels projection_dim vision_feature_layer multimodal_projector_bias
global_head_dim num_kv_shared_layers hidden_size_per_layer_input
vocab_size_per_layer_input attention_k_eq_v use_double_wide_mlp top_k_experts
pooling_kernel_size position_embedding_size use_clipped_linears standardize
subsampling_conv_channels conv_kernel_size output_proj_dims altup_num_inputs
laurel_rank vocab_offset conf_num_hidden_layers conf_num_attention_heads
conf_conv_kernel_size input_feat_size sscp_conv_channel_size sscp_conv_kernel_size
sscp_conv_stride_size num_queries pixel_shuffle_ratio vision_output_dim
projector_input_dim projector_output_dim scale_factor pos_emb_height pos_emb_width
pos_emb_time merge_kernel_size projector_hidden_size multi_modal_projector_bias
patch_temporal merge_size num_local_experts interleave_moe_layer_step
attention_chunk_size mm_embed_dim mm_posemb_size audio_embed_dim
use_bidirectional_attention hc_count hc_lowrank
""".split()


SIZES = """
hidden_size num_attention_heads num_hidden_layers d_model n_embd n_head n_layers
""".split()
"""From these the classes derive other values."""


def defaults_of(model_type: str) -> dict[str, Any]:
    """Return the values a configuration class sets by itself."""
    config_class = transformers.CONFIG_MAPPING[READ_AS.get(model_type, model_type)]
    plain = config_class()
    plain.allow_global_per_layer_attribute_access = True  # Gemma 4's head sizes
    renamed = config_class.attribute_map
    kept = {key: getattr(plain, key, None) for key in KEYS if key not in renamed}
    rope = getattr(plain, "rope_parameters", None) or {}
    if "partial_rotary_factor" in rope:
        kept["partial_rotary_factor"] = rope["partial_rotary_factor"]
    derived = derived_keys(config_class, plain)
    return {
        key: value
        for key, value in kept.items()
        if value is not None and key not in derived
    }


def derived_keys(config_class: Any, plain: Any) -> set[str]:  # noqa: ANN401
    """Return the values that change with another one, as its class derives them."""
    found: set[str] = set()
    for size in SIZES:
        value = getattr(plain, size, None)
        if not isinstance(value, int) or value < 1:
            continue
        try:
            other = config_class(**{size: 2 * value})
        except Exception:  # noqa: BLE001 - classes refuse in ways of their own
            continue
        other.allow_global_per_layer_attribute_access = True
        aliases = config_class.attribute_map
        same = {size, aliases.get(size), *(k for k, v in aliases.items() if v == size)}
        found |= {
            key
            for key in KEYS
            if key not in same
            and getattr(other, key, None) != getattr(plain, key, None)
        }
    return found


def main() -> None:
    """Write the table as JSON, one model type a line."""
    table = {model_type: defaults_of(model_type) for model_type in MODEL_TYPES}
    lines = [
        f'"source": "Transformers {transformers.__version__} configuration classes"'
    ]
    lines += [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(table.items())]
    sys.stdout.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
