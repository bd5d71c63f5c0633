#!/bin/bash
# swag v2.0.0-rc5 (github.com/swaggo/swag/v2, with --v3.1): a body of type string gets a second media type.
#
# Expected: a body that is declared by "@Accept application/octet-stream" and "@Param body body string" has the one
# media type of @Accept in the specification, as a body of a struct has the one of "@Accept json".
# Seen: content has application/octet-stream, with the format binary, and beside it text/plain, which no annotation
# names. Whichever type @Accept gives, text/plain is added, since the parameter is a string.
# What follows: a server that demands the declared type answers 415 to what its own specification allows. Clients and
# fuzzers that are generated from it send text/plain. Remove the second type from the output.
#
# Needs: Go 1.21 or later, python3. Takes half a minute, most of it to compile swag.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

cat >go.mod <<'END'
module example

go 1.21
END
cat >main.go <<'END'
package main

// @title	An example
// @version	1

// put stores bytes.
//
//	@Summary	Store bytes
//	@Accept		application/octet-stream
//	@Param		body	body	string	true	"bytes"
//	@Success	200
//	@Router		/bytes [post]
func put() {}

func main() {}
END
GOFLAGS=-mod=mod go run github.com/swaggo/swag/v2/cmd/swag@v2.0.0-rc5 init --v3.1 --ot json -q >log 2>&1 || {
    cat log >&2
    exit 2
}
types=$(python3 -c '
import json
body = json.load(open("docs/swagger.json"))["paths"]["/bytes"]["post"]["requestBody"]
print(" and ".join(sorted(body["content"])))')
if [ "$types" = "application/octet-stream and text/plain" ]; then
    echo "as found: the body has $types"
else
    echo "another behaviour: the body has $types" >&2
    exit 1
fi
