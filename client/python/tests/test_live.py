"""The installed package against hare serve at HARE_URL."""

import json
import os
import unittest
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hare_client import EventRefused, Hare, Problem, Result, ScheduleRow
from hare_client.generated.api.keys import create_key, get_quota, list_keys, revoke_key
from hare_client.generated.api.server import version
from hare_client.generated.models import Event, Instance, KeyRequest

ROOT = Path(__file__).resolve().parents[3]

# The instance of README.md.
README = json.loads((ROOT / "client/conformance/readme.instance.json").read_text())
THREE = json.loads((ROOT / "testdata/examples/three-jobs.instance.json").read_text())

# An instance with the fields of clusters: job run holds a GPU until 5 s, and job train has only its
# second shape there, which takes 3 s of setup and 10 s a round, in all to 33 s.
CLUSTER = {
    "hare": "instance/v1",
    "objective": "jct_and_tardiness",
    "cluster": {
        "topology": ["rack"],
        "nodes": [{"name": "a", "gpus": {"A100": 2}, "cpus": 8, "memory_mib": 1024, "labels": {"rack": "r1"}}],
        "reservations": [{"nodes": {"rack": "r1"}, "until_s": 10, "users": ["ann"]}],
    },
    "quota": [{"user": "ann", "gpus": 2, "types": ["A100"]}],
    "jobs": [
        {
            "id": "run",
            "sync": "rigid",
            "on": {"A100": {"compute_s": 15}},
            "progress": {"gpus": ["a/0"], "elapsed_s": 10},
        },
        {"id": "prep", "sync": "rigid", "user": ["ann"], "on": {"A100": {"compute_s": 7}}},
        {
            "id": "train",
            "sync": "gang",
            "rounds": 4,
            "cpus_per_task": 4,
            "memory_mib_per_task": 512,
            "within": "rack",
            "only": {"rack": ["r1"]},
            "exclude": {"node": "b"},
            "user": "ann",
            "after": [{"job": "prep", "lag_s": 3}],
            "deadline_s": 23,
            "late_weight": 2,
            "shapes": [
                {"tasks": 4, "on": {"A100": {"compute_s": 1}}},
                {
                    "tasks": 2,
                    "counts": 2,
                    "on": {"A100": {"compute_s": 9, "sync_s": {"node": 1, "any": 2}, "switch_s": 3}},
                },
            ],
            "durations": [{"p": 0.5, "factor": 0.8}, {"p": 0.5, "factor": 1.2}],
        },
    ],
}

KEPT = "/v1/solves/{id}" in json.loads((ROOT / "openapi/openapi.json").read_text())["paths"]


