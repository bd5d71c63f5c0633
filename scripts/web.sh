#!/bin/bash
# Builds and tests the pages of web/; Node.js is only needed here.
#
#   web.sh build      the bundles in web/dist, which are committed
#   web.sh test       format, types, unit tests, bundles equal to their sources, and one round in Chromium
#
# The round in Chromium is skipped where there is none, unless CHROMIUM_REQUIRED
# is set. CHROMIUM is the browser; else it is looked for in PATH. HARE is the
# binary that makes the pages; else one is built without cgo.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
cache=$root/build/web
export NO_UPDATE_NOTIFIER=1
mkdir -p "$cache"
node=$("$root/scripts/get-node.sh")
PATH=${node:+$node:}$PATH
cd web
formatted=("src/**/*.{ts,css}" "test/*.ts" "browser/*.ts" "*.mjs")

# modules gets node_modules by the lock.
modules() {
    local wanted
    wanted=$(sha256sum <package-lock.json)
    [ "$(cat "$cache/modules.stamp" 2>/dev/null)" = "$wanted" ] && [ -d node_modules ] && return
    npm ci --silent --ignore-scripts --no-audit --no-fund
    echo "$wanted" >"$cache/modules.stamp"
}

# held says that dist is what the sources give.
held() {
    rm -rf "$cache/dist"
    node build.mjs "$cache/dist"
    diff -r "$cache/dist" dist >/dev/null || {
        echo "web/dist is not what web/src gives: scripts/web.sh build, and commit it" >&2
        diff -rq "$cache/dist" dist >&2
        exit 1
    }
}

find_chromium() {
    local name
    for name in ${CHROMIUM:+"$CHROMIUM"} chromium chromium-browser google-chrome; do
        command -v "$name" && return
    done
    return 1
}

browser() {
    local found
    if ! found=$(find_chromium); then
        local get="on Debian: apt-get install -y --no-install-recommends chromium"
        [ -z "${CHROMIUM_REQUIRED:-}" ] || {
            echo "Missing: Chromium; $get" >&2
            exit 1
        }
        echo "Skipped: the pages in a browser, because there is no Chromium; $get"
        return
    fi
    local hare=${HARE:-$cache/hare}
    [ -n "${HARE:-}" ] || (cd "$root" && CGO_ENABLED=0 "${GO:-go}" build -o "$cache/hare" ./cmd/hare)
    echo "== pages in Chromium"
    CHROMIUM=$found HARE=$hare HARE_ROOT=$root HARE_PAGES=$cache/pages node test.mjs browser
}

case ${1:-} in
build)
    modules
    node build.mjs
    ;;
test)
    modules
    node_modules/.bin/prettier --check --log-level warn "${formatted[@]}" || {
        echo "web/node_modules/.bin/prettier --write these" >&2
        exit 1
    }
    node_modules/.bin/tsc -p tsconfig.json
    held
    echo "== pages: geometry"
    node test.mjs unit
    [ ! -d browser ] || browser
    ;;
*)
    sed -n 's/^#   //p' "$0" >&2
    exit 2
    ;;
esac
