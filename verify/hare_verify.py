#!/usr/bin/env python3
"""Verify a Hare result: the schedule, its value and its lower bound.

    python3 hare_verify.py instance.json result.json [--json]
    python3 hare_verify.py --bound-only instance.json certificate.json [--json]

One file, the standard library of Python 3.9 or later, nothing else; written
apart from the Go verifier and from everything that makes schedules. Every
constraint is checked in integers on runs of rounds, whose number costs nothing,
and the bound is recomputed from the certificate in exact arithmetic. Nothing is
compared with a tolerance.

--bound-only takes a certificate, or a result that holds one, and asks for no
schedule. "-" is standard input; gzip is recognised by its first bytes; instances
and results may come as one object or as lines.

Exit codes: 0 accepted, 1 refused, 2 bad usage or input.
"""
import difflib
import gzip
import hashlib
import heapq
import io
import json
import re
import sys
import zlib
from bisect import bisect_left, bisect_right, insort
from fractions import Fraction
from functools import reduce
from itertools import accumulate, groupby
from math import gcd
from operator import add, sub

LIMIT = 1 << 53  # of times in µs, weights in micro-units and counts
MOST_GPUS = 1 << 20
MOST_BYTES = 1 << 30  # of a document, decompressed
MOST_FAULTS = 50
MOST_WORK = 1 << 33  # of the knapsacks, and of the steps, of a certificate
MOST_STEPS = 1 << 22  # of a job that is bounded round by round
FOREVER = 1 << 62  # the end of an open window; above every time
RESERVED = frozenset("shapes after deadline_s only quota user gpus_per_task within switch_s progress".split())


class Bad(Exception):
    """The input cannot be read: exit code 2."""


class Refused(Exception):
    """The certificate or a claim does not hold."""


# ---------------------------------------------------------------- reading JSON


class Number(str):
    """A JSON number that is not a short integer, as it is written."""


NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
SIZE = re.compile(r"[1-9][0-9]{0,9}")
PLAIN = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?")


def parse_int(text):
    return int(text) if len(text) <= 20 else Number(text)


def parse_constant(name):
    raise Bad("%s is not a JSON number" % name)


def parse_object(pairs):
    value = dict(pairs)
    if len(value) != len(pairs):
        seen = set()
        for name, _ in pairs:
            if name in seen:
                raise Bad("the name %s stands twice in an object" % quoted(name))
            seen.add(name)
    return value


DECODER = json.JSONDecoder(
    parse_int=parse_int, parse_float=Number, parse_constant=parse_constant, object_pairs_hook=parse_object
)
SPACE = re.compile(r"[ \t\r\n]*")


def documents(text):
    """The JSON values of text, one after another."""
    out, at = [], SPACE.match(text).end()
    if at == len(text):
        raise Bad("the document is empty")
    while at < len(text):
        try:
            value, at = DECODER.raw_decode(text, at)
        except RecursionError:
            raise Bad("not JSON that is meant to be read: nested too deep")
        except ValueError as e:
            raise Bad("not JSON: %s" % e)
        out.append(value)
        at = SPACE.match(text, at).end()
    return out


def read_text(name):
    try:
        if name == "-":
            raw = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with open(name, "rb") as f:
                raw = f.read(MOST_BYTES + 1)
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.GzipFile(fileobj=io.BytesIO(raw)).read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise Bad("%s: longer than %d bytes" % (name, MOST_BYTES))
        text = raw.decode("utf-8")
    except (OSError, EOFError, ValueError, zlib.error) as e:
        raise Bad("%s: %s" % (name, e))
    return text


def quoted(text):
    text = str(text)
    return json.dumps(text if len(text) <= 60 else text[:60] + "…")


def pointer(where, name):
    return "%s/%s" % (where, name.replace("~", "~0").replace("/", "~1")[:80])


def scaled(value, places, where):
    """The number value times 10**places, which must be a whole number."""
    if type(value) is int:
        return value * 10**places
    m = NUMBER.fullmatch(value) if type(value) is Number and len(value) <= 400 else None
    if m is None:
        raise Bad("%s: must be a number" % where)
    sign, whole, fraction, exponent = m.group(1), m.group(2), m.group(3) or "", m.group(4) or "0"
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return 0
    shift = -len(fraction) + (int(exponent) if len(exponent) < 8 else 10**7 * (-1 if exponent[0] == "-" else 1))
    shift += places + len(digits) - len(digits.rstrip("0"))
    digits = digits.rstrip("0")
    if shift < 0:
        raise Bad("%s: %s has more than %d decimals" % (where, quoted(value), places))
    if shift + len(digits) > 60:
        raise Bad("%s: %s is too large" % (where, quoted(value)))
    n = int(digits) * 10**shift
    return -n if sign else n


def ranged(n, value, where, least, most):
    if n < least:
        raise Bad("%s: %s is too small" % (where, quoted(value)))
    if n > most:
        raise Bad("%s: %s is too large" % (where, quoted(value)))
    return n


def micros(value, where, least=0):
    return ranged(scaled(value, 6, where), value, where, least, LIMIT)


def integer(value, where, least=0, most=LIMIT):
    return ranged(scaled(value, 0, where), value, where, least, most)


def as_object(value, where):
    if type(value) is not dict:
        raise Bad("%s: must be an object" % (where or "document"))
    return value


def members(value, known, where):
    """An object that has no fields but the known ones."""
    for name in as_object(value, where):
        if name in known:
            continue
        if name in RESERVED:
            raise Bad("%s: not supported by this version" % pointer(where, name))
        near = difflib.get_close_matches(name[:40], known, 1)
        hint = 'did you mean "%s"?' % near[0] if near else "known are %s" % ", ".join(known)
        raise Bad("%s: unknown field: %s" % (pointer(where, name), hint))
    return value


def as_array(value, where):
    if type(value) is not list:
        raise Bad("%s: must be an array" % where)
    return value


def as_string(value, where, empty=False):
    if type(value) is not str or not (value or empty):
        raise Bad("%s: must be a string%s" % (where, "" if empty else " that is not empty"))
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise Bad("%s: is not Unicode text" % where)
    return value


def as_bool(value, where):
    if type(value) is not bool:
        raise Bad("%s: must be true or false" % where)
    return value


def want(value, expected, where):
    if value != expected or type(value) is not str:
        raise Bad('%s: must be "%s"' % (where, expected))


# -------------------------------------------------------------------- instance

INSTANCE = ("hare", "name", "objective", "cluster", "jobs")
NODE = ("name", "count", "gpus", "in_service_s", "busy")
JOB = ("id", "weight", "release_s", "rounds", "tasks", "sync", "mix", "on")
PROFILE = ("compute_s", "sync_s")


