#!/usr/bin/env python3
"""Second verifier of Hare results, in the standard library alone.

    python3 hare_verify.py instance.json result.json [--json]

Checks every constraint of the model on runs of rounds, in integers, recomputes
the value, and recomputes the bound from the certificate in exact fractions. It
was written apart from the Go verifier: that one evaluates the price bound by
its dual, this one by the continuous knapsack itself.

Exit codes: 0 accepted, 1 refused, 2 bad usage or input. "-" is standard input;
.gz is decompressed.
"""
import gzip
import hashlib
import json
import re
import sys
from bisect import bisect_right
from fractions import Fraction

LIMIT = 1 << 53
FOREVER = float("inf")
RESERVED = {"shapes", "after", "deadline_s", "only", "quota", "user", "gpus_per_task", "within", "switch_s", "progress"}


class Bad(Exception):
    """The input cannot be read."""


class Refused(Exception):
    """The result breaks a condition."""


# ---------------------------------------------------------------- reading

class Number(str):
    """A JSON number as it is written."""


def no_constants(name):
    raise Bad("%s is not a JSON number" % name)


def no_duplicates(pairs):
    seen = {}
    for name, value in pairs:
        if name in seen:
            raise Bad("the name %r stands twice in an object" % name)
        seen[name] = value
    return seen


def parse(text):
    try:
        return json.loads(text, parse_float=Number, parse_int=Number, parse_constant=no_constants,
                          object_pairs_hook=no_duplicates)
    except (ValueError, RecursionError) as e:
        raise Bad("not JSON: %s" % e)


def load(name):
    try:
        raw = sys.stdin.buffer.read() if name == "-" else open(name, "rb").read()
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
        return raw.decode("utf-8")
    except (OSError, UnicodeDecodeError, EOFError) as e:
        raise Bad("%s: %s" % (name, e))


NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?\Z")


def scaled(value, places, where):
    """The exact integer value * 10**places of a number."""
    m = isinstance(value, Number) and NUMBER.match(value)
    if not m or len(value) > 400:
        raise Bad("%s: must be a number" % where)
    sign, whole, fraction, exponent = m.group(1), m.group(2), m.group(3) or "", m.group(4) or "0"
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return 0
    shift = places + (int(exponent) if len(exponent) < 8 else 10 ** 7) - len(fraction)
    if shift + len(digits) > 60:
        raise Bad("%s: %.40s is too large" % (where, value))
    if shift < 0:
        kept, dropped = digits[:shift] or "0", digits[shift:]
        if dropped.strip("0") or -shift > len(digits):
            raise Bad("%s: %.40s has too many decimals" % (where, value))
        n = int(kept)
    else:
        n = int(digits) * 10 ** shift
    return -n if sign else n


def micros(value, where, least=0):
    n = scaled(value, 6, where)
    if n < least or n > LIMIT:
        raise Bad("%s: %s is out of range" % (where, value))
    return n


def integer(value, where, least, most=LIMIT):
    n = scaled(value, 0, where)
    if n < least or n > most:
        raise Bad("%s: %s is out of range" % (where, value))
    return n


def members(value, known, where):
    if not isinstance(value, dict):
        raise Bad("%s: must be an object" % where)
    for name in value:
        if name in RESERVED:
            raise Bad("%s/%s: not supported by this version" % (where, name))
        if name not in known:
            raise Bad("%s/%s: unknown field" % (where, name))
    return value


def text_of(value, where):
    if isinstance(value, Number) or not isinstance(value, str) or value == "":
        raise Bad("%s: must be a string" % where)
    return value


def items(value, where):
    if not isinstance(value, list):
        raise Bad("%s: must be an array" % where)
    return value


class Job:
    pass


class Device:
    def __init__(self, kind, windows):
        self.kind, self.windows = kind, windows


