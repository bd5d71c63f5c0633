#!/usr/bin/env python3
"""Submits jobs to a real Slurm, imports what its sacct tells, and compares with what was submitted.

  scripts/slurm-round-trip.py HARE [JOBS]

Each of JOBS (default 200) jobs asks for GPUs in one of seven ways, with types, features, nodes that it
requires or excludes, CPUs, memory, limits, comments and names of all kinds. hare import slurm reads
sacct -P and sacct --json; tasks, GPUs, types, nodes, CPUs, memory, times and users of every job that ran
must be those that were submitted, what happened must pass hare verify, and both forms must agree. Needs
slurmdbd and MariaDB beside Slurm (scripts/slurm-cluster.sh). SEED changes the jobs; after LIMIT_S seconds
those that still wait are cancelled.
"""

import concurrent.futures
import json
import os
import random
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = ["v100", "t4", "k80"]
NODES = [f"{t}-{i}" for t in TYPES for i in range(2)]
MIB_PER_CPU = 64  # DefMemPerCPU of the cluster


def run(*args, **kw):
    return subprocess.run(args, check=True, stdout=subprocess.PIPE, text=True, **kw).stdout


def job(rng, number):
    """Returns the arguments of sbatch, and what the instance must say of each job that they make."""
    gpus, gpu_type, args = rng.choice([1, 1, 1, 2, 2, 3, 4]), rng.choice(TYPES), []
    want = {"tasks": 1, "gpus_per_task": gpus, "distinct": False, "types": TYPES, "only": {}, "exclude": [],
            "array": 1}
    tasks, nodes = 1, 1
    kind = rng.choice(["gres", "typed", "node", "wide", "gpus", "task", "array"])
    if kind in ("gres", "array"):
        args = [f"--gres=gpu:{gpus}"]
    elif kind == "typed":
        args, want["types"] = [f"--gres=gpu:{gpu_type}:{gpus}"], [gpu_type]
    elif kind == "node":
        args = ["-N1", f"--gpus-per-node={gpus}"]
    elif kind == "wide":
        tasks = nodes = want["tasks"] = 2
        args, want["types"], want["distinct"] = ["-N", "2", "--ntasks-per-node=1", f"--gres=gpu:{gpu_type}:{gpus}"], [
            gpu_type], True
    elif kind == "gpus":
        args, want["tasks"], want["gpus_per_task"] = [f"--gpus={gpus}"], gpus, 1
    elif kind == "task":
        tasks = want["tasks"] = rng.choice([1, 2])
        args = ["-n", str(tasks), f"--gpus-per-task={gpus}"]
    if kind == "array":
        want["array"] = rng.randint(2, 10)
        args += [f"--array=0-{want['array'] - 1}"]
    if kind in ("gpus", "task") or rng.random() < 0.2:  # GPUs of one job on two types are no rigid job
        if want["types"] == TYPES:
            args, want["only"] = args + ["-C", gpu_type], {f"feature.{gpu_type}": "yes"}
            kept = [gpu_type]
        else:
            kept = want["types"]
    else:
        kept = want["types"]
    may = [n for n in NODES if n.split("-")[0] in kept]
    if nodes == 1 and kind not in ("gpus", "task") and rng.random() < 0.15:
        node = rng.choice(may)
        args += rng.choice([["-w", node], [f"--nodelist={node}"]])
        want["only"]["node"] = node
    elif nodes == 1 and rng.random() < 0.15:
        node = rng.choice(may)
        args += rng.choice([["-x", node], [f"--exclude={node}"]])
        want["exclude"] = [node]
    cpus = rng.choice([1, 1, 2])
    args += ["-c", str(cpus)]
    want["cpus"], want["memory"] = cpus * tasks, cpus * tasks * MIB_PER_CPU
    if rng.random() < 0.3:
        mem = rng.choice([100, 256, 333])
        args += [f"--mem={mem}M"]
        want["memory"] = mem * nodes
    want["limit"] = rng.randint(2, 50)
    args += ["-t", str(want["limit"])]
    if rng.random() < 0.5:
        want["comment"] = {t: rng.randint(1, 99) for t in TYPES}
        args += ["--comment=hare=" + json.dumps(want["comment"], separators=(",", ":"))]
    want["name"] = rng.choice(["train", "a|b", "two words", "quote'd", "übung", f"n{number}"])
    args += ["-J", want["name"], "--wrap", f"sleep {rng.choice([1, 1, 1, 2])}"]
    return args, want


def submit(args, want):
    before = time.time()
    want["id"] = run("sbatch", "--parsable", "-D", "/", "-o", "/dev/null", *args).strip().split(";")[0]
    want["submit"] = (before - 1, time.time() + 1)
    want["args"] = args
    return want


