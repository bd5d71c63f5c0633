#!/bin/bash
# Puts HiGHS, the library for linear programs, where tests and the build look for it: .highs/lib/libhighs.so, or
# libhighs.dylib on macOS, with its licence beside it. Hare loads it when it runs; nothing is linked with it.
#
#   get-highs.sh                  for this machine, into .highs; a second run does nothing
#   get-highs.sh FOLDER PLATFORM  for linux-amd64, linux-arm64, darwin-amd64 or darwin-arm64, into FOLDER
#
# The script downloads the wheel that is pinned in highs-requirements.txt, whose hash pip checks, and unpacks it.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
dest=${1:-$root/.highs}
platform=${2:-$(uname -s | tr A-Z a-z)-$(uname -m | sed 's/x86_64/amd64/;s/aarch64/arm64/')}
want=$(cat "$here/highs-requirements.txt" "$here/get-highs.sh" <(echo "$platform") | cksum | cut -d' ' -f1)

if [ "$(cat "$dest/stamp" 2>/dev/null)" = "$want" ]; then
    exit 0
fi
case $platform in
linux-amd64) wheel=manylinux2014_x86_64 ;;
linux-arm64) wheel=manylinux2014_aarch64 ;;
darwin-amd64) wheel=macosx_10_13_x86_64 ;;
darwin-arm64) wheel=macosx_11_0_arm64 ;;
*)
    echo "There is no HiGHS for $platform: hare works without it, with wider gaps." >&2
    exit 1
    ;;
esac
if ! python3 -m pip --version >/dev/null 2>&1; then
    echo "Fetching HiGHS needs pip:  apt-get install -y python3-pip" >&2
    exit 1
fi
tmp=$dest.$$
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/lib"
[ -n "${2:-}" ] || echo "HiGHS: fetching the wheel pinned in scripts/highs-requirements.txt"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --platform "$wheel" \
    --require-hashes --dest "$tmp/wheel" -r "$here/highs-requirements.txt" || {
    echo "HiGHS could not be downloaded." >&2
    exit 1
}
python3 -m zipfile -e "$tmp"/wheel/*.whl "$tmp/unpacked"
dist=$(echo "$tmp"/unpacked/*.data/purelib/highsbox/highs_dist)
mv "$dist"/lib/libhighs.* "$tmp/lib/"
chmod 755 "$tmp"/lib/libhighs.*
mv "$dist/share/doc/HIGHS/LICENSE.txt" "$tmp/LICENSE.txt"
sed -n 's/^highsbox==\([0-9.]*\).*/\1/p' "$here/highs-requirements.txt" >"$tmp/version"
rm -rf "$tmp/wheel" "$tmp/unpacked"
echo "$want" >"$tmp/stamp"
rm -rf "$dest"
mv "$tmp" "$dest"
trap - EXIT
[ -n "${2:-}" ] || echo "HiGHS: $(cat "$dest/version") ready in .highs"
