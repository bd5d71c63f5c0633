"""The backend of NumPy. The user's module computes gradients itself: loss(parameters, batch)
returns the loss and a dict with the gradient of each parameter."""

import random

import numpy as np

from . import backend


class Backend(backend.HostBackend):
    def __init__(self, module, options):
        self.module, self.options = module, options
        self.rate, self.momentum = backend.sgd_settings(module)
        np.random.seed(backend.seed_of(options.seed))
        random.seed(backend.seed_of(options.seed))
        built = module.build()
        if not isinstance(built, dict) or not built:
            raise backend.UserError("build() returns no dict of arrays")
        for name, value in built.items():
            if not isinstance(value, np.ndarray) or value.dtype not in (np.float32, np.float64):
                raise backend.UserError(f"the parameter {name} is not an array of float32 or float64")
        self.like = {name: (value.dtype, value.shape, value.nbytes) for name, value in built.items()}
        self.parameters = {name: np.array(value, order="C") for name, value in built.items()}
        self.velocity = {name: np.zeros(s, t) for name, (t, s, _) in self.like.items()}
        self.gradient_bytes = sum(n for _, _, n in self.like.values())
        self.state_bytes = self.gradient_bytes * (2 if self.momentum else 1)

    def _parts(self):
        return [self.parameters, self.velocity] if self.momentum else [self.parameters]

    def _arrays(self, view):
        """The arrays that lie one after another in view, in the order of the parameters."""
        at = 0
        while at < len(view):
            for name, (dtype, shape, size) in self.like.items():
                yield name, np.frombuffer(view[at : at + size], dtype).reshape(shape)
                at += size

    def load(self, view):
        arrays = self._arrays(view[: self.state_bytes])
        for part in self._parts():
            for name in self.like:
                part[name] = next(arrays)[1].copy()

    def save(self, view):
        arrays = self._arrays(view[: self.state_bytes])
        for part in self._parts():
            for name in self.like:
                next(arrays)[1][...] = part[name]

    def gradient(self, round_, task, view, meanwhile=None):
        seed = backend.seed_of(self.options.seed, round_, task)
        np.random.seed(seed)
        random.seed(seed)
        result = self.module.loss(self.parameters, self.module.batch(round_, task))
        value, gradients = backend.value_and_gradients(result, self.like)
        for name, array in self._arrays(view[: self.gradient_bytes]):
            if np.shape(gradients[name]) != array.shape:
                raise backend.UserError(
                    f"the gradient of {name} has the shape {np.shape(gradients[name])}, not {array.shape}")
            array[...] = gradients[name]
        return value

    def step(self, views):
        sums = [(name, array.copy()) for name, array in self._arrays(views[0][: self.gradient_bytes])]
        for view in views[1:]:
            for (_, total), (_, array) in zip(sums, self._arrays(view[: self.gradient_bytes])):
                total += array
        for name, total in sums:
            if self.momentum:
                total += self.like[name][0].type(self.momentum) * self.velocity[name]
                self.velocity[name] = total
            self.parameters[name] = self.parameters[name] - self.like[name][0].type(self.rate) * total

    def drop(self):
        self.parameters, self.velocity = {}, {}