class Job:
    """R rounds of K tasks; on maps a GPU type to (compute, sync) in µs."""

    __slots__ = ("id", "weight", "release", "rounds", "tasks", "sync", "mix", "on")

    def __init__(self, doc, where):
        members(doc, JOB, where)
        self.id = as_string(doc.get("id"), where + "/id")
        self.weight = micros(doc.get("weight", 1), where + "/weight")
        self.release = micros(doc.get("release_s", 0), where + "/release_s")
        self.rounds = integer(doc.get("rounds", 1), where + "/rounds", 1)
        self.sync = as_string(doc.get("sync", "relaxed"), where + "/sync")
        if self.sync not in ("relaxed", "gang", "rigid"):
            raise Bad("%s/sync: must be relaxed, gang or rigid" % where)
        most = (1 << 31) - 1 if self.sync == "relaxed" else MOST_GPUS
        self.tasks = integer(doc.get("tasks", 1), where + "/tasks", 1, most)
        mix = as_bool(doc.get("mix", self.sync == "relaxed"), where + "/mix")
        if self.sync != "gang" and mix != (self.sync == "relaxed"):
            raise Bad("%s/mix: is a choice of gang jobs alone" % where)
        self.mix = mix and self.sync == "gang"
        self.on = {}
        for kind, p in as_object(doc.get("on"), where + "/on").items():
            at = pointer(where + "/on", as_string(kind, where + "/on"))
            members(p, PROFILE, at)
            if type(p.get("sync_s")) is dict:
                raise Bad("%s/sync_s: an object is not supported by this version" % at)
            self.on[kind] = (
                micros(p.get("compute_s"), at + "/compute_s", 1),
                micros(p.get("sync_s", 0), at + "/sync_s"),
            )
        if not self.on:
            raise Bad("%s/on: names no GPU type" % where)


class Instance:
    """A decoded instance: gpus maps node/index to (type, windows); supply maps
    a type to the steps of its M_k(t), (times, levels)."""

    def __init__(self, docs):
        doc = members(docs[0], INSTANCE, "")
        want(doc.get("hare"), "instance/v1", "/hare")
        want(doc.get("objective", "weighted_jct"), "weighted_jct", "/objective")
        as_string(doc.get("name", ""), "/name", empty=True)
        self.gpus, self.nodes, self.jobs = {}, [], []
        self.names = set()
        cluster = members(doc.get("cluster"), ("nodes",), "/cluster")
        for i, n in enumerate(as_array(cluster.get("nodes"), "/cluster/nodes")):
            self.add_node(n, "/cluster/nodes/%d" % i)
        if not self.gpus:
            raise Bad("/cluster/nodes: the cluster has no GPUs")
        if "jobs" in doc and len(docs) > 1:
            raise Bad("something follows the document")
        if "jobs" not in doc and len(docs) == 1:
            raise Bad('"jobs" is missing')
        ids, horizon = set(), self.last_change()
        for i, j in enumerate(as_array(doc["jobs"], "/jobs") if "jobs" in doc else docs[1:]):
            job = Job(j, "/jobs/%d" % i)
            if job.id in ids:
                raise Bad("/jobs/%d/id: %s stands twice" % (i, quoted(job.id)))
            ids.add(job.id)
            self.jobs.append(job)
            units = job.rounds * (job.tasks if job.sync == "relaxed" else 1)
            horizon = max(horizon, job.release) + units * max(p + s for p, s in job.on.values())
            if horizon > LIMIT:
                raise Bad("/jobs/%d: all work up to here, one task after another, passes 2^53 µs" % i)
        self.supply = {}
        self.find_supply()

    def add_node(self, doc, where):
        members(doc, NODE, where)
        name = as_string(doc.get("name"), where + "/name")
        if "/" in name:
            raise Bad("%s/name: must not contain a slash" % where)
        counts = []
        for kind, n in as_object(doc.get("gpus"), where + "/gpus").items():
            at = pointer(where + "/gpus", as_string(kind, where + "/gpus"))
            counts.append((kind, integer(n, at, 1, MOST_GPUS)))
        counts.sort()  # by code points, which is the order of UTF-8 bytes too
        if not counts:
            raise Bad("%s/gpus: names no GPU type" % where)
        windows = read_windows(doc["in_service_s"], where + "/in_service_s") if "in_service_s" in doc else [(0, FOREVER)]
        total = sum(n for _, n in counts)
        busy = {}
        for i, b in enumerate(as_array(doc.get("busy", []), where + "/busy")):
            at = "%s/busy/%d" % (where, i)
            members(b, ("gpu", "until_s"), at)
            g = integer(b.get("gpu"), at + "/gpu", 0, total - 1)
            if g in busy:
                raise Bad("%s/gpu: GPU %d stands twice" % (at, g))
            busy[g] = micros(b.get("until_s"), at + "/until_s")
        count = integer(doc["count"], where + "/count", 1, MOST_GPUS) if "count" in doc else 0
        if len(self.gpus) + max(1, count) * total > MOST_GPUS:
            raise Bad("%s: the cluster has more than %d GPUs" % (where, MOST_GPUS))
        kinds = [kind for kind, n in counts for _ in range(n)]
        free = [[(max(a, busy.get(i, 0)), b) for a, b in windows if b > busy.get(i, 0)] for i in range(total)]
        for one in ["%s-%d" % (name, i) for i in range(count)] if count else [name]:
            if one in self.names:
                raise Bad("%s/name: node %s stands twice" % (where, quoted(one)))
            self.names.add(one)
            for i, kind in enumerate(kinds):
                self.gpus["%s/%d" % (one, i)] = (kind, free[i])
            self.nodes.append(
                {
                    "name": one,
                    "gpus": dict(counts),
                    "in_service_us": [[a, None if b == FOREVER else b] for a, b in windows],
                    "busy": [{"gpu": g, "until_us": busy[g]} for g in sorted(busy) if busy[g] > 0],
                }
            )

    def last_change(self):
        times = [1]
        for n in self.nodes:
            times += [t for w in n["in_service_us"] for t in w if t is not None]
            times += [b["until_us"] for b in n["busy"]]
        return max(times)

    def find_supply(self):
        changes = {}
        for kind, windows in self.gpus.values():
            c = changes.setdefault(kind, {0: 0})
            for a, b in windows:
                c[a] = c.get(a, 0) + 1
                c[b] = c.get(b, 0) - 1
        for kind, c in changes.items():
            times = sorted(t for t in c if t < FOREVER)
            levels, level = [], 0
            for t in times:
                level += c[t]
                levels.append(level)
            self.supply[kind] = (times, levels)

    def peak(self, kind):
        """The greatest M_k(t)."""
        return max(self.supply[kind][1]) if kind in self.supply else 0

    def sha256(self):
        """Of the canonical form: RFC 8785 with everything explicit, no name."""
        form = {
            "hare": "instance/v1",
            "objective": "weighted_jct",
            "cluster": {"nodes": self.nodes},
            "jobs": [
                {
                    "id": j.id,
                    "weight_micro": j.weight,
                    "release_us": j.release,
                    "rounds": j.rounds,
                    "tasks": j.tasks,
                    "sync": j.sync,
                    "mix": j.mix,
                    "on": {k: {"compute_us": p, "sync_us": s} for k, (p, s) in j.on.items()},
                }
                for j in self.jobs
            ],
        }
        return hashlib.sha256(canonical(form).encode("utf-8")).hexdigest()


def read_windows(value, where):
    out = []
    for i, w in enumerate(as_array(value, where)):
        at = "%s/%d" % (where, i)
        if type(w) is not list or len(w) != 2:
            raise Bad("%s: must be [start, end]" % at)
        a, b = micros(w[0], at + "/0"), FOREVER if w[1] is None else micros(w[1], at + "/1")
        if b <= a or out and a < out[-1][1]:
            raise Bad("%s: windows must end after they start, in order and disjoint" % at)
        if out and a == out[-1][1]:
            out[-1] = (out[-1][0], b)
        else:
            out.append((a, b))
    if not out:
        raise Bad("%s: has no window" % where)
    return out


