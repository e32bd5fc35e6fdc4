"""Whether a plan serves a load: one definition for solver, advice and comparison.

It does when vLLM starts (judged at the low end of the estimate's range), accepts
requests of that length and that many at once, and its KV cache holds all of them: each
at its full length, or at what it stores on average where the load has a mean. What all
requests begin with is counted once, where vLLM is sure to find it. With data parallel,
each replica serves its share, and stores the beginning itself.
"""

from __future__ import annotations

from planner.given import named_in_errors
from planner.planning.inputs import Inputs
from planner.planning.load import Load
from planner.planning.result import Plan
from planner.values import frozen

NULL_BLOCKS = 1
"""Blocks that are never given to a request.

Source: vLLM 0.33.0 `v1/core/block_pool.py` BlockPool.null_block; the same in 0.9.2.
"""


@frozen
class Serving:
    """A plan and the load that it should serve."""

    plan: Plan
    load: Load
    """Over all replicas."""
    blocks_per_request: int
    """For a request of the load's length; 0 where nothing is kept between steps."""
    blocks_held: int
    """What a request counts for: its longest, or the mean where one is given."""
    shared_blocks: int = 0
    """Of each of these, the blocks that a replica stores once for all."""

    @property
    def share(self) -> int:
        """Requests at once on the replica that has the most."""
        return self.load.share(self.plan.engines)

    @property
    def num_blocks(self) -> int:
        """KV cache blocks of a replica at the low end of the estimate's range."""
        return low_blocks(self.plan)

    @property
    def held(self) -> int | None:
        """Requests that a replica's KV cache holds at once; None: no limit."""
        if not self.blocks_per_request:
            return None if self.plan.ranks else 0
        return self.held_by(self.num_blocks)

    @property
    def needed_blocks(self) -> int:
        """KV cache blocks that a replica needs for its share."""
        own = self.blocks_held - self.shared_blocks
        return NULL_BLOCKS + self.shared_blocks + self.share * own

    def held_by(self, num_blocks: int) -> int:
        """Return the requests that a KV cache of so many blocks holds at once."""
        return self._held(num_blocks, self.blocks_held)

    def _held(self, num_blocks: int, each: int) -> int:
        left = max(num_blocks - NULL_BLOCKS - self.shared_blocks, 0)
        return left // (each - self.shared_blocks)

    @property
    def admits(self) -> bool:
        """Whether vLLM accepts requests of that length, and that many at once."""
        resolved = self.plan.resolved
        if resolved is None:
            return False
        is_long_enough = resolved.max_model_len >= self.load.request_tokens
        return is_long_enough and resolved.max_num_seqs >= self.share

    @property
    def is_served(self) -> bool:
        """Whether the plan serves the load."""
        held = self.held
        return self.plan.fits and self.admits and (held is None or held >= self.share)

    @property
    def requests_held(self) -> int | None:
        """Requests of that length that all replicas hold at once; None: no limit."""
        held = self.held
        return None if held is None else held * self.plan.engines

    @property
    def requests_certain(self) -> int | None:
        """Requests held at once though all are at their longest; None: no limit."""
        if self.held is None or not self.blocks_per_request:
            return self.requests_held
        return self._held(self.num_blocks, self.blocks_per_request) * self.plan.engines

    @property
    def requests_held_at_most(self) -> int | None:
        """The same at the high end of the estimate's range; None: no limit."""
        rank = self.plan.limiting_rank
        if rank is None or not (rank.bytes_per_block and self.blocks_per_request):
            return None
        blocks = rank.available_kv_cache_high_bytes // rank.bytes_per_block
        return self.held_by(blocks) * self.plan.engines

    @property
    def is_short(self) -> bool:
        """Whether not even the high end of the estimate holds the load."""
        held = self.requests_held_at_most
        return held is not None and held < self.load.requests

    @property
    def is_short_though_close(self) -> bool:
        """Whether the start is too close to call, and does not hold the load."""
        error = self.plan.error
        return error is not None and error.kind == "too_close" and self.is_short

    @property
    def requests_served(self) -> int:
        """The most requests of that length that all replicas serve at once.

        0 where vLLM does not start or does not accept that length. At most
        max_num_seqs run at once, however many the KV cache holds.
        """
        plan, resolved, held = self.plan, self.plan.resolved, self.held
        if resolved is None or not plan.fits:
            return 0
        if self.load.request_tokens > resolved.max_model_len:
            return 0
        most = resolved.max_num_seqs
        return plan.engines * (most if held is None else min(held, most))

    @property
    def words(self) -> str:
        """How much of the load is served, such as "serves 1 of 20 at once"."""
        asked, ending, certain = self.load.requests, "", self.requests_certain
        if self.load.has_mean and certain is not None and certain < asked:
            ending = f" on average, {certain:,} for certain"
        if self.is_short_though_close:
            most = self.requests_held_at_most
            return f"serves at most {most} of {asked:,} at once{ending}"
        served = min(self.requests_served, asked)
        return f"serves {served:,} of {asked:,} at once{ending}"


