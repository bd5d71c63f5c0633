"""python -m hare_worker.bench_switch: measures switches between models on one device and prints
JSON. hare bench switch runs it. For each ordered pair of models A, B and each method, a task of A
and then a task of B are run; the cost of the switch is the time of both, less the times that the
two tasks take where both models are on the device. Repetitions are the outer loop, so that a run
that is cut short has as many of each method."""

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings
from typing import Any

from . import backend, streams, switch_models, switching

# The size of groups in MiB of parameters, by the set of models. The groups of plain models are given.
GROUP_MIB = {"paper": 32, "small": 0.1, "plain": 8}
# What is off, for each method of one process. "warm" has room for all models. Under the others but
# "no residency" the memory is that of the greater of the two models, so that both do not fit.
METHODS: dict[str, dict[str, Any]] = {
    "warm": {},
    "hare": {"capped": True},
    "no early cleaning": {"capped": True, "early_cleaning": False},
    "no grouping": {"capped": True, "grouping": False},
    "no prefetch": {"capped": True, "prefetch": False},
    "no residency": {"residency": False},
}
# Baselines in which B runs in another process, which holds copies of the models on the host.
STANDBY: dict[str, dict[str, Any]] = {
    "standby, pageable": {"pinned": False, "grouping": False},
    "standby, pinned": {"pinned": True, "grouping": False},
    "PipeSwitch's scheme": {"pinned": True, "grouping": True, "synchronise": True},
}
NEW_PROCESS = "new process"


class Bench:
    """The models of a set on a device, or one of them, in groups and as a whole."""

    def __init__(self, arguments: argparse.Namespace, pinned: bool = True, layouts=(True, False), only: str = ""):
        device = arguments.device
        catalogue = catalogue_of(arguments)
        self.names = [only] if only else list(catalogue)
        self.cuda = device.startswith("cuda")
        if arguments.set == "plain":
            self.device: Any = streams.HostStreams()
            made = {g: {n: PlainModel(n, catalogue[n] if g else [sum(catalogue[n])]) for n in self.names}
                    for g in layouts}
            self.batches: dict[str, tuple] = {n: () for n in self.names}
        else:
            import torch

            from . import torch_model, torch_streams
            if self.cuda and not torch.cuda.is_available():
                raise backend.UserError("PyTorch finds no CUDA device; use --device cpu")
            self.device = torch_streams.TorchStreams(device, pinned)
            made, self.batches = {g: {} for g in layouts}, {}
            for name in self.names:
                for grouped in layouts:
                    torch.manual_seed(1)
                    module, batch = catalogue[name]()
                    made[grouped][name] = torch_model.TorchModel(name, module, self.device,
                                                                 arguments.group_bytes if grouped else 0)
                    self.batches[name] = tuple(x.to(device) for x in batch)
        self.models = made

    def task(self, switcher: switching.Switcher, model: switching.Model, following=None) -> Any:
        return model.task(switcher, self.batches[model.name], following)

    def now(self) -> float:
        self.device.synchronise(streams.COMPUTE)
        return time.perf_counter()

    def switcher(self, pair=(), capped=False, grouping=True, **settings) -> switching.Switcher:
        cap = max((m.bytes for m in pair), default=0) if capped else 0
        return switching.Switcher(self.device, cap, **settings)


class PlainModel(switching.Model):
    """A model without PyTorch: each task reads its groups forward and backward and adds one."""

    def __init__(self, name: str, sizes: list[int]):
        super().__init__(name, [switching.Group(bytearray(n), n) for n in sizes])

    def task(self, switcher: switching.Switcher, batch: tuple, following: switching.Model | None = None) -> int:
        switcher.begin(self, following)
        total = 0
        for i, group in enumerate(self.groups):
            switcher.need(i)
            total += sum(group.device[:1024])
        switcher.backward()
        for i in reversed(range(len(self.groups))):
            switcher.done(i)
        switcher.end()
        return total

    def step(self, index: int) -> None:
        memory = self.groups[index].device
        memory[0] = (memory[0] + 1) % 256


def catalogue_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """How each model of the set is built."""
    if arguments.set == "plain":
        return switch_models.plain()
    return getattr(switch_models, arguments.set)(arguments.batch_factor)


def circuit(n: int) -> list[int]:
    """A closed walk over n models with each ordered pair once (Hierholzer)."""
    left = {a: [b for b in range(n) if b != a] for a in range(n)}
    stack, walk = [0], []
    while stack:
        if left[stack[-1]]:
            stack.append(left[stack[-1]].pop())
        else:
            walk.append(stack.pop())
    return walk[::-1]


