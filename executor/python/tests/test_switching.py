"""The switcher against streams that record what is ordered by events, and find each read of a
group before its copy has ended, and each use of memory that another stream still reads."""

import importlib.util
import json
import os
import random
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "src"))
from hare_worker import backend, bench_switch, streams, switch_models, switching  # noqa: E402
from hare_worker.streams import COMPUTE, IN, OUT  # noqa: E402


class Race(Exception):
    pass


class RecordedStreams(streams.HostStreams):
    """Streams with vector clocks. Memory that was freed is used again as soon as possible."""

    def __init__(self, capacity=None):
        self.clocks = {s: {t: 0 for t in (COMPUTE, IN, OUT)} for s in (COMPUTE, IN, OUT)}
        self.accesses = {}  # by the buffer: the last write, and the reads since then
        self.pool, self.log, self.used, self.capacity = [], [], 0, capacity

    def access(self, stream, buffer, write):
        clock = self.clocks[stream]
        clock[stream] += 1
        wrote, reads = self.accesses.get(id(buffer), (None, []))
        for s, at in ([wrote] if wrote else []) + (reads if write else []):
            if clock[s] < at:
                raise Race(f"{'write' if write else 'read'} on {stream} before {s} has ended")
        now = (stream, clock[stream])
        self.accesses[id(buffer)] = (now, []) if write else (wrote, reads + [now])

    def allocate(self, host):
        if self.capacity is not None and self.used + len(host) > self.capacity:
            raise streams.OutOfMemory("out of memory", 0)
        self.used += len(host)
        for i, old in enumerate(self.pool):
            if len(old) == len(host):
                return self.pool.pop(i)
        return bytearray(len(host))

    def free(self, memory):
        self.used -= len(memory)
        self.pool.insert(0, memory)

    def copy_in(self, host, memory):
        self.access(IN, host, False)
        self.access(IN, memory, True)
        memory[:] = host
        self.log.append(IN)

    def copy_out(self, memory, host):
        self.access(OUT, memory, False)
        self.access(OUT, host, True)
        host[:] = memory
        self.log.append(OUT)

    def record(self, stream):
        return dict(self.clocks[stream])

    def wait(self, stream, event):
        if event is not None:
            for s, at in event.items():
                self.clocks[stream][s] = max(self.clocks[stream][s], at)


class Counter(switching.Model):
    """A model whose groups count its tasks."""

    def __init__(self, device, name, sizes):
        self.stream = device
        super().__init__(name, [switching.Group(bytearray(n), n) for n in sizes])
        self.keep = self.groups  # so that no buffer is given back to Python and its id used again

    def bind(self, index):
        self.stream.log.append((self.name, index, "in"))

    def unbind(self, index):
        self.stream.log.append((self.name, index, "out"))

    def read(self, index):
        if self.groups[index].device is None:
            raise Race(f"group {index} of {self.name} is not on the device")
        self.stream.access(COMPUTE, self.groups[index].device, False)

    def step(self, index):
        memory = self.groups[index].device
        self.stream.access(COMPUTE, memory, True)
        memory[0] = (memory[0] + 1) % 256


def task(switcher, model, following=None, skip=()):
    switcher.begin(model, following)
    for i in range(len(model.groups)):
        switcher.need(i)
        model.read(i)
    switcher.backward()
    for i in reversed(range(len(model.groups))):
        model.read(i)
        if i not in skip:
            switcher.done(i)
    switcher.end()


