// Package greedy turns orders of rounds into feasible schedules and improves
// them. It works on step functions of free GPUs a class and on runs of rounds;
// concrete GPUs are given out at the end.
package greedy

import (
	"errors"
	"fmt"

	"github.com/hare-sched/hare"
)

// Block is Width GPUs of a class side by side, each with Tasks tasks of each of
// Rounds rounds from Round on: round Round+i starts at StartUs + i·PeriodUs and
// holds each GPU for HoldUs. A relaxed job's GPUs are held for compute alone.
type Block struct {
	Class, Width, Tasks                      int32
	Round, Rounds, StartUs, PeriodUs, HoldUs int64
}

// endUs is when the block gives its GPUs back.
func (b *Block) endUs() int64 { return b.StartUs + (b.Rounds-1)*b.PeriodUs + b.HoldUs }

// Plan is a feasible schedule without the names of GPUs.
type Plan struct {
	Jobs  [][]Block // by job, in order of rounds
	EndUs []int64   // C_j
}

// Value is Σ w (C − a), exactly.
func (p *Plan) Value(m *hare.Model) hare.Amount {
	var sum hare.Amount
	for i := range m.Jobs {
		sum = sum.Add(hare.Product(m.Jobs[i].WeightMicro, p.EndUs[i]-m.Jobs[i].ReleaseUs))
	}
	return sum
}

// ErrNoPlace says that a job found no place on the capacity left.
var ErrNoPlace = errors.New("no place")

func noPlace(m *hare.Model, job int) error {
	return fmt.Errorf("greedy: job %q: %w", m.Instance.Jobs[job].ID, ErrNoPlace)
}

// Rule is an assignment rule.
type Rule string

// The rules.
const (
	EarliestAvailable Rule = "earliest_available" // the paper's: the GPU that is free first
	EarliestFinish    Rule = "earliest_finish"    // the GPU on which the task ends first
	Insertion         Rule = "insertion"          // as EarliestFinish, idle gaps included
)
