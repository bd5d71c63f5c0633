"""Round jobs whose state is copied in groups on streams. A device that puts its copies off as long as
it may stands for one that works beside the host: what does not wait for a copy reads garbage."""

import importlib.util
import os
import random
import tempfile
import unittest
from unittest import mock

from test_worker import frame, serve, wire

TORCH = importlib.util.find_spec("torch") is not None
if TORCH:
    import torch

    from hare_worker import streams, torch_backend, torch_groups, torch_streams

MODULE = """
import torch
BACKEND = "torch"
LAYERWISE = {layerwise}

def build():
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.ReLU(), torch.nn.Dropout(0.2),
                               torch.nn.Linear(5, 4), torch.nn.Linear(4, 1), torch.nn.Linear(1, 1))

def optimiser(parameters):
    return torch.optim.{optimiser}

def batch(round, task):
    return {{"x": torch.randn(8, 6), "y": (torch.randn(8, 1),)}}

def loss(model, batch):
    for layer in list(model)[:-1]:  # the last one never gets a gradient
        batch["x"] = layer(batch["x"])
    return (batch["x"] - batch["y"][0]).square().mean()
"""


if TORCH:
    class LateStreams(torch_streams.TorchStreams):
        """Kernels run at once. Copies run when something that waits for them goes on, or by chance."""

        def __init__(self, seed=0, blind=()):
            super().__init__("cpu")
            self.grouped, self.random, self.blind = True, random.Random(seed), blind
            self.queues = {streams.IN: [], streams.OUT: []}
            self.done = {streams.IN: 0, streams.OUT: 0}
            self.own, self.kept = [], []

        def allocate(self, host):
            memory = torch.full_like(host, 0xFF)
            self.own.append(memory)
            return memory

        def free(self, memory):
            self._put(streams.IN, lambda: memory.fill_(0xEE))

        def copy_in(self, host, memory):
            self._put(streams.IN, lambda: memory.copy_(host))

        def copy_out(self, memory, host):
            if not any(memory is m for m in self.own):
                self.kept.append(memory)
            self._put(streams.OUT, lambda: host.copy_(memory))

        def keep(self, memory, stream):
            self.kept = [m for m in self.kept if m is not memory]

        def record(self, stream):
            return None if stream == streams.COMPUTE else (stream, self.done[stream] + len(self.queues[stream]))

        def wait(self, stream, event):
            if event is None or stream in self.blind:
                return
            if stream == streams.COMPUTE:
                self._run(*event)
            else:
                self._put(stream, lambda: self._run(*event))

        def synchronise(self, stream):
            if stream != streams.COMPUTE:
                self._run(stream, self.done[stream] + len(self.queues[stream]))

        def _put(self, stream, operation):
            self.queues[stream].append(operation)
            if self.random.random() < 0.3:
                some = self.random.choice((streams.IN, streams.OUT))
                self._run(some, self.done[some] + self.random.randint(0, len(self.queues[some])))

        def _run(self, stream, until):
            while self.done[stream] < until:
                operation = self.queues[stream].pop(0)
                self.done[stream] += 1
                with torch.no_grad():
                    operation()


def job(device, directory, name, seed, tasks=3):
    with mock.patch.object(torch_backend, "streams_of", lambda _: device):
        made = serve.Job({"tasks": tasks, "seed": seed, "module": name, "directory": directory}, "cpu")
    state, gradient = (serve.aligned(n) for n in (made.backend.state_bytes, made.backend.gradient_bytes))
    file = os.memfd_create("test")
    os.truncate(file, 2 * state + tasks * gradient)
    made.attach(file, True)
    return made


def play(device, directory, seed):
    """Random tasks, steps and evictions of two jobs; returns the bytes of all of their states."""
    jobs = [job(device, directory, name, 7) for name in ("one", "two")]
    chance, versions, seen = random.Random(seed), [0, 0], []
    for _ in range(12):
        k = chance.randrange(2)
        j, v = jobs[k], versions[k]
        other, w = jobs[1 - k], versions[1 - k]
        ahead = chance.choice((None, lambda: other.bring(w), lambda: (setattr(other, "version", None),
                                                                      other.backend.drop())))
        for task in chance.sample(range(j.tasks), j.tasks):
            j.bring(v)
            j.backend.gradient(v, task, j.gradients[task], ahead if device.grouped else None)
        j.bring(v)
        j.backend.step(j.gradients)
        j.backend.save(j.slots[(v + 1) % 2])
        j.version = versions[k] = v + 1
        seen.append(bytes(j.slots[(v + 1) % 2][: j.backend.state_bytes]))
    for j in jobs:
        j.backend.forgotten()
    return seen


