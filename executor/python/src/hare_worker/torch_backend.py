"""The backend of PyTorch: build() returns a Module, loss(model, batch) a scalar tensor, and
optimiser(parameters) an optimiser. The state of a job is its parameters, its buffers and the
tensors of its optimiser."""

import functools
import os
import random

import torch

from . import backend, torch_groups, torch_streams
from .torch_groups import host_view, size_of


class Backend:
    """On a CUDA device the state is copied in groups on streams of its own (torch_groups.py); on the
    CPU tensor by tensor. device is a name of PyTorch, or "auto": CUDA where PyTorch finds it."""

    def __init__(self, module, options):
        self.module, self.options = module, options
        self.device = streams_of(options.device)
        torch.manual_seed(backend.seed_of(options.seed))
        random.seed(backend.seed_of(options.seed))
        self.model = module.build()
        if not isinstance(self.model, torch.nn.Module):
            raise backend.UserError("build() returns no torch.nn.Module")
        self.model.to(self.device.device)
        self.weights = [p for p in self.model.parameters() if p.requires_grad]
        if hasattr(module, "optimiser"):
            self.optimiser = module.optimiser(self.weights)
        else:
            self.optimiser = torch.optim.SGD(self.weights, lr=0.01)
        self._fill_optimiser()
        self.buffers = list(self.model.buffers())
        held = [self.optimiser.state[p] for p in self.weights]
        memory = [state[name] for state in held for name in sorted(state)]
        if not all(isinstance(t, torch.Tensor) for t in memory):
            raise backend.UserError("the optimiser keeps state that is not a tensor")
        read = [*self.model.parameters(), *self.buffers]  # by tasks; steps read the rest, too
        self.state_bytes = sum(size_of(t) for t in [*read, *memory])
        self.gradient_bytes = sum(size_of(t) for t in [*self.weights, *self.buffers])
        kind = Streamed if self.device.grouped else Whole
        self.copies = kind(self, read, memory)

    def _fill_optimiser(self):
        """Makes the optimiser allocate its state, which it otherwise does at its first step,
        and sets it to zero, which means the same for the optimisers named here."""
        known = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)
        if type(self.optimiser) not in known or any(g.get("dampening") for g in self.optimiser.param_groups):
            raise backend.UserError("optimiser() returns none of SGD without dampening, Adam and AdamW")
        before = [p.detach().clone() for p in self.weights]
        for p in self.weights:
            p.grad = torch.zeros_like(p)
        self.optimiser.step()
        for p, value in zip(self.weights, before):
            p.data.copy_(value)
            p.grad = None
            state = self.optimiser.state[p]
            for name in [name for name, value in state.items() if value is None]:
                del state[name]
            for value in state.values():
                if isinstance(value, torch.Tensor):
                    value.zero_()

    def attached(self, view):
        """The job's shared memory is mapped."""
        self.pinned = self.device.pin(view)

    def forgotten(self):
        """The job has ended, and its memory is about to be unmapped."""
        self.copies.drop()
        self.device.unpin(self.pinned)

    def load(self, view):
        self.copies.load(view)

    def save(self, view):
        self.copies.save(view)

    def gradient(self, round_, task, view, meanwhile=None):
        """Computes a task. meanwhile, where not None, is called when the backward pass begins."""
        seed = backend.seed_of(self.options.seed, round_, task)
        torch.manual_seed(seed)
        random.seed(seed)
        self.model.train()
        self.copies.begin(view)
        try:
            before = [b.clone() for b in self.buffers]
            loss = self.module.loss(self.model, moved(self.module.batch(round_, task), self.device.device))
            if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
                raise backend.UserError("loss() returns no tensor of one number")
            if meanwhile and self.device.grouped:
                meanwhile()
            loss.backward()
            self.copies.end(view)
        finally:
            self.copies.over()
        # Each task begins with the buffers of the round's beginning.
        for b, value in zip(self.buffers, before):
            b.copy_(value)
        return float(loss.detach())

    def step(self, views):
        self.copies.before_step()
        like = [*self.weights, *self.buffers]
        total = [torch.empty_like(t, requires_grad=False) for t in like]
        copy(views[0], total, into_tensors=True)
        part = [torch.empty_like(t, requires_grad=False) for t in self.weights]
        for view in views[1:]:
            copy(view, part, into_tensors=True)
            for sum_, add in zip(total, part):
                sum_ += add
        for p, gradient in zip(self.weights, total):
            p.grad = gradient
        self.optimiser.step()
        for p in self.weights:
            p.grad = None
        # The buffers are those of task 0, as in data parallelism those of rank 0.
        for b, value in zip(self.buffers, total[len(self.weights) :]):
            b.copy_(value)

    def drop(self):
        self.copies.drop()


