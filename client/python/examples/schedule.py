import json
import os
from pathlib import Path

from hare_client import Hare

instance = json.loads(Path("instance.json").read_text())
with Hare(os.environ.get("HARE_URL", "http://127.0.0.1:8080"), key=os.environ.get("HARE_KEY")) as hare:
    result = hare.solve(instance, {"seed": 9})
    print(result)
    for row in list(result.schedule)[:2]:
        print(row.gpu, row.job, "from round", row.round, "at", row.start_s, "s")
