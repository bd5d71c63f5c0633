package verify_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/verify"
)

// tiny draws an instance of a few GPUs and jobs with times of a few µs, and a schedule
// of the instance in runs of rounds, which is mostly feasible.
func tiny(t *rapid.T) (*hare.Instance, *hare.Schedule) {
	n := func(least, most int, what string) int64 { return int64(rapid.IntRange(least, most).Draw(t, what)) }
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	for i := range n(1, 3, "nodes") {
		node := hare.Node{Name: fmt.Sprint("n", i)}
		for _, kind := range []string{"A", "B"} {
			if c := n(0, 2, "gpus"); c > 0 {
				node.GPUs = append(node.GPUs, hare.TypeCount{Type: kind, Count: int(c)})
			}
		}
		if node.GPUs == nil {
			node.GPUs = []hare.TypeCount{{Type: "A", Count: 1}}
		}
		if n(0, 2, "windows") == 0 {
			a := n(0, 5, "open")
			b := a + n(5, 30, "close")
			node.Windows = []hare.Window{{StartUs: a, EndUs: b}, {StartUs: b + n(1, 5, "again"), EndUs: hare.Forever}}
		}
		if n(0, 2, "busy") == 0 {
			node.Busy = []hare.Busy{{GPU: 0, UntilUs: n(1, 8, "until")}}
		}
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, node)
	}
	type device struct {
		kind string
		open []hare.Window
		free int64
		lane hare.Lane
	}
	var gpus []*device
	for _, node := range inst.Cluster.Nodes {
		number := 0
		for _, g := range node.GPUs {
			for range g.Count {
				d := &device{kind: g.Type, open: []hare.Window{{StartUs: 0, EndUs: hare.Forever}}}
				if node.Windows != nil {
					d.open = node.Windows
				}
				if number == 0 && node.Busy != nil {
					d.free = node.Busy[0].UntilUs
				}
				d.lane.GPU = fmt.Sprintf("%s/%d", node.Name, number)
				gpus = append(gpus, d)
				number++
			}
		}
	}
	s := &hare.Schedule{}
	for i := range n(1, 3, "jobs") {
		j := hare.Job{ID: fmt.Sprint("j", i), WeightMicro: n(0, 3, "weight"), ReleaseUs: n(0, 6, "release"),
			Rounds: n(1, 7, "rounds"), Tasks: n(1, 3, "tasks"), Sync: hare.Sync(n(0, 2, "sync"))}
		j.Mix = j.Sync == hare.Gang && rapid.Bool().Draw(t, "mix")
		for _, kind := range []string{"A", "B"} {
			j.On = append(j.On, hare.Profile{Type: kind, ComputeUs: n(1, 4, "compute"), SyncUs: n(0, 3, "sync_us")})
		}
		inst.Jobs = append(inst.Jobs, j)
		s.Jobs = append(s.Jobs, j.ID)
		ready := j.ReleaseUs
		var on []*device
		for done := int64(0); done < j.Rounds; {
			rounds := n(1, int(j.Rounds-done), "run")
			if j.Sync == hare.Rigid {
				rounds = j.Rounds
			}
			if on == nil || j.Sync != hare.Rigid {
				on = rapid.Permutation(gpus).Draw(t, "gpus of the run")
				if j.Sync != hare.Relaxed && !j.Mix {
					on = slices.DeleteFunc(slices.Clone(on), func(d *device) bool { return d.kind != on[0].kind })
				}
				on = on[:min(len(on), int(j.Tasks))]
			}
			// counts holds the number of tasks on each GPU. A gang that does not fit makes no
			// schedule.
			counts := make([]int64, len(on))
			for x := range j.Tasks {
				if j.Sync == hare.Relaxed {
					counts[n(0, len(on)-1, "gpu of the task")]++
				} else if x < int64(len(on)) {
					counts[x] = 1
				}
			}
			start, period := ready, int64(0)
			for range 40 {
				late, again := int64(0), start
				for x, d := range on {
					again = max(again, d.free)
					p := j.On[slices.IndexFunc(j.On, func(p hare.Profile) bool { return p.Type == d.kind })]
					late = max(late, counts[x]*p.ComputeUs+p.SyncUs)
				}
				if period < late {
					period = late
				}
				for _, d := range on {
					fits := false
					for _, w := range d.open {
						if at := max(again, w.StartUs); !fits &&
							(w.EndUs == hare.Forever || at+rounds*period <= w.EndUs) {
							again, fits = at, true
						}
					}
				}
				if again == start {
					break
				}
				start = again
			}
			if j.Sync != hare.Rigid {
				period += n(0, 1, "slack")
			}
			for x, d := range on {
				if counts[x] == 0 {
					continue
				}
				d.lane.Job = append(d.lane.Job, int32(i))
				d.lane.Round = append(d.lane.Round, done)
				d.lane.Rounds = append(d.lane.Rounds, rounds)
				d.lane.Tasks = append(d.lane.Tasks, counts[x])
				d.lane.PeriodUs = append(d.lane.PeriodUs, period)
				d.lane.StartUs = append(d.lane.StartUs, start)
				d.free = start + rounds*period
			}
			ready = start + rounds*period
			done += rounds
		}
	}
	for _, d := range gpus {
		s.Lanes = append(s.Lanes, d.lane)
	}
	return inst, s
}