class Whole:
    """Copies that have ended when the call returns, tensor by tensor."""

    def __init__(self, job, read, memory):
        self.job, self.state = job, [*read, *memory]
        self.shapes = [t.shape for t in self.state]

    def load(self, view):
        for t, shape in zip(self.state, self.shapes):
            if t.shape != shape:
                t.data = t.data.new_empty(shape)
        copy(view, self.state, into_tensors=True)

    def save(self, view):
        copy(view, self.state, into_tensors=False)

    def begin(self, view):
        pass

    def end(self, view):
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.job.weights]
        copy(view, [*gradients, *self.job.buffers], into_tensors=False)

    def over(self):
        for p in self.job.weights:
            p.grad = None

    def before_step(self):
        pass

    def drop(self):
        for t in self.state:
            t.data = t.data.new_empty(0)


class Streamed:
    """Copies in groups, on streams. A task needs the parameters and buffers; what the optimiser remembers
    comes for the step alone. Gradients leave while the backward pass goes on. A task waits for all
    parameters before it begins, or, where the module says LAYERWISE = True, each layer for its own."""

    def __init__(self, job, read, memory):
        self.job, self.device, self.view, self.complete = job, job.device, None, True
        group = torch_groups.Groups
        self.parameters = group(self.device, 0, read[: len(read) - len(job.buffers)])
        self.buffers = group(self.device, self.parameters.end, job.buffers)
        self.memory = group(self.device, self.buffers.end, memory)
        self.gradients = torch_groups.Outgoing(self.device, job.weights)
        self.layerwise = getattr(job.module, "LAYERWISE", False)
        if self.layerwise:
            of = {id(t): g for g in self.parameters.groups for t, _, _ in g.members}
            for layer in job.model.modules():
                if layer._parameters:  # It may read the parameters of the layers inside it without calling them.
                    groups = list({id(g): g for p in layer.parameters() for g in [of[id(p)]]}.values())
                    layer.register_forward_pre_hook(lambda *_, groups=groups: self._need(groups))

    def _need(self, groups):
        for g in groups:
            self.parameters.need(g)

    def load(self, view):
        self.memory.drop()
        self.view, self.complete = view, False
        self.parameters.load(view)
        self.buffers.load(view)

    def save(self, view):
        for groups in (self.parameters, self.buffers, self.memory):
            groups.save(view)
        self.device.synchronise(torch_groups.OUT)
        for groups in (self.parameters, self.buffers, self.memory):
            groups.save_apart(view)

    def begin(self, view):
        if not self.layerwise:
            self.parameters.need_all()
        self.buffers.need_all()
        self.gradients.begin(view)

    def end(self, view):
        self.gradients.end(self.job.buffers)

    def over(self):
        self.gradients.over()

    def before_step(self):
        if not self.complete:
            self.memory.load(self.view)
            self.complete = True
        for groups in (self.parameters, self.buffers, self.memory):
            groups.need_all()

    def drop(self):
        for groups in (self.parameters, self.buffers, self.memory):
            groups.drop()
        self.complete = False


@functools.cache
def streams_of(device):
    """The streams of a device, which all jobs of the process share."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    found = torch_streams.TorchStreams(device)
    if found.cuda:
        # A task that is computed again gives the same gradient, where CUDA has a way to do that.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.benchmark = False
    return found


def moved(batch, device):
    """A batch with its tensors on the device: a tensor, or tuples, lists and dicts of such."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return {name: moved(value, device) for name, value in batch.items()}
    if type(batch) in (tuple, list):
        return type(batch)(moved(value, device) for value in batch)
    return batch


def copy(view, tensors, into_tensors):
    """Copies between shared memory and tensors, each of which begins at a multiple of 16 bytes."""
    at = 0
    for t in tensors:
        if t.numel():
            host = host_view(view, at, t)
            if into_tensors:
                t.detach().copy_(host)
            else:
                host.copy_(t.detach())
        at += size_of(t)
