package main

import (
	"regexp"
	"testing"
)

// changingSolves matches what differs from run to run in docs/reference/solves.md: where a solve takes longer, it also
// has more events, since it is saved once a second.
var changingSolves = regexp.MustCompile(changing.String() +
	`|"(created|started|ended)":"[^"]*"|"(events|seq)":\d\d+|"([a-z]+_s|result_bytes)":\d+(\.\d+)?|after \d+\.\d+ s`)

func TestSolvesPage(t *testing.T) {
	checkPage(t, "../../docs/reference/solves.md", changingSolves, 20, "grep")
}
