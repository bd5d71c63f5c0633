#!/bin/bash
# Builds the files of a release from a tag, reproducibly, and publishes nothing.
#
#   release.sh REF FOLDER     build of the tag or commit REF: the source archive, for each platform an archive and a
#                             wheel, the image, the packages of the clients, and SHA256SUMS
#   release.sh --check        build HEAD twice, in two places and without the image, compare the bytes, and use what
#                             was built for this machine without Go, compiler and network
#
# The script uses no file of the working tree: it unpacks REF elsewhere and builds it there. No compiler but Go's takes
# part, so that two builds are equal if Go, Python and Node.js are the same.
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
        -cf - "$1" | gzip -6n
}

platforms="linux-amd64 linux-arm64 darwin-arm64 darwin-amd64"
here=$(go env GOHOSTOS)-$(go env GOHOSTARCH)

# highs PLATFORM FOLDER puts the pinned HiGHS of the platform into FOLDER, from the cache of this checkout.
highs() {
    "$src/scripts/get-highs.sh" "$root/.tools/highs-$1" "$1"
    mkdir -p "$2"
    cp -R "$root/.tools/highs-$1/." "$2"
}

# build REF FOLDER WORK [IMAGE] builds REF in WORK and puts the files of the release into
# FOLDER; with a fourth argument, an image is one of them.
build() {
    local commit version name src platform stage
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
    (cd "$src" && CGO_ENABLED=0 go build -o "$3/licences" ./internal/licences)
    for platform in $platforms; do
        stage=$3/stage/$name-$platform
        mkdir -p "$stage/lib"
        highs "$platform" "$3/highs-$platform"
        (cd "$src" && CGO_ENABLED=0 GOOS=${platform%-*} GOARCH=${platform#*-} GOFLAGS=-trimpath go build \
            -tags=netgo,osusergo,highs -buildvcs=false -ldflags "-s -w -buildid= -X main.commit=${commit:0:12}" \
            -o "$stage/hare" ./cmd/hare)
        cp "$3/highs-$platform"/lib/* "$stage/lib/"
        cp "$src/LICENSE" "$src/NOTICE" "$src/README.md" "$src/CHANGELOG.md" "$src/verify/hare_verify.py" "$stage/"
        (cd "$src" && "$3/licences" "$stage" "$platform" "$version" "$3/highs-$platform")
        chmod -R u=rwX,go=rX "$stage"
        pack "$name-$platform" "$3/stage" >"$2/$name-$platform.tar.gz"
        cp "$stage/sbom.cdx.json" "$2/$name-$platform.cdx.json"
        python3 "$src/scripts/wheel.py" "$stage" "$2" "$version" "$platform"
    done
    # The build may use the tools of this checkout, because their hashes are checked.
    [ ! -d "$root/client/typescript/node_modules" ] ||
        ln -s "$root/client/typescript/node_modules" "$src/client/typescript/"
    HARE_CLIENTS=$root/.clients "$src/scripts/clients.sh" build >/dev/null
    cp "$src"/build/clients/hare* "$2/"
    if [ -n "${4:-}" ]; then
        python3 -m pip download -q --disable-pip-version-check --no-deps --require-hashes -d "$3/certificates" \
            -r "$src/scripts/certificates-requirements.txt"
        python3 -m zipfile -e "$3"/certificates/certifi-*.whl "$3/certificates"
        python3 "$src/scripts/image.py" "$3/stage/$name-linux-amd64" "$2/$name-linux-amd64.oci.tar" "$version" \
            "$commit" amd64 "$3/certificates"
    fi
    (cd "$2" && sha256sum -- hare* >SHA256SUMS)
}

# bare COMMAND... runs a command as on a machine without Go, compiler and network.
bare() {
    local cut=()
    ! unshare --net --map-root-user true 2>/dev/null || cut=(unshare --net --map-root-user)
    "${cut[@]}" env -i HOME="$tmp" PATH=/nonexistent "$@"
}

# use HARE solves, verifies and bounds with a binary of the release, which must find its HiGHS.
use() {
    bare "$1" --version
    if ! grep -q '^ok .*HiGHS [0-9]' <<<"$(bare "$1" doctor || true)"; then
        echo "$1 found no HiGHS." >&2
        exit 1
    fi
    bare "$1" solve -q --work-limit 100 "$root/client/conformance/readme.instance.json" -o "$tmp/result.json"
    bare "$1" verify "$root/client/conformance/readme.instance.json" "$tmp/result.json"
}

case ${1:-} in
--check)
    platforms="$here $(tr " " "\n" <<<"$platforms" | grep arm64 | grep -vx "$here" | xargs)"
    commit=$(git rev-parse HEAD)
    build "$commit" "$tmp/out-1" "$tmp/one"
    build "$commit" "$tmp/out-2" "$tmp/and/another"
    if ! diff "$tmp/out-1/SHA256SUMS" "$tmp/out-2/SHA256SUMS" >&2; then
        echo "The bytes of the two builds differ." >&2
        exit 1
    fi
    mkdir "$tmp/archive"
    tar -C "$tmp/archive" --strip-components=1 -xzf "$tmp"/out-1/hare-*-"$here".tar.gz
    use "$tmp/archive/hare"
    python3 -m venv "$tmp/venv"
    "$tmp/venv/bin/python" -m pip install -q --disable-pip-version-check --no-index --no-deps \
        --find-links "$tmp/out-1" hare-sched
    use "$tmp/venv/bin/hare"
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
