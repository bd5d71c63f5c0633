package main

import (
	"regexp"
	"testing"
)

// changingSolves matches what differs from run to run in docs/solves.md.
var changingSolves = regexp.MustCompile(changing.String() +
	`|"(created|started|ended)":"[^"]*"|"([a-z]+_s|result_bytes)":\d+(\.\d+)?|after \d+\.\d+ s`)

func TestSolvesPage(t *testing.T) {
	checkPage(t, "../../docs/solves.md", changingSolves, 20, "grep")
}
