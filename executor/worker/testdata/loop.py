"""A plain loop over the rounds of a job, with nothing of hare_worker but seed_of: prints the
state after each of the rounds that are asked for, as hexadecimal bytes. Usage: loop.py DIRECTORY
MODULE TASKS SEED ROUNDS."""

import array
import importlib
import random
import sys

from hare_worker import seed_of

directory, name, tasks, seed, rounds = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
sys.path.insert(0, directory)
module = importlib.import_module(name)


def plain():
    random.seed(seed_of(seed))
    parameters = module.build()
    rate, momentum = module.optimiser()["learning_rate"], module.optimiser().get("momentum")
    velocity = {name: [0.0] * len(v) for name, v in parameters.items()}
    for r in range(rounds):
        total = None
        for t in range(tasks):
            random.seed(seed_of(seed, r, t))
            _, gradients = module.loss(parameters, module.batch(r, t))
            if total is None:
                total = gradients
            else:
                total = {name: [a + b for a, b in zip(total[name], gradients[name])] for name in total}
        for name in parameters:
            velocity[name] = [g + (momentum or 0) * v for g, v in zip(total[name], velocity[name])]
            parameters[name] = [p - rate * v for p, v in zip(parameters[name], velocity[name])]
    parts = (parameters, velocity) if momentum else (parameters,)
    return b"".join(array.array("d", v).tobytes() for part in parts for v in part.values())


def numpy():
    import numpy as np

    np.random.seed(seed_of(seed))
    parameters = module.build()
    rate, momentum = module.optimiser()["learning_rate"], module.optimiser().get("momentum")
    velocity = {name: np.zeros_like(v) for name, v in parameters.items()}
    for r in range(rounds):
        total = None
        for t in range(tasks):
            np.random.seed(seed_of(seed, r, t))
            _, gradients = module.loss(parameters, module.batch(r, t))
            gradients = {name: gradients[name].astype(parameters[name].dtype) for name in parameters}
            total = gradients if total is None else {name: total[name] + gradients[name] for name in total}
        for name, p in parameters.items():
            velocity[name] = total[name] + p.dtype.type(momentum) * velocity[name]
            parameters[name] = p - p.dtype.type(rate) * velocity[name]
    return b"".join(v.tobytes() for part in (parameters, velocity) for v in part.values())


def torch():
    import torch

    torch.manual_seed(seed_of(seed))
    model = module.build()
    optimiser = module.optimiser(model.parameters())
    for r in range(rounds):
        total, buffers = None, None
        before = [b.clone() for b in model.buffers()]
        for t in range(tasks):
            for b, value in zip(model.buffers(), before):
                b.copy_(value)
            torch.manual_seed(seed_of(seed, r, t))
            optimiser.zero_grad()
            module.loss(model, module.batch(r, t)).backward()
            gradients = [p.grad.clone() for p in model.parameters()]
            total = gradients if total is None else [a + b for a, b in zip(total, gradients)]
            if t == 0:
                buffers = [b.clone() for b in model.buffers()]
        for p, g in zip(model.parameters(), total):
            p.grad = g
        optimiser.step()
        for b, value in zip(model.buffers(), buffers):
            b.copy_(value)
    memory = [optimiser.state[p][key] for p in model.parameters() for key in sorted(optimiser.state[p])]
    tensors = [*model.parameters(), *model.buffers(), *memory]
    padded = [t.detach().numpy().tobytes() for t in tensors]
    return b"".join(b + bytes(-len(b) % 16) for b in padded)


print({"plain": plain, "numpy": numpy, "torch": torch}[getattr(module, "BACKEND", "numpy")]().hex())
