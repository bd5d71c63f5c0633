"""The tensors of a round job on a device, in groups. A group is some neighbouring tensors, which lie
one after another in the shared memory of the job and in one piece of the device's memory, so that
one copy brings them all. Copies to the device, kernels, and copies back are on streams of their own
(streams.py), and nothing here waits for the device but what must be in shared memory: gradients at
the end of a task, the new state at the end of a step."""

from typing import Any, Iterable

import torch

from . import streams
from .streams import COMPUTE, IN, OUT

ALIGN = 16  # of each tensor in shared memory
GROUP_BYTES = 16 << 20


def size_of(tensor: torch.Tensor) -> int:
    return (tensor.numel() * tensor.element_size() + ALIGN - 1) // ALIGN * ALIGN


def host_view(view: memoryview, offset: int, tensor_or_size: Any) -> torch.Tensor:
    """Shared memory as a tensor: like a tensor, or so many bytes."""
    if isinstance(tensor_or_size, int):
        return torch.frombuffer(view, dtype=torch.uint8, count=tensor_or_size, offset=offset)
    t = tensor_or_size
    return torch.frombuffer(view, dtype=t.dtype, count=t.numel(), offset=offset).view(t.shape)


class Group:
    """Neighbouring tensors: offset and size in bytes in the job's shared memory."""

    def __init__(self, offset: int):
        self.offset, self.size = offset, 0
        self.members: list[tuple[torch.Tensor, int, torch.Size]] = []  # with the offset in the group
        self.apart: list[tuple[torch.Tensor, int]] = []  # tensors that the optimiser keeps on the host
        self.memory: Any = None  # on the device; None where there is none
        self.ready: Any = None  # the event of the end of the copy to the device; None where there is no copy

    def add(self, tensor: torch.Tensor, device: torch.device) -> None:
        if tensor.device == device:
            self.members.append((tensor, self.size, tensor.shape))
        else:
            self.apart.append((tensor, self.offset + self.size))
        self.size += size_of(tensor)

    def bind(self) -> None:
        for t, at, shape in self.members:
            n = shape.numel()
            t.data = self.memory[at : at + n * t.element_size()].view(t.dtype).view(shape)

    def unbind(self) -> None:
        for t, _, _ in self.members:
            t.data = t.data.new_empty(0)


class Groups:
    """Tensors that follow one another in shared memory from an offset on."""

    def __init__(self, device: Any, offset: int, tensors: Iterable[torch.Tensor]):
        self.device, self.groups = device, []
        for t in tensors:
            if not self.groups or self.groups[-1].size >= GROUP_BYTES:
                self.groups.append(Group(offset))
            self.groups[-1].add(t, device.device)
            offset += size_of(t)
        self.end = offset

    def load(self, view: memoryview) -> None:
        """Begins the copies from shared memory. The content of view must stay until they have ended,
        or nobody may need what they bring."""
        self.device.wait(IN, self.device.record(COMPUTE))  # Kernels may still read what is overwritten.
        for g in self.groups:
            for t, at in g.apart:
                t.detach().copy_(host_view(view, at, t))
            if not g.size:
                continue
            host = host_view(view, g.offset, g.size)
            if g.memory is None:
                g.memory = self.device.allocate(host)
                g.bind()
            self.device.copy_in(host, g.memory)
            g.ready = self.device.record(IN)

    def need(self, group: Group) -> None:
        """Kernels that are launched from now on may read the group."""
        self.device.wait(COMPUTE, group.ready)

    def save_apart(self, view: memoryview) -> None:
        """Writes what is on the host, when the copies of save have ended."""
        for g in self.groups:
            for t, at in g.apart:
                host_view(view, at, t).copy_(t.detach())

    def need_all(self) -> None:
        for g in self.groups:
            self.need(g)

    def save(self, view: memoryview) -> None:
        """Begins the copies to shared memory. They have ended when OUT is synchronised."""
        self.device.wait(OUT, self.device.record(COMPUTE))
        for g in self.groups:
            if not g.size:
                continue
            if g.memory is None:  # as the tensors were made
                for t, at, _ in g.members:
                    if t.numel():
                        host_view(view, g.offset + at, t).copy_(t.detach())
                continue
            self.device.wait(OUT, g.ready)
            self.device.copy_out(g.memory, host_view(view, g.offset, g.size))

    def drop(self) -> None:
        """Gives the memory back. Copies and kernels that use it may still be under way: it is used again
        by later copies on IN alone, which wait for them."""
        for stream in COMPUTE, OUT:
            self.device.wait(IN, self.device.record(stream))
        for g in self.groups:
            g.unbind()
            if g.memory is not None:
                self.device.free(g.memory)
            g.memory = g.ready = None


class Outgoing:
    """The gradients of a task. They leave for shared memory while the backward pass goes on, and their
    memory is free as soon as they have left."""

    def __init__(self, device: streams.Streams, weights: list[torch.nn.Parameter]):
        self.device, self.weights = device, weights
        self.offsets, at = {}, 0
        for p in weights:
            self.offsets[p] = at
            at += size_of(p)
        self.view: memoryview | None = None  # of the running task
        self.sent: set[torch.nn.Parameter] = set()
        self.handles = [on_gradient(p, self._complete) for p in weights]

    def begin(self, view: memoryview) -> None:
        self.view, self.sent = view, set()

    def _complete(self, p: torch.nn.Parameter) -> None:
        """The gradient of p is whole, unless the user's backward pass comes to p again."""
        if self.view is None or not p.numel():
            return
        host = host_view(self.view, self.offsets[p], p)
        if p in self.sent:
            self.device.synchronise(OUT)
            p.grad += host.to(p.grad.device)
        self.sent.add(p)
        self._send(p.grad, host)
        p.grad = None

    def _send(self, tensor: torch.Tensor, host: torch.Tensor) -> None:
        tensor = tensor.detach().contiguous()
        self.device.wait(OUT, self.device.record(COMPUTE))
        self.device.copy_out(tensor, host)
        self.device.keep(tensor, OUT)

    def end(self, buffers: list[torch.Tensor]) -> None:
        """Sends what the backward pass did not reach as zeros, and then buffers, and waits until all has
        left."""
        for p in self.weights:
            if p not in self.sent and p.numel():
                host_view(self.view, self.offsets[p], p).zero_()
        at = sum(size_of(p) for p in self.weights)
        for b in buffers:
            if b.numel():
                self._send(b, host_view(self.view, at, b))
            at += size_of(b)
        self.device.synchronise(OUT)

    def over(self) -> None:
        """The task has ended, or failed."""
        self.view = None
        for p in self.weights:
            p.grad = None


def on_gradient(p: torch.nn.Parameter, complete: Any) -> Any:
    """Has complete(p) called when the gradient of p is whole, and returns what must be kept for that."""
    if hasattr(p, "register_post_accumulate_grad_hook"):
        return p.register_post_accumulate_grad_hook(complete)
    # Before PyTorch 2.1: a hook on the node that adds to p.grad.
    node = p.expand_as(p).grad_fn.next_functions[0][0]
    node.register_hook(lambda *_: complete(p))
    return node
