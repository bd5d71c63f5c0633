package rolling

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/planner"
)

// BenchmarkEvents replays a full cluster: 10,000 gangs on 10,000 GPUs of four types, of
// which some four in ten run. A job comes for each that ends, and a plan after each 5,000
// events. It reports what an event takes without the plans: half of the events take p50 and
// one in a hundred takes more than p99; ask is what the question for a plan takes and take
// what it takes to follow the plan, at best. An event's time is the least over all replays,
// which are the same, so that a busy machine counts less. In the case learning, profiles are
// empty, rounds take up to 5 % more or less than the last time, and switches take 2 s. The cases limit
// have the limit of slowdowns.
func BenchmarkEvents(b *testing.B) {
	const events, planned = 60_000, 5_000
	for _, x := range []struct {
		name, policy string
		learning     bool
		guard        list.GuardConfig
	}{
		{"hgittins", "hgittins", false, list.GuardConfig{}}, {"rolling", "rolling", false, list.GuardConfig{}},
		{"learning", "rolling", true, list.GuardConfig{}}, {"hgittins-limit", "hgittins", false,
			list.GuardConfig{FIFOSlowdown: 1}},
		{"rolling-limit", "rolling", false, list.GuardConfig{FIFOSlowdown: 1}},
	} {
		b.Run(x.name, func(b *testing.B) {
			took := slices.Repeat([]time.Duration{time.Hour}, events)
			ask, take := time.Hour, time.Hour
			plans := map[int][]byte{} // by the event before which they are taken, for all replays
			for b.Loop() {
				f := newFullCluster(b, x.policy, 10_000, 10_000, x.learning, x.guard)
				for i := range took {
					if f.rolling != nil && i%planned == 0 {
						var asked, taken time.Duration
						asked, taken, plans[i] = f.plan(plans[i])
						ask, take = min(ask, asked), min(take, taken)
					}
					e := f.next()
					began := time.Now()
					f.step(e)
					took[i] = min(took[i], time.Since(began))
				}
			}
			took = took[events/2:]
			slices.Sort(took)
			for _, x := range []struct {
				name string
				of   int
			}{{"p50-µs", 500}, {"p99-µs", 990}, {"p99.9-µs", 999}} {
				b.ReportMetric(float64(took[len(took)*x.of/1000].Nanoseconds())/1e3, x.name)
			}
			if x.policy == "rolling" {
				b.ReportMetric(float64(ask.Microseconds())/1e3, "ask-ms")
				b.ReportMetric(float64(take.Microseconds())/1e3, "take-ms")
			}
		})
	}
}

// fullCluster is a cluster on which many jobs run and wait.
type fullCluster struct {
	tb      testing.TB
	policy  *list.Scheduler
	rolling *Policy // nil for another policy
	// learning says that the policy must measure what it knows of times.
	learning bool
	users    map[string]string // the last job on each GPU
	rng      *rand.Rand
	nowUs    int64
	ends     taskEnds
	gpuOf    map[string]int
	left     map[string]int64 // rounds by job
	ended    map[string]int64 // tasks of the round that have ended, by job
	jobs     map[string]*hare.Job
	queued   []hare.Event // at the present time
	serial   int
	events   int
}

func newFullCluster(tb testing.TB, name string, jobs, gpus int, learning bool, guard list.GuardConfig) *fullCluster {
	cluster := &hare.Cluster{}
	for t, of := range []int{40, 30, 15, 15} {
		cluster.Nodes = append(cluster.Nodes, hare.Node{Name: strconv.Itoa(t),
			GPUs: []hare.TypeCount{{Type: []string{"V100", "T4", "K80", "M60"}[t], Count: gpus * of / 100}}})
	}
	f := &fullCluster{tb: tb, rng: rand.New(rand.NewPCG(1, 1)), left: map[string]int64{}, ended: map[string]int64{},
		jobs: map[string]*hare.Job{}, learning: learning, users: map[string]string{}}
	if name == "rolling" {
		f.rolling = New(cluster, Config{Aside: true, MaxAgeUs: hare.MaxExact, Work: planner.Work{Moves: -1},
			Guard: guard})
		f.policy = f.rolling.Scheduler
	} else {
		f.policy = NewHGittins(cluster, HGittinsConfig{Guard: guard})
	}
	f.gpuOf = map[string]int{}
	for g, x := range f.policy.Slots() {
		f.gpuOf[x.Name] = g
	}
	f.fill(jobs)
	return f
}

