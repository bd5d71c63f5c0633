package explain

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// after returns the jobs for whose ends a job waits beyond its release, the last first, and
// when the last of them has ended and its lag has passed.
func (v *laneView) after(job int) (last int64, jobs []explaindoc.Holder) {
	j := &v.model.Jobs[job]
	for _, p := range j.After {
		if until := v.ends[p.Job] + p.LagUs; until > j.ReleaseUs {
			last = max(last, until)
			jobs = append(jobs, explaindoc.Holder{Job: v.inst.Jobs[p.Job].ID, UntilS: hare.Seconds(until)})
		}
	}
	slices.SortStableFunc(jobs, func(a, b explaindoc.Holder) int { return cmp.Compare(b.UntilS, a.UntilS) })
	return last, jobs[:min(len(jobs), maxHolders)]
}

// open calls f with the windows in which GPU g is available, not busy and not reserved for
// others than the job.
func (v *laneView) open(job, g int, f func(hare.Window)) {
	windows := v.model.Classes[v.model.GPUs[g].Class].Windows
	for _, r := range v.closed(job, v.model.GPUs[g].Node) {
		var left []hare.Window
		for _, w := range windows {
			if r.UntilUs <= w.StartUs || w.EndUs <= r.FromUs {
				left = append(left, w)
				continue
			}
			if w.StartUs < r.FromUs {
				left = append(left, hare.Window{StartUs: w.StartUs, EndUs: r.FromUs})
			}
			if r.UntilUs < w.EndUs {
				left = append(left, hare.Window{StartUs: r.UntilUs, EndUs: w.EndUs})
			}
		}
		windows = left
	}
	for _, w := range windows {
		f(w)
	}
}

// closed returns the reservations of a node that keep the job off.
func (v *laneView) closed(job, node int) []hare.Reservation {
	if len(v.inst.Cluster.Reservations) == 0 {
		return nil
	}
	set := v.model.Jobs[job].Set
	if set < 0 {
		return nil
	}
	var out []hare.Reservation
	for _, r := range v.model.Kinds[v.model.Nodes[node].Kind].Reserved {
		if _, closed := slices.BinarySearch(v.model.Sets[set].Closed, r); closed {
			out = append(out, v.inst.Cluster.Reservations[r])
		}
	}
	return out
}

// quotaLoad is what other jobs hold of a quota that counts a job on all types of a pool.
type quotaLoad struct {
	quota int
	held  *load
}

// room returns the GPUs that the quota leaves from t to until.
func (ql *quotaLoad) room(v *laneView, t, until int64) int64 {
	return v.model.Quotas[ql.quota].GPUs - ql.held.over(t, until)
}

// quotaLoads returns the loads of the quotas of a job between from and to.
func (v *laneView) quotaLoads(job int, p *waitPool, from, to int64) (out []quotaLoad) {
	for _, q := range v.model.Jobs[job].Quotas {
		all := true
		for kind := range p.each {
			all = all && v.model.Quotas[q].Types[kind]
		}
		if !all {
			continue
		}
		changes := map[int64]int64{}
		for g, l := range v.lanes {
			if l == nil || !v.model.Quotas[q].Types[v.model.GPUs[g].Type] {
				continue
			}
			for e := v.first(g, from); e < len(l.Job) && l.StartUs[e] < to; e++ {
				if other := v.jobOf[l.Job[e]]; other != job && slices.Contains(v.model.Jobs[other].Quotas, q) {
					changes[max(from, l.StartUs[e])]++
					changes[v.until(g, e)]--
				}
			}
		}
		out = append(out, quotaLoad{int(q), newLoad(from, changes)})
	}
	return out
}
