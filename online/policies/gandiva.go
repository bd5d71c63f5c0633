package policies

import (
	"encoding/json"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
)

// GandivaConfig tunes NewGandiva. The zero value is good.
type GandivaConfig struct {
	// SliceUs is how long a job runs before another has its turn; zero means 60 s.
	SliceUs int64
}

// NewGandiva is Gandiva's time slicing (OSDI 2018): jobs that need more GPUs than there
// are take turns. A job runs for a slice and then goes to the end of the queue, or goes on
// if no job waits. The policy does not know how long jobs take.
//
// [V, skimmed] Slices last about a minute and end between mini-batches; a job may move to
// better GPUs. [I] A slice ends with its round; there is one queue for the cluster
// instead of one for each server; no job passes the first job of the queue, so that a
// wide job has its turn, and GPUs idle meanwhile for a slice at most; a job moves when
// its turn comes, to the fastest type with room. The model of tasks has no place for
// packing two jobs on a GPU (gavel:gandiva does so for pairs that were measured), for
// growing and shrinking (the tasks of a round are given), for placement by affinity, and
// for undoing a move that proves worse; they are left out.
func NewGandiva(cluster *hare.Cluster, cfg GandivaConfig) (*list.Scheduler, error) {
	r, err := cfg.rule()
	if err != nil {
		return nil, err
	}
	return list.New(cluster, r), nil
}

// rule fills in the defaults. Errors are *hare.InvalidError.
func (gc GandivaConfig) rule() (list.Rule, error) {
	if gc.SliceUs == 0 {
		gc.SliceUs = 60e6
	}
	if gc.SliceUs < 0 || gc.SliceUs > hare.MaxExact {
		return list.Rule{}, online.Invalid("/slice_s", "out_of_range",
			"gandiva: a slice of %s s: it must be positive, and at most %s",
			hare.FormatMicros(gc.SliceUs), hare.FormatMicros(hare.MaxExact))
	}
	slice := timeSlice{gc.SliceUs}
	return list.Rule{
		Name: "gandiva", Hold: hare.Gang, Strict: true, Started: slice.started, Review: slice.review,
		Priority: func(l *list.Scheduler, j *list.JobState) float64 {
			if slice.runs(l, j) {
				return -1
			}
			return float64(j.SinceUs()) // since when the job waits
		},
	}, nil
}

// parseGandiva reads {"slice_s": 60}.
func parseGandiva(parameters []byte) (list.Rule, error) {
	var form struct {
		SliceS *json.Number `json:"slice_s"`
	}
	if err := online.DecodeParameters(parameters, &form); err != nil {
		return list.Rule{}, err
	}
	cfg := GandivaConfig{}
	if form.SliceS != nil {
		us, err := list.PositiveMicros("/slice_s", *form.SliceS)
		if err != nil {
			return list.Rule{}, err
		}
		cfg.SliceUs = us
	}
	return cfg.rule()
}
