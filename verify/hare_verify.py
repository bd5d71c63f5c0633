#!/usr/bin/env python3
"""Verify a Hare result: the schedule, its value and its lower bound.

    python3 hare_verify.py instance.json result.json [--json]
        [--previous result.json [--previous-instance instance.json]]
    python3 hare_verify.py --bound-only instance.json certificate.json [--json]

One file, the standard library of Python 3.9 or later, nothing else; written
apart from the Go verifier and from everything that makes schedules. Every
constraint is checked in integers on runs of rounds, whose number costs nothing,
and the bound is recomputed from the certificate in exact arithmetic. Nothing is
compared with a tolerance.

A plan for the rest of an earlier one is checked against the whole instance: what
had started, the rest and its constant are derived from the previous result, or
from the schedule of the whole that the plan carries where none is given.

--bound-only takes a certificate, or a result that holds one, and asks for no
schedule. "-" is standard input; gzip is recognised by its first bytes; instances
and results may come as one object or as lines.

Exit codes: 0 accepted, 1 refused, 2 bad usage or input.
"""
import copy
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
from collections import namedtuple
from fractions import Fraction
from functools import partial, reduce
from json.encoder import encode_basestring
from itertools import accumulate, groupby
from math import gcd
from operator import add, sub

LIMIT = 1 << 53  # of times in µs, weights in micro-units and counts
MOST_GPUS = 1 << 20
MOST_BYTES = 1 << 30  # of a document, decompressed
MOST_FAULTS = 50
MOST_LEVELS = 512  # of nesting in a document
MOST_DIGITS = 400  # characters of a number
MOST_WEIGHT = 1 << 62  # of all jobs together, in micro-units
MOST_WORK = 1 << 33  # of the knapsacks, and of the steps, of a certificate
MOST_SECOND = 1 << 62  # of what a second of a round costs, in 1e-9 weight-seconds
MOST_NODES = 1 << 17  # of a tree
MOST_CASES = 1 << 24  # nodes of a tree, times jobs, times types of the cluster
MOST_SWEEPS = 8  # over the jobs of a case; the search has the same number
MOST_STEPS = 1 << 22  # of a job that is bounded round by round
MOST_SEARCHED = 1 << 20  # nodes of a search
MOST_SEARCH_STEPS = 1 << 22  # of the recursions of its jobs
MOST_SEARCH_SIZE = 64  # jobs, and GPUs
MOST_COST = 1 << 60  # of a search, in 1e-9 weights times steps
MOST_LENGTHS = 1 << 25  # of all jobs whose rounds have every length
FOREVER = 1 << 62  # the end of an open window; above every time
MOST_HELD = 1 << 40  # thousandths of CPUs, and MiB, of a node and of a task
MOST_LABELS = 64  # of a node, and of a selector
MOST_VALUES = 100000  # of a label in a selector
MOST_LABEL = 253  # bytes of a label's name and value, of a user and a type of a quota
MOST_NAMES = 1000  # users of a job and of a reservation, types of a quota
MOST_LISTED = 1000000  # jobs of a reservation
MOST_BEFORE = 10000  # predecessors of a job
MOST_RESERVATIONS = 10000
MOST_QUOTAS = 100000
MOST_TOPOLOGY = 16  # labels of a topology
MOST_SHAPES = 1000  # of a job
MOST_DURATIONS = 1000  # of a job
OBJECTIVES = ("weighted_jct", "jct_and_tardiness", "makespan")
RESERVED = frozenset(
    "shapes within switch_s durations reshape_s topology after deadline_s late_weight quota user progress "
    "reservations counts".split()
)


class Bad(Exception):
    """The input cannot be read: exit code 2."""


class Refused(Exception):
    """The certificate or a claim does not hold."""


# ---------------------------------------------------------------- reading JSON


class Number(str):
    """A JSON number that is not a short integer, as it is written."""


NUMBER = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
SIZE = re.compile(r"[1-9][0-9]{0,9}")
BOUND = re.compile(r"-?(0|[1-9][0-9]{0,40})\.[0-9]{6}")
SHA256 = re.compile(r"[0-9a-f]{64}")


def bounded(text):
    """The text of a number, unless it is too long to be meant."""
    if len(text) > MOST_DIGITS:
        raise Bad("a number has more than %d characters: %s" % (MOST_DIGITS, quoted(text)))
    return text


def parse_int(text):
    return int(text) if len(text) <= 20 else Number(bounded(text))


def parse_float(text):
    return Number(bounded(text))


def parse_constant(name):
    raise Bad("%s is not a JSON number" % name)


def parse_object(pairs):
    value = dict(pairs)
    if len(value) != len(pairs):
        seen = set()
        for name, _ in pairs:
            if name in seen:
                raise Bad("the name %s appears twice in an object" % quoted(name))
            seen.add(name)
    return value


# The quick decoder is for documents without a number of more than 20 characters.
QUICK = json.JSONDecoder(
    parse_float=Number, parse_constant=parse_constant, object_pairs_hook=parse_object
)
CAREFUL = json.JSONDecoder(
    parse_int=parse_int, parse_float=parse_float, parse_constant=parse_constant, object_pairs_hook=parse_object
)
SPACE = re.compile(r"[ \t\r\n]*")
NUMERIC = bytes(48 if c in b"0123456789+-.eE" else 32 for c in range(256))
LONG = b"0" * 21
NO_BRACKETS = bytes(c for c in range(256) if c not in b'[]{}"')
STRING = re.compile(rb'"[^"]*"')
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def check_depth(raw):
    """Refuses a text whose brackets nest too deep. All but brackets and quotes is
    taken out first, so that the cost beyond that is for brackets alone."""
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    left = raw.translate(None, NO_BRACKETS).replace(b'""', b"")
    if b'"' in left:
        left = STRING.sub(b"", left)
    for _ in range(4):  # at most eight levels, most of a document
        left = left.replace(b"[]", b"").replace(b"{}", b"")
    deepest = max(accumulate(1 if c in b"[{" else -1 for c in left), default=0)
    if deepest <= MOST_LEVELS - 8:
        return
    left = STRING.sub(b"", raw.translate(None, NO_BRACKETS))
    if max(accumulate(1 if c in b"[{" else -1 for c in left), default=0) > MOST_LEVELS:
        raise Bad("not JSON that is meant to be read: nested more than %d levels deep" % MOST_LEVELS)


def check_unicode(value):
    """Refuses strings and names, however deep, that are halves of characters."""
    left = [value]
    while left:
        x = left.pop()
        if type(x) is dict:
            left += x.keys()
            left += x.values()
        elif type(x) is list:
            left += x
        elif type(x) is str:
            as_string(x, "document", empty=True)


def documents(text):
    """The JSON values of text, one after another."""
    raw = text.encode("utf-8", "surrogatepass")
    check_depth(raw)
    decoder = CAREFUL if LONG in raw.translate(NUMERIC) else QUICK
    out, at = [], SPACE.match(text).end()
    if at == len(text):
        raise Bad("the document is empty")
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except RecursionError:
            raise Bad("not JSON that is meant to be read: nested too deep")
        except ValueError as e:
            raise Bad("not JSON: %s" % e)
        out.append(value)
        at = SPACE.match(text, at).end()
    if SURROGATE.search(raw):
        for value in out:
            check_unicode(value)
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
    m = NUMBER.fullmatch(value) if type(value) is Number else None
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


def millis(value, where, least):
    return ranged(scaled(value, 3, where), value, where, least, MOST_HELD)


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
        hint = 'did you mean "%s"?' % near[0] if near else "the known fields are %s" % ", ".join(known)
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


def as_sha256(value, where):
    """None where none is stated."""
    if value is not None and not SHA256.fullmatch(as_string(value, where)):
        raise Bad("%s: must be 64 lower-case hexadecimal digits" % where)
    return value


def want(value, expected, where):
    if value != expected or type(value) is not str:
        raise Bad('%s: must be "%s"' % (where, expected))


# -------------------------------------------------------------------- instance

INSTANCE = ("hare", "name", "objective", "cluster", "quota", "jobs")
CLUSTER = ("nodes", "reservations", "topology", "bandwidth_gbps", "gpu_types")
NODE = ("name", "count", "gpus", "in_service_s", "busy", "cpus", "memory_mib", "labels")
JOB = (
    "id", "weight", "release_s", "rounds", "tasks", "sync", "mix", "on", "gpus_per_task", "cpus_per_task",
    "memory_mib_per_task", "distinct_nodes", "only", "exclude", "estimate_s", "class", "user", "progress", "after",
    "deadline_s", "late_weight", "within", "shapes", "reshape_s", "durations",
)
SHAPE = ("tasks", "gpus_per_task", "counts", "on")
PROFILE = ("compute_s", "sync_s", "switch_s")


class Profile(namedtuple("Profile", "compute sync switch by_level")):
    """Times of a task in µs: sync is the longest where it goes by spread, and by_level
    then has (level, time) from fine to coarse, each longer than the one before, and is
    empty elsewhere; switch is the setup of a GPU."""

    __slots__ = ()

    def sync_at(self, spread):
        """The synchronisation of a round that this level, and no finer one, holds."""
        return next((t for level, t in self.by_level if level >= spread), self.sync)

    def duration(self, spread):
        return self.compute + self.sync_at(spread)