def canonical(x):
    """RFC 8785 of a value without fractions: names sort by UTF-16 units."""
    if isinstance(x, dict):
        names = sorted(x, key=lambda s: s.encode("utf-16-be"))
        return "{" + ",".join(canonical(n) + ":" + canonical(x[n]) for n in names) + "}"
    if isinstance(x, list):
        return "[" + ",".join(map(canonical, x)) + "]"
    return json.dumps(x, ensure_ascii=False)


# -------------------------------------------------------------------- schedule


class Faults(list):
    """What a result breaks, as dicts for --json, up to MOST_FAULTS."""

    def add(self, constraint, detail, job=None, round=None, gpu=None, by_us=None):
        if len(self) < MOST_FAULTS:
            fault = {"constraint": constraint, "job": job, "round": round, "gpu": gpu, "by_us": by_us}
            fault = {k: v for k, v in fault.items() if v is not None}
            fault["detail"] = detail
            self.append(fault)


def fault_line(f):
    where = [
        "%s %s" % (what, quoted(f[what]) if what == "job" else f[what])
        for what in ("job", "round", "gpu")
        if what in f
    ]
    by = " (by %s s)" % decimal(Fraction(f["by_us"], 10**6)) if "by_us" in f else ""
    return "%s: %s%s%s" % (f["constraint"], ", ".join(where) + ": " if where else "", f["detail"], by)


class Entry:
    """Rounds round … round + rounds − 1 of a job on one GPU, times in µs."""

    __slots__ = ("gpu", "kind", "round", "rounds", "tasks", "period", "start", "compute", "sync", "free_until")

    def begin(self, r):
        return self.start + (r - self.round) * self.period

    def computed(self, r):
        return self.begin(r) + self.tasks * self.compute

    def finish(self, r):
        return self.computed(r) + self.sync

    def end_round(self):
        return self.round + self.rounds


LANE = ("gpu", "job", "round", "rounds", "tasks", "period_us", "start_us")


def read_lane(doc, where):
    """(gpu, rows of job, round, rounds, tasks, period, start)."""
    members(doc, LANE, where)
    n = len(as_array(doc.get("job"), where + "/job"))
    columns = []
    for name, default in (("job", None), ("round", 0), ("rounds", 1), ("tasks", 1), ("period_us", 0), ("start_us", None)):
        if name not in doc and default is not None:
            columns.append([default] * n)
            continue
        at = where + "/" + name
        column = as_array(doc.get(name), at)
        if len(column) != n:
            raise Bad("%s: has %d entries, job has %d" % (at, len(column), n))
        columns.append([x if type(x) is int and 0 <= x <= LIMIT else integer(x, at) for x in column])
    return as_string(doc.get("gpu"), where + "/gpu"), list(zip(*columns))


class Schedule:
    """A decoded schedule: job ids and lanes."""

    def __init__(self, doc, more):
        members(doc, ("jobs", "lanes"), "/schedule")
        self.ids = [as_string(x, "/schedule/jobs") for x in as_array(doc.get("jobs"), "/schedule/jobs")]
        lanes = as_array(doc.get("lanes"), "/schedule/lanes") + more
        self.lanes = [read_lane(x, "/schedule/lanes/%d" % i) for i, x in enumerate(lanes)]


def check_schedule(inst, schedule, faults):
    """Adds what the schedule breaks to faults; returns {id: (start, end)} in µs
    of the jobs whose every task was found. O(entries log entries), and times
    the GPUs of a job where its entries change at different rounds."""
    jobs = {j.id: j for j in inst.jobs}
    if len(set(schedule.ids)) != len(schedule.ids):
        faults.add("form", "schedule.jobs names a job twice")
        return {}
    for name in schedule.ids:
        if name not in jobs:
            faults.add("form", "schedule.jobs names a job that the instance lacks", job=name)
            return {}
    entries = {j.id: [] for j in inst.jobs}
    broken, seen = set(), set()
    for gpu, rows in schedule.lanes:
        if gpu not in inst.gpus:
            faults.add("form", "a lane names a GPU that the instance lacks", gpu=gpu)
            return {}
        if gpu in seen:
            faults.add("form", "a GPU has two lanes", gpu=gpu)
            return {}
        seen.add(gpu)
        check_lane(inst, jobs, schedule.ids, gpu, rows, entries, broken, faults)
    times = {}
    for j in inst.jobs:
        if j.id not in broken:
            span = check_job(j, entries[j.id], faults)
            if span is not None:
                times[j.id] = span
    return times


def check_lane(inst, jobs, ids, gpu, rows, entries, broken, faults):
    kind, windows = inst.gpus[gpu]
    opens = [a for a, _ in windows]
    busy_until, before = 0, None
    for index, first, rounds, tasks, period, start in rows:
        if index >= len(ids):
            faults.add("form", "an entry names job %d of %d" % (index, len(ids)), gpu=gpu)
            return
        j = jobs[ids[index]]

        def fault(constraint, detail, by_us=None):
            faults.add(constraint, detail, job=j.id, round=first, gpu=gpu, by_us=by_us)

        if kind not in j.on:
            fault("profile", "the job has no profile for type %s" % kind)
            broken.add(j.id)
            continue
        if rounds < 1 or tasks < 1 or first + rounds > j.rounds or tasks > j.tasks:
            fault("form", "%d rounds of %d tasks: the job has %d of %d" % (rounds, tasks, j.rounds, j.tasks))
            broken.add(j.id)
            continue
        if tasks > 1 and j.sync != "relaxed":
            fault("gang", "%d tasks of a round on one GPU" % tasks)
            broken.add(j.id)
            continue
        e = Entry()
        e.gpu, e.kind, e.round, e.rounds, e.tasks, e.period, e.start = gpu, kind, first, rounds, tasks, period, start
        e.compute, e.sync = j.on[kind]
        hold = tasks * e.compute + (0 if j.sync == "relaxed" else e.sync)
        if rounds > 1 and period < hold:
            fault("overlap", "the period is shorter than the round holds the GPU", hold - period)
        if start < j.release:
            fault("release", "starts before the job's release", j.release - start)
        if start < busy_until:
            fault("overlap", "starts before the entry before it has ended", busy_until - start)
        end = start + (rounds - 1) * period + hold
        busy_until = max(busy_until, end)
        w = bisect_right(opens, start) - 1
        if w < 0 or start >= windows[w][1]:
            fault("service", "the GPU is not in service, or busy, at the start")
            e.free_until = FOREVER
        else:
            e.free_until = windows[w][1]
            if end > e.free_until:
                fault("service", "the GPU leaves service before the entry has ended", end - e.free_until)
        if before is not None:
            before.free_until = min(before.free_until, start)
        before = e
        entries[j.id].append(e)