// mutate changes one thing in a schedule.
func mutate(t *rapid.T, s *hare.Schedule) string {
	var used []int
	for i := range s.Lanes {
		if len(s.Lanes[i].Job) > 0 {
			used = append(used, i)
		}
	}
	if len(used) == 0 {
		return "nothing"
	}
	l := &s.Lanes[rapid.SampledFrom(used).Draw(t, "lane")]
	x := rapid.IntRange(0, len(l.Job)-1).Draw(t, "entry")
	by := rapid.SampledFrom([]int64{-3, -1, 1, 2}).Draw(t, "by")
	columns := []*[]int64{&l.Round, &l.Rounds, &l.Tasks, &l.PeriodUs, &l.StartUs}
	what := rapid.SampledFrom([]string{"start", "start", "period", "period", "rounds", "round", "tasks", "drop",
		"double",
		"swap gpu", "swap order", "other job", "split", "job list"}).Draw(t, "mutation")
	switch what {
	case "start":
		l.StartUs[x] += by
	case "period":
		l.PeriodUs[x] += by
	case "rounds":
		l.Rounds[x] += by
	case "round":
		l.Round[x] += by
	case "tasks":
		l.Tasks[x] += by
	case "drop":
		l.Job = slices.Delete(l.Job, x, x+1)
		for _, c := range columns {
			*c = slices.Delete(*c, x, x+1)
		}
	case "double":
		l.Job = slices.Insert(l.Job, x, l.Job[x])
		for _, c := range columns {
			*c = slices.Insert(*c, x, (*c)[x])
		}
	case "swap gpu":
		o := &s.Lanes[rapid.IntRange(0, len(s.Lanes)-1).Draw(t, "with")]
		l.GPU, o.GPU = o.GPU, l.GPU
	case "swap order":
		if x > 0 {
			l.Job[x], l.Job[x-1] = l.Job[x-1], l.Job[x]
			for _, c := range columns {
				(*c)[x], (*c)[x-1] = (*c)[x-1], (*c)[x]
			}
		}
	case "other job":
		l.Job[x] = int32(rapid.IntRange(-1, len(s.Jobs)).Draw(t, "job"))
	case "split":
		if l.Rounds[x] > 1 {
			l.Job = slices.Insert(l.Job, x, l.Job[x])
			for _, c := range columns {
				*c = slices.Insert(*c, x, (*c)[x])
			}
			l.Rounds[x] = 1
			l.Round[x+1]++
			l.Rounds[x+1]--
			l.StartUs[x+1] += l.PeriodUs[x+1] + rapid.Int64Range(-1, 1).Draw(t, "late")
		}
	case "job list":
		s.Jobs[0] = "other"
	}
	return what
}

