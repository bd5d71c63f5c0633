"""Solves and their events. Fields that this client does not know are in `data`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Solve:
    """A solve that the server keeps."""

    id: str
    status: str  # queued, running, succeeded, cancelled or failed
    termination: str | None = None  # why the solve stopped
    queue_position: int | None = None
    value: float | None = None  # of the best schedule so far, in weight-seconds
    bound: float | None = None
    gap: float | None = None
    error: str | None = None  # why the solve failed
    name: str | None = None
    labels: dict[str, str] | None = None
    data: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, data: dict[str, Any]) -> Solve:
        names = ("id", "status", "termination", "queue_position", "value", "bound", "gap", "error", "name", "labels")
        return cls(**{name: data.get(name) for name in names}, data=data)

    @property
    def done(self) -> bool:
        """Tells whether the solve has ended."""
        return self.status not in ("queued", "running")


@dataclass(frozen=True)
class Event:
    """One step of a solve."""

    id: int  # from 1
    type: str  # status, phase, incumbent, bound, checkpoint or done; later servers may send others
    at_s: float = 0  # seconds since the solve was submitted
    status: str | None = None
    phase: str | None = None
    termination: str | None = None
    value: float | None = None  # of the best schedule so far
    bound: float | None = None  # best bound so far
    data: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, id: int, type: str, data: dict[str, Any]) -> Event:
        names = ("status", "phase", "termination", "value", "bound")
        return cls(id, type, data.get("at_s", 0), **{name: data.get(name) for name in names}, data=data)


@dataclass(frozen=True)
class Changes:
    """What has changed of a managed cluster or of a session."""

    seq: int  # of the last change: what to give as after to go on from there
    reset: bool = False  # everything is to be read
    jobs: list[str] = field(default_factory=list)  # have come or changed
    removed: list[str] = field(default_factory=list)  # jobs that have ended
    agents: list[str] = field(default_factory=list)  # of a cluster: have come or changed
    gpus: list[str] = field(default_factory=list)  # of a session: have joined or left
    plan: bool = False  # a new plan is in force

    @classmethod
    def of(cls, event: str, data: dict[str, Any]) -> Changes:
        names = ("jobs", "removed", "agents", "gpus", "plan")
        return cls(data["seq"], event == "reset", **{name: data[name] for name in names if name in data})
