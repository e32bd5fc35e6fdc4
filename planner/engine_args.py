"""vLLM's engine arguments by name, and what each means for the planner.

Three kinds: modelled (fields of `planner.engine.EngineSettings`), without effect on GPU
memory (kept for the command line), and not modelled yet (refused unless they hold the
value that switches them off, so that no figure silently ignores them).

Source: vLLM 0.33.0 `engine/arg_utils.py` EngineArgs and AsyncEngineArgs.
"""

from __future__ import annotations

from collections.abc import Mapping

from planner.errors import PlannerError
from planner.releases import Release, came_later

WITHOUT_EFFECT = frozenset(
    """
    aggregate_engine_logging allow_deprecated_quantization allowed_local_media_path
    allowed_media_domains code_revision collect_detailed_traces config_format
    cpu_distributed_timeout_seconds cudagraph_metrics custom_histogram_buckets
    data_parallel_address data_parallel_backend data_parallel_external_lb
    data_parallel_hybrid_lb data_parallel_multi_port_external_lb data_parallel_rank
    data_parallel_rpc_port data_parallel_size_local data_parallel_start_rank
    default_mm_loras device_ids disable_cascade_attn disable_log_stats
    disable_nccl_for_dp_synchronization distributed_timeout_seconds download_dir
    dp_sync_interval enable_layerwise_nvtx_tracing enable_log_requests
    enable_sleep_mode
    enable_logging_iteration_details enable_mfu_metrics enable_mm_processor_stats
    fail_on_environ_validation generation_config hf_config_path hf_token
    ignore_patterns interleave_mm_strings io_processor_plugin jit_monitor_mode
    jit_monitor_verbose kv_cache_metrics kv_cache_metrics_sample kv_events_config
    kv_offloading_backend kv_transfer_config
    load_format log_config_file log_level logging_config logits_processors
    logprobs_mode long_prefill_token_threshold long_prefill_token_threshold_adaptive
    mamba_cache_mode master_addr master_port max_logprobs max_num_queued_reqs
    max_num_queued_tokens max_num_scheduled_tokens max_parallel_loading_workers
    mm_hasher_algorithm mm_tensor_ipc model_loader_extra_config nnodes node_rank
    numa_bind numa_bind_cpus numa_bind_nodes otlp_traces_endpoint
    override_generation_config per_request_spec_decode_metrics
    prefix_cache_retention_interval prefix_caching_hash_algo profiler_config
    pt_load_map_location ray_workers_use_nsight reasoning_config reasoning_parser
    reasoning_parser_plugin renderer_num_workers revision safetensors_load_strategy
    safetensors_prefetch_block_size safetensors_prefetch_num_threads
    scheduler_reserve_full_isl scheduling_policy seed served_model_name
    show_hidden_metrics_for_version shutdown_timeout skip_tokenizer_init
    stream_interval tokenizer tokenizer_mode tokenizer_revision
    use_fp64_gumbel use_tqdm_on_load watchdog_config worker_extension_cls
    """.split()
)

