"""The Python client of Hare. Begin with the class `Hare`; docs/reference/http.md#clients is its guide."""

from .client import Hare
from .errors import EventRefused, HareError, Problem, StreamBroken
from .readable import make_readable
from .results import Result, Schedule, ScheduleRow
from .values import Changes, Event, Solve

make_readable()

__all__ = [
    "Changes",
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