// plan lets the policy take a plan, which is made where it is nil.
func (f *fullCluster) plan(plan []byte) (asked, taken time.Duration, of []byte) {
	began := time.Now()
	q := f.rolling.Ask()
	if asked = time.Since(began); q == nil {
		return time.Hour, time.Hour, nil // nothing has changed
	}
	var err error
	if plan == nil {
		plan, err = q.Answer(f.tb.Context())
	}
	began = time.Now()
	if err == nil {
		err = f.rolling.Take(plan)
	}
	if err != nil {
		f.tb.Fatal(err)
	}
	return asked, time.Since(began), plan
}

// fill lets jobs arrive before any starts.
func (f *fullCluster) fill(jobs int) {
	for range jobs {
		f.queued = append(f.queued, f.arrival())
	}
	if _, err := f.policy.Step(0, f.queued[:0]); err != nil {
		f.tb.Fatal(err)
	}
	for len(f.queued) > 0 {
		f.step(f.next())
	}
}

func (f *fullCluster) arrival() hare.Event {
	f.serial++
	j := &hare.Job{ID: fmt.Sprint("job-", f.serial), WeightMicro: 1e5 + f.rng.Int64N(1e6), Tasks: 1 << f.rng.IntN(3),
		Sync: hare.Gang}
	d := 5e6 + f.rng.Int64N(10e6)
	for t, name := range []string{"V100", "T4", "K80", "M60"} {
		j.On = append(j.On, hare.Profile{Type: name, ComputeUs: d * []int64{2, 4, 10, 7}[t] / 2, SyncUs: f.rng.Int64N(1e5)})
	}
	f.jobs[j.ID], f.left[j.ID] = j, 1+int64(f.rng.ExpFloat64()*30)
	if !f.learning {
		return hare.Event{Type: hare.EventJobArrived, Arrived: j}
	}
	told := *j
	told.On = nil
	for _, p := range j.On {
		told.On = append(told.On, hare.Profile{Type: p.Type})
	}
	return hare.Event{Type: hare.EventJobArrived, Arrived: &told}
}

// next is the event that comes next.
func (f *fullCluster) next() hare.Event {
	if len(f.queued) > 0 {
		e := f.queued[0]
		f.queued = f.queued[1:]
		return e
	}
	x := heap.Pop(&f.ends).(taskEnd)
	f.nowUs = x.atUs
	d := x.decision
	e := hare.Event{Type: hare.EventTaskEnded, Job: d.Job, Round: d.Round, Task: d.Task, GPU: d.GPU,
		ComputeUs: x.computeUs, SyncUs: x.syncUs}
	if f.ended[d.Job]++; f.ended[d.Job] == f.jobs[d.Job].Tasks {
		f.ended[d.Job] = 0
		if f.left[d.Job]--; f.left[d.Job] == 0 {
			delete(f.left, d.Job)
			f.queued = append(f.queued, hare.Event{Type: hare.EventJobEnded, Job: d.Job}, f.arrival())
		}
	}
	return e
}

func (f *fullCluster) step(e hare.Event) {
	f.events++
	decisions, err := f.policy.Step(f.nowUs, []hare.Event{e})
	if err != nil {
		f.tb.Fatal(err)
	}
	for _, d := range decisions {
		if d.Type != hare.DecisionStart {
			continue
		}
		j := f.jobs[d.Job]
		g := f.policy.Slots()[f.gpuOf[d.GPU]]
		for _, p := range j.On {
			if p.Type == f.policy.Types()[g.Type] && f.left[d.Job] > 0 {
				x := taskEnd{f.nowUs + f.rng.Int64N(1000), p.ComputeUs, p.SyncUs, d}
				if f.learning {
					x.computeUs += f.rng.Int64N(p.ComputeUs/10) - p.ComputeUs/20
					if user := f.users[d.GPU]; user != "" && user != d.Job {
						x.atUs += 2e6
					}
					f.users[d.GPU] = d.Job
				}
				x.atUs += x.computeUs + x.syncUs
				heap.Push(&f.ends, x)
			}
		}
	}
}

// taskEnds is a heap by time.
type taskEnd struct {
	atUs, computeUs, syncUs int64
	decision                hare.Decision
}

type taskEnds []taskEnd

func (te taskEnds) Len() int { return len(te) }
func (te taskEnds) Less(i, k int) bool {
	a, b := &te[i], &te[k]
	return cmp.Or(cmp.Compare(a.atUs, b.atUs), cmp.Compare(a.decision.GPU, b.decision.GPU)) < 0
}
func (te taskEnds) Swap(i, k int) { te[i], te[k] = te[k], te[i] }
func (te *taskEnds) Push(x any)   { *te = append(*te, x.(taskEnd)) }
func (te *taskEnds) Pop() any {
	old := *te
	x := old[len(old)-1]
	*te = old[:len(old)-1]
	return x
}
