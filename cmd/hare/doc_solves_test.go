package main

import (
	"regexp"
	"testing"
)

// changingSolves matches what differs from run to run in docs/solves.md, and
// figures that a better search changes.
var changingSolves = regexp.MustCompile(changing.String() +
	`|"(created|started|ended)":"[^"]*"|"(seq|events|result_bytes)":\d+|\d+\.\d+|v100/\d,V100,` +
	`.*|\{"gpu":"v100.*|<g><title>.*`)

func TestSolvesPage(t *testing.T) {
	checkPage(t, "../../docs/solves.md", changingSolves, 20, "grep")
}
