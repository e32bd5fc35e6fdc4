"""Which keys of a config.json the catalogue keeps, and which it leaves out.

Kept: whatever could change a byte of memory (sizes, layer kinds, attention, experts,
state, rotary embedding, quantisation, vision and audio towers), whether or not the
planner reads it today. Left out: token ids, dropout, start values of training, what
steers sampling, names of software. A key in neither list stops the build: someone has
to decide.
"""

from __future__ import annotations

import re

KEPT = frozenset(
    """
    activation activation_func activation_function activation_situ_beta
    activation_situ_linear_beta add_bias_linear add_classification_head
    add_cross_attention add_full_attention_sink_bias add_post_norm add_qkv_bias
    add_swa_attention_sink_bias alibi alibi_bias_max alpha anyres_pooling_size
    anyres_vit_max_image_size anyres_vit_two_views apply_query_key_layer_scaling
    apply_residual_connection_post_layernorm architectures att_impl_type attention
    attention_bias attention_chunk_size attention_context_left attention_context_right
    attention_factor attention_head_dim attention_heads attention_k_eq_v
    attention_layer_norm attention_logit_cap attention_multiplier
    attention_other_setting attention_out_bias attention_output_gate
    attention_projection_layout attention_softmax_in_fp32 attention_type
    attention_value_scale attn_bias attn_config attn_layer_offset attn_layer_period
    attn_logit_softcapping attn_output_gate attn_res_block_size attn_type attn_type_list
    attn_uses_sequence_id audio_channels audio_config audio_segment_size auto_map
    batch_vision_input beta_fast beta_slow bf16 bias block_auto_adjust_ff_dim
    block_configs block_dim block_ff_dim block_ffn_dim_multiplier block_multiple_of
    block_norm_eps block_use_swiglu blocksparse_block_size blocksparse_homo_head_pattern
    blocksparse_num_local_blocks blocksparse_triton_kernel_block_size
    blocksparse_vert_stride cache_implementation candidate_block_size
    candidate_resolutions candidate_source_layer_id candidate_topk_blocks chunk_size
    cla_share_factor class_num classifier_proj_size clip-l-14-224 clip_qkv
    compress_ratios compress_rope_parameters compress_rope_theta conv_L_cache conv_bias
    conv_dim conv_dim_out conv_kernel conv_kernel_size cross_attention_hidden_size
    cross_attention_layers d_model d_rel decoder_attention_heads decoder_ffn_dim
    decoder_layers decoder_sparse_step deepstack_visual_indexes default_output_length
    dense_attention_every_n_layers dense_intermediate_size dense_list dense_mlp_idx
    depth dim_model_base do_image_splitting do_layer_norm_before downsample_channels
    downsample_factor downsample_ratio drop_vision_last_layer dspark_block_size
    dspark_markov_rank dspark_n_routed_experts dspark_num_experts_per_tok
    dspark_target_layer_ids dtype dynamic_image_size embd_layer embed_dim embedding_cls
    embedding_multiplier embedding_size enable_moe_block encoder_attention_heads
    encoder_config encoder_ffn_dim encoder_layers encoder_patch_size
    engram_compressed_vocab_size engram_head_dim engram_layer_ids engram_max_ngram_size
    engram_n_heads engram_num_embeddings engram_pad_token_id engram_vocab_size ep_size
    expand
    expansion_ratio expert_dtype expert_hidden_dim expert_intermediate_size
    expert_layer_offset expert_layer_period experts_per_token factor ff_dim_multiplier
    ff_intermediate_size ffn ffn_config ffn_dim ffn_hidden_size ffn_mult
    final_logit_softcapping first_k_dense_replace for_llm_compressor force_image_size
    fp16 fp32 fp32_residual_connection full_attention full_attention_interval
    full_attn_layers full_attn_mod fullatt_block_indexes gate_lower_bound gating
    gating_types gegelu_limit gegelu_pad_to_256 global_attn_indexes global_head_dim
    global_view_pos group_limited_greedy group_size hc_eps hc_mult hc_sinkhorn_iters
    hd_transform_order head_dim heads hidden_act hidden_activation hidden_size
    hidden_size_per_layer_input high_freq_factor hybrid_block_size hybrid_layer_pattern
    hybrid_override_pattern id2label image_aspect_ratio image_dim_out
    image_grid_pinpoints image_seq_length image_size image_token_compression_method
    image_token_len img_processor img_token_compression_config in_channels in_chans
    index_head_dim index_kpool index_kpool_always_select_tail index_kpool_compress
    index_n_heads index_share_for_mtp_iteration index_skip_topk_offset
    index_source_layer_ids index_topk index_topk_freq index_topk_pattern
    indexer_rope_interleave indexer_types inference_runner init_pos_emb_height
    init_pos_emb_time init_pos_emb_width initial_context_length input_dim
    input_full_attention input_local_attn_heads input_local_dim input_local_head_dim
    input_local_intermediate_size input_local_layers insert_layer_id
    interleave_moe_layer_step intermediate_layers_indices intermediate_size
    intermediate_size_mlp interpolate_factor is_causal is_decoder is_encoder_decoder
    kda_layers kda_lower_bound kda_safe_gate kv_channels kv_lora_rank kv_n_heads
    kv_source_layer_ids language_config language_model_only latent_moe_use_norm
    layer_group_size layer_norm_eps layer_norm_epsilon layer_norm_type layer_rope_theta
    layer_types ls_init_value layernorm_epsilon layernorm_full_attention_beta
    layernorm_linear_attention_beta layernorm_mlp_beta layers layers_block_type
    learned_pos_emb linear_attn_config linear_bias linear_conv_kernel_dim
    linear_head_dim linear_key_head_dim linear_lower_bound linear_num_heads
    linear_num_key_heads linear_num_value_heads linear_value_head_dim
    llama_4_scaling_beta llm_config lm_head lm_head_bias local_layer_ids
    log_scaling_alpha log_scaling_n_floor logit_scale logits_scaling long_factor
    long_mscale low_freq_factor mamba_conv_bias mamba_d_conv mamba_d_state mamba_dt_rank
    mamba_expand mamba_head_dim mamba_hidden_act mamba_num_heads mamba_proj_bias
    mamba_ssm_cache_dtype mamba_ssm_dtype max_batch_size max_dynamic_patch
    max_image_tokens max_length max_num_tiles max_pixels_tolerance
    max_position_embeddings max_seq_len max_sequence_length max_slice_nums
    max_source_positions max_target_positions max_tiles max_wh_ratio max_window_layers
    median_filter_width merge_kernel_size merge_size merge_type merger_times mhc
    min_dynamic_patch min_image_tokens min_pixels min_tiles mla_use_nope
    mla_use_output_gate mlp_bias mlp_dim mlp_hidden_act mlp_intermediate_size
    mlp_layer_types mlp_only_layers mlp_ratio mlp_type mm_hidden_size mm_projector_type
    mm_resampler_type mm_tokens_per_image mm_use_im_patch_token mm_use_im_start_end
    mm_vision_select_feature mm_vision_select_layer mm_vision_tower model_max_length
    model_name model_type moe_apply_router_weight_on_input moe_drop_tokens
    moe_every_n_layer moe_intermediate_size moe_k moe_latent_size moe_layer_freq
    moe_layer_num_skipped moe_layer_offset moe_layers_enum moe_norm_min moe_num_experts
    moe_num_shared_experts moe_random_routing_dropped_token moe_renormalize
    moe_routed_scaling_factor moe_router_activation moe_router_activation_func
    moe_router_dtype moe_router_logit_softcapping moe_router_scaling_factor
    moe_shared_expert_intermediate_size moe_shared_expert_overlap moe_top_k moe_topk
    mrope_interleaved mrope_section mscale mscale_all_dim mtp_hybrid_override_pattern
    mtp_layers_block_type mtp_num_hidden_layers mtp_transformer_layers
    mtp_use_dedicated_embeddings multi_modal_projector_bias multi_query
    multi_query_attention multi_query_group_num multimodal_projector_bias
    mup_attn_multiplier mup_denominator mup_embedding_multiplier mup_use_scaling
    mup_width_multiplier n_ctx n_embd n_embed n_group n_groups n_head n_heads
    n_heads_in_group n_inner n_layer n_layers n_positions n_routed_experts
    n_shared_experts n_window name need_fp32_gate new_decoder_architecture no_bias no_op
    no_rope_layer_interval no_rope_layers nope_layer_interval norm_after norm_eps
    norm_expert_weight norm_topk_prob norm_type num_attention_groups num_attention_heads
    num_attention_heads_per_layer num_channels num_dense_layers num_expert_group
    num_experts num_experts_per_tok num_experts_per_token num_global_key_value_heads
    num_global_layers num_hash_layers num_heads num_hidden_layers num_img_tokens
    num_key_value_heads num_kv_heads num_kv_shared_layers num_layers
    num_ln_in_parallel_attn num_local_experts num_logits_to_keep num_media_embeds
    num_mel_bins num_mtp_modules num_nextn_predict_layers num_patches
    num_position_embeddings num_query_groups num_reward_heads num_shared_expert
    num_shared_experts num_sink_tokens o_groups o_lora_rank org_vocab_size
    original_max_position_embeddings original_rope out_hidden_size output_channels
    output_dim output_gate_type output_multiplier output_proj_dims pad_key_length
    pad_sequence_to_multiple_of_64 padded_vocab_size parallel_attn partial_rotary_factor
    partial_rotary_factors patch_embed_proj_bias patch_size patch_temporal
    patch_token_len pixel_shuffle_ratio pool_type pooling_kernel_size pos_emb_height
    pos_emb_interpolation_mode pos_emb_type pos_emb_width position_embedding_size
    position_embedding_type position_embedding_xdrope position_id_per_seconds
    post_layer_norm post_norm_eps pre_allocate_kv_cache prefix_lm process_image_mode
    processor_config projection_cls projection_dim projection_intermediate_size
    projection_layers projector_bias projector_config projector_hidden_act
    projector_hidden_size projector_input_dim projector_ln_eps projector_output_dim
    projector_type projector_use_layernorm ps_version q_lora_rank qk_head_dim
    qk_layernorm qk_ln qk_nope_head_dim qk_norm qk_norm_type qk_normalization
    qk_rope_head_dim qk_scale_factor qkv_bias qkv_hidden_size quantization_config
    query_num query_pre_attn_scalar rel_extent reorder_and_upcast_attn
    replace_with_linear residual_in_fp32 residual_multiplier residual_weight rm_head
    rms_norm_eps rmsnorm rope_embedding_base rope_interleave rope_local_base_freq
    rope_mode rope_parameters rope_position_scale rope_ratio rope_scaling rope_theta
    rope_type rotary_dim rotary_emb_base rotary_pct routed_expert_hidden_size
    routed_scaling_factor router_scaling_factor sam_config sam_vit_b
    scale_attention_softmax_in_fp32 scale_attn_by_inverse_layer_idx scale_attn_weights
    scale_depth scale_emb scale_embedding scale_resolution sconv_kernel_size
    scoring_func seconds_per_chunk select_layer seq_length share_expert_dim
    shared_expert_intermediate_size shared_intermediate_size shared_moe_mode
    short_conv_kernel_size short_factor short_mscale sink skip_cls_token slice_config
    slice_mode sliding_attention sliding_window sliding_window_pattern
    sliding_window_size softmax_scale sparse_attention_config sparse_attention_freq
    sparse_block_size sparse_disable_index_value sparse_index_dim sparse_init_block
    sparse_local_block sparse_num_index_heads sparse_score_type sparse_topk_blocks
    sparsify spatial_merge_size spatial_patch_size speech_vocab_size ssm_state_size
    standardize subsampling_conv_channels summary_proj_to_labels summary_type
    summary_use_proj supported_aspect_ratios swa_head_dim swa_num_attention_heads
    swa_num_key_value_heads swa_rope_theta swa_v_head_dim swiglu_alpha swiglu_limit
    swiglu_limits swiglu_limits_shared template temporal_merge_size temporal_patch_size
    text_config text_hidden_size thinker_config tie_encoder_decoder tie_word_embeddings
    tile_size tile_tag time_step_rank tokens_per_second top_k_experts topk_group
    topk_method torch_dtype true_head_dim truncate type type_vocab_size ues_cls_token
    understand_projector_stride unpadded_vocab_size unshifted_sink use_abs_pos
    use_abs_posemb use_associative_scan use_backbone_lora use_bias
    use_bidirectional_attention use_cla use_clipped_linears use_cls_token use_conv_bias
    use_double_wide_mlp use_dynamic_ntk use_expert_bias use_flash_attn
    use_full_rank_gate use_gemma_norm use_grouped_topk use_hd_transform
    use_head_wise_attn_gate use_image_id use_llm_lora use_ln_post use_ln_pre
    use_logn_attn use_mamba_kernels use_mambapy use_mfa use_mixed_mlp_moe use_mla
    use_mm_proj use_moe use_moe_router_bias use_mrope use_mtp use_parallel_residual
    use_pos_enc use_position_ids use_prefill_window_in_sink_attention use_qk_norm
    use_qkv_bias use_rel_pos use_rope2d use_rope_layers use_rotary_pos_emb
    use_routing_bias use_sconv use_sink use_sliding_window use_sparse_attention
    use_thumbnail use_unified_vision_chunk use_weighted_layer_sum v_head_dim version
    video_attn_type video_seq_length vision_batch_size vision_config
    vision_feature_layer vision_feature_select_strategy vision_model_type
    vision_output_dim vision_segment_max_frames vision_select_layer
    vision_soft_tokens_per_image vision_use_head visual_token_window_size
    vit_add_patchemb_bias vit_input_resolution vit_mapping_type vit_norm_type vit_patch
    vit_path vit_remove_prenorm vit_token vit_type vit_used_rms_norm
    vit_window_attn_types vocab_size vocab_size_per_layer_input vt_hidden_size
    vt_intermediate_size vt_num_attention_heads vt_num_hidden_layers weight_tying width
    window_kernel_size window_length window_size with_learnable_separator
    word_embed_proj_dim xdrope_section yarn_only_types
    """.split()
)

