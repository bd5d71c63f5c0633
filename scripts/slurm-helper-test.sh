#!/usr/bin/env bash
# What hare slurm does for a real Slurm (scripts/slurm-cluster.sh): make test-slurm.
#
#   scripts/slurm-helper-test.sh HARE [first|helped|killed|typed|large …|mixed]
#
# first    16 jobs on 6 GPUs, as Slurm does it by itself; helped: with hare slurm beside it, which
#          must have a mean completion of at most 9 s and less than the first; killed: hare slurm is
#          killed 50 times meanwhile (KILLS changes this), and every job must run once
# typed    jobs that name the type of their GPUs in each way, and jobs that do not: each must run on a type that it
#          may use, and start again where a constraint keeps it from starting, also after a kill
# large    5,000 jobs wait: how long a loop takes, and how much time of slurmctld
# mixed    200 jobs of 1 to 8 GPUs arrive on 24 GPUs of three types at a load of 1.2, first as Slurm
#          does it alone and then with hare slurm, while helper, slurmctld and slurmds are killed and
#          an operator drains nodes, cancels, changes limits and renames (about 12 minutes; not by
#          default, and on a cluster of its own nodes). SEED changes the jobs; CALM=1 leaves the kills
#          and the operator out
#
# Where slurmdbd and a MariaDB are installed, Slurm counts GPUs without their types, as most sites do
# (AccountingStorageTRES=gres/gpu).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
hare=$(realpath "$1")
shift
parts=${*:-first helped killed typed large}
if command -v slurmdbd mariadbd >/dev/null; then
  export SLURM_TEST_ACCOUNTING=${SLURM_TEST_ACCOUNTING-1} SLURM_TEST_TRES=${SLURM_TEST_TRES-gres/gpu}
fi
export SLURM_TEST_DIR=${SLURM_TEST_DIR:-$(mktemp -d "${TMPDIR:-/tmp}/hare-slurm.XXXXXX")}
eval "$("$here/slurm-cluster.sh" env)"
out=$SLURM_TEST_DIR/out
mixed_nodes="v100-0:v100:4 v100-1:v100:4 t4-0:t4:4 t4-1:t4:4 k80-0:k80:4 k80-1:k80:4"
[ "$parts" != mixed ] || export SLURM_TEST_NODES=${SLURM_TEST_NODES:-$mixed_nodes}
helper=
finish() {
  [ -z "$helper" ] || kill "$helper" 2>/dev/null || true
  "$here/slurm-cluster.sh" down || true
}
trap finish EXIT
started=
if ! "$here/slurm-cluster.sh" up ||
  ! { started=yes && timeout 60 sbatch --wait -D / -o /dev/null --wrap true >/dev/null; }; then
  [ -z "$started" ] || "$here/slurm-cluster.sh" why
  echo "no Slurm runs jobs here" >&2
  exit 3
fi

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
most_kills=${KILLS:-50}
kill_and_start() {
  if [ "$kills" -lt "$most_kills" ]; then
    sleep "0.$((RANDOM % 5))"
    stop
    kills=$((kills + 1))
    start
  else
    pause
  fi
}

# step is one loop of hare slurm, in a process of its own; $1 is the kind of constraint.
step() {
  "$hare" slurm --write --once --dir "$SLURM_TEST_DIR/typed" --partition gpu --gpu-type "$1" \
    >>"$SLURM_TEST_DIR/helper.log" 2>&1 || { tail -n 5 "$SLURM_TEST_DIR/helper.log" >&2; exit 1; }
}

# submit submits a job that has to run on nodes whose names begin as $1, a pattern, and notes this.
submit() {
  local on=$1 id
  shift
  id=$(sbatch --parsable -D / -o "$out/%j" -t 2 "$@" --wrap 'scontrol show hostnames "$SLURM_JOB_NODELIST"')
  echo "$id $on $*" >>"$out/wanted"
}

