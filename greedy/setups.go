package greedy

import (
	"slices"

	"github.com/hare-sched/hare"
)

// hasSetups says whether some job of a model needs setups of GPUs. The searches that do not go by
// nodes do not go by setups either.
func hasSetups(m *hare.Model) bool {
	return slices.ContainsFunc(m.Jobs, func(j hare.ModelJob) bool {
		setup := func(md hare.Mode) bool { return md.SwitchUs > 0 }
		return slices.ContainsFunc(j.Modes, setup) ||
			slices.ContainsFunc(j.Shapes, func(s hare.ModelShape) bool { return slices.ContainsFunc(s.Modes, setup) })
	})
}

// setupsOf returns the setup of a job by type, or nil without setups. A block of the job has a setup
// before its start, or it stays on GPUs that the job had before: it then holds them from the end
// there on, so that no other job comes in between. A setup that turns out not to be needed does no
// harm.
func setupsOf(m *hare.Model, j *hare.ModelJob) []int64 {
	var setups []int64
	for _, md := range j.Modes {
		if md.SwitchUs == 0 {
			continue
		}
		if setups == nil {
			setups = make([]int64, len(m.Types))
		}
		setups[md.Type] = md.SwitchUs
	}
	return setups
}

// setupOf returns the setup of a GPU of type k for a job.
func setupOf(j *hare.ModelJob, k int) int64 {
	for _, md := range j.Modes {
		if md.Type == k {
			return md.SwitchUs
		}
	}
	return 0
}

// runningPlace is where a gang with setups runs at time 0. It may stay there without setups.
type runningPlace struct {
	typ    int16
	until  int64
	chosen []nodeTasks
	spread int // the finest level that holds the place in one domain
}

// roundUs returns how long a round of job j takes where the job runs.
func (rp *runningPlace) roundUs(j *annealJob) int64 {
	if j.levels == nil {
		return j.dur[rp.typ]
	}
	return j.levels.roundUs(rp.typ, rp.spread)
}

// nodeTasks are tasks of a round on one node.
type nodeTasks struct {
	pool  int32 // the index in nodeLayout.pools
	tasks int32
}

// firstSetup returns the first start of job i's blocks, or of the setups before them.
func firstSetup(m *hare.Model, i int, blocks []Block) int64 {
	first := never
	for x := range blocks {
		start := blocks[x].StartUs
		if !blocks[x].Stays {
			start -= setupOf(&m.Jobs[i], m.Classes[blocks[x].Class].Type)
		}
		first = min(first, start)
	}
	return first
}
