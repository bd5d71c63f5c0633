#!/usr/bin/env bash
# What hare slurm does for a real Slurm (scripts/slurm-cluster.sh): make test-slurm.
#
#   scripts/slurm-helper-test.sh HARE [first|helped|killed|large …]
#
# first    16 jobs on 6 GPUs, as Slurm does it by itself; helped: with hare slurm beside it, which
#          must have a mean completion of at most 9 s and less than the first; killed: hare slurm is
#          killed 50 times meanwhile, and every job must run once
# large    5,000 jobs wait: how long a loop takes, and how much time of slurmctld
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
hare=$(realpath "$1")
shift
parts=${*:-first helped killed large}
export SLURM_TEST_DIR=${SLURM_TEST_DIR:-$(mktemp -d "${TMPDIR:-/tmp}/hare-slurm.XXXXXX")}
eval "$("$here/slurm-cluster.sh" env)"
out=$SLURM_TEST_DIR/out
helper=
finish() {
  [ -z "$helper" ] || kill "$helper" 2>/dev/null || true
  "$here/slurm-cluster.sh" down || true
}
trap finish EXIT
"$here/slurm-cluster.sh" up

# A job writes a line when it begins and when it ends, and takes as long as its GPU type says.
cat >"$SLURM_TEST_DIR/job.sh" <<'JOB'
#!/bin/sh
echo "$(date +%s.%N) start $SLURM_JOB_NAME"
for a; do case $SLURMD_NODENAME in "${a%%=*}"-*) sleep "${a#*=}" ;; esac; done
echo "$(date +%s.%N) end $SLURM_JOB_NAME $SLURMD_NODENAME"
JOB
chmod +x "$SLURM_TEST_DIR/job.sh"

# seconds on a v100, a t4 and a k80; the long jobs come first
workload="8:14:30 8:14:30 8:9:10 8:9:10 6:10:22 6:10:22 4:5:6 4:5:6"
workload="$workload 3:5:12 3:5:12 2:2.5:3 2:2.5:3 1:2:4 1:2:4 1:1.5:2 1:1.5:2"

# sixteen submits the jobs while others hold all GPUs, calls $1 when all wait, lets the others go, calls
# $2 until the jobs have ended, and sets mean.
sixteen() {
  local spec v t k n=0 node blockers=() begin
  rm -rf "$out"; mkdir -p "$out"
  for node in v100-0 t4-0 k80-0; do
    blockers+=("$(sbatch --parsable -D / -o /dev/null -w $node --gres=gpu:2 -t 5 \
      --comment='hare={"v100":300,"t4":300,"k80":300}' --wrap 'sleep 300')")
  done
  for _ in $(seq 100); do [ "$(squeue -h -t R | wc -l)" = 3 ] && break; sleep 0.2; done
  for spec in $workload; do
    IFS=: read -r v t k <<<"$spec"
    n=$((n + 1))
    sbatch --parsable -D / -o "$out/%j" -J "j$n" --gres=gpu:1 -t 2 \
      --comment="hare={\"v100\":$v,\"t4\":$t,\"k80\":$k}" \
      "$SLURM_TEST_DIR/job.sh" "v100=$v" "t4=$t" "k80=$k" >/dev/null
  done
  $1
  begin=$(date +%s.%N)
  scancel "${blockers[@]}"
  for _ in $(seq 300); do
    [ "$(cat "$out"/* 2>/dev/null | grep -c ' end ')" = "$n" ] && break
    $2
  done
  mean=$(cat "$out"/* | grep ' end ' | awk -v t="$begin" '{s += $1 - t} END {printf "%.1f", s / NR}')
  [ "$(cat "$out"/* | grep -c ' end ')" = "$n" ] ||
    { echo "jobs are lost or held:"; squeue; exit 1; } >&2
  [ -z "$(cat "$out"/* | grep ' start ' | awk '{print $3}' | sort | uniq -d)" ] ||
    { echo "a job ran twice" >&2; exit 1; }
}

pause() { sleep 0.2; }
flags=(slurm --write --gpu-type constraints --interval 1s)
start() {
  "$hare" "${flags[@]}" --dir "$SLURM_TEST_DIR/helper" >>"$SLURM_TEST_DIR/helper.log" 2>&1 &
  helper=$!
}
plan_and_stay() {
  "$hare" "${flags[@]}" --dir "$SLURM_TEST_DIR/helper" --once >>"$SLURM_TEST_DIR/helper.log" 2>&1
  start
}
stop() {
  kill -KILL "$helper" 2>/dev/null || true
  wait "$helper" 2>/dev/null || true
  helper=
}
kills=0
kill_and_start() {
  if [ "$kills" -lt 50 ]; then
    sleep "0.$((RANDOM % 5))"
    stop
    kills=$((kills + 1))
    start
  else
    pause
  fi
}

first=
for part in $parts; do
  case $part in
    first)
      sixteen pause pause
      first=$mean
      echo "first come, first served: mean completion $mean s" ;;
    helped)
      sixteen plan_and_stay pause
      stop
      echo "with hare slurm: mean completion $mean s"
      awk -v m="$mean" -v f="${first:-1000}" 'BEGIN {exit !(m <= 9.0 && m < f)}' ||
        { echo "more than 9 s" >&2; exit 1; } ;;
    killed)
      kills=0
      sixteen plan_and_stay kill_and_start
      while [ "$kills" -lt 50 ]; do kill_and_start; done
      stop
      echo "killed $kills times: mean completion $mean s, every job ran once" ;;
    large)
      for node in v100-0 t4-0 k80-0; do
        sbatch --parsable -D / -o /dev/null -w $node --gres=gpu:2 -t 60 --wrap 'sleep 3600' >/dev/null
      done
      seq 5000 | xargs -P 4 -I{} sbatch --parsable -D / -o /dev/null -J 'n{}' --gres=gpu:1 -t 2 \
        --comment='hare={"v100":{},"t4":{}}' --wrap 'sleep 1' >/dev/null
      ticks() { awk '{print $14 + $15}' "/proc/$(cat "$SLURM_TEST_DIR/run/slurmctld.pid")/stat"; }
      sleep 15
      for loop in 1 2 3 4 5 6; do
        before=$(ticks) begin=$(date +%s.%N)
        report=$SLURM_TEST_DIR/loop.$loop
        "$hare" slurm --write --once --dir "$SLURM_TEST_DIR/helper" >"$report" 2>&1 || tail -1 "$report"
        echo "$before $(ticks) $begin $(date +%s.%N)" | awk -v t="$(getconf CLK_TCK)" -v l="$loop" \
          -v what="$(grep -E 'wrote|nothing|further' "$report" | tr '\n' ' ')" '{
            printf "loop %d of 5,000 pending jobs: %.2f s, %.2f s of CPU of slurmctld; %s\n",
              l, $4 - $3, ($2 - $1) / t, what}'
      done ;;
  esac
done
