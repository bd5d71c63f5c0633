import json
import os
from pathlib import Path

from hare_client import Hare, Problem

instance = json.loads(Path("instance.json").read_text())


def show(event):
    if event.type in ("incumbent", "bound"):
        print(event.type, event.value or event.bound)


with Hare(os.environ.get("HARE_URL", "http://127.0.0.1:8080"), key=os.environ.get("HARE_KEY")) as hare:
    result = hare.solve(instance, {"seed": 9}, progress=show)
    print("value", result.value, "bound", result.bound, result.termination)
    print("verified", hare.verify(instance, result).ok)
    print("on an empty cluster at least", hare.bound(instance, "critical_path").bound)
    instance["jobs"][0]["weight"] = -3
    try:
        hare.solve(instance)
    except Problem as problem:
        print(problem.status, problem.code)
        for error in problem.errors:
            print(error["pointer"], error["detail"])