def low_blocks(plan: Plan) -> int:
    """Return the KV cache blocks at the low end of the estimate's range."""
    return round(plan.max_concurrency_low * plan.blocks_per_request)


def of_plan(plan: Plan) -> Serving | None:
    """Compare a plan with its own load; see `Plan.serving`."""
    return None if plan.load is None else serving(plan, plan.load)


@named_in_errors
def serving(plan: Plan, load: Load | None = None) -> Serving:
    """Compare a plan with a load.

    Args:
        plan: taken as it is; no argument is adapted to the load.
        load: None: the plan's own, or one request of its max_model_len.
    """
    load = load or plan.load
    if load is None:
        length = 1 if plan.resolved is None else plan.resolved.max_model_len
        load = Load(prompt_tokens=length, output_tokens=0)
    longest = held = _blocks_of_a_request(plan, load.request_tokens)
    if load.has_mean:
        held = _blocks_of_a_request(plan, load.held_tokens)
    shared = 0
    if plan.shared_prefix is not None and longest:
        # A request on average need not be beyond what it shares: it has a block more.
        shared = min(plan.shared_prefix.blocks(load.reused_tokens), longest - 1)
        held = max(held, shared + 1)
    return Serving(
        plan=plan,
        load=load,
        blocks_per_request=longest,
        blocks_held=held,
        shared_blocks=shared,
    )


def _blocks_of_a_request(plan: Plan, tokens: int) -> int:
    """Count the blocks that one request of so many tokens takes in this plan."""
    blocks, resolved = plan.request_blocks, plan.resolved
    is_shorter = resolved is not None and tokens < resolved.max_model_len
    return blocks.of(tokens) if blocks and is_shorter else plan.blocks_per_request


def serve(inputs: Inputs, load: Load | None, *, follows: bool = True) -> Serving:
    """Plan a start for a load.

    Arguments that are not given follow the load: `max_model_len` (also auto) becomes
    the length of its requests and, with `follows`, `max_num_seqs` their number.

    Args:
        inputs: the start; given arguments stay.
        load: None: the start as it is, with one request of its `max_model_len`.
        follows: whether the number of requests was given; otherwise `max_num_seqs`
            stays vLLM's default, or as many as there are states for.
    """
    if load is None:
        return serving(inputs.changed(load=None).plan())
    is_open = inputs.engine_args.get("max_model_len") in (None, "auto", -1)
    if follows:
        is_auto = is_open and "max_model_len" in inputs.engine_args
        given = inputs.changed(max_model_len=None) if is_auto else inputs
        return serving(given.changed(load=load).plan(), load)
    length = {"max_model_len": load.request_tokens} if is_open else {}
    start = inputs.changed(load=None, **length)
    plan = start.plan()
    if start.engine_args.get("max_num_seqs") is None and _lacks_states(plan):
        plan = start.changed(max_num_seqs=low_blocks(plan)).plan()
    return serving(plan, load)


def _lacks_states(plan: Plan) -> bool:
    """Whether there are too few state blocks for vLLM's default max_num_seqs.

    Source: vLLM 0.33.0 `config/compilation.py` resolve_cudagraph_mode_and_sizes.
    """
    if plan.error is None or plan.error.kind not in ("num_seqs", "too_close"):
        return False
    has_states = any(group.kind == "MambaSpec" for group in plan.kv_groups)
    seqs = 0 if plan.resolved is None else plan.resolved.max_num_seqs
    return has_states and 0 < low_blocks(plan) < seqs