def differences(want, got, base):
    """Yields what the instance says otherwise of a job than what was submitted."""
    gpus = want["tasks"] * want["gpus_per_task"]
    tasks, per = got.get("tasks", 1), got.get("gpus_per_task", 1)
    if (tasks, per) != (want["tasks"], want["gpus_per_task"]):
        yield f"{tasks} tasks of {per} GPUs, not {want['tasks']} of {want['gpus_per_task']} ({gpus} in all)"
    if got.get("distinct_nodes", False) != want["distinct"]:
        yield "distinct_nodes"
    if sorted(got["on"]) != sorted(want["types"]):
        yield f"types {sorted(got['on'])}, not {sorted(want['types'])}"
    if got.get("only", {}) != want["only"]:
        yield f"only {got.get('only')}, not {want['only']}"
    exclude = got.get("exclude", {}).get("node", [])
    if ([exclude] if isinstance(exclude, str) else exclude) != want["exclude"]:
        yield f"exclude {exclude}, not {want['exclude']}"
    # Slurm gives a job that it spreads over several nodes its CPUs, and --mem, on each of them.
    cpus = got.get("cpus_per_task", 0) * tasks
    if not any(abs(cpus - want["cpus"] * n) <= 0.01 * tasks for n in (1, want["nodes"])):
        yield f"{cpus} CPUs, not {want['cpus']}"
    memory = got.get("memory_mib_per_task", 0) * tasks
    if not any(0 <= want["memory"] * n - memory < tasks for n in (1, want["nodes"])):
        yield f"{got.get('memory_mib_per_task', 0) * tasks} MiB, not {want['memory']}"
    at = base + got.get("release_s", 0)
    # A Slurm 25.11 says that tasks of arrays are eligible when its scheduler first saw them.
    if not want["submit"][0] <= at <= want["submit"][1] + (5 if "--array" in " ".join(want["args"]) else 0):
        yield f"released at {at}, submitted in {want['submit']}"
    if got.get("user") not in (want["user"], [want["user"]]):
        yield f"user {got.get('user')}"
    ran = [t for t in got["on"] if t in want["ran"]]
    for gpu_type, profile in got["on"].items():
        if gpu_type in want["ran"]:
            if profile["compute_s"] != want["ran"][gpu_type]:
                yield f"took {profile['compute_s']} s, by sacct {want['ran'][gpu_type]}"
        elif "comment" in want and ran:  # the comment tells how types compare
            expected = want["ran"][ran[0]] * want["comment"][gpu_type] / want["comment"][ran[0]]
            if abs(profile["compute_s"] - expected) > 2e-6:
                yield f"{profile['compute_s']} s on {gpu_type}, not {expected} by its comment"
    if not ran:
        yield "has no time on the type where it ran"


def main():
    if len(sys.argv) not in (2, 3) or not sys.argv[-1].isdigit() and len(sys.argv) == 3:
        print(__doc__, file=sys.stderr)
        return 2
    hare, count = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 200
    seed = int(os.environ.get("SEED", "1"))
    folder = os.environ.setdefault("SLURM_TEST_DIR", tempfile.mkdtemp(prefix="hare-slurm."))
    os.environ.update(SLURM_TEST_ACCOUNTING="1", SLURM_TEST_NODES=" ".join(f"{n}:{n.split('-')[0]}:8" for n in NODES),
                      SLURM_CONF=f"{folder}/slurm.conf", TZ="UTC")
    time.tzset()
    cluster = os.path.join(HERE, "slurm-cluster.sh")
    if code := subprocess.run([cluster, "up"], check=False).returncode:
        subprocess.run([cluster, "down"], check=False)
        return code
    try:
        return trip(hare, count, seed, folder)
    finally:
        subprocess.run([cluster, "down"], check=False)


