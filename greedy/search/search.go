// Package search looks for better plans: by annealing, by random keys, by both together, and by ruin and recreate.
//
// Improve walks a table of searches and runs the first one that supports what it is asked:
//
//	request ─▶ shapes? ─▶ exact? ─▶ annealing? ─▶ mixed? ─▶ gangs? ─▶ keys? ─▶ nodes?   the first that supports it
//	               │         │          │           │         │         │        │
//	               └─────────┴──────────┴───────────┴────┬────┴─────────┴────────┘
//	                                                     ├─ continual, and the search is not? ─▶ rounds of Improve
//	                                                     ▼
//	                                                    run ─▶ a plan that is no worse than the start
//
// To add a search for a new kind of job, write a file with a search in it and put the search into the table in
// improve.go, before those that would take its jobs otherwise.
package search

import (
	"cmp"
	"context"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/place"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

// search is one way to improve a plan.
type search struct {
	// name is what ImproveConfig.Without calls the search.
	name string
	// supports reports whether the search knows all that the model of the request has, and is made for it.
	supports func(*request) bool
	// continual reports whether the search, with more moves, goes on where one with fewer has ended. The others are
	// made in rounds where this is asked for: see improveInRounds.
	continual func(*request) bool
	// run returns a plan that is no worse than the start, which it returns itself if it finds no better one. The end of
	// the context is not an error.
	run func(context.Context, *request) (*place.Plan, Stats, error)
}

// request is what Improve is asked.
type request struct {
	m     *model.Model
	rel   *hare.Relaxation
	start *place.Plan
	cfg   ImproveConfig
	// improve is Improve, for searches that are made of others.
	improve func(context.Context, *model.Model, *hare.Relaxation, *place.Plan, ImproveConfig) (*place.Plan, Stats, error)
	// filler and annealed are what splitJobs returns once jobs was called.
	split            bool
	filler, annealed []int
}

// jobs returns the jobs that annealing cannot place, and the others.
func (rq *request) jobs() (filler, annealed []int) {
	if !rq.split {
		rq.split = true
		rq.filler, rq.annealed = splitJobs(rq.m)
	}
	return rq.filler, rq.annealed
}

// inClasses reports whether classes of GPUs say all about places: nodes do not matter, GPUs need no setups, and no
// job has several shapes.
func (rq *request) inClasses() bool {
	return !place.HasShapes(rq.m) && !rq.m.Placed && !room.HasSetups(cmp.Or(rq.cfg.shaped, rq.m))
}

// always and never are answers of searches.
func always(*request) bool { return true }
func never(*request) bool  { return false }
