"""Computes hours, waits and money of a plan again, from its jobs alone: recompute.py FOLDER."""

import collections
import csv
import gzip
import json
import sys

folder = sys.argv[1]
with open(folder + "/report.json") as f:
    report = json.load(f)
held = collections.Counter()
waits = collections.defaultdict(list)
with gzip.open(folder + "/jobs.csv.gz", "rt", newline="") as f:
    for job in csv.DictReader(f):
        row = job["option"], job["policy"]
        waits[row, job["week"]].append(float(job["start_s"]) - float(job["submit_s"]))
        for column, value in job.items():
            if column.startswith("gpu_s_"):
                held[row, column.removeprefix("gpu_s_")] += float(value)

faults = 0


def same(what, row, got, want):
    global faults
    if abs(got - want) > 1e-6 * max(1, abs(got)):
        faults += 1
        print(f"{what} of {row}: {want}, and the jobs give {got}")


for r in report["rows"]:
    row = r["option"], r["policy"]
    for gpu, hours in r["gpu_hours"].items():
        same("hours on " + gpu, row, held[row, gpu] / 3600 / report["weeks"], hours["mean"])
    weeks = [w for (of, _), w in waits.items() if of == row]
    if not r.get("marked"):  # else figures of a smaller cluster stand in the row
        mean = sum(sum(w) / len(w) for w in weeks) / len(weeks)
        same("mean wait", row, mean, r["mean_wait_s"]["mean"])
    added = 0
    for part in r["option"].split(","):
        gpu, _, count = part.partition("=")
        if count:
            added += int(count) * report.get("prices", {}).get(gpu, 0) * 24 * 7
    if r["added_cost_per_week"] is not None:
        same("added cost", row, added, r["added_cost_per_week"])
    marked = r.get("marked") or report["rows"][0].get("marked")
    if r["cost_per_hour_saved"] is not None and not marked:
        first = report["rows"][0]["option"], report["rows"][0]["policy"]
        saved = 0
        for (of, week), w in waits.items():
            if of == row:
                less = sum(waits[first, week]) / len(w) - sum(w) / len(w)
                saved += less * len(w) / 3600 / report["weeks"] * 7 / report["days"]
        same("cost of an hour", row, added / saved, r["cost_per_hour_saved"])
print(f"{len(report['rows'])} rows, {faults} faults")
sys.exit(faults > 0 or not report["rows"])
