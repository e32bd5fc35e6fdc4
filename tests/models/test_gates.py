"""Routers that compute in float32."""

import pytest

from planner.engine.layout import ParallelLayout
from planner.models.layers import Float32Gate
from planner.models.tensors import Tensor


@pytest.mark.parametrize(
    ("capability", "dtype"),
    [
        ((9, 0), None),
        ((10, 0), None),
        ((10, 3), None),
        ((8, 0), "float32"),
        ((8, 9), "float32"),
        ((12, 0), "float32"),
    ],
)
def test_weights_are_float32_where_no_kernel_widens_them(
    capability: tuple[int, int], dtype: str | None
) -> None:
    """8 experts x 4 on every rank; Hopper and datacenter Blackwell have the kernel."""
    gate = Float32Gate(name="gate", num_experts=8, hidden_size=4)
    layout = ParallelLayout(tensor_parallel_size=2, compute_capability=capability)
    assert (Tensor(32, dtype),) == gate.tensors(layout)
