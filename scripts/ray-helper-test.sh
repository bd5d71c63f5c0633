#!/usr/bin/env bash
# What hare ray does for a real Ray: make test-ray.
#
#   scripts/ray-helper-test.sh HARE [jobs [cpus|disturbed]]     cpus alone: 40 s
#
# Starts a Ray with pretended GPUs of three types in a network namespace with nothing but lo, and gives
# it a queue of mixed jobs (default 24), each of which takes as long as the GPU type on which it runs says:
#
# first    by hare ray run without plans (--server with nobody there): first come, first served
# cpus     two jobs whose CPUs or memory together exceed a node's, and one without: never both at once
# helped   by hare ray run; the mean completion must be less than the first
# killed   the same, with hare ray run killed 50 times meanwhile; every job must run once
# disturbed  not by default: while helper and nodes are killed and begin again, others take GPUs, and an
#          operator cancels jobs that wait and stops, in Ray, jobs that run, every other job must end once
#
# Ray is the one of the environment variable RAY, or on the PATH.
set -euo pipefail
if [ -z "${HARE_RAY_INSIDE:-}" ]; then
  ray=${RAY:-$(command -v ray || true)}
  if [ -z "$ray" ]; then
    echo "no Ray: python3 -m venv ray && ray/bin/pip install 'ray[default]==2.60.0', then RAY=ray/bin/ray $0 $*" >&2
    exit 1
  fi
  dir=$(mktemp -d "${TMPDIR:-/tmp}/hare-ray.XXXXXX")
  as=()
  [ "$(id -u)" = 0 ] || as=(--user --map-root-user)
  # The end of the first process of the namespace ends all others in it.
  HARE_RAY_INSIDE=$dir RAY=$(realpath "$ray") unshare "${as[@]}" --net --pid --fork --mount-proc --kill-child \
    "$0" "$(realpath "$1")" "${@:2}" && code=0 || code=$?
  [ "$code" = 0 ] && rm -rf "$dir" || echo "what happened is in $dir" >&2
  exit "$code"
fi
hare=$1
jobs=${2:-24}
dir=$HARE_RAY_INSIDE
ip link set lo up
export RAY_USAGE_STATS_ENABLED=0 HARE_RAY_DIR=$dir/queue
node() { # name, GPUs, more arguments
  "$RAY" start --node-ip-address 127.0.0.1 --num-cpus 8 --memory 8589934592 --num-gpus "$2" \
    --resources "{\"accelerator_type:$1\":1}" \
    --labels "ray.io/accelerator-type=$1" --object-store-memory 80000000 --disable-usage-stats "${@:3}" \
    >>"$dir/ray.log" 2>&1
}
node V100 2 --head --port 6379 --dashboard-host 127.0.0.1 --dashboard-port 8265 --temp-dir "$dir/ray" \
  --min-worker-port 20000 --max-worker-port 20999
node T4 2 --address 127.0.0.1:6379 --min-worker-port 21000 --max-worker-port 21999
node K80 2 --address 127.0.0.1:6379 --min-worker-port 22000 --max-worker-port 22999
for _ in $(seq 100); do
  [ "$("$hare" ray run --once 2>&1 | grep -c 'nothing to submit')" = 1 ] &&
    [ "$(curl -s '127.0.0.1:8265/api/v0/nodes?detail=1' | grep -o '"ALIVE"' | wc -l)" = 3 ] && break
  sleep 0.5
done

# A job writes a line when it begins and when it ends.
cat >"$dir/job.sh" <<'JOB'
#!/bin/sh
out=$1; shift
echo "$(date +%s.%N) start $HARE_JOB" >>"$out"
for a; do case $a in "$HARE_GPU_TYPE"=*) sleep "${a#*=}" ;; esac; done
echo "$(date +%s.%N) end $HARE_JOB $HARE_GPU_TYPE" >>"$out"
JOB
chmod +x "$dir/job.sh"