class Shape:
    """A way in which rounds of a job run: tasks of g GPUs each, on maps a GPU type to a
    Profile, and a round does counts units."""

    __slots__ = ("tasks", "g", "counts", "on")

    def __init__(self, doc, where, sync, levels, within):
        most = (1 << 31) - 1 if sync == "relaxed" else MOST_GPUS
        self.tasks = integer(doc.get("tasks", 1), where + "/tasks", 1, most)
        self.g = integer(doc.get("gpus_per_task", 1), where + "/gpus_per_task", 1, MOST_GPUS)
        if sync != "relaxed" and self.tasks * self.g > MOST_GPUS:
            raise Bad("%s/gpus_per_task: a round needs more than %d GPUs" % (where, MOST_GPUS))
        self.counts = integer(doc.get("counts", 1), where + "/counts", 1)
        self.on = {}
        for kind, p in as_object(doc.get("on"), where + "/on").items():
            at = pointer(where + "/on", as_string(kind, where + "/on"))
            members(p, PROFILE, at)
            compute = micros(p.get("compute_s"), at + "/compute_s", 1)
            if type(p.get("sync_s")) is dict:
                if sync == "relaxed":
                    raise Bad("%s/sync_s: times by spread belong to gang and rigid jobs" % at)
                by_level = read_by_level(p["sync_s"], at + "/sync_s", levels, within)
                times = by_level[-1][1], by_level if len(by_level) > 1 else ()
            else:
                times = micros(p.get("sync_s", 0), at + "/sync_s"), ()
            self.on[kind] = Profile(compute, times[0], micros(p.get("switch_s", 0), at + "/switch_s"), times[1])
        if not self.on:
            raise Bad("%s/on: names no GPU type" % where)

    def rounds(self, units):
        """How many rounds do so many units."""
        return -(-units // self.counts)

    def switches(self):
        return any(p.switch for p in self.on.values())

    def spreads(self):
        return any(p.by_level for p in self.on.values())

    def canonical(self, levels):
        form = {"tasks": self.tasks, "on": {}}
        for kind, p in self.on.items():
            sync = {levels[level]: t for level, t in p.by_level} or p.sync
            form["on"][kind] = {"compute_us": p.compute, "sync_us": sync}
            if p.switch:
                form["on"][kind]["switch_us"] = p.switch
        if self.g > 1:
            form["gpus_per_task"] = self.g
        if self.counts > 1:
            form["counts"] = self.counts
        return form


def read_by_level(doc, where, levels, within):
    """Times by spread, (level, µs) from fine to coarse, without levels that have the time
    of the next coarser one."""
    times = []
    for name, value in doc.items():
        at = pointer(where, name)
        times.append((level_of(name, levels, at), micros(value, at)))
    times.sort()
    if not times:
        raise Bad("%s: names no level" % where)
    if any(b[1] < a[1] for a, b in zip(times, times[1:])):
        raise Bad("%s: a coarser level has less time" % where)
    if times[-1][0] < within:
        raise Bad("%s: has no time for rounds that are spread over the level %s" % (where, quoted(levels[within])))
    return tuple(a for a, b in zip(times, times[1:] + [None]) if b is None or b[1] > a[1])


def level_of(name, levels, where):
    if as_string(name, where) not in levels:
        raise Bad("%s: there is no level %s: the levels are %s" % (where, quoted(name), ", ".join(levels)))
    return levels.index(name)


class Job:
    """rounds units of work, in rounds of the shapes; tasks, g and on are those of the first
    shape. reshape is the time between rounds of two shapes, None where all have the same.
    A task holds so many thousandths of CPUs and so many MiB; only and exclude map a label
    to a sorted tuple of values; one domain of the level within holds a round. done units
    are done, and the job runs at 0 on the GPUs of running, in a shape, since elapsed µs;
    after maps a predecessor to its lag. durations, (factor, p) in 1e-6, change no schedule.

    The instance adds: first and left, the units that are neither done nor running;
    ends, when what runs at 0 ends; fixed, whether nothing is left then; begin, before
    which nothing else starts, predecessors apart; closed, the reservations that keep
    the job off, by index; quotas that count it, by index."""

    __slots__ = (
        "id", "weight", "release", "rounds", "tasks", "sync", "mix", "on",
        "g", "cpus", "memory", "distinct", "only", "exclude", "users", "done", "running", "elapsed", "after",
        "deadline", "late", "first", "left", "ends", "fixed", "begin", "closed", "quotas",
        "within", "shapes", "reshape", "shape", "durations",
    )

    def __init__(self, doc, where, levels=("node", "any")):
        members(doc, JOB, where)
        self.id = as_string(doc.get("id"), where + "/id")
        self.weight = micros(doc.get("weight", 1), where + "/weight")
        self.release = micros(doc.get("release_s", 0), where + "/release_s")
        self.rounds = integer(doc.get("rounds", 1), where + "/rounds", 1)
        self.sync = as_string(doc.get("sync", "relaxed"), where + "/sync")
        if self.sync not in ("relaxed", "gang", "rigid"):
            raise Bad("%s/sync: must be relaxed, gang or rigid" % where)
        mix = as_bool(doc.get("mix", self.sync == "relaxed"), where + "/mix")
        if self.sync != "gang" and mix != (self.sync == "relaxed"):
            raise Bad("%s/mix: is a choice of gang jobs alone" % where)
        self.mix = mix and self.sync == "gang"
        self.cpus = millis(doc.get("cpus_per_task", 0), where + "/cpus_per_task", 0)
        self.memory = integer(doc.get("memory_mib_per_task", 0), where + "/memory_mib_per_task", 0, MOST_HELD)
        self.distinct = as_bool(doc.get("distinct_nodes", False), where + "/distinct_nodes")
        if self.distinct and self.sync == "relaxed":
            raise Bad("%s/distinct_nodes: belongs to gang and rigid jobs" % where)
        self.within = level_of(doc.get("within", "any"), levels, where + "/within")
        if self.sync == "relaxed" and self.within < len(levels) - 1:
            raise Bad("%s/within: belongs to gang and rigid jobs" % where)
        self.read_shapes(doc, where, levels)
        self.only = read_selector(doc.get("only", {}), where + "/only")
        self.exclude = read_selector(doc.get("exclude", {}), where + "/exclude")
        # What the user says of the job is checked, and changes nothing.
        micros(doc.get("estimate_s", 1), where + "/estimate_s", 1)
        labels = as_object(doc.get("class", {}), where + "/class")
        for name, value in labels.items():
            at = pointer(where + "/class", name)
            if value != "":
                as_string(value, at)
            if not 0 < len(as_string(name, at)) <= 100 or len(value) > 100:
                raise Bad("%s: names and values have at most 100 characters" % at)
        if len(labels) > 8:
            raise Bad("%s/class: at most 8 labels are allowed" % where)
        self.users = ()
        if "user" in doc:
            users = doc["user"] if type(doc["user"]) is list else [doc["user"]]
            self.users = read_names(users, where + "/user", MOST_NAMES)
        self.durations = read_durations(doc["durations"], where + "/durations") if "durations" in doc else ()
        self.read_progress(doc.get("progress", {}), where + "/progress", "after" in doc and doc["after"])
        self.first, self.left, self.ends, self.fixed = self.done, self.rounds - self.done, 0, False
        self.begin, self.closed, self.quotas = self.release, (), ()
        self.after = read_after(doc.get("after", []), where + "/after", self.id)
        self.deadline = micros(doc["deadline_s"], where + "/deadline_s", 1) if "deadline_s" in doc else None
        self.late = micros(doc.get("late_weight", 0), where + "/late_weight")
        if self.late and self.deadline is None:
            raise Bad("%s/late_weight: is the cost of a second after the deadline, and there is none" % where)

    def read_shapes(self, doc, where, levels):
        shapes = [doc]
        if "shapes" in doc:
            shapes = as_array(doc["shapes"], where + "/shapes")
            for name in ("tasks", "gpus_per_task", "on"):
                if name in doc:
                    raise Bad("%s/%s: shapes stand in its place" % (where, name))
            if not 0 < len(shapes) <= MOST_SHAPES:
                raise Bad("%s/shapes: must be 1 to %d shapes" % (where, MOST_SHAPES))
        self.shapes = []
        for i, shape in enumerate(shapes):
            at = where
            if "shapes" in doc:
                at = "%s/shapes/%d" % (where, i)
                members(shape, SHAPE, at)
            self.shapes.append(Shape(shape, at, self.sync, levels, self.within))
        self.tasks, self.g, self.on = self.shapes[0].tasks, self.shapes[0].g, self.shapes[0].on
        self.reshape = None
        if "reshape_s" in doc:
            self.reshape = micros(doc["reshape_s"], where + "/reshape_s")
            if self.sync != "gang" or "shapes" not in doc:
                raise Bad("%s/reshape_s: belongs to gang jobs with shapes" % where)
            if len(self.shapes) == 1:
                self.reshape = None

    def read_progress(self, doc, where, waits):
        members(doc, ("rounds_done", "gpus", "elapsed_s", "shape"), where)
        self.done = integer(doc.get("rounds_done", 0), where + "/rounds_done", 0, self.rounds - 1)
        self.elapsed = micros(doc.get("elapsed_s", 0), where + "/elapsed_s")
        at = where + "/gpus"
        self.running = [as_string(x, "%s/%d" % (at, i)) for i, x in enumerate(as_array(doc.get("gpus", []), at))]
        self.shape = integer(doc.get("shape", 0), where + "/shape", 0, len(self.shapes) - 1)
        if not self.running:
            if self.elapsed or self.shape:
                raise Bad("%s/elapsed_s: belongs to work that runs" % where)
            return
        if self.sync == "relaxed":
            raise Bad("%s: belongs to gang and rigid jobs" % at)
        if self.release or waits:
            raise Bad("%s: the job runs at 0, so that it has neither release_s nor after" % at)
        shape = self.shapes[self.shape]
        if len(self.running) != shape.tasks * shape.g:
            raise Bad("%s: names %d GPUs instead of %d" % (at, len(self.running), shape.tasks * shape.g))

    def placed(self, cpus, memory, coarsest):
        """Whether nodes matter to the job, where some node limits CPUs or memory, and
        levels go up to coarsest."""
        if any(shape.g > 1 or shape.spreads() for shape in self.shapes) or self.within < coarsest:
            return True
        if self.distinct or self.only or self.exclude or self.running:
            return True
        return bool(cpus and self.cpus or memory and self.memory)

    def may_use(self, node):
        return selects(self.only, node) and not any(node.label(x) in v for x, v in self.exclude.items())

    def rules(self):
        """Equal for jobs with equal rules about nodes."""
        return (self.cpus, self.memory, self.distinct,
                tuple(sorted(self.only.items())), tuple(sorted(self.exclude.items())), self.closed, self.quotas)

    def shaped(self):
        """Whether the job has setups, or shapes in place of tasks."""
        return len(self.shapes) > 1 or any(shape.counts > 1 or shape.switches() for shape in self.shapes)

    def cost(self, t):
        """f(t): what an end at t costs but for the release, in 1e-12 weight-seconds."""
        late = t - self.deadline if self.late else 0
        return self.weight * t + self.late * max(0, late)

    def canonical(self, levels):
        form = {
            "id": self.id,
            "weight_micro": self.weight,
            "release_us": self.release,
            "rounds": self.rounds,
            "sync": self.sync,
            "mix": self.mix,
        }
        shapes = [shape.canonical(levels) for shape in self.shapes]
        if len(shapes) == 1 and self.shapes[0].counts == 1:
            form.update(shapes[0])
        else:
            form["shapes"] = shapes
        if self.reshape is not None:
            form["reshape_us"] = self.reshape
        if self.durations:
            form["durations"] = [{"factor_micro": factor, "p_micro": p} for factor, p in self.durations]
        if self.within < len(levels) - 1:
            form["within"] = levels[self.within]
        if self.cpus:
            form["cpus_milli_per_task"] = self.cpus
        if self.memory:
            form["memory_mib_per_task"] = self.memory
        if self.distinct:
            form["distinct_nodes"] = True
        for name, selector in (("only", self.only), ("exclude", self.exclude)):
            if selector:
                utf16 = lambda v: v.encode("utf-16-be")
                form[name] = {x: sorted(v, key=utf16) for x, v in selector.items()}
        if self.users:
            form["user"] = by_utf16(self.users)
        progress = (("rounds_done", self.done), ("gpus", self.running), ("elapsed_us", self.elapsed),
                    ("shape", self.shape))
        if self.done or self.running:
            form["progress"] = {name: value for name, value in progress if value}
        if self.after:
            form["after"] = []
            for name in by_utf16(self.after):
                lag = self.after[name]
                form["after"].append({"job": name, "lag_us": lag} if lag else {"job": name})
        if self.deadline is not None:
            form["deadline_us"] = self.deadline
        if self.late:
            form["late_weight_micro"] = self.late
        return form


def by_utf16(names):
    return sorted(names, key=lambda s: s.encode("utf-16-be"))


def read_names(values, where, most):
    """A sorted tuple of names, each once."""
    for i, name in enumerate(values):
        label_text(as_string(name, "%s/%d" % (where, i)), "%s/%d" % (where, i))
    if len(set(values)) > most:
        raise Bad("%s: has more than %d names" % (where, most))
    return tuple(sorted(set(values)))


def read_durations(doc, where):
    """Sorted (factor, p) of how long a job may take, in 1e-6."""
    out = []
    for i, x in enumerate(as_array(doc, where)):
        at = "%s/%d" % (where, i)
        members(x, ("p", "factor"), at)
        p = ranged(scaled(x.get("p"), 6, at + "/p"), x.get("p"), at + "/p", 1, 10**6)
        out.append((micros(x.get("factor"), at + "/factor", 1), p))
    if len(out) > MOST_DURATIONS or len({factor for factor, _ in out}) < len(out):
        raise Bad("%s: must be at most %d, each factor once" % (where, MOST_DURATIONS))
    if sum(p for _, p in out) != 10**6:
        raise Bad("%s: the p do not add up to 1" % where)
    return tuple(sorted(out))


def read_after(doc, where, own):
    """{job: lag} of the predecessors of a job."""
    out = {}
    for i, x in enumerate(as_array(doc, where)):
        at, lag = "%s/%d" % (where, i), 0
        if type(x) is dict:
            members(x, ("job", "lag_s"), at)
            lag, x = micros(x.get("lag_s", 0), at + "/lag_s"), x.get("job")
        name = as_string(x, at)
        if name == own:
            raise Bad("%s: the job waits for itself" % at)
        if name in out:
            raise Bad("%s: %s appears twice" % (at, quoted(name)))
        out[name] = lag
    if len(out) > MOST_BEFORE:
        raise Bad("%s: a job waits for at most %d others" % (where, MOST_BEFORE))
    return out


class Reservation:
    """From start to end only the listed jobs, and those of listed users, use nodes."""

    def __init__(self, doc, where):
        members(doc, ("nodes", "from_s", "until_s", "users", "jobs"), where)
        self.only = read_selector(doc.get("nodes", {}), where + "/nodes")
        self.start = micros(doc.get("from_s", 0), where + "/from_s")
        self.end = micros(doc.get("until_s"), where + "/until_s")
        if self.end <= self.start:
            raise Bad("%s/until_s: must lie after from_s" % where)
        at = where + "/users"
        self.users = read_names(as_array(doc.get("users", []), at), at, MOST_NAMES)
        at = where + "/jobs"
        self.jobs = read_names(as_array(doc.get("jobs", []), at), at, MOST_LISTED)

    def later(self, at, ids):
        """The reservation on a clock that starts at an instant, for jobs of ids."""
        out = Reservation.__new__(Reservation)
        out.only, out.users, out.jobs = self.only, self.users, tuple(x for x in self.jobs if x in ids)
        out.start, out.end = max(0, self.start - at), self.end - at
        return out

    def admits(self, j):
        return j.id in self.jobs or any(user in self.users for user in j.users)

    def canonical(self):
        form = {"until_us": self.end}
        if self.start:
            form["from_us"] = self.start
        if self.only:
            form["nodes"] = {x: by_utf16(v) for x, v in self.only.items()}
        for name, names in (("users", self.users), ("jobs", self.jobs)):
            if names:
                form[name] = by_utf16(names)
        return form


class Quota:
    """The jobs of a user hold so many GPUs of the types at most; types is None for all."""

    def __init__(self, doc, where):
        members(doc, ("user", "gpus", "types"), where)
        self.user = label_text(as_string(doc.get("user"), where + "/user"), where + "/user")
        self.gpus = integer(doc.get("gpus"), where + "/gpus", 0, MOST_GPUS)
        self.types = None
        if "types" in doc:
            at = where + "/types"
            self.types = read_names(as_array(doc["types"], at), at, MOST_NAMES)
            if not self.types:
                raise Bad("%s: names no type" % at)

    def counts(self, kind):
        return self.types is None or kind in self.types

    def canonical(self):
        form = {"user": self.user, "gpus": self.gpus}
        if self.types is not None:
            form["types"] = by_utf16(self.types)
        return form


def selects(only, node):
    """Whether the node has every label of a selector with one of its values."""
    return all(node.label(x) in v for x, v in only.items())


def label_text(value, where):
    if value != "":
        as_string(value, where)
    if len(value.encode("utf-8")) > MOST_LABEL:
        raise Bad("%s: has more than %d bytes" % (where, MOST_LABEL))
    return value


def read_labels(doc, where):
    for name, value in as_object(doc, where).items():
        at = pointer(where, label_text(as_string(name, where), where))
        if name == "node":
            raise Bad('%s: "node" is the name of the node itself' % at)
        label_text(value, at)
    if len(doc) > MOST_LABELS:
        raise Bad("%s: a node has at most %d labels" % (where, MOST_LABELS))
    return doc


def read_selector(doc, where):
    out = {}
    for name, values in as_object(doc, where).items():
        at = pointer(where, label_text(as_string(name, where), where))
        values = values if type(values) is list else [values]
        for i, value in enumerate(values):
            label_text(value, "%s/%d" % (at, i))
        if not 0 < len(set(values)) <= MOST_VALUES:
            raise Bad("%s: must name 1 to %d values" % (at, MOST_VALUES))
        out[name] = tuple(sorted(set(values)))
    if len(out) > MOST_LABELS:
        raise Bad("%s: a selector has at most %d labels" % (where, MOST_LABELS))
    return out


class Node:
    """counts are (type, GPUs) in order, windows (start, end) with FOREVER for open
    ones, busy maps an index to the end of what holds that GPU from 0 on; cpus in
    thousandths and memory in MiB are 0 where there is no limit."""

    __slots__ = ("name", "counts", "windows", "busy", "cpus", "memory", "labels")

    def __init__(self, name, counts, windows, busy, cpus=0, memory=0, labels=None):
        self.name, self.counts, self.windows, self.busy = name, counts, windows, busy
        self.cpus, self.memory, self.labels = cpus, memory, labels or {}

    def label(self, name):
        return self.name if name == "node" else self.labels.get(name)

    def kinds(self):
        """The type of each GPU."""
        return [kind for kind, n in self.counts for _ in range(n)]

    def last_change(self):
        return max([t for w in self.windows for t in w if t < FOREVER] + list(self.busy.values()))

    def canonical(self):
        form = {
            "name": self.name,
            "gpus": dict(self.counts),
            "in_service_us": [[a, None if b == FOREVER else b] for a, b in self.windows],
            "busy": [{"gpu": g, "until_us": t} for g, t in sorted(self.busy.items()) if t > 0],
        }
        for name, value in (("cpus_milli", self.cpus), ("memory_mib", self.memory), ("labels", self.labels)):
            if value:
                form[name] = value
        return form


class Instance:
    """A decoded instance: gpus maps node/index to (type, windows), devices are these
    by node; supply maps a type to the steps of its M_k(t), (times, levels). What runs
    at 0 is cut off the windows; taken maps a node's name to what runs there of CPUs and
    memory, as (end, CPUs, MiB). levels are the names of the levels from fine to coarse;
    they are numbered from 0."""

    objective, reservations, quotas, topology = "weighted_jct", (), (), ()
    levels = ("node", "any")
    bandwidths, gpu_types = {}, {}

    def __init__(self, docs):
        doc = members(docs[0], INSTANCE, "")
        want(doc.get("hare"), "instance/v1", "/hare")
        self.objective = as_string(doc.get("objective", "weighted_jct"), "/objective")
        if self.objective not in OBJECTIVES:
            raise Bad("/objective: must be one of " + ", ".join(OBJECTIVES))
        as_string(doc.get("name", ""), "/name", empty=True)
        self.gpus, self.nodes, self.devices, self.jobs = {}, [], [], []
        self.names = set()
        cluster = members(doc.get("cluster"), CLUSTER, "/cluster")
        at = "/cluster/reservations"
        self.reservations = [
            Reservation(x, "%s/%d" % (at, i)) for i, x in enumerate(as_array(cluster.get("reservations", []), at))
        ]
        self.quotas = [Quota(x, "/quota/%d" % i) for i, x in enumerate(as_array(doc.get("quota", []), "/quota"))]
        if len(self.reservations) > MOST_RESERVATIONS or len(self.quotas) > MOST_QUOTAS:
            raise Bad("there are too many reservations or quotas")
        for i, n in enumerate(as_array(cluster.get("nodes"), "/cluster/nodes")):
            self.read_node(n, "/cluster/nodes/%d" % i)
        self.read_topology(cluster.get("topology", []), "/cluster/topology")
        self.read_hardware(cluster)
        if not self.gpus:
            raise Bad("/cluster/nodes: the cluster has no GPUs")
        if "jobs" in doc and len(docs) > 1:
            raise Bad("something follows the document")
        if "jobs" not in doc and len(docs) == 1:
            raise Bad('"jobs" is missing')
        jobs = as_array(doc["jobs"], "/jobs") if "jobs" in doc else docs[1:]
        self.add_jobs(Job(j, "/jobs/%d" % i, self.levels) for i, j in enumerate(jobs))
        self.find_supply()

    @classmethod
    def of(cls, nodes, jobs, like, reservations):
        """An instance of decoded parts, with objective and quotas of another. Raises Bad
        as a document of them would."""
        self = cls.__new__(cls)
        self.objective, self.quotas, self.reservations = like.objective, like.quotas, reservations
        self.levels = ("node", "any")
        if like.resumes:
            self.topology, self.levels = like.topology, like.levels
        self.gpus, self.nodes, self.devices, self.jobs, self.names = {}, [], [], [], set()
        for node in nodes:
            if max(node.last_change(), 0) > LIMIT:
                raise Bad("node %s changes after 2^53 µs" % quoted(node.name))
            self.add_node(node, [])
        self.add_jobs(jobs)
        self.find_supply()
        return self

    def read_topology(self, doc, where):
        labels = [label_text(as_string(x, where), where) for x in as_array(doc, where)]
        if len(labels) > MOST_TOPOLOGY or len(set(labels)) < len(labels):
            raise Bad("%s: must be at most %d labels, each once" % (where, MOST_TOPOLOGY))
        for i, label in enumerate(labels):
            if label in ("node", "any", "all"):
                raise Bad("%s/%d: %s is no label of a topology" % (where, i, quoted(label)))
            for node in self.nodes:
                if label not in node.labels:
                    raise Bad("%s/%d: node %s lacks the label" % (where, i, quoted(node.name)))
        self.topology, self.levels = tuple(labels), ("node",) + tuple(reversed(labels)) + ("any",)

    def read_hardware(self, cluster):
        """Bandwidths and GPU types change nothing that is checked; the hash has them."""
        at = "/cluster/bandwidth_gbps"
        self.bandwidths = {
            level: millis(value, pointer(at, level), 1)
            for level, value in as_object(cluster.get("bandwidth_gbps", {}), at).items()
        }
        for level in self.bandwidths:
            if level not in self.levels:
                raise Bad("%s: there is no such level" % pointer(at, level))
        at, self.gpu_types = "/cluster/gpu_types", {}
        for kind, doc in as_object(cluster.get("gpu_types", {}), at).items():
            where = pointer(at, as_string(kind, at))
            doc = members(doc, ("memory_gib",), where)
            if "memory_gib" not in doc:
                raise Bad("%s/memory_gib: is missing" % where)
            self.gpu_types[kind] = {"memory_milli_gib": millis(doc["memory_gib"], where + "/memory_gib", 1)}

    def domain(self, node, level):
        """Equal for the nodes of a domain of a level: nodes share one if they agree in its
        label and in all coarser ones."""
        if level == 0:
            return node.name
        return tuple(node.labels[x] for x in self.topology[: len(self.levels) - 1 - level])

    def level_per(self, per):
        """The level by which a pool is split."""
        return self.levels.index("any" if per == "all" else per)

    def spread(self, nodes):
        """The finest level that has all the nodes in one domain."""
        nodes = set(nodes)
        return next(level for level in range(len(self.levels)) if len({self.domain(x, level) for x in nodes}) == 1)

    def read_node(self, doc, where):
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
        windows = [(0, FOREVER)]
        if "in_service_s" in doc:
            windows = read_windows(doc["in_service_s"], where + "/in_service_s")
        total = sum(n for _, n in counts)
        busy = {}
        for i, b in enumerate(as_array(doc.get("busy", []), where + "/busy")):
            at = "%s/busy/%d" % (where, i)
            members(b, ("gpu", "until_s"), at)
            g = integer(b.get("gpu"), at + "/gpu", 0, total - 1)
            if g in busy:
                raise Bad("%s/gpu: GPU %d appears twice" % (at, g))
            busy[g] = micros(b.get("until_s"), at + "/until_s")
        cpus = millis(doc["cpus"], where + "/cpus", 1) if "cpus" in doc else 0
        memory = integer(doc["memory_mib"], where + "/memory_mib", 1, MOST_HELD) if "memory_mib" in doc else 0
        labels = read_labels(doc.get("labels", {}), where + "/labels")
        count = integer(doc["count"], where + "/count", 1, MOST_GPUS) if "count" in doc else 0
        if len(self.gpus) + max(1, count) * total > MOST_GPUS:
            raise Bad("%s: the cluster has more than %d GPUs" % (where, MOST_GPUS))
        shared = []  # what copies have in common
        for one in ["%s-%d" % (name, i) for i in range(count)] if count else [name]:
            if one in self.names:
                raise Bad("%s/name: node %s appears twice" % (where, quoted(one)))
            self.add_node(Node(one, counts, windows, busy, cpus, memory, labels), shared)

    def add_node(self, node, shared):
        if not shared:
            for i, kind in enumerate(node.kinds()):
                until = node.busy.get(i, 0)
                shared.append((kind, [(max(a, until), b) for a, b in node.windows if b > until]))
        self.names.add(node.name)
        self.nodes.append(node)
        self.devices.append(shared)
        for i, gpu in enumerate(shared):
            self.gpus["%s/%d" % (node.name, i)] = gpu

    def add_jobs(self, jobs):
        """Adds jobs as long as all times stay within the limit: the last change of
        the cluster, the last release and all work, one task after another."""
        edge = max([node.last_change() for node in self.nodes] + [r.end for r in self.reservations])
        ids, release, work, weight = set(), 0, 0, 0
        for i, job in enumerate(jobs):
            if job.id in ids:
                raise Bad("/jobs/%d/id: %s appears twice" % (i, quoted(job.id)))
            ids.add(job.id)
            self.jobs.append(job)
            release, weight = max(release, job.release), weight + job.weight + job.late
            longest = 0  # of a round, with a setup and a change of the shape
            for shape in job.shapes:
                tasks = shape.tasks if job.sync == "relaxed" else 1
                times = tasks * max(p.compute + p.sync for p in shape.on.values())
                longest = max(longest, times + max(p.switch for p in shape.on.values()) + (job.reshape or 0))
            work += job.rounds * longest + max(job.after.values(), default=0)
            if edge + release + work > LIMIT:
                raise Bad("/jobs/%d: the last change, the last release and all work up to here pass 2^53 µs" % i)
            if weight > MOST_WEIGHT:
                raise Bad("/jobs/%d/weight: the weights up to here are too large together" % i)
        for i, r in enumerate(self.reservations):
            for name in r.jobs:
                if name not in ids:
                    raise Bad("/cluster/reservations/%d/jobs: there is no job %s" % (i, quoted(name)))
        self.in_order()
        self.find_running()

    def in_order(self):
        """The jobs, predecessors first. Raises Bad where some wait for each other."""
        of, waits, out = {j.id: j for j in self.jobs}, {}, []
        followers = {}
        for i, j in enumerate(self.jobs):
            for name in j.after:
                if name not in of:
                    raise Bad("/jobs/%d/after: there is no job %s" % (i, quoted(name)))
                followers.setdefault(name, []).append(j)
            waits[j.id] = len(j.after)
        ready = [j for j in self.jobs if not j.after]
        while ready:
            out.append(ready.pop())
            for j in followers.get(out[-1].id, ()):
                waits[j.id] -= 1
                if not waits[j.id]:
                    ready.append(j)
        if len(out) < len(self.jobs):
            cycle = [j.id for j in self.jobs if waits[j.id]]
            raise Bad("/jobs: there is a cycle of jobs that wait for each other, at %s" % quoted(cycle[0]))
        return out

    def find_running(self):
        """Fills in what the jobs have left, and cuts what runs at 0 off the windows."""
        held, self.taken, self.runs = {}, {}, {}
        indices = {}
        for i, quota in enumerate(self.quotas):
            indices.setdefault(quota.user, []).append(i)
        by_name = {node.name: node for node in self.nodes}
        for i, j in enumerate(self.jobs):
            at = "/jobs/%d/progress" % i
            j.first, j.ends, j.fixed = j.done, 0, False
            j.quotas = tuple(sorted(x for user in j.users for x in indices.get(user, ())))
            j.closed = tuple(x for x, r in enumerate(self.reservations) if not r.admits(j))
            if j.running:
                places = self.places_of(j, at, by_name, held)
                shape = j.shapes[j.shape]
                if j.ends <= 0:
                    raise Bad("%s/elapsed_s: the work has ended" % at)
                j.first = j.rounds if j.sync == "rigid" else min(j.rounds, j.done + shape.counts)
                for (name, _), n in places.items():
                    self.take(by_name[name], j, n // shape.g, at)
            j.left, j.begin = j.rounds - j.first, max(j.release, j.ends)
            j.fixed = not j.left
        for i, node in enumerate(self.nodes):
            names = ["%s/%d" % (node.name, x) for x in range(len(self.devices[i]))]
            if held and any(name in held for name in names):
                self.devices[i] = [
                    (kind, [(max(a, held.get(name, 0)), b) for a, b in windows if b > held.get(name, 0)])
                    for name, (kind, windows) in zip(names, self.devices[i])
                ]
                self.gpus.update(zip(names, self.devices[i]))

    def places_of(self, j, at, nodes, held):
        """{(node, type): GPUs} on which j runs at 0. Sets when this ends, and adds it to
        held."""
        places, shape = {}, j.shapes[j.shape]
        for i, name in enumerate(j.running):
            where = "%s/gpus/%d" % (at, i)
            if name not in self.gpus:
                raise Bad("%s: there is no GPU %s" % (where, quoted(name)))
            if name in held:
                raise Bad("%s: GPU %s runs two tasks" % (where, quoted(name)))
            kind, node = self.gpus[name][0], nodes[name[: name.rindex("/")]]
            if node.busy.get(int(name[name.rindex("/") + 1 :]), 0):
                raise Bad("%s: GPU %s is busy" % (where, quoted(name)))
            if kind not in shape.on:
                raise Bad("%s: the job has no times on %s" % (where, quoted(kind)))
            if not j.may_use(node):
                raise Bad("%s: the job may not use this node" % where)
            held[name], self.runs[name] = 0, j.id
            places[node.name, kind] = places.get((node.name, kind), 0) + 1
        tasks = {}
        for (name, _), n in places.items():
            tasks[name] = tasks.get(name, 0) + n // shape.g
        if any(n % shape.g for n in places.values()):
            raise Bad("%s/gpus: a task holds %d GPUs of one type on one node" % (at, shape.g))
        if not j.mix and len({kind for _, kind in places}) > 1:
            raise Bad("%s/gpus: are of several types" % at)
        if j.distinct and max(tasks.values()) > 1:
            raise Bad("%s/gpus: two tasks are on one node" % at)
        spread = self.spread([nodes[name] for name, _ in places])
        if spread > j.within:
            raise Bad("%s/gpus: are not in one domain of the level %s" % (at, quoted(self.levels[j.within])))
        rounds = shape.rounds(j.rounds - j.done) if j.sync == "rigid" else 1
        j.ends = rounds * max(shape.on[kind].duration(spread) for _, kind in places) - j.elapsed
        for name in j.running:
            held[name] = j.ends
        for name, _ in places:
            start, end = nodes[name].windows[0]
            if start > 0 or end < j.ends:
                raise Bad("%s/gpus: node %s leaves before the work ends" % (at, quoted(name)))
        return places

    def take(self, node, j, tasks, at):
        """Has tasks of j run on a node at 0."""
        taken = self.taken.setdefault(node.name, [])
        taken.append((j.ends, tasks * j.cpus, tasks * j.memory))
        for what, has, of in (("CPUs", node.cpus, 1), ("memory", node.memory, 2)):
            if has and sum(x[of] for x in taken) > has:
                raise Bad("%s/gpus: what runs on node %s has more %s than the node" % (at, quoted(node.name), what))

    def constant(self):
        """What jobs cost that end with what runs at 0, in 1e-12 weight-seconds."""
        if self.objective == "makespan":
            return 0
        late = self.objective == "jct_and_tardiness"
        return sum((j.cost(j.ends) if late else j.weight * j.ends) - j.weight * j.release
                   for j in self.jobs if j.fixed)

    def clock(self):
        """{id: (a', P, the least setup and time of the rounds that are left)}: before a' no
        round of what is left starts, and no schedule ends the job before P."""
        if self.times is None:
            times = {}
            for j in self.in_order():
                start = max([j.begin] + [times[name][1] + lag for name, lag in j.after.items()])
                setup, least = least_times(self, j) if j.left else (0, 0)
                begins, ends = start + setup, start + setup + least
                if j.left and self.placed:
                    begins, ends = in_windows(self, j, begins, least)
                times[j.id] = begins, (j.ends if j.fixed else ends), setup + least
            self.times = times
        return self.times

    def find_supply(self):
        self.times = None
        self.sha, self.supply, self.groups, self.found, self.fits, self.by_name = None, {}, None, {}, {}, None
        self.peaks = {}
        self.lasting = {}
        cpus, memory = any(n.cpus for n in self.nodes), any(n.memory for n in self.nodes)
        self.placed = bool(self.reservations or self.quotas) or any(
            j.placed(cpus, memory, len(self.levels) - 1) for j in self.jobs
        )
        # Whether started work runs at 0 of what a plan leaves, in place of busy GPUs.
        self.resumes = self.placed or any(j.shaped() for j in self.jobs)
        self.asked = {v for j in self.jobs for x in (j.only, j.exclude) for v in x.get("node", ())}
        self.asked.update(v for r in self.reservations for v in r.only.get("node", ()))
        changes = {}
        for kind, windows in self.gpus.values():
            add_windows(changes.setdefault(kind, {0: 0}), windows, 1)
        for kind, c in changes.items():
            self.supply[kind] = steps_of(c)

    def alike(self):
        """(node, {type: steps of its GPUs}, how many nodes) for each group of nodes that
        no selector of a job or a pool tells apart by their labels; a node that is named
        by a selector is a group of its own."""
        if self.groups is None:
            found = {}
            for node, devices in zip(self.nodes, self.devices):
                key = (
                    tuple((kind, tuple(windows)) for kind, windows in devices), tuple(node.windows),
                    node.cpus, node.memory, tuple(sorted(node.labels.items())),
                    node.name if node.name in self.asked else None, tuple(sorted(self.taken.get(node.name, ()))),
                )
                found.setdefault(key, []).append((node, devices))
            self.groups = []
            for nodes in found.values():
                changes = {}
                for kind, windows in nodes[0][1]:
                    add_windows(changes.setdefault(kind, {0: 0}), windows, 1)
                self.groups.append((nodes[0][0], {k: steps_of(c) for k, c in changes.items()}, len(nodes)))
        return self.groups

    def ask_for(self, names):
        """Makes groups of their own of nodes that the selectors of pools name."""
        if not self.asked.issuperset(names):
            self.asked, self.groups, self.found, self.fits = self.asked.union(names), None, {}, {}

    def rooms(self, j, shape, kind, level):
        """{domain of a level: changes by time of how many tasks of j find room there on GPUs
        of a type}. Of nodes that are alike the level of nodes has one."""
        key = (kind, shape.g, level, j.rules())
        if key not in self.found:
            self.found[key] = domains = {}
            for node, supply, count in self.alike():
                if kind not in supply or not j.may_use(node):
                    continue
                changes, before = domains.setdefault(self.domain(node, level), {0: 0}), 0
                for t, room in zip(*self.room_at(node, j, shape, supply[kind])):
                    changes[t] = changes.get(t, 0) + (count if level else 1) * (room - before)
                    before = room
        return self.found[key]

    def closed(self, node, j):
        """(start, end) of the reservations of a node that keep j off, merged."""
        out = []
        shut = [self.reservations[x] for x in j.closed if selects(self.reservations[x].only, node)]
        for a, b in sorted((r.start, r.end) for r in shut):
            if out and a <= out[-1][1]:
                out[-1] = out[-1][0], max(b, out[-1][1])
            else:
                out.append((a, b))
        return out

    def room_at(self, node, j, shape, supply):
        """The steps of how many tasks of a shape of j find room on a node whose GPUs of a
        type have the steps of supply, beside what runs there at 0."""
        closed, taken = self.closed(node, j), self.taken.get(node.name, ())
        if not closed and not taken:
            return supply[0], [room_on(node, j, shape.g, free) for free in supply[1]]
        times = set(supply[0]).union(end for end, _, _ in taken).union(t for window in closed for t in window)
        out = []
        for t in sorted(times):
            cpus, memory = (sum(x[i] for x in taken if x[0] > t) for i in (1, 2))
            free = supply[1][bisect_right(supply[0], t) - 1]
            shut = any(a <= t < b for a, b in closed)
            out.append(0 if shut else room_on(node, j, shape.g, free, cpus, memory))
        return sorted(times), out

    def fit(self, j, shape, kinds, level):
        """The most tasks of a shape of j that are on GPUs of some types in one domain of a
        level at once."""
        key = (tuple(kinds), shape.g, level, j.rules())
        if key in self.fits:
            return self.fits[key]
        together = {}
        for kind in kinds:
            for domain, changes in self.rooms(j, shape, kind, level).items():
                total = together.setdefault(domain, {0: 0})
                for t, n in changes.items():
                    total[t] = total.get(t, 0) + n
        self.fits[key] = max((max(steps_of(changes)[1]) for changes in together.values()), default=0)
        return self.fits[key]

    def stays(self, j, shape, kinds):
        """The room for tasks of a shape of j on GPUs of some types that lasts."""
        key = tuple(kinds), shape.g, j.rules()
        if key not in self.lasting:
            tasks = {}
            for node, supply, count in self.alike():
                if not j.may_use(node):
                    continue
                for kind in kinds:
                    if kind in supply:
                        for period, n in lasting(*self.room_at(node, j, shape, supply[kind])):
                            tasks[period] = tasks.get(period, 0) + n * count
            self.lasting[key] = Room(tasks, len(self.jobs))
        return self.lasting[key]

    def share(self, j, kind):
        """The least quota that counts j on a type, in GPUs."""
        return min((self.quotas[x].gpus for x in j.quotas if self.quotas[x].counts(kind)), default=MOST_GPUS)

    def node_of(self, gpu):
        if self.by_name is None:
            self.by_name = {node.name: node for node in self.nodes}
        return self.by_name[gpu[: gpu.rindex("/")]]

    def peak(self, kind):
        """The greatest M_k(t)."""
        if kind not in self.peaks:
            self.peaks[kind] = max(self.supply[kind][1]) if kind in self.supply else 0
        return self.peaks[kind]

    def sha256(self):
        """Of the canonical form: RFC 8785 with everything explicit, no name."""
        if self.sha is not None:
            return self.sha
        form = {
            "hare": "instance/v1",
            "objective": self.objective,
            "cluster": {"nodes": [node.canonical() for node in self.nodes]},
            "jobs": [j.canonical(self.levels) for j in self.jobs],
        }
        if self.topology:
            form["cluster"]["topology"] = list(self.topology)
        if self.bandwidths:
            form["cluster"]["bandwidth_mbps"] = self.bandwidths
        if self.gpu_types:
            form["cluster"]["gpu_types"] = self.gpu_types
        if self.reservations:
            form["cluster"]["reservations"] = [r.canonical() for r in self.reservations]
        if self.quotas:
            form["quota"] = [q.canonical() for q in self.quotas]
        self.sha = hashlib.sha256(canonical(form).encode("utf-8")).hexdigest()
        return self.sha


def add_windows(changes, windows, n):
    for a, b in windows:
        changes[a] = changes.get(a, 0) + n
        changes[b] = changes.get(b, 0) - n


def steps_of(changes):
    """(times, levels) of changes of a count by time."""
    times = sorted(t for t in changes if t < FOREVER)
    return times, list(accumulate(changes[t] for t in times))


def room_on(node, j, g, free, cpus=0, memory=0):
    """How many tasks of j of g GPUs a node holds with so many free GPUs, where other work
    holds CPUs and memory."""
    room = free // g
    if node.cpus and j.cpus:
        room = min(room, (node.cpus - cpus) // j.cpus)
    if node.memory and j.memory:
        room = min(room, (node.memory - memory) // j.memory)
    return min(room, 1) if j.distinct else room


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
    if isinstance(x, str):
        return encode_basestring(x)
    if isinstance(x, dict):
        names = sorted(x, key=lambda s: s.encode("utf-16-be"))
        return "{" + ",".join([encode_basestring(n) + ":" + canonical(x[n]) for n in names]) + "}"
    if isinstance(x, list):
        return "[" + ",".join(map(canonical, x)) + "]"
    return CONSTANTS[x] if x is None or isinstance(x, bool) else str(x)


CONSTANTS = {None: "null", True: "true", False: "false"}


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
    by = " (by %s s)" % seconds(f["by_us"]) if "by_us" in f else ""
    return "%s: %s%s%s" % (f["constraint"], ", ".join(where) + ": " if where else "", f["detail"], by)


class Entry:
    """So many rounds of a job on one GPU, times in µs: the first does the units from round
    on, and each does counts. sync is that of the rounds that are looked at; setup is the
    setup before the first."""

    __slots__ = (
        "gpu", "kind", "round", "rounds", "tasks", "period", "start", "compute", "sync", "free_until", "held_until",
        "counts", "shape", "setup", "profile",
    )

    def begin(self, r):
        return self.start + (r - self.round) // self.counts * self.period

    def computed(self, r):
        return self.begin(r) + self.tasks * self.compute

    def finish(self, r):
        return self.computed(r) + self.sync

    def end_round(self):
        return self.round + self.rounds * self.counts


# The columns of a lane, with what stands for one that is left out.
COLUMNS = (
    ("job", None), ("round", 0), ("rounds", 1), ("tasks", 1), ("period_us", 0), ("start_us", None), ("shape", 0),
)
LANE = ("gpu",) + tuple(name for name, _ in COLUMNS)


def read_lane(doc, where, jobs):
    """(gpu, rows of job, round, rounds, tasks, period, start, shape), for so many jobs."""
    members(doc, LANE, where)
    n = len(as_array(doc.get("job"), where + "/job"))
    columns = []
    for name, default in COLUMNS:
        if name not in doc and default is not None:
            columns.append([default] * n)
            continue
        at = where + "/" + name
        column = as_array(doc.get(name), at)
        if len(column) != n:
            raise Bad("%s: has %d entries, job has %d" % (at, len(column), n))
        columns.append([x if type(x) is int and 0 <= x <= LIMIT else integer(x, at) for x in column])
    if max(columns[0], default=-1) >= jobs:
        raise Bad("%s/job: an entry names job %d of %d, counted from 0" % (where, max(columns[0]), jobs))
    return as_string(doc.get("gpu", ""), where + "/gpu", empty=True), list(zip(*columns))


class Schedule:
    """A decoded schedule: job ids and lanes."""

    def __init__(self, doc, more, where="/schedule"):
        members(doc, ("jobs", "lanes"), where)
        self.ids = [as_string(x, where + "/jobs", empty=True) for x in as_array(doc.get("jobs"), where + "/jobs")]
        lanes = as_array(doc.get("lanes"), where + "/lanes") + more
        self.lanes = [read_lane(x, "%s/lanes/%d" % (where, i), len(self.ids)) for i, x in enumerate(lanes)]


def check_schedule(inst, schedule, faults):
    """Adds what the schedule breaks to faults; returns {id: (start, end)} in µs
    of the jobs whose every task was found. O(entries log entries), and times
    the GPUs of a job where its entries change at different rounds."""
    jobs, start = {j.id: j for j in inst.jobs}, len(faults)
    if len(set(schedule.ids)) != len(schedule.ids):
        faults.add("form", "schedule.jobs names a job twice")
        return {}
    for name in schedule.ids:
        if name not in jobs:
            faults.add("form", "schedule.jobs names a job that the instance lacks", job=name)
            return {}
    left_out = jobs.keys() - set(schedule.ids)
    if left_out:
        faults.add("form", "schedule.jobs leaves out a job of the instance", job=min(left_out))
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
    times, opened, before = {}, {}, len(faults)
    held = {}  # by node: times at which what tasks hold there changes, CPUs, MiB, entry, job
    for node in inst.nodes:
        for end, cpus, memory in inst.taken.get(node.name, ()):
            changes = held.setdefault(node.name, [])
            changes += [(0, 1, cpus, memory, None, None, None), (end, 0, -cpus, -memory, None, None, None)]
    for j in inst.jobs:
        if j.id not in broken:
            if j.fixed:
                if entries[j.id]:
                    faults.add("progress", "nothing is left of the job but what runs at 0", job=j.id)
                times[j.id] = 0, j.ends
                continue
            span = check_job(inst, j, entries[j.id], faults)
            if span is not None:
                times[j.id] = span
                opened[j.id] = min(e.start - e.setup for e in entries[j.id])
                if inst.placed:
                    check_places(inst, j, entries[j.id], held, faults)
    if len(faults) == before:
        check_held(inst, held, faults)
    if len(faults) == start:
        check_quotas(inst, entries, faults)
    check_after(inst, times, opened, faults)
    for j in inst.jobs:
        if j.running and j.id in times:
            times[j.id] = 0, times[j.id][1]
    return times


def check_after(inst, times, opened, faults):
    """That no job, nor any of its setups, starts before its predecessors have ended and
    their lags have passed."""
    for j in inst.jobs:
        for name, lag in j.after.items():
            if j.id in opened and name in times and opened[j.id] < times[name][1] + lag:
                detail = "starts before job %s has ended and its lag has passed" % quoted(name)
                faults.add("after", detail, job=j.id, by_us=times[name][1] + lag - opened[j.id])


def check_quotas(inst, entries, faults):
    """That each quota suffices whenever something starts that counts there. Ends come
    before starts; what runs at 0 may exceed a quota, while nothing else counts there."""
    counted = {}
    for j in inst.jobs:
        for i in j.quotas:
            counted.setdefault(i, []).append(j)
    for i, quota in enumerate(inst.quotas):
        changes = []
        for j in counted.get(i, ()):
            for gpu in j.running:
                if quota.counts(inst.gpus[gpu][0]):
                    changes += [(0, 1, 1, None), (j.ends, 0, -1, None)]
            for e in entries[j.id]:
                if quota.counts(e.kind):
                    changes += [(e.start, 2, 1, (j, e)), (e.held_until, 0, -1, None)]
        n = 0
        for t, _, by, what in sorted(changes, key=lambda x: x[:2]):
            n += by
            if what and n > quota.gpus:
                j, e = what
                detail = "the jobs of %s hold more than their quota of %d GPUs at %s s"
                faults.add("quota", detail % (quoted(quota.user), quota.gpus, seconds(t)), job=j.id, round=e.round,
                           gpu=e.gpu)
                break


def check_lane(inst, jobs, ids, gpu, rows, entries, broken, faults):
    kind, windows = inst.gpus[gpu]
    opens = [a for a, _ in windows]
    node, shut = inst.node_of(gpu) if inst.reservations else None, {}
    busy_until, before, of = 0, None, inst.runs.get(gpu)
    for index, first, rounds, tasks, period, start, which in rows:
        j = jobs[ids[index]]

        def fault(constraint, detail, by_us=None):
            faults.add(constraint, detail, job=j.id, round=first, gpu=gpu, by_us=by_us)

        if which >= len(j.shapes):
            fault("form", "the job has %d shapes, counted from 0, and none is %d" % (len(j.shapes), which))
            broken.add(j.id)
            continue
        shape = j.shapes[which]
        if kind not in shape.on:
            fault("profile", "the job has no profile for type %s" % kind)
            broken.add(j.id)
            continue
        if first < j.first and rounds > 0:
            fault("progress", "round %d is done, or runs at 0: the first one left is %d" % (first, j.first))
            broken.add(j.id)
            continue
        if rounds < 1 or tasks < 1 or first + (rounds - 1) * shape.counts >= j.rounds or tasks > shape.tasks:
            fault("form", "%d rounds of %d tasks: the job has %d of %d" % (rounds, tasks, j.rounds, shape.tasks))
            broken.add(j.id)
            continue
        if tasks > 1 and j.sync != "relaxed":
            fault("gang", "%d tasks of a round on one GPU" % tasks)
            broken.add(j.id)
            continue
        e = Entry()
        e.gpu, e.kind, e.round, e.rounds, e.tasks, e.period, e.start = gpu, kind, first, rounds, tasks, period, start
        e.profile, e.shape, e.counts = shape.on[kind], which, shape.counts
        # How far the rounds are spread is not known here: the shortest time goes first.
        e.compute, e.sync = e.profile.compute, e.profile.sync_at(0)
        e.setup, of = 0 if of == j.id else e.profile.switch, j.id
        opens_at = start - e.setup
        hold = tasks * e.compute + (0 if j.sync == "relaxed" else e.sync)
        if rounds > 1 and period < hold:
            fault("overlap", "the period is shorter than the round holds the GPU", hold - period)
        if start < j.begin:
            fault("release", "starts before the job's release, or while the job runs", j.begin - start)
        elif opens_at < j.release:
            fault("release", "the setup starts before the job's release", j.release - opens_at)
        if opens_at < busy_until:
            what = "the setup starts" if e.setup else "starts"
            fault("overlap", what + " before the entry before it has ended", busy_until - opens_at)
        end = start + (rounds - 1) * period + hold
        busy_until = max(busy_until, end)
        w = bisect_right(opens, start) - 1
        if w < 0 or start >= windows[w][1]:
            fault("service", "the GPU is not in service, or busy, at the start")
            e.free_until = FOREVER
        else:
            e.free_until = windows[w][1]
            if opens_at < windows[w][0]:
                fault("service", "the setup starts before the GPU is in service, or free", windows[w][0] - opens_at)
            if node is not None:
                if j.closed not in shut:
                    shut[j.closed] = inst.closed(node, j)
                for a, b in shut[j.closed]:
                    if a <= start and opens_at < b:
                        fault("reserved", "the node is reserved for others at the start", b - opens_at)
                    elif start < a:
                        e.free_until = min(e.free_until, a)
            if end > e.free_until:
                fault("service", "the GPU leaves service, or is reserved, before the entry has ended",
                      end - e.free_until)
        if before is not None:
            before.free_until = min(before.free_until, opens_at)
        before = e
        entries[j.id].append(e)


def check_job(inst, j, entries, faults):
    """The conditions between the entries of one job. Between two marks the
    same entries run, so that begin and finish are linear in the round: the
    difference of the greatest finish and the least next begin is convex, and
    its ends tell. Rounds are counted by units; the last may do more than are left."""
    spreads = j.within < len(inst.levels) - 1 or any(shape.spreads() for shape in j.shapes)
    if j.sync == "rigid":
        if entries and spreads:
            set_spread(inst, entries)
        if not check_rigid(j, entries, faults):
            return None
    marks = {j.first, j.rounds}.union(e.round for e in entries).union(min(e.end_round(), j.rounds) for e in entries)
    marks = sorted(marks)
    entries.sort(key=lambda e: e.round)
    running, next_entry, first, before, whole = [], 0, None, None, True
    last_shape, reshaped = j.shape if j.running else None, 0
    if j.running:
        before = j.ends

    def fault(constraint, r, detail, gpu=None, by_us=None):
        faults.add(constraint, detail, job=j.id, round=r, gpu=gpu, by_us=by_us)

    for lo, hi in zip(marks, marks[1:]):
        running = [e for e in running if e.end_round() > lo]
        while next_entry < len(entries) and entries[next_entry].round == lo:
            running.append(entries[next_entry])
            next_entry += 1
        shape = j.shapes[running[0].shape if running else 0]
        found, wanted = sum(e.tasks for e in running), shape.tasks * shape.g
        if found != wanted:
            fault("tasks", lo, "%d tasks instead of %d%s" % (found, wanted, ", GPU by GPU" if shape.g > 1 else ""))
            whole = False
            if not running:
                before = None
                continue
        u = shape.counts
        if any(j.shapes[e.shape] is not shape or (lo - e.round) % u for e in running):
            fault("shape", lo, "the tasks do not do the same units")
            return None
        changes = last_shape is not None and last_shape != running[0].shape
        if changes and j.reshape is None:
            fault("shape", lo, "the job changes its shape")
        last_shape, reshaped = running[0].shape, j.reshape or 0 if changes else 0
        if spreads:
            spread = set_spread(inst, running)
            if spread > j.within:
                fault("within", lo, "the round is not in one domain of the level %s" % quoted(inst.levels[j.within]))
        last = lo + (-(-(hi - lo) // u) - 1) * u
        begin = min(e.begin(lo) for e in running)
        first = begin if first is None else min(first, begin)
        if before is not None and begin < before + reshaped:
            e = min(running, key=lambda e: e.begin(lo))
            detail = "starts before the round before it has synchronised, and the job has changed its shape"
            if not reshaped:
                detail = "starts before round %d has synchronised" % (lo - 1)
            fault("precedence", lo, detail, e.gpu, before + reshaped - begin)
        for r in sorted({lo, last - u}) if last > lo else ():
            e = min(running, key=lambda e: e.begin(r + u))
            late = max(e.finish(r) for e in running) - e.begin(r + u)
            if late > 0:
                fault("precedence", r + u, "starts before round %d has synchronised" % r, e.gpu, late)
        before = max(e.finish(last) for e in running)
        for e in running:
            if min(e.end_round(), j.rounds) == hi:
                e.held_until = e.computed(last) if j.sync == "relaxed" else before
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
            if min(e.end_round(), j.rounds) == hi and before > e.free_until:
                detail = "the GPU is given away before the slowest task has synchronised"
                fault("gang", last, detail, e.gpu, before - e.free_until)
    if whole and before > LIMIT:
        fault("form", j.rounds - 1, "the job ends after 2^53 µs", by_us=before - LIMIT)
    return (first, before) if whole else None


def set_spread(inst, entries):
    """Sets the synchronisation of rounds that consist of these entries, and returns how
    far they are spread."""
    spread = inst.spread([inst.node_of(e.gpu) for e in entries])
    for e in entries:
        e.sync = e.profile.sync_at(spread)
    return spread


def check_places(inst, j, entries, held, faults):
    """The rules of docs/reference/model.md for the entries of one job: whole tasks, allowed and
    distinct nodes. Adds to held what its tasks hold of nodes. O(n log n)."""
    by_node = {}
    for e in entries:
        by_node.setdefault(inst.node_of(e.gpu), []).append(e)
    for node, here in by_node.items():

        def fault(constraint, e, detail):
            faults.add(constraint, detail, job=j.id, round=e.round, gpu=e.gpu)

        if not j.may_use(node):
            fault("node", here[0], "the job may not use this node")
            return
        tasks = {}
        for e in here:
            tasks.setdefault((e.kind, e.round, e.rounds, e.tasks, e.period, e.start, e.shape), []).append(e)
        for equal in tasks.values():
            g = j.shapes[equal[0].shape].g
            if len(equal) % g:
                detail = "%d entries of a node and type are equal, which is no multiple of the %d GPUs of a task"
                fault("task", equal[0], detail % (len(equal), g))
                return
            for e in equal[::g] if node.cpus and j.cpus or node.memory and j.memory else ():
                changes = held.setdefault(node.name, [])
                changes.append((e.start, 1, j.cpus, j.memory, j.id, e.round, e.gpu))
                changes.append((e.held_until, 0, -j.cpus, -j.memory, j.id, e.round, e.gpu))
        if j.distinct:
            marks = sorted([(e.round, 1, e) for e in here] + [(e.end_round(), -1, e) for e in here],
                           key=lambda x: x[:2])
            n = 0
            for _, by, e in marks:
                n += by
                if n > j.shapes[e.shape].g:
                    fault("distinct", e, "the node has two tasks of a round, although the job wants distinct nodes")
                    return


def check_held(inst, held, faults):
    """That the CPUs and the memory of each node suffice. Ends come before starts."""
    for node in inst.nodes:
        cpus = memory = 0
        for t, _, c, m, job, round_, gpu in sorted(held.get(node.name, ()), key=lambda x: x[:2]):
            cpus, memory = cpus + c, memory + m
            constraint = None
            if node.cpus and cpus > node.cpus:
                constraint, has, of, unit = "cpus", decimal((cpus, 1000), 3), decimal((node.cpus, 1000), 3), "CPUs"
            elif node.memory and memory > node.memory:
                constraint, has, of, unit = "memory", memory, node.memory, "MiB"
            if constraint:
                detail = "the tasks on the node hold %s of its %s %s at %s s" % (has, of, unit, seconds(t))
                faults.add(constraint, detail, job=job, round=round_, gpu=gpu)
                break


def check_rigid(j, entries, faults):
    good = len(faults)

    def fault(detail, gpu, r=None):
        faults.add("rigid", detail, job=j.id, round=r, gpu=gpu)

    if len({e.kind for e in entries}) > 1:
        faults.add("rigid", "the job mixes GPU types", job=j.id)
    runs = {}
    for e in sorted(entries, key=lambda e: (e.round, e.start)):
        runs.setdefault(e.gpu, []).append(e)
    shape = j.shapes[entries[0].shape if entries else 0]
    if any(j.shapes[e.shape] is not shape for e in entries):
        faults.add("rigid", "the job changes its shape", job=j.id)
        return False
    if len(runs) != shape.tasks * shape.g:
        faults.add("rigid", "the job runs on %d GPUs instead of %d" % (len(runs), shape.tasks * shape.g), job=j.id)
    for gpu, run in runs.items():
        done, time = j.first, run[0].start
        for e in run:
            d = e.compute + e.sync
            if e.round != done:
                fault("this GPU's rounds are not those of the whole job", gpu, e.round)
                break
            if e.start != time or e.rounds > 1 and e.period != d:
                fault("the rounds are not back to back", gpu, e.round)
                break
            done, time = done + e.rounds * e.counts, time + e.rounds * d
        else:
            if done < j.rounds:
                fault("the job leaves this GPU after %d of %d rounds" % (done, j.rounds), gpu)
    return len(faults) == good and good < MOST_FAULTS


# ---------------------------------------------------------------- certificates

CERTIFICATE = tuple(
    "hare method path instance_sha256 objective bound grid_us prices sizes step_us pools after price_sets tree".split()
)
POOL = ("type", "cpus", "memory", "quota", "per", "only", "prices", "sizes")


class Pool:
    """Prices of what = type (GPUs), cpus or memory, on nodes with GPUs of a type kind, or
    of a quota, with its index as kind: row of one unit, or None, and sizes of units of
    so many GPUs in a domain."""

    def __init__(self, doc, where):
        members(doc, POOL, where)
        kinds = [x for x in ("type", "cpus", "memory", "quota") if x in doc]
        if len(kinds) != 1:
            raise Bad("%s: needs one of type, cpus, memory and quota" % where)
        self.what = kinds[0]
        if self.what == "quota":
            self.kind = integer(doc["quota"], where + "/quota", 0, MOST_QUOTAS)
        else:
            self.kind = as_string(doc[self.what], "%s/%s" % (where, self.what), empty=True)
        self.per = doc.get("per")
        if self.what == "type":
            as_string(self.per, where + "/per")  # whether it is a level, the instance says
        elif {"per", "only", "sizes"}.intersection(doc) - ({"sizes"} if self.what == "quota" else set()):
            raise Bad("%s: per, only and sizes belong to pools of GPUs" % where)
        self.only = read_selector(doc.get("only", {}), where + "/only")
        self.row = None
        if "prices" in doc:
            self.row = [integer(x, where + "/prices") for x in as_array(doc["prices"], where + "/prices")]
        self.sizes = read_sizes(doc.get("sizes", {}), where + "/sizes", 1)

    def has(self, node, supply):
        """Whether a node with GPUs of the types of supply is in the pool."""
        return self.what != "quota" and self.kind in supply and selects(self.only, node)

    def concerns(self, kind):
        """Whether tasks on GPUs of a type pay: of CPUs and memory those on any type."""
        return self.what != "type" or self.kind == kind


def read_sizes(doc, where, least):
    out = {}
    for size, row in as_object(doc, where).items():
        if not SIZE.fullmatch(size) or not least <= int(size) <= MOST_GPUS:
            raise Bad("%s: %s is no number of GPUs, %d to %d" % (where, quoted(size), least, MOST_GPUS))
        out[int(size)] = [integer(x, pointer(where, size)) for x in as_array(row, pointer(where, size))]
    return out


class Certificate:
    """A decoded certificate; bound is a Fraction, or None where it states none."""

    def __init__(self, doc, where):
        members(doc, CERTIFICATE, where)
        want(doc.get("hare"), "certificate/v1", where + "/hare")
        self.objective = as_string(doc.get("objective", ""), where + "/objective", empty=True)
        self.method = as_string(doc.get("method", ""), where + "/method", empty=True)
        self.path = as_bool(doc.get("path", False), where + "/path")
        self.sha256 = as_sha256(doc.get("instance_sha256"), where + "/instance_sha256")
        self.bound = None
        if "bound" in doc:
            text = as_string(doc["bound"], where + "/bound")
            if not BOUND.fullmatch(text) or text == "-0.000000":
                raise Bad("%s/bound: must be a decimal with six places in a string, such as \"12.500000\"" % where)
            self.bound = Fraction(text)
        self.read_prices(doc, where)
        self.has_data = bool(self.grid or doc.get("prices") or doc.get("sizes") or "step_us" in doc)
        at = where + "/pools"
        self.pools = [Pool(x, "%s/%d" % (at, i)) for i, x in enumerate(as_array(doc.get("pools", []), at))]
        self.after = {}  # the weight that is moved, by job and predecessor
        for name, row in as_object(doc.get("after", {}), where + "/after").items():
            at = pointer(where + "/after", name)
            for before, weight in as_object(row, at).items():
                self.after[name, before] = integer(weight, pointer(at, before))
        for name, given in (("sizes", doc.get("sizes")), ("pools", self.pools), ("after", self.after)):
            if given and self.method != "price" and (name != "sizes" or self.method != "branch"):
                raise Bad("%s/%s: belongs to certificates of the method price" % (where, name))
        self.has_data = self.has_data or bool(self.pools or self.after)
        self.step = integer(doc["step_us"], where + "/step_us", 1) if "step_us" in doc else None
        at = where + "/price_sets"
        self.sets = [PriceSet(x, "%s/%d" % (at, i)) for i, x in enumerate(as_array(doc.get("price_sets", []), at))]
        at = where + "/tree"
        self.tree = [read_branch(x, "%s/%d" % (at, i)) for i, x in enumerate(as_array(doc.get("tree", []), at))]
        if (self.sets or self.tree) and self.method != "branch":
            raise Bad("%s: belongs to certificates of the method branch" % at)

    def read_prices(self, doc, where):
        self.grid = [integer(t, where + "/grid_us") for t in as_array(doc.get("grid_us", []), where + "/grid_us")]
        self.prices = {}
        for kind, row in as_object(doc.get("prices", {}), where + "/prices").items():
            at = pointer(where + "/prices", as_string(kind, where + "/prices"))
            self.prices[kind] = [integer(x, at) for x in as_array(row, at)]
        self.sizes, self.own = {}, {}  # by type and number of GPUs
        for kind, rows in as_object(doc.get("sizes", {}), where + "/sizes").items():
            at = pointer(where + "/sizes", as_string(kind, where + "/sizes"))
            for size, row in read_sizes(rows, at, 2).items():
                self.sizes[kind, size] = row


class PriceSet(Certificate):
    """Prices of leaves on a grid of their own, read as those of a certificate; own are
    those of single jobs, by job and type."""

    pools, step, after, path = (), None, {}, True

    def __init__(self, doc, where):
        members(doc, ("grid_us", "prices", "sizes", "jobs"), where)
        if "grid_us" not in doc:
            raise Bad('%s: "grid_us" is missing' % where)
        self.read_prices(doc, where)
        for name, rows in as_object(doc.get("jobs", {}), where + "/jobs").items():
            at = pointer(where + "/jobs", as_string(name, where + "/jobs", empty=True))
            for kind, row in as_object(rows, at).items():
                self.own[name, kind] = [integer(x, pointer(at, kind)) for x in as_array(row, pointer(at, kind))]


# A node of a tree: a job and a type, a job and a start, or the number of the prices of a leaf.
Branch = namedtuple("Branch", "job kind start prices")


def read_branch(doc, where):
    members(doc, ("job", "type", "start_us", "prices"), where)
    if set(doc) == {"prices"}:
        return Branch(None, None, None, integer(doc["prices"], where + "/prices", 0, MOST_NODES))
    if set(doc) not in ({"job", "type"}, {"job", "start_us"}):
        raise Bad("%s: is no node of a tree" % where)
    job = as_string(doc["job"], where + "/job")
    if "type" in doc:
        return Branch(job, as_string(doc["type"], where + "/type"), None, None)
    return Branch(job, None, integer(doc["start_us"], where + "/start_us"), None)


def bound_of(inst, c):
    """The bound on the objective that c proves, in weight-seconds, of a makespan in
    seconds: a pair (numerator, denominator). Raises Refused where it proves none."""
    if c.objective != inst.objective:
        raise Refused("the certificate is for the objective %s" % quoted(c.objective))
    if c.method == "branch":
        return tree_bound(inst, c)
    if c.method == "search":
        return Search(inst, c).bound()
    if c.method == "price":
        return makespan_bound(inst, c) if inst.objective == "makespan" else price_bound(inst, c)
    if c.method not in ("critical_path", "machine"):
        raise Refused("no bound is defined for the method %s" % quoted(c.method))
    if c.has_data or c.path:
        raise Refused("the method %s has no path, grid, prices, sizes, step, pools or after" % c.method)
    clock, late = inst.clock(), inst.objective == "jct_and_tardiness"
    if c.method == "critical_path":
        if inst.objective == "makespan":
            return max([p for _, p, _ in clock.values()], default=0), 10**6
        costs = ((j.cost if late else j.weight.__mul__)(clock[j.id][1]) for j in inst.jobs if not j.fixed)
        return sum(costs) - sum(j.weight * j.release for j in inst.jobs if not j.fixed), 10**12
    if inst.objective == "makespan":
        raise Refused("the method machine proves nothing about a makespan")
    return machine_bound(inst)


# A way in which a round of a job runs: at most m tasks at once on a type, in one domain of a
# level; sync is that of rounds which this level holds.
Mode = namedtuple("Mode", "m compute sync kind level switch")


def modes_of(inst, j, shape):
    """The modes of the rounds of a shape on the types that ever serve j. Where nodes
    matter or there are shapes, gang and rigid jobs have those alone on which a whole round
    finds room."""
    kinds, levels = [k for k in sorted(shape.on) if inst.peak(k) > 0], len(inst.levels)
    strict = inst.placed or len(j.shapes) > 1 or shape.counts > 1
    if not strict:
        return [Mode(inst.peak(k), *shape.on[k][:2], k, levels - 1, shape.on[k].switch) for k in kinds]
    relaxed, out = j.sync == "relaxed", []
    for kind in kinds:
        p = shape.on[kind]
        share = inst.share(j, kind)
        if not relaxed and not j.mix and share < shape.tasks * shape.g:
            continue
        for level in sorted({j.within}.union(level for level, _ in p.by_level if level < j.within)):
            m = inst.fit(j, shape, [kind], level)
            if relaxed:
                m = min(m, share // shape.g)
            elif m < (1 if j.mix else shape.tasks):
                continue
            elif j.mix and inst.fit(j, shape, kinds, level) < shape.tasks:
                continue
            if m > 0:
                out.append(Mode(m, p.compute, p.sync_at(level), kind, level, p.switch))
    return out


def least_round(j, shape, modes):
    """τ in µs: the least time of one round of a shape of j on an empty cluster; None where
    there never is room for it."""
    if j.sync == "relaxed":

        def enough(t):
            return sum(x.m * max(0, (t - x.sync) // x.compute) for x in modes) >= shape.tasks

        # The best type alone.
        lo, hi = 0, min((x.compute * -(-shape.tasks // x.m) + x.sync for x in modes), default=0)
        while hi - lo > 1:
            mid = (lo + hi) // 2
            lo, hi = (lo, mid) if enough(mid) else (mid, hi)
        return hi or None
    if j.mix:
        total = 0
        for d, m in sorted((x.compute + x.sync, x.m) for x in modes):
            total += m
            if total >= shape.tasks:
                return d
        return None
    return min((x.compute + x.sync for x in modes if x.m >= shape.tasks), default=None)


def shapes_with_room(inst, j):
    """(shape, modes, τ) of the shapes of which a round ever finds room. A job that runs and
    may not change its shape has that shape alone."""
    out = []
    for shape in j.shapes:
        if j.running and j.reshape is None and shape is not j.shapes[j.shape]:
            continue
        modes = modes_of(inst, j, shape)
        tau = least_round(j, shape, modes)
        if tau is not None:
            out.append((shape, modes, tau))
    if not out:
        raise Refused("job %s can run on no GPUs of this cluster: nothing is to be bounded" % quoted(j.id))
    return out


def least_times(inst, j):
    """(σ, ℓ): the least setup before the first round, and the least time of what is left."""
    shapes = shapes_with_room(inst, j)
    setup = 0 if j.running else min(mode.switch for _, modes, _ in shapes for mode in modes)
    if j.reshape is None:
        return setup, min(shape.rounds(j.left) * tau for shape, _, tau in shapes)
    return setup, min(-(-j.left * tau // shape.counts) for shape, _, tau in shapes)


MOST_STRETCHES = 32  # the last of them counts as one without an end
MOST_PIECES = 1 << 26  # jobs times pieces of room: with more, room that is there stays


def lasting(times, levels):
    """((from, until), tasks) of the room on a node: the pieces that hold a period add up to the
    least room over it."""
    held = []  # (since, tasks)
    for t, level in zip(times, levels):
        room = sum(n for _, n in held)
        if level > room:
            held.append((t, level - room))
        while room > level:
            since, n = held.pop()
            gone = min(n, room - level)
            yield (since, t), gone
            room -= gone
            if n > gone:
                held.append((since, n - gone))
    for since, n in held:
        yield (since, FOREVER), n


class Room:
    """tasks is {(from, until): how many more tasks find room then}."""

    def __init__(self, tasks, jobs):
        if len(tasks) * jobs > MOST_PIECES:
            stay = {}
            for (a, _), n in tasks.items():
                stay[a, FOREVER] = stay.get((a, FOREVER), 0) + n
            tasks = stay
        self.pieces = sorted((a, b, n) for (a, b), n in tasks.items())
        self.ends = any(b < FOREVER for _, b, _ in self.pieces)
        self.totals = list(accumulate(n for _, _, n in self.pieces))

    def stretches(self, tasks, length, start):
        """[[first, last]]: when blocks of so many tasks and a length may start, from start on."""
        if not self.ends:
            at = bisect_left(self.totals, tasks)
            return [[max(start, self.pieces[at][0]), FOREVER]] if at < len(self.pieces) else []
        changes = {}  # by (time, 0 at it or 1 after it)
        for a, b, n in self.pieces:
            if b == FOREVER or b - a >= length:
                changes[a, 0] = changes.get((a, 0), 0) + n
                if b < FOREVER:
                    changes[b - length, 1] = changes.get((b - length, 1), 0) - n
        out, room = [], 0
        for (t, _), n in sorted(changes.items()):
            if room < tasks <= room + n:
                out.append([t, FOREVER])
            elif room + n < tasks <= room:
                out[-1][1] = t
            room += n
        out = [[max(a, start), b] for a, b in out if b >= start][:MOST_STRETCHES]
        if len(out) == MOST_STRETCHES:
            out[-1][1] = FOREVER
        return out


def end_of_rounds(ways, t, rounds):
    """The least end of so many rounds from t on: a way is (stretches, the time of a round). None
    where they never end."""
    while rounds:
        offers = []  # (end, start, the last start of the stretch, time)
        for stretches, time in ways:
            for a, b in stretches:
                if b >= t:
                    offers.append((max(a, t) + time, max(a, t), b, time))
                    break
        if not offers:
            return None
        end, start, last, time = min(offers)
        n = rounds if last == FOREVER else min(rounds, (last - start) // time + 1)
        for other, _, _, d in offers:
            if d < time:  # this one may be the first to end, later on
                n = min(n, max(1, (other - start) // time))
        t, rounds = start + n * time, rounds - n
    return t


def in_windows(inst, j, t, least):
    """(the first start of a round of j from t on, P) by when nodes have room for it."""
    starts, ends = [], []
    for shape, modes, tau in shapes_with_room(inst, j):
        rounds, ways = shape.rounds(j.left), []
        if j.mix:
            kinds = sorted({x.kind for x in modes})
            ways = [(inst.stays(j, shape, kinds).stretches(shape.tasks, tau, t), tau)]
        elif j.sync == "relaxed":
            ways = [(inst.stays(j, shape, [x.kind]).stretches(1, x.compute, t), tau) for x in modes]
        else:
            each = rounds if j.sync == "rigid" else 1
            rounds //= each
            for x in modes:
                time = each * (x.compute + x.sync)
                ways.append((inst.stays(j, shape, [x.kind]).stretches(shape.tasks, time, t), time))
        starts += [stretches[0][0] for stretches, _ in ways if stretches]
        end = end_of_rounds(ways, t, rounds)
        ends += [] if end is None else [end]
    if j.reshape is not None and starts:
        ends = [min(starts) + least]
    if not ends:
        raise Refused("job %s is never open to a round: nothing is to be bounded" % quoted(j.id))
    return min(starts), min(ends)


def machine_bound(inst):
    """All GPUs as one machine of M GPUs' speed, preemptive, by greatest w/W
    (Goemans). Time is counted in 1/M µs, so that all of it is integers, but for the work of
    jobs whose shape may change."""
    changes = {}
    for times, levels in inst.supply.values():
        for t, step in zip(times, [levels[0]] + [b - a for a, b in zip(levels, levels[1:])]):
            changes[t] = changes.get(t, 0) + step
    level = speed = 0
    for t in sorted(changes):
        level += changes[t]
        speed = max(speed, level)
    arrivals, work, sync = [], [], []
    clock, jobs = inst.clock(), [j for j in inst.jobs if not j.fixed]
    for i, j in enumerate(jobs):
        relaxed, least = j.sync == "relaxed", []
        shapes = shapes_with_room(inst, j)
        for shape, modes, _ in shapes:
            each = shape.tasks * shape.g * min(x.compute + (0 if relaxed else x.sync) for x in modes)
            least.append(shape.rounds(j.left) * each if j.reshape is None else Fraction(j.left * each, shape.counts))
        work.append(min(least))
        sync.append(min(x.sync for _, modes, _ in shapes for x in modes) if relaxed else 0)
        arrivals.append((clock[j.id][0] * speed, Fraction(-j.weight, work[i]), i))
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
    for i, j in enumerate(jobs):
        if inst.objective == "jct_and_tardiness" and j.late:
            terms.append((j.late * max(0, clock[j.id][1] - j.deadline), 10**12))
        # w (B + W/2M + σ − a), B = twice/(2 W M)
        middle = j.weight * (twice[i] + work[i] ** 2)
        n, d = middle + j.weight * (sync[i] - j.release) * 2 * work[i] * speed, 2 * work[i] * speed * 10**12
        if type(n) is Fraction or type(d) is Fraction:  # where a job may change its shape
            n, d = Fraction(n, d).numerator, Fraction(n, d).denominator
        terms.append((n, d))
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


class Cost:
    """f(t) = w t + v max(0, t − d) of an end at t, in 1e-15 weight-seconds."""

    def __init__(self, weight, late=0, deadline=0):
        self.weight, self.late, self.deadline = 1000 * weight, 1000 * late, deadline

    def at(self, t):
        return self.weight * t + self.late * max(0, t - self.deadline)

    def slope(self, t):
        """Of f just after t."""
        return self.weight + (self.late if t >= self.deadline else 0)

    def kinks(self):
        return [self.deadline] if self.late else []


def price_bound(inst, c):
    """Σ φ_j − Σ ∫ F − Σ w a, and what λ adds. The unit inside is 1e-15 weight-seconds:
    prices are 1e-9 weight-seconds a GPU-second, times µs."""
    paid, clock = all_capacity(inst, c), inst.clock()
    weights, moved = moved_weights(inst, c)
    terms, work, rows = [(1000 * moved - paid, 10**15)], 0, {}
    for j in inst.jobs:
        if j.fixed:
            continue
        start, path, _ = clock[j.id]
        path = path if c.path else start
        cost = Cost(weights[j.id])
        if inst.objective == "jct_and_tardiness" and j.late:
            cost = Cost(weights[j.id], j.late, j.deadline)
        values = []
        for shape, modes in priced_modes(inst, c, j, rows):
            windows = None
            if j.sync == "relaxed" and c.own:
                modes, windows = tight_and_loose(j, shape, modes, c.own)
            else:
                modes = [(x, units, c.own.get((j.id, x.kind), row)) for x, units, row in modes]
            if j.sync == "rigid":
                rounds = shape.rounds(j.left)
                values += [(rigid_phi(cost, start, path, c.grid, rounds * (x.compute + x.sync), row), 1)
                           for x, _, row in modes]
                continue
            value = fluid_of(j, cost, start, path, c.grid, modes, windows).least()
            steps = None
            if j.sync == "relaxed" and c.step is not None:
                steps = Steps.of(inst, j, shape, c, cost, partial(class_prices, inst, c, j, shape, tasks=1))
            if steps is not None:
                work += steps.work
                if work > MOST_WORK:
                    raise Refused("step_us is too fine to check for this many jobs")
                value = max(value, (steps.least(), 1), key=lambda x: Fraction(*x))
            values.append(value)
        n, d = values[0] if len(values) == 1 else min(values, key=lambda x: Fraction(*x))
        terms.append((n - 1000 * j.weight * j.release * d, d * 10**15))
    return add_up(terms)


def makespan_bound(inst, c):
    """T + 1 µs, T the end of the grid, where no schedule ends all jobs by T: a job's
    least end is later, or what the jobs pay at least by T is more than all capacity."""
    if c.after:
        raise Refused("a certificate of a makespan moves no weight")
    paid, clock, end = all_capacity(inst, c), inst.clock(), c.grid[-1]
    proved = any(p > end for _, p, _ in clock.values())
    terms, rows = [(-paid, 1)], {}
    for j in inst.jobs:
        if proved or j.fixed:
            continue
        start, values = clock[j.id][0], []
        for shape, modes in priced_modes(inst, c, j, rows):
            if j.sync == "rigid":
                rounds = shape.rounds(j.left)
                costs = [rigid_phi(Cost(0), start, start, c.grid, rounds * (x.compute + x.sync), row, end)
                         for x, _, row in modes]
                values += [(x, 1) for x in costs if x is not None]
            else:
                values.append(fluid_of(j, Cost(0), start, start, c.grid, modes).least_by(end))
        values = [x for x in values if x is not None]
        if not values:
            proved = True
        else:
            terms.append(min(values, key=lambda x: Fraction(*x)))
    if not proved and add_up(terms)[0] <= 0:
        raise Refused("the certificate does not prove that no schedule ends by %s s" % seconds(end))
    return end + 1, 10**6


def all_capacity(inst, c):
    """Σ ∫ F over all types and pools, in 1e-15 weight-seconds."""
    inst.ask_for({v for pool in c.pools for v in pool.only.get("node", ())})
    check_prices(inst, c)
    grid, free = c.grid, [0] * (len(c.grid) - 1)
    paid = sum(pool_cost(inst, pool, grid) for pool in c.pools)
    for kind in sorted(inst.supply):
        stays = stretches(inst.supply[kind], grid)
        sizes = [(k, row) for (of, k), row in c.sizes.items() if of == kind]
        jobs = [(j.tasks, c.own[j.id, kind], j.release, FOREVER, (0, 0)) for j in inst.jobs if (j.id, kind) in c.own]
        if jobs:
            parts = list(zip(*inst.supply[kind]))
            paid += sets_price(grid, parts, [(1, c.prices.get(kind, free))] + sizes, jobs)
        else:
            paid += pool_price(stays, c.prices.get(kind, free), sizes)
    return paid


def sets_price(grid, parts, goods, jobs):
    """∫ of the dearest that fits into GPUs of a type, [(from, GPUs)]: goods, as often as wanted,
    and jobs with prices of their own, (tasks, prices, from, until, core), each once while it may
    run beside its core."""
    cuts = set(grid).union(t for t, _ in parts)
    for _, _, opens, closes, core in jobs:
        cuts.update((opens, closes) + core)
    cuts = sorted(t for t in cuts if 0 <= t <= grid[-1])
    begins, paid = [a for a, _ in parts], 0
    for t, end in zip(cuts, cuts[1:]):
        g = bisect_right(grid, t) - 1
        at = bisect_right(begins, t) - 1
        room = parts[at][1] if at >= 0 else 0
        table = [0] * (room + 1)
        for n in range(1, room + 1):
            table[n] = max([table[n - 1]] + [table[n - k] + row[g] for k, row in goods if k <= n])
        for k, row, opens, closes, core in jobs:
            if row[g] and opens <= t < closes and not core[0] <= t < core[1]:
                for n in range(room, k - 1, -1):
                    table[n] = max(table[n], table[n - k] + row[g])
        paid += table[room] * (end - t)
    return paid


def moved_weights(inst, c):
    """({id: weight}, constant): the weights after λ, in micro-units, and what moving them
    adds, in 1e-12 weight-seconds."""
    weights, moved, of = {j.id: j.weight for j in inst.jobs}, 0, {j.id: j for j in inst.jobs}
    for (name, before), weight in sorted(c.after.items()):
        if name not in of or before not in of[name].after:
            raise Refused("after: job %s does not wait for %s" % (quoted(name), quoted(before)))
        weights[name] -= weight
        moved += weight * (of[name].after[before] + inst.clock()[name][2])
        if of[before].fixed:
            moved += weight * of[before].ends
        else:
            weights[before] += weight
    for name, weight in weights.items():
        if not 0 <= weight <= LIMIT:
            raise Refused("after: moving weight leaves job %s less than none or more than 2^53" % quoted(name))
    return weights, moved


def priced_modes(inst, c, j, rows):
    """The shapes of j, each with its modes and classes: (mode, units that a round does, what
    a second of a round pays by cell). Where the shape may change there is one list for all.
    rows keeps what jobs have in common."""
    out = []
    for shape, modes, _ in shapes_with_room(inst, j):
        priced = []
        for mode in modes:
            key = (mode.kind, mode.level, j.sync if j.sync == "relaxed" else j.mix, shape.tasks, shape.g, j.rules())
            if key not in rows:
                rows[key] = class_prices(inst, c, j, shape, mode.kind, mode.level)
            priced += [(mode, shape.counts, row) for row in rows[key]]
        out.append((shape, priced))
    if j.reshape is not None:
        return [(None, [x for _, priced in out for x in priced])]
    return out


def class_prices(inst, c, j, shape, kind, level=None, tasks=None):
    """What a second of a round of a shape of j, held by a level, or of so many of its tasks,
    pays by cell on GPUs of a type: a row for each class of nodes that ever have room for j.
    Nodes in the same pools are a class."""
    whole = tasks is None and j.sync != "relaxed" and not j.mix
    tasks = tasks or shape.tasks
    nothing = [0] * (len(c.grid) - 1)

    def pays(single, sizes, whole):
        size, units = (shape.g * shape.tasks, 1) if whole else (shape.g, tasks)
        if size in sizes:
            return [units * x for x in sizes[size]]
        return [units * size * x for x in single or nothing]

    of_type = {k: row for (of, k), row in c.sizes.items() if of == kind}
    common = pays(c.prices.get(kind), of_type, whole)
    if not c.pools and not inst.placed:
        return [common]
    classes = {}  # the pools of each class
    counted = [pool.what == "quota" and pool.kind in j.quotas and inst.quotas[pool.kind].counts(kind)
               for pool in c.pools]
    for node, supply, _ in inst.alike():
        if kind in supply and j.may_use(node) and any(inst.room_at(node, j, shape, supply[kind])[1]):
            classes[tuple(counts or pool.has(node, supply) and pool.concerns(kind)
                          for pool, counts in zip(c.pools, counted))] = None
    out = []
    for inside in classes:
        row = common
        for i, pool in enumerate(c.pools):
            if not inside[i]:
                continue
            if pool.what == "type":
                whole_here = whole and level <= inst.level_per(pool.per) and all(x[i] for x in classes)
                more = pays(pool.row, pool.sizes, whole_here)
            elif pool.what == "quota":
                more = pays(pool.row, pool.sizes, whole)
            elif pool.what == "cpus":
                more = [tasks * (j.cpus * x // 1000) for x in pool.row or nothing]
            else:
                more = [tasks * j.memory * x for x in pool.row or nothing]
            row = list(map(add, row, more))
        if max(row) > MOST_SECOND:
            raise Refused("a second of job %s costs more than 2^62 in 1e-9 weight-seconds" % quoted(j.id))
        out.append(row)
    return out


def domains(inst, pool):
    """{steps of GPUs, thousandths of CPUs or MiB in service: how many} of the domains of
    a pool."""
    out, together, of_level = {}, {0: 0}, {}
    if pool.what == "quota":
        quota, ends = inst.quotas[pool.kind], {}
        for j in inst.jobs:
            n = sum(quota.counts(inst.gpus[gpu][0]) for gpu in j.running) if pool.kind in j.quotas else 0
            ends[j.ends] = ends.get(j.ends, 0) + n
        times = sorted({0}.union(t for t, n in ends.items() if n))
        levels = [max(0, quota.gpus - sum(n for end, n in ends.items() if end > t)) for t in times]
        return {brief(times, levels): 1}
    for node, supply, count in inst.alike():
        if not pool.has(node, supply):
            continue
        if pool.what != "type":
            add_windows(together, node.windows, count * (node.cpus if pool.what == "cpus" else node.memory))
            for end, cpus, memory in inst.taken.get(node.name, ()):  # until its end nodes are in service
                add_windows(together, [(0, end)], -count * (cpus if pool.what == "cpus" else memory))
        elif pool.per == "node":
            key = brief(*supply[pool.kind])
            out[key] = out.get(key, 0) + count
        else:
            before, here = 0, of_level.setdefault(inst.domain(node, inst.level_per(pool.per)), {0: 0})
            for t, n in zip(*supply[pool.kind]):
                here[t] = here.get(t, 0) + count * (n - before)
                before = n
    for changes in of_level.values():
        key = brief(*steps_of(changes))
        out[key] = out.get(key, 0) + 1
    return out or {brief(*steps_of(together)): 1}


def brief(times, levels):
    """Steps without those at which nothing changes, as tuples."""
    kept = [i for i in range(len(times)) if i == 0 or levels[i] != levels[i - 1]]
    return tuple(times[i] for i in kept), tuple(levels[i] for i in kept)


def pool_cost(inst, pool, grid):
    """∫ F of a pool, in 1e-15 weight-seconds, rounded up."""
    single, sizes = pool.row or [0] * (len(grid) - 1), list(pool.sizes.items())
    cost = sum(n * pool_price(stretches(map(list, x), grid), single, sizes) for x, n in domains(inst, pool).items())
    return -(-cost // 1000) if pool.what == "cpus" else cost


def pool_price(stays, single, sizes):
    """∫ F(t) dt of one domain."""
    if sizes:
        return pattern_price(stays, single, sizes)
    return sum(single[g] * m * length for (g, m), length in stays.items())


def check_prices(inst, c):
    grid = c.grid
    if len(grid) < 2 or grid[0] != 0 or any(b <= a for a, b in zip(grid, grid[1:])):
        raise Refused("grid_us must rise from 0")
    if c.step is not None and any(t % c.step for t in grid):
        raise Refused("not every entry of grid_us is a multiple of step_us")
    cells, work = len(grid) - 1, 0

    def check(kind, size, row, known=True):
        if known and kind not in inst.supply:
            raise Refused("prices, sizes or pools name the type %s, which the cluster lacks" % quoted(kind))
        if len(row) != cells:
            raise Refused("prices of %d of %s: %d for %d cells" % (size, quoted(str(kind)), len(row), cells))

    for (kind, size), row in sorted([((kind, 1), row) for kind, row in c.prices.items()] + list(c.sizes.items())):
        check(kind, size, row)
        if size > 1:
            work += cells * (inst.peak(kind) + 1)
    for pool in c.pools:
        for size, row in [(1, pool.row or [0] * cells)] + sorted(pool.sizes.items()):
            check(pool.kind, size, row, pool.what != "quota")
        if pool.what == "quota":
            if pool.kind >= len(inst.quotas):
                raise Refused("a pool names quota %d, counted from 0, of %d" % (pool.kind, len(inst.quotas)))
        elif pool.what != "type":
            here = [node for node, supply, _ in inst.alike() if pool.has(node, supply)]
            if not all(node.cpus if pool.what == "cpus" else node.memory for node in here):
                detail = "a pool prices the %s of nodes with %s, one of which has no limit"
                raise Refused(detail % ("CPUs" if pool.what == "cpus" else "memory", quoted(pool.kind)))
            continue
        elif pool.per not in inst.levels[:-1] + ("all",):
            raise Refused("a pool is per %s, which is no level" % quoted(pool.per))
        work += cells * len(pool.sizes) * sum(1 + max(levels) for _, levels in domains(inst, pool))
    if work > MOST_WORK:
        raise Refused("a grid of %d cells is too fine to check with so many sizes" % cells)


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
        of = lengths.setdefault(tuple((k, row[g]) for k, row in sizes) + ((1, single[g]),), {})
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


def rigid_phi(cost, start, path, grid, length, row, by=None):
    """min over S ≥ start of f(S + length) + ∫ row over the block: the cost is linear in S
    but where an end of the block meets the grid or a kink of f. None where the block
    does not end by a given time."""
    paid = [0]
    for g, price in enumerate(row):
        paid.append(paid[-1] + price * (grid[g + 1] - grid[g]))

    def until(t):
        g = bisect_right(grid, t) - 1
        return paid[g] + (row[g] * (t - grid[g]) if g < len(row) else 0)

    least = max(start, path - length)
    ends = grid + cost.kinks()
    starts = {least}.union(t for t in grid if t > least).union(t - length for t in ends if t - length > least)
    if by is not None:
        starts = {s for s in starts if s + length <= by}
    return min((cost.at(s + length) + until(s + length) - until(s) for s in starts), default=None)


class Tree:
    """The cases of a branch certificate. A case is a dict {(job, type): (first, last)} of the
    starts, in whole microseconds, that jobs may still have, by index and name.

    Among the best schedules take those of the least sum of starts; of these one in which
    equal jobs start in the order of the instance. It is in one leaf, and no rule of shrink
    drops it: no job of it can start a microsecond earlier by itself."""

    def __init__(self, inst, c):
        self.inst, self.jobs, self.kinds = inst, inst.jobs, sorted(inst.supply)
        self.check(c)
        self.gpus = {}  # by type: [(time, how many more)]
        for kind in self.kinds:
            times, levels = inst.supply[kind]
            more = [(t, n - before) for t, n, before in zip(times, levels, [0] + levels)]
            self.gpus[kind] = [(t, n) for t, n in more if n or not t]
            if any(n < 0 for _, n in more):
                raise Refused("a tree of several nodes is for GPUs that stay: some of %s leave" % quoted(kind))
        self.length = {}  # of a job on a type
        self.types = []  # by job, those on which it may run
        for i, j in enumerate(self.jobs):
            for kind, p in j.on.items():
                if kind in self.gpus and inst.peak(kind) >= j.tasks:
                    self.length[i, kind] = j.rounds * (p.compute + p.sync)
            self.types.append(sorted(kind for kind in j.on if (i, kind) in self.length))
            if not self.types[i]:
                raise Refused("job %s can never run" % quoted(j.id))
        events = [t for steps in self.gpus.values() for t, _ in steps] + [j.release for j in self.jobs]
        longest = [max(self.length.get((i, k), 0) for k in self.kinds) for i in range(len(self.jobs))]
        self.last = max(events) + sum(longest)
        self.earlier, self.later, seen = {}, {}, {}  # the nearest equal job
        for i, j in enumerate(self.jobs):
            key = (j.weight, j.release, j.tasks, tuple(self.length.get((i, k)) for k in self.kinds))
            if key in seen:
                self.earlier[i], self.later[seen[key]] = seen[key], i
            seen[key] = i
        self.costs, self.number = {}, 0  # of a second and up to each grid point, of one set, by row
        self.works, self.spent = [], 0
        self.check_work(c)

    def check(self, c):
        """Refuses what the method does not cover, and trees that take too long."""
        self.sets = [c] + c.sets
        for j in self.jobs:
            if j.sync != "rigid":
                raise Refused("a tree of several nodes covers rigid jobs alone: not %s" % quoted(j.id))
        nodes, each = len(c.tree), len(self.jobs) * len(self.kinds)
        if not nodes or len(c.sets) > nodes:
            raise Refused("a tree of %d nodes has %d price_sets, which are too many" % (nodes, len(c.sets)))
        if nodes > MOST_NODES or nodes * each > MOST_CASES:
            raise Refused("a tree of %d nodes is too large to check" % nodes)

    def check_work(self, c):
        """Refuses sets that are no prices, and a tree whose cases take too long; works are
        those of a leaf, by its prices."""
        pairs, kinds, jobs = len(self.length), len(self.kinds), len(self.jobs)
        most = max(map(len, self.gpus.values()))
        if len(c.tree) * (MOST_SWEEPS * pairs + kinds) * (pairs + most) > MOST_WORK:
            raise Refused("a tree of %d nodes takes too long to check" % len(c.tree))
        for prices in self.sets:
            check_prices(self.inst, prices)
            check_own(self.inst, prices)
            prices.goods, prices.rows = {}, {}  # by type
            for kind, size in sorted(prices.sizes):
                prices.goods.setdefault(kind, []).append((size, prices.sizes[kind, size]))
            for _, kind in prices.own:
                prices.rows[kind] = prices.rows.get(kind, 0) + 1
            work = (pairs + kinds) * len(prices.grid)
            for kind in set(prices.goods).union(prices.rows):
                cuts = len(prices.grid) - 1 + len(self.gpus[kind]) + 6 * jobs
                goods = 1 + prices.rows.get(kind, 0) + len(prices.goods.get(kind, ()))
                work += cuts * (1 + self.inst.peak(kind)) * goods
            self.works.append(work)

    def root(self):
        return {(i, kind): (self.jobs[i].release, self.last) for i, kind in self.length}

    def cut(self, case, i, keep):
        """The case with keep(kind, first, last) in place of the starts of job i."""
        out = dict(case)
        for kind in self.kinds:
            if (i, kind) in out:
                first, last = keep(kind, *out[i, kind])
                out[i, kind] = first, last
                if first > last:
                    del out[i, kind]
        return out

    def parts(self, case, node, names):
        """The two parts of a case."""
        if node.job not in names:
            raise Refused("tree: there is no job %s" % quoted(node.job))
        i, nothing = names[node.job], (0, -1)
        if node.kind is None:
            return (self.cut(case, i, lambda kind, a, b: (a, min(b, node.start))),
                    self.cut(case, i, lambda kind, a, b: (max(a, node.start + 1), b)))
        if node.kind not in self.gpus:
            raise Refused("tree: the cluster has no type %s" % quoted(node.kind))
        return (self.cut(case, i, lambda kind, a, b: (a, b) if kind == node.kind else nothing),
                self.cut(case, i, lambda kind, a, b: nothing if kind == node.kind else (a, b)))

    def kept(self, case, i):
        """(type, from, to): when job i surely runs, or None."""
        kinds = [kind for kind in self.types[i] if (i, kind) in case]
        if len(kinds) != 1:
            return None
        first, last = case[i, kinds[0]]
        end = first + self.length[i, kinds[0]]
        return (kinds[0], last, end) if last < end else None

    def free(self, case, kind, but=None):
        """[(from, to, GPUs of a type beside those that jobs surely hold)]; but a job's own."""
        changes = dict(self.gpus[kind])
        for i, j in enumerate(self.jobs):
            sure = self.kept(case, i)
            if i != but and sure and sure[0] == kind:
                changes[sure[1]] = changes.get(sure[1], 0) - j.tasks
                changes[sure[2]] = changes.get(sure[2], 0) + j.tasks
        times = sorted(changes)
        return list(zip(times, times[1:] + [FOREVER], accumulate(changes[t] for t in times)))

    def shrink(self, case):
        """Drops starts that the schedule of the proof has not; None where a job has none."""
        case = dict(case)
        for _ in range(MOST_SWEEPS):
            before = dict(case)
            for i in range(len(self.jobs)):
                for kind in self.types[i]:
                    if (i, kind) in case:
                        case[i, kind] = self.tighter(case, i, kind)
                        if case[i, kind][0] > case[i, kind][1]:
                            del case[i, kind]
                if not any((i, kind) in case for kind in self.types[i]):
                    return None
            if case == before:
                break
        return case

    def tighter(self, case, i, kind):
        """The first and last start of job i on a type."""
        (first, last), length, need = case[i, kind], self.length[i, kind], self.jobs[i].tasks
        full = [(a, b) for a, b, n in self.free(case, kind, i) if n < need]
        for a, b in full:
            if a < first + length and first < b:
                first = b
        for a, b in reversed(full):
            if a < last + length and last < b:
                last = a - length
        if i in self.earlier:
            first = max(first, min([a for a, _ in self.of(case, self.earlier[i])], default=FOREVER))
        if i in self.later:
            last = min(last, max([b for _, b in self.of(case, self.later[i])], default=-1))
        touches = [(self.jobs[i].release,) * 2] + [(t, t) for t, _ in self.gpus[kind]]
        for o in range(len(self.jobs)):
            if o != i and (o, kind) in case:
                touches.append(tuple(t + self.length[o, kind] for t in case[o, kind]))
        within = [(max(a, first), min(b, last)) for a, b in touches]
        within = [(a, b) for a, b in within if a <= b]
        if not within:
            return 0, -1
        return min(a for a, _ in within), max(b for _, b in within)

    def of(self, case, i):
        """The first and last starts of a job on the types that are left."""
        return [case[i, kind] for kind in self.types[i] if (i, kind) in case]

    def price(self, case, number):
        """What prices prove for the schedules of a case, in 1e-15 weight-seconds."""
        prices, total = self.sets[number], 0
        self.spent += self.works[number]
        if self.spent > MOST_WORK:
            raise Refused("the leaves of the tree take too long to check")
        if number != self.number:
            self.costs, self.number = {}, number
        for i, j in enumerate(self.jobs):
            values = []
            for kind in self.types[i]:
                if (i, kind) in case:
                    values.append(self.block(case, i, kind, prices))
            total += min(values) - 1000 * j.weight * j.release
        free = [0] * (len(prices.grid) - 1)
        for kind in self.kinds:
            parts = [(a, max(0, n)) for a, _, n in self.free(case, kind)]
            stays = stretches(([a for a, _ in parts], [n for _, n in parts]), prices.grid)
            sizes = prices.goods.get(kind, [])
            if kind in prices.rows:
                goods = [(1, prices.prices.get(kind, free))] + sizes
                total -= sets_price(prices.grid, parts, goods, list(self.own_rows(case, prices, kind)))
            else:
                total -= pool_price(stays, prices.prices.get(kind, free), sizes)
        return total

    def own_rows(self, case, prices, kind):
        """The jobs of sets_price."""
        for i, j in enumerate(self.jobs):
            row = prices.own.get((j.id, kind))
            if row is not None and (i, kind) in case:
                opens, closes = case[i, kind][0], case[i, kind][1] + self.length[i, kind]
                sure = self.kept(case, i)
                yield j.tasks, row, opens, closes, sure[1:] if sure else (closes, closes)

    def block(self, case, i, kind, prices):
        """The least w C + price of job i on a type; when it surely runs it pays nothing."""
        j, (first, last), length = self.jobs[i], case[i, kind], self.length[i, kind]
        row, units, key = prices.own.get((j.id, kind)), 1, (kind, j.id)
        if row is None:
            row, key = prices.sizes.get((kind, j.tasks)), (kind, j.tasks)
        if row is None:
            row, units, key = prices.prices.get(kind), j.tasks, (kind, 1)
        if row is None:
            row, units, key = [0] * (len(prices.grid) - 1), 0, None
        if key not in self.costs:
            paid = [0]
            for g, x in enumerate(row):
                paid.append(paid[-1] + x * (prices.grid[g + 1] - prices.grid[g]))
            self.costs[key] = row + [0], paid
        row, paid = self.costs[key]

        def until(t):
            g = bisect_right(prices.grid, t) - 1
            return units * (paid[g] + row[g] * (t - prices.grid[g]))

        starts = {first, last}.union(prices.grid, (t - length for t in prices.grid))
        cost = min(1000 * j.weight * (s + length) + until(s + length) - until(s)
                   for s in starts if first <= s <= last)
        sure = self.kept(case, i)
        return cost - (until(sure[2]) - until(sure[1]) if sure else 0)


def check_own(inst, prices):
    names, most = {j.id for j in inst.jobs}, 0
    for (name, kind), row in prices.own.items():
        if name not in names or kind not in inst.supply:
            raise Refused("prices of jobs: there is no job %s or no type %s" % (quoted(name), quoted(kind)))
        if len(row) != len(prices.grid) - 1:
            raise Refused("prices of job %s: %d for %d cells" % (quoted(name), len(row), len(prices.grid) - 1))
    if prices.own:
        rows = [*prices.own.values(), *prices.prices.values(), *prices.sizes.values()]
        most = max(map(max, rows)) * (len(prices.own) + max(map(inst.peak, inst.supply)))
    if most > MOST_SECOND:
        raise Refused("prices of jobs are too large")


def leaf_bound(inst, c):
    """What the prices of the only leaf prove where schedules cannot be divided: jobs with prices
    of their own are each in the dearest set once, with all their GPUs, from their release on."""
    sets, work = [c] + c.sets, 0
    if c.tree[0].prices >= len(sets):
        raise Refused("tree: there are no prices %d" % c.tree[0].prices)
    for prices in sets:
        check_prices(inst, prices)
        check_own(inst, prices)
    chosen = sets[c.tree[0].prices]
    for kind in {kind for _, kind in chosen.own}:
        cuts = len(chosen.grid) - 1 + len(inst.supply[kind][0]) + len(inst.jobs)
        goods = 1 + sum(of == kind for _, of in chosen.own) + sum(of == kind for of, _ in chosen.sizes)
        work += cuts * (1 + inst.peak(kind)) * goods
    if work > MOST_WORK:
        raise Refused("the prices of jobs take too long to check")
    chosen.path = True
    return price_bound(inst, chosen)


def tree_bound(inst, c):
    """The least bound of the leaves of a tree."""
    if c.step is not None or c.pools or c.after:
        raise Refused("the method branch has no step, pools or after")
    if inst.objective != "weighted_jct" or inst.placed:
        raise Refused("the method branch covers neither other objectives nor nodes that matter")
    for j in inst.jobs:
        if j.mix or j.shaped() or j.done or j.running or j.after or j.durations:
            raise Refused("the method branch covers jobs without mix or other rules: not %s" % quoted(j.id))
    leave = any(b < a for _, levels in inst.supply.values() for a, b in zip(levels, levels[1:]))
    single = len(c.tree) == 1 and c.tree[0].job is None and len(c.sets) <= 1
    if single and (leave or any(j.sync != "rigid" for j in inst.jobs)):
        return leaf_bound(inst, c)
    tree, least = Tree(inst, c), None
    names = {j.id: i for i, j in enumerate(inst.jobs)}
    cases = [tree.root()]
    for node in c.tree:
        if not cases:
            raise Refused("tree: something follows the last leaf")
        case = cases.pop()
        case = None if case is None else tree.shrink(case)
        if node.job is not None:
            parts = tree.parts(case or {}, node, names)
            cases += (None, None) if case is None else reversed(parts)
            continue
        if node.prices > len(c.sets):
            raise Refused("tree: there are no prices %d" % node.prices)
        if case is not None:
            value = tree.price(case, node.prices)
            least = value if least is None else min(least, value)
    if cases:
        raise Refused("tree: %d parts have no leaf" % len(cases))
    if least is None:
        raise Refused("tree: no leaf has a schedule")
    return least, 10**15


class Search:
    """All schedules in the order of time, but for those that cannot be below the bound of c: see
    docs/inside/bounds.md#search. Times are in steps, costs in 1e-9 weights times steps."""

    def __init__(self, inst, c):
        if c.bound is None or c.step is None or c.path or c.pools or c.after or c.sizes:
            raise Refused("the method search has a bound and a step, but no path, sizes, pools or after")
        if inst.objective != "weighted_jct" or inst.placed:
            raise Refused("the method search covers neither other objectives nor nodes that matter")
        check_prices(inst, c)
        self.c, self.end, self.nodes, self.states = c, c.grid[-1] // c.step, 0, {}
        if len(inst.jobs) > MOST_SEARCH_SIZE or self.end > MOST_SEARCH_STEPS:
            raise Refused("the method search is for fewer jobs and steps")
        self.kinds = sorted(inst.supply)
        if any(inst.supply[k][0] != [0] for k in self.kinds):
            raise Refused("the method search is for GPUs that are always there")
        self.gpus = [inst.peak(k) for k in self.kinds]
        if sum(self.gpus) > MOST_SEARCH_SIZE:
            raise Refused("the method search is for fewer GPUs")
        self.rest = [self.worth(c.prices.get(k)) for k in self.kinds]  # of a GPU from a step on
        self.jobs = []
        for j in inst.jobs:
            self.jobs.append(SearchJob(self, j))
        if sum(j.work for j in self.jobs) > MOST_SEARCH_STEPS:
            raise Refused("the method search is for fewer rounds and steps")
        for j in self.jobs:
            j.solve()
        least = c.bound * 10**15 / c.step + sum(j.w * j.release for j in self.jobs)
        self.least = -(-least.numerator // least.denominator)  # costs are whole
        if abs(self.least) > MOST_COST:
            raise Refused("the bound of a search is too high")

    def worth(self, row):
        if row is None:
            return [0] * (self.end + 1)
        if max(row) * self.end > MOST_COST // MOST_SEARCH_SIZE:
            raise Refused("the prices of a search are too high")
        cells = [t // self.c.step for t in self.c.grid]
        steps = [price for price, a, b in zip(row, cells, cells[1:]) for _ in range(b - a)]
        return list(accumulate(reversed(steps), initial=0))[::-1]

    def left(self, k, t):
        return self.rest[k][t] if t < self.end else 0

    def cost(self, now, busy, runs, done):
        """The least cost of all schedules that go on from here."""
        for k, gpus in enumerate(busy):
            done -= sum(self.left(k, max(b, now)) for b in gpus)
        return done + sum(j.cost(now, run) for j, run in zip(self.jobs, runs))

    def bound(self):
        runs = tuple((j.rounds, j.tasks, j.release, 0) for j in self.jobs)
        busy = tuple((0,) * m for m in self.gpus)
        if self.cost(0, busy, runs, 0) < self.least:
            self.states[0] = {(busy, (0,) * len(busy), runs): 0}
        times = [0] if self.states else []
        while times:
            now = heapq.heappop(times)
            for (busy, idle, runs), done in self.states.pop(now).items():
                self.go_on(now, busy, idle, runs, done, self.cost(now, busy, runs, done), -1, times)
        return self.c.bound.numerator, self.c.bound.denominator

    def go_on(self, now, busy, idle, runs, done, cost, last, times):
        """Lets tasks start in each way, of pairs of a job and a type behind last, then time goes on."""
        self.nodes += 1
        if self.nodes > MOST_SEARCHED:
            raise Refused("the search takes too long to check")
        for i, (j, (rounds, tasks, ready, end)) in enumerate(zip(self.jobs, runs)):
            if not rounds or ready > now:
                continue
            least, before = j.tasks if j.gang else 1, j.cost(now, runs[i])
            for k, (p, s) in j.modes.items():
                pair = i * len(self.kinds) + k
                if pair <= last or ready < now and idle[k] >= least:
                    continue  # tasks could have started before
                free = bisect_right(busy[k], now)
                for n in range(least, min(free, tasks) + 1):
                    run, until, ended = (rounds, tasks - n, ready, max(end, now + p + s)), now + p, done
                    if not run[1]:
                        run = (rounds - 1, j.tasks, run[3], 0)
                        if rounds == 1:
                            run, ended = (0, 0, 0, 0), done + j.w * run[2]
                    then = cost - before + j.cost(now, run) + ended - done
                    then += n * (self.left(k, now) - self.left(k, until))
                    if then < self.least:
                        taken = tuple(sorted(busy[k][n:] + (until,) * n))
                        held, left = busy[:k] + (taken,) + busy[k + 1:], runs[:i] + (run,) + runs[i + 1:]
                        self.go_on(now, held, idle, left, ended, then, pair, times)
        if not any(rounds for rounds, _, _, _ in runs):
            if done < self.least:
                raise Refused("there is a schedule below the bound")
            return
        later = [b for gpus in busy for b in gpus if b > now] + [x[2] for x in runs if x[0] and x[2] > now]
        if not later:
            return
        next_time = min(later)
        idle = tuple(bisect_left(gpus, next_time) for gpus in busy)
        busy = tuple(tuple(max(b, next_time) for b in gpus) for gpus in busy)
        # How long ago a round might have started does not matter.
        runs = tuple(
            (rounds, tasks, max(ready, next_time - 1), max(end, next_time) if tasks < j.tasks else 0)
            if rounds else (0, 0, 0, 0)
            for j, (rounds, tasks, ready, end) in zip(self.jobs, runs)
        )
        if self.cost(next_time, busy, runs, done) < self.least:
            if next_time not in self.states:
                self.states[next_time] = {}
                heapq.heappush(times, next_time)
            at, state = self.states[next_time], (busy, idle, runs)
            at[state] = min(done, at.get(state, done))


class SearchJob:
    """A job of a search. A gang starts all tasks of a round at once; a rigid job is a gang of one
    round. modes has its steps of computing and synchronising by type."""

    def __init__(self, search, j):
        if j.mix or j.shaped() or j.done or j.running or j.after or j.durations or j.g != 1:
            raise Refused("the method search covers jobs without mix or other rules: not %s" % quoted(j.id))
        step, most = search.c.step, MOST_SEARCH_STEPS
        self.search, self.w, self.gang, self.tasks = search, j.weight * 1000, j.sync != "relaxed", j.tasks
        self.rounds, self.release, self.modes, self.known = j.left, j.release // step, {}, {}
        small = j.release % step == 0 and max(self.release, self.rounds, self.tasks) <= most
        for k, kind in enumerate(search.kinds):
            if kind not in j.on or self.gang and search.gpus[k] < j.tasks:
                continue
            p, s = j.on[kind][0] // step, j.on[kind][1] // step
            small = small and j.on[kind][0] % step == j.on[kind][1] % step == 0 and max(p, s) <= most
            if self.gang:
                p, s = p + s, 0
            if j.sync == "rigid":
                p *= self.rounds
            small = small and p <= 2 * most
            self.modes[k] = p, s
        if not small:
            raise Refused("job %s is not in whole steps, or too large for a search" % quoted(j.id))
        if not self.modes:
            raise Refused("job %s can never run" % quoted(j.id))
        if j.sync == "rigid":
            self.rounds = 1
        self.longest = max(s + p * -(-self.tasks // search.gpus[k]) for k, (p, s) in self.modes.items())
        self.work = self.longest * self.rounds * (search.end + 1)
        if self.w * (self.release + search.end + (self.rounds + 1) * self.longest) > MOST_COST // MOST_SEARCH_SIZE:
            raise Refused("the weights of a search are too high")

    def fit(self, k, length):
        p, s = self.modes[k]
        return self.search.gpus[k] * max(0, (length - s) // p)

    def solve(self):
        """V by rounds left and start."""
        end, w = self.search.end, self.w
        if self.gang:
            self.tau = min(p for p, _ in self.modes.values())
        else:
            self.tau = 1
            while sum(self.fit(k, self.tau) for k in self.modes) < self.tasks:
                self.tau += 1
        self.slots = {}  # the price of a task, by start
        for k, (p, _) in self.modes.items():
            rest = self.search.rest[k]
            self.slots[k] = [a - b for a, b in zip(rest, rest[p:] + [0] * p)][:end]
        rounds = [self.lengths(x) for x in range(end)]
        self.v = [[w * x for x in range(end)]]
        for r in range(1, self.rounds + 1):
            row = [w * (end + r * self.tau)] * (end + 1)
            for x in range(end - 1, -1, -1):
                row[x] = min([row[x + 1]] + [cost + self.value(r - 1, x + d) for d, cost in rounds[x]])
            self.v.append(row[:end])

    def slot(self, k, x):
        return self.slots[k][x] if x < self.search.end else 0

    def lengths(self, x):
        """(length, price of all tasks) of each round that starts at x."""
        if self.gang:
            return [(p, self.tasks * self.slot(k, x)) for k, (p, _) in self.modes.items()]
        out, cheap = [], {}
        for d in range(1, self.longest + 1):
            for k, (p, s) in self.modes.items():
                if d >= p + s:
                    price = self.slot(k, x + d - p - s)
                    cheap[k] = min(cheap.get(k, price), price)
            cost, left = 0, self.tasks
            for price, k in sorted((price, k) for k, price in cheap.items()):
                n = min(left, self.fit(k, d))
                cost, left = cost + n * price, left - n
            if left == 0:
                out.append((d, cost))
        return out

    def value(self, left, x):
        return self.v[left][x] if x < self.search.end else self.w * (x + left * self.tau)

    def cost(self, now, run):
        """The least cost of what is left of the job."""
        rounds, tasks, ready, end = run
        if not rounds:
            return 0
        if tasks == self.tasks:
            return self.value(rounds, max(ready, now))
        key = rounds, tasks, now, end
        if key not in self.known:
            self.known[key] = self.part(*key)
        return self.known[key]

    def part(self, rounds, tasks, now, end):
        """The least cost where so many tasks of the round start at now or later, each at the least price of one,
        and the round ends at end or later."""
        best = task = None
        x = now
        while True:
            x += 1
            prices = [self.slot(k, x - p - s) for k, (p, s) in self.modes.items() if x - p - s >= now]
            task = min(prices + ([] if task is None else [task]), default=None)
            if x < end or task is None:
                continue
            v = self.value(rounds - 1, x)
            best = tasks * task + v if best is None else min(best, tasks * task + v)
            if v >= best or task == 0:
                return best


def tight_and_loose(j, shape, modes, own):
    """The modes of a relaxed job with prices of its own, in the form of priced_modes, and the
    windows of these modes. On a type where the job has such a price, a tight and a loose mode
    replace the usual one: docs/inside/bounds.md#branch-prices-of-jobs-and-trees."""
    out, windows = [], []
    tau = least_round(j, shape, [x for x, _, _ in modes])
    for x, units, row in modes:
        price, p, d = own.get((j.id, x.kind)), x.compute, x.compute + x.sync
        if price is None or shape.tasks <= x.m:
            out.append((x, units, row if price is None else price))
            windows.append((x.sync, 0))
        if price is None or shape.tasks == 1:
            continue
        least = p * max(2, -(-shape.tasks // x.m)) + x.sync  # of a round whose tasks do not all overlap
        others = [y.compute + y.sync for y, _, _ in modes if y.kind != x.kind]
        if others:
            least = min(least, max(d, min(others)))
        time = max(d, tau, least)
        out.append((x._replace(sync=time - p), units, row))
        windows.append((max(d, time - p), max(p, time - d)))
    return out, windows


def fluid_of(j, cost, start, path, grid, modes, windows=None):
    """The fluid of the modes of priced_modes or tight_and_loose."""
    counts = [units for _, units, _ in modes]
    return Fluid(j, cost, start, path, grid, [(x.compute, x.sync, row) for x, _, row in modes], counts, windows)


class Fluid:
    """φ of a relaxed or gang job: least over the last pieces L of time of

        D_L = max over μ ≥ 0 of  f(b_L) + μ R − Σ_{i ≤ L} len_i max(0, max_k (μ − n_ik − [i = L] f'(b_L) d_k)/d_k)

    with n_ik the price of one round done in mode k in piece i. Floats only
    propose μ. A value is taken where exact one-sided derivatives prove μ to be
    the maximum, and another L is dismissed where an exact value at some μ is no
    less than the least found; so the result is exactly φ.

    Where rounds do several units, (μ u_k − n_ik)/d_k stands for (μ − n_ik)/d_k. With U a
    common multiple of the u_k, d and n are multiplied by U/u_k, so that μ is U times that
    of a unit, and f and len by U, so that the result is U φ, and R stays in units.

    windows has for each mode a time back and a time ahead: at t a mode pays the least price
    from t − back to t + ahead. Without windows a relaxed job looks back for the time of
    synchronisation, and a gang job has the price at t."""

    def __init__(self, j, cost, start, path, grid, modes, counts=None, windows=None):
        relaxed = j.sync == "relaxed"
        self.rounds = j.left
        counts = counts or [1] * len(modes)
        self.units = reduce(lambda a, b: a * b // gcd(a, b), counts)
        times = [self.units // u for u in counts]
        self.d = [(p + s) * x for (p, s, _), x in zip(modes, times)]
        windows = windows or [(s if relaxed else 0, 0) for _, s, _ in modes]
        cuts = {path}.union(grid, cost.kinks())
        for back, ahead in windows:
            cuts.update(t + back for t in grid)
            cuts.update(t - ahead for t in grid)
        self.cuts = [start] + sorted(t for t in cuts if t > start)
        self.begins = [self.units * cost.at(t) for t in self.cuts]  # f(b) and f'(b) of each piece
        self.slopes = [cost.slope(t) for t in self.cuts]
        # The last piece is infinite.
        self.lengths = [self.units * (b - a) for a, b in zip(self.cuts, self.cuts[1:])]
        self.cost = []  # n of each piece and mode
        for b in self.cuts:
            ns = []
            for (p, s, row), (back, ahead), x in zip(modes, windows, times):
                first, last = (bisect_right(grid, t) - 1 for t in (max(b - back, start), b + ahead))
                price = min(row[first : last + 1]) if last < len(row) else 0
                ns.append(price * x * (p if relaxed else p + s))
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
        """n of the last piece, whose seconds cost w too, and v where they are late."""
        return [n + self.slopes[last] * d for n, d in zip(self.cost[last], self.d)]

    def last_length(self, last):
        return self.lengths[last] if last < len(self.lengths) else float("inf")

    def sweep(self):
        """{L: (about D_L, exact μ about where it is taken)}, in floats. A last
        piece that is left out is dearer or too short, about."""
        out, best = {}, None
        base, capacity = [], 0.0  # the cheapest kinks that hold all rounds
        for last, b in enumerate(self.cuts):
            if last >= self.first:
                start = float(self.begins[last])
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
                while len(base) > 1 and capacity - base[-1][1] >= self.rounds:
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
                pending = [x for x in pending if self.begins[x] * d < n]  # μ = 0 gives f(b)
                if mu is not None:
                    pending = self.undecided(pending, mu, best)
                if not pending or pending[0] != last:
                    continue
            value = self.exact(last, mu)
            pending = pending[1:]
            if value is not None and (best is None or value[0] * best[1] < best[0] * value[1]):
                best = value
        return best[0], best[1] * self.units

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
                n = self.common * (q * self.begins[i] + a * self.rounds) - spent - own
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
        n = self.common * (q * self.begins[last] + a * self.rounds) - spent
        return (n, q * self.common), 0

    def least_by(self, end):
        """The least price of all rounds by a time, where f is 0, as (numerator,
        denominator); None where they cannot end by then."""
        last = bisect_left(self.cuts, end) - 1
        value = self.exact(last, None) if last >= 0 else None
        return value and (value[0], value[1] * self.units)

    def exact(self, last, mu):
        """D_L exactly; None where the pieces up to L are too short for all rounds."""
        if last < len(self.lengths):
            if self.units * (self.cuts[last + 1] - self.cuts[0]) < self.rounds * min(self.d):
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
    def of(cls, inst, j, shape, c, cost, prices):
        """None where the job is too large for it in this shape, or its tasks' times are
        between steps. prices gives what a second of a task pays on a type, by class of
        nodes."""
        modes = modes_of(inst, j, shape)
        if any(t % c.step for x in modes for t in (x.compute, x.sync)):
            return None
        horizon, tau, rounds = c.grid[-1] // c.step, least_round(j, shape, modes) // c.step, shape.rounds(j.left)
        most = MOST_STEPS // (rounds * horizon) - len(modes) + 1  # levels
        if most < 1:
            return None
        modes = [(x.m, x.compute // c.step, x.sync // c.step, -(-shape.tasks // x.m), prices(x.kind)) for x in modes]
        longest = max(s + p * rows for _, p, s, rows, _ in modes)
        terms = longest - tau + len(modes)
        if terms * rounds * horizon * len(inst.jobs) <= MOST_LENGTHS:
            lengths = [(d, d) for d in range(tau, longest)]
        else:
            ends = [range(s + p * max(1, -((s - tau) // p)), s + p * rows + 1, p) for _, p, s, rows, _ in modes]
            if any(len(e) > most for e in ends):
                return None
            levels = []
            for level, _ in groupby(heapq.merge(*ends)):
                levels.append(level)
                if len(levels) > most:
                    return None
            terms = len(levels) - 1 + len(modes)
            lengths = [(d, after - 1) for d, after in zip(levels, levels[1:])]
        self = cls()
        self.tasks, self.rounds = shape.tasks, rounds
        self.tau, self.lengths, self.modes, self.horizon = tau, lengths, modes, horizon
        start, path, _ = inst.clock()[j.id]
        self.cost, self.release, self.path = cost, start // c.step, path // c.step  # rounded down
        self.weight = cost.weight
        self.step, self.cells = c.step, [t // c.step for t in c.grid]
        self.work = (rounds + len(modes)) * horizon * terms
        return self

    def slots(self, p, row):
        """What a task pays for p steps, by start from the release to the horizon."""
        paid = [0]
        for price, a, b in zip(row, self.cells, self.cells[1:]):
            paid += [price] * (b - max(a, self.release))
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
        tasks, out = self.tasks, {}
        slots = [
            list(reduce(lambda a, b: map(min, a, b), [self.slots(p, row) for row in rows]))
            for _, p, _, _, rows in self.modes
        ]

        def offer(length, row):
            out[length] = list(map(min, out[length], row)) if length in out else row

        for length, until in self.lengths:
            parts = []  # tasks at most, prices by start
            for (m, p, s, _, _), of in zip(self.modes, slots):
                if length >= s + p:
                    parts.append((min(tasks, m * ((length - s) // p)), of, until - s - p))
            if any(n < tasks for n, _, _ in parts):
                rows = [self.cheapest(of, window) for _, of, window in parts]
                offer(length, [self.fill([(x, n) for (n, _, _), x in zip(parts, at)]) for at in zip(*rows)])
        for (_, p, s, rows, _), of in zip(self.modes, slots):
            offer(s + p * rows, [tasks * x for x in self.cheapest(of, p * rows - p)])
        return out

    def fill(self, parts):
        """The price of all tasks, the cheapest of (price, tasks at most) first."""
        cost, left = 0, self.tasks
        for price, most in sorted(parts):
            cost += price * min(left, most)
            left -= min(left, most)
        return cost

    def least(self):
        """V_R(a) in 1e-15 weight-seconds."""
        if self.cost.late:
            return self.least_late()
        a, w, tau = self.release, self.weight, self.tau
        rounds, width = self.rounds, self.horizon - self.release
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

    def least_late(self):
        """V_R(a) where an end after the deadline costs more: V_0(x) = f(max(x, P)), and
        V_r(x) = f(max(P, x + r τ)) from the horizon on."""
        a, h, tau, rounds = self.release, self.horizon, self.tau, self.rounds
        deadline = -(-self.cost.deadline // self.step)  # rounded up

        def late(t):
            t = max(t, self.path)
            return self.weight * t + self.cost.late * max(0, t - deadline)

        if h <= a:
            return self.step * late(a + rounds * tau)
        width, jumps = h - a, self.jumps()
        longest = max(jumps)
        value = [late(x) for x in range(a, h)]
        for r in range(1, rounds + 1):
            ahead = value + [late(x + (r - 1) * tau) for x in range(h, h + longest)]
            best = None
            for length, row in jumps.items():
                ends = list(map(add, row[:width], ahead[length : length + width]))
                best = ends if best is None else list(map(min, best, ends))
            best.append(late(h + r * tau))
            best.reverse()
            value = list(accumulate(best, min))[::-1][:width]
        return self.step * value[0]


# --------------------------------------------------------------------- results


def decimal(f, places=6):
    """f rounded down; a Fraction or a pair."""
    n, d = (f.numerator, f.denominator) if isinstance(f, Fraction) else f
    n = n * 10**places // d
    sign, n = ("-", -n) if n < 0 else ("", n)
    return "%s%d.%0*d" % (sign, n // 10**places, places, n % 10**places)


def seconds(us):
    return decimal((us, 10**6))


def less(a, f):
    """Whether the pair a is less than the Fraction f."""
    return a[0] * f.denominator < f.numerator * a[1]


def optional_amount(doc, name, where=""):
    """A decimal of weight-seconds, in 1e-12; None where none is stated."""
    if doc.get(name) is None:
        return None
    at = "%s/%s" % (where, name)
    n = scaled(doc[name], 12, at)
    if abs(n) >> 126 and name != "gap":
        raise Bad("%s: %s is too large" % (at, quoted(doc[name])))
    return n


def amount(n):
    """n units of 1e-12 weight-seconds, as a decimal."""
    return decimal((n, 10**12), 12)


class Result:
    """A decoded result. Fields that are not known here are passed over."""

    def __init__(self, docs):
        doc = as_object(docs[0], "")
        want(doc.get("hare"), "result/v1", "/hare")
        self.objective = as_string(doc.get("objective", ""), "/objective", empty=True)
        options = doc.get("options")
        self.named = options.get("objective") if isinstance(options, dict) else None
        self.sha256 = as_sha256(doc.get("instance_sha256"), "/instance_sha256")
        self.constant = optional_amount(doc, "constant")
        for name in ("version", "status", "termination"):
            as_string(doc.get(name, ""), "/" + name, empty=True)
        for name in ("reproducible", "degraded", "optimal_by_search"):
            as_bool(doc.get(name, False), "/" + name)
        integer(doc.get("seed", 0), "/seed", -(1 << 63), (1 << 63) - 1)
        self.optimal = doc.get("termination") == "optimal"
        self.value, self.bound = optional_amount(doc, "value"), optional_amount(doc, "bound")
        self.has_gap, self.gap = "gap" in doc, optional_amount(doc, "gap")
        self.schedule = self.certificate = self.replan = None
        if doc.get("schedule") is not None:
            self.schedule = Schedule(doc["schedule"], docs[1:])
        elif len(docs) > 1:
            raise Bad("something follows the document")
        if doc.get("certificate") is not None:
            self.certificate = Certificate(doc["certificate"], "/certificate")
        if doc.get("replan") is not None:
            self.replan = Replan(doc["replan"])
        self.jobs = []
        for i, j in enumerate(as_array([] if doc.get("jobs") is None else doc["jobs"], "/jobs")):
            at = "/jobs/%d" % i
            as_object(j, at)
            start, end = (micros(j[x], at + "/" + x) if x in j else None for x in ("start_s", "end_s"))
            self.jobs.append((as_string(j.get("id", ""), at + "/id", empty=True), start, end))


def verify(inst, res):
    """Returns (faults, value, bound) of a plain result: a Fraction and a pair, or
    None where a fault or a missing certificate leaves none."""
    faults, value, bound = Faults(), None, None
    sha = inst.sha256()
    for said in (res.sha256, res.certificate and res.certificate.sha256):
        if said is not None and said != sha:
            detail = "the result belongs to another instance: its instance_sha256 is %s, this one's %s"
            faults.add("instance", detail % (said, sha))
            return faults, None, None
    if res.objective != inst.objective:
        faults.add("form", "the instance has another objective than %s" % quoted(res.objective))
    check_fixed(inst, res, faults)
    if res.schedule is None:
        faults.add("form", "the result has no schedule: nothing to verify")
    else:
        before, times = len(faults), check_schedule(inst, res.schedule, faults)
        if len(faults) == before:
            n = value_of(inst, times)
            value = Fraction(n, 10**12)
            check_times(res, times, faults)
            check_totals(res, n, faults)
    if res.certificate is None:
        if res.bound is not None:
            faults.add("bound", "the result states a bound without a certificate")
    else:
        try:
            bound = bound_of(inst, res.certificate)
        except Refused as e:
            faults.add("certificate", str(e))
        else:
            check_bound(res, value, bound, faults)
    return faults, value, bound


def check_fixed(inst, res, faults):
    """That the result states what its fixed jobs cost exactly where there are any that
    count."""
    if inst.objective == "makespan" or not any(j.fixed for j in inst.jobs):
        if res.constant is not None:
            faults.add("value", "the result states a constant, although no job ends with what runs at 0")
    elif res.constant != inst.constant():
        said = "none" if res.constant is None else amount(res.constant)
        detail = "the jobs that end with what runs at 0 cost %s, the constant of the result is %s"
        faults.add("value", detail % (amount(inst.constant()), said))


def value_of(inst, times):
    """The objective of a schedule, in 1e-12 weight-seconds, or in 1e-12 seconds."""
    if inst.objective == "makespan":
        return 10**6 * max((end for _, end in times.values()), default=0)
    late = inst.objective == "jct_and_tardiness"
    return sum((j.cost(times[j.id][1]) if late else j.weight * times[j.id][1]) - j.weight * j.release
               for j in inst.jobs if not j.fixed)


def check_times(res, times, faults):
    """The jobs that the result lists, where it lists any: all, each once."""
    listed = set()
    for name, start, end in res.jobs:
        if name not in times or name in listed:
            faults.add("value", "jobs lists a job that the instance lacks, or one twice", job=name)
            continue
        listed.add(name)
        for what, said, is_ in (("starts", start, times[name][0]), ("ends", end, times[name][1])):
            if said is not None and said != is_:
                detail = "the job %s at %s s, the result states %s" % (what, seconds(is_), seconds(said))
                faults.add("value", detail, job=name)
    if res.jobs and len(listed) < len(times):
        faults.add("value", "jobs leaves out %d of the instance's" % (len(times) - len(listed)))


def check_totals(res, value, faults):
    """What the result states of its value, and of value and bound together."""
    if res.value is None:
        faults.add("value", "the result states no value")
        return
    if res.value != value:
        faults.add("value", "the schedule's value is %s, the result states %s" % (amount(value), amount(res.value)))
        return
    if res.optimal and res.bound != value:
        faults.add("bound", "the result says that it is optimal, but states no bound that is its value")
    if not res.has_gap:
        return
    detail = None
    if res.bound is None or res.bound <= 0 and res.bound != value:
        if res.gap is not None:
            detail = "there is no useful bound, so the gap must be null"
    elif res.gap is None:
        detail = "there is a bound, so the gap must not be null"
    elif res.bound == value or res.gap <= 0:
        if res.gap != 0 or res.bound != value:
            detail = "the gap is 0 where value and bound are equal, and above 0 elsewhere"
    else:
        gap = Fraction(value, res.bound) - 1
        if abs(Fraction(res.gap, 10**12) - gap) >= Fraction(1, 10**6):
            detail = "value over bound less one is %s, the result states %s" % (decimal(gap), amount(res.gap))
    if detail:
        faults.add("gap", detail)


def check_bound(res, value, bound, faults):
    claim = res.certificate.bound
    if value is not None and value * bound[1] < bound[0]:
        faults.add("bound", "the schedule costs less than the proved bound %s: one of both is wrong" % decimal(bound))
    if claim is None:
        faults.add("bound", "the certificate states no bound")
        return
    check_proved(bound, claim, faults)
    if res.bound is not None and res.bound > claim * 10**12:
        detail = "the result states %s, more than the %s of its certificate"
        faults.add("bound", detail % (amount(res.bound), decimal(claim)))
    if res.optimal and res.bound is not None and res.bound != claim * 10**12:
        detail = "the result says that it is optimal, but its bound is not its certificate's %s"
        faults.add("bound", detail % decimal(claim))


def check_proved(bound, claim, faults):
    if less(bound, claim):
        detail = "the certificate proves %s, less than the %s that it states"
        faults.add("bound", detail % (decimal(bound), decimal(claim)))


# --------------------------------------------------------------------- replans


class Replan:
    """A decoded replan object. What is stated has its kind; null states nothing."""

    def __init__(self, doc):
        at = "/replan"
        doc = {k: v for k, v in as_object(doc, at).items() if v is not None}
        self.at = micros(doc["at_s"], at + "/at_s") if "at_s" in doc else None
        self.sha256 = as_sha256(doc.get("instance_sha256"), at + "/instance_sha256")
        self.amounts = {name: optional_amount(doc, name, at) for name in AMOUNTS}
        # The lists that are checked, in the form of what is derived.
        self.lists = {}
        for name, fields in (("started", STARTED), ("lost", LOST)):
            if name in doc:
                items = enumerate(as_array(doc[name], "%s/%s" % (at, name)))
                self.lists[name] = [read_item(x, fields, "%s/%s/%d" % (at, name, i)) for i, x in items]
        for name in ("added", "removed", "kept"):
            if name in doc:
                where = "%s/%s" % (at, name)
                self.lists[name] = [as_string(x, where, empty=True) for x in as_array(doc[name], where)]
        if "gpus" in doc:
            where = at + "/gpus"
            gpus = as_object(doc["gpus"], where).items()
            self.lists["gpus"] = {k: as_string(v, pointer(where, k), empty=True) for k, v in gpus}
        micros(doc.get("stability", 0), at + "/stability")
        for i, x in enumerate(as_array(doc.get("moved", []), at + "/moved")):
            if type(x) is dict and type(x.get("gpu_s")) in (int, Number):
                optional_amount(x, "gpu_s", "%s/moved/%d" % (at, i))
        if "schedule_missing" in doc:
            as_string(doc["schedule_missing"], at + "/schedule_missing", empty=True)
        self.instance = Instance([doc["instance"]]) if "instance" in doc else None
        self.schedule = Schedule(doc["schedule"], [], at + "/schedule") if "schedule" in doc else None


AMOUNTS = (
    "constant", "whole_value", "whole_bound", "kept_value", "gain", "planned_gpu_s", "moved_gpu_s", "forced_gpu_s",
)
STARTED = (("job", None), ("rounds", integer), ("until_s", micros))
LOST = (("job", None), ("round", integer), ("gpu", None))


def read_item(doc, fields, where):
    """The fields in order; "" and 0 stand for one that is left out."""
    as_object(doc, where)
    out = []
    for name, read in fields:
        at = where + "/" + name
        out.append(read(doc.get(name, 0), at) if read else as_string(doc.get(name, ""), at, empty=True))
    return tuple(out)


class Run(namedtuple("Run", "gpu job round rounds tasks period start shape counts")):
    """An entry of a schedule by the names of its GPU and job; a round does counts units."""

    __slots__ = ()

    def rounds_by(self, at):
        """How many of its rounds start before an instant."""
        if self.start >= at:
            return 0
        return min(self.rounds, -((self.start - at) // self.period)) if self.rounds > 1 else 1

    def begin(self, unit):
        """When the round that does this unit starts."""
        return self.start + (unit - self.round) // self.counts * self.period

    def end_unit(self):
        return self.round + self.rounds * self.counts


def runs_of(schedule, inst):
    shapes = {j.id: j.shapes for j in inst.jobs}
    for gpu, rows in schedule.lanes:
        for index, *row in rows:
            job = schedule.ids[index]
            yield Run(gpu, job, *row, shapes[job][row[-1]].counts)


class Part:
    """What is left of a job: it may go on from release on; end is when it has ended,
    None where something is left; held are (end, type, GPU) of a started relaxed round,
    where nodes matter; shape is that of what runs, and only_shape the one that is left."""

    def __init__(self, release):
        self.release, self.end, self.started = release, None, False
        self.done, self.running, self.elapsed, self.held = 0, [], 0, []
        self.shape, self.only_shape = 0, None


class Rest:
    """What a feasible schedule of the instance before leaves of inst at an instant.

    inst is what is left, on a clock that starts at the instant; constant is what
    no plan can change any more, in 1e-12 weight-seconds; done maps a job to its
    rounds that are gone or stay, past holds their runs, shift maps it to the round
    that is the first of what is left; started, lost, added, removed are
    what a replan states of them, and gpus maps names of split nodes' GPUs to
    those of the whole. O(entries log entries + GPUs + jobs). Raises Refused."""

    def __init__(self, inst, before, schedule, at):
        self.at, self.whole, self.before = at, inst, before
        self.constant, self.done, self.past = 0, {}, []
        self.started, self.lost, self.added, self.gpus = [], [], [], {}
        self.held = {}  # (start, end) by GPU, on the clock of the whole
        earlier, now = {j.id: j for j in before.jobs}, {j.id for j in inst.jobs}
        self.removed = [j.id for j in before.jobs if j.id not in now]
        runs = {}
        for run in runs_of(schedule, before):
            runs.setdefault(run.job, []).append(run)
        self.parts = {}
        for j in inst.jobs:
            part = self.parts[j.id] = Part(at)
            p = earlier.get(j.id)
            if p is None:
                self.added.append(j.id)
            if p is None or not (p.running or any(run.start < at for run in runs.get(j.id, ()))):
                if j.running:
                    raise Refused("job %s runs at 0, and not in the previous instance" % quoted(j.id))
                part.done = j.done
                self.done[j.id] = j.done
                continue
            part.started = True
            self.take(part, j, p, runs.get(j.id, []))
        jobs = [self.left(j, self.parts[j.id]) for j in inst.jobs if self.parts[j.id].end is None]
        self.shift = {j.id: 0 if inst.resumes else self.parts[j.id].done for j in inst.jobs}
        jobs += self.holders()
        ids = {j.id for j in jobs}
        reservations = [r.later(at, ids) for r in inst.reservations if r.end > at]
        try:
            self.inst = Instance.of(self.nodes(), jobs, inst, reservations)
        except Bad as e:
            raise Refused("what is left at replan.at_s is no instance: %s" % e)
        self.add_constant()

    def take(self, part, j, p, runs):
        """Takes what has run and started of job j, that was p before."""
        same = ("sync", "mix", "release", "cpus", "memory", "distinct",
                "after", "done", "running", "elapsed", "reshape", "shape")
        for name in same + (("rounds",) if p.sync == "rigid" else ()):
            if getattr(j, name) != getattr(p, name):
                raise Refused("job %s has started and differs from the previous instance in %s" % (quoted(j.id), name))
        form = lambda x, inst: (inst.levels[x.within], [(s.tasks, s.g, s.counts) for s in x.shapes])
        if form(j, self.whole) != form(p, self.before):
            raise Refused("job %s has started and differs from the previous instance in its shapes" % quoted(j.id))
        last, shape, done = p.done, p.shape, p.first
        begun = [run for run in runs if run.start < self.at]
        if begun:
            run = max(begun, key=lambda run: run.round + run.rounds_by(self.at) * run.counts)
            done, shape = run.round + run.rounds_by(self.at) * run.counts, run.shape
            last = done - run.counts
        if p.sync == "rigid":
            last, done = p.done, p.rounds
        done = min(done, p.rounds)
        from_zero = bool(p.running) and done <= p.first  # that round, or all of a rigid job, runs at 0
        if from_zero:
            end, holds = p.ends, [(gpu, -p.elapsed, p.ends) for gpu in p.running]
        else:
            end, holds = self.ends(p, runs, done - 1)
        if end > self.at:
            if p.sync == "rigid" and not from_zero:
                start = min(run.start for run in runs)
                holds = [(gpu, start, end) for gpu, _, _ in holds]
            elif p.sync != "relaxed":  # held to the end of all
                holds = [(gpu, begin, end) for gpu, begin, _ in holds]
            holds = [(gpu, a, b) for gpu, a, b in holds if b > self.at]
            lost = [gpu for gpu, a, b in holds if not self.keeps(j, p, gpu, a, b)]
            if lost:
                done = last
                end = p.ends if p.running and done <= p.first else self.ends(p, runs, done - 1)[0]
                self.lost.append((j.id, done, lost[0]))
            else:
                self.started.append((j.id, done, end))
                part.release = end
                self.hold(part, j, p, holds, shape)
        if done > j.rounds:
            raise Refused("%d rounds of job %s have run or started, and it has %d" % (done, quoted(j.id), j.rounds))
        self.done[j.id] = done
        for run in runs:
            if run.round < done:
                self.past.append(run._replace(rounds=min(run.rounds, -((run.round - done) // run.counts))))
        if part.running:
            part.done, part.shape = last, shape
        else:
            part.done = done
            part.end = end if done == j.rounds else None
            if done > p.done and part.end is None:
                if j.reshape is not None:
                    part.release = max(part.release, end + j.reshape)
                elif len(j.shapes) > 1:
                    part.only_shape = shape

    def keeps(self, j, p, gpu, a, b):
        """Whether started work of job j, which was p, stays on a GPU that it holds from
        a to b."""
        if self.whole.resumes and p.sync == "relaxed" and a >= self.at:
            return False
        if self.whole.resumes and not (gpu in self.whole.gpus and j.may_use(self.whole.node_of(gpu))):
            return False
        if gpu in p.running and b == p.ends:  # that time is cut off the GPU's windows
            if gpu not in self.whole.gpus or self.whole.gpus[gpu][0] != self.before.gpus[gpu][0]:
                return False
            return any(x <= self.at and b <= y for x, y in self.whole.node_of(gpu).windows)
        return self.offers(gpu, max(self.at, a), b)

    def hold(self, part, j, p, holds, shape):
        """Writes started work, which has a shape, into what is left."""
        if not self.whole.resumes:
            for gpu, a, b in holds:
                self.held.setdefault(gpu, []).append((max(a, self.at) - self.at, b - self.at))
            return
        place = {node.name: i for i, node in enumerate(self.whole.nodes)}

        def where(gpu):
            name, number = gpu.rsplit("/", 1)
            return place[name], int(number)

        holds = sorted(holds, key=lambda h: where(h[0]))
        kind_of = lambda gpu: self.before.gpus[gpu][0]
        if p.sync == "relaxed":
            part.held = sorted(((b, kind_of(gpu), gpu) for gpu, _, b in holds), key=lambda h: h[:2])
            part.shape = shape
            return
        part.running = [gpu for gpu, _, _ in holds]
        part.elapsed = self.at - min(a for _, a, _ in holds)
        is_, was = (inst.spread([inst.node_of(gpu) for gpu in part.running]) for inst in (self.whole, self.before))
        for gpu in part.running:
            now, then = j.shapes[shape].on.get(kind_of(gpu)), p.shapes[shape].on[kind_of(gpu)]
            if now is None or named(now, self.whole) != named(then, self.before) or (
                    now.sync_at(is_) != then.sync_at(was)):
                raise Refused("job %s runs at replan.at_s and has other times now" % quoted(j.id))

    def left(self, j, part):
        """What is left of a job, on the clock that starts at the instant."""
        release, after = max(self.at, part.release, j.release), {}
        if not part.started:
            for name, lag in j.after.items():
                end = self.parts[name].end
                if end is None:
                    after[name] = lag
                else:
                    release = max(release, end + lag)
        if part.running:
            release = self.at
        out = Job.__new__(Job)
        for name in Job.__slots__:
            setattr(out, name, getattr(j, name))
        out.release, out.after, out.running, out.elapsed = release - self.at, after, part.running, part.elapsed
        if j.deadline is not None:
            out.deadline = max(1, j.deadline - self.at)
        out.done, out.shape = part.done, part.shape if part.running else 0
        if part.only_shape is not None:
            out.shapes = [j.shapes[part.only_shape]]
            out.tasks, out.g, out.on = out.shapes[0].tasks, out.shapes[0].g, out.shapes[0].on
        if not self.whole.resumes:
            out.done, out.rounds = 0, j.rounds - part.done
        return out

    def holders(self):
        """Rigid jobs of weight 0 that run at the instant, in place of the tasks of
        started rounds of relaxed jobs: one for each type and time at which they end."""
        out, ids = [], {j.id for j in self.whole.jobs}
        for j in self.whole.jobs:
            was = None
            for end, kind, gpu in self.parts[j.id].held:
                if was != (end, kind):
                    was, name = (end, kind), j.id + ".started"
                    while name in ids:
                        name += "'"
                    ids.add(name)
                    h = Job.__new__(Job)
                    for x in Job.__slots__:
                        setattr(h, x, getattr(j, x))
                    h.id, h.weight, h.release, h.rounds, h.sync, h.mix = name, 0, 0, 1, "rigid", False
                    h.only, h.exclude, h.done, h.elapsed = {}, {}, 0, 0
                    shape = Shape.__new__(Shape)
                    h.shape, h.reshape, h.g = 0, None, j.shapes[self.parts[j.id].shape].g
                    shape.g, shape.counts, shape.on = h.g, 1, {kind: Profile(end - self.at, 0, 0, ())}
                    h.shapes, h.on, h.durations = [shape], shape.on, ()
                    h.running, h.after, h.deadline, h.late = [], {}, None, 0
                    out.append(h)
                out[-1].running.append(gpu)
                out[-1].tasks = out[-1].shapes[0].tasks = len(out[-1].running) // out[-1].g
        return out

    def add_constant(self):
        """What no plan can change: all that jobs cost that have ended or end with what
        runs, and the time of the others up to their release."""
        if self.whole.objective == "makespan":
            self.constant = 10**6 * self.at
            return
        late = self.whole.objective == "jct_and_tardiness"
        now = {j.id: j for j in self.inst.jobs}
        for j in self.whole.jobs:
            end = self.parts[j.id].end
            if end is not None:
                self.constant += (j.cost(end) if late else j.weight * end) - j.weight * j.release
                continue
            self.constant += j.weight * (self.at + now[j.id].release - j.release)
            if late and j.late:
                self.constant += j.late * max(0, self.at + 1 - j.deadline)
        self.constant += self.inst.constant()

    def ends(self, p, runs, r):
        """When the round of unit r of a job has synchronised, 0 for none, and (GPU, start,
        end of compute) of its tasks."""
        end, holds = 0, []
        runs = [run for run in runs if run.round <= r < run.end_unit()]
        spread = self.before.spread([self.before.node_of(run.gpu) for run in runs]) if runs else 0
        for run in runs:
            times = p.shapes[run.shape].on[self.before.gpus[run.gpu][0]]
            begin = run.begin(r)
            computed = begin + run.tasks * times.compute
            end = max(end, computed + times.sync_at(spread))
            holds.append((run.gpu, begin, computed))
        return end, holds

    def offers(self, gpu, a, b):
        """Whether the whole instance has the GPU, of the type before, in service and
        not busy from a to b."""
        kind, windows = self.whole.gpus.get(gpu, (None, ()))
        if kind != self.before.gpus[gpu][0]:
            return False
        i = bisect_right(windows, (a, FOREVER)) - 1
        return i >= 0 and b <= windows[i][1]

    def nodes(self):
        """The nodes of what is left."""
        out, names = [], set(self.whole.names)
        for node in self.whole.nodes:
            windows = [(max(a, self.at) - self.at, b) for a, b in node.windows if b > self.at]
            windows = [(a, b if b == FOREVER else b - self.at) for a, b in windows]
            if not windows:
                continue
            busy = {i: t - self.at for i, t in node.busy.items() if t > self.at}
            kinds, later = node.kinds(), {}
            for i in range(len(kinds)) if self.held else ():
                for a, b in sorted(self.held.get("%s/%d" % (node.name, i), ())):
                    if a <= busy.get(i, 0):
                        busy[i] = max(busy.get(i, 0), b)
                    else:
                        later.setdefault(i, []).append((a, b))
            if not later:
                rules = (node.cpus, node.memory, node.labels) if self.whole.resumes else ()
                out.append(Node(node.name, node.counts, windows, busy, *rules))
                continue
            for i, kind in enumerate(kinds):
                open_ = without(windows, later.get(i, []))
                if not open_:
                    continue
                name = "%s.%d" % (node.name, i)
                while name in names:
                    name += "'"
                names.add(name)
                self.gpus[name + "/0"] = "%s/%d" % (node.name, i)
                out.append(Node(name, [(kind, 1)], open_, {0: busy[i]} if i in busy else {}))
        if not out:
            raise Refused("no GPU is in service from replan.at_s on")
        return out

    def together(self, schedule):
        """The runs of the whole: the past, and a schedule of what is left."""
        yield from self.past
        for run in runs_of(schedule, self.inst):
            only = self.parts[run.job].only_shape
            yield run._replace(
                gpu=self.gpus.get(run.gpu, run.gpu), round=run.round + self.shift[run.job], start=run.start + self.at,
                shape=run.shape if only is None else only,
            )


def named(profile, inst):
    """A profile with the names of levels."""
    return profile[:3], [(inst.levels[level], t) for level, t in profile.by_level]


def without(windows, held):
    """Windows less what is held, in order and not overlapping."""
    out = []
    for a, b in windows:
        for start, end in held:
            if end <= a or b <= start:
                continue
            if a < start:
                out.append((a, start))
            a = end
            if a >= b:
                break
        if a < b:
            out.append((a, b))
    return out


def meaning(runs):
    """The same list for all ways of writing the same rounds as runs: on every GPU,
    by time, each run is as long as the rounds of its job follow one another with
    the same number of tasks and at the same distance."""
    out = []
    for run in sorted(runs, key=lambda run: (run.gpu, run.job, run.start, run.round)):
        if run.rounds == 1:
            run = run._replace(period=0)
        if out:
            was = out[-1]
            period = run.start - was.begin(was.end_unit() - 1)
            follows = was[:2] == run[:2] and was.tasks == run.tasks and was.shape == run.shape
            follows = follows and was.end_unit() == run.round
            if follows and (was.rounds == 1 or was.period == period):
                # The first round of run belongs to was; the others do at the same distance.
                if run.rounds == 1 or run.period == period:
                    out[-1] = was._replace(rounds=was.rounds + run.rounds, period=period)
                    continue
                out[-1] = was._replace(rounds=was.rounds + 1, period=period)
                run = run._replace(
                    round=run.round + run.counts, rounds=run.rounds - 1, start=run.start + run.period,
                    period=run.period if run.rounds > 2 else 0,
                )
        out.append(run)
    return out


def verify_replan(inst, res, previous, before):
    """Returns (faults, value, bound, constant) of a result for what an earlier plan
    leaves of inst; previous, which was for the instance before, may be None."""
    faults, p = Faults(), res.replan
    nothing = faults, None, None, None
    if p.sha256 != inst.sha256():
        detail = ("the result is neither for this instance nor for what a plan of it leaves: "
                  "its replan.instance_sha256 is %s")
        faults.add("instance", detail % (p.sha256 or "not stated"))
    if p.at is None:
        faults.add("replan", "replan.at_s is not stated")
    if res.sha256 is None:
        faults.add("instance", "the result does not state the instance_sha256 of what is left")
    if p.schedule is not None and not faults:
        add_faults(faults, inst, p.schedule, "replan.schedule")
    if faults:
        return nothing
    if previous is None:
        before, schedule = inst, p.schedule
        if schedule is None:
            faults.add("replan", "nothing says what had started: give the previous result, --previous")
            return nothing
    else:
        before = as_named(before, previous)
        schedule = earlier_schedule(previous, before, faults)
        if faults:
            return nothing
    try:
        rest = Rest(inst, before, schedule, p.at)
    except Refused as e:
        faults.add("replan", str(e))
        return nothing
    sha = rest.inst.sha256()
    for what, said in (("instance_sha256", res.sha256), ("replan.instance", p.instance and p.instance.sha256())):
        if said is not None and said != sha:
            faults.add("instance", "%s is not of what is left at replan.at_s: that is %s, not %s" % (what, sha, said))
    if faults:
        return nothing
    found, value, bound = verify(rest.inst, res)
    faults.extend(found)
    check_constant(res, rest, faults)
    check_lists(p, rest, previous is not None, faults)
    if p.schedule is not None and not faults:
        check_whole(p.schedule, rest, res.schedule, faults)
    return faults, value, bound, rest.constant


def add_faults(faults, inst, schedule, where):
    found = Faults()
    check_schedule(inst, schedule, found)
    for f in found:
        faults.append(dict(f, detail="%s: %s" % (where, f["detail"])))


def earlier_schedule(previous, before, faults):
    """The schedule of the instance before, which is that of the whole where the
    previous result is a replan itself."""
    sha, schedule, where = before.sha256(), previous.schedule, "the previous schedule"
    if previous.replan is not None and previous.replan.sha256 == sha:
        schedule, where = previous.replan.schedule, "the previous replan.schedule"
    elif previous.sha256 not in (None, sha):
        detail = "the previous result belongs to another instance: give that one, --previous-instance"
        faults.add("instance", detail)
        return None
    if schedule is None:
        faults.add("form", "the previous result has no schedule of its instance")
        return None
    add_faults(faults, before, schedule, where)
    return schedule


def check_constant(res, rest, faults):
    """What a replan states of the whole's values."""
    said = res.replan.amounts
    if said["constant"] is None:
        faults.add("value", "replan.constant is not stated")
    elif said["constant"] != rest.constant:
        detail = "what no plan can change is %s, replan.constant states %s"
        faults.add("value", detail % (amount(rest.constant), amount(said["constant"])))
    # A makespan of the whole is at least the end of what has started.
    least = 0
    if rest.whole.objective == "makespan":
        least = 10**6 * max([end for _, _, end in rest.started], default=0)
    again = any(j.reshape is not None or any(s.switches() for s in j.shapes) for j in rest.inst.jobs)
    if said["whole_bound"] is not None and again:
        faults.add("value", "replan.whole_bound is stated, and plans of the whole may save setups, or keep a shape")
    for name, of, less_, constraint in (
        ("whole_value", res.value, -rest.constant, "value"),
        ("whole_bound", res.bound, -rest.constant, "bound"),
        ("gain", said["kept_value"], res.value, "value"),
    ):
        if said[name] is None:
            continue
        follows = None if of is None or less_ is None else of - less_
        if follows is not None and name != "gain":
            follows = max(follows, least)
        if said[name] != follows:
            faults.add(constraint, "replan.%s states %s, which does not follow" % (name, amount(said[name])))


def check_lists(p, rest, all_, faults):
    """What a replan lists; without the previous result, what was added, removed
    and lost is not known."""
    for name in ("started", "gpus") + (("added", "removed", "lost") if all_ else ()):
        if name in p.lists and p.lists[name] != getattr(rest, name):
            faults.add("replan", "replan.%s is not what is derived: %s" % (name, shortened(getattr(rest, name))))


def shortened(x):
    text = json.dumps(x)
    return text if len(text) <= 300 else text[:300] + "…"


def check_whole(whole, rest, schedule, faults):
    said, is_ = (meaning(runs) for runs in (runs_of(whole, rest.whole), rest.together(schedule)))
    if said == is_:
        return
    run = next((b for a, b in zip(said, is_) if a != b), (said + is_)[min(len(said), len(is_))])
    detail = "replan.schedule is not what has run and started, and then the result's schedule"
    faults.add("replan", detail, job=run.job, round=run.round, gpu=run.gpu)


# ------------------------------------------------------------------------ main


def exactly(pair):
    """A short pair as p/q, for people and tests."""
    n, d = pair
    return "%d/%d" % (n, d) if d.bit_length() < 400 else None


NOT_CHECKED = "its replan object was not checked: give the whole instance"
SELF_SAID = "what had started is as its own replan.schedule says: give --previous"


def run(names, bound_only, previous=None, previous_instance=None):
    """The report, as --json prints it."""
    inst = Instance(documents(read_text(names[0])))
    docs = documents(read_text(names[1]))
    if bound_only:
        faults, bound = verify_bound(inst, docs)
        return report_of(inst, faults, None, bound)
    res = Result(docs)
    earlier = None if previous is None else Result(documents(read_text(previous)))
    before = None if previous_instance is None else Instance(documents(read_text(previous_instance)))
    return judge(inst, res, earlier, before)


def as_named(inst, res):
    """The instance that a result is for: with the objective that the caller named."""
    if res.named not in OBJECTIVES:
        return inst
    other = copy.copy(inst)
    other.objective, other.sha = res.named, None
    return other


def judge(inst, res, previous=None, before=None):
    """The report on a result, which may be a replan: of the previous result, which
    was for the instance before."""
    own, inst = inst, as_named(inst, res)
    sha = inst.sha256()
    if res.replan is None or (res.sha256 == sha and res.replan.sha256 != sha):
        report = report_of(inst, *verify(inst, res))
        if res.replan is not None:
            report["note"] = NOT_CHECKED
        return report
    faults, value, bound, constant = verify_replan(inst, res, previous, before or own)
    report = report_of(inst, faults, value, bound)
    if constant is not None:
        report["constant"] = amount(constant)
    if previous is None:
        report["note"] = SELF_SAID
    return report


def report_of(inst, faults, value, bound):
    report = {"ok": not faults, "instance_sha256": inst.sha256()}
    if inst.objective != "weighted_jct":
        report["objective"] = inst.objective
    if value is not None:
        report["value"] = decimal(value, 12)
    if bound is not None:
        report["bound"] = decimal(bound)
        report["bound_exact"] = exactly(bound)
    if faults:
        report["faults"] = faults
    return report


def verify_bound(inst, docs):
    """(faults, bound) of a certificate, or of a result that holds one."""
    faults, bound = Faults(), None
    doc = as_object(docs[0], "")
    if doc.get("hare") == "result/v1" or len(docs) > 1:
        c = Result(docs).certificate
        if c is None:
            raise Bad("/certificate: is missing")
    else:
        c = Certificate(doc, "")
    if c.sha256 is not None and c.sha256 != inst.sha256():
        faults.add("instance", "the certificate belongs to another instance")
        return faults, None
    try:
        bound = bound_of(inst, c)
        if c.bound is not None:
            check_proved(bound, c.bound, faults)
    except Refused as e:
        faults.add("certificate", str(e))
    return faults, bound


def shown(text):
    return text.rstrip("0").rstrip(".")


def say(report):
    if report["ok"]:
        parts = ["objective " + report["objective"]] if "objective" in report else []
        parts += ["value " + shown(report["value"])] if "value" in report else []
        parts.append("bound %s" % report["bound"] if "bound" in report else "no bound")
        if "constant" in report:
            parts.append("both plus %s of the whole" % shown(report["constant"]))
        lines = ["accepted: " + ", ".join(parts) + ("; " + report["note"] if "note" in report else "")]
    else:
        lines = ["refused: " + fault_line(f) for f in report["faults"]]
    for line in lines:
        coding = getattr(sys.stdout, "encoding", None) or "utf-8"
        print(line.encode(coding, "backslashreplace").decode(coding))


def arguments(argv):
    """(names, flags, {option: value}), or None where they are not understood."""
    names, flags, options = [], set(), {}
    left = list(argv)
    while left:
        arg = left.pop(0)
        name, equals, value = arg.partition("=")
        if name in ("--previous", "--previous-instance"):
            if not equals and not left or name in options:
                return None
            options[name] = value if equals else left.pop(0)
        elif arg in ("--json", "--bound-only", "--help"):
            flags.add(arg)
        elif arg.startswith("--"):
            return None
        else:
            names.append(arg)
    return names, flags, options


def main(argv):
    parsed = arguments(argv)
    names, flags, options = parsed or ([], set(), {})
    if "--help" in flags:
        print(__doc__.strip())
        return 0
    inputs = names + list(options.values())
    if (
        len(names) != 2
        or inputs.count("-") > 1
        or "--bound-only" in flags and options
        or "--previous-instance" in options and "--previous" not in options
    ):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        report = run(names, "--bound-only" in flags, options.get("--previous"), options.get("--previous-instance"))
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