def ready(bench: Bench, repetitions: int) -> dict[str, float]:
    """The median time of a task whose model is on the device, in seconds."""
    times = {}
    for model in bench.models[True].values():
        switcher = bench.switcher()
        for _ in range(3):
            bench.task(switcher, model)
        taken = []
        for _ in range(repetitions):
            begin = bench.now()
            bench.task(switcher, model)
            taken.append(bench.now() - begin)
        times[model.name] = statistics.median(taken)
        switcher.close()
    return times


def losses_apart(bench: Bench, name: str, other: str) -> dict[str, Any]:
    """How far the losses of a model's tasks are apart, relative to them: where the model is copied away
    between its tasks and where it stays, and in two runs in which it stays. The latter are the same but
    for kernels that have no deterministic form, so that they say what the former may be."""
    with deterministic():
        stays, again, leaves = (losses(bench, name, other, capped) for capped in (False, False, True))
    found, noise = (max(map(apart, stays, run)) for run in (leaves, again))
    return {"losses_apart": found, "losses_noise": noise, "same_result": found < 1 and found <= max(1e-6, 3 * noise)}


@contextlib.contextmanager
def deterministic():
    """Has PyTorch take kernels that sum in the same order each time, where it has such ones."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def apart(a: float, b: float) -> float:
    """The difference of two losses, relative to the greater; 1 where one is infinite or not a number."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return 1.0
    return abs(a - b) / max(abs(a), abs(b), sys.float_info.min)


def losses(bench: Bench, name: str, other: str, capped: bool) -> list[float]:
    """The losses of three tasks of a model, with tasks of another between them. The state is then put back."""
    model, between = bench.models[True][name], bench.models[True][other]
    before = [copy_of(g.host) for g in model.groups]
    switcher = bench.switcher((model, between), capped)
    found = []
    for _ in range(3):
        seed()
        found.append(float(bench.task(switcher, model, between)))
        bench.task(switcher, between, model)
    switcher.close()
    for group, value in zip(model.groups, before):
        put_back(group.host, value)
    return found


def seed() -> None:
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(1)


def copy_of(host: Any) -> Any:
    return host.clone() if hasattr(host, "clone") else bytes(host)


def put_back(host: Any, value: Any) -> None:
    if hasattr(host, "copy_"):
        host.copy_(value)
    else:
        host[:] = value


def pair_in_process(bench: Bench, method: dict[str, Any], a: str, b: str) -> tuple[float, float | None]:
    """The seconds of a task of a and one of b, and the gap between their kernels on CUDA."""
    layout = bench.models[method.get("grouping", True)]
    first, second = layout[a], layout[b]
    switcher = bench.switcher((first, second), **method)
    if not method:
        bench.task(switcher, second)
    bench.task(switcher, first, None)
    if not method.get("residency", True):  # The last task's model has left; bring it back unmeasured.
        switcher.residency = True
        bench.task(switcher, first, None)
        switcher.residency = False
    settle(bench)
    begin = bench.now()
    bench.task(switcher, first, second)
    last = switcher.last
    bench.task(switcher, second, None)
    taken = bench.now() - begin
    gap = last.elapsed_time(switcher.first) / 1e3 if bench.cuda else None
    switcher.close()
    return taken, gap


def settle(bench: Bench) -> None:
    for stream in (streams.COMPUTE, streams.IN, streams.OUT):
        bench.device.synchronise(stream)


def standby(pipe: Any, arguments: argparse.Namespace, method: dict[str, Any], repetitions: int) -> None:
    """The standby process: brings a model at a word of the other process, and runs a task."""
    try:
        bench = Bench(arguments, method["pinned"], (method["grouping"],))
        models = bench.models[method["grouping"]]
        bench.models[True] = models
        pipe.send("built")
        pipe.recv()
        pipe.send(ready(bench, repetitions))
        while (name := pipe.recv()) is not None:
            switcher = bench.switcher()
            if method.get("synchronise"):
                one_by_one(bench.device, switcher)
            bench.task(switcher, models[name])
            pipe.send(bench.now())
            switcher.close()
            for model in list(switcher.models):
                switcher.drop(model)
            settle(bench)
            pipe.send("clean")
    except (EOFError, KeyboardInterrupt):
        pass
    except Exception as e:  # Said by the other process.
        pipe.send(backend.UserError(f"the standby process failed: {e}"))


