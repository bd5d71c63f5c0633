"""What all backends share. A backend holds the state of one job on a device. Its subclasses are
chosen by BACKEND in the user's module: "numpy" (the default), "torch", or "plain", which needs
nothing but Python."""

import hashlib
import importlib


class UserError(Exception):
    """The user's module does what a round job cannot do. The message says it in a line."""


def load_backend(module, options):
    name = getattr(module, "BACKEND", "numpy")
    if name not in ("plain", "numpy", "torch"):
        raise UserError(f'BACKEND is {name!r}; there are "plain", "numpy" and "torch"')
    for function in ("build", "batch", "loss"):
        if not callable(getattr(module, function, None)):
            raise UserError(f"the module has no function {function}()")
    try:
        code = importlib.import_module(f"hare_worker.{name}_backend")
    except ImportError as e:
        raise UserError(f"the backend {name} is not installed: {e}") from None
    return code.Backend(module, options)


def seed_of(seed, *place):
    """A seed of 32 bits for one place of a job: the parameters, or a task of a round."""
    text = "/".join(str(x) for x in (seed, *place))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


class Options:
    """What a job is run with, beside its module."""

    def __init__(self, tasks, seed=0, device="auto"):
        self.tasks, self.seed, self.device = tasks, seed, device


class HostBackend:
    """What backends need not do whose device is the host."""

    def attached(self, view):
        """The job's shared memory is mapped."""

    def forgotten(self):
        """The job has ended, and its memory is about to be unmapped."""


def sgd_settings(module):
    """The settings of the optimiser of backends without automatic differentiation."""
    settings = {"learning_rate": 0.01, "momentum": 0.0}
    given = module.optimiser() if hasattr(module, "optimiser") else {}
    if not isinstance(given, dict):
        raise UserError("optimiser() returns no dict")
    for name, value in given.items():
        if name not in settings:
            raise UserError(f"optimiser() has the setting {name!r}; there are learning_rate and momentum")
        settings[name] = float(value)
    return settings["learning_rate"], settings["momentum"]


def value_and_gradients(result, names):
    """What loss() of the user returned: the loss, and a gradient for each parameter."""
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
        raise UserError("loss() returns no pair of the loss and a dict of gradients")
    value, gradients = result
    if set(gradients) != set(names):
        raise UserError(f"loss() has gradients of {sorted(gradients)}, the parameters are {sorted(names)}")
    return float(value), gradients
