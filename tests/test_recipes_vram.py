"""What a recipe of vLLM states, beside what its start needs."""

import sys

from tools import recipes_vram

RECIPE = """\
model: {model_id: meta-llama/Llama-3.1-8B-Instruct}
variants:
  default: {precision: bf16, vram_minimum_gb: 20}
  short: {extra_args: ["--max-model-len", "8192"], vram_minimum_gb: 24}
"""


def test_a_recipe_that_states_too_little_is_marked(
    tmp_path, capsys, monkeypatch
) -> None:
    """8 B x 2 bytes x 1.2 are 20 GB; 131,072 tokens of KV cache alone take 16 GiB."""
    path = tmp_path / "llama.yaml"
    path.write_text(RECIPE)
    monkeypatch.setattr(sys, "argv", ["recipes_vram", str(path), "--gpu", "H200"])
    assert 1 == recipes_vram.main()
    default, short = capsys.readouterr().out.splitlines()

    assert default.startswith("::error::")
    assert default.endswith("default on 1 x H200: states 20, needs 37")
    assert short.endswith("short on 1 x H200: states 24, needs 21")
    (first, _) = recipes_vram.stated_in(path, "H200")
    assert first.is_too_small
