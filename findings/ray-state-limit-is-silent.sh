#!/bin/bash
# Ray 2.60.0 (PyPI): lists of the state API are cut at 100 entries, and no warning says so.
#
# Expected: an answer that leaves entries out says so in its members "warnings" or "partial_failure_warning".
# Seen: of 120 actors, /api/v0/actors?detail=1 tells 100; "total" is 120, and so is "num_after_truncation", while
# "warnings" is null and "partial_failure_warning" is empty. With &limit=10000 it tells all.
# What follows: compare the length of the list with "total", and ask with limit=10000, the most that Ray takes.
#
# Needs: python3 with venv, curl, about 1 GB of disk; listens on loopback, ports 22100 to 22499. Takes three minutes.
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
export RAY_TMPDIR=$work RAY_USAGE_STATS_ENABLED=0
v/bin/ray start --head --block --port 22100 --dashboard-port 22101 --dashboard-host 127.0.0.1 \
    --node-ip-address 127.0.0.1 --min-worker-port 22200 --max-worker-port 22499 --ray-client-server-port 22102 \
    --dashboard-agent-listen-port 22103 --num-cpus 2 >log 2>&1 &
echo $! >pid
api='http://127.0.0.1:22101/api/v0/actors?detail=1'
for _ in $(seq 90); do curl -sf "${api/actors/nodes}" | grep -q ALIVE && break || sleep 1; done
cat >actors.py <<'END'
import ray, time
ray.init("127.0.0.1:22100", log_to_driver=False)

@ray.remote(num_cpus=64) # more than there are: none starts a process
class Waits:
    pass

waiting = [Waits.remote() for _ in range(120)]
time.sleep(60)
END
v/bin/python actors.py >>log 2>&1 &
for _ in $(seq 50); do
    sleep 1
    curl -sf "$api" >cut.json && [ "$(v/bin/python -c 'import json
print(json.load(open("cut.json"))["data"]["result"]["total"])')" = 120 ] && break
done
curl -sf "$api&limit=10000" >all.json || exit 2
found=$(v/bin/python - <<'END'
import json
cut, all = (json.load(open(f))["data"]["result"] for f in ("cut.json", "all.json"))
print(len(cut["result"]), "of", cut["total"], "with", cut["warnings"], repr(cut["partial_failure_warning"]), "and",
      len(all["result"]))
END
) || exit 2
if [ "$found" = "100 of 120 with None '' and 120" ]; then
    echo "as found: $found"
else
    echo "another behaviour: $found" >&2
    exit 1
fi
