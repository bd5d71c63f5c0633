"""A torch.nn.Module under the switcher: its parameters are views of the memory of groups. Hooks
before the forward pass of layers wait for groups, hooks on gradients tell which are complete."""

import math

import torch

from . import streams, switching, torch_groups, torch_streams

RATE, MOMENTUM = 1e-3, 0.9


class TorchModel(switching.Model):
    """Trains by SGD with momentum, one fused step for each group. The module's parameters must be
    of one type. Its buffers stay on the device."""

    def __init__(self, name: str, module: torch.nn.Module, device: torch_streams.TorchStreams, group_bytes: int = 0):
        self.module, self.stream = module.to(device.device), device
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        self.shapes = [torch.empty(p.shape, device="meta") for p in self.parameters]
        self.sizes = [p.numel() for p in self.parameters]
        self.nothing = torch.empty(0, device=device.device)
        groups, self.members, self.group_of = [], [], {}
        for members in cut([4 * n for n in self.sizes], group_bytes):
            flat = torch.cat([self.parameters[i].detach().reshape(-1).cpu() for i in members])
            host = device.host(torch.cat([flat, torch.zeros_like(flat)]))  # the parameters, then the momentum
            for i in members:
                self.group_of[self.parameters[i]] = len(groups)
            groups.append(switching.Group(host, host.numel() * host.element_size()))
            self.members.append(members)
        super().__init__(name, groups)
        self.left = [0] * len(groups)  # gradients that are not complete
        self.gradients: list[torch.Tensor | None] = [None] * len(groups)
        self.switcher: switching.Switcher | None = None
        self.handles = [torch_groups.on_gradient(p, self._complete) for p in self.parameters]
        for layer in module.modules():
            if layer._parameters:  # It may read the parameters of the layers inside it without calling them.
                of = sorted({self.group_of[p] for p in layer.parameters() if p in self.group_of})
                layer.register_forward_pre_hook(lambda *_, of=of: self._need(of))
        for i in range(len(groups)):
            self.unbind(i)

    def task(self, switcher: switching.Switcher, batch: tuple,
             following: switching.Model | None = None) -> torch.Tensor:
        """Launches a forward and a backward pass and the step, and returns the loss on the device."""
        self.switcher = switcher
        self.left = [len(m) for m in self.members]
        switcher.begin(self, following)
        for i, members in enumerate(self.members):
            self.gradients[i] = torch.zeros(sum(self.sizes[j] for j in members), device=self.stream.device)
            for j, view in self._views(i, self.gradients[i]):
                self.parameters[j].grad = view
        output = self.module(*batch)
        output = output if isinstance(output, torch.Tensor) else output[0]
        loss = output.float().square().mean()
        switcher.backward()
        loss.backward()
        switcher.end()
        for i in range(len(self.gradients)):
            self._free_gradients(i)
        return loss.detach()

    def bind(self, index: int) -> None:
        for j, view in self._views(index, self.groups[index].device):
            self.parameters[j].data = view

    def unbind(self, index: int) -> None:
        self._free_gradients(index)
        for j in self.members[index]:
            self.parameters[j].data = self.nothing

    def step(self, index: int) -> None:
        with torch.no_grad(), self._compute():
            memory, gradient = self.groups[index].device, self.gradients[index]
            half = memory.numel() // 2
            momentum = memory[half:]
            momentum.mul_(MOMENTUM).add_(gradient)
            memory[:half].add_(momentum, alpha=-RATE)
        self._free_gradients(index)

    def _compute(self):
        return torch.cuda.stream(self.stream.streams[streams.COMPUTE] if self.stream.cuda else None)

    def _free_gradients(self, index: int) -> None:
        self.gradients[index] = None
        for j in self.members[index]:
            self.parameters[j].grad = None

    def _views(self, index: int, memory: torch.Tensor):
        members = self.members[index]
        return zip(members, torch._utils._unflatten_dense_tensors(memory, [self.shapes[j] for j in members]))

    def _need(self, groups: list[int]) -> None:
        for i in groups:
            self.switcher.need(i)

    def _complete(self, p: torch.Tensor) -> None:
        i = self.group_of[p]
        self.left[i] -= 1
        if self.left[i] == 0:
            self.switcher.done(i)


def cut(sizes: list[int], group_bytes: int) -> list[list[int]]:
    """Neighbours together, until they have group_bytes. Zero means one group."""
    groups, filled = [[]], 0
    for i, size in enumerate(sizes):
        if filled and filled >= (group_bytes or math.inf):
            groups, filled = groups + [[]], 0
        groups[-1].append(i)
        filled += size
    return groups