# all_ran waits until all jobs have ended, and checks where each of them ran.
all_ran() {
  local id on how node
  for _ in $(seq 150); do [ -z "$(squeue -h -o %A)" ] && break; sleep 0.2; done
  [ -z "$(squeue -h -o %A)" ] ||
    { echo "$1: jobs do not start:"; squeue -O JobID,Name,Feature,Reason,tres-alloc; exit 1; } >&2
  while read -r id on how; do
    [ -s "$out/$id" ] || { echo "$1: the job $id ($how) did not run" >&2; exit 1; }
    while read -r node; do
      [[ $node =~ ^($on)-[0-9]+$ ]] || { echo "$1: the job $id ($how) ran on $node" >&2; exit 1; }
    done <"$out/$id"
  done <"$out/wanted"
  echo "typed: $1: $(wc -l <"$out/wanted") jobs ran, each where it may"
}

# block lets jobs hold all GPUs, and release lets these go.
block() {
  rm -rf "$out"; mkdir -p "$out"
  local node
  blocking=()
  for node in v100-0 t4-0 k80-0; do
    blocking+=("$(sbatch --parsable -D / -o /dev/null -w $node --gres=gpu:2 -t 5 --wrap 'sleep 300')")
  done
  for _ in $(seq 100); do [ "$(squeue -h -t R | wc -l)" = 3 ] && break; sleep 0.2; done
}
release() { scancel "${blocking[@]}"; }

# features prints the constraint of a job.
features() { squeue -h -j "$1" -O Feature:40 | tr -d ' '; }

typed() {
  local any='v100|t4|k80' how last
  for how in constraints prefer; do
    block
    submit v100 --gres=gpu:v100:1
    submit t4 --gres=gpu:t4
    submit k80 --gpus=k80:2
    submit t4 -G t4:1
    submit k80 --gpus-per-node=k80:1
    submit t4 --gpus-per-socket=t4:1 --sockets-per-node=1
    submit v100 -n1 --gpus-per-task=v100:1
    submit v100 --gres=gpu:1 -C v100
    submit 't4|k80' --gres=gpu:1 -C 't4|k80'
    submit 't4|k80' --gres=gpu:1 -x v100-0
    submit k80 --gres=gpu:1 -w k80-0
    submit "$any" -N2 --gres=gpu:2
    submit "$any" --gres=gpu:1
    submit "$any" --gpus=1
    sbatch --parsable -D / -o /dev/null -t 2 --gres=gpu:1 --array=1-3 --wrap true >/dev/null
    step "$how"
    step "$how"
    [ "$how" = prefer ] || squeue -h -t PD -O Feature:40 | grep -q '^[vtk]' ||
      { echo "no job was given a type" >&2; exit 1; }
    release
    all_ran "--gpu-type $how"
    rm -rf "$SLURM_TEST_DIR/typed"
  done

  # What keeps a job from starting once its constraint stands, also in the journal of an earlier process: its
  # nodes are drained, or have lost the feature.
  for how in drain feature; do
    block
    submit "$any" --gres=gpu:1 --comment='hare={"v100":1,"t4":100,"k80":100}'
    last=$(tail -n 1 "$out/wanted" | cut -d' ' -f1)
    step constraints
    [ "$(features "$last")" = v100 ] || { echo "the job was given $(features "$last")" >&2; exit 1; }
    case $how in
      drain) scontrol update NodeName=v100-0 State=DRAIN Reason=test ;;
      feature) scontrol update NodeName=v100-0 Features=other ActiveFeatures=other ;;
    esac
    release
    for _ in $(seq 75); do
      squeue -h -j "$last" -o %r | grep -q 'BadConstraints\|ReqNodeNotAvail' && break
      sleep 0.2
    done
    echo "typed: $how: the job waits for $(features "$last"): $(squeue -h -j "$last" -o %r)"
    # Without the feature, the next process refuses to choose types, and frees the job nevertheless.
    "$hare" slurm --write --once --dir "$SLURM_TEST_DIR/typed" --partition gpu --gpu-type constraints \
      >>"$SLURM_TEST_DIR/helper.log" 2>&1 || [ "$how" = feature ]
    all_ran "freed after $how"
    case $how in
      drain) scontrol update NodeName=v100-0 State=RESUME ;;
      feature) scontrol update NodeName=v100-0 Features=v100 ActiveFeatures=v100 ;;
    esac
    rm -rf "$SLURM_TEST_DIR/typed"
  done
}