def trip(hare, count, seed, folder):
    rng = random.Random(seed)
    specs, total = [], 0
    while total < count:
        specs.append(job(rng, len(specs)))
        total += specs[-1][1]["array"]
    begin, limit = time.time(), float(os.environ.get("LIMIT_S", "0"))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        wants = list(pool.map(lambda spec: submit(*spec), specs))
    print(f"{len(specs)} submissions of {total} jobs took {time.time() - begin:.0f} s", flush=True)
    while run("squeue", "-h", "-o", "%A").strip():
        time.sleep(1)
        if limit and time.time() > begin + limit:
            waiting, limit = len(run("squeue", "-h", "-r", "-t", "PENDING", "-o", "%A").split()), 0
            run("scancel", "--state=PENDING", "-u", run("id", "-un").strip())
            print(f"cancelled {waiting} jobs that still waited", flush=True)
    time.sleep(6)  # slurmctld tells slurmdbd within five seconds
    print(f"all had ended after {time.time() - begin:.0f} s", flush=True)

    fields = run(hare, "import", "slurm", "--help").split(" -o ")[1].split()[0]
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(begin - 3600))
    sacct = ["sacct", "-a", "-D", "-S", since]
    paths = {name: os.path.join(folder, name) for name in ("jobs.txt", "jobs.json", "nodes.txt")}
    for name, args in (("jobs.txt", [*sacct, "-P", "--delimiter=\x1f", "-o", fields]),
                       ("jobs.json", [*sacct, "--json"]), ("nodes.txt", ["scontrol", "show", "node"])):
        with open(paths[name], "w", encoding="utf-8") as out:
            subprocess.run(args, check=True, stdout=out)
    rows = {}
    for line in run(*sacct, "-X", "-n", "-P", "-o", "JobID,State,Start,End,NodeList").splitlines():
        number, state, start, end, nodes = line.split("|")
        rows[number] = (state, start, end, nodes)

    instances, reports, refused = {}, {}, False
    for form in ("txt", "json"):
        out = {what: os.path.join(folder, f"{form}.{what}.json") for what in ("instance", "happened", "report")}
        run(hare, "import", "slurm", paths[f"jobs.{form}"], paths["nodes.txt"], "-o", out["instance"], "--happened",
            out["happened"], "--report", out["report"], stderr=subprocess.DEVNULL)
        verdict = subprocess.run([hare, "verify", out["instance"], out["happened"]], check=False, text=True,
                                 stdout=subprocess.PIPE)
        print(f"{form}: {verdict.stdout.strip()}")
        refused = refused or verdict.returncode != 0
        instances[form] = {j["id"]: j for j in json.load(open(out["instance"], encoding="utf-8"))["jobs"]}
        reports[form] = json.load(open(out["report"], encoding="utf-8"))
    if refused and not any("," in row[3] or "[" in row[3] for row in rows.values()):
        return 1  # sacct does not tell how GPUs and CPUs lie on several nodes; on one there is nothing to guess
    return compare(wants, rows, instances, reports, total)


def clock(text):
    return int(time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S")))


def compare(wants, rows, instances, reports, total):
    user = run("id", "-un").strip()
    tasks = {}
    for want in wants:
        for i in range(want["array"]):
            number = want["id"] if want["array"] == 1 else f"{want['id']}_{i}"
            tasks[number] = {**want, "user": user}
    first = min((tasks[n] for n in instances["txt"]), key=lambda want: want["submit"][0])
    got = instances["txt"]
    # Time 0 is the first submission; sacct has its second.
    base = min(clock(line) for line in run("sacct", "-X", "-n", "-P", "-j", first["id"], "-o", "Submit").split())
    short, faults, ran = 0, [], 0
    for number, want in tasks.items():
        state, start, end, nodes = rows.get(number, ("cancelled with its array", "Unknown", "Unknown", ""))
        seconds = clock(end) - clock(start) if {start, end}.isdisjoint({"Unknown", "None"}) else 0
        if number not in got:
            if seconds > 0:
                faults.append((number, want["args"], [f"is not in the instance ({state}, {seconds} s)"]))
            short += 1
            continue
        ran += 1
        want["nodes"] = 1 if want["distinct"] else len(nodes.split(",")) + nodes.count("[0-1]")
        want["ran"] = {node.split("-")[0].split("[")[0]: seconds for node in nodes.split(",")}
        found = list(differences(want, got[number], base))
        if found:
            faults.append((number, want["args"], found))
    # sacct --json of 22.05 has no command lines: what only they tell is left out of the comparison.
    lined = ("tasks", "gpus_per_task", "cpus_per_task", "memory_mib_per_task", "distinct_nodes", "exclude", "only")
    plain = lambda j: {k: v for k, v in j.items() if k not in lined}
    for number in got.keys() | instances["json"].keys():
        a, b = got.get(number), instances["json"].get(number)
        if a is None or b is None or plain(a) != plain(b):
            faults.append((number, tasks[number]["args"], [f"sacct -P gives {a}, --json {b}"]))
    print(f"{total} jobs: {ran} ran for a second or longer and were compared, {short} ran for less or not at all; "
          f"{len(faults)} differ")
    for note in reports["txt"].get("left_out", []) + reports["txt"].get("doubtful", []):
        print(f"  report: {note['count']} {note['what']}")
    for number, args, found in faults[:20]:
        print(f"  job {number}: {'; '.join(found)}: sbatch {' '.join(args)}")
    return 1 if faults or ran == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