@unittest.skipUnless(TORCH, "PyTorch is not installed")
class Streamed(unittest.TestCase):
    def setUp(self):
        self.directory = self.enterContext(tempfile.TemporaryDirectory())
        self.enterContext(mock.patch.object(torch_groups, "GROUP_BYTES", 100)) if TORCH else None
        for name, layerwise, optimiser in (("one", True, "SGD(parameters, lr=0.1, momentum=0.9)"),
                                           ("two", False, "Adam(parameters, lr=0.01)")):
            with open(os.path.join(self.directory, name + ".py"), "w") as f:
                f.write(MODULE.format(layerwise=layerwise, optimiser=optimiser))

    def test_same_states_as_whole_copies(self):
        for seed in range(4):
            late = LateStreams(seed)
            states = play(late, self.directory, seed)
            self.assertEqual(states, play(torch_streams.TorchStreams("cpu"), self.directory, seed))
            self.assertEqual(late.kept, [], "a gradient left without being kept for its copy")
            self.assertGreater(late.done[streams.IN], 50)

    def test_missing_waits_are_found(self):
        found = 0
        for seed in range(4):
            plain = play(torch_streams.TorchStreams("cpu"), self.directory, seed)
            found += play(LateStreams(seed, (streams.COMPUTE,)), self.directory, seed) != plain
        self.assertEqual(found, 4)

    def carried(self, seed, drop, blind=()):
        """What is saved of tensors behind a load for which no kernel has waited, or which are dropped then."""
        late = LateStreams(seed, blind)
        groups = torch_groups.Groups(late, 0, [torch.zeros(32) for _ in range(4)])
        there, back = bytes(range(256)) * 2, memoryview(bytearray(512))
        groups.load(memoryview(bytearray(there)))
        if drop:
            groups.need_all()
        groups.save(back)
        if drop:
            groups.drop()
            late.synchronise(streams.IN)
        late.synchronise(streams.OUT)
        return bytes(back) == there

    def test_missing_waits_of_copies_are_found(self):
        """Copies from the device wait for those to it, and memory that is given back waits for copies from it."""
        for stream, drop in ((streams.OUT, False), (streams.IN, True)):
            self.assertTrue(all(self.carried(seed, drop) for seed in range(40)), stream)
            self.assertFalse(all(self.carried(seed, drop, (stream,)) for seed in range(40)), stream)

    def test_a_second_backward_pass_adds_up(self):
        late = LateStreams(1)
        weight = torch.nn.Parameter(torch.ones(4))
        out = torch_groups.Outgoing(late, [weight])
        view = memoryview(bytearray(16))
        out.begin(view)
        (3 * weight).sum().backward()
        (4 * weight).sum().backward()
        out.end([])
        self.assertEqual(torch.frombuffer(view, dtype=torch.float32).tolist(), [7.0] * 4)

    def test_what_waits_is_done_during_the_backward_pass(self):
        import socket

        agent, own = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with agent, own:
            late = LateStreams(2)
            worker = serve.Worker(wire.Connection(own), 1, "cpu")
            worker.jobs = {name: job(late, self.directory, name, 7) for name in ("one", "two")}
            for n, kind, name in ((1, "run", "one"), (2, "prefetch", "two"), (3, "evict", "one"), (4, "shutdown", "")):
                agent.sendall(frame(f'{{"type":"{kind}","epoch":1,"seq":{n},"job":"{name}","round":0}}'.encode()))
            order = []
            for name in ("prefetch", "evict"):
                inner = serve.HANDLERS[name]
                self.enterContext(mock.patch.dict(serve.HANDLERS, {name: lambda w, r, f=inner, n=name: (
                    order.append((n, bool(w.jobs["one"].backend.copies.gradients.view))), f(w, r))[1]}))
            worker.run()
            answers = wire.Connection(agent)
            self.assertEqual([answers.receive()["type"] for _ in range(5)],
                             ["hello", "done", "prefetched", "evicted", "ended"])
            # The other job came while the task ran; its own copy left behind the task.
            self.assertEqual(order, [("prefetch", True), ("evict", False)])


if __name__ == "__main__":
    unittest.main()
