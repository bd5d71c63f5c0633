package main

import (
	"regexp"
	"testing"
)

// changingSolves is what differs from run to run in docs/solves.md, or where the
// search has become better.
var changingSolves = regexp.MustCompile(changing.String() +
	`|"(created|started|ended)":"[^"]*"|"(seq|events|result_bytes)":\d+|\d+\.\d+|v100/\d,V100,` +
	`.*|\{"gpu":"v100.*|<g><title>.*`)

func TestSolvesPage(t *testing.T) {
	checkPage(t, "../../docs/solves.md", changingSolves, 20, "grep")
}