def one_by_one(device: Any, switcher: switching.Switcher) -> None:
    """PipeSwitch waits on the host for each group before it launches the layers that need it."""
    need = switcher.need

    def wait(index: int) -> None:
        event = switcher.running.groups[index].ready
        if event is not None:
            event.synchronize()
        need(index)

    switcher.need = wait  # type: ignore[method-assign]


class Standby:
    """A standby process, which builds its models while others do."""

    def __init__(self, arguments: argparse.Namespace, method: dict[str, Any], repetitions: int):
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=standby, daemon=True, args=(other, arguments, method, repetitions))
        self.process.start()
        other.close()
        self.ready: dict[str, float] = {}

    def measure(self) -> None:
        """Measures tasks whose models stay, when all standby processes have built theirs."""
        self.pipe.send("measure")
        self.ready = self.receive()

    def receive(self) -> Any:
        try:
            got = self.pipe.recv()
        except EOFError:
            raise backend.UserError("the standby process ended") from None
        if isinstance(got, Exception):
            raise got
        return got

    def pair(self, bench: Bench, a: str, b: str) -> float:
        switcher = bench.switcher()
        first = bench.models[True][a]
        bench.task(switcher, first)
        settle(bench)
        begin = bench.now()
        bench.task(switcher, first)
        bench.now()
        self.pipe.send(b)
        end = self.receive()  # Both processes read the same monotonic clock.
        switcher.close()
        self.receive()
        return end - begin

    def close(self) -> None:
        if self.process.is_alive():
            try:
                self.pipe.send(None)
            except OSError:
                pass
        self.process.join(20)
        if self.process.is_alive():
            self.process.kill()