# submit_all submits jobs of 2 to 30 s on a V100, some with two GPUs, in a fixed random order.
submit_all() {
  rm -rf "$HARE_RAY_DIR"; mkdir -p "$HARE_RAY_DIR"; rm -f "$dir/out"; touch "$dir/out"
  awk -v n="$jobs" 'BEGIN {srand(5); for (i = 1; i <= n; i++) {
      v = rand() < 0.3 ? 15 + int(15 * rand()) : 2 + int(4 * rand()); t = v * (1.2 + rand())
      k = v * (1.5 + 3 * rand())
      printf "%d %d %.1f %.1f %d\n", i, v, t, k, rand() < 0.2 ? 2 : 1}}' |
    while read -r i v t k gpus; do
      "$hare" ray submit --id "$1-$i" --name "j$i" --retries 20 --gpus "$gpus" --on "V100=$v,T4=$t,K80=$k" -- \
        "$dir/job.sh" "$dir/out" "V100=$v" "T4=$t" "K80=$k" >/dev/null
    done
  begin=$(date +%s.%N)
}
helper=
start() {
  "$hare" ray run --write --interval 500ms --fallback-after 1ms "$@" >>"$dir/helper.log" 2>&1 &
  helper=$!
}
stop() {
  [ -z "$helper" ] || kill -KILL "$helper" 2>/dev/null || true
  wait "$helper" 2>/dev/null || true
  helper=
}
trap stop EXIT
ended() { grep -c ' end ' "$dir/out" || true; }
idle() { # waits until hare ray has no jobs
  for _ in $(seq 600); do [ "$("$hare" ray jobs | head -1)" = "no jobs" ] && return; sleep 0.2; done
  return 1
}
report() { # what
  local mean
  idle || true
  stop
  [ "$(ended)" = "$jobs" ] || { echo "$1: $(ended) of $jobs jobs ended"; "$hare" ray jobs; exit 1; } >&2
  [ -z "$(awk '$2 == "start" {print $3}' "$dir/out" | sort | uniq -d)" ] || { echo "$1: a job ran twice"; exit 1; } >&2
  mean=$(awk -v t="$begin" '$2 == "end" {s += $1 - t; n++} END {printf "%.1f", s / n}' "$dir/out")
  echo "$1: mean completion $mean s of $jobs jobs, each ran once; on $(awk '$2 == "end" {n[$4]++} END {
    for (t in n) printf "%s %d ", t, n[t]}' "$dir/out")"
  last=$mean
}
wait_for_ends() { for _ in $(seq $((3000 + 30 * jobs))); do [ "$(ended)" -ge "$jobs" ] && break; sleep 0.2; done; }