def check_job(j, entries, faults):
    """The conditions between the entries of one job. Between two marks the
    same entries run, so that begin and finish are linear in the round: the
    difference of the greatest finish and the least next begin is convex, and
    its ends tell."""
    if j.sync == "rigid" and not check_rigid(j, entries, faults):
        return None
    marks = sorted({0, j.rounds}.union(e.round for e in entries).union(e.end_round() for e in entries))
    entries.sort(key=lambda e: e.round)
    running, next_entry, first, before, whole = [], 0, None, None, True

    def fault(constraint, r, detail, gpu=None, by_us=None):
        faults.add(constraint, detail, job=j.id, round=r, gpu=gpu, by_us=by_us)

    for lo, hi in zip(marks, marks[1:]):
        running = [e for e in running if e.end_round() > lo]
        while next_entry < len(entries) and entries[next_entry].round == lo:
            running.append(entries[next_entry])
            next_entry += 1
        found = sum(e.tasks for e in running)
        if found != j.tasks:
            fault("tasks", lo, "%d tasks instead of %d" % (found, j.tasks))
            whole = False
            if not running:
                before = None
                continue
        last = hi - 1
        begin = min(e.begin(lo) for e in running)
        first = begin if first is None else min(first, begin)
        if before is not None and begin < before:
            e = min(running, key=lambda e: e.begin(lo))
            fault("precedence", lo, "starts before round %d has synchronised" % (lo - 1), e.gpu, before - begin)
        for r in sorted({lo, last - 1}) if last > lo else ():
            e = min(running, key=lambda e: e.begin(r + 1))
            late = max(e.finish(r) for e in running) - e.begin(r + 1)
            if late > 0:
                fault("precedence", r + 1, "starts before round %d has synchronised" % r, e.gpu, late)
        before = max(e.finish(last) for e in running)
        if j.sync == "relaxed":
            continue
        if len({e.gpu for e in running}) < len(running):
            fault("gang", lo, "two tasks of a round on one GPU")
        if not j.mix and len({e.kind for e in running}) > 1:
            fault("gang", lo, "the round mixes GPU types")
        for r in sorted({lo, last}):
            spread = max(e.begin(r) for e in running) - min(e.begin(r) for e in running)
            if spread > 0:
                fault("gang", r, "the tasks do not start together", by_us=spread)
        for e in running:
            # Within an entry and between entries of this job the order of
            # rounds keeps the GPU; after its last round nothing else does.
            if e.end_round() == hi and before > e.free_until:
                fault("gang", last, "the GPU is given away before the slowest task has synchronised", e.gpu, before - e.free_until)
    return (first, before) if whole else None


def check_rigid(j, entries, faults):
    good = len(faults)
    if len({e.kind for e in entries}) > 1:
        faults.add("rigid", "the job mixes GPU types", job=j.id)
    runs = {}
    for e in sorted(entries, key=lambda e: (e.round, e.start)):
        runs.setdefault(e.gpu, []).append(e)
    if len(runs) != j.tasks:
        faults.add("rigid", "the job runs on %d GPUs instead of %d" % (len(runs), j.tasks), job=j.id)
    for gpu, run in runs.items():
        done, time = 0, run[0].start
        for e in run:
            d = e.compute + e.sync
            if e.round != done:
                faults.add("rigid", "this GPU's rounds are not those of the whole job", job=j.id, round=e.round, gpu=gpu)
                break
            if e.start != time or e.rounds > 1 and e.period != d:
                faults.add("rigid", "the rounds are not back to back", job=j.id, round=e.round, gpu=gpu)
                break
            done, time = done + e.rounds, time + e.rounds * d
        else:
            if done != j.rounds:
                faults.add("rigid", "the job leaves this GPU after %d of %d rounds" % (done, j.rounds), job=j.id, gpu=gpu)
    return len(faults) == good and good < MOST_FAULTS


# ---------------------------------------------------------------- certificates

CERTIFICATE = ("hare", "method", "path", "instance_sha256", "objective", "bound", "grid_us", "prices", "sizes", "step_us")


class Certificate:
    """A decoded certificate; bound is a Fraction, or None where it states none."""

    def __init__(self, doc, where):
        members(doc, CERTIFICATE, where)
        want(doc.get("hare"), "certificate/v1", where + "/hare")
        want(doc.get("objective"), "weighted_jct", where + "/objective")
        self.method = as_string(doc.get("method"), where + "/method")
        self.path = as_bool(doc.get("path", False), where + "/path")
        self.sha256 = as_string(doc["instance_sha256"], where + "/instance_sha256") if "instance_sha256" in doc else None
        self.bound = None
        if "bound" in doc:
            text = as_string(doc["bound"], where + "/bound")
            if not PLAIN.fullmatch(text):
                raise Bad("%s/bound: must be a decimal in a string" % where)
            self.bound = Fraction(text)
        self.grid = [integer(t, where + "/grid_us") for t in as_array(doc.get("grid_us", []), where + "/grid_us")]
        self.prices = {}
        for kind, row in as_object(doc.get("prices", {}), where + "/prices").items():
            at = pointer(where + "/prices", as_string(kind, where + "/prices"))
            self.prices[kind] = [integer(x, at) for x in as_array(row, at)]
        self.sizes = {}  # by type and number of GPUs
        for kind, rows in as_object(doc.get("sizes", {}), where + "/sizes").items():
            at = pointer(where + "/sizes", as_string(kind, where + "/sizes"))
            for size, row in as_object(rows, at).items():
                if not SIZE.fullmatch(size) or not 2 <= int(size) <= MOST_GPUS:
                    raise Bad("%s: %s is no number of GPUs held together: give 2 to %d" % (at, quoted(size), MOST_GPUS))
                self.sizes[kind, int(size)] = [integer(x, pointer(at, size)) for x in as_array(row, at)]
        self.step = integer(doc["step_us"], where + "/step_us", 1) if "step_us" in doc else None


def bound_of(inst, c):
    """The bound on Σ w (C − a) that c proves, in weight-seconds: a pair
    (numerator, denominator). Raises Refused where it proves none."""
    if c.method == "price":
        return price_bound(inst, c)
    if c.grid or c.prices or c.sizes or c.step is not None:
        raise Refused("the method %s has no grid, prices, sizes or step" % c.method)
    if c.method == "critical_path":
        return sum(j.weight * j.rounds * least_round(inst, j) for j in inst.jobs), 10**12
    if c.method == "machine":
        return machine_bound(inst)
    raise Refused("no bound is defined for the method %s" % quoted(c.method))


def modes_of(inst, j):
    """(greatest count, compute, sync, type) of the types that ever serve j."""
    return [(inst.peak(k), p, s, k) for k, (p, s) in sorted(j.on.items()) if inst.peak(k) > 0]


