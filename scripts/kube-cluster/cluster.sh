#!/usr/bin/env bash
# A throw-away Kubernetes cluster on one machine: real etcd, API server,
# controllers and scheduler on loopback; nodes, GPUs and pods are kwok's.
#
#   cluster.sh up      start everything, register nodes.yaml, wait until jobs can run
#   cluster.sh down    stop exactly the processes that `up` started, by process id
#   cluster.sh status  nodes, and processes with their memory (resident, proportional)
#   cluster.sh env     print what a client needs: eval "$(cluster.sh env)"
#   cluster.sh kueue   start Kueue on the running cluster, with queues.yaml (after KUEUE=1 build.sh)
#
# KUBE_BIN    where build.sh put the binaries (default: bin beside this file)
# KUBE_DIR    state, logs, keys               (default: /tmp/hare-kube)
# KUBE_PORT   first of ten loopback ports     (default: 17100)
# KUBE_NODES  a file of nodes                 (default: nodes.yaml beside this file)
# KUBE_API_FLAGS  more for the API server, such as --feature-gates=...
# KUEUE_GATES     Kueue's feature gates, such as "PriorityBoost: true"
#
# Needs bash, openssl, curl, and jq for Kueue. Works as any user, and in a network
# namespace that has only lo.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
BIN=${KUBE_BIN:-$HERE/bin}
DIR=${KUBE_DIR:-/tmp/hare-kube}
PORT=${KUBE_PORT:-17100}
NODES=${KUBE_NODES:-$HERE/nodes.yaml}
API=https://127.0.0.1:$((PORT+2))
export KUBECONFIG=$DIR/admin.kubeconfig

# alive NAME: its process runs, and is still ours
alive() {
  [ -s "$DIR/run/$1.pid" ] && tr '\0' ' ' 2>/dev/null <"/proc/$(cat "$DIR/run/$1.pid")/cmdline" |
    grep -q "/$1 "
}

# start NAME COMMAND...: in the background, with its own log and pid file
start() {
  local name=$1; shift
  setsid "$@" </dev/null >"$DIR/log/$name.log" 2>&1 &
  echo $! >"$DIR/run/$name.pid"
}

# await NAME SECONDS COMMAND...: until the command succeeds or the process is gone
await() {
  local name=$1 end=$((SECONDS+$2)); shift 2
  until "$@" >/dev/null 2>&1; do
    if ! alive "$name" || [ $SECONDS -ge $end ]; then
      echo "$name did not come up; the end of $DIR/log/$name.log:" >&2
      tail -n 5 "$DIR/log/$name.log" >&2
      return 1
    fi
    sleep 0.1
  done
}

kubeconfig() { # FILE TOKEN
  cat >"$1" <<CONF
apiVersion: v1
kind: Config
current-context: hare
clusters: [{name: hare, cluster: {server: '$API', certificate-authority: $DIR/pki/apiserver.crt}}]
users: [{name: me, user: {token: $2}}]
contexts: [{name: hare, context: {cluster: hare, user: me}}]
CONF
}

conf() {
  mkdir -p "$DIR"/{log,run,pki}
  chmod 700 "$DIR"
  : >"$DIR/.hare-kube"
  openssl genrsa -out "$DIR/pki/sa.key" 2048 2>/dev/null
  local who
  : >"$DIR/tokens"
  for who in admin,admin,admin,system:masters kcm,system:kube-controller-manager,kcm \
    scheduler,system:kube-scheduler,scheduler; do
    local name=${who%%,*} token; token=$(openssl rand -hex 16)
    echo "$token,$(cut -d, -f2- <<<"$who")" >>"$DIR/tokens"
    kubeconfig "$DIR/$name.kubeconfig" "$token"
  done
}

up() {
  [ -x "$BIN/kube-apiserver" ] || { echo "no binaries in $BIN: run build.sh, or set KUBE_BIN" >&2; return 1; }
  if alive etcd; then echo "a cluster is up in $DIR"; return; fi
  if [ -e "$DIR" ] && [ ! -e "$DIR/.hare-kube" ]; then
    echo "$DIR is not mine: it exists and I did not make it" >&2
    return 1
  fi
  rm -rf "$DIR"; conf
  start etcd "$BIN/etcd" --name hare --data-dir "$DIR/etcd" --unsafe-no-fsync --log-level warn \
    --listen-client-urls "http://127.0.0.1:$PORT" --advertise-client-urls "http://127.0.0.1:$PORT" \
    --listen-peer-urls "http://127.0.0.1:$((PORT+1))" --initial-advertise-peer-urls "http://127.0.0.1:$((PORT+1))" \
    --initial-cluster "hare=http://127.0.0.1:$((PORT+1))"
  await etcd 30 curl -sf "http://127.0.0.1:$PORT/health"
  # The reconciler that would publish the address refuses loopback, so it is off.
  start kube-apiserver "$BIN/kube-apiserver" --etcd-servers "http://127.0.0.1:$PORT" \
    --bind-address 127.0.0.1 --secure-port $((PORT+2)) --advertise-address 127.0.0.1 --endpoint-reconciler-type none \
    --cert-dir "$DIR/pki" --token-auth-file "$DIR/tokens" --authorization-mode RBAC \
    --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$DIR/pki/sa.key" \
    --service-account-signing-key-file "$DIR/pki/sa.key" --service-cluster-ip-range 192.0.2.0/24 ${KUBE_API_FLAGS:-}
  await kube-apiserver 120 ready
  start kube-controller-manager "$BIN/kube-controller-manager" --kubeconfig "$DIR/kcm.kubeconfig" --secure-port 0 \
    --leader-elect=false --use-service-account-credentials --service-account-private-key-file "$DIR/pki/sa.key" \
    --concurrent-job-syncs 5 --controllers "$(echo job-controller namespace-controller serviceaccount-controller \
    garbage-collector-controller ttl-after-finished-controller pod-garbage-collector-controller \
    node-lifecycle-controller taint-eviction-controller disruption-controller | tr ' ' ,)"
  start kube-scheduler "$BIN/kube-scheduler" --kubeconfig "$DIR/scheduler.kubeconfig" \
    --secure-port 0 --leader-elect=false
  start kwok "$BIN/kwok" --kubeconfig "$DIR/admin.kubeconfig" --config "$HERE/stage.yaml" \
    --manage-nodes-with-annotation-selector kwok.x-k8s.io/node=fake --node-ip 192.0.2.1 --cidr 192.0.2.128/25 \
    --node-port 0 --server-address "" --node-lease-duration-seconds 40
  "$BIN/kubectl" apply -f "$NODES" >/dev/null
  await kwok 60 "$BIN/kubectl" wait --for condition=Ready node --all --timeout 30s
  await kube-controller-manager 60 "$BIN/kubectl" get serviceaccount default
}

