import json
import os
from pathlib import Path

from hare_client import Hare

instance = json.loads(Path("instance.json").read_text())
scenarios = [
    {"id": "two V100 more", "add_gpus": {"type": "V100", "count": 2}},
    {"id": "b leaves", "drain": {"node": "b", "at_s": 0}},
]
with Hare(os.environ.get("HARE_URL", "http://127.0.0.1:8080"), key=os.environ.get("HARE_KEY")) as hare:
    solve = hare.wait(hare.submit(instance, {"seed": 7}).id)
    for line in hare.what_if({"base": {"solve_id": solve.id}, "scenarios": scenarios, "ordered": True}):
        if line["line"] == "scenario":
            print(line["id"], "value", line["value"], "optimum changes by", line["optimum_change"])
    bert = hare.explain(solve.id, "bert")
    print("bert ends at", bert.end_s, "and at", bert.least_s, "at best")
