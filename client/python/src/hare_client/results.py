"""Results and schedules as people read them; the generated models have the fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import attrs

from .generated.models import Result as ResultModel
from .generated.models import Schedule as ScheduleModel
from .generated.types import Unset

if TYPE_CHECKING:
    import pandas


class ScheduleRow(NamedTuple):
    """Consecutive rounds of a job on one GPU; the columns of the server's CSV."""

    gpu: str  # node/index
    job: str
    round: int  # the first one, from 0
    rounds: int
    tasks: int  # of each round, one after another
    start_s: float  # of the first round
    period_s: float  # from one round to the next; 0 where there is one
    shape: int = 0  # a position in the shapes of the job


class Schedule(ScheduleModel):
    """Which tasks run where and when. Iterating over a schedule yields its rows."""

    def rows(self) -> Iterator[ScheduleRow]:
        """Yields one row for each entry, by GPU and then by time."""
        for lane in self.lanes:
            n = len(lane.start_us)
            columns = [
                [absent] * n if isinstance(column, Unset) or column is None else column
                for column, absent in (
                    (lane.round_, 0),
                    (lane.rounds, 1),
                    (lane.tasks, 1),
                    (lane.period_us, 0),
                    (lane.shape, 0),
                )
            ]
            for job, round, rounds, tasks, period, shape, start in zip(lane.job, *columns, lane.start_us, strict=True):
                yield ScheduleRow(lane.gpu, self.jobs[job], round, rounds, tasks, start / 1e6, period / 1e6, shape)

    __iter__ = rows

    def frame(self) -> pandas.DataFrame:
        """Returns the rows as a pandas DataFrame, without shape where all are 0; pandas must be installed."""
        try:
            import pandas
        except ImportError as e:
            raise ImportError("frame needs pandas: pip install pandas, or take rows") from e
        rows = list(self.rows())
        frame = pandas.DataFrame.from_records(rows, columns=ScheduleRow._fields)
        return frame if any(row.shape for row in rows) else frame.drop(columns="shape")


class Result(ResultModel):
    """The result of a solve. print shows its figures; schedule says which tasks run where."""

    @classmethod
    def from_dict(cls, src_dict: Mapping[str, Any]) -> Self:
        result = super().from_dict(src_dict)
        model = result.schedule
        if isinstance(model, ScheduleModel) and not isinstance(model, Schedule):
            schedule = Schedule.__new__(Schedule)
            for field in attrs.fields(ScheduleModel):
                setattr(schedule, field.name, getattr(model, field.name))
            result.schedule = schedule
        return result

    def __str__(self) -> str:
        unit = "s" if self.objective == "makespan" else "weight-seconds"
        lines = [("termination", self.termination)]
        if _present(self.value):
            lines.append(("value", f"{_number(self.value)} {unit}"))
        if _present(self.bound):
            lines.append(("bound", f"{_number(self.bound)} {unit}"))
        if _present(self.value):
            gap = "unknown: no useful bound"
            if _present(self.gap):
                gap = (
                    f"at most {100 * self.gap:.2f} % above the best possible plan"
                    if self.gap
                    else "0: no plan is better"
                )
            lines.append(("gap", gap))
        if _present(self.constant):
            lines.append(("constant", f"{_number(self.constant)} {unit} more of running work, which no plan changes"))
        if _present(self.estimated) and self.estimated:
            lines.append(("estimated", "the figures are for the times as given; some durations are uncertain"))
        if _present(self.jobs) and self.jobs:
            ends = [job.end_s for job in self.jobs if _present(job.end_s)]
            last = f", the last ends at {_number(max(ends))} s" if ends else ""
            lines.append(("jobs", f"{len(self.jobs)}{last}"))
        if _present(self.metrics):
            deadlines, setups = self.metrics.deadlines, self.metrics.setups
            if _present(deadlines):
                late = f", {_number(deadlines.tardiness_s)} s late in total" if deadlines.tardiness_s else ""
                lines.append(("deadlines", f"{deadlines.met} of {deadlines.jobs} met{late}"))
            if _present(setups):
                lines.append(("setups", f"{setups.count}, which take {_number(setups.time_s)} s of GPU time"))
        for reason in self.reasons if _present(self.reasons) else []:
            lines.append(
                ("reason", f"{reason.pointer}: {reason.detail}" if _present(reason.pointer) else reason.detail)
            )
        return "\n".join(f"{name:<12} {text}" for name, text in lines)


def _present(value: object) -> bool:
    return value is not None and not isinstance(value, Unset)


def _number(x: float) -> str:
    """Formats a number with at most six decimals and without an exponent."""
    return f"{x:.6f}".rstrip("0").rstrip(".")
