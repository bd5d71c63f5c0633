import json
import os
from pathlib import Path

from hare_client import Hare

instance = json.loads(Path("instance.json").read_text())
with Hare(os.environ.get("HARE_URL", "http://127.0.0.1:8080"), key=os.environ.get("HARE_KEY")) as hare:
    solve = hare.submit(instance, {"seed": 5})
    for event in hare.events(solve.id):
        if event.type == "incumbent":
            print("a schedule of value", event.value)
        last = event
    print(last.type, last.status, last.termination)
    # Any process can read on after an event, here after the last but one.
    again = list(hare.events(solve.id, after=last.id - 1))
    print(len(again), again[0].type)
    print("value", hare.result(solve.id).value)
    hare.delete(solve.id)
