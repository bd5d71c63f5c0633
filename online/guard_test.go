package online

import (
	"container/heap"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/saturating"
	"github.com/hare-sched/hare/internal/testing/transcript"
)

// play simulates a policy with jobs whose tasks take known times and never fail. It keeps its
// own copy of the guard's clocks.
type play struct {
	t     *testing.T
	h     *HLAS
	queue timed
	seq   int64
	now   int64
	jobs  map[string]*playJob // the jobs that have arrived
	later map[string]*playJob
	// after is called when the decisions on an event have been followed.
	after func()
}

type playJob struct {
	hare.Job
	rounds int64 // 0 if the job never ends
	// times returns the time for which a task holds its GPU, and the time for which it then
	// synchronises, in µs.
	times    func() (hold, sync int64)
	running  map[int64]string // the GPU by task
	ended    int64
	round    int64
	since    int64 // the last switch between running and waiting
	executed int64 // the time of execution since the clocks were reset
	waited   int64 // the time of waiting in lower queues since the clocks were reset
	lower    bool  // the job is in a lower queue
	ticket   uint64
	starts   int
	longest  int64 // the longest wait so far
	idle     int64 // the time since which the job waits
}

func newPlay(t *testing.T, cl *hare.Cluster, cfg HLASConfig) *play {
	h, err := NewHLAS(cl, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &play{t: t, h: h, jobs: map[string]*playJob{}, later: map[string]*playJob{}}
}

func (p *play) push(at int64, e hare.Event) {
	p.seq++
	e.AtUs, e.Seq = at, p.seq
	heap.Push(&p.queue, e)
}

func (p *play) arrive(at int64, j hare.Job, rounds int64, times func() (hold, sync int64)) *playJob {
	x := &playJob{Job: j, rounds: rounds, times: times, running: map[int64]string{}}
	p.push(at, hare.Event{Type: hare.EventJobArrived, Job: j.ID, Arrived: &x.Job})
	p.later[j.ID] = x
	return x
}

// until plays all events up to a time.
func (p *play) until(end int64) {
	for len(p.queue) > 0 && p.queue[0].AtUs <= end {
		e := heap.Pop(&p.queue).(hare.Event)
		if e.Type == hare.EventJobArrived {
			p.jobs[e.Job] = p.later[e.Job]
			delete(p.later, e.Job)
		}
		x := p.jobs[e.Job]
		if e.Type == hare.EventTaskEnded || e.Type == hare.EventComputeEnded {
			if x == nil || x.running[e.Task] != e.GPU || x.round != e.Round {
				continue // the task was withdrawn with its job
			}
		}
		p.now = e.AtUs
		ds, err := p.h.Step(p.now, []hare.Event{e})
		if err != nil {
			p.t.Fatalf("%+v: %v", e, err)
		}
		switch e.Type {
		case hare.EventJobArrived:
			x.since, x.idle = p.now, p.now
		case hare.EventTaskEnded:
			if x.Sync == hare.Relaxed {
				delete(x.running, e.Task)
			}
			if x.ended++; x.ended == x.Tasks {
				clear(x.running)
				x.ended = 0
				if x.round++; x.round == x.rounds {
					p.push(p.now, hare.Event{Type: hare.EventJobEnded, Job: x.ID})
				}
			}
			if len(x.running) == 0 {
				x.executed += p.now - x.since
				x.since, x.idle = p.now, p.now
			}
		case hare.EventJobEnded:
			delete(p.jobs, e.Job)
		}
		p.follow(ds)
		if p.after != nil {
			p.after()
		}
	}
	p.now = end
}

func (p *play) follow(ds []hare.Decision) {
	for id, x := range p.jobs { // the order does not matter
		if ji, ok := p.h.c.jobOf[id]; ok && x.ticket > 0 && p.h.c.jobs[ji].ticket != x.ticket {
			x.executed, x.waited, x.since, x.lower = 0, 0, p.now, false // the guard has returned the job
		}
	}
	for _, d := range ds {
		x := p.jobs[d.Job]
		if d.Type != hare.DecisionStart || x == nil {
			continue
		}
		if len(x.running) == 0 {
			x.longest = max(x.longest, p.now-x.idle)
			if x.lower {
				x.waited += p.now - x.since
			}
			x.since = p.now
			x.starts++
		}
		x.running[d.Task] = d.GPU
		hold, sync := x.times()
		e := hare.Event{Type: hare.EventTaskEnded, Job: d.Job, Round: d.Round, Task: d.Task, GPU: d.GPU,
			ComputeUs: hold}
		if sync > 0 {
			c := e
			c.Type, c.ComputeUs = hare.EventComputeEnded, 0
			p.push(p.now+hold, c)
		}
		p.push(p.now+hold+sync, e)
	}
	for id, x := range p.jobs { // the order does not matter
		if ji, ok := p.h.c.jobOf[id]; ok {
			x.lower, x.ticket = p.h.c.jobs[ji].queue > 0, p.h.c.jobs[ji].ticket
		}
	}
}

func fixed(hold int64) func() (int64, int64) {
	return func() (int64, int64) { return hold, 0 }
}

// A gang that gathers one type is served in its turn on other types. If it were served there
// before the jobs that stand before it, G and H would run on the V100s in turns. Each would
// gather T4s, which R and S keep busy, while the other runs. J, which stands first and may
// only use V100s, would wait for ever.
func TestGatheringGangWaitsItsTurn(t *testing.T) {
	p := newPlay(t, transcript.Cluster("t=3T4 v=3V100"), HLASConfig{ThresholdsUs: []int64{100_000}, Kappa: 1e6})
	t4 := []hare.Profile{{Type: "T4", ComputeUs: 2e6}}
	v100 := []hare.Profile{{Type: "V100", ComputeUs: 1e6}}
	both := []hare.Profile{{Type: "T4", ComputeUs: 2e6}, {Type: "V100", ComputeUs: 1e6}}
	first := func(hold int64) func() (int64, int64) {
		return func() (int64, int64) { now := hold; hold = 1_200_000; return now, 0 }
	}
	p.arrive(0, hare.Job{ID: "r", Tasks: 1, On: t4}, 0, first(1_250_000))
	p.arrive(10_000, hare.Job{ID: "s", Tasks: 1, On: t4}, 0, first(190_000))
	p.arrive(50_000, hare.Job{ID: "g", Tasks: 3, Sync: hare.Gang, On: both}, 0, fixed(1_000_000))
	p.arrive(100_000, hare.Job{ID: "h", Tasks: 3, Sync: hare.Gang, On: both}, 0, fixed(1_000_000))
	j := p.arrive(1_500_000, hare.Job{ID: "j", Tasks: 1, On: v100}, 0, fixed(1_000_000))
	p.until(1_900_000)
	if s, _ := p.h.Explain("g"); s.State != "gathering" || j.starts > 0 {
		t.Fatalf("g is %s", s.State)
	}
	p.until(60_000_000)
	if j.starts == 0 || j.longest != 550_000 {
		t.Errorf("j starts %d times, and waits for %d µs", j.starts, j.longest)
	}
}

// A job in the lower queue is served although new jobs never stop arriving. With a κ so large
// that the guard never acts, the job is not served.
func TestGuardServesUnderEndlessArrivals(t *testing.T) {
	on := []hare.Profile{{Type: "A", ComputeUs: 1e6}}
	for _, sync := range []hare.Sync{hare.Relaxed, hare.Gang} {
		for _, c := range []struct {
			kappa  float64
			starts int
		}{{2, 90}, {0.5, 90}, {1e6, 20}} {
			p := newPlay(t, transcript.Cluster("a=2A"), HLASConfig{ThresholdsUs: []int64{10e6}, Kappa: c.kappa})
			long := p.arrive(0, hare.Job{ID: "long", Tasks: 2, Sync: sync, On: on}, 0, fixed(1e6))
			for i := range int64(4000) {
				p.arrive(12e6+i*490_000, hare.Job{ID: strconv.FormatInt(i, 10), Tasks: 1, Sync: sync, On: on}, 1,
					fixed(1e6))
			}
			p.until(1000e6)
			if c.kappa == 1e6 && long.starts > c.starts || c.kappa < 1e6 && long.starts < c.starts {
				t.Errorf("%v, kappa %g: %d starts in 1000 s", sync, c.kappa, long.starts)
			}
		}
	}
}

// Theorems 1 to 3 of docs/inside/online.md, "HLAS's guard", hold for every wait of random relaxed and gang jobs
// under endless arrivals, and the guard acts when it is due. The proofs, with the assumptions and names of that
// page:
//
// Lemma 2. No other job starts on the types of a gathering, and they have enough GPUs in service; so after L all
// are free, and rule 1 starts the gang. ∎
//
// Lemma 3. A hold of length h counts at least ρ_s h. So those holds that ended before the one at whose end s was
// demoted last at most Q/ρ_s; that one and those still running are at most K_s. ∎
//
// Theorem 1. Let J be ready, neither started nor gathering. (i) After every event each free GPU of F is of a
// gathered type, or rule 2 would serve J. (ii) Every job that starts on a GPU of F, or begins to gather a type of
// F, is in S, except gangs that start on types gathered for them before t₀: rule 2 serves the first in order, J is
// one of its candidates as long as F has a GPU that is not reserved, and a gathering gang passes no job before it
// on other types. (iii) Holds and gatherings begun before t₀ end by t₀ + L, and the holds that follow these
// gatherings by t₀ + 2L. From then on every hold on F was begun by a job of S in the first queue. (iv) At every
// instant a GPU of F is held: a type that is not gathered is held whole, by (i), and of a gathered one not all GPUs
// are free, or its gang would start. So the time after t₀ + 2L is at most the sum of such holds, which lemma 3
// bounds. A gang that gathers then starts within L. ∎
//
// Theorem 2. N bounds the starts of jobs in S, as in lemma 3. In every period of D + 3L a job of S, or J, starts.
// Suppose none of S does. After D no task of S runs; every job still in S is ready or gathers. Let o be the first
// of all ready jobs (J, if there is no other). From then on no gathering of a type that o fits begins for another
// gang: a gang that mixes, or any gang if o may mix, gathers no type that o waits for, and otherwise o is served
// first. Gatherings begun earlier are complete within L; if one were for a job in S, that job would start. Then no
// type that o fits is reserved for another, and one of its GPUs is free within another L: o starts, or gathers all
// types that it needs and starts within the third L. ∎
//
// Theorem 3. The guard returns the job at the first event after max(0, κE − w). An event comes within L: some GPU
// is held, and that hold ends; with none held, a gathering gang or the first job that fits would have started. Then
// the job is in the first queue, with a later ticket than all there, and theorem 1 or 2 holds. ∎
func TestGuardsBound(t *testing.T) {
	const (
		longest  = 3_000_000 // L, the longest time for which a task holds a GPU
		shortest = 500_000
		syncs    = 1_000_000 // the longest synchronisation after a task has left its GPU
		q0       = 4_000_000
	)
	waits, tightest := 0, 0.0
	for seed := range uint64(streams(t, 100)) {
		r := rand.New(rand.NewPCG(seed, 9))
		cl, gpus := &hare.Cluster{}, map[string]int64{}
		types := []string{"A", "B", "C"}[:1+r.IntN(3)]
		for _, k := range types {
			n := 1 + r.IntN(4)
			gpus[k] = int64(n)
			cl.Nodes = append(cl.Nodes, hare.Node{Name: k, GPUs: []hare.TypeCount{{Type: k, Count: n}}})
		}
		kappa := []int64{500_000, 1_000_000, 2_500_000}[r.IntN(3)]
		p := newPlay(t, cl, HLASConfig{Queues: 2 + r.IntN(2), Kappa: float64(kappa) / 1e6, ThresholdsUs: nil})
		p.h.c.thresholds = []int64{q0, 3 * q0}[:len(p.h.c.thresholds)]
		mixing := seed%2 == 1
		newJob := func(id string) hare.Job {
			for {
				j := hare.Job{ID: id, Tasks: 1 + r.Int64N(5), Sync: hare.Sync(r.IntN(2))}
				j.Mix = mixing && j.Sync == hare.Gang && r.IntN(2) == 0
				fits, all := j.Sync == hare.Relaxed, int64(0)
				for _, k := range types {
					if r.IntN(2) == 0 {
						j.On = append(j.On, hare.Profile{Type: k, ComputeUs: int64(1+r.IntN(4)) * 1e6})
						all += gpus[k]
						fits = fits || gpus[k] >= j.Tasks || j.Mix && all >= j.Tasks
					}
				}
				if fits && len(j.On) > 0 {
					return j
				}
			}
		}
		// Long jobs never end, and short jobs never stop arriving.
		times := func(sync hare.Sync) func() (int64, int64) {
			return func() (int64, int64) {
				hold, tail := shortest+r.Int64N(longest-shortest+1), int64(0)
				if sync == hare.Relaxed && r.IntN(3) == 0 {
					tail = r.Int64N(syncs + 1)
				}
				return hold, tail
			}
		}
		for i := range 2 + r.IntN(8) {
			j := newJob("long" + strconv.Itoa(i))
			p.arrive(r.Int64N(10e6), j, 0, times(j.Sync))
		}
		every := 100_000 + r.Int64N(3_000_000)
		const end = 200_000_000
		for at := int64(0); at < end; at += 1 + r.Int64N(2*every) {
			j := newJob("short" + strconv.FormatInt(at, 10))
			p.arrive(at, j, 1+r.Int64N(3), times(j.Sync))
		}
		deadline, began := map[string]int64{}, map[string]int64{}
		p.after = func() {
			c := p.h.c
			for id, x := range p.jobs {
				ji, here := c.jobOf[id]
				if !here {
					continue
				}
				j := &c.jobs[ji]
				if len(x.running) > 0 || j.queue > 0 {
					if end, waited := deadline[id]; waited {
						tightest = max(tightest, float64(p.now-began[id])/float64(end-began[id]))
						waits++
						delete(deadline, id)
					}
					if due := x.since + max(0, x.executed*kappa/1e6-x.waited); len(x.running) == 0 && p.now >= due {
						t.Fatalf("seed %d at %d: %s waits in a lower queue and was due at %d", seed, p.now, id, due)
					}
					continue
				}
				if _, waits := deadline[id]; !waits {
					w, n := int64(2*longest), int64(0)
					for i := range c.jobs {
						if s := &c.jobs[i]; s.alive && s.queue == 0 && s.ticket < j.ticket {
							served := slowestShare(s, q0)
							w += served + s.tasks*longest
							n += served/shortest + s.tasks
						}
					}
					if j.sync == hare.Gang {
						w += longest
					}
					if mixing {
						w = (n + 1) * (4*longest + syncs)
					}
					deadline[id], began[id] = p.now+w, p.now
				}
				if p.now > deadline[id] {
					t.Fatalf("seed %d at %d: %s waits since %d in the first queue and should have started by %d",
						seed, p.now, id, began[id], deadline[id])
				}
			}
		}
		p.until(end)
	}
	t.Logf("%d waits in the first queue, the longest relative to its bound %.3f", waits, tightest)
	if waits < 1000 {
		t.Errorf("%d waits", waits)
	}
}

// slowestShare returns for how long a job can hold GPUs of its slowest type until it has
// attained the service q0.
func slowestShare(j *job, q0 int64) int64 {
	least, most := j.on[0].computeUs, j.on[0].computeUs
	for _, p := range j.on {
		least, most = min(least, p.computeUs), max(most, p.computeUs)
	}
	return saturating.MulDiv(q0, most, least) + 1
}

// A gang that gathers a GPU beside a rigid job waits until the rigid job ends, and a job that
// could use the gathered GPU waits, too (docs/inside/online.md, "HLAS's guard").
func TestGatheringBesideARigidJob(t *testing.T) {
	on := []hare.Profile{{Type: "A", ComputeUs: 1e6}}
	p := newPlay(t, transcript.Cluster("a=2A"), HLASConfig{})
	p.arrive(0, hare.Job{ID: "rigid", Tasks: 1, Sync: hare.Rigid, On: on}, 100, fixed(1e6))
	gang := p.arrive(1, hare.Job{ID: "gang", Tasks: 2, Sync: hare.Gang, On: on}, 1, fixed(1e6))
	relaxed := p.arrive(2, hare.Job{ID: "relaxed", Tasks: 1, On: on}, 1, fixed(1e6))
	p.until(99e6)
	if s := p.h.Status().GPUs[0]; gang.starts+relaxed.starts > 0 || s.Gathered != 1 || s.GatheredFor != "gang" {
		t.Errorf("gang starts %d times, relaxed %d; %+v", gang.starts, relaxed.starts, s)
	}
	p.until(110e6)
	if gang.starts == 0 || relaxed.starts == 0 {
		t.Errorf("gang starts %d times, relaxed %d", gang.starts, relaxed.starts)
	}
}

func TestOneQueueHasNoBound(t *testing.T) {
	on := []hare.Profile{{Type: "A", ComputeUs: 1e6}}
	p := newPlay(t, transcript.Cluster("a=1A"), HLASConfig{Queues: 1})
	p.arrive(0, hare.Job{ID: "endless", Tasks: 1, On: on}, 0, fixed(1e6))
	x := p.arrive(1, hare.Job{ID: "x", Tasks: 1, On: on}, 1, fixed(1e6))
	p.until(1000e6)
	if x.starts > 0 {
		t.Errorf("x starts %d times", x.starts)
	}
}
