"""Values of tensors on a GPU that computes nothing, where the host can know them.

Encoders read sizes, masks and counts back from the GPU, and shapes depend on them. A
tensor that came from the host has a twin there, and so has what PyTorch computes from
tensors with twins; all else (weights, what passed through them) is unknown. Twins take
no memory of the device, and what the device allocates stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map
from torch.utils.weak import WeakIdKeyDictionary

_aten = torch.ops.aten
_MOST_VALUES = 1 << 30
"""Larger tensors get no twin."""
_READS = {
    _aten._local_scalar_dense,
    _aten._unique2,
    _aten.bincount,
    _aten.equal,
    _aten.is_nonzero,
    _aten.masked_select,
    _aten.nonzero,
    _aten.repeat_interleave,
    _aten.unique_consecutive,
    _aten.unique_dim,
}
"""Functions whose results' shapes, or results on the host, depend on values."""
_UNKNOWN = {
    *(_aten.empty, _aten.empty_like, _aten.empty_strided, _aten.new_empty),
    *(_aten.new_empty_strided, _aten.rand, _aten.rand_like, _aten.randn),
    *(_aten.randn_like, _aten.randint, _aten.randint_like, _aten.randperm),
    *(_aten.random_, _aten.uniform_, _aten.normal_, _aten.bernoulli_),
}
"""Functions whose results are not determined by their inputs."""
_OVERWRITES = {_aten.copy_, _aten.fill_, _aten.zero_}
"""Functions that leave nothing of their first input's values."""
_INDEXED = {_aten.index, _aten.index_put, _aten.index_put_, _aten._index_put_impl_}


class UnknownValuesError(RuntimeError):
    """A program reads what a real GPU would have computed."""


