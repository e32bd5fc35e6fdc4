"""Scripts as people write them: what they start, and where each value is changed."""

from __future__ import annotations

from typing import Any

import pytest

import planner
from planner.reading.recognising import all_in
from tests.rows import each_row

NEW = 12345
_GETOPTS = """\
MODEL=org/m
while getopts "m:t:" o; do
  case $o in
    m) MODEL=$OPTARG ;;
    t) TP=$OPTARG ;;
  esac
done
vllm serve "$MODEL" --tensor-parallel-size ${TP:-2}
"""
_WHILE = """\
M=org/m; LEN=9000
while [[ $# -gt 0 ]]; do
  case "$1" in
    --name) M="$2"; shift 2 ;;
    *) shift ;;
  esac
done
vllm serve $M --max-model-len=$LEN
"""
_FUNCTION = """\
serve() {
  local model="$1" len="${2:-4096}"
  shift 2
  vllm serve "$model" --max-model-len "$len" "$@" &
}
serve org/a 8192 --seed 1
serve org/b 100
"""
_CHOSEN = """\
case "${1:-small}" in
  small) M=org/s; TP=1 ;;
  *) M=org/l; TP=8 ;;
esac
vllm serve $M -tp $TP
"""
_DECIDED = """\
FP8=0
A=(--max-model-len 10)
if [ "$FP8" = 1 ] || [[ -n "${Q:-}" && $Q == *fp8* ]]; then A+=(--quantization fp8); fi
[ -z "$LEN" ] && A+=(--max-num-seqs 3)
if [ "$1" = big ]; then TP=8; else TP=2; fi
vllm serve org/m "${A[@]}" -tp $TP
"""
_WRITTEN = """\
cat > run.sh <<'EOF'
M=org/inner
vllm serve $M --max-model-len 7
EOF
cat <<EOF
vllm serve org/usage
EOF
python - <<PY
from vllm import LLM
LLM(model="org/py", max_model_len=8)
PY
"""
_KEYS = """\
declare -A MODELS=([a]=org/a [b]=org/b)
for k in "${!MODELS[@]}"; do vllm serve "${MODELS[$k]}" --seed $((2 * 3)); done
"""
_LOOPED = """\
for m in org/a org/b; do
  for n in {1..2}; do vllm bench latency --model $m -tp $n; done
done
"""
ROWS: dict[str, list[dict[str, Any]]] = {
    "A=(-tp 2 # why\n)\nA+=(--seed 3)\nvllm serve org/m ${A[@]}": [
        {"model": "org/m", "tensor_parallel_size": 2, "seed": 3}
    ],
    'C=(vllm serve org/m)\nC+=(-tp 2)\nnohup "${C[@]}" &': [
        {"model": "org/m", "tensor_parallel_size": 2}
    ],
    'S="--seed 1"\nS="$S -tp $X"\nS+=" --max-num-seqs 2"\nvllm serve org/m $S': [
        {"model": "org/m", "seed": 1, "max_num_seqs": 2}
    ],
    ': "${M:=org/m}"\nvllm serve $M -tp ${1:-$((1 + 3))}': [
        {"model": "org/m", "tensor_parallel_size": 4}
    ],
    'set -- org/m --seed 2\nexec vllm serve "$@"': [{"model": "org/m", "seed": 2}],
    "bash -c 'vllm serve \"$@\"' -- org/m --seed 2": [{"model": "org/m", "seed": 2}],
    "ID=$(docker run -d vllm/vllm-openai:v0.10.0 --model org/m)": [{"model": "org/m"}],
    'vllm serve "${1:?which}" --seed $2 "$@"': [{}],
    "ps aux | grep 'vllm serve org/m'\npkill -f 'vllm serve org/m '\nvllm serve a": [
        {"model": "a"}
    ],
    "M=org/Big-8B\nvllm serve $M --served-model-name ${M##*/}": [
        {"model": "org/Big-8B", "served_model_name": ["Big-8B"]}
    ],
    _GETOPTS: [{"model": "org/m", "tensor_parallel_size": 2}],
    _WHILE: [{"model": "org/m", "max_model_len": 9000}],
    _FUNCTION: [
        {"model": "org/a", "max_model_len": 8192, "seed": 1},
        {"model": "org/b", "max_model_len": 100},
    ],
    _CHOSEN: [{"model": "org/s", "tensor_parallel_size": 1}],
    _CHOSEN.replace("${1:-small}", "$SIZE"): [
        {"model": "org/l", "tensor_parallel_size": 8}
    ],
    _CHOSEN.replace("${1:-small}", "$SIZE").replace("*)", "large)"): [{}],
    _DECIDED: [
        {
            "model": "org/m",
            "max_model_len": 10,
            "max_num_seqs": 3,
            "tensor_parallel_size": 2,
        }
    ],
    _WRITTEN: [
        {"model": "org/inner", "max_model_len": 7},
        {"model": "org/py", "max_model_len": 8},
    ],
    _KEYS: [{"model": "org/a", "seed": 6}, {"model": "org/b", "seed": 6}],
    _LOOPED: [
        {"model": f"org/{name}", "tensor_parallel_size": number}
        for name in "ab"
        for number in (1, 2)
    ],
}


