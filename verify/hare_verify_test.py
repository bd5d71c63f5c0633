"""Tests of hare_verify.py, standard library alone:

python3 -m unittest discover -s verify -p '*test*.py'
"""

import contextlib
import copy
import gzip
import io
import json
import os
import random
import sys
import tempfile
import time
import unittest
from fractions import Fraction
from unittest import mock

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import hare_verify as hv  # noqa: E402

DATA = os.path.join(os.path.dirname(HERE), "testdata")
EXAMPLES = {  # value, bound (testdata/examples/README.md), SHA-256 of the canonical form
    "three-jobs": ("1553/25", "63078343/1105000", "53fb7919dceb05845a4829cdc92a6831ecb9ea026977ee1ab80d723eb409967f"),
    "windows": ("517/8", "75229/2000", "c63b009f9281248f49e78e30c0a6ceb2d329fbb792a76b6d96d5445277244349"),
    "traps": ("5857/80", "19459681/462000", "45449571d31a2f4ae444fff8108fdf80907e41bcbcfdc229bce531349075110d"),
}


def load(*path):
    with open(os.path.join(DATA, *path), encoding="utf-8") as f:
        return json.load(f)


def example(name):
    return load("examples", name + ".instance.json"), load("examples", name + ".result.json")


def instance(doc):
    return hv.Instance(hv.documents(json.dumps(doc)))


def check(inst, doc):
    """(faults, value, bound) of a result; inst is decoded, doc is not."""
    faults, value, bound = hv.verify(inst, hv.Result(hv.documents(json.dumps(doc))))
    return faults, value, bound and Fraction(*bound)


def bound_of(inst_doc, certificate):
    c = hv.Certificate(hv.documents(json.dumps(certificate))[0], "")
    return Fraction(*hv.bound_of(instance(inst_doc), c))


def price(grid, prices, path=True, **more):
    c = {
        "hare": "certificate/v1",
        "method": "price",
        "path": path,
        "objective": "weighted_jct",
        "grid_us": grid,
        "prices": prices,
    }
    c.update(more)
    return c


def cluster(windows=None, **gpus):
    node = {"name": "n", "gpus": gpus}
    if windows:
        node["in_service_s"] = windows
    return {"nodes": [node]}


def one_job(cluster_doc, **job):
    job.setdefault("id", "x")
    return {"hare": "instance/v1", "cluster": cluster_doc, "jobs": [job]}


