// Package branch bounds small instances of rigid jobs by branch and bound: a tree that splits the
// types and the starts of single jobs, with prices at its leaves
// (docs/inside/bounds.md#branch-prices-of-jobs-and-trees). Package branch proposes trees; package verify says what
// they prove.
package branch

import (
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// Problem is an instance of rigid jobs, in microseconds and micro-weights.
type Problem struct {
	model *model.Model
	jobs  []job
	types []kind
	// latest is a time by which each job has started in some optimal schedule.
	latest int64
	// before and after are the nearest equal jobs with lower and higher index; -1 for none. Equal
	// jobs may be taken to start in the order of their indices.
	before, after []int
}

type job struct {
	weight, release, tasks int64
	length                 []int64 // by type; 0 where the job cannot run
}

// kind is a GPU type, of which free[i] GPUs are free from at[i] on; free rises.
type kind struct {
	at, free []int64
}

// domain holds the starts that each job may still have, by job and type: from lo to hi.
type domain struct {
	lo, hi []int64
}

func (d *domain) clone() domain { return domain{slices.Clone(d.lo), slices.Clone(d.hi)} }

// New returns nil if the instance has a rule beyond rigid jobs with weights and releases on GPUs
// that stay in service once they are free.
func New(m *model.Model) *Problem {
	if m.Instance.FirstRule(0) != "" || m.Placed || m.Instance.Objective != hare.ObjectiveWeightedJCT {
		return nil
	}
	for c := range m.Classes {
		if w := m.Classes[c].Windows; len(w) > 1 || len(w) == 1 && w[0].EndUs != hare.Forever {
			return nil // a GPU leaves, though another one may come in its place
		}
	}
	pr := &Problem{model: m}
	for k := range m.Types {
		var t kind
		for _, s := range m.Capacity(k) {
			t.at, t.free = append(t.at, s.FromUs), append(t.free, s.Count)
			pr.latest = max(pr.latest, s.FromUs)
		}
		pr.types = append(pr.types, t)
	}
	for i := range m.Jobs {
		mj := &m.Jobs[i]
		if mj.Sync != hare.Rigid || mj.Shapes != nil || mj.RunsUntilUs > 0 {
			return nil
		}
		j := job{mj.WeightMicro, mj.ReleaseUs, mj.Tasks, make([]int64, len(pr.types))}
		longest := int64(0)
		for _, md := range mj.Modes {
			t := &pr.types[md.Type]
			if len(t.free) > 0 && t.free[len(t.free)-1] >= j.tasks {
				j.length[md.Type] = mj.Rounds * md.DurationUs()
				longest = max(longest, j.length[md.Type])
			}
		}
		if longest == 0 {
			return nil
		}
		pr.latest = max(pr.latest, j.release)
		pr.jobs = append(pr.jobs, j)
	}
	for i := range pr.jobs {
		pr.latest += slices.Max(pr.jobs[i].length)
	}
	pr.findTwins()
	return pr
}

// findTwins finds the equal jobs before and after each job.
func (pr *Problem) findTwins() {
	n := len(pr.jobs)
	pr.before, pr.after = make([]int, n), make([]int, n)
	for i := range pr.jobs {
		pr.before[i], pr.after[i] = -1, -1
		for o := i - 1; o >= 0; o-- {
			a, b := &pr.jobs[i], &pr.jobs[o]
			if a.weight == b.weight && a.release == b.release && a.tasks == b.tasks && slices.Equal(a.length, b.length) {
				pr.before[i], pr.after[o] = o, i
				break
			}
		}
	}
}

// root returns the domain of all schedules.
func (pr *Problem) root() domain {
	n := len(pr.jobs) * len(pr.types)
	d := domain{make([]int64, n), make([]int64, n)}
	for i := range pr.jobs {
		for k, l := range pr.jobs[i].length {
			x := i*len(pr.types) + k
			d.lo[x], d.hi[x] = pr.jobs[i].release, pr.latest
			if l == 0 {
				d.hi[x] = none
			}
		}
	}
	return d
}

// none is the last start on a type on which a job cannot be.
const none = -1

// maxSweeps limits the sweeps of narrow.
const maxSweeps = 8

// segment is a stretch of time with so many GPUs free beside the parts that jobs certainly hold.
type segment struct {
	from int64
	free int64
}

// only returns the only type of a job, or -1.
func (pr *Problem) only(d *domain, i int) int {
	only := -1
	for k := range pr.types {
		if x := i*len(pr.types) + k; d.lo[x] <= d.hi[x] {
			if only >= 0 {
				return -1
			}
			only = k
		}
	}
	return only
}

// certain returns the time during which job i certainly holds type k, its only type.
func (pr *Problem) certain(d *domain, i, k int) (from, to int64) {
	x := i*len(pr.types) + k
	return d.hi[x], d.lo[x] + pr.jobs[i].length[k]
}

// profile returns the GPUs of type k that are free beside certain parts of the jobs other than skip.
func (pr *Problem) profile(buf []segment, d *domain, only []int, k, skip int) []segment {
	buf = buf[:0]
	last := int64(0)
	for i, t := range pr.types[k].at {
		buf = append(buf, segment{t, pr.types[k].free[i] - last})
		last = pr.types[k].free[i]
	}
	for i := range pr.jobs {
		if i == skip || only[i] != k {
			continue
		}
		if from, to := pr.certain(d, i, k); from < to {
			buf = append(buf, segment{from, -pr.jobs[i].tasks}, segment{to, pr.jobs[i].tasks})
		}
	}
	slices.SortFunc(buf, func(a, b segment) int {
		switch {
		case a.from < b.from:
			return -1
		case a.from > b.from:
			return 1
		}
		return 0
	})
	n, sum := 0, int64(0)
	for i := range buf {
		sum += buf[i].free
		if i+1 < len(buf) && buf[i+1].from == buf[i].from {
			continue
		}
		buf[n] = segment{buf[i].from, sum}
		n++
	}
	return buf[:n]
}

// narrow shrinks the domain to the starts that some optimal schedule may still have. It
// returns false if none is left.
func (pr *Problem) narrow(d *domain) bool {
	kinds := len(pr.types)
	only := make([]int, len(pr.jobs))
	var buf []segment
	for i := range pr.jobs {
		only[i] = pr.only(d, i)
	}
	for range maxSweeps {
		changed := false
		for i := range pr.jobs {
			any := false
			for k := range kinds {
				x := i*kinds + k
				if d.lo[x] > d.hi[x] {
					continue
				}
				l := pr.jobs[i].length[k]
				buf = pr.profile(buf, d, only, k, i)
				lo, hi := d.lo[x], d.hi[x]
				for s := range buf {
					if buf[s].free >= pr.jobs[i].tasks {
						continue
					}
					end := int64(math.MaxInt64)
					if s+1 < len(buf) {
						end = buf[s+1].from
					}
					if buf[s].from < lo+l && lo < end {
						lo = end
					}
				}
				for s := len(buf) - 1; s >= 0; s-- {
					if buf[s].free >= pr.jobs[i].tasks {
						continue
					}
					end := int64(math.MaxInt64)
					if s+1 < len(buf) {
						end = buf[s+1].from
					}
					if buf[s].from < hi+l && hi < end {
						hi = buf[s].from - l
					}
				}
				if o := pr.before[i]; o >= 0 {
					lo = max(lo, pr.earliestStart(d, o))
				}
				if o := pr.after[i]; o >= 0 {
					hi = min(hi, pr.latestStart(d, o))
				}
				if lo <= hi {
					lo, hi = pr.reachable(d, i, k, lo, hi)
				}
				if lo != d.lo[x] || hi != d.hi[x] {
					changed = true
					d.lo[x], d.hi[x] = lo, hi
				}
				any = any || lo <= hi
			}
			if !any {
				return false
			}
			only[i] = pr.only(d, i)
		}
		if !changed {
			return true
		}
	}
	return true
}

// earliestStart returns the earliest start of a job on any type.
func (pr *Problem) earliestStart(d *domain, i int) int64 {
	first := int64(math.MaxInt64)
	for x := i * len(pr.types); x < (i+1)*len(pr.types); x++ {
		if d.lo[x] <= d.hi[x] {
			first = min(first, d.lo[x])
		}
	}
	return first
}

// latestStart returns the latest start of a job on any type.
func (pr *Problem) latestStart(d *domain, i int) int64 {
	last := int64(none)
	for x := i * len(pr.types); x < (i+1)*len(pr.types); x++ {
		if d.lo[x] <= d.hi[x] {
			last = max(last, d.hi[x])
		}
	}
	return last
}

// reachable returns the first and last time from lo to hi at which job i may start on type k when
// no job can start earlier by itself: its release, a time when GPUs become free, or the end of
// another job there.
func (pr *Problem) reachable(d *domain, i, k int, lo, hi int64) (first, last int64) {
	first, last = math.MaxInt64, none
	add := func(from, to int64) {
		if from, to = max(from, lo), min(to, hi); from <= to {
			first, last = min(first, from), max(last, to)
		}
	}
	add(pr.jobs[i].release, pr.jobs[i].release)
	for _, t := range pr.types[k].at {
		add(t, t)
	}
	for o := range pr.jobs {
		x := o*len(pr.types) + k
		if l := pr.jobs[o].length[k]; o != i && d.lo[x] <= d.hi[x] {
			add(d.lo[x]+l, d.hi[x]+l)
		}
	}
	return first, last
}
