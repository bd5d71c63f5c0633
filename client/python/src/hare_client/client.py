"""A client that calls a server, and retries the calls that are safe to repeat."""

from __future__ import annotations

import ipaddress
import json
import random
import secrets
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn, Self
from urllib.parse import quote

import httpx

from . import generated
from .errors import EventRefused, HareError, Problem, StreamBroken
from .generated.models import (
    Agent,
    BoundResult,
    CapacityReport,
    Explanation,
    JobChangePreview,
    JobPreview,
    ManagedCluster,
    ManagedHistoryRow,
    ManagedJob,
    Prices,
    Regret,
    Report,
    Session,
    SessionJobRow,
    SessionPlan,
    Simulation,
    SolveJobs,
    StoredReport,
)
from .results import Result
from .streams import Message, lines, messages
from .values import Changes, Event, Solve

# A document is a dict, as json.load returns it, or a model of hare_client.generated.
Document = Mapping[str, Any] | Any

LONG_POLL = 25  # seconds that one request waits for the end of a solve
MAX_BACKOFF = 10.0
MAX_LINE_BYTES = 64 << 20  # of a line or an event
FINAL_STATES = ("succeeded", "failed", "cancelled")  # of jobs of managed clusters


class Hare:
    """A client of one server; its methods may be called from several threads.

    key              is sent as Authorization: Bearer; over plain HTTP it is sent
                     only to loopback addresses, unless insecure is set
    retries          how often a call that is safe to repeat is retried, and how
                     often in a row a stream may fail without an event in between;
                     permanent failures, such as a certificate that is not
                     trusted, are never retried
    backoff          the longest wait before the first retry, in seconds; the
                     limit doubles with each retry, up to 10 s
    max_retry_after  the longest Retry-After, in seconds, for which the client
                     waits; with a longer one the error is raised at once
    idle_timeout     seconds without a byte after which a connection counts as
                     broken
    client           an httpx.Client to use, for example with proxies or
                     certificates of its own
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        key: str | None = None,
        *,
        retries: int = 4,
        backoff: float = 0.2,
        max_retry_after: float = 60,
        idle_timeout: float = 60,
        insecure: bool = False,
        client: httpx.Client | None = None,
    ) -> None:
        at = httpx.URL(url)
        if at.scheme not in ("http", "https") or not at.host or at.query or at.userinfo:
            raise ValueError(f"url {url!r}: give scheme and host, as in https://hare.example:8443")
        if key and at.scheme == "http" and not insecure and not _loopback(at.host):
            raise ValueError("a key over plain HTTP can be read on the way: use https, or set insecure")
        self._url = url.rstrip("/")
        self._retries, self._backoff = retries, backoff
        self._max_retry_after, self._idle_timeout = max_retry_after, idle_timeout
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._http = client or httpx.Client()
        self._owns_http = client is None
        # The generated operations, for calls that have no method here; they are not retried.
        self.api = generated.Client(
            base_url=self._url, headers=dict(self._headers), timeout=httpx.Timeout(idle_timeout)
        )

    def close(self) -> None:
        """Closes all connections."""
        if self._owns_http:
            self._http.close()
        if self.api._client is not None:
            self.api._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # Solves

    def solve(
        self,
        instance: Document,
        options: Document | None = None,
        *,
        key: str | None = None,
        progress: Callable[[Event], object] | None = None,
        **more: Document | float | str,
    ) -> Result:
        """Solves an instance, and calls progress with each event.

        To plan the rest of an earlier result again, give previous and at_s, and
        perhaps previous_instance and stability. name="tuesday" and
        labels={"team": "vision"} are what lists of the server show and filter by.

        The solve runs asynchronously on the server: after a broken connection the
        client resumes waiting for it. When waiting is interrupted, also by an error
        in progress, the solve is cancelled.
        """
        prefer = "respond-async" if progress else f"wait={LONG_POLL}"
        response = self._submit(instance, options, key, prefer, more)
        if response.status_code == 200:
            return Result.from_dict(_json(response))
        solve = Solve.of(_json(response))
        try:
            if progress:
                for event in self.events(solve.id):
                    progress(event)
            solve = self.wait(solve.id)
            if solve.status == "failed":
                raise HareError(f"solve {solve.id} failed: {solve.error}")
            return self.result(solve.id)
        except BaseException:
            if not solve.done:
                try:
                    self._send("POST", f"/v1/solves/{_escape(solve.id)}/cancel", timeout=2)
                except (HareError, httpx.HTTPError):
                    pass  # a solve that is not cancelled ends by itself
            raise

    def submit(
        self,
        instance: Document,
        options: Document | None = None,
        *,
        key: str | None = None,
        **more: Document | float | str,
    ) -> Solve:
        """Submits a solve and does not wait for its end.

        A later call with the same key and content returns the same solve, also
        days later.
        """
        response = self._submit(instance, options, key, "respond-async", more)
        if response.status_code == 202:
            return Solve.of(_json(response))
        id = response.headers.get("Hare-Solve-Id")
        if not id:
            raise HareError("this server answers at once and keeps no solves: call solve")
        return self.get(id)

    def _submit(
        self, instance: Document, options: Document | None, key: str | None, prefer: str, more: Mapping[str, Any]
    ) -> httpx.Response:
        body: dict[str, Any] = {"instance": _dict(instance)}
        for name, part in more.items():
            body[name] = part if isinstance(part, (int, float, str)) else _dict(part)
        if options is not None:
            body["options"] = _dict(options)
        headers = {"Idempotency-Key": key or secrets.token_hex(16), "Prefer": prefer}
        return self._call("POST", "/v1/solves", json=body, headers=headers, repeatable=True)

    def get(self, id: str) -> Solve:
        """Returns the state of a solve."""
        return Solve.of(_json(self._call("GET", f"/v1/solves/{_escape(id)}", repeatable=True)))

    def wait(self, id: str, timeout: float | None = None) -> Solve:
        """Returns when the solve has ended; raises TimeoutError after timeout seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        attempt = 0
        while True:
            left = LONG_POLL if end is None else min(LONG_POLL, max(0, end - time.monotonic()))
            began = time.monotonic()
            solve = Solve.of(
                _json(self._call("GET", f"/v1/solves/{_escape(id)}", params={"wait": int(left)}, repeatable=True))
            )
            if solve.done:
                return solve
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"solve {id} is {solve.status}")
            if time.monotonic() - began < left / 2 or left < 1:
                # The server answered without waiting: it is shutting down, or a proxy
                # answered in its place.
                time.sleep(
                    self._pause(attempt) if end is None else min(self._pause(attempt), max(0, end - time.monotonic()))
                )
                attempt += 1

    def events(self, id: str, after: int = 0) -> Iterator[Event]:
        """Yields the events of a solve that follow the event with the id after, up to done.

        After a broken connection the stream resumes behind the last event, so
        that each event comes once.
        """
        for m in self._follow(f"/v1/solves/{_escape(id)}/events", after):
            event = Event.of(m.id, m.event, json.loads(m.data))
            yield event
            if event.type == "done":
                return

    def result(self, id: str) -> Result:
        """Returns the result of a solve that has ended."""
        return Result.from_dict(_json(self._call("GET", f"/v1/solves/{_escape(id)}/result", repeatable=True)))

    def schedule(self, id: str, accept: str = "application/json", **query: str) -> bytes:
        """Returns the schedule alone, as application/json, application/x-ndjson or text/csv."""
        return self._call(
            "GET", f"/v1/solves/{_escape(id)}/schedule", headers={"Accept": accept}, params=query, repeatable=True
        ).content

    def cancel(self, id: str) -> Solve:
        """Asks a solve to stop with its best schedule and bound so far; idempotent."""
        return Solve.of(_json(self._call("POST", f"/v1/solves/{_escape(id)}/cancel", repeatable=True)))

    def delete(self, id: str) -> None:
        """Deletes a solve that has ended."""
        self._delete(f"/v1/solves/{_escape(id)}")

    def solves(self, **query: str | list[str]) -> Iterator[Solve]:
        """Yields the solves that the server keeps, and fetches them page by page.

        The query filters them: status="running", q="night", label=["team=vision"].
        """
        return map(Solve.of, self._pages("/v1/solves", "solves", query))

    # Explanations

    def jobs(self, id: str, **query: str | int) -> SolveJobs:
        """Lists the jobs of a solve with their times; the query may have sort and limit."""
        return SolveJobs.from_dict(
            _json(self._call("GET", f"/v1/solves/{_escape(id)}/jobs", params=query, repeatable=True))
        )

    def explain(self, id: str, job: str, **query: float) -> Explanation:
        """Says why a job starts and ends when it does.

        With by_s or earlier_s it also says which changes would end the job in
        time; the search for changes stops after time_limit_s.
        """
        path = f"/v1/solves/{_escape(id)}/jobs/{_escape(job)}"
        return Explanation.from_dict(_json(self._call("GET", path, params=query, repeatable=True)))

    def prices(self, id: str) -> Prices:
        """Returns the prices of GPU time, by type and time, that prove the bound."""
        return Prices.from_dict(_json(self._call("GET", f"/v1/solves/{_escape(id)}/prices", repeatable=True)))

    # Bounds, checks, scenarios

    def bound(self, instance: Document, method: str = "price") -> BoundResult:
        """Returns a lower bound on the objective of every feasible schedule."""
        body = {"instance": _dict(instance), "method": method}
        return BoundResult.from_dict(_json(self._call("POST", "/v1/bounds", json=body, repeatable=True)))

    def verify(
        self,
        instance: Document,
        result: Document,
        previous: Document | None = None,
        previous_instance: Document | None = None,
    ) -> Report:
        """Verifies a result.

        For a replan, previous is the earlier result, which says what had started,
        and previous_instance its instance, where that differs from instance.
        """
        body = {"instance": _dict(instance), "result": _dict(result)}
        if previous is not None:
            body["previous"] = _dict(previous)
        if previous_instance is not None:
            body["previous_instance"] = _dict(previous_instance)
        return Report.from_dict(_json(self._call("POST", "/v1/verify", json=body, repeatable=True)))

    def what_if(self, request: Document) -> Iterator[dict[str, Any]]:
        """Yields the outcome of each scenario as soon as the server has it.

        The call is retried until the first outcome has come; a stream that breaks
        later raises StreamBroken.
        """
        return self._lines("/v1/what-if", request, "scenarios")

    def what_ifs(self, **query: str | list[str]) -> Iterator[StoredReport]:
        """Yields the what-ifs that the server keeps, the newest first; q and label filter them."""
        return map(StoredReport.from_dict, self._pages("/v1/what-if", "reports", query))

    def kept_what_if(self, id: str) -> list[dict[str, Any]]:
        """Returns what a what-if that the server keeps was answered."""
        headers = {"Accept": "application/x-ndjson"}
        answer = self._call("GET", f"/v1/what-if/{_escape(id)}", headers=headers, repeatable=True)
        return [json.loads(line) for line in answer.content.splitlines()]

    def delete_what_if(self, id: str) -> None:
        """Deletes a what-if that the server keeps."""
        self._delete(f"/v1/what-if/{_escape(id)}")

    def simulate(self, request: Document) -> Simulation:
        """Simulates jobs under policies, and returns the report."""
        return Simulation.from_dict(_json(self._call("POST", "/v1/simulations", json=_dict(request), repeatable=True)))

    def simulations(self, **query: str | list[str]) -> Iterator[StoredReport]:
        """Yields the simulations that the server keeps, the newest first; q and label filter them."""
        return map(StoredReport.from_dict, self._pages("/v1/simulations", "reports", query))

    def kept_simulation(self, id: str) -> Simulation:
        """Returns what a simulation that the server keeps was answered."""
        return Simulation.from_dict(_json(self._call("GET", f"/v1/simulations/{_escape(id)}", repeatable=True)))

    def delete_simulation(self, id: str) -> None:
        """Deletes a simulation that the server keeps."""
        self._delete(f"/v1/simulations/{_escape(id)}")

    def follow_simulation(self, request: Document) -> Iterator[dict[str, Any]]:
        """Yields each run of simulate as it ends, lines of progress, and a summary last.

        A run that fails raises Problem. The call is retried until the first line has
        come; a stream that breaks later raises StreamBroken.
        """
        return self._lines_until("summary", "/v1/simulations", request, "simulation")

    def capacity(self, request: Document) -> CapacityReport:
        """Makes a plan of capacity, and returns its report."""
        return CapacityReport.from_dict(
            _json(self._call("POST", "/v1/capacity", json=_dict(request), repeatable=True))
        )

    def follow_capacity(self, request: Document) -> Iterator[dict[str, Any]]:
        """Yields lines of progress of capacity, the first bound that is proved, and the report last.

        Failures are those of follow_simulation.
        """
        return self._lines_until("report", "/v1/capacity", request, "plan")

    def capacity_plans(self, **query: str | list[str]) -> Iterator[StoredReport]:
        """Yields the plans of capacity that the server keeps, the newest first; q and label filter them."""
        return map(StoredReport.from_dict, self._pages("/v1/capacity", "reports", query))

    def kept_capacity(self, id: str) -> CapacityReport:
        """Returns the report of a plan of capacity that the server keeps."""
        return CapacityReport.from_dict(_json(self._call("GET", f"/v1/capacity/{_escape(id)}", repeatable=True)))

    def delete_capacity(self, id: str) -> None:
        """Deletes a plan of capacity that the server keeps."""
        self._delete(f"/v1/capacity/{_escape(id)}")

    def _lines_until(self, end: str, path: str, request: Document, what: str) -> Iterator[dict[str, Any]]:
        last = ""
        for line in self._lines(path, request, f"lines of the {what}"):
            last = line["line"]
            if last == "error":
                raise Problem(line["error"]["status"], line["error"])
            yield line
        if last != end:
            raise StreamBroken(f"the {what} broke off before its {end}")

    def _lines(self, path: str, request: Document, what: str) -> Iterator[dict[str, Any]]:
        attempt, came = 0, 0
        while True:
            try:
                with self._stream(
                    "POST", path, json=_dict(request), headers={"Accept": "application/x-ndjson"}
                ) as response:
                    for line in lines(response.iter_bytes(), MAX_LINE_BYTES):
                        if line:
                            came += 1
                            yield json.loads(line)
                    return
            except (Problem, httpx.TransportError) as e:
                if came:
                    raise StreamBroken(f"the {what} broke off behind {came}: {e!r}") from e
                self._again(e, True, attempt)
            attempt += 1

    def version(self) -> dict[str, str]:
        """Returns the versions of Hare and HiGHS."""
        return _json(self._call("GET", "/v1/version", repeatable=True))

    # Online sessions

    def policies(self) -> list[dict[str, Any]]:
        """Returns the policies that sessions take, with what each goes by and its parameters."""
        return _json(self._call("GET", "/v1/policies", repeatable=True))["policies"]

    def create_session(self, cluster: Document, **more: Any) -> Session:
        """Opens a session; more may have policy, parameters, clock, name and labels.

        The call is not retried when the network fails, since the server may have
        opened the session.
        """
        return Session.from_dict(_json(self._call("POST", "/v1/sessions", json={"cluster": _dict(cluster), **more})))

    def session(self, id: str) -> Session:
        """Returns the session with an id."""
        return Session.from_dict(_json(self._call("GET", f"/v1/sessions/{_escape(id)}", repeatable=True)))

    def session_plan(self, id: str) -> SessionPlan:
        """Returns the plan that a session follows.

        A policy that makes no plans raises a Problem with the code no_plan.
        """
        return SessionPlan.from_dict(_json(self._call("GET", f"/v1/sessions/{_escape(id)}/plan", repeatable=True)))

    def session_jobs(self, id: str, **query: str | int | Sequence[str]) -> Iterator[SessionJobRow]:
        """Yields the jobs of a session that have not ended; the query may have state, type, q and sort."""
        return map(SessionJobRow.from_dict, self._pages(f"/v1/sessions/{_escape(id)}/jobs", "jobs", query))

    def preview_session_job(self, id: str, job: Document) -> JobPreview:
        """Says when a job, as in an event job_arrived, would start and end if it arrived now and no other did."""
        path = f"/v1/sessions/{_escape(id)}/jobs:preview"
        return JobPreview.from_dict(_json(self._call("POST", path, json=_dict(job), repeatable=True)))

    def sessions(self, **query: str | list[str]) -> Iterator[Session]:
        """Yields the sessions, the oldest first; q and label filter them."""
        return map(Session.from_dict, self._pages("/v1/sessions", "sessions", query))

    def apply(self, id: str, events: Iterable[Document]) -> list[dict[str, Any]]:
        """Sends events, and returns the answer to each.

        The events are numbered: after a broken connection all events are sent
        again, and the server repeats its answers to those that it has recorded.
        The first event that the server refuses raises EventRefused.
        """
        documents = [_dict(e) for e in events]
        body = "".join(json.dumps(e) + "\n" for e in documents).encode()
        path, headers = (
            f"/v1/sessions/{_escape(id)}/events",
            {"Content-Type": "application/x-ndjson", "Accept": "application/x-ndjson"},
        )
        for attempt in range(self._retries + 1):
            response = self._call("POST", path, content=body, headers=headers, repeatable=True)
            answers = [json.loads(line) for line in response.content.split(b"\n") if line]
            bad = next((a for a in answers if "error" in a), None)
            if bad is not None and bad["error"].get("code") != "draining":
                raise EventRefused(bad.get("seq"), bad["error"])
            if bad is None and len(answers) == len(documents):
                return answers
            time.sleep(self._pause(attempt))
        raise StreamBroken(f"{len(answers)} of {len(documents)} events were answered")

    def decisions(self, id: str, after: int = 0) -> Iterator[dict[str, Any]]:
        """Yields the answers of a session, past and future, until it is deleted."""
        for m in self._follow(f"/v1/sessions/{_escape(id)}/decisions", after):
            yield json.loads(m.data)

    def session_changes(self, id: str, after: int = 0) -> Iterator[Changes]:
        """Yields what changes of a session after the event of a number, until it is deleted, like cluster_changes."""
        for m in self._follow(f"/v1/sessions/{_escape(id)}/changes", after):
            yield Changes.of(m.event, json.loads(m.data))

    def regret(self, id: str, against: str | None = None) -> Regret:
        """Compares a session with the best plan in hindsight.

        With against, the name of a policy of sessions, the answer also says
        what that policy would have done with the same jobs and GPUs.
        """
        query = {} if against is None else {"against": against}
        return Regret.from_dict(
            _json(self._call("GET", f"/v1/sessions/{_escape(id)}/regret", params=query, repeatable=True))
        )

    def delete_session(self, id: str) -> None:
        """Ends a session and deletes its log."""
        self._delete(f"/v1/sessions/{_escape(id)}")

    # Managed clusters

    def clusters(self) -> list[ManagedCluster]:
        """Returns the managed clusters by name."""
        listed = _json(self._call("GET", "/v1/clusters", repeatable=True))
        return [ManagedCluster.from_dict(c) for c in listed["clusters"]]

    def create_cluster(self, name: str, **more: Any) -> ManagedCluster:
        """Makes a managed cluster; more may have policy and parameters.

        The first agent or job of a cluster also makes it, with the default policy.
        The call is not retried when the network fails.
        """
        return ManagedCluster.from_dict(_json(self._call("POST", "/v1/clusters", json={"name": name, **more})))

    def cluster(self, name: str) -> ManagedCluster:
        """Returns a managed cluster: what is in service, and how many jobs are in which state."""
        return ManagedCluster.from_dict(_json(self._call("GET", f"/v1/clusters/{_escape(name)}", repeatable=True)))

    def delete_cluster(self, name: str) -> None:
        """Removes a managed cluster in which no job waits or runs, with its jobs and their logs."""
        self._delete(f"/v1/clusters/{_escape(name)}")

    def submit_job(self, cluster: str, command: Iterable[str], *, key: str | None = None, **more: Any) -> ManagedJob:
        """Submits a command to a managed cluster.

        command is the list of the program and its arguments; a shell's line is
        ["sh", "-c", "echo hi"]. more may have, among what else a job may say:

        gpus=2                     the number of GPUs, 1 where it is left out
        on={"V100": 3600, "T4": 0} the GPU types on which the job may run, with the seconds that
                                   it takes there, 0 where they are not known; all types without it
        name="train"               what people call it
        env={"EPOCHS": "3"}        texts for its environment; secret_env hides them
        retries=2                  how often it is started again after it has failed

        The same call with the same key gives the same job.
        """
        if isinstance(command, (str, bytes)):
            raise TypeError(f'command is a list of the program and its arguments: ["sh", "-c", {command!r}]')
        headers = {"Idempotency-Key": key or secrets.token_hex(16)}
        body = {"command": list(command), **more}
        path = f"/v1/clusters/{_escape(cluster)}/jobs"
        return ManagedJob.from_dict(_json(self._call("POST", path, json=body, headers=headers, repeatable=True)))

    def preview_job(self, cluster: str, command: Iterable[str], sooner: bool = False, **more: Any) -> JobPreview:
        """Says when a job would start and end if it were submitted now and no other job came.

        With sooner it also says which smaller job would start earlier; the other
        arguments are those of submit_job. A cluster whose policy makes no plans
        raises a Problem with the code no_plan.
        """
        path = f"/v1/clusters/{_escape(cluster)}/jobs:preview" + ("?sooner=true" if sooner else "")
        body = {"command": list(command), **more}
        return JobPreview.from_dict(_json(self._call("POST", path, json=body, repeatable=True)))

    def cluster_jobs(
        self, cluster: str, state: str | Sequence[str] | None = None, **query: str | int | Sequence[str]
    ) -> Iterator[ManagedJob]:
        """Yields the jobs of a managed cluster, the oldest first and each with its last attempt.

        user="ann", name="bert", type="V100", label=["team=vision"] and q="night"
        choose jobs; sort="place" or "-weight" orders them.
        """
        if state is not None:
            query["state"] = state
        return map(ManagedJob.from_dict, self._pages(f"/v1/clusters/{_escape(cluster)}/jobs", "jobs", query))

    def cluster_job(self, cluster: str, id: str) -> ManagedJob:
        """Returns a job of a managed cluster: what it waits for, where it runs, how its attempts ended."""
        return ManagedJob.from_dict(_json(self._call("GET", _job_path(cluster, id), repeatable=True)))

    def wait_job(self, cluster: str, id: str, timeout: float | None = None) -> ManagedJob:
        """Returns when the job has ended; raises TimeoutError after timeout seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        pause = 0.1
        while (job := self.cluster_job(cluster, id)).state not in FINAL_STATES:
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"job {id} is {job.state}")
            time.sleep(pause if end is None else min(pause, max(0, end - time.monotonic())))
            pause = min(pause * 1.5, 2)
        return job

    def change_job(self, cluster: str, id: str, **change: Any) -> ManagedJob:
        """Changes a job that has not ended, holds it or releases it.

        weight=3                   the weight of its completion time from now on
        labels={"team": "vision"}  labels to set; a label with None is removed
        hold=True                  keeps a job that waits from starting; False releases it
        reason="paper deadline"    why, for those who look at the job
        """
        return ManagedJob.from_dict(_json(self._call("PATCH", _job_path(cluster, id), json=change, repeatable=True)))

    def preview_change(self, cluster: str, id: str, **change: Any) -> JobChangePreview:
        """Says what is expected of a job with a change and without it, and which other jobs would pay or gain.

        The arguments are those of change_job. A cluster whose policy makes no plans
        raises a Problem with the code no_plan.
        """
        path = f"{_job_path(cluster, id)}/preview"
        return JobChangePreview.from_dict(_json(self._call("POST", path, json=change, repeatable=True)))

    def cancel_job(self, cluster: str, id: str) -> ManagedJob:
        """Ends a job, and returns before its processes have ended; a job that has ended stays as it is."""
        return ManagedJob.from_dict(_json(self._call("POST", f"{_job_path(cluster, id)}/cancel", repeatable=True)))

    def job_log(
        self,
        cluster: str,
        id: str,
        *,
        task: int = 0,
        stream: str = "stdout",
        attempt: int | None = None,
        offset: int = 0,
        follow: bool = False,
    ) -> Iterator[bytes]:
        """Yields what a process of a job has printed, in the last attempt or in the given one.

        With follow it waits for the start of the job, and goes on until the attempt
        has ended. A connection that breaks is resumed where it broke.
        """
        last, failures = not follow, 0
        while True:
            query: dict[str, Any] = {"task": task, "stream": stream, "offset": offset}
            if attempt is not None:
                query["attempt"] = attempt
            if not last:
                query["follow"] = "true"
            try:
                with self._stream(
                    "GET", f"{_job_path(cluster, id)}/logs", params=query, headers={"Accept": "text/plain"}
                ) as response:
                    attempt = int(response.headers.get("Hare-Attempt", attempt or 0)) or None
                    for piece in response.iter_bytes():
                        offset, failures = offset + len(piece), 0
                        yield piece
                if last:
                    return
            except httpx.ReadTimeout:
                continue  # the job prints nothing
            except (Problem, httpx.TransportError) as e:
                if not follow or not isinstance(e, Problem) or e.code != "not_started":
                    self._again(e, True, failures)
                    failures += 1
                    continue
            # The job has not started, the attempt has ended, or the server is shutting down.
            job = self.cluster_job(cluster, id)
            if not job.attempts:
                if job.state in FINAL_STATES:
                    return
                time.sleep(0.5)
            elif any(a.attempt == attempt and a.ended for a in job.attempts):
                last = True
            else:
                time.sleep(self._pause(0))

    def cluster_changes(self, cluster: str, after: int = 0) -> Iterator[Changes]:
        """Yields what changes of a managed cluster after the change of a number, until it is deleted.

        Who reads again what a change names has what the lists have. The first change has
        reset, which says that everything is to be read, unless the server remembers the number.
        """
        for m in self._follow(f"/v1/clusters/{_escape(cluster)}/changes", after):
            yield Changes.of(m.event, json.loads(m.data))

    def cluster_history(
        self,
        cluster: str,
        since: datetime | None = None,
        until: datetime | None = None,
        step_s: int = 60,
    ) -> list[ManagedHistoryRow]:
        """Returns how many jobs waited and ran and GPUs were used, by time; a day until now without times."""
        query = {"step_s": str(step_s)}
        for name, at in (("from", since), ("to", until)):
            if at is not None:
                query[name] = at.astimezone(UTC).isoformat(timespec="seconds")
        path = f"/v1/clusters/{_escape(cluster)}/history"
        answer = _json(self._call("GET", path, params=query, repeatable=True))
        return [ManagedHistoryRow.from_dict(row) for row in answer["rows"]]

    def agents(self, cluster: str) -> list[Agent]:
        """Returns the agents of a managed cluster, one a node, by name."""
        return _agents(self._call("GET", f"/v1/clusters/{_escape(cluster)}/agents", repeatable=True))

    def drain(self, cluster: str, agent: str, reason: str = "") -> list[Agent]:
        """Keeps new work from an agent: what runs there goes on."""
        path = f"/v1/clusters/{_escape(cluster)}/agents/{_escape(agent)}/drain"
        return _agents(self._call("POST", path, json={"reason": reason} if reason else {}, repeatable=True))

    def undrain(self, cluster: str, agent: str) -> list[Agent]:
        """Ends drain."""
        path = f"/v1/clusters/{_escape(cluster)}/agents/{_escape(agent)}/undrain"
        return _agents(self._call("POST", path, repeatable=True))

    # Requests and retries

    def _send(
        self, method: str, path: str, *, headers: Mapping[str, str] = {}, timeout: float | None = None, **more: Any
    ) -> httpx.Response:
        limit = httpx.Timeout(timeout or self._idle_timeout, connect=10)
        response = self._http.request(
            method,
            self._url + path,
            headers={"Accept": "application/json", **self._headers, **headers},
            timeout=limit,
            **more,
        )
        if response.status_code >= 300:
            raise Problem.of(response)
        return response

    def _call(self, method: str, path: str, *, repeatable: bool = False, **more: Any) -> httpx.Response:
        attempt = 0
        while True:
            try:
                return self._send(method, path, **more)
            except (Problem, httpx.TransportError) as e:
                self._again(e, repeatable, attempt)
            attempt += 1

    def _again(self, error: Problem | httpx.TransportError, repeatable: bool, attempt: int) -> None:
        """Waits before the next attempt, or raises."""
        wait = self._pause(attempt)
        if isinstance(error, Problem):
            wait = max(wait, error.retry_after)
            retry = (error.refused or repeatable and error.transient) and wait <= self._max_retry_after
        else:
            retry = repeatable and not _permanent(error)
        if not retry or attempt >= self._retries:
            if isinstance(error, Problem):
                raise error
            url = error.request.url.copy_with(userinfo=b"", query=None)
            hint = ": is hare serve running there?" if isinstance(error, httpx.ConnectError) else ""
            # Without the cause, whose traceback of forty lines would stand before the address.
            raise HareError(f"{error.request.method} {url}: {error or type(error).__name__}{hint}") from None
        time.sleep(wait)

    def _pause(self, attempt: int) -> float:
        """Returns the wait before a retry: exponential backoff with jitter in its upper half."""
        longest = min(self._backoff * 2**attempt, MAX_BACKOFF)
        return longest * random.uniform(0.5, 1)

    def _stream(self, method: str, path: str, *, headers: Mapping[str, str] = {}, **more: Any) -> Any:
        return _Checked(
            self._http.stream(
                method,
                self._url + path,
                headers={**self._headers, **headers},
                timeout=httpx.Timeout(self._idle_timeout, connect=10),
                **more,
            )
        )

    def _follow(self, path: str, after: int) -> Iterator[Message]:
        failures = 0
        while True:
            headers = {"Accept": "text/event-stream"}
            if after:
                headers["Last-Event-ID"] = str(after)
            try:
                with self._stream("GET", path, headers=headers) as response:
                    for m in messages(response.iter_bytes(), MAX_LINE_BYTES):
                        if m.event == "end":
                            _ended(m)
                        if m.id and m.id <= after and m.event != "reset":
                            continue  # the event came before
                        after, failures = m.id or after, 0
                        yield m
                    raise httpx.RemoteProtocolError("the stream ended early", request=response.request)
            except (Problem, httpx.TransportError) as e:
                self._again(e, True, failures)
            failures += 1

    def _pages(self, path: str, name: str, query: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        query = dict(query)
        while True:
            page = _json(self._call("GET", path, params=query, repeatable=True))
            yield from page[name]
            if not page.get("next"):
                return
            query["after"] = page["next"]

    def _delete(self, path: str) -> None:
        attempt = 0
        while True:
            try:
                self._send("DELETE", path)
                return
            except (Problem, httpx.TransportError) as e:
                if attempt and isinstance(e, Problem) and e.status == 404:
                    return  # an earlier attempt succeeded
                self._again(e, True, attempt)
            attempt += 1


class _Checked:
    """A streamed response; refusals are raised as Problem."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __enter__(self) -> httpx.Response:
        response: httpx.Response = self._stream.__enter__()
        if response.status_code != 200:
            try:
                response.read()
            finally:
                self._stream.__exit__(None, None, None)
            raise Problem.of(response)
        return response

    def __exit__(self, *exc: object) -> None:
        self._stream.__exit__(*exc)


