#!/bin/bash
# Prints which programs are missing to build and test Hare, and the command that
# installs them.
#
#   prerequisites.sh             what make build and make demo need
#   prerequisites.sh clients     also what the tests of the clients and pages need
#   prerequisites.sh --packages  the missing Debian packages alone, on standard output;
#                                with clients behind it, also those of the whole ./test
#   prerequisites.sh --optional  likewise what ./test can do without
set -u
list=
case ${1:-} in
--packages | --optional)
    list=${1#--}
    shift
    ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
missing=() packages=()

# need COMMAND PACKAGE... records the packages as missing if COMMAND cannot be found.
need() {
    command -v "$1" >/dev/null 2>&1 && return
    missing+=("$1")
    packages+=("${@:2}")
}

need make make
need python3 python3
need sha256sum coreutils
# Go builds without a C compiler, but where there is one it uses it.
if command -v cc >/dev/null 2>&1 && ! echo '#include <stdlib.h>' | cc -E - >/dev/null 2>&1; then
    missing+=("the C library's headers")
    packages+=(libc6-dev)
fi
if [ ! -f "$here/../.highs/stamp" ] && ! python3 -m pip --version >/dev/null 2>&1; then
    missing+=("pip")
    packages+=(python3-pip)
fi
if [ "${1:-}" = clients ]; then
    need cc gcc libc6-dev # the race detector and the check of limits are in C
    if ! { command -v "$python" && "$python" -c 'import venv, ensurepip'; } >/dev/null 2>&1; then
        missing+=("the Python module venv")
        packages+=(python3-venv)
    fi
    if [ "$list" = packages ]; then
        need git git
        need curl curl
        need chromium chromium
    fi
fi
if [ "$list" = optional ]; then # the tests beside a real Slurm are skipped where these are missing
    missing=() packages=()
    need slurmctld slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge
    need slurmdbd slurmdbd mariadb-server
    echo "${packages[@]}"
    exit
fi

# Go 1.21 and later download the version that go.mod names.
go=ok
if ! command -v go >/dev/null 2>&1; then
    go=missing
elif ! (cd "$here/.." && go list -m >/dev/null 2>&1); then
    go=old
fi

if [ -n "$list" ]; then
    [ $go = ok ] || packages+=(golang-go)
    [ ${#packages[@]} = 0 ] || echo "${packages[@]}" ca-certificates
    exit
fi

bad=0
if [ ${#missing[@]} -gt 0 ]; then
    printf 'Missing: %s\nInstall with:\n    apt-get update && apt-get install -y' \
        "$(IFS=,; echo "${missing[*]}" | sed 's/,/, /g')" >&2
    printf ' %s' "${packages[@]}" ca-certificates >&2
    echo >&2
    bad=1
fi
go_hint="Debian 13: apt-get install -y golang-go; Debian 12: the same with -t bookworm-backports, once that suite is \
among apt's sources; elsewhere: https://go.dev/doc/install"
case $go in
missing)
    echo "Missing: go, 1.21 or later (it downloads the version that go.mod names). $go_hint" >&2
    bad=1
    ;;
old)
    echo "Go is too old: 1.21 or later is needed, which downloads the version that go.mod names, and this is" \
        "$(cd / && go version). $go_hint" >&2
    bad=1
    ;;
esac
if [ "${1:-}" = clients ]; then
    if command -v "$python" >/dev/null 2>&1 &&
        ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        echo "Python is too old: the Python client needs 3.11 or later and this is $("$python" --version)." \
            "Debian 12 and later have it. To use another one: PYTHON=python3.12 make test-clients" >&2
        bad=1
    fi
fi
# get-node.sh downloads Node.js from PyPI if the system's is missing or too old.
if [ "${1:-}" = clients ] && [ $bad = 0 ]; then
    "$here/get-node.sh" >/dev/null || bad=1
fi
exit $bad
