#!/bin/bash
# Builds and tests the pages of plot/web/. Only this script needs Node.js; Go users do not.
#
#   web.sh build      build the bundles in plot/web/dist, which are committed
#   web.sh test       check format and types, run the unit tests, compare the bundles with
#                     their sources and licences with their packages, and test the pages in Chromium
#
# The test in Chromium is skipped if there is no Chromium, unless CHROMIUM_REQUIRED is
# set. CHROMIUM is the browser; where it is not set, the script searches PATH. HARE is the
# binary that makes the pages; where it is not set, the script builds one without cgo.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
cache=$root/build/web
export NO_UPDATE_NOTIFIER=1
mkdir -p "$cache"
node=$("$root/scripts/get-node.sh")
PATH=${node:+$node:}$PATH
cd plot/web
formatted=("src/**/*.{ts,tsx,css}" "test/*.ts" "browser/*.ts" "*.mjs")

# modules installs node_modules from the lock file.
modules() {
    local wanted
    wanted=$(sha256sum <package-lock.json)
    [ "$(cat "$cache/modules.stamp" 2>/dev/null)" = "$wanted" ] && [ -d node_modules ] && return
    npm ci --loglevel=error --ignore-scripts --no-audit --no-fund
    echo "$wanted" >"$cache/modules.stamp"
}

# check_dist fails if plot/web/dist differs from what the sources build.
check_dist() {
    rm -rf "$cache/dist"
    node build.mjs "$cache/dist"
    diff -r "$cache/dist" dist >/dev/null || {
        echo "plot/web/dist differs from what plot/web/src builds: scripts/web.sh build writes it; commit it" >&2
        diff -rq "$cache/dist" dist >&2
        exit 1
    }
}

# check_licences fails if the licence text of a package in the pages is not the one that is committed.
check_licences() {
    local name
    for name in $(node -p 'Object.keys(require("./package.json").dependencies).join(" ")'); do
        cmp "node_modules/$name/LICENSE" "licences/$name.txt"
    done
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
        echo "to format these files: plot/web/node_modules/.bin/prettier --write FILE" >&2
        exit 1
    }
    node_modules/.bin/tsc -p tsconfig.json
    check_dist
    check_licences
    echo "== pages: geometry"
    node test.mjs unit
    [ ! -d browser ] || browser
    ;;
*)
    sed -n 's/^#   //p' "$0" >&2
    exit 2
    ;;
esac
