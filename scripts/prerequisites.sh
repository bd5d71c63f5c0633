#!/bin/bash
# Prints which programs are missing to build and test Hare, and the command that
# installs them. With the argument clients, the script also checks what the Python and
# TypeScript clients need.
set -u
missing=() packages=()

# need COMMAND PACKAGE... records the packages as missing if COMMAND cannot be found.
need() {
    command -v "$1" >/dev/null 2>&1 && return
    missing+=("$1")
    packages+=("${@:2}")
}

need cc gcc libc6-dev
need make make
need pkg-config pkg-config
need python3 python3
need readelf binutils
need sha256sum coreutils
if command -v cc >/dev/null 2>&1 && ! echo '#include <stdlib.h>' | cc -E - >/dev/null 2>&1; then
    missing+=("the C library's headers")
    packages+=(libc6-dev)
fi
here=$(cd "$(dirname "$0")" && pwd)
if [ ! -f "$here/../.highs/stamp" ] && ! pkg-config --atleast-version=1.10 highs 2>/dev/null &&
    ! python3 -m pip --version >/dev/null 2>&1; then
    missing+=("pip")
    packages+=(python3-pip)
fi

if [ "${1:-}" = clients ]; then
    python=${PYTHON:-python3}
    if command -v "$python" >/dev/null 2>&1 && ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
        missing+=("the Python module venv")
        packages+=(python3-venv)
    fi
fi

bad=0
if [ ${#missing[@]} -gt 0 ]; then
    printf 'Missing: %s\nInstall with:\n    apt-get update && apt-get install -y' \
        "$(IFS=,; echo "${missing[*]}" | sed 's/,/, /g')" >&2
    printf ' %s' "${packages[@]}" ca-certificates >&2
    echo >&2
    bad=1
fi
if ! command -v go >/dev/null 2>&1; then
    echo 'Missing: go, 1.21 or later (it downloads the version that go.mod names).' \
        'Debian 13: apt-get install -y golang-go; elsewhere: https://go.dev/doc/install' >&2
    bad=1
elif ! (cd "$here/.." && go version >/dev/null 2>&1) || ! (cd "$here/.." && go list -m >/dev/null 2>&1); then
    echo "Go is too old: go.mod needs $(sed -n 's/^go //p' "$here/../go.mod") and this is $(cd / && go version)." \
        "See https://go.dev/doc/install" >&2
    bad=1
fi
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
