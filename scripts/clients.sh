#!/bin/bash
# Builds and tests the Python and TypeScript clients. Everything that the script
# downloads and builds is in .clients, client/*/node_modules and build/clients.
#
#   clients.sh build      build the packages in build/clients: wheel, sdist, npm tarball
#   clients.sh wheel      build the Python package alone
#   clients.sh test       build the packages, install them elsewhere, test them against hare serve
#   clients.sh lint       lint the specification
#   clients.sh fuzz [S]   fuzz every operation of the specification, first without API keys and
#                         then with them, for S seconds each or with a few examples an operation
#
# HARE is the binary that serves; where HARE is not set, the script builds .clients/hare.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
cache=${HARE_CLIENTS:-$root/.clients}
python=${PYTHON:-python3}
export PIP_DISABLE_PIP_VERSION_CHECK=1 NO_UPDATE_NOTIFIER=1 REDOCLY_TELEMETRY=off
mkdir -p "$cache" build/clients
"$root/scripts/prerequisites.sh" clients
node=$("$root/scripts/get-node.sh")
PATH=${node:+$node:}$PATH

server=
trap 'stop' EXIT

# once NAME FILE... succeeds if the files changed since done_ NAME recorded their hash.
once() { ! [ "$(cat "$cache/$1.stamp" 2>/dev/null)" = "$(cat "${@:2}" | sha256sum)" ]; }
done_() { cat "${@:2}" | sha256sum >"$cache/$1.stamp"; }

# venv NAME REQUIREMENTS makes a virtual environment with exactly the packages of the
# file REQUIREMENTS, whose hashes pip checks.
venv() {
    once "$1" "$2" || return 0
    rm -rf "${cache:?}/$1"
    "$python" -m venv "$cache/$1"
    "$cache/$1/bin/python" -m pip install -q --require-hashes -r "$2"
    done_ "$1" "$2"
}

# modules FOLDER installs FOLDER/node_modules from the lock file.
modules() {
    once "modules-${1//\//-}" "$1/package-lock.json" && rm -rf "$1/node_modules"
    [ -d "$1/node_modules" ] || (cd "$1" && npm ci --loglevel=error --ignore-scripts --no-audit --no-fund)
    done_ "modules-${1//\//-}" "$1/package-lock.json"
}

build_python() {
    venv py-tools client/python/tools.txt
    local bin=$cache/py-tools/bin
    (
        cd client/python
        PATH=$bin:$PATH openapi-python-client generate --fail-on-warning \
            --path "$root/openapi/openapi.json" --meta none --output-path src/hare_client/generated \
            --overwrite --config generate.yaml >"$cache/generate.log" 2>&1 || {
            cat "$cache/generate.log" >&2
            exit 1
        }
        "$bin/ruff" check -q . && "$bin/ruff" format -q --check .
        cp "$root/LICENSE" .
        rm -rf dist
        PATH=$bin:$PATH python -m build --no-isolation --outdir dist >"$cache/build.log" 2>&1 || {
            cat "$cache/build.log" >&2
            exit 1
        }
    )
    cp client/python/dist/* build/clients/
}

build_typescript() {
    modules client/typescript
    (
        cd client/typescript
        node_modules/.bin/openapi-ts >"$cache/generate-ts.log" 2>&1 || {
            cat "$cache/generate-ts.log" >&2
            exit 1
        }
        rm -rf dist
        node_modules/.bin/tsc -p tsconfig.json
        cp "$root/LICENSE" .
        npm pack --silent --pack-destination "$root/build/clients" >/dev/null
    )
}

build() {
    build_python
    build_typescript
    ls build/clients
}

binary() {
    hare=${HARE:-$cache/hare}
    export HARE_LIBHIGHS=${HARE_LIBHIGHS:-$root/.highs/lib/libhighs.so}
    [ -n "${HARE:-}" ] || "${GO:-go}" build -tags=netgo,osusergo,highs -o "$cache/hare" ./cmd/hare
}

# serve FLAG... starts the server and sets url to its address.
serve() {
    : >"$cache/serve.log" # the shell in the background may come to it late
    "$hare" serve --listen 127.0.0.1:0 "$@" 2>"$cache/serve.log" &
    server=$!
    for _ in $(seq 200); do
        url=$(sed -n 's/.*msg=listening address=\([^ ]*\).*/http:\/\/\1/p' "$cache/serve.log")
        [ -z "$url" ] || return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.05
    done
    cat "$cache/serve.log" >&2
    exit 1
}

stop() {
    [ -n "$server" ] || return 0
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=
}

