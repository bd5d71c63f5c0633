# shellcheck shell=bash
# Sourced by ./demo and ./test with the argument demo or test, in the root of the
# checkout. Installs the Debian packages that are missing, and puts Go on the PATH.

for folder in /usr/local/go/bin /usr/lib/go/bin ~/sdk/go/bin ~/go/bin; do
    command -v go >/dev/null 2>&1 || ! [ -x "$folder/go" ] || PATH=$folder:$PATH
done

# needed prints the Debian packages that are missing.
needed() {
    # shellcheck disable=SC2046 # there is no argument for demo
    scripts/prerequisites.sh --packages $([ "$1" = demo ] || echo clients)
}

# candidate prints the version of a package that apt would install.
candidate() { apt-cache policy "$1" | sed -n 's/^ *Candidate: *\([0-9]*:\)\?//p'; }

# go_packages prints the arguments of apt-get install for a Go that is new enough.
go_packages() {
    if dpkg --compare-versions "$(candidate golang-go)" ge 2:1.21 2>/dev/null ||
        dpkg --compare-versions "$(candidate golang-go)" ge 1.21; then
        echo golang-go
        return
    fi
    local name mirror
    name=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    if [ "$name" != bookworm ]; then
        echo "apt has no Go of version 1.21 or later here: see https://go.dev/doc/install" >&2
        return 1
    fi
    if ! apt-cache policy | grep -q "n=$name-backports"; then
        mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | head -n 1)
        echo "Adding the suite $name-backports to apt's sources, for a Go that is new enough." >&2
        echo "deb ${mirror:-http://deb.debian.org/debian/} $name-backports main" |
            $sudo tee "/etc/apt/sources.list.d/$name-backports.list" >/dev/null
        $sudo apt-get update -qq >&2
    fi
    echo golang-go golang-src
}

# set_up demo|test
set_up() {
    local packages optional='' sudo='' wants=()
    packages=$(needed "$1")
    [ "$1" = demo ] || optional=$(scripts/prerequisites.sh --optional)
    if [ -z "$packages$optional" ]; then
        scripts/prerequisites.sh
        return
    fi
    if ! command -v apt-get >/dev/null; then
        scripts/prerequisites.sh && [ -z "$packages" ] && return # names what is missing
        echo "Install it with your system's package manager, and start ./$1 again." >&2
        return 1
    fi
    if [ "$(id -u)" != 0 ]; then
        if ! command -v sudo >/dev/null || ! { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
            if [ -z "$packages" ]; then # what can be done without is not worth a refusal
                scripts/prerequisites.sh
                return
            fi
            printf 'These packages are missing, and only root may install them:\n    %s\nThen start ./%s again.\n' \
                "apt-get update && apt-get install -y --no-install-recommends $packages" "$1" >&2
            return 1
        fi
        sudo=sudo
    fi
    echo "== Debian packages: $packages $optional"
    $sudo apt-get update -qq
    local from=()
    if [[ " $packages " == *' golang-go '* ]]; then
        packages=${packages/golang-go/}
        wants=($(go_packages))
        [ ${#wants[@]} -gt 1 ] && from=(-t "$(. /etc/os-release && echo "$VERSION_CODENAME")-backports")
    fi
    install() { # ARGUMENT... of apt-get install: its sizes first, then a line for every tenth package
        LC_ALL=C apt-get install --no-install-recommends --assume-no "$@" 2>/dev/null |
            grep -E '^(Need to get|After this operation)' || true
        LC_ALL=C $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" |
            awk '/^Setting up/ && ++n % 10 == 0 {print "   " n " packages are set up"; fflush()}'
    }
    [ -z "$packages" ] || install $packages
    [ -z "$optional" ] || install $optional || echo "Without $optional, tests beside a real Slurm are skipped."
    [ ${#wants[@]} = 0 ] || install "${from[@]}" "${wants[@]}"
    hash -r
    scripts/prerequisites.sh
}

# fetch DIRECTORY PATTERN... downloads the modules of packages, in three tries: go gives up where a mirror fails once.
fetch() {
    local try
    for try in 1 2 3; do
        go -C "$1" list -tags netgo,osusergo,highs -deps "${@:2}" 2>&1 >/dev/null | awk '
            !/^go: downloading/ {if (!said++) print; next}
            ++n % 20 == 0 {print "   " n " modules downloaded"; fflush()}' >&2 && return
        [ $try = 3 ] || { echo "Modules could not be downloaded. Trying again." >&2 && sleep 10; }
    done
    return 1
}

set_up "$1"
if [ "$1" = demo ]; then
    fetch . ./cmd/hare
else
    fetch . -test ./... && GOOS=darwin GOARCH=arm64 fetch . ./cmd/hare && fetch scripts/tools tool
fi
