#!/usr/bin/env python3
"""Submits Jobs to a Kubernetes with pretended nodes and prints how they went.

usage: kube-jobs.py ADDRESS ten|many TOUCHED [SEED [QUEUE]]

ADDRESS is of kubectl proxy. ten: ten Jobs of four GPUs at once. many: 200 Jobs of mixed widths and
lengths within two minutes, load 1.2 on 24 GPUs of three types. TOUCHED is helped, where the Jobs
are suspended and wait for hare kube, or alone, where the cluster starts them itself. With QUEUE the
Jobs are in this LocalQueue of Kueue.
"""
import calendar
import json
import random
import sys
import time
import urllib.request

TYPES = {"v100": "Tesla-V100-SXM2-16GB", "t4": "Tesla-T4", "h100": "NVIDIA-H100-80GB-HBM3"}


def call(method, path, body=None):
    request = urllib.request.Request(ADDRESS + path, method=method, data=json.dumps(body).encode() if body else None)
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def unix(stamp):
    return calendar.timegm(time.strptime(stamp, "%Y-%m-%dT%H:%M:%SZ"))


def job(name, pods, gpus, seconds, suspend, queue):
    return {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": queue} if queue else {}, "annotations": {
            "hare.dev/managed": "true",
            "hare.dev/seconds": json.dumps({TYPES[t]: s for t, s in seconds.items()})}},
        "spec": {"suspend": suspend, "completionMode": "Indexed", "completions": pods, "parallelism": pods,
                 "backoffLimit": 0, "template": {
                     "metadata": {"annotations": {"hare.test/seconds": json.dumps(seconds)}},
                     "spec": {"restartPolicy": "Never", "containers": [{
                         "name": "train", "image": "train",
                         "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}]}}}}


def workload(which, seed):
    """Rows of (seconds after the start, pods, GPUs a pod, seconds by type)."""
    if which == "ten":
        return [(0, 4, 1, {"v100": 4, "t4": 8, "h100": 2})] * 10
    rng, rows = random.Random(seed), []
    for _ in range(200):
        pods, gpus = rng.choices([(1, 1), (2, 1), (1, 2), (4, 1), (1, 4), (2, 4)], [50, 10, 10, 10, 12, 8])[0]
        base = min(40.0, rng.expovariate(1 / 9.0)) + 1
        rows.append([0, pods, gpus, {"h100": max(1, round(base * 0.5)), "v100": max(1, round(base)),
                                     "t4": max(1, round(base * rng.uniform(1.2, 2.6)))}])
    # Load 1.2: the GPU-seconds on the type in the middle are 1.2 times what 24 GPUs do meanwhile.
    window = sum(r[1] * r[2] * r[3]["v100"] for r in rows) / 24 / 1.2
    for row, at in zip(rows, sorted(rng.uniform(0, window) for _ in rows)):
        row[0] = at
    return rows


def main():
    which, touched = sys.argv[2], sys.argv[3]
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    queue = sys.argv[5] if len(sys.argv) > 5 else ""
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    call("DELETE", jobs + "?propagationPolicy=Background")
    while call("GET", "/api/v1/namespaces/default/pods?limit=1")["items"]:
        time.sleep(0.2)
    rows, begin = workload(which, seed), time.time()
    for i, (at, pods, gpus, seconds) in enumerate(rows):
        time.sleep(max(0, begin + at - time.time()))
        call("POST", jobs, job(f"j{i}", pods, gpus, seconds, touched == "helped" or queue != "", queue))
    times = []
    while len(times) < len(rows):
        time.sleep(0.5)
        if time.time() - begin > 900:
            sys.exit(f"{len(rows) - len(times)} Jobs have not ended after 15 minutes")
        times = [unix(j["status"]["completionTime"]) - unix(j["metadata"]["creationTimestamp"])
                 for j in call("GET", jobs)["items"] if "completionTime" in j["status"]]
    types = {}
    for p in call("GET", "/api/v1/namespaces/default/pods")["items"]:
        owner = p["metadata"]["labels"]["job-name"]
        types.setdefault(owner, []).append(p["spec"]["nodeName"].rsplit("-", 1)[0])
    print(json.dumps({
        "jobs": len(times), "mean_completion_s": round(sum(times) / len(times), 2),
        "p95_s": round(sorted(times)[int(len(times) * 0.95)], 1), "all_s": round(time.time() - begin, 1),
        "on_mixed_types": sum(len(set(t)) > 1 for t in types.values()),
        "pods": sum(map(len, types.values())), "pods_wanted": sum(r[1] for r in rows)}))


ADDRESS = sys.argv[1] if len(sys.argv) > 3 else sys.exit(__doc__)
main()
