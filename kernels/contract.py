"""What the launchers share: a contract that is checked in words, and the widths that 16-byte access asks for."""

from __future__ import annotations

import torch

VECTOR = 16  # bytes: the widest load of a thread, and the alignment that every row of a cache must keep
INT32 = 2**31
# How a cache's elements are read: 16-bit numbers, or bytes that are unpacked by their format
FORMATS = {
    torch.bfloat16: "half",
    torch.float16: "half",
    torch.float8_e4m3fn: "e4m3",
    torch.float8_e5m2: "e5m2",
}


class ContractError(ValueError):
    """A launcher was handed tensors that its kernel cannot take; the message names the tensor and the rule."""


def require(holds: bool, message: str) -> None:  # noqa: FBT001  # reads as a sentence at the call
    """Raise ContractError with `message` unless `holds`."""
    if not holds:
        raise ContractError(message)


def vectors(name: str, tensor: torch.Tensor, dim: int) -> int:
    """Return a stride in vectors of 16 bytes; refuse one that is no whole number of them.

    The kernels multiply it back, and the compiler then knows the alignment of every row from the source text. A stride
    in elements would have to be divisible by 16 to be believed, and one odd stride would cost four times the loads.
    """
    size: int = tensor.stride(dim) * tensor.element_size()
    require(size % VECTOR == 0, f"{name}: the stride of dim {dim} is {size} bytes, no multiple of {VECTOR}")
    return size // VECTOR


def aligned(name: str, tensor: torch.Tensor) -> None:
    """Refuse a tensor that does not begin on a 16-byte boundary or whose rows are not contiguous."""
    require(tensor.data_ptr() % VECTOR == 0, f"{name}: begins at an address that is no multiple of {VECTOR} bytes")
    require(tensor.stride(-1) == 1, f"{name}: the last dim has stride {tensor.stride(-1)}, not 1")


def reach(tensor: torch.Tensor) -> int:
    """Return one past the largest element offset that indexing `tensor` can produce."""
    furthest: int = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return 1 + furthest


def in_range(name: str, ids: torch.Tensor, limit: int, *, least: int = 0) -> None:
    """Refuse ids outside [least, limit); reads them back from the device, so never under a graph capture."""
    if ids.numel():
        low, high = int(ids.min()), int(ids.max())
        require(least <= low and high < limit, f"{name}: ids from {low} to {high} are not all in [{least}, {limit})")


def same_device(**tensors: torch.Tensor | None) -> None:
    """Refuse tensors that do not all live on one device."""
    homes = {name: str(tensor.device) for name, tensor in tensors.items() if tensor is not None}
    require(len(set(homes.values())) <= 1, f"tensors on several devices: {homes}")
