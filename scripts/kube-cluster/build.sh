#!/usr/bin/env bash
# Builds what cluster.sh runs into KUBE_BIN (default: bin beside this file), from
# Go modules alone. With KUEUE=1 Kueue too. Does nothing where it is up to date,
# so KUBE_BIN can be a cache.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
BIN=${KUBE_BIN:-$HERE/bin}
export GOFLAGS=-buildvcs=false CGO_ENABLED=0
mkdir -p "$BIN"
BIN=$(cd "$BIN" && pwd)
cd "$HERE"
stamp=$(cat go.mod go.sum main.go <(go version) | sha256sum)
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${version#v1.}; minor=${minor%%.*}
v=k8s.io/component-base/version
if [ "$(cat "$BIN/.kubelab" 2>/dev/null)" != "$stamp" ]; then
  nice -n 19 go build -trimpath -o "$BIN/kubelab" \
    -ldflags "-s -w -X $v.gitVersion=$version -X $v.gitMajor=1 -X $v.gitMinor=$minor" .
  for part in etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok; do
    ln -sf kubelab "$BIN/$part"
  done
  echo "$stamp" >"$BIN/.kubelab"
fi
if [ -n "${KUEUE:-}" ] && [ "$(cat "$BIN/.kueue" 2>/dev/null)" != "$stamp" ]; then
  nice -n 19 go build -trimpath -ldflags '-s -w' -o "$BIN/kueue" sigs.k8s.io/kueue/cmd/kueue
  "$BIN/kubectl" kustomize "$(go list -m -f '{{.Dir}}' sigs.k8s.io/kueue)/config/default" >"$BIN/kueue.yaml"
  echo "$stamp" >"$BIN/.kueue"
fi
