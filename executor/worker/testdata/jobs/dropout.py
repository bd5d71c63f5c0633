"""A network of PyTorch with dropout, batch normalisation and Adam."""

import torch

BACKEND = "torch"


def build():
    return torch.nn.Sequential(torch.nn.Linear(16, 24), torch.nn.BatchNorm1d(24), torch.nn.ReLU(),
                               torch.nn.Dropout(0.2), torch.nn.Linear(24, 3))


def optimiser(parameters):
    return torch.optim.Adam(parameters, lr=0.01)


def batch(round, task):
    data = torch.Generator().manual_seed(1000 * round + task)
    return torch.randn(20, 16, generator=data), torch.randint(3, (20,), generator=data)


def loss(model, batch):
    x, y = batch
    return torch.nn.functional.cross_entropy(model(x), y)
