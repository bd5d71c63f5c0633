package main

import (
	"strings"
	"testing"
	"time"
)

// TestPartLines checks which lines are written, and what they say of the time that is left.
func TestPartLines(t *testing.T) {
	var b strings.Builder
	now := time.Unix(1000, 0)
	pl := &partLines{w: &b, command: "x", parts: []string{"one", "two"}, now: func() time.Time { return now }}
	for _, c := range []struct {
		after time.Duration
		part  string
		done  float64
	}{{0, "one", 0}, {time.Second, "one", 0.1}, {5 * time.Second, "one", 0.25}, {time.Second, "two", 0}} {
		now = now.Add(c.after)
		pl.update(c.part, c.done)
	}
	now = now.Add(7 * time.Second)
	pl.line() // as watch does
	const want = `x: part 1 of 2, one (0s in all)
x: part 1 of 2, one: 25 % after 6s, about 18s left (6s in all)
x: part 2 of 2, two (7s in all)
x: part 2 of 2, two: for 7s (14s in all)
`
	if got := b.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	pl.watch()()
}
