#!/bin/bash
# Builds the files of a release from a tag, reproducibly, and publishes nothing.
#
#   release.sh REF FOLDER     build the source archive, binary archive, image, Python
#                             package and SHA256SUMS of the tag or commit REF
#   release.sh --check        build HEAD twice, in two places and without the image,
#                             and compare the bytes
#
# The script uses no file of the working tree: it unpacks REF elsewhere and builds it
# there. Two builds are equal if Go, the C compiler and HiGHS are the same.
set -euo pipefail
export LC_ALL=C TZ=UTC
umask 022
cd "$(dirname "$0")/.."
root=$PWD

if ! git rev-parse --verify -q HEAD >/dev/null; then
    echo "A release is built from a commit, and this is no checkout of git." >&2
    [ "${1:-}" != --check ] || exit 0 # without a commit there is nothing to compare
    exit 1
fi

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# pack NAME FOLDER writes FOLDER/NAME as a .tar.gz whose bytes depend neither on owners,
# nor on times of modification, nor on the order of files in folders.
pack() {
    tar -C "$2" --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        -cf - "$1" | gzip -9n
}

# build REF FOLDER WORK [IMAGE] builds REF in WORK and puts the files of the release into
# FOLDER; with a fourth argument, an image is one of them.
build() {
    local commit version name src
    commit=$(git rev-parse --verify "$1^{commit}")
    version=$(git show "$commit:cmd/hare/version.go" | sed -n 's/^const version = "\(.*\)"$/\1/p')
    if git rev-parse -q --verify "refs/tags/$1" >/dev/null && [ "$1" != "v$version" ]; then
        echo "The tag $1 is of a commit whose version is $version: it must be v$version." >&2
        exit 1
    fi
    name=hare-$version
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$commit")
    export SOURCE_DATE_EPOCH
    mkdir -p "$2" "$3"
    git archive --format=tar --prefix="$name/" "$commit" | gzip -9n >"$2/$name-source.tar.gz"
    tar -C "$3" -xzf "$2/$name-source.tar.gz"
    src=$3/$name
    # A release contains the pinned HiGHS, whichever HiGHS the machine has. For the
    # comparison of two builds, the HiGHS of this checkout suffices if there is one.
    if [ -n "${4:-}" ] || [ ! -d "$root/.highs/release" ]; then
        HARE_HIGHS=wheel PKG_CONFIG_PATH='' "$src/scripts/get-highs.sh" >/dev/null
    else
        PKG_CONFIG_PATH=$root/.highs/release/pkgconfig "$src/scripts/get-highs.sh" >/dev/null
    fi
    PKG_CONFIG_PATH='' make -s -C "$src" build COMMIT="${commit:0:12}"
    local system
    system=$(go env GOOS)-$(go env GOARCH)
    local stage=$3/stage/$name-$system
    mkdir -p "$stage"
    cp -R "$src/bin/hare" "$src/bin/lib" "$src/LICENSE" "$src/NOTICE" "$src/README.md" "$src/CHANGELOG.md" \
        "$src/verify/hare_verify.py" "$stage/"
    [ ! -f "$src/.highs/LICENSE.txt" ] || cp "$src/.highs/LICENSE.txt" "$stage/LICENSE.highs"
    chmod -R u=rwX,go=rX "$stage"
    pack "$name-$system" "$3/stage" >"$2/$name-$system.tar.gz"
    # The build may use the tools of this checkout, because their hashes are checked.
    HARE_CLIENTS=$root/.clients "$src/scripts/clients.sh" wheel
    cp "$src"/build/clients/hare_client-* "$2/"
    if [ -n "${4:-}" ]; then
        python3 "$src/scripts/image.py" "$stage" "$2/$name-$system.oci.tar" "$version" "$commit" "$(go env GOARCH)"
    fi
    (cd "$2" && sha256sum -- hare* >SHA256SUMS)
}

case ${1:-} in
--check)
    build HEAD "$tmp/out-1" "$tmp/one"
    build HEAD "$tmp/out-2" "$tmp/and/another"
    if ! diff "$tmp/out-1/SHA256SUMS" "$tmp/out-2/SHA256SUMS" >&2; then
        echo "The bytes of the two builds differ." >&2
        exit 1
    fi
    "$tmp/one/stage"/*/hare --version
    echo "$(wc -l <"$tmp/out-1/SHA256SUMS") files of a release were built twice and are equal"
    ;;
"" | -*)
    sed -n 's/^#   //p' "$0" >&2
    exit 2
    ;;
*)
    mkdir -p "$2"
    build "$1" "$(cd "$2" && pwd)" "$tmp/work" image
    cat "$2/SHA256SUMS"
    ;;
esac
