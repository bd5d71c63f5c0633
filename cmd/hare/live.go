package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/solver"
)

// progressLine rewrites one line of a terminal with the state of a solve.
type progressLine struct {
	w  io.Writer
	on bool
}

func newProgressLine(w io.Writer, on bool) *progressLine { return &progressLine{w, on} }

func (pl *progressLine) event(e solver.Event) {
	parts := []string{fmt.Sprintf("%-8s", e.Phase), fmt.Sprintf("%5.1f s", e.Elapsed.Seconds())}
	if e.Value != nil {
		parts = append(parts, "plan "+words.Short(e.Value.Float()))
	}
	if e.Bound != nil {
		parts = append(parts, "bound "+words.Short(e.Bound.Float()))
	}
	if e.Value != nil && e.Bound != nil && e.Bound.Sign() > 0 {
		parts = append(parts, fmt.Sprintf("gap %.2f %%", 100*(e.Value.Float()/e.Bound.Float()-1)))
	}
	if e.Nodes > 0 {
		parts = append(parts, words.Count(e.Nodes, "node"))
	}
	if e.Left >= 0 {
		parts = append(parts, words.Seconds(math.Round(e.Left.Seconds()*10)/10)+" left")
	}
	pl.text("%s", strings.Join(parts, "  "))
}

// text replaces the line.
func (pl *progressLine) text(format string, a ...any) {
	if pl.on {
		fmt.Fprint(pl.w, "\r\x1b[K"+words.Plain(fmt.Sprintf(format, a...)))
	}
}

func (pl *progressLine) end() {
	if pl.on {
		fmt.Fprint(pl.w, "\r\x1b[K")
	}
}