class KnownValues(TorchDispatchMode):
    """Computes twins beside what runs on the device, and answers reads from them."""

    def __init__(self) -> None:
        super().__init__()
        self._twins = WeakIdKeyDictionary()
        self._spoilt: set[int] = set()

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let the compiler fuse what vLLM compiles by itself, as it does on a GPU.

        Source: PyTorch 2.14 `_dynamo/convert_frame.py`; vLLM 0.33.0
        `model_executor/custom_op.py` maybe_compile.
        """
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run a function of PyTorch on the device, and on the host with twins."""
        del types
        kwargs = kwargs or {}
        if _is_composite(func):
            with self:
                return func.decompose(*args, **kwargs)
        name = func.overloadpacket
        if name in _INDEXED:
            args = self._without_masks(args)
        if name in _OVERWRITES:
            self._start(args[0])
        tensors = [leaf for leaf in tree_flatten((args, kwargs))[0] if _is_tensor(leaf)]
        is_known = name not in _UNKNOWN and self._are_known(tensors)
        is_brought = _brings_to_host(name, args, kwargs)
        reads = any(map(_is_on_device, tensors)) and name in _READS
        if (reads or is_brought) and not is_known:
            raise UnknownValuesError(f"{func} reads values that a GPU has computed.")
        twin = self._twin_of(func, args, kwargs) if is_known else None
        if is_brought:
            return twin
        if reads:
            return self._placed(twin, tensors)
        result = func(*args, **kwargs)
        return self._noted(func, args, result, twin, is_known=is_known)

    def _start(self, tensor: torch.Tensor) -> None:
        """Give a tensor that is about to be overwritten a twin to be overwritten."""
        if self._value(tensor) is None and tensor.numel() <= _MOST_VALUES:
            self._twins[tensor] = torch.empty(tensor.shape, dtype=tensor.dtype)

    def _are_known(self, tensors: list[torch.Tensor]) -> bool:
        return all(self._value(tensor) is not None for tensor in tensors)

    def _value(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return a tensor's values on the host; None: unknown."""
        if not _is_on_device(tensor):
            return tensor
        twin = self._twins.get(tensor)
        if twin is None or twin.untyped_storage().data_ptr() in self._spoilt:
            return None
        return twin

    def _twin_of(self, func: Any, args: Any, kwargs: Any) -> Any:
        def on_host(leaf: Any) -> Any:
            if _is_tensor(leaf):
                return self._value(leaf)
            if isinstance(leaf, torch.device):
                return torch.device("cpu")
            return leaf

        if not _touches_device(args, kwargs):
            return None
        args, kwargs = tree_map(on_host, (args, kwargs))
        return func(*args, **{**kwargs, **_not_pinned(kwargs)})

    def _noted(
        self, func: Any, args: Any, result: Any, twin: Any, *, is_known: bool
    ) -> Any:
        if not is_known:
            self._spoil(func, args)
            return result
        if twin is None:
            return result
        results, twins = tree_flatten(result)[0], tree_flatten(twin)[0]
        for one, its_twin in zip(results, twins, strict=True):
            if _is_tensor(one) and _is_on_device(one) and one.numel() <= _MOST_VALUES:
                self._twins[one] = its_twin
        return result

    def _spoil(self, func: Any, args: Any) -> None:
        """Forget the values of tensors that a function writes."""
        for argument, value in zip(func._schema.arguments, args, strict=False):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            for tensor in filter(_is_tensor, tree_flatten(value)[0]):
                twin = self._twins.get(tensor)
                if twin is not None:
                    self._spoilt.add(twin.untyped_storage().data_ptr())

    def _placed(self, twin: Any, tensors: list[torch.Tensor]) -> Any:
        """Return results as the device would hold them."""
        device = next(tensor.device for tensor in tensors if _is_on_device(tensor))

        def on_device(leaf: Any) -> Any:
            if not _is_tensor(leaf):
                return leaf
            placed = torch.empty(leaf.shape, dtype=leaf.dtype, device=device)
            self._twins[placed] = leaf
            return placed

        return tree_map(on_device, twin)

    def _without_masks(self, args: Any) -> Any:
        """Return arguments of an index whose masks are numbers, as PyTorch makes them.

        Raises:
            UnknownValuesError: for a mask that the device would have computed.
        """
        source, indices, *others = args
        numbers: list[Any] = []
        for index in indices:
            if not _is_tensor(index) or index.dtype != torch.bool:
                numbers.append(index)
                continue
            with self:
                found = _aten.nonzero(index)
                numbers += found.unbind(1)
        return (source, numbers, *others)


class FromLists(TorchFunctionMode):
    """Makes tensors of Python's numbers on the host first, as `torch.tensor` does."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Call a function of PyTorch."""
        del types
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor) and kwargs.get("device") is not None:
            device = kwargs.pop("device")
            return func(*args, **kwargs).to(device)
        if func is torch.Tensor.new_tensor and len(args) > 1:
            like, data = args[:2]
            kwargs = {"dtype": like.dtype, "device": like.device} | kwargs
            device = kwargs.pop("device")
            return torch.tensor(data, **kwargs).to(device)
        return func(*args, **kwargs)


def knowing(values: KnownValues, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs where values from the host are known."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with FromLists(), values:
            return function(*args, **kwargs)

    return run


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor)


def _is_on_device(tensor: torch.Tensor) -> bool:
    return bool(tensor.device.type == "cuda")


def _brings_to_host(name: Any, args: Any, kwargs: Any) -> bool:
    """Whether a function copies from the device to the host."""
    if name is _aten.copy_:
        target, source = args[:2]
        return _is_on_device(source) and not _is_on_device(target)
    device = kwargs.get("device")
    is_to_host = device is not None and torch.device(device).type == "cpu"
    return name is _aten._to_copy and is_to_host and _is_on_device(args[0])


def _touches_device(args: Any, kwargs: Any) -> bool:
    """Whether a function's inputs or results are on the device."""
    return any(
        _is_on_device(leaf) if _is_tensor(leaf) else leaf.type == "cuda"
        for leaf in tree_flatten((args, kwargs))[0]
        if isinstance(leaf, torch.Tensor | torch.device)
    )


def _not_pinned(kwargs: Any) -> dict[str, bool]:
    return {"pin_memory": False} if kwargs.get("pin_memory") else {}


def _is_composite(func: Any) -> bool:
    """Whether a function only calls others, on CUDA too."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return has(func.name(), "CompositeImplicitAutograd") and not has(
        func.name(), "CUDA"
    )
