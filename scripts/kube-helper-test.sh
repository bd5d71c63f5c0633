#!/usr/bin/env bash
# hare kube beside a real Kubernetes with pretended nodes, on loopback: docs/use/beside.md#kubernetes has the figures.
#
#   scripts/kube-helper-test.sh HARE [ten|many|kills] [SEED [kueue]]
#
# ten: ten Jobs of four GPUs, alone and helped. many: 200 mixed Jobs, alone and helped, seven minutes.
# kills: 200 Jobs while the helper is killed again and again, five minutes. With kueue the Jobs are in a
# queue of Kueue (KUEUE=1 scripts/kube-cluster/build.sh). KUBE_BIN is where
# scripts/kube-cluster/build.sh has put the binaries (default: ~/.cache/hare/kube).
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
HARE=$(realpath "${1:?usage: kube-helper-test.sh HARE [ten|many|kills] [SEED]}")
WHICH=${2:-ten}
SEED=${3:-1}
QUEUE=
flags=(--write --interval 2s --react 100ms --lease default/hare --lease-time 3s)
if [ "${4:-}" = kueue ]; then
  QUEUE=gpus
  flags+=(--kueue)
fi
export KUBE_BIN=${KUBE_BIN:-$HOME/.cache/hare/kube}
if [ ! -x "$KUBE_BIN/kube-apiserver" ]; then
  echo "no Kubernetes in $KUBE_BIN: KUBE_BIN=$KUBE_BIN scripts/kube-cluster/build.sh builds it, 8 minutes of CPU" >&2
  exit 3
fi
DIR=$(mktemp -d)
export KUBE_DIR=$DIR/cluster
pids=()
finish() {
  for p in "${pids[@]}"; do kill "$p" 2>/dev/null || true; done
  "$HERE/kube-cluster/cluster.sh" down >/dev/null 2>&1 || true
  rm -rf "$DIR"
}
trap finish EXIT
"$HERE/kube-cluster/cluster.sh" up >/dev/null
eval "$("$HERE/kube-cluster/cluster.sh" env)"
if [ -n "$QUEUE" ]; then
  "$HERE/kube-cluster/cluster.sh" kueue >/dev/null
  kubectl annotate clusterqueue gpus hare.dev/managed=true >/dev/null
fi
kubectl proxy --port=0 >"$DIR/proxy" 2>&1 &
pids+=($!)
until API=$(sed -n 's/^Starting to serve on /http:\/\//p' "$DIR/proxy") && [ -n "$API" ]; do sleep 0.1; done

helper() { exec "$HARE" kube --api "$API" --dir "$DIR/hare" "${flags[@]}" >>"$DIR/helper.log" 2>&1; }

if [ "$WHICH" != kills ]; then
  echo "alone:  $("$HERE/kube-jobs.py" "$API" "$WHICH" alone "$SEED" "$QUEUE")"
  helper & pids+=($!)
  echo "helped: $("$HERE/kube-jobs.py" "$API" "$WHICH" helped "$SEED" "$QUEUE")"
  exit
fi
# Each helper lives for some seconds; the next one waits until the lease of the one before has run out.
( kills=0
  while [ ! -e "$DIR/over" ]; do
    timeout -s KILL "$(awk -v r=$RANDOM 'BEGIN {print 3.2 + r / 32768 * 1.5}')" "$HARE" kube --api "$API" \
      --dir "$DIR/hare" --write --interval 1s --react 100ms --lease default/hare --lease-time 2s \
      ${QUEUE:+--kueue} \
      >>"$DIR/helper.log" 2>&1 || true
    kills=$((kills + 1)); echo $kills >"$DIR/kills"
  done ) 2>/dev/null & pids+=($!)
echo "helped: $("$HERE/kube-jobs.py" "$API" many helped "$SEED" "$QUEUE")"
touch "$DIR/over"
echo "killed $(cat "$DIR/kills") times; Jobs that were let go:" \
  "$(kubectl get jobs -o json | jq '[.items[] | select(.spec.suspend | not)] | length')"
