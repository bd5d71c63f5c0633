package explain

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
)

// NoJobError says that an instance has no such job.
type NoJobError struct {
	Job   string
	Known []string // the ids of the instance's jobs
}

func (e *NoJobError) Error() string {
	text := fmt.Sprintf("there is no job %.80q", e.Job)
	switch guess := hare.Guess(e.Job, e.Known); {
	case guess != "":
		text += guess
	case len(e.Known) > 0:
		text += "; the jobs are " + hare.Names(e.Known, 5)
	}
	return text
}

// jobAt finds a job by its id.
func jobAt(inst *hare.Instance, id string) (int, error) {
	for i := range inst.Jobs {
		if inst.Jobs[i].ID == id {
			return i, nil
		}
	}
	e := &NoJobError{Job: id, Known: make([]string, len(inst.Jobs))}
	for i := range inst.Jobs {
		e.Known[i] = inst.Jobs[i].ID
	}
	return 0, e
}

// withJobs returns inst with these jobs in place of its own.
func withJobs(inst *hare.Instance, jobs ...hare.Job) *hare.Instance {
	other := *inst
	other.Jobs = jobs
	return &other
}

// runsOn reports whether some shape of the job has a profile for a type.
func runsOn(j *hare.Job, kind string) bool {
	for i := range j.ShapeCount() {
		if slices.ContainsFunc(j.Shape(i).On, func(p hare.Profile) bool { return p.Type == kind }) {
			return true
		}
	}
	return false
}

// countOf returns how many GPUs of a type a node has.
func countOf(n *hare.Node, kind string) int {
	for _, g := range n.GPUs {
		if g.Type == kind {
			return g.Count
		}
	}
	return 0
}

// inPlace returns a job that may use only the nodes of a place, or false if it may use none of these.
func inPlace(job hare.Job, place hare.Label) (hare.Job, bool) {
	only := hare.LabelValues{Label: place.Name, Values: []string{place.Value}}
	job.Only = slices.Clone(job.Only)
	at, found := slices.BinarySearchFunc(job.Only, place.Name, func(lv hare.LabelValues, name string) int {
		return cmp.Compare(lv.Label, name)
	})
	if !found {
		job.Only = slices.Insert(job.Only, at, only)
		return job, true
	}
	ok := slices.Contains(job.Only[at].Values, place.Value)
	job.Only[at] = only
	return job, ok
}

// kindsOf returns the types of all shapes of a job.
func kindsOf(job *hare.Job) (kinds []string) {
	for i := range job.ShapeCount() {
		for _, p := range job.Shape(i).On {
			if !slices.Contains(kinds, p.Type) {
				kinds = append(kinds, p.Type)
			}
		}
	}
	return kinds
}

// onType returns a job with its profiles on one type alone.
func onType(job *hare.Job, kind string) hare.Job {
	other := func(p hare.Profile) bool { return p.Type != kind }
	one := *job
	one.On = slices.DeleteFunc(slices.Clone(job.On), other)
	one.Shapes = slices.Clone(job.Shapes)
	for i := range one.Shapes {
		one.Shapes[i].On = slices.DeleteFunc(slices.Clone(one.Shapes[i].On), other)
	}
	return one
}