class Switching(unittest.TestCase):
    def play(self, seed, broken=None):
        rng = random.Random(seed)
        device = RecordedStreams()
        models = [Counter(device, str(m), [rng.randint(1, 9) for _ in range(rng.randint(1, 6))]) for m in range(4)]
        most = max(m.bytes for m in models)
        settings = {name: rng.random() < 0.7 for name in ("early_cleaning", "prefetch", "residency")}
        switcher = switching.Switcher(device, rng.choice([0, most, 2 * most]), **settings)
        if broken:
            broken(device, switcher)
        tasks = [rng.randrange(4) for _ in range(30)]
        for i, m in enumerate(tasks):
            following = models[tasks[i + 1]] if i + 1 < len(tasks) else None
            task(switcher, models[m], following if rng.random() < 0.9 else models[rng.randrange(4)],
                 {0} if rng.random() < 0.2 else ())
            if switcher.cap_bytes:
                self.assertLessEqual(switcher.used, switcher.cap_bytes)
        switcher.close()
        self.assertEqual(switcher.used, 0)
        for m, model in enumerate(models):
            for group in model.groups:
                self.assertEqual(group.host[0], tasks.count(m), (seed, m))

    def test_random_sequences(self):
        for seed in range(400):
            self.play(seed)

    def test_missing_waits_are_found(self):
        """Each of the switcher's waits matters: without it the recorder finds a race."""
        for stream in (COMPUTE, IN, OUT):
            def broken(device, _, stream=stream):
                wait = device.wait
                device.wait = lambda s, event: None if s == stream else wait(s, event)

            found = 0
            for seed in range(40):
                try:
                    self.play(seed, broken)
                except Race:
                    found += 1
            self.assertGreater(found, 0, stream)

    def order(self, **settings):
        device = RecordedStreams()
        a, b = (Counter(device, name, [4, 4, 4]) for name in "ab")
        switcher = switching.Switcher(device, 12, **settings)
        task(switcher, a, b)
        before = [x for x in device.log if x == ("b", 0, "in") or x == ("b", 1, "in") or x == ("b", 2, "in")]
        left = [x for x in device.log if isinstance(x, tuple) and x[2] == "out"]
        return len(before), len(left)

    def test_each_switch(self):
        self.assertEqual(self.order(), (3, 3))  # The next model is there when the task ends.
        self.assertEqual(self.order(prefetch=False), (0, 0))
        self.assertEqual(self.order(early_cleaning=False), (0, 0))
        self.assertEqual(self.order(prefetch=False, residency=False), (0, 3))

    def test_residency(self):
        for keep, copies in ((True, 2), (False, 7)):  # With the copy ahead of a task that does not come.
            device = RecordedStreams()
            a, b = (Counter(device, name, [4]) for name in "ab")
            switcher = switching.Switcher(device, 0, residency=keep)
            for _ in range(3):
                task(switcher, a, b)
                task(switcher, b, a)
            self.assertEqual(device.log.count(IN), copies)

    def test_out_of_memory(self):
        device = RecordedStreams(capacity=12)
        a, b, c = (Counter(device, name, sizes) for name, sizes in (("a", [4, 4]), ("b", [4]), ("c", [8, 8])))
        switcher = switching.Switcher(device)
        for model in (a, b):
            task(switcher, model)
        with self.assertRaises(streams.OutOfMemory) as raised:
            task(switcher, c)
        self.assertEqual(raised.exception.footprint_bytes, 16)
        self.assertIn("c takes 16 bytes", str(raised.exception))
        switcher.close()
        task(switcher, a)
        task(switcher, b)
        d = Counter(device, "d", [8])
        task(switcher, d, b)  # a leaves, b is next
        self.assertIn(("a", 0, "out"), device.log[-20:])

    def test_cap_too_small(self):
        device = RecordedStreams()
        with self.assertRaisesRegex(streams.OutOfMemory, "takes 8 bytes, there are 7"):
            switching.Switcher(device, 7).begin(Counter(device, "a", [4, 4]))


