import os

from hare_client import Hare

instance = {
    "hare": "instance/v1",
    "objective": "jct_and_tardiness",
    "cluster": {"nodes": [{"name": "a", "gpus": {"A100": 3}, "cpus": 32}]},
    "jobs": [
        # This job has run for half a minute, and needs a minute more.
        {
            "id": "slurm-7",
            "sync": "rigid",
            "on": {"A100": {"compute_s": 90}},
            "progress": {"gpus": ["a/0"], "elapsed_s": 30},
        },
        {"id": "prep", "sync": "rigid", "user": "ann", "on": {"A100": {"compute_s": 20}}},
        {
            "id": "train",
            "sync": "rigid",
            "user": "ann",
            "gpus_per_task": 2,
            "cpus_per_task": 16,
            "after": ["prep"],
            "deadline_s": 55,
            "late_weight": 2,
            "on": {"A100": {"compute_s": 40}},
        },
    ],
}
scenarios = [
    {"id": "train in half the time", "scale_durations": {"train": 0.5}},
    {
        "id": "train on a node more, without prep",
        "add_nodes": [{"name": "b", "gpus": {"A100": 2}}],
        "drop_after": {"job": "train"},
    },
    {"id": "one GPU for ann", "set_quota": [{"user": "ann", "gpus": 1}]},
]
with Hare(os.environ.get("HARE_URL", "http://127.0.0.1:8080"), key=os.environ.get("HARE_KEY")) as hare:
    result = hare.solve(instance, {"seed": 11})
    print(result)
    for line in hare.what_if({"base": {"instance": instance}, "scenarios": scenarios, "ordered": True}):
        if line["line"] == "scenario":
            reasons = [reason["code"] for reason in line.get("reasons", [])]
            print(line["id"], "value", line["value"], *reasons)