@each_row("text", ROWS)
def test_a_script_starts_this(text: str) -> None:
    """With what it says itself; what decides a run is open, and never a value."""
    found = [
        ({"model": one.model} if one.model else {}) | {**one.engine_args, **one.kept}
        for one in all_in(text)
    ]

    assert found == ROWS[text]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("vllm serve $1", ("the model is $1",)),
        ('vllm serve org/m "$@"', ("What $@ adds",)),
        ("N=$(nvidia-smi -L | wc -l)\nvllm serve org/m -tp $N", ("the GPUs of the",)),
        (_CHOSEN.replace("${1:-small}", "$1").replace("*)", "l)"), ("$M", "$TP")),
    ],
)
def test_what_a_run_decides_is_open(text: str, names: tuple[str, ...]) -> None:
    """In a sentence for each."""
    said = " ".join(planner.read(text).open)

    assert [name for name in names if name not in said] == []


@pytest.mark.parametrize(
    ("text", "was"),
    [
        ("A=(\n  --max-model-len 77 # why\n)\nvllm serve org/m ${A[@]}", "77"),
        ("LEN=77\nvllm serve org/m --max-model-len $LEN", "77"),
        ('LEN=77\nF="--max-model-len $LEN"\nvllm serve org/m $F -tp 2', "77"),
        ("vllm serve org/m --max-model-len ${2:-77}", "77"),
        ('S="--seed 1"\nS="$S --max-model-len 77"\nvllm serve org/m $S', "77"),
        ("s() { vllm serve $1 --max-model-len $2; }\ns org/m 77", "77"),
        ("for n in 77 88; do vllm serve org/m --max-model-len $n; done", "77"),
        ("cat > a <<E\nvllm serve org/m --max-model-len 77\nE", "77"),
        ("M=org/m\nN=77\nbash -c \"vllm serve $M --max-model-len '$N'\"", "77"),
        ("if [ -f x ]; then N=77; fi\nvllm serve org/m --max-model-len $N", "$N"),
    ],
)
def test_a_value_is_changed_where_it_was_given(text: str, was: str) -> None:
    """In the array, the assignment, the default, the call: where that is certain."""
    at = text.rindex(was)

    assert planner.read(text).text(max_model_len=NEW) == (
        text[:at] + str(NEW) + text[at + len(was) :]
    )


def test_an_argument_tells_every_place_that_it_comes_from() -> None:
    """The flag, the variable where it is used, and the value where it is set."""
    text = "N=77\nF='--seed 1'\nvllm serve org/m --max-model-len $N $F"
    start = planner.read(text).start
    assert start is not None
    places = {s.name: {text[a:b] for a, b in s.at} for s in start.sites}

    assert places == {
        "model": {"org/m"},
        "max_model_len": {"--max-model-len", "$N", "77"},
        "seed": {"--seed", "1", "$F"},
    }


def test_what_calls_itself_and_what_grows_is_refused_or_read_in_time() -> None:
    """Neither functions nor loops are followed without an end."""
    again = "f() {\nf; f\nvllm serve org/m\n}\nf"
    nested = "".join(f"for {one} in {{1..64}}; do\n" for one in "abc")

    assert all_in(again)[0].model == "org/m"
    with pytest.raises(planner.PlannerError, match="grows"):
        all_in(nested + "vllm serve org/m\n" + "done\n" * 3)
