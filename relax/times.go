package relax

import (
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// addTimes fills in specs, index and pathUs: the earliest start a' with the least setup, and the
// path P of each job (docs/reference/model.md, "Times"). Jobs that end with the work that runs at 0
// are left out. It returns the modes of each job that is left, and false if one of them can never
// run.
func (pr *problem) addTimes(peak []int64) (kept [][]roundMode, ok bool) {
	m := pr.model
	order, start, path := jobOrder(m), make([]int64, len(m.Jobs)), make([]int64, len(m.Jobs))
	modes, leasts := make([][]roundMode, len(m.Jobs)), make([]int64, len(m.Jobs))
	written := map[int][]roundMode{} // of jobs with durations, as written
	for _, i := range order {
		mj := &m.Jobs[i]
		start[i] = max(mj.ReleaseUs, mj.RunsUntilUs)
		for _, p := range mj.After {
			start[i] = max(start[i], path[p.Job]+p.LagUs)
		}
		if path[i] = start[i]; mj.Rounds == 0 {
			continue
		}
		if pr.written != nil && m.Instance.Jobs[i].Durations != nil {
			written[i] = pr.modesOf(pr.asWritten(i), peak)
			modes[i] = scaledModes(written[i], factors(&pr.written.Instance.Jobs[i])[0].FactorMicro)
		} else {
			modes[i] = pr.modesOf(mj, peak)
		}
		least, fits := leastTime(mj, modes[i])
		if !fits {
			never := &NoRoomError{Job: m.Instance.Jobs[i].ID, Round: true}
			if m.Placed {
				never.why = whyNoRoom(m, i)
			}
			pr.infeasible = never
			return nil, false
		}
		if setup := leastSetup(mj, modes[i]); setup > 0 {
			start[i] += setup
			if pr.setupUs == nil {
				pr.setupUs = make([]int64, len(m.Jobs))
			}
			pr.setupUs[i] = setup
		}
		path[i] = start[i] + least
		if leasts[i] = least; m.Placed {
			if start[i], path[i] = pr.inRoom(mj, modes[i], start[i]); path[i] == endless {
				pr.infeasible = &NoRoomError{Job: m.Instance.Jobs[i].ID}
				return nil, false
			}
		}
	}
	pr.specs, kept = make([]model.Job, 0, len(m.Jobs)), make([][]roundMode, 0, len(m.Jobs))
	for i := range m.Jobs {
		if m.Jobs[i].Rounds == 0 {
			continue
		}
		spec := m.Jobs[i]
		if spec.ReleaseUs = start[i]; m.Instance.Objective == hare.ObjectiveMakespan {
			spec.WeightMicro = 0
		}
		pr.specs, pr.index = append(pr.specs, spec), append(pr.index, i)
		pr.pathUs, kept = append(pr.pathUs, path[i]), append(kept, modes[i])
		pr.leastUs = append(pr.leastUs, leasts[i])
		if pr.written != nil {
			pr.writtenModes = append(pr.writtenModes, written[i])
		}
	}
	return kept, true
}

// plainModes returns the modes of a job where nodes do not matter.
func plainModes(j *model.Job, peak []int64) []roundMode {
	modes := make([]roundMode, len(j.Modes))
	for x, md := range j.Modes {
		modes[x] = roundMode{Mode: md, level: anyLevel, most: peak[md.Type]}
	}
	return modes
}

// modesOf returns the modes of a job in all of its shapes.
func (pr *problem) modesOf(mj *model.Job, peak []int64) []roundMode {
	switch {
	case mj.Shapes == nil && pr.model.Placed:
		return pr.rooms.modes(pr.model, mj)
	case mj.Shapes == nil:
		return plainModes(mj, peak)
	}
	var modes []roundMode
	for s := range mj.Shapes {
		in := mj.InShape(s)
		found := pr.rooms.modes(pr.model, &in)
		if _, fits := roundTime(&in, found); !fits {
			continue
		}
		for x := range found {
			found[x].shape = s
		}
		modes = append(modes, found...)
	}
	return modes
}

// leastTime returns the least time ℓ of all units that are left (docs/reference/model.md, "Bounds"), and
// false where no round can ever run.
func leastTime(mj *model.Job, modes []roundMode) (least int64, ok bool) {
	if mj.Shapes == nil {
		tau, fits := roundTime(mj, modes)
		return tau * mj.Rounds, fits
	}
	for len(modes) > 0 {
		s, n := modes[0].shape, 1
		for n < len(modes) && modes[n].shape == s {
			n++
		}
		in := mj.InShape(s)
		tau, _ := roundTime(&in, modes[:n])
		time := in.Rounds * tau
		if u := mj.Shapes[s].Counts; mj.Reshape {
			time = (mj.Rounds*tau + u - 1) / u
		}
		if !ok || time < least {
			least, ok = time, true
		}
		modes = modes[n:]
	}
	return least, ok
}

// inRoom returns the first start ≥ t of a round of a job, and the least end of all that is left, by
// when nodes have room.
func (pr *problem) inRoom(mj *model.Job, modes []roundMode, t int64) (start, end int64) {
	start, end = endless, endless
	if mj.Shapes == nil {
		tau, _ := roundTime(mj, modes)
		return pr.rooms.ends(pr.model, mj, modes, t, tau)
	}
	least, _ := leastTime(mj, modes)
	for len(modes) > 0 {
		n := 1
		for n < len(modes) && modes[n].shape == modes[0].shape {
			n++
		}
		in := mj.InShape(modes[0].shape)
		tau, _ := roundTime(&in, modes[:n])
		from, to := pr.rooms.ends(pr.model, &in, modes[:n], t, tau)
		start, end = min(start, from), min(end, to)
		modes = modes[n:]
	}
	if mj.Reshape && start != endless {
		end = start + least
	}
	return start, end
}

// leastSetup returns σ, the least setup of a mode, or 0 where the job runs at time 0.
func leastSetup(mj *model.Job, modes []roundMode) int64 {
	if mj.RunsUntilUs > 0 || len(modes) == 0 {
		return 0
	}
	least := modes[0].SwitchUs
	for x := range modes {
		least = min(least, modes[x].SwitchUs)
	}
	return least
}

// setup returns σ of a job of the model, which is part of its earliest start.
func (pr *problem) setup(job int) int64 {
	if pr.setupUs == nil {
		return 0
	}
	return pr.setupUs[job]
}

// jobOrder returns the indices of the jobs, predecessors first.
func jobOrder(m *model.Model) []int {
	if slices.ContainsFunc(m.Jobs, func(j model.Job) bool { return len(j.After) > 0 }) {
		return m.Instance.TopologicalOrder()
	}
	order := make([]int, len(m.Jobs))
	for i := range order {
		order[i] = i
	}
	return order
}

// releaseUs returns a of a job, from which on its completion time counts.
func (pr *problem) releaseUs(i int) int64 { return pr.model.Jobs[pr.index[i]].ReleaseUs }

// withFixed completes a relaxation of the jobs that a plan can still change to one of all
// jobs of the model. A job that ends with its running work has no rounds left.
func (pr *problem) withFixed(rel *hare.Relaxation) *hare.Relaxation {
	m := pr.model
	if len(pr.specs) == len(m.Jobs) {
		return rel
	}
	progress := make([][]hare.Point, len(m.Jobs))
	for i := range m.Jobs {
		progress[i] = []hare.Point{{}, {TimeUs: float64(m.Jobs[i].RunsUntilUs)}}
	}
	for at, i := range pr.index {
		progress[i] = rel.Progress[at]
	}
	rel.Progress = progress
	return rel
}

// roundTime returns τ_j in microseconds: the least time of one round on an empty cluster
// with room for so many tasks of each mode at once. It returns false if no round can
// ever run. It takes O(modes · log) for relaxed jobs and O(modes log modes) otherwise.
func roundTime(j *model.Job, modes []roundMode) (tau int64, ok bool) {
	switch {
	case j.Sync == hare.Relaxed:
		return relaxedRound(j, modes)
	case j.Mix:
		return mixedRound(j, modes)
	}
	tau = math.MaxInt64
	for x := range modes {
		if md := &modes[x]; md.most >= j.Tasks {
			tau = min(tau, md.DurationUs())
		}
	}
	return tau, tau != math.MaxInt64
}

func relaxedRound(j *model.Job, modes []roundMode) (int64, bool) {
	enough := func(t int64) bool {
		var n int64
		for x := range modes {
			md := &modes[x]
			if t < md.DurationUs() {
				continue
			}
			each := (t - md.SyncUs) / md.ComputeUs
			if each >= j.Tasks && md.most > 0 {
				return true
			}
			n += md.most * each
			if n >= j.Tasks {
				return true
			}
		}
		return false
	}
	hi := int64(math.MaxInt64)
	for x := range modes {
		if md := &modes[x]; md.most > 0 {
			hi = min(hi, md.SyncUs+j.Tasks*md.ComputeUs)
		}
	}
	if hi == math.MaxInt64 {
		return 0, false
	}
	lo := int64(0) // lo is too short, hi is long enough
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		if enough(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi, true
}

func mixedRound(j *model.Job, modes []roundMode) (int64, bool) {
	modes = slices.Clone(modes)
	slices.SortFunc(modes, func(a, b roundMode) int {
		switch {
		case a.DurationUs() < b.DurationUs():
			return -1
		case a.DurationUs() > b.DurationUs():
			return 1
		}
		return 0
	})
	var n int64
	for x := range modes {
		md := &modes[x]
		if n += md.most; n >= j.Tasks {
			return md.DurationUs(), true
		}
	}
	return 0, false
}
