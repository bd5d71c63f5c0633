"""The backend of PyTorch: build() returns a Module, loss(model, batch) a scalar tensor, and
optimiser(parameters) an optimiser. The state of a job is its parameters, its buffers and the
tensors of its optimiser."""

import random

import torch

from . import backend


class Backend:
    def __init__(self, module, options):
        self.module, self.options = module, options
        torch.manual_seed(backend.seed_of(options.seed))
        random.seed(backend.seed_of(options.seed))
        self.model = module.build()
        if not isinstance(self.model, torch.nn.Module):
            raise backend.UserError("build() returns no torch.nn.Module")
        self.model.to(options.device)
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
            raise backend.UserError("the optimiser keeps state that is no tensor")
        self.state = [*self.model.parameters(), *self.buffers, *memory]
        self.shapes = [t.shape for t in self.state]
        self.state_bytes = sum(size_of(t) for t in self.state)
        self.gradient_bytes = sum(size_of(t) for t in [*self.weights, *self.buffers])

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

    def load(self, view):
        for t, shape in zip(self.state, self.shapes):
            if t.shape != shape:
                t.data = t.data.new_empty(shape)
        copy(view, self.state, into_tensors=True)

    def save(self, view):
        copy(view, self.state, into_tensors=False)

    def gradient(self, round_, task, view):
        seed = backend.seed_of(self.options.seed, round_, task)
        torch.manual_seed(seed)
        random.seed(seed)
        before = [b.clone() for b in self.buffers]
        self.model.train()
        loss = self.module.loss(self.model, self.module.batch(round_, task))
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise backend.UserError("loss() returns no tensor of one number")
        loss.backward()
        gradients = []
        for p in self.weights:
            gradients.append(torch.zeros_like(p) if p.grad is None else p.grad)
            p.grad = None
        copy(view, [*gradients, *self.buffers], into_tensors=False)
        # Each task begins with the buffers of the round's beginning.
        for b, value in zip(self.buffers, before):
            b.copy_(value)
        return float(loss.detach())

    def step(self, views):
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
        for t in self.state:
            t.data = t.data.new_empty(0)


def size_of(tensor):
    return (tensor.numel() * tensor.element_size() + 15) // 16 * 16


def copy(view, tensors, into_tensors):
    """Copies between shared memory and tensors, each of which begins at a multiple of 16 bytes."""
    at = 0
    for t in tensors:
        if t.numel():
            host = torch.frombuffer(view, dtype=t.dtype, count=t.numel(), offset=at).view(t.shape)
            if into_tensors:
                t.detach().copy_(host)
            else:
                host.copy_(t.detach())
        at += size_of(t)
