#!/bin/bash
# Puts HiGHS where the build looks for it: .highs/lib/pkgconfig/highs.pc.
#
# If the system has HiGHS 1.10 or later (pkg-config highs), the script uses it.
# Otherwise the script downloads the wheel that is pinned in highs-requirements.txt,
# whose hash pip checks, and unpacks it. A second run does nothing. With
# HARE_HIGHS=wheel, the script uses the wheel even if the system has HiGHS.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
dest=$root/.highs
least=1.10
want=$(cat "$here/highs-requirements.txt" "$here/get-highs.sh" <(echo "$root") | sha256sum | cut -c1-16)
case ":${PKG_CONFIG_PATH:-}:" in *":$dest/"*) unset PKG_CONFIG_PATH ;; esac

if [ -f "$dest/stamp" ] && [ "$(cat "$dest/stamp")" = "$want" ] && [ -f "$dest/lib/pkgconfig/highs.pc" ]; then
    exit 0
fi

tmp=$root/.tools/highs.$$
trap 'rm -rf "$tmp"' EXIT
rm -rf "$tmp"
mkdir -p "$tmp/lib/pkgconfig"

if [ "${HARE_HIGHS:-}" != wheel ] && pkg-config --atleast-version=$least highs 2>/dev/null; then
    libdir=$(pkg-config --variable=libdir highs)
    if [ ! -e "$libdir/libhighs.so" ]; then
        prefix=$(pkg-config --variable=prefix highs)
        libdir=$(dirname "$(find -L "$prefix" -name libhighs.so 2>/dev/null | head -1)")
    fi
    pc=$(pkg-config --variable=pcfiledir highs)/highs.pc
    cp "$pc" "$tmp/lib/pkgconfig/highs.pc"
    echo "HiGHS: the system's $(pkg-config --modversion highs) ($libdir)"
else
    if ! python3 -m pip --version >/dev/null 2>&1; then
        echo "HiGHS is not installed, and fetching it needs pip:  apt-get install -y python3-pip" >&2
        exit 1
    fi
    echo "HiGHS: fetching the wheel pinned in scripts/highs-requirements.txt"
    python3 -m pip download --quiet --no-deps --only-binary=:all: --require-hashes \
        --dest "$tmp/wheel" -r "$here/highs-requirements.txt" || {
        echo "HiGHS could not be downloaded; the wheel is pinned for Linux on x86-64 and arm64." \
            "Elsewhere install HiGHS $least or later with its highs.pc." >&2
        exit 1
    }
    python3 -m zipfile -e "$tmp"/wheel/*.whl "$tmp/unpacked"
    dist=$(echo "$tmp"/unpacked/*.data/purelib/highsbox/highs_dist)
    mv "$dist/include" "$tmp/include"
    mv "$dist/lib/libhighs.so" "$tmp/lib/libhighs.so"
    cp "$dist/share/doc/HIGHS/LICENSE.txt" "$tmp/LICENSE.txt"
    sed -e "s|^prefix=.*|prefix=$dest|" -e "s|^libdir=.*|libdir=$dest/lib|" \
        -e "s|^includedir=.*|includedir=$dest/include/highs|" \
        "$dist/lib/pkgconfig/highs.pc" >"$tmp/lib/pkgconfig/highs.pc"
    chmod 755 "$tmp/lib/libhighs.so"
    libdir=$dest/lib
    rm -rf "$tmp/wheel" "$tmp/unpacked"
fi

# There are two pkg-config folders: lib/pkgconfig, for tests, sets a run path into this
# checkout; release/pkgconfig, for a binary that is moved, sets none.
mkdir -p "$tmp/release/pkgconfig"
cp "$tmp/lib/pkgconfig/highs.pc" "$tmp/release/pkgconfig/highs.pc"
sed -i -e "s|^Libs:.*|& -Wl,-rpath,$libdir|" "$tmp/lib/pkgconfig/highs.pc"
# make build copies the library beside the binary, under the name that the
# loader will ask for.
soname=$(readelf -d "${libdir/#$dest/$tmp}/libhighs.so" | sed -n 's/.*(SONAME).*\[\(.*\)\].*/\1/p')
echo "$libdir/${soname:-libhighs.so}" >"$tmp/library"
echo "$want" >"$tmp/stamp"
rm -rf "$dest"
mv "$tmp" "$dest"
trap - EXIT
echo "HiGHS: $(PKG_CONFIG_PATH="$dest/lib/pkgconfig" pkg-config --modversion highs) ready in .highs"