def _ended(m: Message) -> NoReturn:
    """Raises the reason why the server ended a stream."""
    code = json.loads(m.data).get("code", "")
    status = {"draining": 503, "no_session": 404, "no_solve": 404}.get(code, 0)
    raise Problem(status, {"code": code, "detail": "the server ended the stream"})


def _dict(document: Document) -> dict[str, Any]:
    to_dict = getattr(document, "to_dict", None)
    return to_dict() if to_dict else dict(document)


def _json(response: httpx.Response) -> dict[str, Any]:
    try:
        value = response.json()
    except ValueError as e:
        raise HareError(f"{response.request.url.path} answered with something else than JSON") from e
    if not isinstance(value, dict):
        raise HareError(f"{response.request.url.path} answered with something else than an object")
    return value


def _agents(response: httpx.Response) -> list[Agent]:
    return [Agent.from_dict(a) for a in _json(response)["agents"]]


def _job_path(cluster: str, id: str) -> str:
    return f"/v1/clusters/{_escape(cluster)}/jobs/{_escape(id)}"


def _escape(part: str) -> str:
    return quote(part, safe="")


def _permanent(error: BaseException) -> bool:
    """Tells whether a connection would fail in the same way again.

    This is so where the certificate is not trusted, the two sides do not agree on
    TLS, or the URL is invalid.
    """
    if isinstance(error, (httpx.UnsupportedProtocol, httpx.LocalProtocolError)):
        return True
    cause: BaseException | None = error if isinstance(error, httpx.ConnectError) else None
    while cause is not None:
        # A connection that ends during the handshake may succeed at the next attempt.
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