# disturb does one of six things at random, and counts in the files nodes and stops.
touch "$dir/nodes" "$dir/stops"
disturb() {
  local job type=$([ $((RANDOM % 2)) = 0 ] && echo T4 || echo K80) port=21000
  [ "$type" = T4 ] || port=22000
  case $((RANDOM % 6)) in
    0 | 1) stop; start ;;
    2)
      pkill -KILL -f "raylet/raylet.*accelerator_type:$type" || return 0
      # The programs of the node end with it, and before each the process of Ray that would report its end.
      for job in $(pgrep -f "$dir/job.sh"); do
        { tr '\0' '\n' <"/proc/$job/environ"; } 2>/dev/null | grep -qx "HARE_GPU_TYPE=$type" || continue
        above=$job
        until [ "${above:-1}" -le 1 ] || ps -o args= -p "$above" | grep -q '^ray::'; do
          above=$({ ps -o ppid= -p "$above" || true; } | tr -d ' ')
        done
        [ "${above:-1}" -le 1 ] || kill -KILL "$above" 2>/dev/null || true
        kill -KILL "$job" 2>/dev/null || true
      done
      echo "$type" >>"$dir/nodes"
      node "$type" 2 --address 127.0.0.1:6379 --min-worker-port $port --max-worker-port $((port + 999)) ;;
    3)
      job=$("$hare" ray jobs | awk '/ waiting / {print $1}' | shuf -n 1)
      [ -z "$job" ] || "$hare" ray cancel "$job" >/dev/null ;;
    4)
      job=$(curl -s 127.0.0.1:8265/api/jobs/ | jq -r '.[] | select(.status == "RUNNING" and .metadata.hare) |
        .submission_id' | shuf -n 1)
      [ -n "$job" ] || return 0
      curl -s -X POST "127.0.0.1:8265/api/jobs/$job/stop" >/dev/null && echo "$job" >>"$dir/stops" ;;
    5)
      curl -s 127.0.0.1:8265/api/jobs/ -H 'content-type: application/json' \
        -d '{"entrypoint": "sleep 8", "entrypoint_num_gpus": 1}' >/dev/null ;;
  esac
  disturbances=$((disturbances + 1))
}
if [ "${3:-}" = disturbed ]; then
  RANDOM=${SEED:-1} disturbances=0
  submit_all disturbed
  start
  while sleep 4; do
    [ "$("$hare" ray jobs | head -1)" = "no jobs" ] && break
    [ $((SECONDS)) -lt $((120 + 15 * jobs)) ] || { "$hare" ray jobs; echo "jobs are left"; exit 1; } >&2
    disturb
  done
  idle
  stop
  "$hare" ray jobs --all --json | jq -r '.[] | .id + " " + .state' >"$dir/states"
  # A job that an operator stopped may have ended just before; one whose node died may have, too, and then runs again.
  awk -v jobs="$jobs" -v by="$disturbances" -v killed="$(wc -l <"$dir/nodes")" -v stops="$(wc -l <"$dir/stops")" '
    FILENAME ~ /states$/ {state[$1] = $2; n[$2]++; next}
    $2 == "start" {starts[$3]++}
    $2 == "end" {ends[$3]++}
    END {
      for (i = 1; i <= jobs; i++) {
        j = "disturbed-" i
        if (state[j] == "succeeded" ? ends[j] != 1 : ends[j] > 1 || state[j] !~ /^(cancelled|stopped)$/)
          bad = bad " " j ":" state[j] ":" ends[j] + 0
        again += starts[j] > 1
      }
      printf "disturbed %d times, %d nodes killed, %d jobs stopped by others: ", by, killed, stops
      printf "%d jobs succeeded and ended once, %d were cancelled, %d stopped; %d began again\n",
        n["succeeded"], n["cancelled"], n["stopped"], again
      if (n["stopped"] > stops) bad = bad " more stopped than by others"
      if (bad) {print "lost or ended twice:" bad; exit 1}
    }' "$dir/states" "$dir/out"
  exit
fi

# Jobs of 6 of the 8 CPUs, or of 6 of the 8 GiB, of the node with the two V100.
for what in "--cpus 6" "--memory-mib 6144"; do
  rm -rf "$HARE_RAY_DIR"; mkdir -p "$HARE_RAY_DIR"; : >"$dir/out"
  # shellcheck disable=SC2086
  for i in 1 2; do
    "$hare" ray submit --id "wide-$i${what%% *}" $what --on V100=4 -- "$dir/job.sh" "$dir/out" V100=4 >/dev/null
  done
  "$hare" ray submit --id "plain${what%% *}" --on V100=2 -- "$dir/job.sh" "$dir/out" V100=2 >/dev/null
  start
  idle || true
  stop
  [ "$(ended)" = 3 ] && [ "$(grep -o '"event":"\(start\|end\)".*"job":"wide' "$HARE_RAY_DIR/journal.ndjson" |
    cut -d'"' -f4 | tr '\n' ' ')" = "start end start end " ] || { cat "$HARE_RAY_DIR/journal.ndjson"; exit 1; } >&2
  echo "two jobs with $what were not in Ray at once"
done
[ "${3:-}" = cpus ] && exit

submit_all first
start --server http://127.0.0.1:9
wait_for_ends
report "first come, first served"
first=$last

submit_all helped
start
wait_for_ends
report "hare ray"
awk -v m="$last" -v f="$first" 'BEGIN {exit !(m < f)}' || { echo "not less than $first s" >&2; exit 1; }

submit_all killed
start
for _ in $(seq 50); do
  sleep "$((RANDOM % (jobs / 24 + 1))).$((RANDOM % 9 + 1))"
  stop
  start
done
wait_for_ends
report "hare ray, killed 50 times"
