# %% [markdown]
# # Batch inference with Ray Data LLM
#
# **What you will do**: find out how many GPUs a pipeline takes, place it on nodes, and see which replica would wait, and why.
#
# **What you need**: nothing else. No GPU, no network, no cluster; about ten minutes.
#
# The names are Ray's own (`concurrency`, `accelerator_type`, `batch_size`) and vLLM's own, so you can paste what you find into `vLLMEngineProcessorConfig`.

# %%
from IPython.display import Code

from planner import Load, export
from planner import ray as planner_ray

# %% [markdown]
# ## GPUs in total
#
# DeepSeek-R1 with pipeline 2 and tensor 8 takes 16 GPUs for each replica; four replicas take 64.
# In Ray 2.55 and later one number is a range: it starts with one replica and grows to four.

# %%
engine = {"tensor_parallel_size": 8, "pipeline_parallel_size": 2}
large = planner_ray.pipeline(
    "deepseek-ai/DeepSeek-R1", accelerator_type="H100", concurrency=4, **engine
)
large

# %% [markdown]
# ## On nodes
#
# A replica of 16 GPUs takes two nodes of eight: eight nodes for all four.

# %%
eight = planner_ray.NodeType(name="8xH100", cpus=96, gpus=8, accelerator_type="H100")
large.nodes_needed([eight]).to_dict()

# %% [markdown]
# Three nodes hold one replica; the others wait for a fourth node.

# %%
three = large.on([eight.node("a"), eight.node("b"), eight.node("c")])
three

# %% [markdown]
# The same as a picture: the memory of each GPU above, and the replica that uses it below.

# %%
three.figure()

# %% [markdown]
# ## Other stages next to the engine
#
# A pre- or postprocessing stage may take GPUs, too.
# Tasks release what they take; engines keep theirs until the end.

# %%
before = {"num_gpus": 0.5, "concurrency": 2}
rows = {"num_rows": 100_000, "load": Load(prompt_tokens=1000, output_tokens=200)}
beside = planner_ray.pipeline(
    "Qwen/Qwen3-8B", concurrency=(2, 6), preprocess_map_kwargs=before, **rows
)
beside

# %% [markdown]
# ## Two replicas on one GPU
#
# Ray divides the GPU, not its memory: `gpu_memory_utilization` must leave room for both.

# %%
half = {"bundle_per_worker": {"GPU": 0.5, "CPU": 1}}
less = {"gpu_memory_utilization": 0.45, "max_model_len": 8192}
halves = planner_ray.pipeline(
    "Qwen/Qwen3-8B", concurrency=(2, 2), placement_group_config=half, **less
)
halves.on([planner_ray.Node(name="one", cpus=16, gpus=1)]).figure()

# %% [markdown]
# ## What Ray would never place
#
# If no node has the accelerator, the plan says so; the pipeline would wait for ever.

# %%
large.on([planner_ray.Node(name="l4", cpus=96, gpus=8, accelerator_type="L4")])

# %% [markdown]
# ## Export
#
# The program that runs this pipeline, with only the arguments that differ from the defaults.

# %%
Code(export.ray_data(beside), language="python")