class Instance:
    """A decoded instance with defaults explicit and nodes expanded."""

    def __init__(self, doc):
        members(doc, {"hare", "name", "objective", "cluster", "jobs"}, "")
        if doc.get("hare") != "instance/v1":
            raise Bad('/hare: must be "instance/v1"')
        if doc.get("objective", "weighted_jct") != "weighted_jct":
            raise Bad("/objective: must be weighted_jct")
        self.devices, self.nodes, self.jobs = {}, [], []
        cluster = members(doc.get("cluster"), {"nodes"}, "/cluster")
        for i, n in enumerate(items(cluster.get("nodes"), "/cluster/nodes")):
            self.node(n, "/cluster/nodes/%d" % i)
        if not self.devices:
            raise Bad("/cluster/nodes: no GPUs")
        ids = set()
        for i, j in enumerate(items(doc.get("jobs"), "/jobs")):
            job = read_job(j, "/jobs/%d" % i)
            if job.id in ids:
                raise Bad("/jobs/%d/id: stands twice" % i)
            ids.add(job.id)
            self.jobs.append(job)
        self.supply = {}
        self.supplies()

    def node(self, doc, where):
        members(doc, {"name", "count", "gpus", "in_service_s", "busy"}, where)
        name = text_of(doc.get("name"), where + "/name")
        gpus = members(doc.get("gpus"), doc.get("gpus") or (), where + "/gpus")
        counts = sorted((t, integer(c, where + "/gpus", 1, 1 << 20)) for t, c in gpus.items())
        windows = []
        for w in items(doc.get("in_service_s", [[Number("0"), None]]), where + "/in_service_s"):
            if not isinstance(w, list) or len(w) != 2:
                raise Bad(where + "/in_service_s: windows are [start, end]")
            a, b = micros(w[0], where), FOREVER if w[1] is None else micros(w[1], where)
            if b <= a or windows and a < windows[-1][1]:
                raise Bad(where + "/in_service_s: windows must be in order and disjoint")
            if windows and a == windows[-1][1]:
                windows[-1] = (windows[-1][0], b)
            else:
                windows.append((a, b))
        if not windows or not counts:
            raise Bad(where + ": needs GPUs and a window")
        total = sum(c for _, c in counts)
        busy = {}
        for b in items(doc.get("busy", []), where + "/busy"):
            members(b, {"gpu", "until_s"}, where + "/busy")
            g = integer(b.get("gpu"), where + "/busy/gpu", 0, total - 1)
            if g in busy:
                raise Bad(where + "/busy: GPU %d stands twice" % g)
            busy[g] = micros(b.get("until_s"), where + "/busy/until_s")
        busy = {g: t for g, t in busy.items() if t > 0}
        copies = integer(doc["count"], where + "/count", 1, 1 << 20) if "count" in doc else 0
        if max(1, copies) * total + len(self.devices) > 1 << 20:
            raise Bad(where + ": too many GPUs")
        names = ["%s-%d" % (name, i) for i in range(copies)] if copies else [name]
        for one in names:
            if any(one == n["name"] for n in self.nodes[-1:]) or one + "/0" in self.devices or "/" in one:
                raise Bad(where + "/name: stands twice, or has a slash")
            self.nodes.append({
                "busy": [{"gpu": g, "until_us": busy[g]} for g in sorted(busy)],
                "gpus": dict(counts),
                "in_service_us": [[a, None if b == FOREVER else b] for a, b in windows],
                "name": one,
            })
            index = 0
            for kind, count in counts:
                for _ in range(count):
                    t = busy.get(index, 0)
                    self.devices["%s/%d" % (one, index)] = Device(kind, [(max(a, t), b) for a, b in windows if b > t])
                    index += 1

    def supplies(self):
        """M_k(t) as (times, levels) by type."""
        change = {}
        for d in self.devices.values():
            c = change.setdefault(d.kind, {0: 0})
            for a, b in d.windows:
                c[a] = c.get(a, 0) + 1
                c[b] = c.get(b, 0) - 1
        for kind, c in change.items():
            times, levels, level = sorted(t for t in c if t != FOREVER), [], 0
            for t in times:
                level += c[t]
                levels.append(level)
            self.supply[kind] = (times, levels)

    def peak(self, kind):
        return max(self.supply[kind][1]) if kind in self.supply else 0

    def sha256(self):
        doc = {"cluster": {"nodes": self.nodes}, "hare": "instance/v1", "objective": "weighted_jct", "jobs": [
            {"id": j.id, "mix": j.mix, "on": {k: {"compute_us": p, "sync_us": s} for k, (p, s) in j.on.items()},
             "release_us": j.release, "rounds": j.rounds, "sync": j.sync, "tasks": j.tasks, "weight_micro": j.weight}
            for j in self.jobs]}
        return hashlib.sha256(canonical(doc).encode("utf-8")).hexdigest()


