"""What vLLM 0.33.0's own code answered, case by case."""

from planner.errors import UnknownArchitecture
from tools.answers import BEFORE_LOADING, answer, cases, differences

_WINDOW = "recorded with a configuration class that is not the model's own"
_ORDER = "vLLM refuses another of two settings first"
_MIMO = "XiaomiMiMo--MiMo-7B-Base|H100|"
_EXPLAINED = {
    f"{_MIMO}block_size=64,max_model_len=8192": _WINDOW,
    f"{_MIMO}defaults": _WINDOW,
    f"{_MIMO}kv_cache_dtype=fp8,max_model_len=32768,pipeline_parallel_size=2": _WINDOW,
    f"{_MIMO}kv_cache_dtype=fp8,max_model_len=32768,tensor_parallel_size=8": _WINDOW,
    "zai-org--GLM-5|A100|max_num_seqs=512,quantization=fp8_per_channel,"
    "tensor_parallel_size=2": _ORDER,
}
"""Cases that differ, each with its reason (docs/conformance.md)."""

_NOT_MODELLED: frozenset[str] = frozenset()


def test_every_case_is_answered_as_vllm_answered_it():
    """All but the explained ones, which still differ, and what is not modelled."""
    wrong, unknown = {}, set()
    for case in cases():
        try:
            differing = set(differences(case)) - {BEFORE_LOADING}
        except UnknownArchitecture:
            unknown.add(case["model"])
            continue
        if differing:
            wrong[case["id"]] = differing
    assert _NOT_MODELLED == unknown
    assert {} == {name: what for name, what in wrong.items() if name not in _EXPLAINED}
    assert set(wrong) == set(_EXPLAINED)


def test_weights_are_those_after_repacking():
    """Where a record holds both figures and they differ, the later one is met."""
    met = 0
    for case in cases():
        for rank in case["expect"].get("ranks", []):
            before, after = rank["weights_bytes"], rank.get("weights_after_load_bytes")
            if not after or abs(after - before) <= before / 1000:
                continue
            if case["id"] in _EXPLAINED or rank.get("tp_rank"):
                continue
            mine = answer(case)["ranks"][rank["pp_rank"]]["weights_bytes"]
            assert abs(mine - after) <= after / 1000, case["id"]
            met += 1
    assert met > 100


def test_every_text_model_with_full_attention_and_plain_weights_is_answered():
    """466 plans of decoders and 25 of encoders, less one that promotes windows."""
    unanswered = []
    for case in cases():
        expect = case["expect"]
        if "refused" in expect or case["engine_args"].get("quantization"):
            continue
        kinds = {group["kind"] for group in expect["kv_groups"]}
        is_plain = (
            kinds <= {"FullAttentionSpec"} and not expect["resolved"]["multimodal"]
        )
        is_promoted = "disable_hybrid_kv_cache_manager" in case["engine_args"]
        if not is_plain or is_promoted or expect["resolved"]["quantization"]:
            continue
        try:
            answer(case)
        except UnknownArchitecture as error:
            unanswered.append(f"{case['id']}: {error}")
    assert [] == unanswered
