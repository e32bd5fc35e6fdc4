"""How each quantisation method holds routed experts.

Which class serves which scheme, by vLLM's names:

- `fp8.Fp8TensorExperts`: one scale an expert. `fp8` checkpoints without
  weight_block_size, `modelopt` FP8, compressed-tensors FP8 of strategy "tensor", and
  `fp8_per_tensor` while loading.
- `fp8.Fp8ChannelExperts`: one scale a row. compressed-tensors FP8 "channel",
  `modelopt` FP8_PER_CHANNEL_PER_TOKEN, `fp8_per_channel`.
- `fp8.Fp8BlockExperts`: one scale a block. `fp8` with weight_block_size,
  compressed-tensors of strategy "block", `modelopt` FP8_PB_WO, `fp8_per_block`.
- `fp8.Mxfp8Experts`: `mxfp8`, `modelopt_mxfp8`, compressed-tensors MXFP8.
- `int8.Int8ChannelExperts`: compressed-tensors W8A8 INT8;
  `int8.Int8OnlineExperts`: `int8_per_channel_weight_only`, `experts_int8`.
- `wna16.GPTQExperts`, `wna16.AWQExperts`, `wna16.PackedExperts` (compressed-tensors
  pack-quantized), `wna16.MoeWNA16Experts` (`moe_wna16`, and where Marlin cannot).
- `int8.W4A8Fp8Experts`, `int8.W4A8Int8Experts`: compressed-tensors W4A8.
- `nvfp4.NvFp4Experts`: `modelopt_fp4`, compressed-tensors NVFP4 and NVFP4A16;
  `nvfp4.NvFp4OnlineExperts`: `nvfp4_per_token`.
- `mxfp4.Mxfp4Experts`: `mxfp4`, `gpt_oss_mxfp4`, `deepseek_v4_fp8`, compressed-tensors
  MXFP4.
"""
