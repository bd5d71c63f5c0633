"""The client of Hare. `Hare` is where to begin; docs/clients.md shows it."""

from .client import Hare
from .errors import EventRefused, HareError, Problem, StreamBroken
from .results import Result, Schedule, ScheduleRow
from .values import Event, Solve

__all__ = ["Event", "EventRefused", "Hare", "HareError", "Problem", "Result", "Schedule", "ScheduleRow", "Solve", "StreamBroken"]