class Live(unittest.TestCase):
    def setUp(self):
        self.hare = Hare(os.environ["HARE_URL"], key=os.environ.get("HARE_KEY"), insecure=True)
        self.addCleanup(self.hare.close)

    def test_readme(self):
        result = self.hare.solve(README)
        self.assertEqual((result.value, result.bound, result.gap), (30, 30, 0))
        self.assertEqual((result.status, result.termination), ("succeeded", "optimal"))
        self.assertEqual([job.id for job in result.jobs], ["bert"])
        # The model goes back as it came.
        self.assertTrue(self.hare.verify(README, result).ok)
        result.schedule.lanes[0].start_us[0] += 1
        report = self.hare.verify(README, result)
        self.assertFalse(report.ok)
        self.assertTrue(report.faults[0].constraint)

    def test_result_for_people(self):
        result = self.hare.solve(README)
        self.assertIsInstance(result, Result)
        self.assertEqual(
            str(result).splitlines()[:4],
            [
                "termination  optimal",
                "value        30 weight-seconds",
                "bound        30 weight-seconds",
                "gap          0: no plan is better",
            ],
        )
        self.assertTrue(str(result).splitlines()[4].startswith("jobs         1, the last ends at "))
        rows = list(result.schedule)
        self.assertEqual(rows, list(result.schedule.rows()))
        self.assertEqual({row.job for row in rows}, {"bert"})
        job = README["jobs"][0]
        self.assertEqual(sum(row.rounds * row.tasks for row in rows), job["rounds"] * job["tasks"])
        self.assertEqual(min(row.start_s for row in rows), 0)
        self.assertEqual(Result.from_dict(result.to_dict()), result)
        try:
            import pandas
        except ImportError:
            with self.assertRaisesRegex(ImportError, "pandas"):
                result.schedule.frame()
        else:
            frame = result.schedule.frame()
            self.assertIsInstance(frame, pandas.DataFrame)
            self.assertEqual(list(frame.columns), list(ScheduleRow._fields))
            self.assertEqual(list(frame.itertuples(index=False, name=None)), [tuple(row) for row in rows])
        bare = self.hare.solve(README, {"detail": "none"})
        self.assertIn("value        30", str(bare))
        wide = json.loads(json.dumps(README))
        wide["jobs"][0].update(sync="gang", tasks=99)
        none = str(self.hare.solve(wide))
        self.assertIn("termination  infeasible", none)
        self.assertIn("reason       /jobs/0", none)

    def test_fields_of_clusters(self):
        result = self.hare.solve(CLUSTER, {"bound": "critical_path"})
        self.assertTrue(self.hare.verify(CLUSTER, result).ok)
        # The model of an instance keeps every field.
        self.assertEqual(Instance.from_dict(CLUSTER).to_dict(), CLUSTER)
        deadlines, setups = result.metrics.deadlines, result.metrics.setups
        self.assertEqual((deadlines.jobs, deadlines.met, deadlines.tardiness_s), (1, 0, 10))
        self.assertEqual((setups.count, setups.time_s, result.constant, result.estimated), (2, 6, 5, True))
        text = str(result)
        for line in (
            "constant     5 weight-seconds more of running work, which no plan changes",
            "estimated    the figures are for the times as given; some durations are uncertain",
            "deadlines    0 of 1 met, 10 s late in total",
            "setups       2, which take 6 s of GPU time",
        ):
            self.assertIn(line, text)
        self.assertEqual({row.shape for row in result.schedule if row.job == "train"}, {1})
        try:
            import pandas  # noqa: F401
        except ImportError:
            pass
        else:
            self.assertIn("shape", result.schedule.frame().columns)
        makespan = self.hare.solve(CLUSTER, {"bound": "critical_path", "objective": "makespan"})
        self.assertIn("value        33 s\n", str(makespan))

    def test_session_on_nodes(self):
        s = self.hare.create_session({"nodes": [{"name": "a", "gpus": {"A100": 2}}]}, policy="fifo")
        job = {"user": "ann", "sync": "gang", "gpus_per_task": 2, "on": {"A100": {"compute_s": 5}}}
        events = [
            {"seq": 1, "at_s": 0, "type": "set_quota", "quota": {"user": "ann", "gpus": 2}},
            {"seq": 2, "at_s": 0, "type": "job_arrived", "job": job | {"id": "x"}},
            {"seq": 3, "at_s": 0, "type": "node_joined", "node": "b", "gpus": {"A100": 2}, "cpus": 8},
            {"seq": 4, "at_s": 0, "type": "job_arrived", "job": job | {"id": "y"}},
            {"seq": 5, "at_s": 1, "type": "set_quota", "quota": {"user": "ann", "gpus": 4}},
        ]
        answers = self.hare.apply(s.id, [Event.from_dict(e) for e in events])
        started = [[(d["job"], d["gpus"]) for d in a["decisions"]] for a in answers]
        self.assertEqual(started, [[], [("x", ["a/0", "a/1"])], [], [], [("y", ["b/0", "b/1"])]])
        self.hare.delete_session(s.id)

    def test_managed_cluster(self):
        """A job from its submission to its end, with the test as the agent of a node."""
        lab = f"lab-{os.getpid()}-{os.environ.get('HARE_KEY', '')[:4].lower() or 'open'}".replace("_", "-")
        self.assertEqual(self.hare.create_cluster(lab, policy="fifo").policy, "fifo")
        with self.assertRaises(Problem) as caught:
            self.hare.create_cluster(lab)
        self.assertEqual(caught.exception.code, "cluster_exists")
        job = self.hare.submit_job(lab, ["train", "--epochs", "3"], gpus=1, on={"T4": 0}, name="bert", key="one")
        again = self.hare.submit_job(lab, ["train", "--epochs", "3"], gpus=1, on={"T4": 0}, name="bert", key="one")
        self.assertEqual((job.id, job.state), (again.id, "waiting"))
        follow = self.hare.cluster_changes(lab)
        first = next(follow)
        self.assertTrue(first.reset)
        later = self.hare.submit_job(lab, ["true"])
        held = self.hare.change_job(lab, later.id, hold=True, labels={"team": "a", "x": None}, reason="night")
        self.assertEqual((held.reason_code, held.labels["team"], held.changes[0].reason), ("held", "a", "night"))
        with self.assertRaises(Problem) as caught:
            self.hare.preview_change(lab, later.id, weight=3)
        self.assertEqual(caught.exception.code, "no_plan")
        self.hare.cancel_job(lab, later.id)
        gone = self.hare.cluster_changes(lab, after=first.seq)
        while (change := next(gone)).removed != [later.id]:
            self.assertFalse(change.reset)
        history = self.hare.cluster_history(lab, since=datetime.now(UTC) - timedelta(hours=1))
        self.assertEqual((history[-1].waiting_gpus > 0, history[-1].started), (True, 0))
        with self.assertRaises(Problem) as caught:
            list(self.hare.job_log(lab, job.id))
        self.assertEqual(caught.exception.code, "not_started")
        with self.assertRaises(TimeoutError):
            self.hare.wait_job(lab, job.id, timeout=0.2)
        with self.assertRaises(Problem) as caught:
            self.hare.submit_job(lab, [])
        self.assertEqual(caught.exception.errors[0]["pointer"], "/command")

        secret = {}

        def post(path, kind="application/json", **more):
            headers = {**secret, "Content-Type": kind}
            return self.hare._call("POST", f"/v1/clusters/{lab}/agents{path}", headers=headers, **more).json()

        me = {"protocol": 4, "version": "test", "name": "n1", "incarnation": "0123456789abcdef"}
        registered = post("", json={**me, "devices": [{"type": "T4"}]})
        epoch, secret = registered["epoch"], {"Hare-Agent-Secret": registered["secret"]}
        sync = {"epoch": epoch, "wait_s": 2, "reports_after": 0, "orders_seen": 0}
        orders = []
        while not orders:
            orders = post("/n1/sync", json=sync).get("orders", [])
        task = {name: orders[0][name] for name in ("job", "attempt", "task")}
        self.assertEqual(orders[0]["start"]["command"], ["train", "--epochs", "3"])
        at = {**task, "epoch": epoch, "stream": "stdout"}
        octets = "application/octet-stream"
        post("/n1/logs", params={**at, "offset": 0}, kind=octets, content=b"epoch 1\n")
        follow = self.hare.job_log(lab, job.id, follow=True)
        self.assertEqual(next(follow), b"epoch 1\n")
        self.assertEqual([a.state for a in self.hare.drain(lab, "n1", "new fans")], ["draining"])
        post("/n1/logs", params={**at, "offset": 8}, kind=octets, content=b"epoch 2\n")
        report = {**task, "state": "ended", "exit_code": 0}
        post("/n1/sync", json={**sync, "wait_s": 0, "orders_seen": orders[0]["number"], "reports": [report]})
        self.assertEqual(b"".join(follow), b"epoch 2\n")
        self.assertEqual(b"".join(self.hare.job_log(lab, job.id, offset=8)), b"epoch 2\n")
        self.assertEqual(self.hare.wait_job(lab, job.id, timeout=60).state, "succeeded")
        self.assertEqual([a.state for a in self.hare.agents(lab)], ["drained"])
        self.assertEqual([a.state for a in self.hare.undrain(lab, "n1")], ["ready"])
        self.assertEqual([j.name for j in self.hare.cluster_jobs(lab, "succeeded")], ["bert"])
        self.assertEqual(self.hare.cancel_job(lab, job.id).state, "succeeded")
        self.assertEqual(self.hare.cluster(lab).free_gpus, 1)
        self.assertIn(lab, [c.name for c in self.hare.clusters()])
        self.hare.delete_cluster(lab)
        with self.assertRaises(Problem):
            self.hare.cluster(lab)

    def test_plan_again(self):
        first = self.hare.solve(README)
        again = self.hare.solve(README, previous=first, at_s=5, stability=0.5)
        self.assertNotEqual(again.instance_sha256, first.instance_sha256)  # of what is left
        self.assertIsNotNone(again.value)

    def test_bound(self):
        b = self.hare.bound(Instance.from_dict(README), "critical_path")
        self.assertEqual((b.bound, b.certified, b.certificate.bound), (30, True, "30.000000"))

    def test_pointers(self):
        wrong = json.loads(json.dumps(README))
        wrong["jobs"][0]["weight"] = -3
        with self.assertRaises(Problem) as caught:
            self.hare.solve(wrong, {"gap": 7})
        p = caught.exception
        self.assertEqual((p.status, p.code), (422, "out_of_range"))
        self.assertEqual([e["pointer"] for e in p.errors], ["/instance/jobs/0/weight", "/options/gap"])
        self.assertTrue(p.request_id)

    def test_generated_operations(self):
        self.assertEqual(version.sync(client=self.hare.api).to_dict(), self.hare.version())

    def test_session(self):
        s = self.hare.create_session(README["cluster"], policy="fifo")
        events = [
            {"seq": 1, "at_s": 0, "type": "job_arrived", "job": {"id": "bert", "on": {"V100": {}}}},
            {"seq": 2, "at_s": 1, "type": "tick"},
        ]
        answers = self.hare.apply(s.id, events)
        self.assertEqual([d["gpu"] for d in answers[0]["decisions"]], ["a/0"])
        self.assertEqual(self.hare.apply(s.id, events), answers)  # recorded
        with self.assertRaises(EventRefused) as caught:
            self.hare.apply(s.id, [{"seq": 9, "at_s": 2, "type": "tick"}])
        self.assertEqual(caught.exception.expected, 3)
        self.assertTrue(next(self.hare.session_changes(s.id)).reset)
        follow = self.hare.decisions(s.id, after=1)
        self.assertEqual(next(follow), answers[1])
        follow.close()
        self.assertEqual(self.hare.session(s.id).last_seq, 2)
        regret = self.hare.regret(s.id, against="srtf")
        self.assertEqual((regret.jobs.running, regret.against.policy, regret.against.stalled), (1, "srtf", 0))
        with self.assertRaises(Problem) as refused:
            self.hare.regret(s.id, against="srft")
        self.assertIn("Use one of", refused.exception.detail)
        self.assertIn(s.id, [x.id for x in self.hare.sessions()])
        with self.assertRaises(Problem) as caught:
            self.hare.session_plan(s.id)
        self.assertEqual(caught.exception.code, "no_plan")
        self.hare.delete_session(s.id)
        with self.assertRaises(Problem):
            self.hare.session(s.id)

    def test_session_plan(self):
        s = self.hare.create_session(README["cluster"])
        self.assertEqual((s.policy, self.hare.session(s.id).planning.state), ("rolling", "idle"))
        self.assertEqual(self.hare.session_plan(s.id).fallback, "hgittins")
        job = {"id": "bert", "on": {"V100": {"compute_s": 2}}}
        self.hare.apply(s.id, [{"seq": 1, "at_s": 0, "type": "job_arrived", "job": job}])
        plan = self.hare.session_plan(s.id)
        self.assertEqual([(x.job, x.running, x.types) for x in plan.jobs], [("bert", True, ["V100"])])
        self.assertEqual(plan.jobs[0].earliest_end_s, 2 * plan.jobs[0].rounds_left)
        asked = self.hare.preview_session_job(s.id, {**job, "id": "new"})
        self.assertGreaterEqual(asked.expected_end_in_s, asked.earliest_end_in_s)
        self.hare.delete_session(s.id)

    def test_meaning(self):
        hare = self.hare
        id = hare.wait(hare.submit(THREE, {"seed": 11, "work_limit": 2000}).id).id
        listed = hare.jobs(id, sort="end", limit=2)
        self.assertEqual((listed.count, len(listed.jobs)), (3, 2))
        self.assertLessEqual(listed.jobs[0].end_s, listed.jobs[1].end_s)
        last = max(hare.result(id).jobs, key=lambda job: job.end_s)
        why = hare.explain(id, last.id, earlier_s=0.5, time_limit_s=5)
        self.assertEqual((why.outcome, why.end_s, why.timeline[-1].to_s), ("scheduled", last.end_s, last.end_s))
        self.assertEqual(why.earlier.by_s, last.end_s - 0.5)
        prices = hare.prices(id)
        self.assertEqual(len(prices.grid_s), len(prices.types[0].prices) + 1)
        with self.assertRaises(Problem) as caught:
            hare.explain(id, "ver/t")
        self.assertEqual(caught.exception.code, "no_such_job")
        lines = list(
            hare.what_if({"base": {"solve_id": id}, "scenarios": [{"id": "x", "drain": {"node": "b", "at_s": 9}}]})
        )
        self.assertEqual([line["line"] for line in lines], ["base", "scenario", "summary"])
        kept = next(hare.what_ifs())
        self.assertEqual(hare.kept_what_if(kept.id), lines)
        hare.delete_what_if(kept.id)
        self.assertNotIn(kept.id, [report.id for report in hare.what_ifs()])
        self.assertTrue(hare.schedule(id, "text/csv").startswith(b"gpu,type,job,"))
        self.assertEqual(
            len(hare.schedule(id, "application/x-ndjson").splitlines()) - 1, len(hare.result(id).schedule.lanes)
        )

    def test_capacity(self):
        ask = {"instance": THREE, "options": ["V100=2"], "weeks": 2, "days": 1, "time_limit_s": 20}
        report = self.hare.capacity(ask)
        self.assertEqual([row.option for row in report.rows], ["as it is", "V100=2"])
        lines = list(self.hare.follow_capacity({**ask, "name": "night", "labels": {"team": "vision"}}))
        self.assertEqual((lines[0]["line"], lines[-1]["line"]), ("progress", "report"))
        self.assertEqual(lines[-1]["report"]["decision"], report.decision)
        kept = next(self.hare.capacity_plans(q="night", label=["team=vision"]))
        self.assertEqual(self.hare.kept_capacity(kept.id), report)
        self.hare.delete_capacity(kept.id)
        self.assertNotIn(kept.id, [x.id for x in self.hare.capacity_plans()])
        with self.assertRaises(Problem) as caught:
            self.hare.capacity({**ask, "options": ["V100=2", "more"]})
        self.assertEqual(caught.exception.errors[0]["pointer"], "/options/1")

    def test_simulations(self):
        ask = {"policies": ["srtf", "kueue"], "instance": THREE, "repeat": 2, "detail": "jobs"}
        report = self.hare.simulate(ask)
        self.assertEqual(
            [(r.policy, r.seed, r.verified) for r in report.runs],
            [(p, n, True) for p in ("srtf", "kueue") for n in (0, 1)],
        )
        self.assertEqual(max(job.end_s for job in report.runs[0].each), report.runs[0].makespan_s)
        self.assertEqual(report.means[1].figures["mean_jct_s"].mean, report.runs[2].mean_jct_s)
        lines = list(self.hare.follow_simulation({**ask, "name": "night", "labels": {"team": "vision"}}))
        kept = next(self.hare.simulations(q="night", label=["team=vision"]))
        self.assertEqual(self.hare.kept_simulation(kept.id).runs, report.runs)
        self.hare.delete_simulation(kept.id)
        self.assertNotIn(kept.id, [x.id for x in self.hare.simulations()])
        runs = [line["run"]["mean_jct_s"] for line in lines if line["line"] == "run"]
        self.assertEqual(runs, [run.mean_jct_s for run in report.runs])
        with self.assertRaises(Problem) as caught:
            self.hare.simulate({**ask, "policies": ["srft"]})
        self.assertEqual(caught.exception.errors[0]["pointer"], "/policies/0")
        elastic = {"policies": ["pollux:tiresias"], "trace": {"name": "pollux_workload_6.csv"}, "interval_s": 3600}
        self.assertEqual(self.hare.simulate(elastic).runs[0].engine, "elastic")
        with self.assertRaises(Problem) as caught:
            self.hare.simulate({**elastic, "interval_s": 0.5, "prices": {"T4": -1}})
        self.assertEqual([e["pointer"] for e in caught.exception.errors], ["/interval_s", "/prices/T4"])

    @unittest.skipUnless(os.environ.get("HARE_KEY"), "no keys")
    def test_keys(self):
        api = self.hare.api
        made = create_key.sync(client=api, body=KeyRequest.from_dict({"role": "read", "note": "of a test"}))
        with Hare(os.environ["HARE_URL"], key=made.key) as reader:
            with self.assertRaises(Problem) as caught:
                reader.solve(README)
            self.assertEqual((caught.exception.status, caught.exception.code), (403, "forbidden"))
        self.assertIn(made.id, [key.id for key in list_keys.sync(client=api).keys])
        self.assertEqual(get_quota.sync(client=api).tenant, made.tenant)
        self.assertEqual(revoke_key.sync_detailed(made.id, client=api).status_code, 204)
        with Hare(os.environ["HARE_URL"], key=made.key) as reader, self.assertRaises(Problem) as caught:
            reader.session("x")
        self.assertEqual(caught.exception.status, 401)

    @unittest.skipUnless(KEPT, "the specification has no asynchronous solves")
    def test_kept_solves(self):
        hare, seen = self.hare, []
        result = hare.solve(README, {"seed": 3}, key="python-" + os.urandom(8).hex(), progress=seen.append)
        self.assertEqual(result.value, 30)
        self.assertEqual([e.id for e in seen], list(range(1, len(seen) + 1)))
        self.assertEqual(seen[-1].type, "done")
        solve = hare.submit(THREE, {"time_limit_s": 60, "gap": 0})
        cancelled = hare.cancel(solve.id)
        self.assertEqual(cancelled.id, solve.id)
        ended = hare.wait(solve.id, timeout=30)
        self.assertTrue(ended.done)
        again = [e.id for e in hare.events(solve.id, after=1)]
        self.assertEqual(again, list(range(2, 2 + len(again))))
        self.assertIn(solve.id, [s.id for s in hare.solves()])
        hare.delete(solve.id)
        with self.assertRaises(Problem) as caught:
            hare.get(solve.id)
        self.assertIn(caught.exception.status, (404, 410))


if __name__ == "__main__":
    unittest.main()