def least_round(inst, j):
    """τ in µs: the least time of one round of j on an empty cluster."""
    modes = modes_of(inst, j)
    if not modes:
        raise Refused("job %s can run on no GPU of this cluster: nothing is to be bounded" % quoted(j.id))
    if j.sync == "relaxed":

        def enough(t):
            return sum(m * max(0, (t - s) // p) for m, p, s, _ in modes) >= j.tasks

        lo, hi = 0, min(p * -(-j.tasks // m) + s for m, p, s, _ in modes)  # the best type alone
        while hi - lo > 1:
            mid = (lo + hi) // 2
            lo, hi = (lo, mid) if enough(mid) else (mid, hi)
        return hi
    if j.mix:
        total = 0
        for d, m in sorted((p + s, m) for m, p, s, _ in modes):
            total += m
            if total >= j.tasks:
                return d
    else:
        wide = [p + s for m, p, s, _ in modes if m >= j.tasks]
        if wide:
            return min(wide)
    raise Refused("job %s is wider than the cluster: nothing is to be bounded" % quoted(j.id))


def machine_bound(inst):
    """All GPUs as one machine of M GPUs' speed, preemptive, by greatest w/W
    (Goemans). Time is counted in 1/M µs, so that all of it is integers."""
    changes = {}
    for times, levels in inst.supply.values():
        for t, step in zip(times, [levels[0]] + [b - a for a, b in zip(levels, levels[1:])]):
            changes[t] = changes.get(t, 0) + step
    level = speed = 0
    for t in sorted(changes):
        level += changes[t]
        speed = max(speed, level)
    arrivals, work, sync = [], [], []
    for i, j in enumerate(inst.jobs):
        least_round(inst, j)
        modes = modes_of(inst, j)
        relaxed = j.sync == "relaxed"
        work.append(j.tasks * j.rounds * min(p if relaxed else p + s for _, p, s, _ in modes))
        sync.append(min(s for _, _, s, _ in modes) if relaxed else 0)
        arrivals.append((j.release * speed, Fraction(-j.weight, work[i]), i))
    arrivals.sort(reverse=True)
    left, twice = list(work), [0] * len(work)  # twice: 2·∫ time over the service of a job
    ready, now = [], 0
    while ready or arrivals:
        if not ready:
            now = max(now, arrivals[-1][0])
        while arrivals and arrivals[-1][0] <= now:
            heapq.heappush(ready, arrivals.pop()[1:])
        i = ready[0][1]
        end = min(now + left[i], arrivals[-1][0] if arrivals else FOREVER * MOST_GPUS)
        twice[i] += end * end - now * now
        left[i] -= end - now
        if left[i] == 0:
            heapq.heappop(ready)
        now = end
    terms = []
    for i, j in enumerate(inst.jobs):
        # w (B + W/2M + σ − a), B = twice/(2 W M)
        middle = j.weight * (twice[i] + work[i] ** 2)
        terms.append((middle + j.weight * (sync[i] - j.release) * 2 * work[i] * speed, 2 * work[i] * speed * 10**12))
    return add_up(terms)


def add_up(terms):
    """Σ of (numerator, denominator) pairs: equal denominators first, then in
    pairs without reducing, which keeps the numbers' sizes balanced."""
    by_denominator = {}
    for n, d in terms:
        g = gcd(n, d)
        by_denominator[d // g] = by_denominator.get(d // g, 0) + n // g
    terms = [(n, d) for d, n in sorted(by_denominator.items())] or [(0, 1)]
    while len(terms) > 1:
        pairs = zip(terms[::2], terms[1::2])
        odd = terms[-1:] if len(terms) % 2 else []
        terms = [(a * d + c * b, b * d) for (a, b), (c, d) in pairs] + odd
        if len(terms) > 1 and terms[0][1].bit_length() < 4096:
            terms = [(n // gcd(n, d), d // gcd(n, d)) for n, d in terms]
    n, d = terms[0]
    if d.bit_length() < 20000:
        n, d = n // gcd(n, d), d // gcd(n, d)
    return n, d


# ----------------------------------------------------------------- price bound


def price_bound(inst, c):
    """Σ φ_j − Σ ∫ F_k − Σ w a. The unit inside is 1e-15 weight-seconds:
    prices are 1e-9 weight-seconds a GPU-second, times µs."""
    check_prices(inst, c)
    grid, free = c.grid, [0] * (len(c.grid) - 1)
    paid = 0
    for kind in sorted(inst.supply):
        stays = stretches(inst.supply[kind], grid)
        single = c.prices.get(kind, free)
        sizes = {k: row for (of, k), row in c.sizes.items() if of == kind}
        if sizes:
            paid += pattern_price(stays, single, sizes)
        else:
            paid += sum(single[g] * m * length for (g, m), length in stays.items())
    terms, work = [(-paid, 10**15)], 0
    for j in inst.jobs:
        path = j.release + (j.rounds * least_round(inst, j) if c.path else 0)
        modes = []  # compute, sync, prices and how many of what they are for
        for _, p, s, kind in modes_of(inst, j):
            own = c.sizes.get((kind, j.tasks)) if j.sync != "relaxed" and not j.mix else None
            modes.append((p, s, own, 1) if own else (p, s, c.prices.get(kind, free), j.tasks))
        if not modes:
            raise Refused("job %s can run on no GPU of this cluster: nothing is to be bounded" % quoted(j.id))
        if j.sync == "rigid":
            n, d = min(rigid_phi(j, path, grid, p + s, row, units) for p, s, row, units in modes), 1
        else:
            n, d = Fluid(j, path, grid, modes).least()
        if j.sync == "relaxed" and c.step is not None:
            steps = Steps.of(inst, j, c)
            if steps is not None:
                work += steps.work
                if work > MOST_WORK:
                    raise Refused("step_us is too fine to check for this many jobs")
                n, d = max((n, d), (steps.least(), 1), key=lambda x: Fraction(*x))
        terms.append((n - 1000 * j.weight * j.release * d, d * 10**15))
    return add_up(terms)


def check_prices(inst, c):
    grid = c.grid
    if len(grid) < 2 or grid[0] != 0 or any(b <= a for a, b in zip(grid, grid[1:])):
        raise Refused("grid_us must rise from 0")
    if c.step is not None and any(t % c.step for t in grid):
        raise Refused("not every entry of grid_us is a multiple of step_us")
    work = 0
    for (kind, size), row in sorted([((kind, 1), row) for kind, row in c.prices.items()] + list(c.sizes.items())):
        if kind not in inst.supply:
            raise Refused("prices or sizes name the type %s, which the cluster lacks" % quoted(kind))
        if len(row) != len(grid) - 1:
            raise Refused("prices of %d of %s: %d for %d cells" % (size, quoted(kind), len(row), len(grid) - 1))
        if size > 1:
            work += len(row) * (inst.peak(kind) + 1)
    if work > MOST_WORK:
        raise Refused("a grid of %d cells is too fine to check with %d sizes" % (len(grid) - 1, len(c.sizes)))


def stretches(steps, grid):
    """{(cell, M): for how long}, windows that open and close inside cells included."""
    times, levels = steps
    out = {}
    for t, end, level in zip(times, times[1:] + [grid[-1]], levels):
        g = max(bisect_right(grid, t) - 1, 0)
        while g < len(grid) - 1 and grid[g] < end:
            length = min(end, grid[g + 1]) - max(t, grid[g])
            if length > 0:
                out[g, level] = out.get((g, level), 0) + length
            g += 1
    return out


def pattern_price(stays, single, sizes):
    """∫ F(t) dt: every stretch costs the dearest pattern that its GPUs hold. Cells
    of equal prices are looked at together."""
    lengths = {}  # by the prices of a cell, then by M
    for (g, m), length in stays.items():
        of = lengths.setdefault(tuple((k, row[g]) for k, row in sizes.items()) + ((1, single[g]),), {})
        of[m] = of.get(m, 0) + length
    return sum(v * of[m] for goods, of in lengths.items() for m, v in dearest(goods, of).items())


def dearest(goods, counts):
    """{M: max Σ n·price, Σ n·gpus ≤ M, n whole and ≥ 0} for each M of counts; goods
    are (gpus, price). Let k GPUs be the good that is dearest a GPU. Of any k other
    goods some together hold a multiple of k GPUs, for which the dearest pays no
    less; so fewer than k others are needed, and from k · (the largest good) GPUs
    on a pattern has the dearest at least once. A table need not go further."""
    most = max(counts)
    goods = [(k, price) for k, price in goods if price > 0 and k <= most]
    if not goods:
        return dict.fromkeys(counts, 0)
    k, price = max(goods, key=lambda x: (Fraction(x[1], x[0]), -x[0]))
    enough = k * max(gpus for gpus, _ in goods)
    table = [0] * min(most + 1, enough)
    for gpus, each in sorted(goods):
        for lo in range(gpus, len(table), gpus):
            held = table[lo : lo + gpus]
            table[lo : lo + gpus] = map(max, held, map(each.__add__, table[lo - gpus : lo]))
    out = {}
    for m in counts:
        times = max(0, (m - enough) // k + 1)
        out[m] = times * price + table[m - times * k]
    return out


def rigid_phi(j, path, grid, d, row, units):
    """min over S of w (S + R d) + units · ∫ row over the block: the cost is linear in S
    but where an end of the block meets the grid."""
    length = j.rounds * d
    paid = [0]
    for g, price in enumerate(row):
        paid.append(paid[-1] + price * (grid[g + 1] - grid[g]))

    def until(t):
        g = bisect_right(grid, t) - 1
        return paid[g] + (row[g] * (t - grid[g]) if g < len(row) else 0)

    least = max(j.release, path - length)
    starts = {least}.union(t for t in grid if t > least).union(t - length for t in grid if t - length > least)
    return min(1000 * j.weight * (s + length) + units * (until(s + length) - until(s)) for s in starts)


class Fluid:
    """φ of a relaxed or gang job: least over the last pieces L of time of

        D_L = max over μ ≥ 0 of  w b_L + μ R − Σ_{i ≤ L} len_i max(0, max_k (μ − n_ik − [i = L] w d_k)/d_k)

    with n_ik the price of one round done in mode k in piece i. Floats only
    propose μ. A value is taken where exact one-sided derivatives prove μ to be
    the maximum, and another L is dismissed where an exact value at some μ is no
    less than the least found; so the result is exactly φ."""

    def __init__(self, j, path, grid, modes):
        relaxed = j.sync == "relaxed"
        self.rounds, self.weight = j.rounds, 1000 * j.weight
        self.d = [p + s for p, s, _, _ in modes]
        cuts = {path}.union(grid)
        if relaxed:
            cuts.update(t + s for _, s, _, _ in modes for t in grid)
        self.cuts = [j.release] + sorted(t for t in cuts if t > j.release)
        self.lengths = [b - a for a, b in zip(self.cuts, self.cuts[1:])]  # the last piece is infinite
        self.cost = []  # n of each piece and mode
        for b in self.cuts:
            cell = bisect_right(grid, b) - 1
            ns = []
            for p, s, row, units in modes:
                if cell >= len(row):
                    price = 0
                elif relaxed:
                    back = bisect_right(grid, max(b - s, j.release)) - 1
                    price = min(row[back : cell + 1])
                else:
                    price = row[cell]
                ns.append(units * price * (p if relaxed else p + s))
            self.cost.append(ns)
        self.common = reduce(lambda a, b: a * b // gcd(a, b), self.d)
        self.share = [self.common // d for d in self.d]  # common/d_k
        self.first = bisect_left(self.cuts, path)  # last pieces start at or after the path

    def kinks(self, ns, length):
        """The kinks of length · max(0, max_k (μ − n_k)/d_k) in order, as (μ, growth of
        the slope there, exact μ): floats, but for the exact (numerator, denominator)."""
        out, d = [], self.d
        # Of modes with equal cost of a round the faster is never worse.
        at = min(range(len(d)), key=lambda k: (ns[k], d[k]))
        kink, rate = (ns[at], 1), 1 / d[at]
        while True:
            out.append((kink[0] / kink[1], rate * length, kink))
            best = None
            for k in range(len(d)):
                if d[k] < d[at]:
                    other = (ns[k] * d[at] - ns[at] * d[k], d[at] - d[k])
                    order = -1 if best is None else other[0] * kink[1] - kink[0] * other[1]
                    if order < 0 or order == 0 and d[k] < d[best]:
                        best, kink = k, other
            if best is None:
                return out
            rate = (d[at] - d[best]) / (d[at] * d[best])
            at = best

    def last_costs(self, last):
        """n of the last piece, whose seconds cost w too."""
        return [n + self.weight * d for n, d in zip(self.cost[last], self.d)]

    def last_length(self, last):
        return self.lengths[last] if last < len(self.lengths) else float("inf")

    def sweep(self):
        """{L: (about D_L, exact μ about where it is taken)}, in floats. A last
        piece that is left out is dearer or too short, about."""
        out, best = {}, None
        base, capacity = [], 0.0  # the cheapest kinks that hold all rounds
        for last, b in enumerate(self.cuts):
            if last >= self.first:
                start = float(self.weight * b)
                if best is not None and start > best:
                    break
                left, cost = float(self.rounds), start
                for slope, rounds, exact in sorted(base + self.kinks(self.last_costs(last), self.last_length(last))):
                    if rounds >= left:
                        cost += left * slope
                        out[last] = cost, exact
                        best = cost if best is None else min(best, cost)
                        break
                    left -= rounds
                    cost += rounds * slope
            if last < len(self.lengths):
                for kink in self.kinks(self.cost[last], self.lengths[last]):
                    insort(base, kink)
                    capacity += kink[1]
                while capacity - base[-1][1] >= self.rounds:
                    capacity -= base.pop()[1]
        return out

    def least(self):
        """φ in 1e-15 weight-seconds, as (numerator, denominator)."""
        guesses = self.sweep()
        pending = sorted(guesses, key=lambda x: guesses[x][0])
        pending += [x for x in range(self.first, len(self.cuts)) if x not in guesses]
        best = None
        while pending:
            last = pending[0]
            mu = guesses[last][1] if last in guesses else None
            if best is not None:
                n, d = best
                pending = [x for x in pending if self.weight * self.cuts[x] * d < n]  # μ = 0 gives w b
                if mu is not None:
                    pending = self.undecided(pending, mu, best)
                if not pending or pending[0] != last:
                    continue
            value = self.exact(last, mu)
            pending = pending[1:]
            if value is not None and (best is None or value[0] * best[1] < best[0] * value[1]):
                best = value
        return best

    def gain(self, ns, a, q):
        """q · common · max(0, max_k (a/q − n_k)/d_k)."""
        return max(0, max((a - q * n) * share for n, share in zip(ns, self.share)))

    def undecided(self, pending, mu, best):
        """Those last pieces for which μ = a/q proves no value as large as best."""
        a, q = mu
        wanted, out = set(pending), []
        spent = 0  # Σ len · gain of the pieces before
        for i in range(max(pending, default=-1) + 1):
            if i in wanted:
                own = self.gain(self.last_costs(i), a, q)
                if i < len(self.lengths):
                    own *= self.lengths[i]
                n = self.common * (q * self.weight * self.cuts[i] + a * self.rounds) - spent - own
                infinite = i == len(self.lengths) and own > 0
                if infinite or n * best[1] < best[0] * q * self.common:
                    out.append(i)
            if i < len(self.lengths):
                spent += self.lengths[i] * self.gain(self.cost[i], a, q)
        return [x for x in pending if x in set(out)]

    def side(self, last, a, q):
        """(D, sign) at μ = a/q: sign is 0 where μ is the maximum, proved by the
        one-sided derivatives, −1 where μ is too small, 1 where too large. D is
        the exact dual value, a pair."""
        low = high = spent = 0  # rounds done, times common: between low and high
        for i in range(last + 1):
            ns = self.cost[i] if i < last else self.last_costs(last)
            values = [(a - q * n) * share for n, share in zip(ns, self.share)]
            top = max(values)
            if top < 0:
                continue
            rates = [share for v, share in zip(values, self.share) if v == top]
            if i == len(self.lengths):
                if top > 0:
                    return None, 1
                high = None
                continue
            length = self.lengths[i]
            spent += length * top
            high += length * max(rates)
            if top > 0:
                low += length * min(rates)
        need = self.rounds * self.common
        if high is not None and high < need:
            return None, -1
        if low > need:
            return None, 1
        n = self.common * (q * self.weight * self.cuts[last] + a * self.rounds) - spent
        return (n, q * self.common), 0

    def exact(self, last, mu):
        """D_L exactly; None where the pieces up to L are too short for all rounds."""
        if last < len(self.lengths):
            if (self.cuts[last + 1] - self.cuts[0]) < self.rounds * min(self.d):
                return None
        if mu is not None:
            value, side = self.side(last, *mu)
            if side == 0:
                return value
        slopes = {Fraction(*k[2]) for k in self.kinks(self.last_costs(last), 1)}
        for i in range(last):
            slopes.update(Fraction(*k[2]) for k in self.kinks(self.cost[i], 1))
        slopes = sorted(slopes)
        lo, hi = 0, len(slopes) - 1
        while lo <= hi:
            mid = (lo + hi) // 2
            value, side = self.side(last, slopes[mid].numerator, slopes[mid].denominator)
            if side == 0:
                return value
            lo, hi = (mid + 1, hi) if side < 0 else (lo, mid - 1)
        raise Refused("the price bound of a job has no value")  # cannot be: the maximum is at a kink


class Steps:
    """φ of a relaxed job round by round, all times in steps of step_us. The cost
    of its last r rounds from x on, V_r(x), is kept less w r τ, which makes it
    w x from the horizon on, whatever r."""

    @classmethod
    def of(cls, inst, j, c):
        """None where the job is too large for it, or its tasks' times are between steps."""
        modes = modes_of(inst, j)
        if any(t % c.step for _, p, s, _ in modes for t in (p, s)):
            return None
        horizon, tau = c.grid[-1] // c.step, least_round(inst, j) // c.step
        most = MOST_STEPS // (j.rounds * horizon) - len(modes) + 1  # levels
        modes = [(m, p // c.step, s // c.step, -(-j.tasks // m), c.prices.get(kind)) for m, p, s, kind in modes]
        ends = [range(s + p * max(1, -((s - tau) // p)), s + p * rows + 1, p) for _, p, s, rows, _ in modes]
        if most < 1 or any(len(e) > most for e in ends):
            return None
        levels = []
        for level, _ in groupby(heapq.merge(*ends)):
            levels.append(level)
            if len(levels) > most:
                return None
        self = cls()
        self.job, self.tau, self.levels, self.modes, self.horizon = j, tau, levels, modes, horizon
        self.weight, self.release = 1000 * j.weight, j.release // c.step  # rounded down
        self.step, self.cells = c.step, [t // c.step for t in c.grid]
        self.work = (j.rounds + len(modes)) * horizon * (len(levels) - 1 + len(modes))
        return self

    def slots(self, p, row):
        """The price of a GPU for p steps, by start from the release to the horizon."""
        paid = [0]
        for price, a, b in zip(row or (), self.cells, self.cells[1:]):
            paid += [price] * (b - max(a, self.release))
        if row is None:
            paid += [0] * (self.horizon - self.release)
        paid = list(accumulate(paid))
        return list(map(sub, paid[p:] + [paid[-1]] * min(p, len(paid)), paid[:-1]))

    def cheapest(self, slots, window):
        """The least of slots[x … x + window] by x; those from the horizon on are free."""
        if window >= len(slots):
            return [0] * len(slots)
        least, covered = slots, 1
        while covered <= window:
            ahead = min(covered, window + 1 - covered)
            least = list(map(min, least, least[ahead:]))
            covered += ahead
        return least + [0] * window

    def jumps(self):
        """{length: what the tasks of a round of this length cost, by start}."""
        tasks, out = self.job.tasks, {}
        slots = [self.slots(p, row) for _, p, _, _, row in self.modes]

        def offer(length, row):
            out[length] = list(map(min, out[length], row)) if length in out else row

        for level, after in zip(self.levels, self.levels[1:]):
            parts = []  # tasks at most, prices by start
            for (m, p, s, _, _), of in zip(self.modes, slots):
                if level >= s + p:
                    parts.append((min(tasks, m * ((level - s) // p)), of, after - 1 - s - p))
            if any(n < tasks for n, _, _ in parts):
                rows = [self.cheapest(of, window) for _, of, window in parts]
                offer(level, [self.fill([(x, n) for (n, _, _), x in zip(parts, at)]) for at in zip(*rows)])
        for (_, p, s, rows, _), of in zip(self.modes, slots):
            offer(s + p * rows, [tasks * x for x in self.cheapest(of, p * rows - p)])
        return out

    def fill(self, parts):
        """The price of all tasks, the cheapest of (price, tasks at most) first."""
        cost, left = 0, self.job.tasks
        for price, most in sorted(parts):
            cost += price * min(left, most)
            left -= min(left, most)
        return cost

    def least(self):
        """V_R(a) in 1e-15 weight-seconds."""
        a, w, tau = self.release, self.weight, self.tau
        rounds, width = self.job.rounds, self.horizon - self.release
        if width <= 0:
            return self.step * w * (a + rounds * tau)
        # The least cost of waiting for the horizon, and of rounds that end after it.
        last, inside = [w * self.horizon] * width, []
        for length, row in self.jumps().items():
            within = max(0, width - length)
            ends = range(w * (a + within + length - tau), w * (a + width + length - tau), w) if w else [0] * width
            last[within:] = map(min, last[within:], map(add, row[within:], ends))
            if within:
                inside.append((length, [x - w * tau for x in row[:within]]))
        # The r rounds before take r τ at least, so no start before that counts.
        value = [w * x for x in range(a, self.horizon)]
        for before in range(min(rounds - 1, (width - 1) // tau), -1, -1):
            lo = before * tau
            best = last[lo:]
            for length, row in inside:
                best[: max(0, len(best) - length)] = map(min, best, map(add, row[lo:], value[lo + length :]))
            best.reverse()
            value = [0] * lo + list(accumulate(best, min))[::-1]
        return self.step * (value[0] + w * rounds * tau)


# ------------------------------------------------------------------------ main


def decimal(f, places=6):
    """f rounded down; a Fraction or a pair."""
    n, d = (f.numerator, f.denominator) if isinstance(f, Fraction) else f
    n = n * 10**places // d
    sign, n = ("-", -n) if n < 0 else ("", n)
    return "%s%d.%0*d" % (sign, n // 10**places, places, n % 10**places)


def less(a, f):
    """Whether the pair a is less than the Fraction f."""
    return a[0] * f.denominator < f.numerator * a[1]


def optional_amount(doc, name):
    if doc.get(name) is None:
        return None
    return Fraction(scaled(doc[name], 12, "/" + name), 10**12)


class Result:
    """A decoded result. Fields that are not known here are passed over."""

    def __init__(self, docs):
        doc = as_object(docs[0], "")
        want(doc.get("hare"), "result/v1", "/hare")
        want(doc.get("objective"), "weighted_jct", "/objective")
        self.sha256 = as_string(doc["instance_sha256"], "/instance_sha256") if "instance_sha256" in doc else None
        self.value, self.bound = optional_amount(doc, "value"), optional_amount(doc, "bound")
        self.has_gap, self.gap = "gap" in doc, optional_amount(doc, "gap")
        self.schedule = self.certificate = None
        if doc.get("schedule") is not None:
            self.schedule = Schedule(doc["schedule"], docs[1:])
        elif len(docs) > 1:
            raise Bad("something follows the document")
        if doc.get("certificate") is not None:
            self.certificate = Certificate(doc["certificate"], "/certificate")
        self.jobs = []
        for i, j in enumerate(as_array(doc.get("jobs", []), "/jobs")):
            at = "/jobs/%d" % i
            as_object(j, at)
            start, end = (micros(j[x], at + "/" + x) if x in j else None for x in ("start_s", "end_s"))
            self.jobs.append((as_string(j.get("id"), at + "/id"), start, end))


def verify(inst, res):
    """Returns (faults, value, bound): a Fraction and a pair, or None where a
    fault or a missing certificate leaves none."""
    faults, value, bound = Faults(), None, None
    sha = inst.sha256()
    for said in (res.sha256, res.certificate and res.certificate.sha256):
        if said is not None and said != sha:
            faults.add("instance", "the result belongs to another instance: its instance_sha256 is %s, this one's %s" % (quoted(said), sha))
            return faults, None, None
    if res.schedule is None:
        faults.add("form", "the result has no schedule: nothing to verify")
    else:
        times = check_schedule(inst, res.schedule, faults)
        if not faults:
            value = Fraction(sum(j.weight * (times[j.id][1] - j.release) for j in inst.jobs), 10**12)
            check_claims(inst, res, times, value, faults)
    if res.certificate is None:
        if res.bound is not None:
            faults.add("bound", "the result states a bound without a certificate")
    else:
        try:
            bound = bound_of(inst, res.certificate)
        except Refused as e:
            faults.add("certificate", str(e))
        else:
            check_bound(res, bound, faults)
    return faults, value, bound


def check_claims(inst, res, times, value, faults):
    if res.value is None:
        faults.add("value", "the result states no value")
    elif res.value != value:
        faults.add("value", "the schedule's value is %s, the result states %s" % (decimal(value, 12), decimal(res.value, 12)))
    listed = set()
    for name, start, end in res.jobs:
        if name not in times or name in listed:
            faults.add("value", "jobs lists a job that the instance lacks, or one twice", job=name)
            continue
        listed.add(name)
        for what, said, is_ in (("starts", start, times[name][0]), ("ends", end, times[name][1])):
            if said is not None and said != is_:
                faults.add("value", "the job %s at %s s, the result states %s" % (what, decimal(Fraction(is_, 10**6)), decimal(Fraction(said, 10**6))), job=name)
    if not res.has_gap or faults:
        return
    # A gap is printed with six decimals, rounded either way.
    if res.bound is not None and value == res.bound:
        least = most = Fraction(0)
    elif res.bound is None or res.bound <= 0:
        least = most = None
    else:
        most = least = value / res.bound - 1
    if (res.gap is None) != (least is None) or res.gap is not None and abs(res.gap - most) >= Fraction(1, 10**6):
        said = "null" if res.gap is None else decimal(res.gap)
        faults.add("gap", "value over bound less one is %s, the result states %s" % ("null" if most is None else decimal(most), said))


def check_bound(res, bound, faults):
    claim = res.certificate.bound
    if claim is None:
        faults.add("bound", "the certificate states no bound")
        return
    if less(bound, claim):
        faults.add("bound", "the certificate proves %s, less than the %s that it states" % (decimal(bound), decimal(claim)))
    if res.bound is not None and res.bound > claim:
        faults.add("bound", "the result states %s, more than the %s of its certificate" % (decimal(res.bound, 12), decimal(claim)))


def exactly(pair):
    """A short pair as p/q, for people and tests."""
    n, d = pair
    return "%d/%d" % (n, d) if d.bit_length() < 400 else None


def run(names, bound_only):
    """The report, as --json prints it."""
    inst = Instance(documents(read_text(names[0])))
    docs = documents(read_text(names[1]))
    report = {"ok": True, "instance_sha256": inst.sha256()}
    if bound_only:
        doc = as_object(docs[0], "")
        if doc.get("hare") == "result/v1" or len(docs) > 1:
            c = Result(docs).certificate
            if c is None:
                raise Bad("/certificate: is missing")
        else:
            c = Certificate(doc, "")
        faults, value, bound = Faults(), None, None
        if c.sha256 is not None and c.sha256 != inst.sha256():
            faults.add("instance", "the certificate belongs to another instance")
        else:
            try:
                bound = bound_of(inst, c)
                if c.bound is not None and less(bound, c.bound):
                    faults.add("bound", "the certificate proves %s, less than the %s that it states" % (decimal(bound), decimal(c.bound)))
            except Refused as e:
                faults.add("certificate", str(e))
    else:
        faults, value, bound = verify(inst, Result(docs))
    if value is not None:
        report["value"] = decimal(value, 12)
    if bound is not None:
        report["bound"] = decimal(bound)
        report["bound_exact"] = exactly(bound)
    if faults:
        report["ok"] = False
        report["faults"] = faults
    return report


def say(report):
    if report["ok"]:
        parts = ["value %s" % report["value"].rstrip("0").rstrip(".")] if "value" in report else []
        parts.append("bound %s" % report["bound"] if "bound" in report else "no bound")
        print("accepted: " + ", ".join(parts))
    else:
        for f in report["faults"]:
            print("refused: " + fault_line(f))


def main(argv):
    flags = [a for a in argv if a.startswith("--")]
    names = [a for a in argv if not a.startswith("--")]
    if "--help" in flags:
        print(__doc__.strip())
        return 0
    if len(names) != 2 or names == ["-", "-"] or any(f not in ("--json", "--bound-only") for f in flags):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        report = run(names, "--bound-only" in flags)
    except Bad as e:
        if "--json" in flags:
            print(json.dumps({"ok": False, "error": str(e)}))
        print("hare_verify: %s" % e, file=sys.stderr)
        return 2
    except MemoryError:
        print("hare_verify: the input needs more memory than there is", file=sys.stderr)
        return 2
    if "--json" in flags:
        print(json.dumps(report, indent=1))
    else:
        say(report)
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
