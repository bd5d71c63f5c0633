package main

import (
	"regexp"
	"testing"
)

// changingHTTP matches what differs from run to run in docs/reference/http.md: where a solve takes longer, it also
// has more events, since it is saved once a second.
var changingHTTP = regexp.MustCompile(changingRun.String() +
	`|"(created|started|ended)":"[^"]*"|"(events|seq)":\d\d+|"([a-z]+_s|result_bytes)":\d+(\.\d+)?`)

func TestHTTPPage(t *testing.T) {
	checkPage(t, "../../docs/reference/http.md", changingHTTP, 20, "grep")
}