DROPPED = frozenset(
    """
    _attn_implementation _attn_implementation_autoset _commit_hash _from_model_config
    _name_or_path apply_spec_augment attention_invalid_logits_value attn_impl
    attn_implementation aux_loss_alpha bad_words_ids base_model_ep_plan
    begin_suppress_tokens block_mlp_init_scale block_out_init_scale
    block_use_xavier_init chunk_size_feed_forward conv_use_xavier_init diversity_penalty
    do_sample early_stopping embedding_fraction enable_audio_output enable_audio_output_
    enable_talker encoder_no_repeat_ngram_size exponential_decay_length_penalty
    finetuning_task forced_decoder_ids freeze_mm_mlp_adapter freeze_mm_vision_resampler
    gradient_checkpointing gradient_clipping ignore_index im_end_id im_end_token
    im_newline_id im_patch_token im_start_id im_start_token image_placeholder
    init_config init_device init_std initializer_factor initializer_range
    input_jitter_noise label2id length_penalty mask_feature_length
    mask_feature_min_masks mask_feature_prob mask_init_id mask_time_length
    mask_time_min_masks mask_time_prob mask_value min_length moe_jitter_eps
    moe_loss_weight mtp_loss_scaling_factor no_repeat_ngram_size num_beam_groups
    num_beams num_return_sequences onnx_safe output_attentions output_hidden_states
    output_past output_router_logits output_scores pad_id prefix pretraining_tp
    problem_type pruned_heads remove_invalid_values repetition_penalty
    rescale_prenorm_residual return_dict return_dict_in_generate router_aux_loss_coef
    router_jitter_noise seq_aux speech_zeroemb_idx summary_activation
    summary_first_dropout suppress_tokens talker_config task_specific_params temperature
    text-generation text_end_id text_start_id tf_legacy_loss time_step_floor
    time_step_limit time_step_max time_step_min token2wav_config tokenizer_class
    tokenizer_name top_k top_p torchscript transformers_version tune_mm_mlp_adapter
    tune_mm_vision_resampler typical_p unfreeze_mm_vision_tower use_bfloat16 use_cache
    use_im_start_end use_image_special_tokens user_token_id validate_runner_input
    verbose video_end_id video_placeholder video_start_id z_loss_weight
    """.split()
)

DROPPED_PATTERN = re.compile(
    r".*_token_id|.*_token_index|.*dropout.*|.*_pdrop|.*layerdrop|drop_path_rate"
)

WHOLE = frozenset(("auto_map", "id2label", "processor_config", "quantization_config"))
"""Kept as they are: their keys are names of modules, classes, labels or settings."""

PREPROCESSOR = frozenset(
    """
    chunk_length crop_size do_pan_and_scan do_resize feature_extractor_type
    feature_size height hop_length image_feature_size image_processor_type
    image_seq_length longest_edge max_pixels max_slice_nums merge_size min_pixels
    n_fft n_samples nb_max_frames pan_and_scan_max_num_crops
    pan_and_scan_min_crop_size pan_and_scan_min_ratio_to_activate patch_size
    processor_class sampling_rate scale_resolution shortest_edge size slice_mode
    temporal_patch_size use_image_id version width
    """.split()
)
"""Of preprocessor_config.json: what decides how many tokens an image or sound takes."""
