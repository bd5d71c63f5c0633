package whatif

import (
	"math/bits"
	"slices"

	"github.com/hare-sched/hare"
)

// scaleDurations multiplies times. jobs is a copy, whose jobs share their profiles with the
// base.
func (s *Scenario) scaleDurations(jobs []hare.Job, gone []bool, index map[string]int, found *hare.InvalidErrors) {
	for _, f := range s.ScaleDurations {
		at := s.atFactor("scale_durations", f)
		if f.Job == "" {
			for i := range jobs {
				if !gone[i] {
					f.scaleTimes(&jobs[i], at, found)
				}
			}
			continue
		}
		i, ok := index[f.Job]
		if !ok || gone[i] {
			found.Add(at, "unknown_job", "there is no job %q in the scenario", hare.Clip(f.Job))
			continue
		}
		f.scaleTimes(&jobs[i], at, found)
	}
}

// scaleTimes multiplies the compute and synchronisation times of a job in all its shapes, and rounds
// them up, so that a factor of at most 1 makes no time longer.
func (f Factor) scaleTimes(j *hare.Job, at string, found *hare.InvalidErrors) {
	ownTimes(j)
	for s := range j.ShapeCount() {
		on := j.Shape(s).On
		for i := range on {
			times := []*int64{&on[i].ComputeUs, &on[i].SyncUs}
			for x := range on[i].SyncAt {
				times = append(times, &on[i].SyncAt[x].SyncUs)
			}
			for _, us := range times {
				if !f.scaleTime(us, j, at, found) {
					return
				}
			}
		}
	}
}

func (f Factor) scaleTime(us *int64, j *hare.Job, at string, found *hare.InvalidErrors) bool {
	hi, lo := bits.Mul64(uint64(*us), uint64(f.Micro))
	lo, carry := bits.Add64(lo, 999_999, 0)
	if hi += carry; hi >= 1e6 {
		found.Add(at, "too_large", "the times of job %q become too large", hare.Clip(j.ID))
		return false
	}
	q, _ := bits.Div64(hi, lo, 1e6)
	if q > hare.MaxExact {
		found.Add(at, "too_large", "the times of job %q become more than %s", hare.Clip(j.ID),
			hare.FormatMicros(hare.MaxExact))
		return false
	}
	*us = int64(q)
	return true
}

// ownTimes makes the times of a job a copy that is not shared with the base.
func ownTimes(j *hare.Job) {
	own := func(on []hare.Profile) []hare.Profile {
		on = slices.Clone(on)
		for i := range on {
			on[i].SyncAt = slices.Clone(on[i].SyncAt)
		}
		return on
	}
	j.On, j.Shapes = own(j.On), slices.Clone(j.Shapes)
	for s := range j.Shapes {
		j.Shapes[s].On = own(j.Shapes[s].On)
	}
}

// settleLevels brings the times by spread of jobs that were scaled or added into the form of a
// decoded instance. Those with faults stay, for the validation to find.
func (s *Scenario) settleLevels(inst *hare.Instance) {
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		changed := slices.ContainsFunc(s.ScaleDurations, func(f Factor) bool { return f.Job == "" || f.Job == j.ID }) ||
			slices.ContainsFunc(s.AddJobs, func(added hare.Job) bool { return added.ID == j.ID })
		if !changed {
			continue
		}
		one := hare.Job{ID: j.ID, Sync: j.Sync, Within: j.Within, On: j.On, Shapes: j.Shapes}
		ownTimes(&one)
		alone := hare.Instance{Cluster: hare.Cluster{Topology: inst.Cluster.Topology}, Jobs: []hare.Job{one}}
		var faults hare.InvalidErrors
		if faults.CheckTogether("", &alone); len(faults) == 0 {
			alone.SettleLevels()
			j.On, j.Shapes = alone.Jobs[0].On, alone.Jobs[0].Shapes
		}
	}
}

// dropAfter removes dependencies: those that the scenario names, and those on jobs that are
// gone.
func (s *Scenario) dropAfter(jobs []hare.Job, gone []bool, index map[string]int, found *hare.InvalidErrors) {
	for k, d := range s.DropAfter {
		at := s.atPart("drop_after", k)
		i, ok := index[d.Job]
		if !ok || gone[i] {
			found.Add(at+"/job", "unknown_job", "there is no job %q in the scenario", hare.Clip(d.Job))
			continue
		}
		j := &jobs[i]
		switch p := slices.IndexFunc(j.After, func(p hare.Predecessor) bool { return p.Job == d.After }); {
		case d.After == "":
			j.After = nil
		case p < 0:
			found.Add(at+"/after", "unknown_job", "job %q does not wait for a job %q", hare.Clip(d.Job), hare.Clip(d.After))
		default:
			j.After = slices.Delete(slices.Clone(j.After), p, p+1)
		}
	}
	if len(s.RemoveJobs) == 0 {
		return
	}
	isGone := func(p hare.Predecessor) bool {
		i, ok := index[p.Job]
		return ok && gone[i]
	}
	for i := range jobs {
		if slices.ContainsFunc(jobs[i].After, isGone) {
			jobs[i].After = slices.DeleteFunc(slices.Clone(jobs[i].After), isGone)
		}
	}
}

// withoutJobs returns the reservations without the jobs that are not there.
func withoutJobs(reservations []hare.Reservation, jobs []hare.Job) []hare.Reservation {
	if len(reservations) == 0 {
		return reservations
	}
	there := make(map[string]bool, len(jobs))
	for i := range jobs {
		there[jobs[i].ID] = true
	}
	out := slices.Clone(reservations)
	for i := range out {
		out[i].Jobs = slices.DeleteFunc(slices.Clone(out[i].Jobs), func(id string) bool { return !there[id] })
	}
	return out
}

// applyQuota changes quotas in their places, since certificates name them by their indices, and
// appends new ones.
func (s *Scenario) applyQuota(quota []hare.Quota) []hare.Quota {
	if len(s.SetQuota) == 0 {
		return quota
	}
	quota = slices.Clone(quota)
	for _, set := range s.SetQuota {
		at := slices.IndexFunc(quota, func(q hare.Quota) bool {
			return q.User == set.User && (q.Types == nil) == (set.Types == nil) && slices.Equal(q.Types, set.Types)
		})
		if at < 0 {
			quota = append(quota, set)
		} else {
			quota[at].GPUs = set.GPUs
		}
	}
	return quota
}
