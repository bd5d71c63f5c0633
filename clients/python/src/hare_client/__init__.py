"""The Python client of Hare. Begin with the class `Hare`; docs/clients.md is its guide."""

from .client import Hare
from .errors import EventRefused, HareError, Problem, StreamBroken
from .results import Result, Schedule, ScheduleRow
from .values import Event, Solve

__all__ = [
    "Event",
    "EventRefused",
    "Hare",
    "HareError",
    "Problem",
    "Result",
    "Schedule",
    "ScheduleRow",
    "Solve",
    "StreamBroken",
]
