#!/bin/bash
# Ray 2.60.0 (PyPI): the GPUs that --entrypoint-num-gpus gives a job stand neither with the job nor under its ID.
#
# Expected: GET /api/jobs/ echoes entrypoint_num_gpus, or what the job's job_id holds in the state API tells them.
# Seen: a job that was submitted with 0.5 has no member for them, and its job_id is null. An actor of the class
# JobSupervisor holds them, _ray_internal_job_actor_ with the submission ID, whose job_id is that of the dashboard.
# What follows: join jobs with actors by the actor's name, not by job_id; otherwise such jobs count as without GPUs.
#
# Needs: python3 with venv, curl, about 1 GB of disk; listens on loopback, ports 22600 to 22999. Takes two minutes.
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
v/bin/ray start --head --block --port 22600 --dashboard-port 22601 --dashboard-host 127.0.0.1 \
    --node-ip-address 127.0.0.1 --min-worker-port 22700 --max-worker-port 22999 --ray-client-server-port 22602 \
    --dashboard-agent-listen-port 22603 --num-cpus 2 --num-gpus 2 >log 2>&1 &
echo $! >pid
api=http://127.0.0.1:22601
for _ in $(seq 90); do curl -sf "$api/api/v0/nodes?detail=1" | grep -q ALIVE && break || sleep 1; done
v/bin/ray job submit --address "$api" --no-wait --submission-id half --entrypoint-num-gpus 0.5 -- sleep 20 >>log 2>&1
for _ in $(seq 60); do
    curl -sf "$api/api/jobs/" >jobs.json && grep -q RUNNING jobs.json && break || sleep 1
done
curl -sf "$api/api/v0/actors?detail=1&limit=10000" >actors.json || exit 2
found=$(v/bin/python - <<'END'
import json
job = next(j for j in json.load(open("jobs.json")) if j["submission_id"] == "half")
actors = json.load(open("actors.json"))["data"]["result"]["result"]
actor = next(a for a in actors if a["name"].endswith("half"))
print([k for k in job if "gpu" in k], job["job_id"], actor["class_name"], actor["name"], actor["required_resources"],
      actor["job_id"] != job["job_id"])
END
) || exit 2
if [ "$found" = "[] None JobSupervisor _ray_internal_job_actor_half {'GPU': 0.5} True" ]; then
    echo "as found: $found"
else
    echo "another behaviour: $found" >&2
    exit 1
fi
