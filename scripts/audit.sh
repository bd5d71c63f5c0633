#!/bin/bash
# Looks for known vulnerabilities in what Hare is built, tested and used with: Go modules
# (govulncheck), npm packages (npm audit) and Python packages (pip-audit). One that is found and
# not in scripts/audit-accepted.txt fails. Where a database cannot be had, one line says so.
set -uo pipefail
cd "$(dirname "$0")/.."
cache=${HARE_CLIENTS:-$PWD/.clients}
mkdir -p "$cache"
status=0
export PIP_DISABLE_PIP_VERSION_CHECK=1 NO_UPDATE_NOTIFIER=1

# judge WHAT ID... fails for each ID that has not been accepted.
judge() {
    local what=$1 id new=
    shift
    for id in "$@"; do
        grep -q "^$id " scripts/audit-accepted.txt || new="$new $id"
    done
    if [ -n "$new" ]; then
        echo "audit: $what has known vulnerabilities:$new:" \
            "update it, or accept them with a reason in scripts/audit-accepted.txt" >&2
        status=1
    else
        echo "audit: $what: no known vulnerability that is not accepted"
    fi
}
# unchecked WHAT WHY says that there was no answer.
unchecked() { echo "audit: $1: not checked: $(tr '\n' ' ' <<<"$2" | cut -c1-200)"; }

# Without cgo, as releases are built.
out=$(CGO_ENABLED=0 timeout 300 "${GO:-go}" run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./... 2>&1)
case $? in # go run itself ends with 1, and says the exit status 3 of findings
0) judge "Go modules" ;;
*)
    if grep -q '^Vulnerability #' <<<"$out"; then
        judge "Go modules" $(grep -oE '^Vulnerability #[0-9]+: GO-[0-9-]+' <<<"$out" | grep -oE 'GO-[0-9-]+' | sort -u)
    else
        unchecked "Go modules" "$(grep -vE '^exit status|^$' <<<"$out" | tail -1)"
    fi
    ;;
esac

node=$(scripts/get-node.sh)
PATH=${node:+$node:}$PATH
for folder in plot/web client/typescript client/conformance; do
    out=$(cd "$folder" && timeout 60 npm audit --json --package-lock-only 2>/dev/null)
    if grep -q '"auditReportVersion"' <<<"$out"; then
        judge "npm packages of $folder" $(grep -oE 'GHSA(-[0-9a-z]{4}){3}' <<<"$out" | sort -u)
    else
        unchecked "npm packages of $folder" "$(grep -m1 -oE '"message": "[^"]*' <<<"$out" | cut -d'"' -f4)"
    fi
done

venv=$cache/audit
if [ "$(cat "$venv/stamp" 2>/dev/null)" != "$(sha256sum <scripts/audit-requirements.txt)" ]; then
    rm -rf "$venv"
    "${PYTHON:-python3}" -m venv "$venv" &&
        "$venv/bin/python" -m pip install -q --require-hashes -r scripts/audit-requirements.txt \
            >"$cache/audit.log" 2>&1 &&
        sha256sum <scripts/audit-requirements.txt >"$venv/stamp"
fi
for file in client/python/tools.txt client/conformance/requirements.txt bench/requirements.txt \
    scripts/highs-requirements.txt scripts/certificates-requirements.txt scripts/node-requirements.txt \
    scripts/audit-requirements.txt; do
    if ! [ -e "$venv/stamp" ]; then
        unchecked "$file" "pip-audit cannot be installed: $(tail -1 "$cache/audit.log" 2>/dev/null)"
        continue
    fi
    out=$(timeout 120 "$venv/bin/pip-audit" --no-deps --disable-pip --progress-spinner off -f json -r "$file" \
        2>"$cache/audit.log")
    ids=$(grep -oE '"id": "[^"]+' <<<"$out" | cut -d'"' -f4 | sort -u)
    skipped=$(grep -oE '"skip_reason": "[^"]+' <<<"$out" | cut -d'"' -f4)
    if [ -n "$ids" ]; then
        judge "$file" $ids
    elif ! grep -q '"dependencies"' <<<"$out"; then
        unchecked "$file" "$(tail -1 "$cache/audit.log")"
    elif [ -n "$skipped" ]; then
        unchecked "$file" "$(wc -l <<<"$skipped" | tr -d ' ') packages, the first: $(head -1 <<<"$skipped")"
    else
        judge "$file"
    fi
done
exit $status
