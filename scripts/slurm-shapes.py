#!/usr/bin/env python3
"""Submits one job of every shape to a real Slurm with accounting, and compares what is imported with it.

  scripts/slurm-shapes.py HARE

While other jobs hold all GPUs, squeue --json must tell what the waiting jobs ask for. Then jobs run, are
requeued, suspended, preempted, cancelled, made smaller, fail, and lose their node. What sacct -P,
sacct --json and squeue --json tell, each alone and merged, must give for each job its attempts with
tasks, GPUs, types, features, CPUs, memory, seconds and submission, and hare verify must accept what
happened. Takes about 50 s and needs slurmdbd and MariaDB (scripts/slurm-cluster.sh). With
SLURM_TEST_TRES=gres/gpu accounting counts GPUs without their types, with gres/shard no GPUs.
KEEP=DIRECTORY keeps the texts.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NODES = {"v100-0": "v100:4", "v100-1": "v100:4", "t4-0": "t4:4", "t4-1": "t4:4",  # of eight CPUs each
         "mixed-0": "v100:2,t4:2"}  # the only node of the partition mixed, and not in the partition gpu
BOTH, MIB_PER_CPU = ["t4", "v100"], 64


def run(*args):
    return subprocess.run(args, check=True, stdout=subprocess.PIPE, text=True).stdout


def shape(args, tasks=1, gpus=1, types=None, cpus=None, distinct=False, feature=None, **more):
    """Returns what to submit, and what the instance must say. ids end the IDs of its tasks or attempts."""
    return {"args": args.split(), "tasks": tasks, "gpus": gpus, "types": types or BOTH, "distinct": distinct,
            "cpus": cpus or tasks, "feature": feature, "ids": [""], **more}


# Jobs that wait, then run for two seconds and end.
WAITING = {
    "untyped": shape("--gres=gpu:2", gpus=2, cpus=1),
    "typed": shape("--gres=gpu:t4:2", gpus=2, types=["t4"], cpus=1),
    "one-node": shape("-N1 -G3", gpus=3, cpus=1),
    "job": shape("-G t4:4", tasks=4, types=["t4"], cpus=1),
    "node": shape("-N2 --gpus-per-node=2", tasks=2, gpus=2, distinct=True),
    "nodes-typed": shape("-N2 --gpus-per-node=t4:1", tasks=2, types=["t4"], distinct=True),
    "socket": shape("--gpus-per-socket=1 --sockets-per-node=2 --ntasks-per-socket=1 -n2", gpus=2, cpus=2),
    "task": shape("-n3 --gpus-per-task=1 -C v100", tasks=3, feature="v100"),
    "task-node": shape("-N2 --ntasks-per-node=2 --gpus-per-task=1 -C v100", tasks=2, gpus=2, cpus=4,
                       distinct=True, feature="v100"),
    "cpus": shape("--gpus=2 --cpus-per-gpu=2 --mem-per-gpu=100", tasks=2, cpus=4, memory=200),
    "range": shape("-N1-2 --gres=gpu:1", range=True),
    "array": shape("--array=0-6:2%2 --gres=gpu:1", ids=["_0", "_2", "_4", "_6"]),
    "list": shape("--array=1,5,9-10 --gres=gpu:1", ids=["_1", "_5", "_9", "_10"]),
    "exclusive": shape("--exclusive --gres=gpu:1 -C t4", gpus=4, feature="t4", cpus=8, asks=1),
    "shard": shape("--gres=shard:2", types=["t4"]),
    "mps": shape("--gres=mps:50", types=["v100"]),
    "task-array": shape("--array=0-1 -n2 --gpus-per-task=1 -C v100", tasks=2, feature="v100", ids=["_0", "_1"]),
    "some-cancelled": shape("--array=0-5%2 --gres=gpu:1", drops="_[2,4-5]", ids=["_0", "_1", "_3"]),
    "steps": shape("-n2 --gres=gpu:t4:2", gpus=2, types=["t4"], cpus=2,
                   wrap="srun -n1 --gres=gpu:t4:1 sleep 1 & srun -n1 --gres=gpu:1 sleep 1; wait"),
    "more": shape("--gres=gpu:1", update="Gres=gpu:3", gpus=3, cpus=1),
    "retyped": shape("--gres=gpu:v100:1", update="Gres=gpu:t4:2", gpus=2, types=["t4"], cpus=1, cancelled=True),
    "any-mixed": shape("-p mixed --gres=gpu:3", tasks=3, cpus=1),
    "two-types": shape("-p mixed --gres=gpu:v100:1,gpu:t4:2", tasks=3, cpus=1),
    "whole-mixed": shape("-p mixed --exclusive --gres=gpu:t4:1", tasks=4, cpus=8, asks=1),
    "no-gpu": shape("", ids=[]),
    "depends": shape("-d afterany:{untyped} --gres=gpu:1"),
}
# Jobs to which something happens; seconds is how long their attempts may last.
EVENTS = {
    "requeued": shape("-p gpu --requeue --gres=gpu:2", gpus=2, cpus=1, sleep=4, ids=["", "#2"]),
    "suspended": shape("--gres=gpu:1", sleep=6),
    "preempted": shape("-p back --requeue -w v100-0 --gres=gpu:4", gpus=4, cpus=1, sleep=4, ids=["", "#2"]),
    "lost": shape("-p lost -w v100-1 --gres=gpu:4", gpus=4, cpus=1, sleep=60),
    "shrinks": shape("-N2 --gres=gpu:t4:1", types=["t4"], sleep=12, ids=["", "#2"], sizes={
        "": {"tasks": 2, "distinct": True, "cpus": 2}, "#2": {}}),
    "cancelled": shape("--gres=gpu:t4:1", types=["t4"], sleep=60),
    "fails": shape("--gres=gpu:t4:1", types=["t4"], wrap="sleep 2; exit 3"),
    "task-cancelled": shape("--array=0-3%2 --gres=gpu:1 -p mixed", sleep=6, ids=["_0", "_1", "_2"]),
    "salloc": shape("--gres=gpu:t4:1", types=["t4"]),
    "urgent": shape("-p urgent -w v100-0 --gres=gpu:3", gpus=3, cpus=1, sleep=3),
    "urgent-too": shape("-p urgent -w v100-1 --gres=gpu:3", gpus=3, cpus=1, sleep=3),
    "node-fails": shape("-w t4-1 --requeue --gres=gpu:2", gpus=2, cpus=1, sleep=3, ids=["", "#2"]),
}


def submit(name, want, numbers):
    args = ["-D", "/", "-t", "5", "-J", name, *(word.format(**numbers) for word in want["args"])]
    if name == "salloc":
        with subprocess.Popen(["salloc", *args, "sleep", "2"], stderr=subprocess.DEVNULL):
            pass
        numbers[name] = run("squeue", "-h", "-t", "all", "-n", name, "-o", "%A").strip()
        return
    script = want.get("wrap", f"sleep {want.get('sleep', 2)}")
    numbers[name] = run("sbatch", "--parsable", "-o", "/dev/null", *args, "--wrap", script).strip()
    if "update" in want:
        run("scontrol", "update", f"JobId={numbers[name]}", want["update"])
    if "drops" in want:
        run("scancel", numbers[name] + want["drops"])


def wait_for(state, *numbers):
    for _ in range(300):
        found = run("squeue", "-h", "-a", "-t", "all", "-j", ",".join(numbers), "-o", "%T").split()
        if found and set(found) <= {state}:
            return
        time.sleep(0.1)
    raise SystemExit(f"jobs {numbers} are {found}, not {state}")


def wait_until_gone():
    for _ in range(900):
        if not run("squeue", "-h", "-o", "%A").split():
            return
        time.sleep(0.2)
    raise SystemExit("jobs do not end:\n" + run("squeue"))


def save(folder, name, *args):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
        subprocess.run(args, check=True, stdout=out)


def play(folder):
    """Lets everything happen, and returns the numbers of the jobs by name."""
    numbers, block = {}, []
    for node in NODES:
        block.append(run("sbatch", "--parsable", "-D", "/", "-o", "/dev/null", "-t", "5", "-J", "block", "-w", node,
                         "-p", "lost", "--gres=gpu:4", "--exclusive", "--wrap", "sleep 60").strip())
    wait_for("RUNNING", *block)
    for name, want in WAITING.items():
        submit(name, want, numbers)
    with open(os.path.join(folder, "job.sh"), "w", encoding="utf-8") as script:
        script.write("#!/bin/sh\nsleep 2\n")
    numbers["het"] = run("sbatch", "--parsable", "-D", "/", "-o", "/dev/null", "-t", "5", "-J", "het",
                         "--gres=gpu:v100:1", ":", "--gres=gpu:t4:2", script.name).strip()
    submit("held", shape("--hold --gres=gpu:1"), numbers)
    save(folder, "nodes.txt", "scontrol", "show", "node")
    save(folder, "waiting.json", "squeue", "--json")
    run("scancel", numbers["held"], numbers["retyped"], *block)
    wait_until_gone()

    names = iter(EVENTS.items())
    for name, want in names:
        submit(name, want, numbers)
        if name == "salloc":
            break
    wait_for("RUNNING", *(numbers[name] for name in ("requeued", "suspended", "preempted", "lost", "shrinks",
                                                     "cancelled")))
    time.sleep(1)
    run("scontrol", "suspend", numbers["suspended"])
    for name, want in names:
        submit(name, want, numbers)
        if name == "urgent-too":
            break
    time.sleep(2)
    save(folder, "running.json", "squeue", "--json")
    run("scontrol", "requeue", numbers["requeued"])
    run("scontrol", "resume", numbers["suspended"])
    run("scontrol", "update", f"JobId={numbers['shrinks']}", "NumNodes=1")
    run("scancel", numbers["cancelled"], numbers["task-cancelled"] + "_3", numbers["task-cancelled"] + "_1")
    wait_for("COMPLETED", numbers["urgent"], numbers["urgent-too"])
    # Slurm lets a job that was requeued wait for two minutes.
    for name in ("requeued", "preempted"):
        run("scontrol", "update", f"JobId={numbers[name]}", "StartTime=now")
    wait_until_gone()

    for name, want in names:
        submit(name, want, numbers)
    wait_for("RUNNING", numbers["node-fails"])
    time.sleep(1.5)
    run("scontrol", "update", "NodeName=t4-1", "State=DOWN", "Reason=test")
    for _ in range(50):  # Slurm refuses it until the node is seen to be down, or where it has come back by itself
        resume = ["scontrol", "update", "NodeName=t4-1", "State=RESUME"]
        if subprocess.run(resume, stderr=subprocess.DEVNULL).returncode == 0:
            break
        time.sleep(0.2)
    time.sleep(2)  # slurmd refuses a job that begins again in the second in which it was cancelled
    run("scontrol", "update", f"JobId={numbers['node-fails']}", "StartTime=now")
    wait_until_gone()
    for _ in range(100):  # slurmctld tells slurmdbd within five seconds
        if not run("sacct", "-a", "-X", "-n", "-s", "R,PD", "-S", "now-1days", "-o", "JobID").split():
            break
        time.sleep(0.2)
    save(folder, "ended.json", "squeue", "--json", "-t", "all")
    save(folder, "sacct.json", "sacct", "-a", "-D", "-S", "now-1days", "--json")
    return numbers


def sizes(numbers):
    """Returns what each job of the instance must be, by ID."""
    wants = {}
    for name, want in {**WAITING, **EVENTS}.items():
        for suffix in want["ids"]:
            wants[numbers[name] + suffix] = {**want, "name": name, **want.get("sizes", {}).get(suffix, {})}
    for offset, want in enumerate((shape("", types=["v100"]), shape("", gpus=2, types=["t4"], cpus=1))):
        wants[f"{numbers['het']}+{offset}"] = {**want, "name": "het"}
    return wants


def counts_types():
    """Says whether accounting counts GPUs by type, so that it tells types without command lines."""
    return not os.environ.get("SLURM_TEST_TRES")


def counts_gpus():
    """Says whether accounting counts GPUs; otherwise command lines alone tell of them."""
    return "gres/gpu" in (os.environ.get("SLURM_TEST_TRES") or "gres/gpu")


def differences(want, got, lines):
    """Yields what an instance says otherwise of a job. lines says whether the texts have command lines."""
    tasks, gpus = got.get("tasks", 1), got.get("gpus_per_task", 1)
    if lines and (tasks, gpus) != (want["tasks"], want["gpus"]) or tasks * gpus != want["tasks"] * want["gpus"]:
        yield f"{tasks} tasks of {gpus} GPUs, not {want['tasks']} of {want['gpus']}"
    if got.get("distinct_nodes", False) != want["distinct"]:
        yield f"distinct_nodes {got.get('distinct_nodes')}"
    off = got.get("exclude", {}).get("node", [])  # nodes without shards
    kept = [kind for kind in sorted(got["on"]) if not {node for node in NODES if node.startswith(kind)} <= set(off)]
    if (lines or counts_types()) and kept != want["types"] and (not want["feature"] or kept != [want["feature"]]):
        yield f"types {sorted(got['on'])}, not {want['types']}"
    if want["feature"] and got.get("only", {}).get(f"feature.{want['feature']}") != "yes":
        yield f"only {got.get('only')}, not feature.{want['feature']}"
    for what, found, wanted in (("CPUs", got.get("cpus_per_task", 0), want["cpus"]), ("MiB", got.get(
            "memory_mib_per_task", 0), want.get("memory", want["cpus"] * MIB_PER_CPU))):
        if abs(found * tasks - wanted) > 0.01 * tasks + (tasks if what == "MiB" else 0):
            yield f"{found * tasks} {what}, not {wanted}"


def rows():
    """Returns the seconds, submission and state of each attempt, by the ID that Hare gives it."""
    out, seen, sized = {}, {}, {}
    for line in run("sacct", "-a", "-D", "-X", "-n", "-P", "-S", "now-1days", "-o",
                    "JobID,State,Submit,Start,End,NodeList,NNodes").splitlines():
        number, state, submitted, start, end, nodes, count = line.split("|")
        if nodes == "None assigned":
            continue
        seen[number] = seen.get(number, 0) + 1
        key = number if seen[number] == 1 else f"{number}#{seen[number]}"
        if sized.get(number):  # the size that it has since then
            start = submitted
        sized[number] = state == "RESIZING"
        kinds = [kind.split(":")[0] for kind in NODES[node_of(nodes)].split(",")]
        out[key] = (clock(end) - clock(start), clock(submitted), state, kinds, int(count))
    return out


def node_of(nodes):
    """Returns the first node of a list."""
    return nodes.split(",")[0].replace("[", "").split("-")[0] + "-" + nodes.split("-")[1].lstrip("[")[0]


def clock(text):
    return int(time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S")))


def compare(hare, folder, numbers):
    faults, wants, told = [], sizes(numbers), rows()
    ended = {key: want for key, want in wants.items() if key in told}
    for key in wants.keys() - told.keys() - {numbers["retyped"]}:  # which never ran
        faults.append(f"sacct has no row of {key} ({wants[key]['name']})")
    newest = float(run("sacct", "-V").split()[1].rpartition(".")[0]) >= 23
    views = {"jobs.txt": True, "sacct.json": newest, "jobs.txt ended.json": True, "ended.json jobs.txt": True,
             "sacct.json ended.json": newest, "sacct.json running.json": newest, "jobs.txt waiting.json": True}
    if not counts_gpus():
        views = {view: lines for view, lines in views.items() if lines}
    for view, lines in views.items():
        instance, happened = os.path.join(folder, "instance.json"), os.path.join(folder, "happened.json")
        texts = [os.path.join(folder, name) for name in [*view.split(), "nodes.txt"]]
        subprocess.run([hare, "import", "slurm", *texts, "--speeds", "v100=1,t4=1", "-o", instance, "--happened",
                        happened], check=True, stderr=subprocess.PIPE)
        verdict = subprocess.run([hare, "verify", instance, happened], check=False, text=True, stdout=subprocess.PIPE)
        if verdict.returncode:
            faults.append(f"{view}: hare verify: {verdict.stdout.strip()}")
        jobs = {job["id"]: job for job in json.load(open(instance, encoding="utf-8"))["jobs"]}
        base = min(told[key][1] for key in jobs.keys() & told.keys())
        jobs = {key: job for key, job in jobs.items() if not is_block(job, told)}
        names = {key: want["name"] for key, want in wants.items()}
        for key in sorted(jobs.keys() ^ ended.keys()):
            where = "is not in" if key in ended else "should not be in"
            faults.append(f"{view}: {key} ({names.get(key, '?')}) {where} the instance")
        for key in sorted(jobs.keys() & ended.keys()):
            if view == "jobs.txt" and "update" in ended[key] and not counts_gpus():
                continue  # its command line is all that is told, and says what it asked for before
            seconds, submitted, _, kinds, count = told[key]
            want = dict(ended[key])
            if "range" in want:  # as many nodes as Slurm gave it
                want.update(tasks=count, cpus=count)
            found = list(differences(want, jobs[key], lines))
            if all(jobs[key]["on"].get(kind, {}).get("compute_s") != seconds for kind in kinds):
                found.append(f"{jobs[key]['on']}, not {seconds} s on {kinds}")
            if not 0 <= base + jobs[key].get("release_s", 0) - submitted < 60:
                found.append(f"released {jobs[key].get('release_s', 0)} s from {base}, submitted at {submitted}")
            faults.extend(f"{view}: {key} ({names[key]}): {text}" for text in found)
    waits(hare, folder, numbers, faults)
    print(f"{len(ended)} attempts of jobs in {len(views)} views of what happened, {len(WAITING)} submissions that "
          f"waited: {len(faults)} differ")
    for fault in faults:
        print(" ", fault)
    return 1 if faults else 0


def is_block(job, told):
    cancelled = told.get(job["id"], ("", "", ""))[2].startswith("CANCELLED")
    return cancelled and job.get("cpus_per_task", 0) * job.get("tasks", 1) == 8


def waits(hare, folder, numbers, faults):
    """Compares what squeue --json tells of jobs that wait."""
    now = os.path.join(folder, "now.json")
    subprocess.run([hare, "import", "slurm", "--now", os.path.join(folder, "waiting.json"),
                    os.path.join(folder, "nodes.txt"), "-o", now], check=True, stderr=subprocess.PIPE)
    jobs = {job["id"]: job for job in json.load(open(now, encoding="utf-8"))["jobs"] if "progress" not in job}
    wants = sizes({name: numbers.get(name, "") for name in {**WAITING, **EVENTS, "het": 0}})
    wants = {key: want for key, want in wants.items() if want["name"] in WAITING or want["name"] == "het"}
    wants.pop(numbers["depends"])  # waits for another one, which the instance does not plan
    for key in sorted(jobs.keys() ^ wants.keys()):
        faults.append(f"waiting: {key} is " + ("not imported" if key in wants else "imported"))
    for key in sorted(jobs.keys() & wants.keys()):
        want = dict(wants[key])
        if "asks" in want:  # the CPUs of a whole node are given when it starts
            want["cpus"] = want["asks"]
        faults.extend(f"waiting: {key} ({want['name']}): {text}" for text in differences(want, jobs[key], True))


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = os.environ.setdefault("SLURM_TEST_DIR", tempfile.mkdtemp(prefix="hare-slurm."))
    os.environ.update(SLURM_TEST_ACCOUNTING="1", SLURM_TEST_SHAPES="1", SLURM_CONF=f"{folder}/slurm.conf", TZ="UTC",
                      SLURM_TEST_NODES=" ".join(f"{node}:{gpus}" for node, gpus in NODES.items()))
    time.tzset()
    cluster, hare = os.path.join(HERE, "slurm-cluster.sh"), os.path.abspath(sys.argv[1])
    try:
        if subprocess.run([cluster, "up"], check=False).returncode:
            print("no Slurm with accounting runs here", file=sys.stderr)
            return 3
        numbers = play(folder)
        fields = run(hare, "import", "slurm", "--help").split(" -o ")[1].split()[0]
        save(folder, "jobs.txt", "sacct", "-a", "-D", "-S", "now-1days", "-P", "--delimiter=\x1f", "-o", fields)
        code = compare(hare, folder, numbers)
        if keep := os.environ.get("KEEP"):
            os.makedirs(keep, exist_ok=True)
            for name in ("jobs.txt", "sacct.json", "waiting.json", "running.json", "ended.json", "nodes.txt"):
                shutil.copy(os.path.join(folder, name), keep)
        return code
    finally:
        subprocess.run([cluster, "down"], check=False)


if __name__ == "__main__":
    sys.exit(main())
