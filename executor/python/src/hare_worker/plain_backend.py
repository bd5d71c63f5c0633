"""A backend of plain Python: a parameter is a list of floats. It serves tests, and computers
without NumPy."""

import array
import random

from . import backend


class Backend(backend.HostBackend):
    def __init__(self, module, options):
        self.module, self.options = module, options
        self.rate, self.momentum = backend.sgd_settings(module)
        random.seed(backend.seed_of(options.seed))
        built = module.build()
        if not isinstance(built, dict) or not built:
            raise backend.UserError("build() returns no dict of lists")
        self.parameters = {name: [float(x) for x in values] for name, values in built.items()}
        self.velocity = {name: [0.0] * len(v) for name, v in self.parameters.items()}
        numbers = sum(len(v) for v in self.parameters.values())
        self.gradient_bytes = 8 * numbers
        self.state_bytes = 8 * numbers * (2 if self.momentum else 1)

    def _parts(self):
        return [self.parameters, self.velocity] if self.momentum else [self.parameters]

    def load(self, view):
        numbers = array.array("d", bytes(view[: self.state_bytes]))
        at = 0
        for part in self._parts():
            for name in self.parameters:
                end = at + len(self.parameters[name])
                part[name] = list(numbers[at:end])
                at = end

    def save(self, view):
        numbers = array.array("d")
        for part in self._parts():
            for values in part.values():
                numbers.extend(values)
        view[: self.state_bytes] = numbers.tobytes()

    def gradient(self, round_, task, view, meanwhile=None):
        random.seed(backend.seed_of(self.options.seed, round_, task))
        result = self.module.loss(self.parameters, self.module.batch(round_, task))
        value, gradients = backend.value_and_gradients(result, self.parameters)
        numbers = array.array("d")
        for name, values in self.parameters.items():
            if len(gradients[name]) != len(values):
                raise backend.UserError(
                    f"the gradient of {name} has {len(gradients[name])} numbers, not {len(values)}")
            numbers.extend(gradients[name])
        view[: self.gradient_bytes] = numbers.tobytes()
        return value

    def step(self, views):
        total = array.array("d", bytes(views[0][: self.gradient_bytes]))
        for view in views[1:]:
            for i, x in enumerate(array.array("d", bytes(view[: self.gradient_bytes]))):
                total[i] += x
        at = 0
        for name, values in self.parameters.items():
            for i in range(len(values)):
                change = total[at]
                if self.momentum:
                    change += self.momentum * self.velocity[name][i]
                    self.velocity[name][i] = change
                values[i] -= self.rate * change
                at += 1

    def drop(self):
        self.parameters = {name: range(len(v)) for name, v in self.parameters.items()}
        self.velocity = {name: range(len(v)) for name, v in self.velocity.items()}
