#!/bin/bash
# Ray 2.60.0 (PyPI): what ray list --format json writes is not what the state API answers, and cannot be added up.
#
# Expected: `ray list nodes --detail --format json` has the members of /api/v0/nodes?detail=1 with their values.
# Seen: start_time_ms and end_time_ms, milliseconds in the API, are dates in the time zone of whoever runs the command,
# without the zone, and end_time_ms of a node that runs is 1970; memory in resources_total, bytes in the API, is a text
# such as "5.224 GiB" beside CPU and GPU, which stay numbers.
# What follows: read the API where numbers are needed; a reader of the command's JSON must know the zone and the units.
#
# Needs: python3 with venv, curl, about 1 GB of disk; listens on loopback, ports 21600 to 21999. Takes two minutes.
set -euo pipefail
work=$(mktemp -d)
finish() {
    kill "$(cat "$work"/pid)" 2>/dev/null || true
    sleep 5
    pkill -f "$work/v/" || true # what Ray has not ended itself
    sleep 1
    rm -rf "$work"
}
trap finish EXIT
cd "$work"
python3 -m venv v && v/bin/pip -q install 'ray[default]==2.60.0' || exit 2
export RAY_TMPDIR=$work RAY_USAGE_STATS_ENABLED=0 TZ=Asia/Tokyo
v/bin/ray start --head --block --port 21600 --dashboard-port 21601 --dashboard-host 127.0.0.1 \
    --node-ip-address 127.0.0.1 --min-worker-port 21700 --max-worker-port 21999 --ray-client-server-port 21602 \
    --dashboard-agent-listen-port 21603 --num-cpus 2 --num-gpus 1 >log 2>&1 &
echo $! >pid
api='http://127.0.0.1:21601/api/v0/nodes?detail=1'
for _ in $(seq 90); do curl -sf "$api" >api.json && grep -q ALIVE api.json && break || sleep 1; done
v/bin/ray list nodes --address http://127.0.0.1:21601 --detail --format json >list.json 2>>log ||
    { cat log >&2; exit 2; }
found=$(v/bin/python - <<'END'
import json
from datetime import datetime, timezone, timedelta
told = json.load(open("api.json"))["data"]["result"]["result"][0]
text = json.load(open("list.json"))[0]
tokyo = datetime.fromtimestamp(told["start_time_ms"] / 1000, timezone(timedelta(hours=9))).replace(tzinfo=None)
local = datetime.fromisoformat(text["start_time_ms"]) == tokyo
memory = text["resources_total"]["memory"]
print("local time" if local else text["start_time_ms"], "and",
      memory.split()[-1] if isinstance(memory, str) else memory,
      "beside", type(text["resources_total"]["GPU"]).__name__ in ("int", "float") and "numbers")
END
) || exit 2
if [ "$found" = "local time and GiB beside numbers" ] || [ "$found" = "local time and MiB beside numbers" ]; then
    echo "as found: ray list writes $found"
else
    echo "another behaviour: ray list writes $found" >&2
    exit 1
fi
