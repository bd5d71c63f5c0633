"""A small residual network on images of CIFAR's shape, three colours of 32 by 32 points. The
images are made up: each class has a pattern of its own under noise."""

import torch
from torch import nn
from torch.nn import functional

BACKEND = "torch"
LAYERWISE = True  # parameters are read by the layers that have them alone
CLASSES, BATCH, TASKS = 10, 16, 4


class Block(nn.Module):
    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.first = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)
        self.around = nn.Conv2d(channels_in, channels, 1, stride, bias=False)

    def forward(self, x):
        inner = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(self.second_norm(self.second(inner)) + self.around(x))


def build():
    return nn.Sequential(Block(3, 16, 1), Block(16, 32, 2), Block(32, 64, 2), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(64, CLASSES))


def optimiser(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def batch(round, task):
    patterns = torch.randn(CLASSES, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    data = torch.Generator().manual_seed(TASKS * round + task + 2)
    labels = torch.randint(CLASSES, (BATCH,), generator=data)
    return patterns[labels] + torch.randn(BATCH, 3, 32, 32, generator=data), labels


def loss(model, batch):
    images, labels = batch
    # The gradients of the tasks are added up: dividing makes their sum a mean.
    return functional.cross_entropy(model(images), labels) / TASKS