def new_process(arguments: argparse.Namespace, name: str) -> float:
    """The seconds from the start of Python to the end of the first task of a model."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    begin = time.perf_counter()
    command = [sys.executable, "-m", "hare_worker.bench_switch", "--set", arguments.set, "--device",
               arguments.device, "--group-mib", str(arguments.group_mib), "--batch-factor",
               str(arguments.batch_factor), "--one-task", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise backend.UserError(f"the new process for {name} failed: {done.stderr.strip()[-300:]}")
    return time.perf_counter() - begin


def one_task(arguments: argparse.Namespace) -> None:
    """What the process of new_process does: one model alone."""
    bench = Bench(arguments, layouts=(True,), only=arguments.one_task)
    bench.task(bench.switcher(), bench.models[True][arguments.one_task])
    bench.now()


def copy_rate(bench: Bench) -> float | None:
    """The bytes per second of pinned copies to the device, the best of five of 256 MiB."""
    if not bench.cuda:
        return None
    import torch
    host = bench.device.host(torch.zeros(64 << 20))
    memory = bench.device.allocate(host)
    best = 0.0
    for _ in range(5):
        settle(bench)
        begin = time.perf_counter()
        bench.device.copy_in(host, memory)
        bench.device.synchronise(streams.IN)
        best = max(best, host.numel() * 4 / (time.perf_counter() - begin))
    return best


def summary(values: list[float]) -> dict[str, Any]:
    ordered = sorted(values)
    at = (len(ordered) * 99 + 99) // 100 - 1  # the nearest rank
    return {"p50_ms": 1e3 * statistics.median(ordered), "p99_ms": 1e3 * ordered[at], "repetitions": len(ordered)}


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    began = time.monotonic()
    deadline = began + 60 * arguments.minutes
    say(arguments, "building models")
    bench = Bench(arguments)
    names, n = bench.names, arguments.repetitions
    walk = [names[i] for i in circuit(len(names))]
    pairs = list(zip(walk, walk[1:]))
    say(arguments, "measuring tasks whose models stay")
    alone = ready(bench, n)
    same = {a: losses_apart(bench, a, names[(i + 1) % len(names)]) for i, a in enumerate(names)}
    # A new process takes seconds, whatever ran before: once for each model, then while 15 % of the time lasts.
    fresh: dict[str, list[float]] = {a: [] for a in names}
    until = time.monotonic() + 0.15 * (deadline - time.monotonic())
    for r in range(n):
        for a in names:
            if r == 0 or time.monotonic() < until:
                say(arguments, f"new process, {a}")
                fresh[a].append(new_process(arguments, a))
    others: dict[str, Standby] = {}
    costs: dict[str, dict[tuple[str, str], list[float]]] = {m: {p: [] for p in pairs} for m in (*METHODS, *STANDBY)}
    gaps: dict[str, list[float]] = {m: [] for m in METHODS}
    try:
        say(arguments, "starting the standby processes")
        for m, method in STANDBY.items():
            others[m] = Standby(arguments, method, min(n, 10))
        for other in others.values():
            other.receive()
        for other in others.values():
            other.measure()
        done, longest = 0, 0.0
        for r in range(n):
            start = time.monotonic()
            if r and start + longest > deadline:
                break
            say(arguments, f"repetition {r + 1} of {n}")
            for a, b in pairs:
                for m, method in METHODS.items():
                    taken, gap = pair_in_process(bench, method, a, b)
                    costs[m][a, b].append(taken - alone[a] - alone[b])
                    if gap is not None:
                        gaps[m].append(gap)
                for m, other in others.items():
                    costs[m][a, b].append(other.pair(bench, a, b) - alone[a] - other.ready[b])
            done, longest = r + 1, max(longest, time.monotonic() - start)
    finally:
        for other in others.values():
            other.close()
    methods = []
    for m in (*METHODS, *STANDBY):
        every = summary([x for p in pairs for x in costs[m][p]])
        row = {"method": m, "p50_ms": every["p50_ms"], "p99_ms": every["p99_ms"],
               "pairs": [{"from": a, "to": b, **summary(costs[m][a, b])} for a, b in pairs]}
        if gaps.get(m):
            row["gap_p50_ms"] = summary(gaps[m])["p50_ms"]
        methods.append(row)
    every = summary([x - alone[a] for a in names for x in fresh[a]])
    methods.append({"method": NEW_PROCESS, "p50_ms": every["p50_ms"], "p99_ms": every["p99_ms"], "pairs": [
        {"from": "", "to": a, **summary([x - alone[a] for x in fresh[a]])} for a in names]})
    return {"set": arguments.set, "batch_factor": arguments.batch_factor,
            "device": describe(bench, arguments.device), "repetitions": done, "complete": done == n,
            "seconds": time.monotonic() - began, "group_bytes": arguments.group_bytes,
            "copy_bytes_per_s": copy_rate(bench),
            "models": [{"name": a, "bytes": bench.models[True][a].bytes, "groups": len(bench.models[True][a].groups),
                        "task_ms": 1e3 * alone[a], **same[a]} for a in names],
            "methods": methods}


def describe(bench: Bench, device: str) -> dict[str, Any]:
    found = {"name": platform.processor() or platform.machine(), "kind": device, "python": platform.python_version(),
             "torch": None, "load": round(os.getloadavg()[0], 2)}
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        found["torch"] = torch.__version__
        if bench.cuda:
            found["name"] = torch.cuda.get_device_name()
    return found


def say(arguments: argparse.Namespace, words: str) -> None:
    if not arguments.quiet:
        print(f"bench switch: {words}", file=sys.stderr, flush=True)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m hare_worker.bench_switch", description=__doc__)
    parser.add_argument("--set", choices=("paper", "small", "plain"), default="paper", help="the models (paper)")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (cpu)")
    parser.add_argument("--repetitions", type=int, default=30, help="of each pair and method (30)")
    parser.add_argument("--minutes", type=float, default=7.5, help="no repetition begins that would end later (7.5)")
    parser.add_argument("--group-mib", type=float, help="the size of groups of parameters (32; small models 0.1)")
    parser.add_argument("--batch-factor", type=int, default=1, help="as many times the examples of a batch (1)")
    parser.add_argument("--quiet", action="store_true", help="say nothing on the way")
    parser.add_argument("--one-task", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.group_mib is None:
        arguments.group_mib = GROUP_MIB[arguments.set]
    if min(arguments.repetitions, arguments.batch_factor) < 1 or not min(arguments.minutes, arguments.group_mib) > 0:
        parser.error("--repetitions, --minutes, --group-mib and --batch-factor must be positive")
    if arguments.set == "plain" and arguments.device != "cpu":
        parser.error("--set plain runs on the CPU alone")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS needs it to be deterministic.
    arguments.group_bytes = max(1, int(arguments.group_mib * (1 << 20)))
    try:
        if arguments.one_task:
            one_task(arguments)
        else:
            print(json.dumps(measure(arguments), allow_nan=False))
    except backend.UserError as e:
        print(e, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
