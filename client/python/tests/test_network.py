"""The installed package against a network that loses, cuts and refuses; HARE_RESULT is a file."""

import os
import subprocess
import sys
import threading
import time
import traceback
import unittest
from pathlib import Path

import httpx

from hare_client import Event, Hare, HareError, Problem, StreamBroken
from hare_client.generated.models import ManagedJob
from hare_client.streams import lines, messages

ROOT = Path(__file__).resolve().parents[3]
INSTANCE = {"hare": "instance/v1"}  # the fake does not look at it


class Network(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fake = subprocess.Popen(
            [sys.executable, ROOT / "client/conformance/fake.py", os.environ["HARE_RESULT"]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        cls.url = cls.fake.stdout.readline().strip()

    @classmethod
    def tearDownClass(cls):
        cls.fake.stdin.close()
        cls.fake.wait(10)
        cls.fake.stdout.close()

    def client(self, mode, **more):
        hare = Hare(f"{self.url}/{mode}", **{"backoff": 0.001, **more})
        self.addCleanup(hare.close)
        return hare

    def stats(self, mode):
        return httpx.get(f"{self.url}/{mode}/_stats").json()

    def test_solved_once_whatever_is_lost(self):
        for mode in ("lossy", "busy", "proxy"):
            with self.subTest(mode):
                result = self.client(mode).solve(INSTANCE)
                self.assertGreaterEqual(result.value, result.bound)
                self.assertEqual(self.stats(mode)["solved"], 1)

    def test_events_resume(self):
        seen = []
        self.client("cut").solve(INSTANCE, progress=seen.append)
        self.assertEqual([e.id for e in seen], list(range(1, 10)))
        self.assertEqual(seen[2], Event(3, "incumbent", 3.5, value=97, data=seen[2].data))
        self.assertEqual((seen[-1].type, seen[-1].status, seen[-1].termination), ("done", "succeeded", "gap"))
        self.assertEqual(self.stats("cut")["resumed"][:3], [0, 2, 3])

    def test_idle_stream_is_broken(self):
        hare = self.client("quiet", idle_timeout=0.1)
        id = hare.submit(INSTANCE).id
        self.assertEqual([e.id for e in hare.events(id, after=6)], [7, 8, 9])
        self.assertGreaterEqual(len(self.stats("quiet")["resumed"]), 2)  # a busy machine is quiet more often

    def test_a_command_is_no_string(self):
        for command in ("echo hi", b"echo hi"):
            with self.assertRaises(TypeError) as caught:
                self.client("plain").submit_job("lab", command)
            self.assertIn('["sh", "-c", ', str(caught.exception))

    def test_what_errors_say(self):
        document = {"code": "wrong_type", "detail": '/on: must be the seconds by GPU type: {"cpu": 0} (wrong_type)'}
        self.assertEqual(str(Problem(422, document)), f"422: {document['detail']}")
        self.assertEqual(str(Problem(404, {"code": "no_solve", "detail": "gone"})), "404: gone (no_solve)")
        with self.assertRaises(HareError) as caught:
            Hare("http://127.0.0.1:1", retries=0).solve(INSTANCE)
        self.assertIn("http://127.0.0.1:1/v1/solves: ", str(caught.exception))
        self.assertIn("is hare serve running there?", str(caught.exception))
        self.assertNotIn("httpx", "".join(traceback.format_exception(caught.exception)))

    def test_jobs_are_readable(self):
        job = ManagedJob.from_dict(
            {"id": "j1", "command": ["a"], "state": "waiting", "submitted": "2026-01-02T03:04:05Z"}
        )
        self.assertEqual(
            str(job),
            "ManagedJob(id='j1', state='waiting', submitted=2026-01-02T03:04:05+00:00, command=['a'])",
        )

    def test_interrupted_solve_is_cancelled(self):
        def stop(event):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            self.client("slow").solve(INSTANCE, progress=stop)
        self.assertEqual(len(self.stats("slow")["cancelled"]), 1)

    def test_wait(self):
        hare = self.client("slow")
        solve = hare.submit(INSTANCE, key="mine")
        self.assertEqual(hare.submit(INSTANCE, key="mine").id, solve.id)
        self.assertFalse(solve.done)
        with self.assertRaises(TimeoutError):
            hare.wait(solve.id, timeout=0.05)
        threading.Timer(0.1, hare.cancel, [solve.id]).start()
        self.assertTrue(hare.wait(solve.id).done)
        self.assertEqual(hare.get(solve.id).value, 3.5)
        self.assertEqual(hare.schedule(solve.id, "text/csv"), b"job,round\nbert,0\n")
        hare.delete(solve.id)

    def test_list(self):
        self.assertEqual(
            [s.id for s in self.client("plain").solves(status="failed")], ["l0a", "l0b", "l1a", "l1b", "l2a", "l2b"]
        )

    def test_scenarios(self):
        for mode in ("plain", "busy"):
            self.assertEqual(
                [s["id"] for s in self.client(mode).what_if({"base": INSTANCE, "scenarios": []})], ["more", "less"]
            )

    def test_simulations(self):
        ask = {"policies": ["srtf", "kueue"]}
        for mode in ("plain", "busy"):
            self.assertEqual(self.client(mode).simulate(ask).status.value, "deadline")
            self.assertEqual(
                [x["line"] for x in self.client(mode).follow_simulation(ask)], ["progress", "run", "summary"]
            )
        seen = []
        with self.assertRaises(Problem) as caught:
            seen.extend(self.client("cut").follow_simulation(ask))
        self.assertEqual((len(seen), caught.exception.status, caught.exception.code), (2, 422, "stalled"))
        with self.assertRaises(StreamBroken):
            list(self.client("half").follow_simulation(ask))

    def test_what_must_happen_once_is_sent_once(self):
        for mode in ("lossy", "proxy"):
            with self.subTest(mode):
                with self.assertRaises(HareError):
                    self.client(mode).create_session({"nodes": []})
                self.assertEqual(self.stats(mode)["calls"]["POST /v1/sessions"], 1)
        self.client("away", retries=0)

    def test_a_long_way_off(self):
        began = time.monotonic()
        with self.assertRaises(Problem) as caught:
            self.client("away").version()
        p = caught.exception
        self.assertEqual((p.status, p.code, p.retry_after, p.request_id), (503, "busy", 3600, "r1"))
        self.assertIn("told so (busy), request r1", str(p))
        self.assertLess(time.monotonic() - began, 5)

    def test_nobody_listens(self):
        with Hare("http://127.0.0.1:9", backoff=0.001, retries=1) as hare, self.assertRaises(HareError):
            hare.version()

    def test_no_tls_there_fails_at_once(self):
        hare = Hare(f"https{self.url.removeprefix('http')}/plain", backoff=60)
        self.addCleanup(hare.close)
        began = time.monotonic()
        with self.assertRaisesRegex(HareError, "SSL"):
            hare.solve(INSTANCE)
        self.assertLess(time.monotonic() - began, 20)

    def test_key(self):
        self.client("plain", key="hare_x").solve(INSTANCE)
        headers = self.stats("plain")["headers"]
        self.assertEqual(headers["authorization"], "Bearer hare_x")
        self.assertEqual(len(headers["idempotency-key"]), 32)
        for bad in ("ftp://x", "http://", "http://x?a=b", "http://u:p@x"):
            with self.assertRaises(ValueError):
                Hare(bad)
        with self.assertRaises(ValueError):
            Hare("http://hare.example", key="hare_x")


class Streams(unittest.TestCase):
    def test_chunks_do_not_matter(self):
        text = "retry: 1\n\n: x\nid: 7\r\nevent: a\r\ndata: {\r\ndata: é}\n\nid: 8\ndata:x".encode()
        whole = list(messages(iter([text]), 1000))
        self.assertEqual(whole, [(7, "a", "{\né}")])  # half an event counts for nothing
        self.assertEqual(list(messages((text[i : i + 1] for i in range(len(text))), 1000)), whole)

    def test_limits(self):
        for read in (lines, messages):
            with self.assertRaises(HareError):
                list(read(iter([b"data: " + b"x" * 50, b"x" * 60]), 100))


if __name__ == "__main__":
    unittest.main()