class Bench(unittest.TestCase):
    def test_circuit(self):
        for n in range(2, 9):
            walk = bench_switch.circuit(n)
            pairs = list(zip(walk, walk[1:]))
            self.assertEqual(sorted(pairs), [(a, b) for a in range(n) for b in range(n) if a != b])

    def test_summary(self):
        values = [float(x) for x in range(100, 0, -1)]
        self.assertEqual(bench_switch.summary(values), {"p50_ms": 50500.0, "p99_ms": 99000.0, "repetitions": 100})
        self.assertEqual(bench_switch.summary([2.0])["p99_ms"], 2000.0)

    def test_losses_apart(self):
        nan = float("nan")
        for again, leaves, same in ((1.0, 1 + 5e-7, True), (1.0, 1.0005, False), (1.002, 1.004, True),
                                    (1.001, 1.01, False), (1.0, nan, False), (nan, nan, False)):
            runs = [[1.0, 2.0], [again, 2.0], [leaves, 2.0]]
            with mock.patch.object(bench_switch, "losses", side_effect=runs):
                found = bench_switch.losses_apart(None, "a", "b")
            self.assertEqual(found["same_result"], same, found)
            json.dumps(found, allow_nan=False)

    def test_each_mechanism_is_off_once(self):
        for name in ("early_cleaning", "grouping", "prefetch", "residency"):
            self.assertEqual([m for m, s in bench_switch.METHODS.items() if s.get(name) is False],
                             ["no " + name.replace("_", " ")])

    def test_missing_packages(self):
        with mock.patch("importlib.util.find_spec", lambda name: None if name == "timm" else 1):
            with self.assertRaisesRegex(backend.UserError, "missing: timm. Install with: pip install timm"):
                switch_models.paper()


@unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
class Torch(unittest.TestCase):
    """On the CPU: parameters after tasks under switches equal those of a plain loop, bit for bit."""

    def test_batch_factor(self):
        for name, build in switch_models.small(3).items():
            self.assertEqual(build()[1][0].shape[0], 3 * switch_models.small()[name]()[1][0].shape[0], name)

    def test_deterministic_ends(self):
        import torch
        with self.assertRaises(KeyError), bench_switch.deterministic():
            self.assertTrue(torch.are_deterministic_algorithms_enabled())
            raise KeyError
        self.assertFalse(torch.are_deterministic_algorithms_enabled())

    def test_cuda_without_a_number_is_the_current_device(self):
        import torch

        from hare_worker import torch_streams

        chosen = []
        with mock.patch.multiple(torch.cuda, current_device=lambda: 3, current_stream=mock.Mock(), Stream=mock.Mock(),
                                 set_device=lambda d: chosen.append(torch.cuda._utils._get_device_index(d))):
            self.assertEqual(torch_streams.TorchStreams("cuda").device, torch.device("cuda", 3))
            self.assertEqual(torch_streams.TorchStreams("cuda:1").device, torch.device("cuda", 1))
        self.assertEqual(chosen, [3, 1])

    def test_same_parameters(self):
        import torch

        from hare_worker import torch_model, torch_streams

        def net(seed):
            torch.manual_seed(seed)
            return torch.nn.Sequential(
                torch.nn.Linear(8, 8), torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
                torch.nn.Linear(8, 3), torch.nn.Linear(8, 3))[:3]

        batch = (torch.ones(2, 4, 8),)
        device = torch_streams.TorchStreams()
        for settings in ({}, {"early_cleaning": False}, {"prefetch": False}, {"residency": False}):
            models = [torch_model.TorchModel(str(s), net(s), device, 200) for s in (1, 2)]
            self.assertGreater(len(models[0].groups), 3)
            switcher = switching.Switcher(device, models[0].bytes, **settings)
            for _ in range(5):
                for i, model in enumerate(models):
                    model.task(switcher, batch, models[1 - i])
            switcher.close()
            for s, model in zip((1, 2), models):
                plain = net(s)
                momentum = [torch.zeros_like(p) for p in plain.parameters()]
                for _ in range(5):
                    plain.zero_grad()
                    plain(*batch).square().mean().backward()
                    with torch.no_grad():
                        for p, m in zip(plain.parameters(), momentum):
                            m.mul_(torch_model.MOMENTUM).add_(p.grad)
                            p.add_(m, alpha=-torch_model.RATE)
                flat = torch.cat([p.detach().reshape(-1) for p in plain.parameters()])
                held = torch.cat([g.host[: g.host.numel() // 2] for g in model.groups])
                self.assertTrue(torch.equal(flat, held), settings)


if __name__ == "__main__":
    unittest.main()