# jobs200 writes 200 lines "at width v100 t4 k80 limit": arrivals in seconds from the start, times by
# type in seconds, limits in minutes. The GPU time of the jobs, at the mean speed of the three types, is
# 1.2 times what 24 GPUs have until the last arrival.
jobs200() {
  awk -v seed="${SEED:-1}" 'BEGIN {
    srand(seed)
    for (i = 0; i < 200; i++) {
      r = rand(); w[i] = r < 0.55 ? 1 : r < 0.8 ? 2 : r < 0.95 ? 4 : 8
      t[i] = 1 + 18 * rand() ^ 3; f[i] = 1.3 + 1.7 * rand()
      work += w[i] * t[i] * 3 / (1 + 1 / f[i] + 1 / f[i] ^ 2)
    }
    span = work / 24 / 1.2
    for (i = 0; i < 200; i++) at[i] = span * rand()
    for (i = 0; i < 200; i++) printf "%.1f %d %.1f %.1f %.1f %d\n", at[i], w[i], t[i], t[i] * f[i],
      t[i] * f[i] * f[i], 2 + int(3 * rand() + t[i] * f[i] * f[i] / 60)
  }' | sort -n
}

# disturb does something at random: kills the helper, slurmctld or a slurmd, or what operators do.
drained=
disturb() {
  [ -z "${CALM:-}" ] || return 0
  local id pid node nodes=(v100-0 v100-1 t4-0 t4-1 k80-0 k80-1)
  done_to=$((done_to + 1))
  node=${nodes[RANDOM % 6]}
  case $((RANDOM % 8)) in
    0 | 1 | 2) [ -z "$helper" ] || { stop; start; } ;;
    3) pid=$(cat "$SLURM_TEST_DIR/run/slurmctld.pid")
      kill -KILL "$pid"
      while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
      slurmctld -f "$SLURM_CONF" </dev/null >/dev/null 2>&1 || true ;;
    4) pid=$(cat "$SLURM_TEST_DIR/run/slurmd-$node.pid")
      kill -KILL "$pid" 2>/dev/null || true # its jobs go on, and the next slurmd finds them
      while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
      slurmd -N "$node" -f "$SLURM_CONF" </dev/null >/dev/null 2>&1 || true ;;
    5) if [ -n "$drained" ]; then
        scontrol update NodeName="$drained" State=RESUME || true
        drained=
      else
        scontrol update NodeName="$node" State=DRAIN Reason=test || true
        drained=$node
      fi ;;
    6) id=$(squeue -h -t PD -o %A | shuf -n 1) || true
      [ -z "$id" ] || scontrol update JobId="$id" TimeLimit=9 JobName="$(squeue -h -j "$id" -o %j)-new" || true ;;
    7) id=$(squeue -h -t PD -o %A | shuf -n 1) || true
      if [ -n "$id" ] && scancel --state=PENDING "$id"; then cancelled="$cancelled $id"; fi ;;
  esac 2>/dev/null
}