def canonical(x):
    """RFC 8785 of what has no floats."""
    if isinstance(x, dict):
        names = sorted(x, key=lambda s: s.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(canonical(n) + ":" + canonical(x[n]) for n in names) + "}"
    if isinstance(x, list):
        return "[" + ",".join(map(canonical, x)) + "]"
    return json.dumps(x, ensure_ascii=False)


def read_job(doc, where):
    members(doc, {"id", "weight", "release_s", "rounds", "tasks", "sync", "mix", "on"}, where)
    j = Job()
    j.id = text_of(doc.get("id"), where + "/id")
    j.weight = micros(doc.get("weight", Number("1")), where + "/weight")
    j.release = micros(doc.get("release_s", Number("0")), where + "/release_s")
    j.rounds = integer(doc.get("rounds", Number("1")), where + "/rounds", 1)
    j.tasks = integer(doc.get("tasks", Number("1")), where + "/tasks", 1, (1 << 31) - 1)
    j.sync = doc.get("sync", "relaxed")
    if j.sync not in ("relaxed", "gang", "rigid"):
        raise Bad(where + "/sync: must be relaxed, gang or rigid")
    mix = doc.get("mix", None)
    if mix not in (None, True, False) or mix is False and j.sync == "relaxed" or mix is True and j.sync == "rigid":
        raise Bad(where + "/mix: is a choice of gang jobs alone")
    j.mix = mix is True and j.sync == "gang"
    j.on = {}
    for kind, p in members(doc.get("on"), doc.get("on") or (), where + "/on").items():
        members(p, {"compute_s", "sync_s"}, where + "/on")
        j.on[kind] = (micros(p.get("compute_s"), where + "/on/compute_s", 1), micros(p.get("sync_s", Number("0")), where + "/on/sync_s"))
    if not j.on:
        raise Bad(where + "/on: names no type")
    return j


# --------------------------------------------------------------- schedule

class Entry:
    """Some rounds of a job on one GPU."""
    __slots__ = ("gpu", "kind", "round", "rounds", "tasks", "period", "start", "compute", "sync", "limit")

    def begin(self, r):
        return self.start + (r - self.round) * self.period

    def finish(self, r):
        return self.begin(r) + self.tasks * self.compute + self.sync


def column(lane, name, default, n):
    if name not in lane:
        return [default] * n
    out = [integer(x, "/schedule/lanes/" + name, 0) for x in items(lane[name], "/schedule/lanes/" + name)]
    if len(out) != n:
        raise Refused("form: the columns of a lane are not equally long")
    return out


def check_schedule(inst, doc):
    """Returns {job: (start, end)}; raises Refused."""
    members(doc, {"jobs", "lanes"}, "/schedule")
    by_id = {j.id: j for j in inst.jobs}
    names = items(doc.get("jobs"), "/schedule/jobs")
    if len(set(names)) != len(names) or any(n not in by_id for n in names):
        raise Refused("form: schedule.jobs lists an unknown job, or one twice")
    entries = {j.id: [] for j in inst.jobs}
    seen = set()
    for lane in items(doc.get("lanes"), "/schedule/lanes"):
        members(lane, {"gpu", "job", "round", "rounds", "tasks", "period_us", "start_us"}, "/schedule/lanes")
        gpu = lane.get("gpu")
        if gpu not in inst.devices or gpu in seen:
            raise Refused("form: a lane names an unknown GPU, or one twice: %r" % gpu)
        seen.add(gpu)
        device = inst.devices[gpu]
        n = len(items(lane.get("job"), "/schedule/lanes/job"))
        columns = zip(column(lane, "job", 0, n), column(lane, "round", 0, n), column(lane, "rounds", 1, n),
                      column(lane, "tasks", 1, n), column(lane, "period_us", 0, n), column(lane, "start_us", None, n))
        free, previous = 0, None
        for at, (job, first, rounds, tasks, period, start) in enumerate(columns):
            if start is None or job >= len(names):
                raise Refused("form: GPU %s entry %d has no start, or an unknown job" % (gpu, at))
            j = by_id[names[job]]
            where = "job %s round %d on %s" % (j.id, first, gpu)
            if device.kind not in j.on:
                raise Refused("service: %s: no profile for type %s" % (where, device.kind))
            if rounds < 1 or tasks < 1 or first + rounds > j.rounds:
                raise Refused("rounds: %s: rounds or tasks out of range" % where)
            if j.sync != "relaxed" and tasks != 1:
                raise Refused("gang: %s: several tasks of a round on one GPU" % where)
            e = Entry()
            e.gpu, e.kind, e.round, e.rounds, e.tasks, e.period, e.start = gpu, device.kind, first, rounds, tasks, period, start
            e.compute, e.sync = j.on[device.kind]
            hold = tasks * e.compute + (0 if j.sync == "relaxed" else e.sync)
            if rounds > 1 and period < hold:
                raise Refused("overlap: %s: the period is %d µs shorter than a round" % (where, hold - period))
            if start < j.release:
                raise Refused("release: %s: starts %d µs before the release" % (where, j.release - start))
            if start < free:
                raise Refused("overlap: %s: starts %d µs before the entry before it ends" % (where, free - start))
            free = start + (rounds - 1) * period + hold
            window = [b for a, b in device.windows if a <= start < b]
            if not window or free > window[0]:
                raise Refused("service: %s: the GPU is not in service throughout" % where)
            if previous is not None:
                previous.limit = min(previous.limit, start)
            e.limit = window[0]
            previous = e
            entries[j.id].append(e)
    return {j.id: check_job(j, entries[j.id]) for j in inst.jobs}


def check_job(j, entries):
    """Every round is whole and after the one before it. Along rounds with the
    same entries the latest end is convex and the earliest start concave in the
    round, so that their order at both ends of the stretch holds within it."""
    if j.sync == "rigid":
        check_rigid(j, entries)
    marks = sorted({e.round for e in entries} | {e.round + e.rounds for e in entries} | {0, j.rounds})
    entries.sort(key=lambda e: e.round)
    active, at, before, first = [], 0, -1, None
    for lo, hi in zip(marks, marks[1:]):
        active = [e for e in active if e.round + e.rounds > lo]
        while at < len(entries) and entries[at].round == lo:
            active.append(entries[at])
            at += 1
        if sum(e.tasks for e in active) != j.tasks:
            raise Refused("rounds: job %s round %d: %d tasks instead of %d" % (j.id, lo, sum(e.tasks for e in active), j.tasks))
        if j.sync != "relaxed":
            if len({e.gpu for e in active}) != len(active):
                raise Refused("gang: job %s round %d: two tasks on a GPU" % (j.id, lo))
            if any(len({e.begin(r) for e in active}) > 1 for r in (lo, hi - 1)):
                raise Refused("gang: job %s round %d: tasks do not start together" % (j.id, lo))
            if not j.mix and len({e.kind for e in active}) > 1:
                raise Refused("gang: job %s round %d: a round mixes types" % (j.id, lo))
        begin = min(e.begin(lo) for e in active)
        first = begin if first is None else min(first, begin)
        if begin < before:
            raise Refused("precedence: job %s round %d starts %d µs before round %d has synchronised" % (j.id, lo, before - begin, lo - 1))
        for r in {lo, hi - 2} if hi - lo > 1 else ():
            late = max(e.finish(r) for e in active) - min(e.begin(r + 1) for e in active)
            if late > 0:
                raise Refused("precedence: job %s round %d starts %d µs before round %d has synchronised" % (j.id, r + 1, late, r))
        before = max(e.finish(hi - 1) for e in active)
        if j.sync != "relaxed":
            for e in active:
                if e.round + e.rounds == hi and before > e.limit:
                    raise Refused("gang: job %s round %d: GPU %s is given away %d µs before the slowest task has synchronised" % (j.id, hi - 1, e.gpu, before - e.limit))
    return first, before


def check_rigid(j, entries):
    lanes = {}
    for e in sorted(entries, key=lambda e: e.round):
        lanes.setdefault(e.gpu, []).append(e)
    if len(lanes) != j.tasks or len({e.kind for e in entries}) > 1:
        raise Refused("rigid: job %s is not on %d GPUs of one type" % (j.id, j.tasks))
    for gpu, run in lanes.items():
        done, time = 0, run[0].start
        for e in run:
            d = e.compute + e.sync
            if e.round != done or e.start != time or e.rounds > 1 and e.period != d:
                raise Refused("rigid: job %s on %s is not in one piece, back to back" % (j.id, gpu))
            done, time = done + e.rounds, time + e.rounds * d
        if done != j.rounds:
            raise Refused("rigid: job %s leaves %s before its last round" % (j.id, gpu))


# ------------------------------------------------------------------ bound

def least_round(inst, j):
    """τ: the least time of one round on an empty cluster, in µs."""
    modes = [(inst.peak(k), p, s) for k, (p, s) in j.on.items() if inst.peak(k) > 0]
    if j.sync == "relaxed":
        def enough(t):
            return sum(m * ((t - s) // p) for m, p, s in modes if t >= p + s) >= j.tasks
        hi = 1
        while not enough(hi):
            hi *= 2
            if hi > LIMIT * LIMIT:
                raise Refused("bound: job %s can never run" % j.id)
        lo = hi // 2
        while hi - lo > 1:
            mid = (lo + hi) // 2
            lo, hi = (lo, mid) if enough(mid) else (mid, hi)
        return hi
    if j.mix:
        n = 0
        for d, m in sorted((p + s, m) for m, p, s in modes):
            n += m
            if n >= j.tasks:
                return d
    else:
        wide = [p + s for m, p, s in modes if m >= j.tasks]
        if wide:
            return min(wide)
    raise Refused("bound: job %s can never run" % j.id)


def bound_of(inst, c):
    """The bound on the weighted JCT that certificate c proves: a Fraction."""
    method = c.get("method")
    if method == "critical_path":
        return Fraction(sum(j.weight * j.rounds * least_round(inst, j) for j in inst.jobs), 10 ** 12)
    if method == "machine":
        return machine_bound(inst)
    if method != "price":
        raise Refused("bound: unknown method %r" % method)
    grid = [integer(t, "/certificate/grid_us", 0) for t in items(c.get("grid_us"), "/certificate/grid_us")]
    if len(grid) < 2 or grid[0] != 0 or any(b <= a for a, b in zip(grid, grid[1:])):
        raise Refused("bound: grid_us must rise from 0")
    prices = {}
    for kind, row in members(c.get("prices"), c.get("prices") or (), "/certificate/prices").items():
        if kind not in inst.supply:
            raise Refused("bound: prices name the unknown type %r" % kind)
        prices[kind] = [integer(x, "/certificate/prices", 0) for x in items(row, "/certificate/prices")]
        if len(prices[kind]) != len(grid) - 1:
            raise Refused("bound: type %s has %d prices for %d cells" % (kind, len(prices[kind]), len(grid) - 1))
    total = Fraction(0)
    for kind, row in prices.items():
        times, levels = inst.supply[kind]
        for g, price in enumerate(row):
            for t, end, level in zip(times, times[1:] + [FOREVER], levels):
                a, b = max(t, grid[g]), min(end, grid[g + 1])
                if b > a:
                    total -= price * level * (b - a)
    for j in inst.jobs:
        total += price_phi(inst, j, grid, prices, c.get("path") is True) - 1000 * j.weight * j.release
    return total / 10 ** 15


def price_phi(inst, j, grid, prices, with_path):
    """φ of one job in 1e-15 weight-seconds, by the knapsack itself."""
    path = j.release + (j.rounds * least_round(inst, j) if with_path else 0)
    weight = 1000 * j.weight
    zero = [0] * (len(grid) - 1)
    modes = [(p, s, p + s, prices.get(k, zero)) for k, (p, s) in j.on.items() if inst.peak(k) > 0]
    if j.sync == "rigid":
        return min(rigid_phi(j, grid, path, weight, p + s, row) for p, s, _, row in modes)
    relaxed = j.sync == "relaxed"
    modes.sort(key=lambda m: -m[2])  # slowest first
    cuts = {j.release, path}
    cuts.update(t + (m[1] if relaxed else 0) for t in grid for m in modes)
    cuts.update(grid)
    cuts = sorted(t for t in cuts if t >= j.release)
    # n: what a round on each type costs in each piece.
    pieces = []
    for b in cuts:
        ns = []
        for p, s, d, row in modes:
            hi = bisect_right(grid, b) - 1
            lo = bisect_right(grid, max(b - s, j.release)) - 1 if relaxed else hi
            price = 0 if hi >= len(row) else min(row[lo:hi + 1])
            ns.append(j.tasks * price * (p if relaxed else d))
        pieces.append(ns)
    ds = [m[2] for m in modes]
    best, near = None, []
    base, filled = [], 0.0  # sorted (slope, capacity, piece) in floats
    for last, b in enumerate(cuts):
        length = cuts[last + 1] - b if last + 1 < len(cuts) else FOREVER
        if b >= path:
            if best is not None and weight * b > best * (1 + 1e-9) + 1:
                break
            own = hull(pieces[last], ds, weight, length, float)
            cost = fill(sorted(base + own), j.rounds, weight * b)
            if cost is not None:
                near.append((cost, last))
                best = cost if best is None else min(best, cost)
        if length != FOREVER:
            for segment in hull(pieces[last], ds, 0, length, float):
                base.append(segment)
                filled += segment[1]
            base.sort()
            while base and filled - base[-1][1] >= j.rounds * (1 + 1e-9):
                filled -= base.pop()[1]
    # Floats are right to 1e-13; whatever is within 1e-9 of the least is exact.
    exact = None
    for cost, last in near:
        if cost <= best * (1 + 1e-9) + 1:
            segments = [x for i in range(last) for x in hull(pieces[i], ds, 0, cuts[i + 1] - cuts[i], Fraction)]
            length = cuts[last + 1] - cuts[last] if last + 1 < len(cuts) else FOREVER
            segments += hull(pieces[last], ds, weight, length, Fraction)
            value = fill(sorted(segments), j.rounds, Fraction(weight * cuts[last]))
            if value is not None and (exact is None or value < exact):
                exact = value
    return exact


def hull(ns, ds, weight, length, number):
    """Lower convex hull, from idle, of the points (1/d, cost a µs) with cost
    n/d + weight: segments (cost a round, rounds)."""
    out = []
    at = -1  # index of the last point; −1 is idle
    while at + 1 < len(ds):
        best, slope = None, None
        for k in range(at + 1, len(ds)):
            if at < 0:
                s = number(ns[k] + weight * ds[k])
            elif ds[k] == ds[at]:
                continue
            else:
                # (c_k − c_at)/(1/d_k − 1/d_at); the weight cancels.
                s = number(ns[k] * ds[at] - ns[at] * ds[k]) / (ds[at] - ds[k])
            if best is None or s <= slope:
                best, slope = k, s
        if best is None:
            break
        rate = number(1) / ds[best] - (number(1) / ds[at] if at >= 0 else 0)
        out.append((slope, FOREVER if length == FOREVER else rate * length))
        at = best
    return out


def fill(segments, rounds, cost):
    left = rounds
    for slope, capacity in segments:
        if capacity >= left:
            return cost + left * slope
        left -= capacity
        cost += capacity * slope
    return None


def rigid_phi(j, grid, path, weight, d, row):
    length = j.rounds * d
    least = max(j.release, path - length)
    cum = [0]
    for g, x in enumerate(row):
        cum.append(cum[-1] + x * (grid[g + 1] - grid[g]))

    def upto(t):
        g = bisect_right(grid, t) - 1
        return cum[g] + (row[g] * (t - grid[g]) if g < len(row) else 0)

    starts = {least} | {t for t in grid if t > least} | {t - length for t in grid if t - length > least}
    return min(weight * (s + length) + j.tasks * (upto(s + length) - upto(s)) for s in starts)


def machine_bound(inst):
    """One machine as fast as all GPUs, preemptive, by greatest w/W (Goemans)."""
    times = sorted({t for at, _ in inst.supply.values() for t in at})
    speed = max(max(sum(levels[bisect_right(at, t) - 1] for at, levels in inst.supply.values()) for t in times), 1)
    jobs = []
    for i, j in enumerate(inst.jobs):
        least_round(inst, j)
        ps = [(p, s) if j.sync == "relaxed" else (p + s, 0) for k, (p, s) in j.on.items() if inst.peak(k) > 0]
        work = j.tasks * j.rounds * min(p for p, _ in ps)
        jobs.append([j.release * speed, Fraction(-j.weight, work), i, work, work, 0, min(s for _, s in ps), j])
    waiting = sorted(jobs, key=lambda x: x[0])
    ready, now = [], 0
    while waiting or ready:
        if not ready:
            now = max(now, waiting[0][0])
        while waiting and waiting[0][0] <= now:
            ready.append(waiting.pop(0))
        x = min(ready, key=lambda x: (x[1], x[2]))
        end = now + x[4]
        if waiting:
            end = min(end, waiting[0][0])
        x[4] -= end - now
        x[5] += end * end - now * now
        if x[4] == 0:
            ready.remove(x)
        now = end
    total = Fraction(0)
    for _, _, _, work, _, twice, sync, j in jobs:
        total += j.weight * (Fraction(twice + work * work, 2 * speed * work) + sync - j.release)
    return total / 10 ** 12


# ------------------------------------------------------------------- main

def decimal(f, places=6):
    """f rounded down."""
    n = f.numerator * 10 ** places // f.denominator
    sign, n = ("-", -n) if n < 0 else ("", n)
    return "%s%d.%0*d" % (sign, n // 10 ** places, places, n % 10 ** places)


def verify(inst, res):
    """Returns (value, bound or None); raises Refused."""
    if not isinstance(res, dict) or res.get("hare") != "result/v1":
        raise Bad('result: /hare must be "result/v1"')
    if not isinstance(res.get("schedule"), dict):
        raise Refused("form: the result has no schedule to verify")
    if res.get("objective") != "weighted_jct":
        raise Refused("form: the objective is not weighted_jct")
    sha = inst.sha256()
    certificate = res.get("certificate")
    for part in (res, certificate or {}):
        if part.get("instance_sha256", sha) != sha:
            raise Refused("instance: the result belongs to another instance (instance_sha256 differs)")
    times = check_schedule(inst, res["schedule"])
    value = Fraction(sum(j.weight * (times[j.id][1] - j.release) for j in inst.jobs), 10 ** 12)
    if Fraction(scaled(res.get("value"), 12, "/value"), 10 ** 12) != value:
        raise Refused("value: the schedule's value is %s, the result says %s" % (decimal(value, 12), res.get("value")))
    for j in items(res.get("jobs", []), "/jobs"):
        start, end = times.get(j.get("id"), (None, None))
        if end is None or "end_s" in j and micros(j["end_s"], "/jobs/end_s") != end or "start_s" in j and micros(j["start_s"], "/jobs/start_s") != start:
            raise Refused("value: the times of job %s are not those of the schedule" % j.get("id"))
    if certificate is None:
        if res.get("bound") is not None:
            raise Refused("bound: a bound without a certificate")
        return value, None
    members(certificate, {"hare", "method", "path", "instance_sha256", "objective", "bound", "grid_us", "prices"}, "/certificate")
    if certificate.get("hare") != "certificate/v1" or certificate.get("objective") != "weighted_jct":
        raise Refused("bound: not a certificate/v1 for weighted_jct")
    bound = bound_of(inst, certificate)
    claim = certificate.get("bound")
    if not isinstance(claim, str) or not NUMBER.match(claim) or "e" in claim.lower():
        raise Refused("bound: the certificate's bound is not a decimal")
    if Fraction(claim) > bound:
        raise Refused("bound: the certificate proves %s, less than the %s it states" % (decimal(bound), claim))
    if res.get("bound") is not None and Fraction(scaled(res["bound"], 12, "/bound"), 10 ** 12) > Fraction(claim):
        raise Refused("bound: the result states more than its certificate")
    return value, bound


def main(argv):
    as_json = "--json" in argv
    names = [a for a in argv if a != "--json"]
    if len(names) != 2 or any(n.startswith("--") for n in names) or names == ["-", "-"]:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        inst = Instance(parse(load(names[0])))
        value, bound = verify(inst, parse(load(names[1])))
    except Bad as e:
        print("hare_verify: %s" % e, file=sys.stderr)
        return 2
    except Refused as e:
        print(json.dumps({"ok": False, "fault": str(e)}) if as_json else "refused: %s" % e)
        return 1
    except (AttributeError, TypeError, KeyError, IndexError) as e:
        print("refused: form: the result is not in the documented form (%s)" % e)
        return 1
    if as_json:
        print(json.dumps({"ok": True, "value": decimal(value, 12), "bound": bound and decimal(bound)}))
    elif bound is None:
        print("accepted: value %s, no bound" % decimal(value))
    else:
        print("accepted: value %s, bound %s" % (decimal(value), decimal(bound)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