// The check on runs agrees with the check task by task, on feasible schedules and on
// schedules after up to three changes.
func TestScheduleAgreesWithPlainCheck(t *testing.T) {
	ok, refused := 0, map[string]int{}
	judge := func(t *rapid.T) {
		inst, s := tiny(t)
		for range rapid.IntRange(0, 3).Draw(t, "mutations") {
			mutate(t, s)
		}
		why, want := plainCheck(inst, s)
		value, _, faults := verify.ScheduleValue(inst, s)
		if (why == "") != (len(faults) == 0) {
			t.Fatalf("task by task: %q, on runs: %v", why, faults)
		}
		if why != "" {
			refused[why]++
			return
		}
		ok++
		if value.Cmp(want) != 0 {
			t.Fatalf("value %v, want %v", value, want)
		}
	}
	for range 10 { // the checks are cheap
		rapid.Check(t, judge)
	}
	t.Logf("%d accepted, refused %v", ok, refused)
	if ok == 0 || len(refused) < 8 {
		t.Errorf("%d accepted, refused %v: the schedules drawn show little", ok, refused)
	}
}

// Each change to a feasible schedule that the plain check refuses gives a fault with its
// place.
func TestFaultsSayWhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inst, s := tiny(t)
		what := mutate(t, s)
		_, _, faults := verify.ScheduleValue(inst, s)
		for _, f := range faults {
			if f.Constraint == "" || f.Detail == "" || f.Job == "" && f.GPU == "" {
				t.Fatalf("after %q: %+v", what, f)
			}
		}
	})
}

// Two entries of a job with different periods are checked at the ends of the stretch that
// they share, so the check of 2^40 rounds takes no longer than the check of a few.
func TestLongStretches(t *testing.T) {
	const R = 1 << 40
	job := hare.Job{ID: "j", WeightMicro: 1, Rounds: R, Tasks: 2,
		On: []hare.Profile{{Type: "A", ComputeUs: 10, SyncUs: 5}}}
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Jobs: []hare.Job{job},
		Cluster: hare.Cluster{Nodes: []hare.Node{haretest.Node("n", "A", 2)}}}
	lane := func(gpu string, start, period int64) hare.Lane {
		return hare.Lane{GPU: gpu, Job: []int32{0}, Rounds: []int64{R}, PeriodUs: []int64{period},
			StartUs: []int64{start}}
	}
	for _, c := range []struct {
		name string
		a, b hare.Lane
		want string
		by   int64
	}{
		{"together", lane("n/0", 0, 15), lane("n/1", 0, 15), "", 0},
		{"one later", lane("n/0", 0, 16), lane("n/1", 1, 16), "", 0},
		{"one too late", lane("n/0", 0, 16), lane("n/1", 2, 16), verify.CodePrecedence, 1},
		{"periods apart at the end", lane("n/0", 0, 15), lane("n/1", 0, 16), verify.CodePrecedence, R - 2},
		{"short period", lane("n/0", 0, 9), lane("n/1", 0, 9), verify.CodeOverlap, 1},
	} {
		_, ends, faults := verify.ScheduleValue(inst,
			&hare.Schedule{Jobs: []string{"j"}, Lanes: []hare.Lane{c.a, c.b}})
		if c.want == "" {
			if len(faults) > 0 || ends[0] != c.b.StartUs[0]+(R-1)*c.b.PeriodUs[0]+15 {
				t.Errorf("%s: %v %v", c.name, ends, faults)
			}
		} else if len(faults) == 0 || faults[0].Constraint != c.want || faults[0].ByUs != c.by {
			t.Errorf("%s: %v, want %s by %d", c.name, faults, c.want, c.by)
		}
	}
}

// Numbers at the limit of 64 bits are refused, not wrapped.
func TestNumbersOutOfRange(t *testing.T) {
	inst, res := example(t, "three-jobs")
	for _, v := range []int64{math.MinInt64, -1, hare.MaxExact, hare.MaxExact + 1, math.MaxInt64} {
		for column := range 5 {
			s := &hare.Schedule{Jobs: res.Schedule.Jobs, Lanes: slices.Clone(res.Schedule.Lanes)}
			l := &s.Lanes[0]
			to := []*[]int64{&l.Round, &l.Rounds, &l.Tasks, &l.PeriodUs, &l.StartUs}[column]
			*to = slices.Clone(*to)
			(*to)[len(*to)-1] = v
			if _, _, faults := verify.ScheduleValue(inst, s); len(faults) == 0 {
				t.Errorf("column %d with %d is accepted", column, v)
			}
		}
	}
}
