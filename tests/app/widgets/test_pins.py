"""The plan on other GPUs, in the Compare tab."""

from __future__ import annotations

import planner
from planner import Load
from planner.app.widgets.pins import MOST_GPUS, GPUsFold
from planner.engine.gpu import catalogue
from planner.solve.price_list import list_prices


def test_the_plan_is_compared_on_gpus_with_prices() -> None:
    """Each of those named, as one types them; a wrong name is said."""
    load = Load(prompt_tokens=3000, output_tokens=1000, requests=16)
    fold = GPUsFold()
    fold.show(planner.plan("Qwen/Qwen3-8B", gpu="L4", load=load))
    assert fold.view.value == ""

    fold.toggle.value = True
    for name in ("L4", "L40S", "H100"):
        assert f">{name}<" in fold.view.value
    assert "RTX4090" not in fold.view.value
    fold.names.value = " rtx4090,H100 "
    assert ">RTX4090<" in fold.view.value
    price = list_prices().prices["H100"].per_hour
    assert f"{price:.2f} USD" in fold.view.value
    fold.names.value = "H1000"
    assert "H1000" in fold.view.value
    assert "<table" not in fold.view.value


def test_so_many_gpus_are_compared_at_most() -> None:
    """The whole catalogue is searched in another tab."""
    fold = GPUsFold()
    fold.show(planner.plan("Qwen/Qwen3-8B", gpu="L4"))
    fold.toggle.value = True
    names = [one.name for one in catalogue() if not one.mig_profile][: MOST_GPUS + 1]
    fold.names.value = ",".join(names)

    assert f">{names[0]}<" in fold.view.value
    assert f">{names[-1]}<" not in fold.view.value
