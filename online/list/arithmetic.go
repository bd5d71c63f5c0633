package list

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/saturating"
)

// The functions of this file are those of package saturating, by short names.

func add(a, b int64) int64 { return saturating.Add(a, b) }

func times(a, b int64) int64 { return saturating.Mul(a, b) }

// mulDivUp is a·b/c rounded up, for c > 0.
func mulDivUp(a, b, c int64) int64 { return saturating.MulDivUp(a, b, c) }

// SpanUs is how long some rounds take, or hare.MaxExact where that is longer.
func SpanUs(rounds, roundUs int64) int64 { return min(times(max(0, rounds), roundUs), hare.MaxExact) }