ready() {
  curl -sf --cacert "$DIR/pki/apiserver.crt" \
    -H "Authorization: Bearer $(head -1 "$DIR/tokens" | cut -d, -f1)" "$API/readyz"
}

# Kueue runs beside the API server instead of in a pod: its own manifests, less the
# Deployment; its Service becomes a name for this machine, so its own certificates
# hold; webhooks other than its own and the Job's go.
kueue() {
  [ -s "$BIN/kueue.yaml" ] || { echo "no Kueue in $BIN: run KUEUE=1 build.sh" >&2; return 1; }
  "$BIN/kubectl" create namespace kueue-system >/dev/null
  "$BIN/kubectl" create --dry-run=client -o json -f "$BIN/kueue.yaml" | jq --argjson port $((PORT+6)) '
    select(.kind != "Deployment" and .kind != "APIService" and .kind != "Namespace")
    | if .kind == "Service" and .metadata.name == "kueue-webhook-service"
      then .spec = {type: "ExternalName", externalName: "localhost"} else . end
    | if .spec.conversion.webhook then .spec.conversion.webhook.clientConfig.service.port = $port else . end
    | if .webhooks then
        .webhooks |= map(select(.rules[0].apiGroups[0] | IN("kueue.x-k8s.io", "batch"))
        | .clientConfig.service.port = $port) else . end' |
    "$BIN/kubectl" apply --server-side -f - >/dev/null
  cat >"$DIR/kueue.yaml" <<CONF
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health: {healthProbeBindAddress: '127.0.0.1:$((PORT+7))'}
metrics: {bindAddress: '127.0.0.1:$((PORT+8))'}
webhook: {host: 127.0.0.1, port: $((PORT+6)), certDir: $DIR/pki/kueue}
clientConnection: {qps: 300, burst: 500}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: true}
integrations: {frameworks: [batch/job]}
featureGates: {VisibilityOnDemand: false,
  ${KUEUE_GATES:-PriorityBoost: true, AdmissionGatedBy: true, ConcurrentAdmission: false}}
CONF
  mkdir -p "$DIR/pki/kueue"
  start kueue "$BIN/kueue" --config "$DIR/kueue.yaml" --kubeconfig "$DIR/admin.kubeconfig" --zap-log-level 2
  await kueue 60 kueue_certs
  await kueue 60 curl -sf "http://127.0.0.1:$((PORT+7))/readyz"
  await kueue 30 "$BIN/kubectl" apply -f "$HERE/queues.yaml"
}

# Kueue makes its certificates, puts them in a Secret, and waits for kubelet to
# mount that.
kueue_certs() {
  local secret f
  secret=$("$BIN/kubectl" -n kueue-system get secret kueue-webhook-server-cert -o json) || return 1
  for f in ca.crt tls.crt tls.key; do
    jq -er --arg f $f '.data[$f]' <<<"$secret" | base64 -d >"$DIR/pki/kueue/$f" || return 1
  done
}

down() {
  local name pid
  for name in kueue kwok kube-scheduler kube-controller-manager kube-apiserver etcd; do
    alive "$name" || continue
    pid=$(cat "$DIR/run/$name.pid")
    kill "$pid" 2>/dev/null || true
    # the API server drains for up to a minute: nothing here is worth that
    for _ in $(seq 20); do alive "$name" || break; sleep 0.1; done
    ! alive "$name" || kill -KILL "$pid" 2>/dev/null || true
    rm -f "$DIR/run/$name.pid"
  done
}

status() {
  "$BIN/kubectl" get nodes -L nvidia.com/gpu.product -o wide 2>/dev/null | cut -c1-110 || true
  local name pid
  for name in etcd kube-apiserver kube-controller-manager kube-scheduler kwok kueue; do
    alive "$name" || continue
    pid=$(cat "$DIR/run/$name.pid")
    awk -v n="$name" -v p="$pid" '/^Rss:/{r=$2} /^Pss:/{s=$2}
      END {printf "%-24s pid %-7d rss %4d MiB  pss %4d MiB\n", n, p, r/1024, s/1024}' "/proc/$pid/smaps_rollup"
  done
}

case ${1:-} in
  up) trap 'rc=$?; [ $rc = 0 ] || down; exit $rc' EXIT; up ;;
  down) down ;;
  status) status ;;
  kueue) kueue ;;
  env) echo "export KUBECONFIG=$KUBECONFIG PATH=$BIN:\$PATH" ;;
  *) sed -n '2,22p' "$0"; exit 2 ;;
esac