# clean fails if the log of the server has an error or a panic.
clean() {
    if grep -E 'level=ERROR|panic' "$cache/serve.log" >&2; then
        echo "The server's log, .clients/serve.log, has errors." >&2
        exit 1
    fi
}

test_clients() {
    build
    binary
    "$hare" solve -q client/conformance/readme.instance.json -o "$cache/result.json"
    # The packages are tested in a folder from which nothing of this checkout can be imported.
    venv py-use client/python/runtime.txt
    "$cache/py-use/bin/python" -m pip install -q --no-deps --no-index --force-reinstall build/clients/hare_client-*.whl
    rm -rf "$cache/ts-use" && mkdir -p "$cache/ts-use"
    cp client/typescript/test/*.mjs "$cache/ts-use/"
    (
        cd "$cache/ts-use"
        echo '{"private": true, "type": "module"}' >package.json
        npm install --silent --no-audit --no-fund --offline --ignore-scripts "$root"/build/clients/hare-client-*.tgz
    )
    serve
    export HARE_URL=$url HARE_ROOT=$root HARE_RESULT=$cache/result.json PYTHON=$python
    export HARE_FAKE=$root/client/conformance/fake.py
    run_clients '*'
    "$python" client/conformance/check_docs.py "$cache/py-use/bin/python" "$cache/ts-use"
    stop
    clean
    if with_keys; then
        export HARE_URL=$url HARE_KEY=$key
        echo "== with keys"
        run_clients live
        stop
        clean
    fi
}

# run_clients PATTERN runs the tests of both clients whose names match PATTERN.
run_clients() {
    echo "== Python"
    "$cache/py-use/bin/python" -I -m unittest discover -s client/python/tests -p "test_$1.py"
    echo "== TypeScript"
    (cd "$cache/ts-use" && node --test --test-reporter=dot ./$1.test.mjs)
}

# with_keys starts a server that requires API keys and sets key to one of them. It fails
# if the binary has no command key.
with_keys() {
    "$hare" key --help >/dev/null 2>&1 || return 1
    rm -rf "$cache/data" && mkdir -p "$cache/data"
    key=$("$hare" key create --data-dir "$cache/data" --tenant clients --role admin 2>/dev/null)
    serve --max-time 300ms --max-sessions 100 --running 2 --data-dir "$cache/data" --require-keys
}

lint() {
    modules client/conformance
    client/conformance/node_modules/.bin/redocly lint --config client/conformance/redocly.yaml \
        --format stylish openapi/openapi.yaml 2>"$cache/lint.log" || {
        cat "$cache/lint.log" >&2
        exit 1
    }
}

# attack ARG... runs the fuzzer against the server at url. The fuzzer has one worker,
# because Python 3.11 sometimes fails to parse its own source in several threads
# (python/cpython#106905).
attack() {
    (
        cd client/conformance
        "$cache/fuzz/bin/schemathesis" run ../../openapi/openapi.json --url "$url" --checks all \
            --seed "${SEED:-1}" "$@" >"$cache/fuzz.log" 2>&1
    ) || {
        cat "$cache/fuzz.log" >&2
        exit 1
    }
    grep -E 'generated,' "$cache/fuzz.log"
    clean
    # A run that did not reach every operation has not passed.
    if ! grep -qE 'Selected: ([0-9]+)/\1' "$cache/fuzz.log" || grep -q 'Time limit reached' "$cache/fuzz.log"; then
        cat "$cache/fuzz.log" >&2
        exit 1
    fi
}

# fuzz [SECONDS] fuzzes for SECONDS without and for SECONDS with keys. Without the
# argument it tries a few examples of each operation without keys, and covers the whole
# specification with keys, instances and results in one request each.
fuzz() {
    [ -n "${1:-}" ] || export FUZZ_DOCUMENTS_ONCE=1
    local open=(--phases examples,fuzzing --max-examples 2)
    local keyed=(--phases examples,coverage,stateful --max-examples 4)
    [ -z "${1:-}" ] || open=(--max-time "$1") keyed=(--max-time "$1")
    venv fuzz client/conformance/requirements.txt
    binary
    echo "== API fuzzer, no keys"
    serve --max-time 300ms --max-sessions 100 --running 2
    attack "${open[@]}"
    stop
    if with_keys; then
        echo "== API fuzzer, with keys"
        attack "${keyed[@]}" --header "Authorization: Bearer $key"
        stop
    fi
}

case ${1:-} in
build) build ;;
wheel) build_python ;;
test) test_clients ;;
lint) lint ;;
fuzz) fuzz "${2:-}" ;;
*)
    sed -n 's/^#   //p' "$0" >&2
    exit 2
    ;;
esac