def main(*argv, stdin=b""):
    """(exit code, standard output, standard error) of the command line."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        with mock.patch("sys.stdin", mock.Mock(buffer=io.BytesIO(stdin))):
            code = hv.main(list(argv))
    return code, out.getvalue(), err.getvalue()


class Examples(unittest.TestCase):
    def test_figures(self):
        for name, (value, bound, sha) in EXAMPLES.items():
            inst_doc, res = example(name)
            inst = instance(inst_doc)
            faults, v, b = check(inst, res)
            self.assertEqual((faults, str(v), str(b), inst.sha256()), ([], value, bound, sha), name)

    def test_prices_of_instances(self):
        for name, want in (("standard-200", "45433.127949"), ("arrivals-200", "26514.455543")):
            base = os.path.join(DATA, "instances", name)
            code, out, _ = main("--bound-only", "--json", base + ".json.gz", base + ".prices.json")
            self.assertEqual((code, json.loads(out)["bound"]), (0, want))

    def test_by_hand(self):
        base = os.path.join(DATA, "by-hand")
        if not os.path.isdir(base):
            self.skipTest("no testdata/by-hand")
        with open(os.path.join(base, "result.json"), encoding="utf-8") as f:
            stated = json.load(f)
        code, out, _ = main("--json", os.path.join(base, "instance.json"), os.path.join(base, "result.json"))
        self.assertEqual((code, json.loads(out)["bound"]), (0, stated["certificate"]["bound"]))

    def test_readme_says_what_stating_more_is(self):
        inst, res = example("traps")
        res["certificate"]["bound"] = "42.120522"
        res["bound"] = 42.120522
        faults, _, _ = check(instance(inst), res)
        self.assertEqual([f["constraint"] for f in faults], ["bound"])
        res["bound"], res["certificate"]["bound"], res["gap"] = 42, "42.120000", 0.743155
        self.assertEqual(check(instance(inst), res)[0], [])


def steps_of(inst, j, c):
    cost = hv.Cost(j.weight, j.late, j.deadline) if j.late else hv.Cost(j.weight)
    shape = j.shapes[0]
    return hv.Steps.of(inst, j, shape, c, cost, lambda kind: hv.class_prices(inst, c, j, shape, kind, tasks=1))


class Bounds(unittest.TestCase):
    """Single jobs whose bound is found on paper, most of them on one GPU."""

    def test_path_and_idle(self):
        inst = one_job(cluster(A=1), rounds=3, on={"A": {"compute_s": 2, "sync_s": 1}})
        for method in ("critical_path",):
            self.assertEqual(
                bound_of(inst, {"hare": "certificate/v1", "method": method, "objective": "weighted_jct"}), 9
            )
        # Free prices: only the path counts.
        self.assertEqual(bound_of(inst, price([0, 10**6], {})), 9)

    def test_release_between_grid_points(self):
        # Price 1 on [0, 4); a = 1.5; R d = 1: with π = 1 = w either waits or pays.
        inst = one_job(cluster(A=1), release_s=1.5, on={"A": {"compute_s": 1}})
        p = price([0, 4 * 10**6], {"A": [10**9]}, path=False)
        # Now: 1.5 + 1 + 1, less the capacity 4 and the release 1.5.
        self.assertEqual(bound_of(inst, p), Fraction(5, 2) + 1 - 4 - Fraction(3, 2))

    def test_capacity_inside_cells(self):
        inst = one_job(cluster([[0, 1], [3, None]], A=2), on={"A": {"compute_s": 1}}, sync="rigid")
        p = price([0, 2 * 10**6, 4 * 10**6], {"A": [10**9, 10**9]})
        # M is 2 on [0, 1) and [3, 4): 4 GPU-seconds at 1; the job ends at 1 and pays 1.
        self.assertEqual(bound_of(inst, p), 2 - 4)

    def test_trailing_minimum_over_many_cells(self):
        # s = 5 s looks back over five cells to the free one at [0, 1).
        inst = one_job(cluster(A=1), on={"A": {"compute_s": 1, "sync_s": 5}})
        grid = [i * 10**6 for i in range(7)]
        p = price(grid, {"A": [0] + [10**9] * 5}, path=True)
        # P = 6, the job is free on [0, 6): 6, less 5 of capacity.
        self.assertEqual(bound_of(inst, p), 1)
        # As a gang it holds the GPU for d and pays 5 of its 6 seconds, or waits for [6, 12):
        # a round in [0, 6) costs 5 and C = P.
        inst["jobs"][0]["sync"] = "gang"
        self.assertEqual(bound_of(inst, p), 6 + 5 - 5)

    def test_types_mix_in_an_interval(self):
        # On [0, 3): A is fast and dear, B slow and cheap; 2 rounds by P need a mixture.
        inst = one_job(cluster(A=1, B=1), rounds=2, tasks=1, on={"A": {"compute_s": 1}, "B": {"compute_s": 2}})
        p = price([0, 3 * 10**6], {"A": [9 * 10**8], "B": [10**8]}, path=False)
        # w = 1 a second; per round A costs 1 + 0.9, B 2 + 0.2: A alone, C = 2.
        self.assertEqual(bound_of(inst, p), 2 + Fraction(18, 10) - 3)
        # A last piece of [0, 3) filled whole at weight 0: x of A, 3 − x of B, x + (3 − x)/2 = 2 at x = 1.
        inst["jobs"][0]["weight"] = 0
        p = price([0, 3 * 10**6, 100 * 10**6], {"A": [9 * 10**8, 10**10], "B": [10**8, 10**10]}, path=False)
        dearer = 9 * Fraction(1, 10) + 2 * Fraction(1, 10)
        capacity = 3 + 97 * 20
        # but after 100 s all is free, and waiting costs nothing
        self.assertEqual(bound_of(inst, p), -capacity)
        inst["jobs"][0]["weight"] = 1
        # with w = 1: [0, 3) as the last piece; A alone (2 + 1.8) beats the mixture (3 + 1.1).
        self.assertEqual(bound_of(inst, p), min(Fraction(38, 10), 3 + dearer) - capacity)

    def test_narrow_types_take_part(self):
        # Two tasks a round and one B: B takes part in φ though it never holds a gang.
        inst = one_job(cluster(A=2, B=1), tasks=2, sync="gang", on={"A": {"compute_s": 3}, "B": {"compute_s": 1}})
        self.assertEqual(bound_of(inst, price([0, 10**6], {}, path=False)), 1)
        self.assertEqual(bound_of(inst, price([0, 10**6], {}, path=True)), 3)

    def test_pieces_after_the_horizon(self):
        inst = one_job(cluster(A=1), on={"A": {"compute_s": 10}})
        # All of [0, 1) is dearer than waiting: from H on it is free.
        self.assertEqual(bound_of(inst, price([0, 10**6], {"A": [10**12]}, path=False)), 11 - 1000)

    def test_machine(self):
        inst = {
            "hare": "instance/v1",
            "cluster": cluster(A=1),
            "jobs": [
                {"id": "x", "weight": 1, "on": {"A": {"compute_s": 2}}},
                {"id": "y", "weight": 3, "release_s": 1, "on": {"A": {"compute_s": 1}}},
            ],
        }
        c = {"hare": "certificate/v1", "method": "machine", "objective": "weighted_jct"}
        # x runs in [0, 1) and [2, 3): mean 1.5, plus 1; y: 1.5 plus 0.5, less its release.
        self.assertEqual(bound_of(inst, c), Fraction(5, 2) + 3 * (2 - 1))
        inst["cluster"] = cluster(A=2)
        # At speed 2: x in [0, 1) whole: 0.5 + 0.5; y in [1, 1.5): 1.25 + 0.25.
        self.assertEqual(bound_of(inst, c), 1 + 3 * Fraction(1, 2))

        # A relaxed job ends its synchronisation, at least the least of any type, later.
        inst = one_job(cluster(A=1, B=1), on={"A": {"compute_s": 1, "sync_s": 3}, "B": {"compute_s": 4, "sync_s": 2}})
        self.assertEqual(bound_of(inst, c), Fraction(1, 4) + Fraction(1, 4) + 2)

    def test_rigid_blocks_at_every_start(self):
        rng = random.Random(2)
        for _ in range(600):
            grid = sorted({0}.union(rng.sample(range(1, 40), rng.randint(1, 6))))
            row = [rng.choice((0, 2000, 10**5, rng.randrange(5000))) for _ in grid[1:]]
            doc = {
                "id": "x",
                "weight": rng.choice((0, 1e-6, 2e-6)),
                "release_s": rng.choice((0, 5e-6)),
                "rounds": rng.randint(1, 9),
                "tasks": 2,
                "sync": "rigid",
                "on": {"A": {"compute_s": 1}},
            }
            j = hv.Job(hv.documents(json.dumps(doc))[0], "")
            d, path = rng.randint(1, 5), j.release + rng.randint(0, 30)
            priced = [next((x for a, b, x in zip(grid, grid[1:], row) if a <= t < b), 0) for t in range(200)]
            late, deadline = rng.choice((0, 1, 5 * 10**6)), rng.randint(0, 60)
            want = min(
                1000 * (j.weight * end + late * max(0, end - deadline)) + 2 * sum(priced[end - j.rounds * d : end])
                for end in range(j.release + j.rounds * d, 160)
                if end >= path
            )
            cost = hv.Cost(j.weight, late, deadline)
            self.assertEqual(hv.rigid_phi(cost, j.release, path, grid, j.rounds * d, [2 * x for x in row]), want)

    def test_the_infinite_piece_takes_no_large_price(self):
        # [0, 4) is dear; the piece from 4 on is best, but μ = 100.5 says the contrary
        # to who forgets that the last piece is infinite.
        j = hv.Job({"id": "x", "on": {"A": {"compute_s": 1}}}, "")

        class Misled(hv.Fluid):
            def sweep(self):
                mu = (201 * 10**15, 2)
                return {0: (0.0, mu), 1: (1.0, mu)}

        for kind in (hv.Fluid, Misled):
            f = kind(j, hv.Cost(j.weight), 0, 0, [0, 4 * 10**6], [(10**6, 0, [100 * 10**9])])
            self.assertEqual(Fraction(*f.least()), 5 * 10**15)

    def test_refused(self):
        inst = one_job(cluster(A=1), on={"A": {"compute_s": 1}})
        for c in (
            price([0], {}),
            price([1, 2], {}),
            price([0, 5, 5], {}),
            price([0, 5], {"A": [1, 2]}),
            price([0, 5], {"a": [1]}),
            price([0, 5], {"A": [1]}, method="queyranne"),
            price([0, 5], {"A": [1]}, method="machine"),
            price([], {}, method="machine", step_us=1),
            price([0, 5], {}, step_us=2),
            price([0, 5], {}, sizes={"a": {"2": [1]}}),
            price([0, 5], {}, sizes={"A": {"2": [1, 2]}}),
        ):
            with self.assertRaises(hv.Refused, msg=c):
                bound_of(inst, c)
        for c in (
            price([], {}, method="critical_path", sizes={"A": {"2": []}}),
            price([0, 5], {"A": [-1]}),
            price([0, 5], {"A": [0.5]}),
            price([0, 5], {"A": [1]}, path=1),
            price([0, 5], {}, extra=1),
            price([0, 5], {}, step_us=0),
            price([0, 5], {}, step_us=0.5),
            price([0, 5], {}, sizes=[]),
            price([0, 5], {}, sizes={"A": [1]}),
            *(price([0, 5], {}, sizes={"A": {k: [1]}}) for k in ("1", "02", "+2", "2.0", "", "1048577", "9" * 30)),
            *(price([0, 5], {}, sizes={"A": {"2": [x]}}) for x in (-1, 0.5, 2**53 + 1, None)),
        ):
            with self.assertRaises(hv.Bad, msg=c):
                bound_of(inst, c)
        with self.assertRaises(hv.Refused):  # wider than the cluster
            bound_of(one_job(cluster(A=1), sync="gang", tasks=2, on={"A": {"compute_s": 1}}), price([0, 5], {}))

    def test_gangs_do_not_fill_every_gap(self):
        # Six GPUs hold one gang of four, so the gangs end at 1 and 2.
        gang = {"sync": "gang", "tasks": 4, "on": {"A": {"compute_s": 1}}}
        second, quarter, one = [0, 10**6], {"A": [25 * 10**7]}, {"A": {"4": [10**9]}}
        two = {"hare": "instance/v1", "cluster": cluster(A=6), "jobs": [dict(gang, id="x"), dict(gang, id="y")]}
        self.assertEqual(bound_of(two, price(second, quarter)), Fraction(5, 2))
        self.assertEqual(bound_of(two, price(second, {}, sizes=one)), 3)
        self.assertEqual(bound_of(two, price(second, quarter, sizes=one)), Fraction(5, 2))
        # A relaxed job of two tasks, by single GPUs, fills up; the optimum is 1 + 1 + 2.
        two["jobs"].append({"id": "z", "tasks": 2, "on": {"A": {"compute_s": 1}}})
        self.assertEqual(bound_of(two, price(second, quarter, sizes=one)), 4)
        # A gang that mixes pays single GPUs, which are free here: 1 and nothing.
        mixing = one_job(cluster(A=6), **dict(gang, mix=True))
        self.assertEqual(bound_of(mixing, price(second, {}, sizes=one)), 1 - 1)
        # A rigid block of 2 s pays both at once for [0, 3), or waits for 3.
        rigid = one_job(cluster(A=3), sync="rigid", tasks=2, rounds=2, on={"A": {"compute_s": 1}})
        for q, phi in ((1, 4), (4, 5)):
            self.assertEqual(bound_of(rigid, price([0, 3 * 10**6], {}, sizes={"A": {"2": [q * 10**9]}})), phi - 3 * q)
        # M is 6 on [0, 1) and 3 on [1, 2): four are there for a second.
        dip = one_job(cluster(A=3), weight=0, on={"A": {"compute_s": 1}})
        dip["cluster"]["nodes"].append({"name": "m", "gpus": {"A": 3}, "in_service_s": [[0, 1]]})
        self.assertEqual(bound_of(dip, price([0, 2 * 10**6], {}, sizes=one)), -1)

    def test_dearest_patterns(self):
        def tried(m, goods):
            return max([price + tried(m - k, goods) for k, price in goods if k <= m] + [0])

        rng = random.Random(3)
        for _ in range(150):
            goods = [
                (k, rng.choice((0, 1, 2**60, rng.randrange(100)))) for k in rng.sample(range(1, 6), rng.randint(1, 3))
            ]
            counts = set(rng.sample(range(16), 4))
            self.assertEqual(hv.dearest(goods, counts), {m: tried(m, goods) for m in counts}, goods)
        # Far beyond where the table ends.
        self.assertEqual(hv.dearest([(1, 2), (3, 7), (1000, 1)], [2**20]), {2**20: 349525 * 7 + 2})

    def test_relaxed_rounds_one_by_one(self):
        # Two rounds of eight tasks of 1 s on two GPUs take 4 s each. At price q on [0, 4)
        # the first pays 8 q, or starts at 1 and reaches the free slot at 4.
        inst = one_job(cluster(A=2), rounds=2, tasks=8, on={"A": {"compute_s": 1}})
        grid, late = [0, 4 * 10**6], copy.deepcopy(inst)
        between = copy.deepcopy(inst)
        late["jobs"][0]["release_s"], between["jobs"][0]["release_s"] = 5, 0.5
        for doc, q, step, want in (
            (inst, 10**9, None, 8 - 8),
            (inst, 10**9, 10**6, 9 - 8),
            (inst, 10**9, 5 * 10**5, 9 - 8),
            (inst, 10**9, 4 * 10**6, 8 - 8),
            (inst, 10**9 // 16, 10**6, 8),
            (inst, 10**9 // 16, None, Fraction(15, 2)),
            (inst, 0, 10**6, 8),
            (late, 0, 10**6, 8),
            (between, 10**9, 10**6, 9 - 8 - Fraction(1, 2)),  # as from 0
        ):
            c = price(grid, {"A": [q]}, **({"step_us": step} if step else {}))
            self.assertEqual(bound_of(doc, c), want, (q, step))
        # Two tasks on A and one on B take 4 s; all slots cost 2 or 1.5.
        inst = one_job(cluster(A=1, B=1), tasks=3, on={"A": {"compute_s": 2}, "B": {"compute_s": 3, "sync_s": 1}})
        c = price([0, 12 * 10**6], {"A": [10**9], "B": [5 * 10**8]}, step_us=10**6)
        self.assertEqual(bound_of(inst, c), Fraction(19 - 36, 2))
        # At the first level, 4 s, A holds all eight tasks and B none: slots start by 3, not by 5.
        inst = one_job(
            cluster(A=2, B=8), rounds=2, tasks=8, on={"A": {"compute_s": 1}, "B": {"compute_s": 1, "sync_s": 6}}
        )
        self.assertEqual(bound_of(inst, price(grid, {"A": [10**9]}, step_us=10**6)), 9 - 8)
        # One task on each of two types, though A would hold both: 2 + 1 − 7, not 2 + 2 − 7.
        inst = one_job(cluster(A=1, B=1), tasks=2, on={"A": {"compute_s": 1}, "B": {"compute_s": 2}})
        c = price([0, 10**6, 2 * 10**6, 4 * 10**6], {"A": [2 * 10**9, 10**9, 2 * 10**9]}, step_us=10**6)
        self.assertEqual(bound_of(inst, c), 2 + 1 - 7)

    def test_the_recursion_to_the_letter(self):
        def literal(j, c, modes, tau):
            K, w, H, release = j.tasks, 1000 * j.weight, c.grid[-1], j.release - j.release % c.step
            path = release + (j.rounds * tau if c.path else 0)
            late = -(-(j.deadline or 0) // c.step) * c.step  # rounded up
            modes = [
                (
                    m,
                    p,
                    s,
                    s + p * -(-K // m),
                    [
                        sum(x * max(0, min(t, b) - a) for a, b, x in zip(c.grid, c.grid[1:], c.prices.get(k, [0] * 9)))
                        for t in range(2 * H + 60)
                    ],
                )
                for m, p, s, k, _, _ in modes
            ]
            count = lambda mode, D: max(0, min(K, mode[0] * ((D - mode[2]) // mode[1])))
            levels = sorted({i * p + s for m, p, s, _, _ in modes for i in range(1, -(-K // m) + 1)})
            enough = lambda D: sum(count(mode, D) for mode in modes) >= K
            levels = [D for D in levels if enough(D)]
            lengths = [D for D in range(tau, levels[-1], c.step) if enough(D)]
            slot = lambda mode, x, end: min(
                mode[4][v + mode[1]] - mode[4][v] for v in range(x, end - mode[2] - mode[1] + 1, c.step)
            )
            known = {}

            def V(r, x):
                if r == 0 or x >= H:
                    end = max(path, x + r * tau)
                    return w * end + (1000 * j.late * max(0, end - late) if j.late else 0)
                if (r, x) not in known:
                    ways = [V(r, x + c.step)] + [
                        K * slot(mode, x, x + mode[3]) + V(r - 1, x + mode[3]) for mode in modes
                    ]
                    for D in lengths:
                        if not any(0 < count(mode, D) < K for mode in modes):
                            continue
                        cost, left = 0, K
                        for q, n in sorted((slot(mode, x, x + D), count(mode, D)) for mode in modes if count(mode, D)):
                            cost, left = cost + q * min(left, n), left - min(left, n)
                        ways.append(cost + V(r - 1, x + D))
                    known[r, x] = min(ways)
                return known[r, x]

            return V(j.rounds, release)

        rng = random.Random(5)
        better = 0
        for case in range(400):
            step = rng.randint(1, 3)
            grid = [0]
            for _ in range(rng.randint(1, 5)):
                grid.append(grid[-1] + step * rng.randint(1, 4))
            kinds = "ABC"[: rng.randint(1, 3)]
            us = lambda n: n * step / 10**6
            doc = one_job(
                cluster(**{k: rng.randint(1, 3) for k in kinds}),
                weight=rng.choice((0, 1e-6, 3e-6)),
                release_s=rng.randint(0, 12 * step) / 10**6,
                rounds=rng.randint(1, 4),
                tasks=rng.randint(1, 8),
                on={k: {"compute_s": us(rng.randint(1, 3)), "sync_s": us(rng.randint(0, 4))} for k in kinds},
            )
            if case % 3 == 0:
                doc["objective"] = "jct_and_tardiness"
                late = rng.choice((1e-6, 2e-6))
                doc["jobs"][0].update(deadline_s=rng.randint(1, 30 * step) / 10**6, late_weight=late)
            top = rng.choice((10, 300, 3000))
            c = price(
                grid,
                {k: [rng.randint(0, top) for _ in grid[1:]] for k in kinds if rng.random() < 0.8},
                rng.random() < 0.5,
                step_us=step,
                objective=doc.get("objective", "weighted_jct"),
            )
            inst, c = instance(doc), hv.Certificate(c, "")
            j = inst.jobs[0]
            modes = hv.modes_of(inst, j, j.shapes[0])
            tau = hv.least_round(j, j.shapes[0], modes)
            want = literal(j, c, modes, tau)
            self.assertEqual(steps_of(inst, j, c).least(), want, "case %d" % case)
            got = Fraction(*hv.bound_of(inst, c))
            c.step = None
            fluid = Fraction(*hv.bound_of(inst, c))
            better += got > fluid
            self.assertGreaterEqual(got, fluid)
        self.assertGreater(better, 30)

    def test_steps_that_are_too_many(self):
        # What the rule leaves to the fluid, and what is refused.
        doc = one_job(cluster(A=1), rounds=2, tasks=4, on={"A": {"compute_s": 1}})
        inst = instance(doc)
        j = inst.jobs[0]
        for horizon, fits in ((2**21, True), (2**21 + 1, False)):  # one level, one type
            c = hv.Certificate(price([0, horizon * 10**6], {}, step_us=10**6), "")
            self.assertEqual(steps_of(inst, j, c) is not None, fits)
        doc["jobs"][0].update(rounds=1, tasks=2**31 - 1, on={"A": {"compute_s": 0.000001}})
        start = time.monotonic()
        self.assertEqual(bound_of(doc, price([0, 1], {}, step_us=1)), Fraction(2**31 - 1, 10**6))
        doc["cluster"]["nodes"] = [{"name": "n", "gpus": {"A": 2**10}}]
        self.assertEqual(bound_of(doc, price([0, 1], {}, step_us=1)), Fraction(2**21, 10**6))
        self.assertLess(time.monotonic() - start, 30)
        with mock.patch.object(hv, "MOST_WORK", 99), self.assertRaises(hv.Refused):
            bound_of(one_job(cluster(A=1), on={"A": {"compute_s": 1}}), price([0, 50 * 10**6], {}, step_us=10**6))
        with mock.patch.object(hv, "MOST_WORK", 99), self.assertRaises(hv.Refused):
            bound_of(one_job(cluster(A=99), on={"A": {"compute_s": 1}}), price([0, 1], {}, sizes={"A": {"2": [1]}}))

    def test_floats_only_propose(self):
        """Times that floats confuse, and guesses that are plainly wrong: the same φ."""

        class Slow(hv.Fluid):
            def sweep(self):
                return {}

        class Misled(hv.Fluid):
            def sweep(self):
                rng = random.Random(len(self.cuts))
                pieces = range(self.first, len(self.cuts))
                return {
                    x: (rng.random(), (rng.randrange(1, 10**15), rng.randrange(1, 10**4))) for x in pieces if x % 3
                }

        rng = random.Random(7)
        for case in range(120):
            grid = [0]
            for _ in range(rng.randint(1, 8)):
                grid.append(grid[-1] + rng.choice((1, 7, 10**6, 10**12)) * rng.randint(1, 9))
            base = rng.choice((10, 10**6, 10**12))
            modes = []
            for _ in range(rng.randint(1, 4)):
                row = [rng.choice((0, 1, 10**9, 10**15, rng.randrange(10**10))) for _ in grid[1:]]
                tasks = rng.randint(1, 9)
                modes.append(
                    (base + rng.randint(0, 2), rng.choice((0, rng.randint(0, 3), base)), [tasks * x for x in row])
                )
            doc = {
                "id": "x",
                "weight": rng.choice((0, 1, 1e-6, 12345.678)),
                "release_s": rng.randint(0, 2),
                "sync": rng.choice(("relaxed", "gang")),
                "rounds": rng.randint(1, 50),
                "on": {"A": {"compute_s": 1}},
            }
            j = hv.Job(hv.documents(json.dumps(doc))[0], "")
            path = j.release + rng.choice((0, rng.randrange(1, 3 * base)))
            cost = hv.Cost(j.weight, rng.choice((0, 0, j.weight, 1)), rng.choice((0, path, rng.randrange(60 * base))))
            want, got, misled = (
                Fraction(*f(j, cost, j.release, path, grid, modes).least()) for f in (Slow, hv.Fluid, Misled)
            )
            self.assertEqual((want, want), (got, misled), "case %d" % case)

    def test_any_price_of_a_round_bounds(self):
        """φ is the least over pieces of the greatest over μ: no μ goes above."""
        rng = random.Random(11)
        inst, res = example("traps")
        c = hv.Certificate(res["certificate"], "")
        decoded = instance(inst)
        for j in decoded.jobs:
            if j.sync == "rigid":
                continue
            found = hv.modes_of(decoded, j, j.shapes[0])
            modes = [(x.compute, x.sync, [j.tasks * y for y in c.prices[x.kind]]) for x in found]
            path = j.release + j.rounds * hv.least_round(j, j.shapes[0], found)
            f = hv.Fluid(j, hv.Cost(j.weight), j.release, path, c.grid, modes)
            n, d = f.least()
            for _ in range(200):
                mu = (rng.randrange(10**16), rng.randrange(1, 10**5))
                for last in range(f.first, len(f.cuts)):
                    at = f.exact(last, mu)
                    self.assertTrue(at is None or at[0] * d >= n * at[1])
            # And where all pieces are settled exactly, one reaches it.
            values = [f.exact(last, None) for last in range(f.first, len(f.cuts))]
            self.assertEqual(min(Fraction(*v) for v in values if v), Fraction(n, d))


# A judge that knows nothing of runs: every task of every round by itself.


def naive_ok(inst, schedule):
    """Whether the schedule is feasible, task by task; None where it is not even
    made of known jobs and GPUs."""
    jobs = {j.id: j for j in inst.jobs}
    rounds, entries = {}, []
    for lane in schedule["lanes"]:
        kind, windows = inst.gpus[lane["gpu"]]
        last = next((j.id for j in inst.jobs if lane["gpu"] in j.running), None)
        for i in range(len(lane["job"])):
            j = jobs[schedule["jobs"][lane["job"][i]]]
            first, count, tasks, period, start, shape = (
                lane.get(c, [default] * len(lane["job"]))[i]
                for c, default in (
                    ("round", 0), ("rounds", 1), ("tasks", 1), ("period_us", 0), ("start_us", 0), ("shape", 0),
                )
            )
            if shape >= len(j.shapes) or kind not in j.shapes[shape].on or count < 1 or tasks < 1:
                return False
            u, p = j.shapes[shape].counts, j.shapes[shape].on[kind]
            entry = {"job": j, "gpu": lane["gpu"], "node": inst.node_of(lane["gpu"]), "kind": kind,
                     "of": j.shapes[shape], "key": (first, count, tasks, period, start, shape), "start": start,
                     "windows": windows}
            entry["opens"] = start - (p.switch if last != j.id else 0)
            last = j.id
            entries.append(entry)
            for r in range(count):
                for t in range(tasks):
                    at = start + r * period + t * p.compute
                    rounds.setdefault((j.id, first + r * u), []).append((at, at + p.compute, entry))
    whole = {}
    for j in inst.jobs:
        before, shape, r = max(j.release, j.ends), j.shapes[j.shape] if j.running else None, j.first
        while r < j.rounds:
            tasks = rounds.pop((j.id, r), [])
            of = tasks[0][2]["of"] if tasks else j.shapes[0]
            if shape not in (None, of):
                if j.reshape is None:
                    return False
                before += j.reshape
            shape = of
            if any(t[2]["of"] is not of for t in tasks) or len(tasks) != of.tasks * of.g:
                return False
            if min(t[0] for t in tasks) < before:
                return False
            spread = naive_spread(inst, [t[2]["node"] for t in tasks])
            if spread > j.within:
                return False
            before = 0
            for _, computed, e in tasks:
                p = of.on[e["kind"]]
                before = max(before, computed + min([t for x, t in p.by_level if x >= spread] or [p.sync]))
            if j.sync != "relaxed":
                if len({t[0] for t in tasks}) > 1 or len({t[2]["gpu"] for t in tasks}) < len(tasks):
                    return False
                if len({t[2]["kind"] for t in tasks}) > 1 and not j.mix:
                    return False
            if j.sync == "rigid":
                now = ({t[2]["gpu"] for t in tasks}, tasks[0][0])
                if r > j.first and now != (gpus, end):
                    return False
                gpus, end = now[0], before
            for _, computed, e in tasks:
                e["end"] = computed if j.sync == "relaxed" else before
            first, opens = whole.get(j.id, (before, before))[:2]
            opens = min([opens] + [t[2]["opens"] for t in tasks])
            whole[j.id] = min([first] + [t[0] for t in tasks]), opens, before
            nodes = [t[2]["node"].name for t in tasks]
            if j.distinct and any(nodes.count(name) > of.g for name in nodes):
                return False
            r += of.counts
        if j.id in whole and whole[j.id][1] < j.release:
            return False
    if rounds:
        return False
    for j in inst.jobs:
        for name, lag in j.after.items():
            if whole[j.id][1] < (whole[name][2] if name in whole else jobs[name].ends) + lag:
                return False
    for before, e in zip(entries, entries[1:]):
        if before["gpu"] == e["gpu"] and e["opens"] < before["end"]:
            return False  # entries, and setups, follow one another
    for e in entries:
        if not any(a <= e["opens"] and e["end"] <= b for a, b in e["windows"]):
            return False  # an entry, and its setup, lie inside one window
    return naive_places(inst, entries)


def naive_spread(inst, nodes):
    for level, name in enumerate(inst.levels):
        labels = list(inst.topology)
        if name == "any" or len({n.name for n in nodes}) == 1:
            return level
        if name in labels and len({tuple(n.labels[x] for x in labels[: labels.index(name) + 1]) for n in nodes}) == 1:
            return level


def naive_places(inst, entries):
    """The rules about nodes, entry by entry."""
    for e in entries:
        j, node = e["job"], e["node"]
        labels = dict(node.labels, node=node.name)
        if any(labels.get(x) not in v for x, v in j.only.items()):
            return False
        if any(labels.get(x) in v for x, v in j.exclude.items()):
            return False
        equal = [x for x in entries if all(x[of] == e[of] for of in ("job", "node", "kind", "key"))]
        if len(equal) % e["of"].g:
            return False
        for r in inst.reservations:
            mine = j.id in r.jobs or set(j.users).intersection(r.users)
            here = all(labels.get(x) in v for x, v in r.only.items())
            if here and not mine and e["opens"] < r.end and r.start < e["end"]:
                return False
    for e in entries:
        now = e["start"]
        there = [x for x in entries if x["start"] <= now < x["end"]]
        for q in inst.quotas:
            counts = lambda j, kind: q.user in j.users and (q.types is None or kind in q.types)
            held = sum(counts(x["job"], x["kind"]) for x in there)
            held += sum(counts(j, inst.gpus[g][0]) for j in inst.jobs for g in j.running if now < j.ends)
            if counts(e["job"], e["kind"]) and held > q.gpus:
                return False
        holds = [(x["job"], x["of"].g) for x in there if x["node"] is e["node"]]
        holds += [(j, j.shapes[j.shape].g) for j in inst.jobs for g in j.running
                  if inst.node_of(g) is e["node"] and now < j.ends]
        if e["node"].cpus and sum(Fraction(j.cpus, g) for j, g in holds) > e["node"].cpus:
            return False
        if e["node"].memory and sum(Fraction(j.memory, g) for j, g in holds) > e["node"].memory:
            return False
    return True


def mutate(rng, schedule):
    s = copy.deepcopy(schedule)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        lane = rng.choice(s["lanes"])
        n = len(lane["job"])
        i = rng.randrange(n)
        for column, default in (("round", 0), ("rounds", 1), ("tasks", 1), ("period_us", 0), ("shape", 0)):
            lane.setdefault(column, [default] * n)
        what = rng.randrange(8)
        step = rng.choice((1, -1, 250000, -250000, 1125000, 10**6, -(10**6), 10**7))
        if what == 0:  # one entry
            lane["start_us"][i] = max(0, lane["start_us"][i] + step)
        elif what == 1:  # the lane from here on
            lane["start_us"][i:] = [max(0, t + step) for t in lane["start_us"][i:]]
        elif what == 2:
            lane["period_us"][i] = max(0, lane["period_us"][i] + step)
        elif what == 3:
            lane[rng.choice(("round", "rounds", "tasks"))][i] += rng.choice((1, 1, 0, -1)) or 1
            if any(lane["shape"]):
                lane["shape"][i] = rng.choice((0, 1))
        elif what == 4:  # onto another GPU
            other = rng.choice(s["lanes"])
            lane["gpu"], other["gpu"] = other["gpu"], lane["gpu"]
        elif what == 5 and lane["rounds"][i] > 1:  # cut a run in two
            cut = rng.randrange(1, lane["rounds"][i])
            late = rng.choice((0, 0, 0, step))
            lane["job"].insert(i + 1, lane["job"][i])
            lane["round"].insert(i + 1, lane["round"][i] + cut)
            lane["rounds"].insert(i + 1, lane["rounds"][i] - cut)
            lane["rounds"][i] = cut
            lane["tasks"].insert(i + 1, lane["tasks"][i])
            lane["shape"].insert(i + 1, lane["shape"][i])
            lane["period_us"].insert(i + 1, lane["period_us"][i])
            lane["start_us"].insert(i + 1, max(0, lane["start_us"][i] + cut * lane["period_us"][i] + late))
        elif what == 6:
            lane["job"][i] = rng.randrange(len(s["jobs"]))
        elif what == 7:  # everything later
            for one in s["lanes"]:
                one["start_us"] = [t + abs(step) for t in one["start_us"]]
    return s


def node_example(name, folder="nodes"):
    with open(os.path.join(HERE, "testdata", folder, name + ".json"), encoding="utf-8") as f:
        return json.load(f, parse_float=hv.Number)


def on_nodes(*jobs, **node):
    """Two nodes of four GPUs, the first with the fields given, and jobs of 2 s on them."""
    nodes = [dict({"name": "a", "gpus": {"A": 4}}, **node), {"name": "b", "gpus": {"A": 4}, "labels": {"disk": "hdd"}}]
    jobs = [dict({"id": "xyz"[i], "sync": "gang", "on": {"A": {"compute_s": 2}}}, **j) for i, j in enumerate(jobs)]
    doc = {"hare": "instance/v1", "cluster": {"nodes": nodes}, "jobs": jobs}
    return hv.documents(json.dumps(doc))[0]


class Trees(unittest.TestCase):
    def test_memory(self):
        """Rows of prices are kept for one set at a time, one for all jobs of a type that pay by GPU."""
        inst = instance(
            {
                "hare": "instance/v1",
                "cluster": cluster(A=8),
                "jobs": [
                    {"id": str(k), "rounds": 1, "tasks": k, "sync": "rigid", "on": {"A": {"compute_s": 1}}}
                    for k in range(1, 9)
                ],
            }
        )
        row = [5] * 100
        sets = [{"grid_us": list(range(101)), "prices": {"A": row}, "jobs": {"1": {"A": row}}} for _ in range(3)]
        doc = price(list(range(101)), {"A": row}, method="branch", price_sets=sets)
        doc["tree"] = [{"job": "1", "type": "A"}, {"job": "2", "type": "A"}] + [{"prices": n} for n in (1, 2, 3)]
        tree = hv.Tree(inst, hv.Certificate(hv.documents(json.dumps(doc))[0], ""))
        for n, rows in ((0, 1), (1, 2), (2, 2), (3, 2), (1, 2)):
            tree.price(tree.root(), n)
            self.assertEqual(len(tree.costs), rows)


class Nodes(unittest.TestCase):
    def test_examples(self):
        for name in ("nodes", "distinct"):
            x = node_example(name)
            inst, faults = hv.Instance([x["instance"]]), hv.Faults()
            times = hv.check_schedule(inst, hv.Schedule(x["schedule"], []), faults)
            self.assertEqual(faults, [])
            ends = {k: v * 10**6 for k, v in x["completions_s"].items()}
            self.assertEqual({k: v[1] for k, v in times.items()}, ends)
            for method in ("critical_path", "machine"):
                c = {"hare": "certificate/v1", "method": method, "objective": "weighted_jct"}
                self.assertEqual(Fraction(*hv.bound_of(inst, hv.Certificate(c, ""))), Fraction(str(x[method])))
            bound = hv.bound_of(inst, hv.Certificate(x["certificate"], ""))
            self.assertEqual(hv.decimal(bound), x["price"])

    def test_mutations_against_the_naive_judge(self):
        rng, said = random.Random(9), {True: 0, False: 0}
        for name in ("nodes", "distinct"):
            x = node_example(name)
            inst, base = hv.Instance([x["instance"]]), [x["schedule"]]
            for _ in range(1200):
                s = mutate_nodes(rng, rng.choice(base))
                if least(s) < 0:
                    continue
                want, faults = naive_ok(inst, s), hv.Faults()
                hv.check_schedule(inst, hv.Schedule(json.loads(json.dumps(s)), []), faults)
                self.assertEqual(want, not faults, (name, s, faults))
                said[want] += 1
                if want and len(base) < 40:
                    base.append(s)
        self.assertGreater(min(said.values()), 150, said)

    def test_each_rule(self):
        for code, jobs, node, starts in (
            (None, [{"gpus_per_task": 2}], {}, {"a/0": 0, "a/1": 0}),
            ("task", [{"gpus_per_task": 2}], {}, {"a/0": 0, "b/1": 0}),
            ("tasks", [{"gpus_per_task": 2}], {}, {"a/0": 0}),
            ("distinct", [{"tasks": 2, "distinct_nodes": True}], {}, {"a/0": 0, "a/1": 0}),
            (None, [{"tasks": 2, "distinct_nodes": True}], {}, {"a/0": 0, "b/1": 0}),
            ("node", [{"only": {"disk": ["nvme", "ssd"]}}], {"labels": {"disk": "x"}}, {"a/0": 0}),
            ("node", [{"only": {"disk": "nvme"}}], {}, {"a/0": 0}),
            (None, [{"only": {"disk": "nvme"}}], {"labels": {"disk": "nvme"}}, {"a/0": 0}),
            ("node", [{"exclude": {"node": ["b", "a"]}}], {}, {"a/0": 0}),
            (None, [{"exclude": {"disk": "hdd"}}], {}, {"a/0": 0}),
            ("cpus", [{"tasks": 2, "cpus_per_task": 1.001}], {"cpus": 2}, {"a/0": 0, "a/1": 0}),
            (None, [{"tasks": 2, "cpus_per_task": 1}], {"cpus": 2}, {"a/0": 0, "a/1": 0}),
            (None, [{"gpus_per_task": 2, "cpus_per_task": 2}], {"cpus": 2}, {"a/0": 0, "a/1": 0}),
            ("memory", [{"tasks": 2, "memory_mib_per_task": 2}], {"memory_mib": 3}, {"a/0": 0, "a/1": 0}),
        ):
            inst, faults = hv.Instance([on_nodes(*jobs, **node)]), hv.Faults()
            lanes = [{"gpu": gpu, "job": [0], "start_us": [start]} for gpu, start in starts.items()]
            hv.check_schedule(inst, hv.Schedule({"jobs": ["x"], "lanes": lanes}, []), faults)
            self.assertEqual([f["constraint"] for f in faults], [code] if code else [], (jobs, node))

    def test_defaults_change_nothing(self):
        plain, same = on_nodes({}), on_nodes(
            {"gpus_per_task": 1, "cpus_per_task": 0, "memory_mib_per_task": 0, "distinct_nodes": False,
             "only": {}, "exclude": {}}, labels={})
        self.assertEqual(hv.Instance([plain]).sha256(), hv.Instance([same]).sha256())

    def test_bad_fields(self):
        for at, jobs, node in (
            ("/cluster/nodes/0/cpus", [{}], {"cpus": 0}),
            ("/cluster/nodes/0/cpus", [{}], {"cpus": 0.0005}),
            ("/cluster/nodes/0/memory_mib", [{}], {"memory_mib": 0}),
            ("/cluster/nodes/0/labels/node", [{}], {"labels": {"node": "x"}}),
            ("/cluster/nodes/0/labels/a", [{}], {"labels": {"a": 1}}),
            ("/jobs/0/gpus_per_task", [{"gpus_per_task": 0}], {}),
            ("/jobs/0/gpus_per_task", [{"gpus_per_task": 2, "tasks": 1 << 20}], {}),
            ("/jobs/0/distinct_nodes", [{"sync": "relaxed", "distinct_nodes": True}], {}),
            ("/jobs/0/only/a", [{"only": {"a": []}}], {}),
            ("/jobs/0/only", [{"only": "a"}], {}),
            ("/jobs/0/exclude/a/1", [{"exclude": {"a": ["x", 2]}}], {}),
            ("/jobs/0/within", [{"within": "rack"}], {}),
        ):
            with self.assertRaises(hv.Bad) as caught:
                hv.Instance([on_nodes(*jobs, **node)])
            self.assertTrue(str(caught.exception).startswith(at + ":"), (at, str(caught.exception)))

    def test_pools_by_hand(self):
        # Two jobs of three GPUs need a node each: 2 s of a node of four at 1 a second
        # for three GPUs together, where the fourth GPU is worth nothing.
        inst = hv.Instance([on_nodes(*[{"gpus_per_task": 3, "sync": "rigid"}] * 3)])
        pool = {"type": "A", "per": "node", "sizes": {"3": [10**9]}}
        c = price([0, 2 * 10**6], {}, pools=[pool])
        # φ = 2 + 2 for each of three jobs that end at 2 s, or 4 where one waits for 2 s; two nodes cost 2 s each.
        self.assertEqual(Fraction(*hv.bound_of(inst, hv.Certificate(c, ""))), 3 * 4 - 2 * 2)
        pool["per"] = "all"  # two tasks fit into eight GPUs, as before
        self.assertEqual(Fraction(*hv.bound_of(inst, hv.Certificate(c, ""))), 3 * 4 - 2 * 2)
        inst = hv.Instance([on_nodes(*[{"cpus_per_task": 1.5, "sync": "rigid"}] * 2, cpus=2)])
        with self.assertRaises(hv.Refused):  # b has no limit
            hv.bound_of(inst, hv.Certificate(price([0, 10**6], {}, pools=[{"cpus": "A", "prices": [1]}]), ""))
        one = on_nodes(*[{"cpus_per_task": 1.5, "sync": "rigid"}] * 2)
        inst = hv.Instance([dict(one, cluster={"nodes": [{"name": "a", "gpus": {"A": 4}, "cpus": 2}]})])
        c = price([0, 2 * 10**6], {}, pools=[{"cpus": "A", "prices": [10**9]}])
        # Each pays 1.5 a second for 2 s, or waits for 2 s; the two CPUs cost 4.
        self.assertEqual(Fraction(*hv.bound_of(inst, hv.Certificate(c, ""))), 2 * 4 - 4)


REAL = (
    "running", "quota", "after", "deadlines", "makespan", "placement", "spread", "switch", "shapes", "return",
    "together",
)
# Figures of the examples that were rounded up to whole seconds, or count CPUs of nodes that are out of service.
ROUNDED = {("shapes", "y"): 7500000, ("shapes", "critical_path"): 30}


def one_node(jobs, cluster=None, **fields):
    """A node a of two GPUs with 4 CPUs and a node b of one in rack r, and jobs of 2 s."""
    nodes = [{"name": "a", "gpus": {"A": 2}, "cpus": 4}, {"name": "b", "gpus": {"A": 1}, "labels": {"rack": "r"}}]
    jobs = [dict({"id": "xyz"[i], "sync": "gang", "on": {"A": {"compute_s": 2}}}, **j) for i, j in enumerate(jobs)]
    doc = dict({"hare": "instance/v1", "cluster": dict({"nodes": nodes}, **cluster or {}), "jobs": jobs}, **fields)
    return hv.documents(json.dumps(doc))[0]


RUNS = {"progress": {"gpus": ["a/0"], "elapsed_s": 0.5}}


class RealClusters(unittest.TestCase):
    def test_examples(self):
        for name in REAL:
            x = node_example(name, "real")
            inst, faults = hv.Instance([x["instance"]]), hv.Faults()
            times = hv.check_schedule(inst, hv.Schedule(x["schedule"], []), faults)
            self.assertEqual(faults, [], name)
            ends = {k: v * 10**6 for k, v in x["completions_s"].items()}
            self.assertEqual({k: v[1] for k, v in times.items()}, ends)
            self.assertEqual(hv.value_of(inst, times), x["optimum"] * 10**12)
            self.assertEqual(inst.constant(), (x["constant"] or 0) * 10**12)
            paths = {k: ROUNDED.get((name, k), v * 10**6) for k, v in x["path_s"].items()}
            self.assertEqual({k: v[1] for k, v in inst.clock().items()}, paths)
            for method in ("critical_path", "machine"):
                if method in x:
                    c = {"hare": "certificate/v1", "method": method, "objective": inst.objective}
                    bound = hv.bound_of(inst, hv.Certificate(c, ""))
                    want = ROUNDED.get((name, method), str(x[method]))
                    self.assertEqual(hv.decimal(bound), hv.decimal(Fraction(want)), (name, method))
            bound = hv.bound_of(inst, hv.Certificate(x["certificate"], ""))
            self.assertEqual(hv.decimal(bound), x["price"], name)

    def test_wrong_readings(self):
        for name, x in node_example("wrong-readings", "real").items():
            if "optimum" not in x:
                continue
            inst = hv.Instance([x["instance"]])
            if "certificate" in x:
                bound = Fraction(*hv.bound_of(inst, hv.Certificate(x["certificate"], "")))
                right = Fraction(ROUNDED.get(name, str(x["right"])))
                self.assertLess(abs(bound - right), Fraction(1, 1000), name)
                self.assertLessEqual(bound, x["optimum"], name)
            for method in ("critical_path", "machine"):
                if inst.objective == "makespan" and method == "machine":
                    continue
                c = {"hare": "certificate/v1", "method": method, "objective": inst.objective}
                self.assertLessEqual(Fraction(*hv.bound_of(inst, hv.Certificate(c, ""))), x["optimum"], name)

    def test_mutations_against_the_naive_judge(self):
        rng, said = random.Random(11), {True: 0, False: 0}
        for name in REAL:
            x = node_example(name, "real")
            inst, base = hv.Instance([x["instance"]]), [x["schedule"]]
            for _ in range(300):
                s = mutate_nodes(rng, rng.choice(base))
                if least(s) < 0:
                    continue
                want, faults = naive_ok(inst, s), hv.Faults()
                hv.check_schedule(inst, hv.Schedule(json.loads(json.dumps(s)), []), faults)
                self.assertEqual(want, not faults, (name, s, faults))
                said[want] += 1
                if want and len(base) < 40:
                    base.append(s)
        self.assertGreater(min(said.values()), 150, said)

    def test_each_rule(self):
        reserved = {"reservations": [{"nodes": {"rack": "r"}, "from_s": 1, "until_s": 5, "users": ["ops"]}]}
        for code, jobs, cluster, quota, lanes in (
            (None, [{"rounds": 2, "progress": {"rounds_done": 1}}], {}, [], {"a/0": [(0, 1, 0)]}),
            ("progress", [{"rounds": 2, "progress": {"rounds_done": 1}}], {}, [], {"a/0": [(0, 0, 0), (0, 1, 2)]}),
            (None, [dict(RUNS, rounds=2)], {}, [], {"a/0": [(0, 1, 1.5)]}),
            (None, [dict(RUNS, rounds=2)], {}, [], {"b/0": [(0, 1, 1.5)]}),
            ("release", [dict(RUNS, rounds=2)], {}, [], {"a/1": [(0, 1, 1)]}),
            ("progress", [RUNS], {}, [], {"a/0": [(0, 0, 2)]}),
            ("service", [RUNS, {}], {}, [], {"a/0": [(1, 0, 1)]}),
            (None, [RUNS, {}], {}, [], {"a/0": [(1, 0, 1.5)]}),
            (None, [dict(RUNS, cpus_per_task=2), {"cpus_per_task": 2}], {}, [], {"a/1": [(1, 0, 0)]}),
            ("cpus", [dict(RUNS, cpus_per_task=3), {"cpus_per_task": 2}], {}, [], {"a/1": [(1, 0, 1)]}),
            (None, [dict(RUNS, cpus_per_task=3), {"cpus_per_task": 2}], {}, [], {"a/1": [(1, 0, 1.5)]}),
            ("service", [{}], reserved, [], {"b/0": [(0, 0, 0)]}),
            ("reserved", [{}], reserved, [], {"b/0": [(0, 0, 4)]}),
            (None, [{}], reserved, [], {"b/0": [(0, 0, 5)]}),
            (None, [{"user": ["ann", "ops"]}], reserved, [], {"b/0": [(0, 0, 0)]}),
            (None, [{}], reserved, [], {"a/0": [(0, 0, 1)]}),
            ("quota", [{"user": "u"}, {"user": "u"}], {}, [1], {"a/0": [(0, 0, 0)], "a/1": [(1, 0, 1)]}),
            (None, [{"user": "u"}, {"user": "u"}], {}, [1], {"a/0": [(0, 0, 0)], "a/1": [(1, 0, 2)]}),
            (None, [{"user": "u"}, {"user": "v"}], {}, [1], {"a/0": [(0, 0, 0)], "a/1": [(1, 0, 0)]}),
            ("quota", [dict(RUNS, user="u"), {"user": "u"}], {}, [1], {"a/1": [(1, 0, 1)]}),
            (None, [dict(RUNS, user="u"), {"user": "u"}], {}, [1], {"a/1": [(1, 0, 1.5)]}),
            ("after", [{"after": ["y"]}, {}], {}, [], {"a/0": [(0, 0, 1)], "a/1": [(1, 0, 0)]}),
            (None, [{"after": ["y"]}, {}], {}, [], {"a/0": [(0, 0, 2)], "a/1": [(1, 0, 0)]}),
            ("after", [{"after": [{"job": "y", "lag_s": 1}]}, {}], {}, [], {"a/0": [(0, 0, 2)], "a/1": [(1, 0, 0)]}),
            ("after", [RUNS, {"after": ["x"]}], {}, [], {"a/1": [(1, 0, 1)]}),
            (None, [RUNS, {"after": ["x"]}], {}, [], {"a/1": [(1, 0, 1.5)]}),
        ):
            inst = hv.Instance([one_node(jobs, cluster, quota=[{"user": "u", "gpus": n} for n in quota])])
            lanes = [
                {"gpu": gpu, "job": [r[0] for r in rows], "round": [r[1] for r in rows],
                 "start_us": [int(r[2] * 10**6) for r in rows]} for gpu, rows in lanes.items()
            ]
            faults, s = hv.Faults(), {"jobs": ["x", "y"][: len(jobs)], "lanes": lanes}
            hv.check_schedule(inst, hv.Schedule(s, []), faults)
            self.assertEqual([f["constraint"] for f in faults[:1]], [code] if code else [], (jobs, cluster, lanes))
            self.assertEqual(naive_ok(inst, s), code is None, (jobs, lanes))

    def test_bad_fields(self):
        for at, fields in (
            ("/progress/rounds_done", {"progress": {"rounds_done": 1}}),
            ("/progress/elapsed_s", {"progress": {"elapsed_s": 1}}),
            ("/progress/elapsed_s", {"progress": {"gpus": ["a/0"], "elapsed_s": 2}}),
            ("/progress/gpus", {"progress": {"gpus": ["a/0", "a/1"]}}),
            ("/progress/gpus/0", {"progress": {"gpus": ["c/0"]}}),
            ("/progress/gpus/0", {"progress": {"gpus": ["a/2"]}}),
            ("/progress/gpus/1", {"tasks": 2, "progress": {"gpus": ["a/0", "a/0"]}}),
            ("/progress/gpus", {"sync": "relaxed", "progress": {"gpus": ["a/0"]}}),
            ("/progress/gpus", {"release_s": 1, "progress": {"gpus": ["a/0"]}}),
            ("/progress/gpus", {"cpus_per_task": 5, "progress": {"gpus": ["a/0"]}}),
            ("/progress/gpus", {"tasks": 2, "distinct_nodes": True, "progress": {"gpus": ["a/0", "a/1"]}}),
            ("/progress/gpus", {"gpus_per_task": 2, "progress": {"gpus": ["a/0", "b/0"]}}),
            ("/progress/gpus/0", {"only": {"rack": "r"}, "progress": {"gpus": ["a/0"]}}),
            ("/after", {"after": ["y"]}),
            ("/after/0", {"after": ["x"]}),
            ("/after/0/lag_s", {"after": [{"job": "y", "lag_s": -1}]}),
            ("/deadline_s", {"deadline_s": 0}),
            ("/late_weight", {"late_weight": 1}),
            ("/user/0", {"user": [""]}),
        ):
            with self.assertRaises(hv.Bad) as caught:
                hv.Instance([one_node([fields])])
            self.assertTrue(str(caught.exception).startswith("/jobs/0%s:" % at), (fields, str(caught.exception)))
        for at, cluster, fields in (
            ("/cluster/reservations/0/until_s", {"reservations": [{"from_s": 2, "until_s": 2}]}, {}),
            ("/cluster/reservations/0/until_s", {"reservations": [{"from_s": 2}]}, {}),
            ("/cluster/reservations/0/jobs", {"reservations": [{"until_s": 2, "jobs": ["w"]}]}, {}),
            ("/quota/0/user", {}, {"quota": [{"gpus": 1}]}),
            ("/quota/0/gpus", {}, {"quota": [{"user": "u"}]}),
            ("/quota/0/types", {}, {"quota": [{"user": "u", "gpus": 1, "types": []}]}),
            ("/objective", {}, {"objective": "cost"}),
        ):
            with self.assertRaises(hv.Bad) as caught:
                hv.Instance([one_node([{}], cluster, **fields)])
            self.assertTrue(str(caught.exception).startswith(at + ":"), str(caught.exception))
        with self.assertRaises(hv.Bad) as caught:
            hv.Instance([one_node([{"after": ["y"]}, {"after": ["z"]}, {"after": ["x"]}])])
        self.assertIn("cycle", str(caught.exception))

    def test_defaults_change_nothing(self):
        plain = hv.Instance([one_node([{}])])
        same = hv.Instance([one_node([{"user": [], "progress": {"rounds_done": 0}, "after": [], "late_weight": 0}],
                                     {"reservations": []}, quota=[], objective="weighted_jct")])
        self.assertEqual(plain.sha256(), same.sha256())

    def test_weight_moves_along_dependencies_alone(self):
        inst = hv.Instance([one_node([{"after": ["y"]}, {}])])
        for after in ({"y": {"x": 1}}, {"x": {"z": 1}}, {"x": {"y": 10**6 + 1}}):
            with self.assertRaises(hv.Refused):
                hv.bound_of(inst, hv.Certificate(price([0, 10**6], {}, after=after), ""))
        # All of x's weight is on y: both end at 2 s or later, and x 2 s after that.
        c = price([0, 10**6], {}, after={"x": {"y": 10**6}})
        self.assertEqual(Fraction(*hv.bound_of(inst, hv.Certificate(c, ""))), 2 + 2 + 2)


def in_zones(jobs, **fields):
    """Nodes a, b and c of two GPUs, a and b in rack r of zone e, c in rack r of zone w, and
    gangs of 2 s a round."""
    nodes = [{"name": name, "gpus": {"A": 2}, "labels": {"zone": zone, "rack": "r"}}
             for name, zone in (("a", "e"), ("b", "e"), ("c", "w"))]
    jobs = [dict({"id": "xyz"[i], "sync": "gang"}, **j) for i, j in enumerate(jobs)]
    for j in jobs:
        if "shapes" not in j:
            j.setdefault("on", {"A": {"compute_s": 2}})
    doc = {"hare": "instance/v1", "cluster": {"topology": ["zone", "rack"], "nodes": nodes}, "jobs": jobs}
    return hv.documents(json.dumps(dict(doc, **fields)))[0]


SPREAD = {"tasks": 2, "on": {"A": {"compute_s": 2, "sync_s": {"node": 0, "zone": 1, "any": 3}}}}
SETUP = {"on": {"A": {"compute_s": 2, "switch_s": 1}}}
SHAPES = {"rounds": 5, "shapes": [{"tasks": 1, "on": {"A": {"compute_s": 2}}},
                                  {"tasks": 2, "counts": 2, "on": {"A": {"compute_s": 3}}}]}
RESHAPES = dict(SHAPES, reshape_s=1)
TAIL = {"rounds": 5, "shapes": SHAPES["shapes"][1:]}
LOADED = {"rounds": 4, "progress": {"gpus": ["a/0"], "elapsed_s": 1}}


class Levels(unittest.TestCase):
    """Levels, setups and shapes."""

    def judge(self, code, jobs, lanes):
        """lanes maps a GPU to (job, round, rounds, period, start, shape) in s."""
        inst, faults = hv.Instance([in_zones(jobs)]), hv.Faults()
        names = ("job", "round", "rounds", "period_us", "start_us", "shape")
        scale = (1, 1, 1, 10**6, 10**6, 1)
        lanes = [dict({"gpu": gpu}, **{c: [int(row[i] * scale[i]) for row in rows] for i, c in enumerate(names)})
                 for gpu, rows in lanes.items()]
        s = {"jobs": ["x", "y"][: len(jobs)], "lanes": lanes}
        hv.check_schedule(inst, hv.Schedule(s, []), faults)
        self.assertEqual([f["constraint"] for f in faults[:1]], [code] if code else [], (jobs, lanes, faults))
        self.assertEqual(naive_ok(inst, s), code is None, (jobs, lanes))

    def test_spread(self):
        two = dict(SPREAD, rounds=2)
        for code, job, second, first, period in (
            (None, two, "a/1", "a/0", 2),
            ("precedence", two, "b/1", "a/0", 2),
            (None, two, "b/1", "a/0", 3),
            ("precedence", two, "c/1", "a/0", 4.9),
            (None, two, "c/1", "a/0", 5),
            (None, dict(two, within="rack"), "b/1", "a/0", 3),
            ("within", dict(two, within="rack"), "c/1", "a/0", 5),
            ("within", dict(two, within="node"), "b/1", "a/0", 3),
            (None, dict(two, within="node"), "c/1", "c/0", 2),
            (None, dict(two, sync="rigid"), "b/1", "a/0", 3),
            ("rigid", dict(two, sync="rigid"), "b/1", "a/0", 2),
            ("rigid", dict(two, sync="rigid"), "b/1", "a/0", 5),
        ):
            self.judge(code, [job], {gpu: [(0, 0, 2, period, 0, 0)] for gpu in (first, second)})
        # The second round is spread further than the first; the entry of a/0 goes on.
        for code, start in (("precedence", 2), (None, 3)):
            ends = {"a/0": [(0, 0, 3, 3, 0, 0)], "a/1": [(0, 0, 1, 0, 0, 0)], "b/0": [(0, 1, 2, start, 3, 0)]}
            self.judge(code, [dict(SPREAD, rounds=3)], ends)
            self.judge(code, [two], {"a/0": [(0, 0, 2, start, 0, 0)], "b/0": [(0, 0, 2, start, 0, 0)]})
        # And nothing else runs until it has synchronised.
        for code, start in (("gang", 2), (None, 3)):
            ends = {"a/0": [(0, 0, 1, 0, 0, 0), (1, 0, 1, 0, start, 0)], "b/0": [(0, 0, 1, 0, 0, 0)]}
            self.judge(code and "gang", [SPREAD, {}], ends)

    def test_setups(self):
        for code, jobs, lanes in (
            ("release", [SETUP], {"a/0": [(0, 0, 1, 0, 0, 0)]}),
            (None, [SETUP], {"a/0": [(0, 0, 1, 0, 1, 0)]}),
            ("release", [dict(SETUP, release_s=2)], {"a/0": [(0, 0, 1, 0, 2.5, 0)]}),
            (None, [dict(SETUP, release_s=2)], {"a/0": [(0, 0, 1, 0, 3, 0)]}),
            ("overlap", [SETUP, {}], {"a/0": [(1, 0, 1, 0, 0, 0), (0, 0, 1, 0, 2, 0)]}),
            (None, [SETUP, {}], {"a/0": [(1, 0, 1, 0, 0, 0), (0, 0, 1, 0, 3, 0)]}),
            (None, [dict(SETUP, rounds=2)], {"a/0": [(0, 0, 1, 0, 1, 0), (0, 1, 1, 0, 3, 0)]}),
            ("overlap", [dict(SETUP, rounds=2), {}],
             {"a/0": [(0, 0, 1, 0, 1, 0), (1, 0, 1, 0, 3, 0), (0, 1, 1, 0, 5.5, 0)]}),
            (None, [dict(SETUP, rounds=2), {}],
             {"a/0": [(0, 0, 1, 0, 1, 0), (1, 0, 1, 0, 3, 0), (0, 1, 1, 0, 6, 0)]}),
            # Setups go beside the rounds of the job on other GPUs, also beside the one that runs at 0.
            (None, [dict(SETUP, rounds=2)], {"a/0": [(0, 0, 1, 0, 1, 0)], "a/1": [(0, 1, 1, 0, 3, 0)]}),
            (None, [dict(SETUP, **LOADED)], {"a/0": [(0, 1, 3, 2, 1, 0)]}),
            (None, [dict(SETUP, **LOADED)], {"a/1": [(0, 1, 3, 2, 1, 0)]}),
            ("service", [LOADED, SETUP], {"a/1": [(0, 1, 3, 2, 1, 0)], "a/0": [(1, 0, 1, 0, 1.5, 0)]}),
            (None, [LOADED, SETUP], {"a/1": [(0, 1, 3, 2, 1, 0)], "a/0": [(1, 0, 1, 0, 2, 0)]}),
            ("after", [dict(SETUP, after=["y"]), {}], {"a/1": [(0, 0, 1, 0, 2, 0)], "a/0": [(1, 0, 1, 0, 0, 0)]}),
            (None, [dict(SETUP, after=["y"]), {}], {"a/1": [(0, 0, 1, 0, 3, 0)], "a/0": [(1, 0, 1, 0, 0, 0)]}),
            # A gang of two holds both GPUs until it has synchronised; the setup waits for that.
            ("gang", [SPREAD, SETUP], {"a/0": [(0, 0, 1, 0, 0, 0), (1, 0, 1, 0, 3, 0)], "b/0": [(0, 0, 1, 0, 0, 0)]}),
            (None, [SPREAD, SETUP], {"a/0": [(0, 0, 1, 0, 0, 0), (1, 0, 1, 0, 4, 0)], "b/0": [(0, 0, 1, 0, 0, 0)]}),
        ):
            self.judge(code, jobs, lanes)

    def test_setups_in_windows(self):
        for code, cluster, start in (
            ("service", {"nodes": [{"name": "a", "gpus": {"A": 1}, "in_service_s": [[2, None]]}]}, 2.5),
            (None, {"nodes": [{"name": "a", "gpus": {"A": 1}, "in_service_s": [[2, None]]}]}, 3),
            ("reserved", {"nodes": [{"name": "a", "gpus": {"A": 1}}], "reservations": [{"until_s": 2}]}, 2.5),
            (None, {"nodes": [{"name": "a", "gpus": {"A": 1}}], "reservations": [{"until_s": 2}]}, 3),
        ):
            doc = one_job(cluster, **SETUP)
            s = {"jobs": ["x"], "lanes": [{"gpu": "a/0", "job": [0], "start_us": [int(start * 10**6)]}]}
            inst, faults = instance(doc), hv.Faults()
            hv.check_schedule(inst, hv.Schedule(s, []), faults)
            self.assertEqual([f["constraint"] for f in faults], [code] if code else [])
            self.assertEqual(naive_ok(inst, s), code is None)

    def test_shapes(self):
        runs = dict(SHAPES, progress={"gpus": ["a/0", "a/1"], "shape": 1})
        both = lambda *rows: {"a/0": list(rows), "a/1": list(rows)}
        for code, jobs, lanes in (
            (None, [SHAPES], {"a/0": [(0, 0, 5, 2, 0, 0)]}),
            (None, [SHAPES], both((0, 0, 3, 3, 0, 1))),
            ("tasks", [SHAPES], both((0, 0, 2, 3, 0, 1))),
            ("form", [SHAPES], both((0, 0, 4, 3, 0, 1))),
            ("tasks", [SHAPES], {"a/0": [(0, 0, 3, 3, 0, 1)]}),
            ("form", [SHAPES], both((0, 0, 3, 3, 0, 2))),
            ("form", [{}], {"a/0": [(0, 0, 1, 0, 0, 1)]}),
            ("shape", [SHAPES], {"a/0": [(0, 0, 1, 0, 0, 0), (0, 1, 2, 3, 2, 1)], "a/1": [(0, 1, 2, 3, 2, 1)]}),
            ("precedence", [RESHAPES], {"a/0": [(0, 0, 1, 0, 0, 0), (0, 1, 2, 3, 2, 1)], "a/1": [(0, 1, 2, 3, 2, 1)]}),
            (None, [RESHAPES], {"a/0": [(0, 0, 1, 0, 0, 0), (0, 1, 2, 3, 3, 1)], "a/1": [(0, 1, 2, 3, 3, 1)]}),
            (None, [RESHAPES], {"a/0": [(0, 0, 2, 3, 0, 1), (0, 4, 1, 0, 7, 0)], "a/1": [(0, 0, 2, 3, 0, 1)]}),
            ("tasks", [RESHAPES], {"a/0": [(0, 0, 2, 3, 0, 1), (0, 3, 2, 2, 7, 0)], "a/1": [(0, 0, 2, 3, 0, 1)]}),
            # Rounds of two units on each GPU, but not the same ones.
            ("tasks", [dict(RESHAPES, rounds=6)], {"a/0": [(0, 0, 3, 3, 0, 1)], "a/1": [(0, 1, 2, 3, 0, 1)]}),
            (None, [TAIL], both((0, 0, 3, 3, 0, 0))),
            (None, [dict(TAIL, sync="rigid")], both((0, 0, 3, 3, 0, 0))),
            (None, [dict(TAIL, sync="rigid")], both((0, 0, 2, 3, 0, 0), (0, 4, 1, 0, 6, 0))),
            ("rigid", [dict(SHAPES, sync="rigid")],
             {"a/0": [(0, 0, 1, 0, 0, 0), (0, 1, 2, 3, 2, 1)], "b/0": [(0, 1, 2, 3, 2, 1)]}),
            (None, [runs], both((0, 2, 2, 3, 3, 1))),
            ("progress", [runs], both((0, 1, 2, 3, 3, 1))),
            ("shape", [runs], {"a/0": [(0, 2, 3, 2, 3, 0)]}),
            ("precedence", [dict(runs, reshape_s=1)], {"a/0": [(0, 2, 3, 2, 3, 0)]}),
            (None, [dict(runs, reshape_s=1)], {"a/0": [(0, 2, 3, 2, 4, 0)]}),
        ):
            self.judge(code, jobs, lanes)

    def test_bad_fields(self):
        one = SHAPES["shapes"][0]
        sync = lambda s, **more: dict({"on": {"A": {"compute_s": 1, "sync_s": s}}}, **more)
        for at, fields in (
            ("/within", {"within": "disk"}),
            ("/within", {"within": "rack", "sync": "relaxed"}),
            ("/on/A/sync_s", sync({"node": 1, "any": 2}, sync="relaxed")),
            ("/on/A/sync_s", sync({})),
            ("/on/A/sync_s/disk", sync({"disk": 1, "any": 1})),
            ("/on/A/sync_s", sync({"node": 2, "any": 1})),
            ("/on/A/sync_s", sync({"node": 2, "rack": 3})),
            ("/on/A/sync_s", sync({"node": 2}, within="rack")),
            ("/on/A/switch_s", {"on": {"A": {"compute_s": 1, "switch_s": -1}}}),
            ("/shapes", {"shapes": []}),
            ("/tasks", dict(SHAPES, tasks=1)),
            ("/on", dict(SHAPES, on={})),
            ("/shapes/0/counts", {"shapes": [dict(one, counts=0)]}),
            ("/shapes/0/weight", {"shapes": [dict(one, weight=1)]}),
            ("/reshape_s", {"reshape_s": 1}),
            ("/reshape_s", dict(RESHAPES, sync="rigid")),
            ("/progress/shape", dict(SHAPES, progress={"gpus": ["a/0"], "shape": 2})),
            ("/progress/gpus", dict(SHAPES, progress={"gpus": ["a/0"], "shape": 1})),
            ("/progress/gpus", dict(SPREAD, within="rack", progress={"gpus": ["a/0", "c/0"]})),
        ):
            with self.assertRaises(hv.Bad) as caught:
                hv.Instance([in_zones([fields])])
            self.assertTrue(str(caught.exception).startswith("/jobs/0%s:" % at), (fields, str(caught.exception)))
        doc = in_zones([{}])
        for topology in (["disk"], ["zone", "zone"], ["node"], ["any"], ["all"], "zone", [1]):
            doc["cluster"]["topology"] = topology
            with self.assertRaises(hv.Bad) as caught:
                hv.Instance([doc])
            self.assertTrue(str(caught.exception).startswith("/cluster/topology"), str(caught.exception))

    def test_hardware_counts_for_the_hash_alone(self):
        def equipped(**fields):
            doc = in_zones([{}])
            doc["cluster"].update(hv.documents(json.dumps(fields))[0])
            return hv.Instance([doc])

        self.assertEqual(equipped().sha256(), equipped(bandwidth_gbps={}, gpu_types={}).sha256())
        # The hash is that of TestHardwareRoundTrip in package wire.
        full = equipped(
            bandwidth_gbps={"zone": 100, "node": 300.25, "any": 25}, gpu_types={"A": {"memory_gib": 0.5}}
        )
        self.assertEqual(full.sha256(), "740eb0d3a2d98d8ece22a764995c314f922ec3892ad57b079ae976fdaab2c5cb")
        for at, fields in (
            ("/cluster/bandwidth_gbps/row", {"bandwidth_gbps": {"row": 1}}),
            ("/cluster/bandwidth_gbps/any", {"bandwidth_gbps": {"any": 0}}),
            ("/cluster/bandwidth_gbps/any", {"bandwidth_gbps": {"any": -1}}),
            ("/cluster/bandwidth_gbps/any", {"bandwidth_gbps": {"any": "NaN"}}),
            ("/cluster/bandwidth_gbps", {"bandwidth_gbps": 10}),
            ("/cluster/gpu_types/A/memory_gib", {"gpu_types": {"A": {}}}),
            ("/cluster/gpu_types/A/memory_gib", {"gpu_types": {"A": {"memory_gib": 0}}}),
        ):
            with self.assertRaises(hv.Bad) as caught:
                equipped(**fields)
            self.assertTrue(str(caught.exception).startswith(at), (fields, str(caught.exception)))

    def test_equal_meanings(self):
        sync = lambda s: {"on": {"A": {"compute_s": 1, "sync_s": s}}}
        for a, b in (
            ({}, {"within": "any"}),
            (sync(2), sync({"node": 2, "rack": 2, "any": 2})),
            (sync({"rack": 1, "any": 2}), sync({"node": 1, "rack": 1, "any": 2})),
            ({}, {"on": {"A": {"compute_s": 2, "switch_s": 0}}}),
            ({"tasks": 2}, {"shapes": [{"tasks": 2, "on": {"A": {"compute_s": 2}}}]}),
            ({"tasks": 2}, {"shapes": [{"tasks": 2, "counts": 1, "on": {"A": {"compute_s": 2}}}], "reshape_s": 3}),
        ):
            self.assertEqual(hv.Instance([in_zones([a])]).sha256(), hv.Instance([in_zones([b])]).sha256(), (a, b))

    def test_fluid_of_units(self):
        """Rounds of two units, for twice the units, cost what rounds of one do; and a mode
        of more units is one that is as much faster and cheaper."""
        rng = random.Random(15)
        for _ in range(60):
            grid = sorted(rng.sample(range(1, 40), 3))
            row = [rng.randrange(100) for _ in grid]
            row2 = [rng.randrange(100) for _ in grid]
            j = hv.Job({"id": "x", "sync": "gang", "rounds": rng.randint(1, 6), "on": {"A": {"compute_s": 1}}}, "")
            twice = hv.Job({"id": "x", "sync": "gang", "rounds": 2 * j.rounds, "on": {"A": {"compute_s": 1}}}, "")
            cost, args = hv.Cost(rng.randrange(3)), (0, rng.randrange(20), [0] + grid)
            p, q = rng.randint(1, 9), rng.randint(1, 9)
            modes = [(p, 0, row), (q, 0, row2)]
            plain = Fraction(*hv.Fluid(j, cost, *args, modes).least())
            self.assertEqual(Fraction(*hv.Fluid(twice, cost, *args, modes, [2, 2]).least()), plain)
            modes = [(p, 0, row), (3 * q, 0, row2)]
            fast = [(p, 0, row), (q, 0, row2)]
            self.assertEqual(Fraction(*hv.Fluid(j, cost, *args, modes, [1, 3]).least()),
                             Fraction(*hv.Fluid(j, cost, *args, fast).least()))


def mutate_nodes(rng, schedule):
    """A mutation that often keeps tasks whole: equal entries change together."""
    s = copy.deepcopy(schedule)
    if rng.random() < 0.4:
        return mutate(rng, schedule)
    job = rng.randrange(len(s["jobs"]))
    by = rng.choice((10**6, 2 * 10**6, -(10**6), 9 * 10**6))
    for lane in s["lanes"]:
        lane["start_us"] = [t + by if lane["job"][i] == job or by > 5 * 10**6 else t
                            for i, t in enumerate(lane["start_us"])]
        order = sorted(range(len(lane["job"])), key=lambda i: lane["start_us"][i])
        for column in [c for c in lane if c != "gpu"]:
            lane[column] = [lane[column][i] for i in order]
    return s


class Schedules(unittest.TestCase):
    def test_mutations_against_the_naive_judge(self):
        rng = random.Random(3)
        said = {True: 0, False: 0}
        for name in EXAMPLES:
            inst_doc, res = example(name)
            inst = instance(inst_doc)
            self.assertTrue(naive_ok(inst, res["schedule"]))
            base = [res["schedule"]]
            for _ in range(1500):
                s = mutate(rng, rng.choice(base))
                try:
                    want = naive_ok(inst, s)
                except ValueError:
                    continue
                faults = hv.Faults()
                hv.check_schedule(inst, hv.Schedule(json.loads(json.dumps(s)), []), faults) if least(
                    s
                ) >= 0 else faults.add("form", "negative")
                self.assertEqual(want, not faults, (name, s, faults))
                said[want] += 1
                if want and len(base) < 40:
                    base.append(s)  # feasible ones are mutated further
        self.assertGreater(min(said.values()), 300, said)

    def expect(self, constraint, inst_doc, lanes, by=None):
        res = {
            "hare": "result/v1",
            "objective": "weighted_jct",
            "value": 0,
            "schedule": {"jobs": [j["id"] for j in inst_doc["jobs"]], "lanes": lanes},
        }
        faults, _, _ = check(instance(inst_doc), res)
        self.assertIn(constraint, [f["constraint"] for f in faults])
        fault = next(f for f in faults if f["constraint"] == constraint)
        self.assertEqual(fault.get("by_us"), by, faults)
        self.assertTrue(hv.fault_line(fault).startswith(constraint + ": "))
        return fault

    def test_says_what_and_by_how_much(self):
        job = dict(rounds=2, tasks=1, on={"A": {"compute_s": 2, "sync_s": 1}})
        inst = one_job(cluster([[0, 10]], A=2), release_s=1, **job)
        run = {"gpu": "n/0", "job": [0], "rounds": [2], "period_us": [3000000], "start_us": [1000000]}
        f = self.expect("release", inst, [dict(run, start_us=[999997])], 3)
        self.assertEqual((f["job"], f["round"], f["gpu"]), ("x", 0, "n/0"))
        f = self.expect("precedence", inst, [dict(run, period_us=[2999999])], 1)
        self.assertEqual(f["round"], 1)
        self.expect("overlap", inst, [dict(run, period_us=[1999999])], 1)
        self.expect("service", inst, [dict(run, start_us=[5000001])], 1)
        self.expect("service", inst, [dict(run, start_us=[10000000])])
        self.expect("tasks", inst, [dict(run, rounds=[1])])
        self.expect("form", inst, [dict(run, round=[1])])
        self.expect("form", inst, [dict(run, gpu="n/2")])
        inst["jobs"][0]["sync"] = "rigid"
        self.expect("rigid", inst, [dict(run, period_us=[3000001])])
        inst["jobs"][0].update(sync="gang", tasks=2)
        other = dict(run, gpu="n/1")
        self.expect("gang", inst, [run, dict(other, start_us=[1000005])], 5)
        self.expect("gang", inst, [dict(run, tasks=[2])])

    def test_both_ends_of_a_run_are_checked(self):
        # Two tasks a round with periods of their own: their rounds drift apart.
        job = dict(rounds=5, tasks=2, on={"A": {"compute_s": 1}})
        inst = one_job(cluster(A=2), **job)
        a = {"gpu": "n/0", "job": [0], "rounds": [5], "period_us": [3000000], "start_us": [0]}
        f = self.expect("precedence", inst, [a, dict(a, gpu="n/1", period_us=[3700000])], 100000)
        self.assertEqual(f["round"], 4)
        f = self.expect(
            "precedence", inst, [dict(a, start_us=[3000000]), dict(a, gpu="n/1", period_us=[3500000])], 500000
        )
        self.assertEqual(f["round"], 1)

    def test_two_lanes_of_a_gpu(self):
        inst = one_job(cluster(A=2), tasks=2, on={"A": {"compute_s": 1}})
        lane = {"gpu": "n/0", "job": [0], "start_us": [0]}
        self.expect("form", inst, [lane, lane])

    def test_rigid_runs_back_to_back(self):
        inst = one_job(cluster(A=1), rounds=2, sync="rigid", on={"A": {"compute_s": 1}})
        lane = {"gpu": "n/0", "job": [0, 0], "round": [0, 1], "start_us": [0, 1000001]}
        self.assertEqual(self.expect("rigid", inst, [lane])["round"], 1)

    def test_gang_holds_until_the_slowest_has_synchronised(self):
        inst = {
            "hare": "instance/v1",
            "cluster": cluster(A=1, B=1),
            "jobs": [
                {
                    "id": "g",
                    "tasks": 2,
                    "sync": "gang",
                    "mix": True,
                    "on": {"A": {"compute_s": 1}, "B": {"compute_s": 2, "sync_s": 2}},
                },
                {"id": "x", "on": {"A": {"compute_s": 1}}},
            ],
        }
        slow = {"gpu": "n/1", "job": [0], "start_us": [0]}
        self.expect("gang", inst, [{"gpu": "n/0", "job": [0, 1], "start_us": [0, 3999999]}, slow], 1)
        res = {
            "hare": "result/v1",
            "objective": "weighted_jct",
            "value": 9,
            "schedule": {"jobs": ["g", "x"], "lanes": [{"gpu": "n/0", "job": [0, 1], "start_us": [0, 4000000]}, slow]},
        }
        self.assertEqual(check(instance(inst), res)[0], [])
        inst["jobs"][0]["mix"] = False
        self.expect("gang", inst, [{"gpu": "n/0", "job": [0, 1], "start_us": [0, 4000000]}, slow])

    def test_claims(self):
        inst_doc, good = example("three-jobs")
        inst = instance(inst_doc)

        def refused(**changes):
            res = dict(copy.deepcopy(good), **changes)
            return [f["constraint"] for f in check(inst, res)[0]]

        self.assertEqual(refused(), [])
        self.assertEqual(refused(value=62.119999999999), ["value"])
        self.assertEqual(refused(value=None), ["value"])
        self.assertEqual(refused(bound=57.084474), ["bound"])
        self.assertEqual(refused(certificate=None), ["bound"])
        self.assertEqual(refused(schedule=None), ["form"])
        self.assertEqual(refused(instance_sha256="0" * 64), ["instance"])
        self.assertEqual(refused(instance_sha256=EXAMPLES["three-jobs"][2]), [])
        self.assertEqual(refused(gap=0.088212), [])
        self.assertEqual(refused(gap=0.08), ["gap"])
        self.assertEqual(refused(gap=None), ["gap"])
        self.assertEqual(refused(jobs=[{"id": "nobody"}]), ["value", "value"])  # the others are left out
        late = copy.deepcopy(good["jobs"])
        late[0]["end_s"] += 1
        self.assertEqual(refused(jobs=late), ["value"])
        other = copy.deepcopy(good["certificate"])
        other["instance_sha256"] = "1" * 64
        self.assertEqual(refused(certificate=other), ["instance"])
        self.assertEqual(refused(new_field={"anything": 1}), [])

    def test_certificate_changes_that_matter(self):
        """A certificate states its own bound, no more: any price that is moved
        and lowers the bound is refused."""
        rng = random.Random(5)
        refused = 0
        for name in EXAMPLES:
            inst_doc, res = example(name)
            inst = instance(inst_doc)
            for _ in range(40):
                changed = copy.deepcopy(res)
                c = changed["certificate"]
                row = c["prices"][rng.choice(sorted(c["prices"]))]
                i = rng.randrange(len(row))
                row[i] = rng.randrange(3 * max(row))
                faults, _, bound = check(inst, changed)
                self.assertEqual(bool(faults), bound < Fraction(c["bound"]))
                refused += bool(faults)
        self.assertGreater(refused, 40)

    def test_cost_does_not_depend_on_rounds(self):
        n = 10**9
        jobs = [
            {"id": s, "sync": s, "rounds": n, "tasks": 2, "on": {"A": {"compute_s": 0.001, "sync_s": 0.0005}}}
            for s in ("gang", "rigid")
        ]
        inst = {"hare": "instance/v1", "cluster": cluster(A=4), "jobs": jobs}
        lanes = [
            {"gpu": "n/%d" % g, "job": [g // 2], "rounds": [n], "period_us": [1500], "start_us": [0]} for g in range(4)
        ]
        res = {
            "hare": "result/v1",
            "objective": "weighted_jct",
            "value": 3 * 10**6,
            "bound": 3 * 10**6,
            "gap": 0,
            "schedule": {"jobs": ["gang", "rigid"], "lanes": lanes},
            "certificate": price([0, 10**6], {}, bound="3000000.000000"),
        }
        start = time.perf_counter()
        faults, value, bound = check(instance(inst), res)
        self.assertEqual((faults, value, bound), ([], 3 * 10**6, 3 * 10**6))
        self.assertLess(time.perf_counter() - start, 1)
        lanes[0]["period_us"] = [1501]  # 10^9 rounds later
        self.assertIn("gang", [f["constraint"] for f in check(instance(inst), res)[0]])


class Rules(unittest.TestCase):
    """The rule of docs/reference/certificate.md on results and certificates, line by line."""

    inst = {
        "hare": "instance/v1",
        "cluster": {"nodes": [{"name": "n", "gpus": {"A": 1}}]},
        "jobs": [{"id": "x", "weight": 3, "on": {"A": {"compute_s": 2}}}, {"id": "y", "on": {"A": {"compute_s": 1}}}],
    }
    # Alone on the GPU x ends at 2 and y at 3; machine proves 9, prices of 1 prove 8.
    machine = {"hare": "certificate/v1", "method": "machine", "objective": "weighted_jct", "bound": "9.000000"}
    prices = price([0, 2 * 10**6], {"A": [10**9]}, bound="8.000000")
    good = {
        "hare": "result/v1",
        "objective": "weighted_jct",
        "value": 9,
        "bound": 9,
        "gap": 0,
        "termination": "optimal",
        "jobs": [{"id": "x", "start_s": 0, "end_s": 2}, {"id": "y", "start_s": 2, "end_s": 3}],
        "schedule": {"jobs": ["x", "y"], "lanes": [{"gpu": "n/0", "job": [0, 1], "start_us": [0, 2000000]}]},
        "certificate": machine,
    }
    gapped = dict(good, bound=8, gap=0.125, termination="work_limit", certificate=prices)

    def code(self, inst, result):
        """0, 1 or 2, of texts or of values."""
        texts = [x if isinstance(x, str) else json.dumps(x) for x in (inst, result)]
        try:
            return 0 if hv.judge(hv.Instance(hv.documents(texts[0])), hv.Result(hv.documents(texts[1])))["ok"] else 1
        except hv.Bad:
            return 2

    def expect(self, code, base, **changes):
        result = {k: v for k, v in dict(base, **changes).items() if v is not KeyError}
        self.assertEqual(self.code(self.inst, result), code, changes)

    def certificate(self, code, base, **changes):
        c = {k: v for k, v in dict(base["certificate"], **changes).items() if v is not KeyError}
        self.expect(code, base, certificate=c)

    def test_gap(self):
        for gap, code in ((KeyError, 0), (0, 0), (0.0, 0), (0.000001, 1), (-0.000001, 1), (None, 1), (1, 1), ("0", 2)):
            self.expect(code, self.good, gap=gap)
        for gap, code in (
            (KeyError, 0),
            (0.125, 0),
            (0.1250009, 0),
            (0.1249991, 0),
            (0.125001, 1),
            (0.124999, 1),
            (0, 1),
            (None, 1),
        ):
            self.expect(code, self.gapped, gap=gap)
        self.expect(1, self.gapped, bound=None)  # null exactly where there is no useful bound
        self.expect(0, self.gapped, bound=None, gap=None)
        self.expect(0, self.gapped, bound=-1, gap=None)
        self.expect(1, self.gapped, bound=-1, gap=0.5)
        self.expect(0, self.gapped, bound=0, gap=None)
        # The bound is a hair below the value: the gap rounds to 0 and is not 0.
        c = dict(self.machine, bound="8.999999")
        self.expect(1, self.good, certificate=c, bound=8.999999, termination="gap", gap=0)
        self.expect(0, self.good, certificate=c, bound=8.999999, termination="gap", gap=0.000001)
        c = dict(self.machine, bound="9.000000")
        self.expect(1, self.good, certificate=c, bound=8.999999999, termination="gap", gap=0)
        self.expect(0, self.good, certificate=c, bound=8.999999999, termination="gap", gap=0.000000000001)

    def test_gap_of_nothing(self):
        inst = copy.deepcopy(self.inst)
        for j in inst["jobs"]:
            j["weight"] = 0
        result = dict(self.good, value=0, bound=0, certificate=dict(self.machine, bound="0.000000"))
        self.assertEqual(self.code(inst, result), 0)
        self.assertEqual(self.code(inst, dict(result, gap=None)), 1)

    def test_optimal(self):
        self.expect(1, self.gapped, termination="optimal")
        self.expect(1, self.gapped, termination="optimal", gap=KeyError)
        self.expect(1, self.good, bound=None, gap=None)
        self.expect(1, self.good, bound=KeyError, gap=KeyError)
        self.expect(1, self.good, certificate=None)
        self.expect(1, self.good, bound=9, gap=0, certificate=dict(self.machine, bound="8.999999"))
        self.expect(0, self.good, termination="gap", bound=KeyError, gap=None)

    def test_value_and_bound(self):
        self.expect(1, self.good, value=9.000000000001)
        self.expect(1, self.good, value=KeyError)
        self.expect(1, self.good, value=None)
        self.expect(1, self.gapped, bound=8.000001, gap=KeyError)
        self.expect(0, self.gapped, bound=7.5, gap=0.2)
        self.expect(1, self.gapped, certificate=KeyError, gap=None)
        self.expect(0, self.gapped, certificate=KeyError, gap=None, bound=None)
        self.expect(1, self.good, schedule=KeyError)
        for objective, code in (("makespan", 1), (KeyError, 1), ("", 1), (None, 2), (5, 2)):
            self.expect(code, self.good, objective=objective)
            self.certificate(code, self.good, objective=objective)
        # A schedule below the proved bound cannot be: one of both is wrong.
        with mock.patch.object(hv, "bound_of", return_value=(10, 1)):
            self.expect(1, self.good)

    def test_jobs(self):
        x, y = self.good["jobs"]
        for jobs, code in (
            (KeyError, 0),
            (None, 0),
            ([], 0),
            ([y, x], 0),
            ([{"id": "x"}, {"id": "y"}], 0),
            ([x], 1),
            ([x, y, x], 1),
            ([x, x], 1),
            ([x, y, {"id": "z"}], 1),
            ([x, dict(y, end_s=3.000001)], 1),
            ([x, dict(y, start_s=1.999999)], 1),
            ([x, dict(y, end_s=None)], 2),
            ([x, {"end_s": 3}], 1),
            ({}, 2),
        ):
            self.expect(code, self.good, jobs=jobs)

    def test_hashes(self):
        sha = instance(self.inst).sha256()
        for said, code in (
            (KeyError, 0),
            (None, 0),
            (sha, 0),
            ("0" * 64, 1),
            ("", 2),
            (sha.upper(), 2),
            (sha[1:], 2),
            (sha + "\n", 2),
            (5, 2),
        ):
            self.expect(code, self.good, instance_sha256=said)
            self.certificate(code, self.good, instance_sha256=said)

    def test_forms_of_bounds(self):
        for text in (
            "9",
            "9.0",
            "09.000000",
            "+9.000000",
            "9.0000000",
            "-0.000000",
            "",
            " 9.000000",
            "9.000000\n",
            "9e0",
            "٩.000000",
            "1" * 42 + ".000000",
            9,
            None,
        ):
            self.certificate(2, self.good, bound=text)
        self.certificate(1, self.good, bound=KeyError)
        self.certificate(1, self.good, bound="1" * 41 + ".000000")
        self.certificate(0, dict(self.gapped, bound=-5, gap=None), bound="-5.000000")
        self.certificate(0, dict(self.gapped, bound=-0.5, gap=None), bound="-0.500000")

    def test_path_and_data_are_for_prices(self):
        critical = dict(
            self.good,
            termination="gap",
            bound=7,
            gap=2 / 7,
            certificate=dict(self.machine, method="critical_path", bound="7.000000"),
        )
        critical["gap"] = 0.285714
        self.expect(0, critical)
        for base in (self.good, critical):
            for changes in ({"path": False}, {"grid_us": []}, {"prices": {}}, {"sizes": {}}):
                self.certificate(0, base, **changes)
            for changes in (
                {"path": True},
                {"grid_us": [0]},
                {"prices": {"A": []}},
                {"step_us": 1},
                {"method": "queyranne"},
            ):
                self.certificate(1, base, **changes)
            for changes in (
                {"sizes": {"A": {}}},
                {"pools": [{"cpus": "A", "prices": [0]}]},
                {"after": {"x": {"y": 0}}},
            ):
                self.certificate(2, base, **changes)
        self.certificate(0, self.gapped, path=True)
        self.certificate(2, self.gapped, path=0)

    def test_jobs_that_can_never_run(self):
        wide = {"id": "w", "tasks": 3, "on": {"A": {"compute_s": 1}, "B": {"compute_s": 1}}}
        apart = [
            {"name": "a", "gpus": {"A": 2}, "in_service_s": [[0, 5]]},
            {"name": "b", "gpus": {"A": 2}, "in_service_s": [[5, 9]]},
        ]
        together = [{"name": "a", "gpus": {"A": 2, "B": 1}}]
        for nodes, job, fine in (
            (together, dict(wide, sync="gang"), False),
            (together, dict(wide, sync="rigid"), False),
            (together, dict(wide, sync="gang", mix=True), True),
            (together, dict(wide, sync="gang", mix=True, tasks=4), False),
            (together, wide, True),
            (apart, dict(wide, sync="gang"), False),
            (apart, wide, True),
            (apart, dict(wide, tasks=1, on={"B": {"compute_s": 1}}), False),
        ):
            doc = {"hare": "instance/v1", "cluster": {"nodes": nodes}, "jobs": [job]}
            for c in (
                dict(self.machine, bound="0.000000"),
                dict(self.machine, bound="0.000000", method="critical_path"),
                price([0, 1], {}, True),
                price([0, 1], {}, False),
            ):
                with self.subTest(job=job, certificate=c):
                    if fine:
                        self.assertGreaterEqual(bound_of(doc, c), 0)
                    else:
                        with self.assertRaises(hv.Refused):
                            bound_of(doc, c)

    def test_long_sums_are_exact(self):
        jobs = [{"id": str(i), "on": {"A": {"compute_s": 1}}} for i in range(303)]
        inst = {"hare": "instance/v1", "cluster": cluster(A=3), "jobs": jobs}
        lanes = [
            {"gpu": "n/%d" % g, "job": list(range(g, 303, 3)), "start_us": [i * 10**6 for i in range(101)]}
            for g in range(3)
        ]
        c = dict(self.machine, bound="15352.000000")
        result = {
            "hare": "result/v1",
            "objective": "weighted_jct",
            "value": 15453,
            "bound": 15352,
            "gap": 0.006579,
            "schedule": {"jobs": [j["id"] for j in jobs], "lanes": lanes},
            "certificate": c,
        }
        self.assertEqual(self.code(inst, result), 0)
        self.assertEqual(self.code(inst, dict(result, certificate=dict(c, bound="15352.000001"))), 1)

    def test_nesting(self):
        text, head = json.dumps(self.good), json.dumps(self.inst)
        for left, right in (("[", "]"), ('{"a":', "}"), ('[{"]":', "}]"), ('["\\\\\\"[",', "]")):
            for levels, code in ((511, 0), (512, 2), (5000, 2)):  # and the outermost object
                n = levels // (len(right) if right != "]" else 1)
                deep = left * n + "0" + right * n
                if n * len(right) == levels:
                    self.assertEqual(self.code(head, text[:-1] + ', "more": %s}' % deep), code, (left, levels))
        many = ", ".join('"%d": [{"a": [{}]}]' % i for i in range(2000))  # wide, not deep
        self.assertEqual(self.code(head, text[:-1] + ', "more": {%s}}' % many), 0)
        self.assertEqual(self.code(head, text[:-1] + ', "more": "%s"}' % ("[" * 5000)), 0)
        self.assertEqual(self.code(head, text[:-1] + ', "more": "\\"%s"}' % ("{" * 5000)), 0)
        self.assertEqual(self.code(head[:-1] + "]" * 600 + "[" * 600, text), 2)

    def test_names_and_numbers_in_unknown_fields(self):
        text = json.dumps(self.good)[:-1]
        for more, code in (
            ('{"a": 1, "b": 1}', 0),
            ('{"a": 1, "a": 1}', 2),
            ('[{"a": {"b": 1, "\\u0062": 1}}]', 2),
            ("1" * 400, 0),
            ("1" * 401, 2),
            ("1." + "0" * 398, 0),
            ("1." + "0" * 399, 2),
            ("-1e" + "0" * 397, 0),
            ("-1e" + "0" * 398, 2),
            ('"%s"' % ("1" * 500), 0),
            ('{"%s": [1]}' % ("1" * 500), 0),
            ("[" + "7, " * 500 + "7]", 0),
            ('"\\ud83d\\ude00"', 0),
            ('"\\ud83d"', 2),
            ('[{"\\ude00": 1}]', 2),
            ('"\\\\ud83d"', 0),
        ):
            self.assertEqual(self.code(json.dumps(self.inst), text + ', "more": %s}' % more), code, more[:40])
        self.assertEqual(self.code(json.dumps(self.inst), text + ', "gap": 0}'), 2)

    def test_exactly_2_53(self):
        most = 1 << 53
        us = lambda n: hv.Number("%d.%06d" % divmod(n, 10**6))

        def tried(nodes=None, **job):
            doc = one_job(cluster(A=1), on={"A": {"compute_s": hv.Number("0.000001")}})
            doc["cluster"]["nodes"][0].update(nodes or {})
            doc["jobs"][0].update(job)
            if job.get("id") is None and "id" in job:
                doc["jobs"] = []
            try:
                hv.Instance([doc])
                return True
            except hv.Bad:
                return False

        for off, fine in ((0, True), (1, False)):
            self.assertEqual(tried(weight=us(most + off)), fine)
            self.assertEqual(tried(rounds=most + off), fine)
            self.assertEqual(tried(release_s=us(most - 1 + off)), fine)
            self.assertEqual(tried({"in_service_s": [[0, us(most - 1 + off)]]}), fine)
            self.assertEqual(tried({"in_service_s": [[us(most - 1 + off), None]]}), fine)
            self.assertEqual(tried({"busy": [{"gpu": 0, "until_s": us(most - 1 + off)}]}), fine)
            self.assertEqual(tried({"in_service_s": [[0, us(most + off)]]}, id=None), fine)  # without jobs
            self.assertEqual(tried({"busy": [{"gpu": 0, "until_s": us(most + off)}]}, id=None), fine)
            self.assertEqual(tried(on={"A": {"compute_s": us(most + off)}}), fine)
            # The last change, the last release and the work add up, in any order.
            self.assertEqual(tried({"in_service_s": [[0, 1]]}, release_s=us(most - 1 - 10**6 + off)), fine)
            try:
                hv.Schedule(
                    {
                        "jobs": ["x"],
                        "lanes": [{"gpu": "n/0", "job": [0], "start_us": [most + off], "period_us": [most + off]}],
                    },
                    [],
                )
                self.assertTrue(fine)
            except hv.Bad:
                self.assertFalse(fine)


class Replans(unittest.TestCase):
    """Genuine replans of hare solve --previous, and what was forged of them."""

    @classmethod
    def setUpClass(cls):
        folder = os.path.join(HERE, "testdata", "replans")
        cls.cases = {}
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                cls.cases[name[:-5]] = json.load(f)

    def code(self, inst, result, previous=None, before=None):
        try:
            inst, before = (x and self.decoded(x, hv.Instance) for x in (inst, before))
            previous = previous and self.decoded(previous, hv.Result)
            report = hv.judge(inst, hv.Result(hv.documents(json.dumps(result))), previous, before)
        except hv.Bad:
            return 2
        return 0 if report["ok"] else 1

    known = {}

    def decoded(self, doc, kind):
        """Decoded once, as most tests change the result alone."""
        text = json.dumps(doc)
        if (text, kind) not in self.known:
            self.known[text, kind] = kind(hv.documents(text))
        return self.known[text, kind]

    def both(self, case, result):
        """With the previous result, and by its own schedule of the whole."""
        return (
            self.code(case["instance"], result, case["previous"], case.get("previous_instance")),
            self.code(case["instance"], result),
        )

    def test_genuine(self):
        self.assertGreaterEqual(len(self.cases), 10)
        for name, case in self.cases.items():
            with self.subTest(name):
                result = case["result"]
                p = result["replan"]
                missing = 1 if "schedule" not in p else 0
                self.assertEqual(self.both(case, result), (0, missing))
                # Against the rest that it carries it is a plain result.
                report = hv.judge(instance(p["instance"]), hv.Result(hv.documents(json.dumps(result))))
                self.assertEqual((report["ok"], report["note"]), (True, hv.NOT_CHECKED))
                # What says nothing may be left out.
                bare = dict(result, replan={k: p[k] for k in ("at_s", "instance_sha256", "constant")})
                self.assertEqual(self.both(case, bare), (0, 1))

    def test_every_kind_is_there(self):
        had = set()
        for case in self.cases.values():
            p, jobs = case["result"]["replan"], case.get("previous_instance", case["instance"])["jobs"]
            sync = {j["id"]: j.get("sync", "relaxed") for j in jobs}
            had.update("%s %s" % (sync[x["job"]], what) for what in ("started", "lost") for x in p[what])
            had.update(what for what in ("gpus", "added", "removed", "schedule_missing") if p.get(what))
            had.update(["chained"] if "replan" in case["previous"] else [])
        kinds = {"%s %s" % (sync, what) for sync in ("relaxed", "gang", "rigid") for what in ("started", "lost")}
        self.assertEqual(had, kinds | {"gpus", "added", "removed", "schedule_missing", "chained"})

    def test_another_instance(self):
        """A toy that is optimal, and says that it belongs to any instance."""
        toy = {"hare": "instance/v1", "cluster": cluster(A=1), "jobs": [{"id": "x", "on": {"A": {"compute_s": 1}}}]}
        result = {
            "hare": "result/v1",
            "instance_sha256": instance(toy).sha256(),
            "objective": "weighted_jct",
            "value": 1,
            "bound": 1,
            "gap": 0,
            "termination": "optimal",
            "certificate": dict(Rules.machine, bound="1.000000"),
            "schedule": {"jobs": ["x"], "lanes": [{"gpu": "n/0", "job": [0], "start_us": [0]}]},
        }
        self.assertEqual(self.code(toy, result), 0)
        for case in self.cases.values():
            sha = instance(case["instance"]).sha256()
            for more in ({}, {"at_s": 0, "constant": 0}, dict(case["result"]["replan"], instance=toy)):
                forged = dict(result, replan=dict({"instance_sha256": sha, "instance": toy}, **more))
                self.assertEqual(self.both(case, forged), (1, 1))

    def test_raised_constant(self):
        """The last job of the whole ends 10^6 s later, and all sums say so."""
        tried = 0
        for case in self.cases.values():
            result = copy.deepcopy(case["result"])
            p = result["replan"]
            if "schedule" not in p:
                continue
            lanes = p["schedule"]["lanes"]
            lane = max(lanes, key=lambda lane: lane["start_us"][-1])
            weight = {j["id"]: j.get("weight", 1) for j in case["instance"]["jobs"]}[
                p["schedule"]["jobs"][lane["job"][-1]]
            ]
            lane["start_us"][-1] += 10**12
            for name in ("constant", "whole_value", "whole_bound"):
                if name in p:
                    p[name] = round(p[name] + weight * 10**6, 6)
            self.assertEqual(self.both(case, result), (1, 1))
            del p["schedule"]
            self.assertEqual(self.both(case, result), (1, 1))
            tried += 1
        self.assertGreater(tried, 5)

    CERTAIN = (
        "at_s",
        "instance_sha256",
        "constant",
        "whole_value",
        "whole_bound",
        "gain",
        "started",
        "gpus",
        "instance",
        "schedule",
    )
    BY_PREVIOUS = ("added", "removed", "lost")

    def leaves(self, value, path=()):
        if isinstance(value, (dict, list)):
            for k, v in value.items() if isinstance(value, dict) else enumerate(value):
                yield from self.leaves(v, path + (k,))
        else:
            yield path, value

    def test_every_figure_counts(self):
        changed = 0
        for name, case in self.cases.items():
            at_s = case["result"]["replan"]["at_s"] * 10**6
            for path, value in self.leaves(case["result"]):
                certain = path[0] in (
                    "hare",
                    "instance_sha256",
                    "objective",
                    "value",
                    "bound",
                    "gap",
                    "jobs",
                    "schedule",
                )
                certain |= path[0] == "replan" and path[1] in self.CERTAIN
                previous = path[0] == "replan" and path[1] in self.BY_PREVIOUS
                if not certain and not previous or path[1:] == ("instance", "name"):
                    continue
                if "period_us" in path:
                    continue  # says nothing of a single round
                result = copy.deepcopy(case["result"])
                at = result
                for k in path[:-1]:
                    at = at[k]
                at[path[-1]] = (
                    round(value + 1, 6)
                    if isinstance(value, (int, float)) and not isinstance(value, bool)
                    else not value
                    if isinstance(value, bool)
                    else value + "x"
                    if value
                    else "0" * 64
                )
                for tasks in ("sync", "mix"):
                    if path[-1] == tasks:
                        at[tasks] = (
                            {"relaxed": "gang", "gang": "rigid", "rigid": "relaxed"}[value]
                            if tasks == "sync"
                            else not value
                        )
                before = case.get("previous_instance")
                self.assertIn(self.code(case["instance"], result, case["previous"], before), (1, 2), (name, path))
                # Of what ended long ago nobody knows but the previous result.
                if certain and (path[:2] != ("replan", "schedule") or path[4:5] == ("start_us",) and value >= at_s):
                    self.assertIn(self.code(case["instance"], result), (1, 2), (name, path))
                changed += 1
        self.assertGreater(changed, 1000)

    def test_kinds(self):
        case = self.cases["chained"]
        for field in (
            self.CERTAIN
            + self.BY_PREVIOUS
            + ("kept_value", "schedule_missing", "stability", "planned_gpu_s", "kept", "moved")
        ):
            for wrong in (True, "x", 5, [5], {"a": 5}):
                p = dict(case["result"]["replan"], **{field: wrong})
                codes = self.both(case, dict(case["result"], replan=p))
                at_will = {"schedule_missing": "x", "moved": [5]}
                number = field in ("at_s", "stability") or field in hv.AMOUNTS
                if wrong == at_will.get(field, 5 if number else None) and wrong is not True:
                    continue
                self.assertEqual(codes, (2, 2), (field, wrong))
        for wrong in (5, [], "x", True):
            self.assertEqual(self.both(case, dict(case["result"], replan=wrong)), (2, 2))
        # At least what it is of, when and how much must be said.
        for field in ("at_s", "instance_sha256", "constant"):
            for gone in (False, True):
                p = dict(case["result"]["replan"], **{field: None})
                if gone:
                    del p[field]
                self.assertEqual(self.both(case, dict(case["result"], replan=p)), (1, 1), field)
        result = dict(case["result"])
        del result["instance_sha256"]
        self.assertEqual(self.both(case, result), (1, 1))
        self.assertEqual(self.both(case, dict(case["result"], schedule=None)), (1, 1))

    def test_previous(self):
        case = self.cases["chained"]
        inst, before, result = case["instance"], case.get("previous_instance", case["instance"]), case["result"]
        late = copy.deepcopy(case["previous"])
        schedule = (late["replan"] if "replan" in late else late)["schedule"]
        schedule["lanes"][0]["start_us"][0] += 10**9
        self.assertEqual(self.code(inst, result, late, before), 1)  # infeasible
        del (late["replan"] if "replan" in late else late)["schedule"]
        self.assertEqual(self.code(inst, result, late, before), 1)
        self.assertEqual(
            self.code(inst, result, dict(case["previous"], instance_sha256="0" * 64, replan=None), before), 1
        )
        # Of the previous result the schedule alone counts.
        self.assertEqual(self.code(inst, result, dict(case["previous"], objective="makespan", value=5), before), 0)
        # The past is another one than the replan's schedule says.
        other = next(c for name, c in self.cases.items() if name != "chained")
        self.assertEqual(
            self.code(inst, result, other["previous"], other.get("previous_instance", other["instance"])), 1
        )

    def test_other_ways_to_write_a_schedule(self):
        """Runs that are cut and joined mean the same."""
        rng, joined = random.Random(3), 0
        for case in self.cases.values():
            result = copy.deepcopy(case["result"])
            if "schedule" not in result["replan"]:
                continue
            for schedule in (result["schedule"], result["replan"]["schedule"]):
                for lane in schedule["lanes"]:
                    n = len(lane["job"])
                    columns = ("job", "round", "rounds", "tasks", "period_us", "start_us")
                    rows = list(zip(*(lane.get(c, [{"rounds": 1, "tasks": 1}.get(c, 0)] * n) for c in columns)))
                    out = []
                    for job, first, rounds, tasks, period, start in rows:
                        while rounds > 1:
                            n = rng.randint(1, rounds - 1)
                            out.append((job, first, n, tasks, period, start))
                            first, rounds, start = first + n, rounds - n, start + n * period
                            joined += 1
                        out.append((job, first, rounds, tasks, rng.choice((0, period, 7)), start))
                    for c, column in zip(columns, zip(*out)):
                        lane[c] = list(column)
            self.assertEqual(self.both(case, result), (0, 0))
        self.assertGreater(joined, 10)

    def test_meaning_of_runs(self):
        """Equal exactly where the rounds are, one by one."""

        def literal(runs):
            return sorted(
                (r.gpu, r.job, r.round + i, r.tasks, r.start + i * r.period) for r in runs for i in range(r.rounds)
            )

        rng, equal = random.Random(4), 0
        for _ in range(4000):
            pair = []
            for _ in range(2):
                runs, start, first = [], 0, 0
                while first < 6:
                    n, period = rng.randint(1, 6 - first), rng.randint(1, 2)
                    runs.append(hv.Run("g", "x", first, n, 1, period, start, 0, 1))
                    first, start = first + n, start + (n - 1) * period + rng.randint(1, 2)
                pair.append(runs)
            same = literal(pair[0]) == literal(pair[1])
            self.assertEqual(hv.meaning(pair[0]) == hv.meaning(pair[1]), same, pair)
            equal += same
        self.assertGreater(equal, 100)

    def test_changed_jobs(self):
        case = self.cases["rigid-started"]
        job = next(x["job"] for x in case["result"]["replan"]["started"])
        for field, value in (("tasks", 3), ("release_s", 1000), ("sync", "relaxed")):
            inst = copy.deepcopy(case["instance"])
            j = next(j for j in inst["jobs"] if j["id"] == job)
            j.pop("mix", None)
            j[field] = value if j.get(field) != value else "gang"
            p = dict(case["result"]["replan"], instance_sha256=instance(inst).sha256())
            before = case.get("previous_instance", case["instance"])
            self.assertEqual(self.code(inst, dict(case["result"], replan=p), case["previous"], before), 1, field)

    def test_rounds_without_number(self):
        """What is left of a billion rounds costs no more than of ten."""
        for rounds in (10, 10**9):
            jobs = [
                {"id": s, "sync": s, "rounds": rounds, "tasks": 2, "on": {"A": {"compute_s": 0.001}}}
                for s in ("gang", "relaxed")
            ]
            whole = {"hare": "instance/v1", "cluster": cluster(A=4), "jobs": jobs}
            inst = instance(whole)
            lanes = [
                {"gpu": "n/%d" % g, "job": [g // 2], "rounds": [rounds], "period_us": [1000], "start_us": [0]}
                for g in range(4)
            ]
            began = time.perf_counter()
            rest = hv.Rest(inst, inst, hv.Schedule({"jobs": ["gang", "relaxed"], "lanes": lanes}, []), 2500)
            self.assertLess(time.perf_counter() - began, 1)
            self.assertEqual(rest.started, [("gang", 3, 3000), ("relaxed", 3, 3000)])
            self.assertEqual([(j.rounds, j.release) for j in rest.inst.jobs], [(rounds - 3, 500)] * 2)
            self.assertEqual(rest.constant, 2 * 3000 * 10**6)
            self.assertEqual([n.busy for n in rest.inst.nodes], [{g: 500 for g in range(4)}])

    def test_fewer_rounds_after_a_loss(self):
        """A lost round that is no longer asked for: the job ended with the one before."""
        before = one_job(cluster(A=1), rounds=2, sync="gang", on={"A": {"compute_s": 10}})
        now = one_job(cluster([[0, 15]], A=1), rounds=1, sync="gang", on={"A": {"compute_s": 10}})
        schedule = hv.Schedule(
            {
                "jobs": ["x"],
                "lanes": [{"gpu": "n/0", "job": [0], "rounds": [2], "period_us": [10**7], "start_us": [0]}],
            },
            [],
        )
        rest = hv.Rest(instance(now), instance(before), schedule, 12 * 10**6)
        self.assertEqual((rest.lost, rest.constant, rest.inst.jobs), ([("x", 1, "n/0")], 10 * 10**12, []))

    def test_nodes_that_are_split(self):
        """A started round that needs its GPU again after a pause: by hand."""
        whole = one_job(cluster(A=2), tasks=3, on={"A": {"compute_s": 2}})
        whole["cluster"]["nodes"].append({"name": "n.0", "gpus": {"A": 1}, "in_service_s": [[0, 1]]})
        whole["jobs"].append({"id": "y", "on": {"A": {"compute_s": 1}}})
        lanes = [
            {"gpu": "n/0", "job": [0, 0], "start_us": [0, 6 * 10**6]},
            {"gpu": "n/1", "job": [0, 1], "start_us": [0, 2 * 10**6]},
        ]
        inst = instance(whole)
        rest = hv.Rest(inst, inst, hv.Schedule({"jobs": ["x", "y"], "lanes": lanes}, []), 10**6)
        self.assertEqual(rest.gpus, {"n.0'/0": "n/0", "n.1/0": "n/1"})
        self.assertEqual(
            [(n.name, n.windows, n.busy) for n in rest.inst.nodes],
            [("n.0'", [(0, 5 * 10**6), (7 * 10**6, hv.FOREVER)], {0: 10**6}), ("n.1", [(0, hv.FOREVER)], {0: 10**6})],
        )
        self.assertEqual((rest.constant, rest.started), ((8 + 1) * 10**12, [("x", 1, 8 * 10**6)]))

    def test_command_line(self):
        case = self.cases["chained"]
        with tempfile.TemporaryDirectory() as folder:
            names = {}
            for what, doc in case.items():
                names[what] = os.path.join(folder, what)
                with open(names[what], "w", encoding="utf-8") as f:
                    json.dump(doc, f)
            inst, result, previous = names["instance"], names["result"], names["previous"]
            before = names.get("previous_instance", inst)
            code, out, _ = main(inst, result)
            self.assertEqual((code, hv.SELF_SAID in out, "both plus" in out), (0, True, True))
            for argv in (
                ("--previous", previous, "--previous-instance", before),
                ("--previous=" + previous, "--previous-instance=" + before),
            ):
                code, out, _ = main(inst, result, *argv)
                self.assertEqual((code, "give" in out), (0, False))
            code, out, _ = main(inst, result, "--json", "--previous", previous, "--previous-instance", before)
            self.assertEqual(
                hv.Fraction(json.loads(out)["constant"]), hv.Fraction(str(case["result"]["replan"]["constant"]))
            )
            for argv in (
                ("--previous",),
                ("--previous-instance", before),
                ("--previous", previous, "--bound-only"),
                ("--previous", "-", "--previous-instance", "-"),
                ("--previous", previous, "--previous", previous),
                ("--previous", os.path.join(folder, "absent")),
            ):
                self.assertEqual(main(inst, result, *argv)[0], 2, argv)

    def test_any_change(self):
        """No traceback, whatever is changed, and no accepted replan with another constant."""
        rng = random.Random(6)
        values = [None, True, 0, 1, -1, 0.5, 10**30, "", "x", [], {}, [[]], {"a": 1}, 1 << 53, "\ud800"]
        for _ in range(600):
            case = copy.deepcopy(rng.choice(list(self.cases.values())))
            for _ in range(rng.choice((1, 1, 2, 4))):
                at = case[rng.choice(("result", "result", "result", *case))]
                while True:
                    if not at:
                        break
                    k = rng.choice(list(at)) if isinstance(at, dict) else rng.randrange(len(at))
                    if isinstance(at[k], (dict, list)) and at[k] and rng.random() < 0.9:
                        at = at[k]
                        continue
                    if rng.random() < 0.2:
                        del at[k]
                    else:
                        at[k] = rng.choice(values)
                    break
            constant = case["result"].get("replan")
            codes = self.both(case, case["result"])
            self.assertLessEqual(set(codes), {0, 1, 2}, constant)


def least(schedule):
    return min(min(v) for lane in schedule["lanes"] for k, v in lane.items() if k != "gpu")


class Inputs(unittest.TestCase):
    good = {
        "hare": "instance/v1",
        "cluster": {"nodes": [{"name": "n", "gpus": {"A": 2}}]},
        "jobs": [{"id": "x", "on": {"A": {"compute_s": 1}}}],
    }

    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def write(self, name, data):
        path = os.path.join(self.dir.name, name)
        with open(path, "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())
        return path

    def test_canonical_form(self):
        a = instance(self.good)
        same = copy.deepcopy(self.good)
        same["name"] = "another"
        same["cluster"]["nodes"][0].update(in_service_s=[[0, 2.5], [2.5, None]], busy=[{"gpu": 1, "until_s": 0}])
        same["jobs"][0].update(weight=1.0, release_s=0, rounds=1, tasks=1, sync="relaxed", mix=True)
        self.assertEqual(a.sha256(), instance(same).sha256())
        same["jobs"][0].update(estimate_s=2.5, **{"class": {"user": "ann", "name": ""}})
        self.assertEqual(a.sha256(), instance(same).sha256())
        same["jobs"][0]["weight"] = 1.000001
        self.assertNotEqual(a.sha256(), instance(same).sha256())
        text = (
            '{"cluster":{"nodes":[{"busy":[],"gpus":{"A":2},"in_service_us":[[0,null]],"name":"n"}]},'
            '"hare":"instance/v1","jobs":[{"id":"x",'
            '"mix":false,"on":{"A":{"compute_us":1000000,"sync_us":0}},"release_us":0,"rounds":1,"sync":"relaxed",'
            '"tasks":1,"weight_micro":1000000}],'
            '"objective":"weighted_jct"}'
        )
        self.assertEqual(a.sha256(), hv.hashlib.sha256(text.encode()).hexdigest())
        self.assertEqual(
            hv.canonical({"\U0001f600": 1, "\ufb01": 2, "a\u001f": "\u20ac\n"}),
            '{"a\\u001f":"\u20ac\\n","\U0001f600":1,"\ufb01":2}',
        )

    def test_hints_of_jobs(self):
        for field, value, at in (
            ("estimate_s", 0, "/jobs/0/estimate_s"),
            ("estimate_s", "1h", "/jobs/0/estimate_s"),
            ("class", "bert", "/jobs/0/class"),
            ("class", {"user": 1}, "/jobs/0/class/user"),
            ("class", {"": "ann"}, "/jobs/0/class/"),
            ("class", {"user": "a" * 101}, "/jobs/0/class/user"),
            ("class", {str(i): "" for i in range(9)}, "/jobs/0/class"),
        ):
            doc = copy.deepcopy(self.good)
            doc["jobs"][0][field] = value
            with self.assertRaises(hv.Bad) as raised:
                instance(doc)
            self.assertTrue(str(raised.exception).startswith(at + ":"), raised.exception)

    def test_numbers_are_exact(self):
        for text, want in (
            ("1", 10**6),
            ("0.000001", 1),
            ("1e-6", 1),
            ("12.5e1", 125 * 10**6),
            ("-0.0", 0),
            ("1.0000000", 10**6),
            ("0e999999999", 0),
            ("9007199254.740992", 1 << 53),
        ):
            self.assertEqual(hv.micros(hv.documents(text)[0], ""), want, text)
        for text in (
            "1e309",
            "0.0000001",
            "1e-7",
            "1e999999999999",
            "9007199254.740993",
            "-1",
            "-0.000001",
            '"1"',
            "true",
            "null",
            "1e-999999999999",
            "9" * 5000,
            "0." + "0" * 500 + "1",
        ):
            with self.assertRaises(hv.Bad, msg=text[:30]):
                hv.micros(hv.documents(text)[0], "")

    def test_bad_instances(self):
        def changed(path, value):
            doc = copy.deepcopy(self.good)
            at = doc
            for p in path[:-1]:
                at = at[p]
            if value is KeyError:
                del at[path[-1]]
            else:
                at[path[-1]] = value
            return json.dumps(doc)

        job, node, a = ("jobs", 0), ("cluster", "nodes", 0), ("jobs", 0, "on", "A")
        bad = [
            "",
            " ",
            "null",
            "[]",
            "1",
            '"x"',
            "{",
            "{}",
            "[" * 10**6,
            '{"a":' * 10**5,
            "NaN",
            json.dumps(self.good)[:-1],
            json.dumps(self.good) + "x",
            json.dumps(self.good) + "{}",
            "\ufeff" + json.dumps(self.good),
            json.dumps(self.good).replace('"hare"', '"hare": "instance/v1", "hare"'),
            json.dumps(self.good).replace('"compute_s": 1', '"compute_s": NaN'),
            json.dumps(self.good).replace('"compute_s": 1', '"compute_s": 1e309'),
            json.dumps(self.good).replace('"compute_s": 1', '"compute_s": 01'),
            json.dumps(self.good).replace('"id": "x"', '"id": "\\ud800"'),
            changed(("hare",), "instance/v2"),
            changed(("objective",), "cost"),
            changed(("extra",), 1),
            changed(("jobs",), {}),
            changed(("cluster",), KeyError),
            changed(("jobs",), KeyError),
            changed(("jobs",), [self.good["jobs"][0]] * 2),
            changed(("name",), 1),
            changed(("cluster", "nodes"), []),
            changed(node + ("count",), 2 * 10**9),
            changed(node + ("count",), 0),
            changed(node + ("gpus",), {}),
            changed(node + ("gpus",), {"A": 0}),
            changed(node + ("gpus",), {"": 1}),
            changed(node + ("name",), "a/b"),
            changed(node + ("in_service_s",), []),
            changed(node + ("in_service_s",), [[1, 1]]),
            changed(node + ("in_service_s",), [[0, None], [5, 6]]),
            changed(node + ("in_service_s",), [[0]]),
            changed(node + ("in_service_s",), [[2, 3], [0, 1]]),
            changed(node + ("busy",), [{"gpu": 2, "until_s": 1}]),
            changed(node + ("busy",), [{"gpu": 0, "until_s": 1}] * 2),
            changed(node + ("busy",), [{"gpu": 0}]),
            changed(job + ("id",), ""),
            changed(job + ("weight",), -1),
            changed(job + ("weight",), "1"),
            changed(job + ("rounds",), 0),
            changed(job + ("rounds",), 1.5),
            changed(job + ("rounds",), True),
            changed(job + ("tasks",), 1 << 31),
            changed(job + ("sync",), "loose"),
            changed(job + ("sync",), None),
            changed(job + ("mix",), False),
            changed(job + ("mix",), None),
            changed(job + ("on",), {}),
            changed(job + ("on",), KeyError),
            changed(a, {}),
            changed(a, None),
            changed(a + ("compute_s",), 0),
            changed(a + ("compute_s",), 0.0000001),
            changed(a + ("sync_s",), -1),
            changed(a + ("sync_s",), {"ring": 1}),
            changed(job + ("rounds",), 1 << 53),
        ]
        bad += [changed(job + (name,), 1) for name in sorted(hv.RESERVED - {"deadline_s", "late_weight"})]
        result = self.write("r", json.dumps({"hare": "result/v1", "objective": "weighted_jct"}))
        for text in bad:
            with self.subTest(text=text[:300]):
                code, out, err = main(self.write("i", text), result)
                self.assertEqual((code, out), (2, ""))
                self.assertTrue(err.startswith("hare_verify: ") and len(err) < 2000, err[:300])
        # Names of types are free, reserved or not.
        doc = copy.deepcopy(self.good)
        doc["cluster"]["nodes"][0]["gpus"] = {"only": 1}
        doc["jobs"][0]["on"] = {"only": {"compute_s": 1}}
        instance(doc)

    def test_bad_results(self):
        inst = self.write("i", json.dumps(self.good))
        schedule = {"jobs": ["x"], "lanes": [{"gpu": "n/0", "job": [0], "start_us": [0]}]}
        good = {"hare": "result/v1", "objective": "weighted_jct", "value": 1, "schedule": schedule}
        self.assertEqual(main(inst, self.write("r", json.dumps(good)))[0], 0)
        unreadable = [
            {},
            [],
            dict(good, hare="result/v2"),
            dict(good, objective=None),
            dict(good, value="1"),
            dict(good, schedule=[]),
            dict(good, schedule={}),
            dict(good, schedule=dict(schedule, more=1)),
            dict(good, schedule=dict(schedule, lanes=[{}])),
            dict(good, schedule=dict(schedule, lanes=[1])),
            dict(good, certificate=1),
            dict(good, certificate={}),
            dict(good, certificate=price([0, 1], {}, bound=1)),
            dict(good, certificate=price([0, 1], {}, bound="1e9")),
            dict(good, certificate=price([0, 1], {}, bound="nan")),
            dict(good, jobs=[1]),
            dict(good, instance_sha256=5),
        ]
        unreadable.append(dict(good, schedule=dict(schedule, jobs=[])))  # its lane names the first job
        for lane in (
            {"tasks": [1, 1]},
            {"start_us": None},
            {"start_us": [-1]},
            {"start_us": [0.5]},
            {"start_us": [1 << 54]},
            {"gpu": 1},
            {"speed": [1]},
            {"job": ["x"]},
        ):
            unreadable.append(dict(good, schedule=dict(schedule, lanes=[dict(schedule["lanes"][0], **lane)])))
        for doc in unreadable:
            with self.subTest(doc=doc):
                self.assertEqual(main(inst, self.write("r", json.dumps(doc)))[0], 2)
        refused = [dict(good, schedule=None), dict(good, bound=1), dict(good, certificate=price([0, 1], {}))]
        for change in ({"jobs": ["x", "x"]}, {"jobs": ["y"]}, {"lanes": []}, {"lanes": schedule["lanes"] * 2}):
            refused.append(dict(good, schedule=dict(schedule, **change)))
        for doc in refused:
            with self.subTest(doc=doc):
                code, out, _ = main(inst, self.write("r", json.dumps(doc)))
                self.assertEqual((code, out[:9]), (1, "refused: "))

    def test_broken_files(self):
        inst = self.write("i", json.dumps(self.good))
        whole = gzip.compress(json.dumps(self.good).encode() * 50)
        for data in (
            whole[: len(whole) // 2],
            b"\x1f\x8b",
            b"\x1f\x8b\x08\x00garbage garbage",
            whole[:20] + b"\xff" * 30,
            b"\xff\xfe",
            b"\x00",
            b"\x28\xb5\x2f\xfd",
        ):
            self.assertEqual(main(self.write("x", data), inst)[0], 2, data[:20])
        with mock.patch.object(hv, "MOST_BYTES", 100):  # a bomb stops at the limit
            code, _, err = main(self.write("x", gzip.compress(b" " * 10**6)), inst)
            self.assertEqual((code, "longer than" in err), (2, True))
        self.assertEqual(main(os.path.join(self.dir.name, "absent"), inst)[0], 2)
        self.assertEqual(main(self.dir.name, inst)[0], 2)

    def test_usage(self):
        for argv in ((), ("one",), ("a", "b", "c"), ("-", "-"), ("a", "b", "--fast")):
            code, out, err = main(*argv)
            self.assertEqual((code, out), (2, ""))
            self.assertIn("instance.json", err)
        self.assertEqual(main("--help")[0], 0)

    def test_lines_gzip_and_standard_input(self):
        inst_doc, res = example("traps")
        head = {k: v for k, v in inst_doc.items() if k != "jobs"}
        lines = "\n".join(json.dumps(x) for x in [head] + inst_doc["jobs"])
        inst = self.write("i.ndjson.gz", gzip.compress(lines.encode()))
        lanes = res["schedule"]["lanes"]
        res["schedule"]["lanes"] = []
        text = "\n".join(json.dumps(x) for x in [res] + lanes) + "\n"
        code, out, _ = main(inst, "-", stdin=text.encode())
        self.assertEqual((code, out), (0, "accepted: value 73.2125, bound 42.120521\n"))
        code, out, _ = main(
            inst, "-", "--json", "--bound-only", stdin=gzip.compress(json.dumps(res["certificate"]).encode())
        )
        self.assertEqual((code, json.loads(out)["bound_exact"]), (0, "19459681/462000"))
        del res["certificate"]["bound"]
        self.assertEqual(
            main(inst, "-", "--bound-only", stdin=json.dumps(res).encode())[1], "accepted: bound 42.120521\n"
        )
        code, out, _ = main(inst, "-", "--json", stdin=text.replace('"value": 73.2125', '"value": 73').encode())
        self.assertEqual((code, json.loads(out)["faults"][0]["constraint"]), (1, "value"))

    def test_any_bytes(self):
        """No traceback, whatever is flipped."""
        rng = random.Random(1)
        for name in ("three-jobs", "traps"):
            with open(os.path.join(DATA, "examples", name + ".instance.json"), "rb") as f:
                a = f.read()
            with open(os.path.join(DATA, "examples", name + ".result.json"), "rb") as f:
                b = f.read()
            for i in range(300):
                texts = [bytearray(a), bytearray(b)]
                for _ in range(rng.choice((1, 1, 2, 10))):
                    t = texts[rng.random() < 0.6]
                    t[rng.randrange(len(t))] = rng.choice(b'0123456789-.eE"[]{},: \x00\xff')
                code, _, _ = main(self.write("i", bytes(texts[0])), self.write("r", bytes(texts[1])))
                self.assertIn(code, (0, 1, 2))


if __name__ == "__main__":
    unittest.main()