SWITCHED_OFF: dict[str, tuple[object, ...]] = {
    # Not modelled yet; these values leave the memory as it is without the argument.
    "additional_config": ({},),
    "all2all_backend": (),
    "attention_config": ({},),
    "aux_output_config": (),
    "cp_kv_cache_interleave_size": (1,),
    "dbo_decode_token_threshold": (),
    "dbo_prefill_token_threshold": (),
    "dcp_comm_backend": (),
    "dcp_kv_cache_interleave_size": (1,),
    "dcp_q_replicate": (False,),
    "diffusion_config": (),
    "disable_custom_all_reduce": (False,),
    "disable_sliding_window": (False,),
    "distributed_executor_backend": ("mp", "uni"),
    "ec_manager_config": (),
    "ec_transfer_config": (),
    "elastic_ep_max_dp_size": (),
    "enable_batch_sharded_sampling": (False,),
    "enable_cumem_allocator": (False,),
    "enable_dbo": (False,),
    "enable_elastic_ep": (False,),
    "enable_ep_weight_filter": (False, True),
    "enable_fault_tolerance": (False,),
    "enable_flashinfer_autotune": (True, False),
    "enable_hc_sp": (False,),
    "enable_mamba_cache_stochastic_rounding": (False,),
    "enable_mamba_shared_prefix_checkpoint": (False,),
    "enable_nccl_comm_suspend": (False,),
    "enable_prompt_embeds": (False,),
    "enable_return_routed_experts": (False,),
    "enable_shm_tensor_arena": (False, True),
    "enable_trace_replay": (False,),
    "engram_config": (),
    "expert_placement_strategy": ("linear", "round_robin"),
    "fault_tolerance_config": (),
    "hf_overrides": ({},),
    "ir_op_priority": (),
    "kda_decode_backend": (),
    "kda_prefill_backend": (),
    "kernel_config": ({},),
    "kv_sharing_fast_prefill": (False,),
    "linear_backend": (),
    "mamba_backend": ("triton",),
    "mamba_cache_philox_rounds": (),
    "mamba_config": (),
    "mamba_ssu_algorithm": (),
    "max_num_active_seqs": (),
    "mm_device_do_normalize": (),
    "mm_encoder_attn_backend": (),
    "mm_encoder_attn_dtype": (),
    "mm_encoder_fp8_scale_path": (),
    "mm_encoder_fp8_scale_save_margin": (),
    "mm_encoder_fp8_scale_save_path": (),
    "mm_encoder_only": (False,),
    "mm_processor_device": (),
    "model_class_overrides": (),
    "model_impl": ("auto",),
    "model_weights": (),
    "moe_backend": ("auto",),
    "monokernel": (),
    "pooler_config": (),
    "prefill_context_parallel_size": (1,),
    "prefill_schedule_interval": (),
    "prefix_match_unit": (),
    "quantization_config": (),
    "replayssm_buffer_len": (),
    "return_sampling_mask": (),
    "sleep_mode_backend": (),
    "sleep_mode_offload_cudagraph": (False,),
    "sleep_preserve_parameter_names": (),
    "sparse_indexer_topk_backend": (),
    "structured_outputs_config": ({},),
    "swa_bounded_replay": (),
    "tokens_only": (False,),
    "ubatch_size": (0,),
    "use_replayssm": (False,),
    "video_pruning_method": (),
    "video_pruning_rate": (),
    "watermark": (),
    "watermark_config": (),
    "weight_transfer_config": (),
    "worker_cls": ("auto",),
    "scheduler_cls": (),
    "convert": ("auto",),
}

_TWO_BATCHES = (
    "two micro-batches are under way at once, each with buffers and graphs of its own"
)
REASONS: Mapping[str, str] = {
    **dict.fromkeys(
        ("enable_elastic_ep", "elastic_ep_max_dp_size"),
        "ranks come and go, and each keeps room for experts that may come to it",
    ),
    **dict.fromkeys(
        (
            *("enable_dbo", "ubatch_size", "dbo_decode_token_threshold"),
            "dbo_prefill_token_threshold",
        ),
        _TWO_BATCHES,
    ),
    "prefill_context_parallel_size": "prompts are cut over further ranks, whose "
    "buffers and collectives are not known",
    "ec_transfer_config": "encoders run in an engine of their own",
    "sleep_mode_offload_cudagraph": "CUDA graphs then lie in a pool of their own",
}
"""Why an argument is not modelled, where there is more to say than that."""

GONE: Mapping[str, tuple[int, ...]] = {"swap_space": (0, 18)}
"""Arguments of older releases, and the one that took them away."""

_ALSO_UNDER_OTHER_NAMES = ("cudagraph_capture_sizes", "max_cudagraph_capture_size")
"""Older releases have them in compilation_config, or as cuda_graph_sizes."""


def check_release(engine_args: Mapping[str, object], release: Release) -> None:
    """Refuse what the user asks of a release that does not have it yet.

    Raises:
        PlannerError: naming the first release that has it.
    """
    for name, value in engine_args.items():
        if value is None or name in _ALSO_UNDER_OTHER_NAMES:
            continue
        first = came_later("arguments", name, release)
        if first is not None:
            raise _not_yet(f"the argument {name}", first, release)
        if name in GONE and release.since(*GONE[name]):
            went = ".".join(map(str, (*GONE[name], 0)))
            raise PlannerError(
                f"vLLM {release.version} has no {name} any more: it went with {went}. "
                "Leave it out."
            )
    dtype = engine_args.get("kv_cache_dtype")
    first = came_later("kv_cache_dtypes", str(dtype), release)
    if first is not None:
        raise _not_yet(f"kv_cache_dtype={dtype!r}", first, release)
    if engine_args.get("max_model_len") in ("auto", -1) and not release.fits_length:
        asked = engine_args["max_model_len"]
        raise _not_yet(f"max_model_len={asked!r}", "0.14.0", release)


def _not_yet(what: str, first: str, release: Release) -> PlannerError:
    return PlannerError(
        f"vLLM {release.version} does not have {what} yet: it came with {first}. "
        f"Leave it out, or plan vllm_version={first!r} or later."
    )