# mixed submits the 200 jobs as they arrive, and sets mean, the mean time from submission to end.
mixed() {
  local at w v t k limit begin now n=0 next=10 id shape left cancelled="" done_to=0 ended
  rm -rf "$out"; mkdir -p "$out"
  : >"$SLURM_TEST_DIR/submitted"
  begin=$(date +%s.%N)
  while read -r at w v t k limit; do
    while :; do
      now=$(awk -v b="$begin" -v n="$(date +%s.%N)" 'BEGIN {print n - b}')
      awk -v a="$at" -v n="$now" 'BEGIN {exit !(n >= a)}' && break
      if [ "$1" = disturbed ] && awk -v a="$next" -v n="$now" 'BEGIN {exit !(n >= a)}'; then
        disturb
        next=$((next + 4))
      fi
      sleep 0.1
    done
    n=$((n + 1))
    shape=(--gres=gpu:"$w")
    [ "$w" -lt 8 ] || shape=(-N 2 --ntasks-per-node=1 --gres=gpu:4)
    for _ in $(seq 20); do # slurmctld may be dead for a moment
      id=$(sbatch --parsable -D / -o "$out/%j" -J "j$n" --requeue "${shape[@]}" -t "$limit" \
        --comment="hare={\"v100\":$v,\"t4\":$t,\"k80\":$k}" \
        "$SLURM_TEST_DIR/job.sh" "v100=$v" "t4=$t" "k80=$k" 2>/dev/null) && break
      sleep 0.5
    done
    echo "$id $(date +%s.%N)" >>"$SLURM_TEST_DIR/submitted"
  done < <(jobs200)
  [ -z "$drained" ] || scontrol update NodeName="$drained" State=RESUME
  drained=
  for _ in $(seq 900); do
    left=$(timeout 10 squeue -h -o %A | wc -l) && [ "$left" = 0 ] && break
    # Slurm holds a job whose slurmd died while it began the job; that is for an operator to release.
    timeout 10 squeue -h -t PD -o '%A %r' | awk '/launch failed requeued held/ {print $1}' |
      xargs -r -n 1 timeout 10 scontrol release || true
    sleep 0.5
  done
  [ "$left" = 0 ] || { echo "jobs are held:"; squeue; exit 1; } >&2
  # Each job that was not cancelled has one start and one end.
  mean=$(while read -r id at; do
    ended=$(awk '$2 == "end" {print $1}' "$out/$id" 2>/dev/null || true)
    case " $cancelled " in *" $id "*) [ -z "$ended" ] && continue ;; esac
    [ "$(wc -w <<<"$ended")" = 1 ] || { echo "job $id has ended $(wc -w <<<"$ended") times" >&2; continue; }
    [ "$(grep -c ' start ' "$out/$id")" = 1 ] || echo "job $id has started more than once" >&2
    echo "$at $ended"
  done <"$SLURM_TEST_DIR/submitted" 2>"$SLURM_TEST_DIR/faults" |
    awk '{s += $2 - $1} END {printf "%d jobs, mean completion %.1f s", NR, s / NR}')
  echo "$1: $mean; $done_to disturbances, cancelled while waiting: $(wc -w <<<"$cancelled"); of 200 jobs" \
    "lost or run twice: $(wc -l <"$SLURM_TEST_DIR/faults")"
  [ ! -s "$SLURM_TEST_DIR/faults" ] || { cat "$SLURM_TEST_DIR/faults" >&2; exit 1; }
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
      while [ "$kills" -lt "$most_kills" ]; do kill_and_start; done
      stop
      echo "killed $kills times: mean completion $mean s, every job ran once" ;;
    typed) typed ;;
    mixed)
      mixed "Slurm alone"
      first=$mean
      start
      mixed "with hare slurm"
      awk -v m="${mean% s}" -v f="${first% s}" 'BEGIN {
        sub(/.* /, "", m); sub(/.* /, "", f)
        printf "mean completion %+.1f %%\n", 100 * (m / f - 1)
        exit !(m <= 0.75 * f)}' || { echo "less than 25 % saved" >&2; exit 1; }
      if [ -z "${CALM:-}" ]; then mixed disturbed; fi
      stop ;;
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
