package room

import (
	"slices"

	"github.com/hare-sched/hare/model"
)

// HasSetups reports whether some job of a model needs setups of GPUs. The searches that do not go by
// nodes do not go by setups either.
func HasSetups(m *model.Model) bool {
	return slices.ContainsFunc(m.Jobs, func(j model.Job) bool {
		setup := func(md model.Mode) bool { return md.SwitchUs > 0 }
		return slices.ContainsFunc(j.Modes, setup) ||
			slices.ContainsFunc(j.Shapes, func(s model.Shape) bool { return slices.ContainsFunc(s.Modes, setup) })
	})
}

// setupsOf returns the setup of a job by type, or nil without setups. A block of the job has a setup
// before its start, or it stays on GPUs that the job had before: it then holds them from the end
// there on, so that no other job comes in between. A setup that turns out not to be needed does no
// harm.
func setupsOf(m *model.Model, j *model.Job) []int64 {
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

// SetupOf returns the setup of a GPU of type k for a job.
func SetupOf(j *model.Job, k int) int64 {
	for _, md := range j.Modes {
		if md.Type == k {
			return md.SwitchUs
		}
	}
	return 0
}

// RunningPlace is where a gang with setups runs at time 0. It may stay there without setups.
type RunningPlace struct {
	typ    int16
	until  int64
	chosen []NodeTasks
	spread int // the finest level that holds the place in one domain
}

// NodeTasks are tasks of a round on one node.
type NodeTasks struct {
	Pool  int32 // the index in Layout.Pools
	tasks int32
}

// FirstSetup returns the first start of job i's blocks, or of the setups before them.
func FirstSetup(m *model.Model, i int, blocks []Block) int64 {
	first := Never
	for x := range blocks {
		start := blocks[x].StartUs
		if !blocks[x].Stays {
			start -= SetupOf(&m.Jobs[i], m.Classes[blocks[x].Class].Type)
		}
		first = min(first, start)
	}
	return first
}
