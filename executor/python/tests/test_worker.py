"""The Python side of the protocol, against an agent that is cut, hostile or of another user, and
the backends where their libraries are installed. python3 -m unittest discover -s executor/python/tests"""

import array
import importlib.util
import os
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "src"))
from hare_worker import backend, serve, wire  # noqa: E402

MODULE = """
BACKEND = "plain"
def build(): return {"x": [1.0, 2.0]}
def optimiser(): return {"learning_rate": 0.5}
def batch(round, task): return round + task
def loss(parameters, batch): return 1.5, {"x": [batch, 1.0]}
"""


def frame(body):
    return struct.pack(">I", len(body)) + body


def session(data, epoch=1):
    """Sends data to a worker as its agent, and returns the worker's answers and how it ended."""
    agent, own = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with agent, own:
        agent.sendall(data)
        agent.shutdown(socket.SHUT_WR)
        try:
            serve.Worker(wire.Connection(own), epoch, "cpu").run()
            ended = None
        except wire.ProtocolError as e:
            ended = str(e)
        own.close()
        answers = wire.Connection(agent)
        read = []
        while (message := answers.receive()) is not None:
            read.append(message)
        return read, ended


class Protocol(unittest.TestCase):
    def test_bad_frames(self):
        for says, data in {
            "ended inside a frame": b"\0\0",
            "ended inside": struct.pack(">I", 30) + b'{"type"',
            "a frame of 1048577 bytes": struct.pack(">I", (1 << 20) + 1) + b"x" * 100,
            "a frame of 0 bytes": struct.pack(">I", 0),
            "not JSON": frame(b"\xff\xfe\x00"),
            "is not JSON": frame(b"[" * 100000),
            "not an object": frame(b"[1]"),
            "stands twice": frame(b'{"type":"run","type":"step"}'),
            "not a number of JSON": frame(b'{"type":"run","epoch":NaN}'),
            "type is not a text": frame(b'{"type":1}'),
            "of epoch 2 in epoch 1": frame(b'{"type":"evict","epoch":2,"seq":1}'),
            "request 2 after request 0": frame(b'{"type":"evict","epoch":1,"seq":2}'),
            "unknown type 'dance'": frame(b'{"type":"dance","epoch":1,"seq":1}'),
            "not attached": frame(b'{"type":"run","epoch":1,"seq":1,"job":"j"}'),
        }.items():
            answers, ended = session(data)
            self.assertIn(says, ended or "")
            self.assertEqual([a["type"] for a in answers], ["hello"])

    def test_garbage(self):
        rng = random.Random(1)
        whole = frame(b'{"type":"forget","epoch":1,"seq":1,"job":"j"}')
        for _ in range(500):
            data = bytearray(whole)
            for _ in range(rng.randint(1, 4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            session(bytes(data[: rng.randint(0, len(data))]))

    def test_what_has_not_come_is_not_waited_for(self):
        agent, own = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with agent, own:
            connection = wire.Connection(own)
            late = threading.Timer(5, agent.shutdown, [socket.SHUT_WR])  # a receiver that waits fails, and ends
            late.start()
            begun, whole = time.monotonic(), frame(b'{"type":"evict"}')
            self.assertIsNone(connection.receive(wait=False))
            agent.sendall(whole[:-1])
            self.assertIsNone(connection.receive(wait=False))
            self.assertLess(time.monotonic() - begun, 4)
            late.cancel()
            agent.sendall(whole[-1:])
            self.assertEqual(connection.receive(wait=False), {"type": "evict"})

    def test_end_between_frames(self):
        answers, ended = session(frame(b'{"type":"shutdown","epoch":1,"seq":1}'))
        self.assertEqual(([a["type"] for a in answers], ended), (["hello", "ended"], None))
        self.assertEqual(session(b"")[1], None)

    def test_foreign_agent(self):
        a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with a, b, mock.patch("os.geteuid", return_value=os.geteuid() + 1):
            with self.assertRaisesRegex(wire.ProtocolError, "belongs to user"):
                wire.Connection(a)

    def test_no_socket(self):
        src = os.path.join(os.path.dirname(__file__), "..", "src")
        ran = subprocess.run([sys.executable, "-m", "hare_worker", "--socket", "/no/such", "--epoch", "1"],
                             env={**os.environ, "PYTHONPATH": src}, capture_output=True, text=True)
        self.assertEqual((ran.returncode, ran.stderr.count("\n")), (1, 1), ran.stderr)


class Rounds(unittest.TestCase):
    def test_a_round_by_hand(self):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "model.py"), "w") as f:
                f.write(MODULE)
            job = serve.Job({"tasks": 2, "seed": 0, "module": "model", "directory": directory}, "cpu")
            self.assertNotIn("model", sys.modules)
        size = 2 * 64 + 2 * 64
        file = os.memfd_create("test")
        os.truncate(file, size)
        job.attach(file, True)
        job.bring(0)
        for task in (1, 0):  # in any order
            self.assertEqual(job.backend.gradient(3, task, job.gradients[task]), 1.5)
        job.backend.step(job.gradients)
        job.backend.save(job.slots[1])
        # x₀ = 1 − 0.5·(3 + 4), x₁ = 2 − 0.5·(1 + 1)
        self.assertEqual(array.array("d", bytes(job.slots[1][:16])).tolist(), [-2.5, 1.0])
        self.assertEqual(array.array("d", bytes(job.slots[0][:16])).tolist(), [1.0, 2.0])

    def test_shared_memory_of_another_size(self):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "model.py"), "w") as f:
                f.write(MODULE)
            job = serve.Job({"tasks": 2, "module": "model", "directory": directory}, "cpu")
        with self.assertRaisesRegex(wire.ProtocolError, "has 0 bytes, not 256"):
            job.attach(os.memfd_create("test"), True)

    def test_two_jobs_with_modules_of_one_name(self):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            for directory, value in (one, "1.0"), (other, "2.0"):
                with open(os.path.join(directory, "values.py"), "w") as f:
                    f.write(f"x = {value}\n")
                with open(os.path.join(directory, "model.py"), "w") as f:
                    f.write(MODULE + "import values\ndef build(): return {'x': [values.x]}\n")
            built = [serve.load_module("model", d).build()["x"] for d in (one, other, one)]
            self.assertEqual(built, [[1.0], [2.0], [1.0]])

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_torch_refuses_what_it_cannot_keep(self):
        import torch

        class Module:
            BACKEND = "torch"
            build = staticmethod(lambda: torch.nn.Linear(2, 1))
            batch = staticmethod(lambda round_, task: None)
            loss = staticmethod(lambda model, batch: None)

        options = backend.Options(1)
        for optimiser in (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
                          lambda p: torch.optim.Adagrad(p)):
            Module.optimiser = staticmethod(optimiser)
            with self.assertRaisesRegex(backend.UserError, "none of SGD"):
                backend.load_backend(Module, options)

    def test_check(self):
        src = os.path.join(os.path.dirname(__file__), "..", "src")

        def check(text, *more):
            with tempfile.TemporaryDirectory() as directory:
                with open(os.path.join(directory, "model.py"), "w") as f:
                    f.write(text)
                command = [sys.executable, "-m", "hare_worker.check", "model", "--directory", directory, *more]
                ran = subprocess.run(command, env={**os.environ, "PYTHONPATH": src}, capture_output=True, text=True)
                return ran.returncode, ran.stdout + ran.stderr

        code, said = check(MODULE, "--rounds", "2")
        self.assertEqual((code, said.splitlines()[-1]),
                         (0, "8 tasks gave the same gradients twice; the state has 16 bytes"))
        code, said = check(MODULE + "n = []\ndef batch(r, t): n.append(1); return len(n)\n")
        self.assertEqual(code, 1)
        self.assertIn("task 3 of round 0 gives another gradient", said)
        self.assertEqual(check("import nothing_at_all\n")[1],
                         "model: model.py:1: ModuleNotFoundError: No module named 'nothing_at_all'\n")
        self.assertEqual(check(MODULE, "--tasks", "0")[0], 2)

    def test_seeds_differ(self):
        seeds = {backend.seed_of(s, r, t) for s in range(5) for r in range(20) for t in range(20)}
        self.assertEqual(len(seeds), 2000)


if __name__ == "__main__":
    unittest.main()
