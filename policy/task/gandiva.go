package task

import (
	"fmt"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// GandivaConfig tunes NewGandiva. The zero value is good.
type GandivaConfig struct {
	// SliceUs is how long a job runs before another has its turn; zero means 60 s.
	SliceUs int64
}

// NewGandiva is Gandiva's time slicing (OSDI 2018): jobs that need more GPUs than
// there are take turns. A job runs for a slice and then goes to the end of the
// line; where nobody waits, it goes on. It does not know how long jobs take.
//
// [V, skimmed] Slices of about a minute, suspended between mini-batches; a job
// may move to better GPUs. [I] A slice ends with its round; one line for the
// cluster, not one a server; the first in line is waited for, so that a wide job
// has its turn, while what it cannot use idles for a slice at most; a job moves
// when its turn comes, to the fastest type with room. Left out, since the model
// of tasks does not have it: packing two jobs on a GPU (gavel:gandiva does that
// where pairs were measured), growing and shrinking (the tasks of a round are
// given), placement by affinity, undoing what a trial shows to be worse.
func NewGandiva(inst *hare.Instance, cfg GandivaConfig) (online.Policy, error) {
	if cfg.SliceUs == 0 {
		cfg.SliceUs = 60e6
	}
	if cfg.SliceUs < 0 {
		return nil, fmt.Errorf("policy: gandiva: a slice of %s s: it must be positive", hare.FormatMicros(cfg.SliceUs))
	}
	slice := leased{cfg.SliceUs}
	return newDesk(inst, rule{
		hold: hare.Gang, strict: true, began: slice.began,
		key: func(d *desk, s *seat) float64 {
			if slice.goesOn(d, s) {
				return -1
			}
			return float64(s.stateUs) // since when it waits
		},
	}), nil
}
