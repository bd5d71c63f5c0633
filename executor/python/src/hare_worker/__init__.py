"""The worker of Hare: runs rounds of training jobs for an agent. A user writes a module with
build(), batch(round, task) and loss(); docs/use/run-jobs.md#round-jobs of Hare says how."""

from .backend import seed_of

__all__ = ["seed_of"]
__version__ = "0.1.0"
