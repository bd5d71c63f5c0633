package place

import (
	"errors"
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// Plan is a feasible schedule of classes: it does not name single GPUs.
type Plan struct {
	Jobs  [][]room.Block // by job, in order of rounds
	EndUs []int64        // the completion times C_j
	// Shapes is the shape of all rounds of each job that has shapes, as an index in
	// model.Job.Shapes; nil where no job has any. Blocks count rounds and not units.
	Shapes []int32
	// Changes says for each job how its shape changes; nil where no job changes it.
	Changes []ShapeChange
}

// ShapeChange says that a job has another shape from round Round on, where rounds are counted
// through. Round is 0 for a job that keeps its shape.
type ShapeChange struct {
	Round int64
	Shape int32
}

// Change returns how the shape of job i changes.
func (p *Plan) Change(i int) ShapeChange {
	if p.Changes == nil {
		return ShapeChange{}
	}
	return p.Changes[i]
}

// JobShapes says in which shapes the rounds of a job run.
type JobShapes struct {
	First int32 // of the first round, as an index in model.Job.Shapes
	Then  ShapeChange
}

// ShapesOf returns the shapes of job i.
func (p *Plan) ShapesOf(i int) JobShapes { return JobShapes{p.Shape(i), p.Change(i)} }

// Unit returns the shape of the rounds from round on, and the first unit that they do, counted from the
// first that is left.
func (js JobShapes) Unit(j *model.Job, round int64) (shape *model.Shape, unit int64) {
	shape = &j.Shapes[js.First]
	if js.Then.Round == 0 || round < js.Then.Round {
		return shape, round * shape.Counts
	}
	then := &j.Shapes[js.Then.Shape]
	return then, js.Then.Round*shape.Counts + (round-js.Then.Round)*then.Counts
}

// Tasks returns the number of tasks of the rounds of a job that are left.
func (js JobShapes) Tasks(j *model.Job) int64 {
	if j.Shapes == nil {
		return j.Tasks * j.Rounds
	}
	first := &j.Shapes[js.First]
	if js.Then.Round == 0 {
		return first.Tasks * first.RoundsFor(j.Rounds)
	}
	then, unit := js.Unit(j, js.Then.Round)
	return first.Tasks*js.Then.Round + then.Tasks*then.RoundsFor(j.Rounds-unit)
}

// Shape returns the shape of job i as an index in model.Job.Shapes; 0 where no job has shapes.
func (p *Plan) Shape(i int) int32 {
	if p.Shapes == nil {
		return 0
	}
	return p.Shapes[i]
}

// ErrNoPlace says that a job has no place in the residual capacity.
var ErrNoPlace = errors.New("no place")

func noPlace(m *model.Model, job int) error {
	return fmt.Errorf("greedy: job %q: %w", m.Instance.Jobs[job].ID, ErrNoPlace)
}

// Rule is an assignment rule.
type Rule string

// These are the rules.
const (
	EarliestAvailable Rule = "earliest_available" // the paper's rule: the GPU that is free first
	EarliestFinish    Rule = "earliest_finish"    // the GPU on which the task ends first
	Insertion         Rule = "insertion"          // like EarliestFinish, idle gaps included
)

// Value returns the value of the objective, exactly. Jobs that are fixed count for the
// makespan and not for sums (Constant).
func (p *Plan) Value(m *model.Model) hare.Amount {
	if room.IsMakespan(m) {
		return room.MakespanOf(p.EndUs)
	}
	var sum hare.Amount
	for i := range m.Jobs {
		if !room.IsFixed(&m.Jobs[i]) {
			sum = sum.Add(room.CostAt(&m.Jobs[i], p.EndUs[i]))
		}
	}
	return sum
}
