package greedy

import (
	"slices"

	"github.com/hare-sched/hare"
)

// hasSetups says whether some job of a model needs setups of GPUs. The searches that do not go by
// nodes do not go by setups either.
func hasSetups(m *hare.Model) bool {
	return slices.ContainsFunc(m.Jobs, func(j hare.ModelJob) bool {
		return slices.ContainsFunc(j.Modes, func(md hare.Mode) bool { return md.SwitchUs > 0 })
	})
}

// setupsOf returns the setup of a job by type, or nil without setups. Each block of the job is
// planned with a setup before its start: GPUs that go on with the job at once are in one
// block, and a setup that turns out not to be needed does no harm.
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

// setup returns the setup of a GPU of type k before a block of the job.
func (aj *annealJob) setup(k int16) int64 {
	if aj.setups == nil {
		return 0
	}
	return aj.setups[k]
}

// afterSetup returns the start of a round whose GPUs are taken from t on.
func (aj *annealJob) afterSetup(k int16, t int64) int64 {
	if t == never {
		return never
	}
	return t + aj.setup(k)
}

// longestSetup returns the longest setup on some types.
func (aj *annealJob) longestSetup(types []int16) (us int64) {
	for _, k := range types {
		us = max(us, aj.setup(k))
	}
	return us
}

// takenFrom returns the time from which a block holds its GPUs, its setup included. setups says
// whether there are any.
func (jb *jobBlock) takenFrom(m *hare.Model, setups bool) int64 {
	t := jb.StartUs
	if !setups {
		return t
	}
	for _, md := range m.Jobs[jb.job].Modes {
		if md.Type == m.Classes[jb.Class].Type {
			t -= md.SwitchUs
		}
	}
	return t
}
