package antman

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

func play(t *testing.T, c Cluster, jobs []Job, cfg Config) *Outcome {
	t.Helper()
	o, err := Run(context.Background(), c, jobs, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }

// One GPU of 16 GiB. The guaranteed job a is busy for 0.6 of the time, the opportunistic job b for
// 0.8. Managed, b runs at 0.4 / 0.8 = 0.5 beside a until 100 s, and then alone: it has done 50 of
// 90 s and ends at 140 s. With 10 GiB each, 4 of the 10 GiB of b are on the host, and b is slower by
// 1.4: it has done 35.7 s by 100 s. Unmanaged, both run at 1 / 1.4; b ends at 126 s, when a has done
// 90 s, and a at 136 s. Exclusive, b waits for a and ends at 190 s.
func TestSharingByHand(t *testing.T) {
	jobs := func(gib float64) []Job {
		return []Job{{ID: "a", GPUs: 1, WorkS: 100, Busy: .6, MemoryGiB: gib},
			{ID: "b", GPUs: 1, WorkS: 90, Busy: .8, MemoryGiB: gib, Opportunistic: true}}
	}
	c := Cluster{Nodes: 1, NodeGPUs: 1, MemoryGiB: 16}
	for _, h := range []struct {
		name string
		gib  float64
		cfg  Config
		ends [2]float64
		busy float64
	}{
		{"managed", 8, Config{}, [2]float64{100, 140}, (100 + 40*.8) / 140},
		{"host memory", 10, Config{}, [2]float64{100, 190 - 50/1.4}, (100*(.6+.4/1.4) + (90-50/1.4)*.8) / (190 - 50/1.4)},
		{"host memory is free", 10, Config{HostSlowdown: -1}, [2]float64{100, 140}, (100 + 40*.8) / 140},
		{"unmanaged", 8, Config{Sharing: Unmanaged}, [2]float64{136, 126}, (126 + 10*.6) / 136},
		{"unmanaged, no memory", 10, Config{Sharing: Unmanaged}, [2]float64{100, 190}, (60 + 72) / 190.},
		{"exclusive", 8, Config{Sharing: Exclusive}, [2]float64{100, 190}, (60 + 72) / 190.},
		{"too busy", 8, Config{MaxBusy: .5}, [2]float64{100, 190}, (60 + 72) / 190.},
		{"interference", 8, Config{Interference: .25}, [2]float64{125, 215 - 125*.8*.52/.8}, math.NaN()},
	} {
		o := play(t, c, jobs(h.gib), h.cfg)
		for i, want := range h.ends {
			if got := o.Records[i].EndS; !near(got, want) {
				t.Errorf("%s: job %d ends at %v s, by hand %v", h.name, i, got, want)
			}
		}
		if !math.IsNaN(h.busy) && !near(o.Busy, h.busy) {
			t.Errorf("%s: busy %v, by hand %v", h.name, o.Busy, h.busy)
		}
	}
}

// Two nodes of two GPUs. A guaranteed job of one GPU takes the first node, one of two GPUs the
// second, although three are free, and one of three waits. A guaranteed job that needs more than a
// node has takes the node with the most free GPUs first.
func TestPlacementByHand(t *testing.T) {
	c := Cluster{Nodes: 2, NodeGPUs: 2, MemoryGiB: 16}
	jobs := []Job{{ID: "a", GPUs: 1, WorkS: 10, Busy: 1}, {ID: "b", GPUs: 2, WorkS: 20, Busy: 1},
		{ID: "c", GPUs: 3, WorkS: 5, Busy: 1}, {ID: "d", GPUs: 1, WorkS: 1, Busy: 1}}
	o := play(t, c, jobs, Config{})
	for i, want := range []float64{0, 0, 20, 20} {
		if got := o.Records[i].StartS; got != want {
			t.Errorf("job %d starts at %v s, by hand %v", i, got, want)
		}
	}
	r := newRun(c, jobs, Config{Sharing: Managed})
	r.gpus[0].guaranteed = 0
	if got := r.own(2); !reflect.DeepEqual(got, []int{2, 3, 1}) {
		t.Errorf("three GPUs are %v", got)
	}
	if got := r.own(3); !reflect.DeepEqual(got, []int{1}) {
		t.Errorf("one GPU is %v", got)
	}
}

// workload draws jobs.
func workload(rng *rand.Rand, n int) []Job {
	jobs, nowS := make([]Job, n), 0.
	for i := range jobs {
		nowS += rng.ExpFloat64() * 30
		jobs[i] = Job{ID: fmt.Sprint(i), ArrivalS: nowS, GPUs: 1 << rng.IntN(4), WorkS: 1 + rng.ExpFloat64()*300,
			Busy: .2 + .8*rng.Float64(), MemoryGiB: 16 * rng.Float64(), Opportunistic: rng.IntN(2) == 0}
	}
	return jobs
}

// Under Managed without interference, guaranteed jobs start and end as if there were no others, and
// every job ends. With interference they start later, but each is slowed by no more than it.
func TestGuarantee(t *testing.T) {
	c := Cluster{Nodes: 3, NodeGPUs: 4, MemoryGiB: 16}
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		jobs := workload(rng, 60)
		var own []Job
		for _, j := range jobs {
			if !j.Opportunistic {
				own = append(own, j)
			}
		}
		cfg := Config{Opportunists: 1 + int(seed%3)}
		alone := map[string]Record{}
		for _, r := range play(t, c, own, cfg).Records {
			alone[r.ID] = r
		}
		shared := play(t, c, jobs, cfg)
		for _, r := range shared.Records {
			if w, ok := alone[r.ID]; ok && (!near(r.StartS, w.StartS) || !near(r.EndS, w.EndS)) {
				t.Errorf("seed %d: job %s runs from %v to %v s, and alone from %v to %v", seed, r.ID, r.StartS, r.EndS,
					w.StartS, w.EndS)
			}
			if r.EndS < r.StartS || r.StartS < r.ArrivalS || r.Slowdown < 1-1e-9 {
				t.Errorf("seed %d: %+v", seed, r)
			}
		}
		if !reflect.DeepEqual(shared, play(t, c, jobs, cfg)) {
			t.Errorf("seed %d: a second run differs", seed)
		}
		cfg.Interference = .1
		for _, r := range play(t, c, jobs, cfg).Records {
			if !r.Opportunistic && r.Slowdown > 1.1+1e-9 {
				t.Errorf("seed %d: interference of 10 %% slows job %s by %v", seed, r.ID, r.Slowdown)
			}
		}
		if shared.Busy > 1 || shared.Memory > 1 {
			t.Errorf("seed %d: use %v and %v", seed, shared.Busy, shared.Memory)
		}
	}
}

// Without sharing, the busy time is that of the jobs alone.
func TestBusyAdds(t *testing.T) {
	c := Cluster{Nodes: 2, NodeGPUs: 4, MemoryGiB: 16}
	jobs := workload(rand.New(rand.NewPCG(9, 9)), 50)
	for _, sharing := range []Sharing{Exclusive, Managed} {
		o := play(t, c, jobs, Config{Sharing: sharing})
		want := 0.
		for _, j := range jobs {
			want += j.Busy * j.WorkS * float64(j.GPUs)
		}
		if got := o.Busy * o.MakespanS * 8; !near(got, want) {
			t.Errorf("%s: %v busy GPU-seconds, the jobs have %v", sharing, got, want)
		}
	}
}

// A fast GPU of 16 GiB and two slow ones of 8 GiB, on nodes of their own. Guaranteed jobs a and b take the fast GPU
// and a slow one, although b is four times slower there; c needs two GPUs, of which only the slow type has two, and
// waits for b; d needs 10 GiB and waits for a. The opportunistic job e joins the fast GPU, where the least time is
// left, but not before d is there: jobs are served in the order of arrival, and a leaves it 0.5 of the GPU.
func TestUnlikeGPUsByHand(t *testing.T) {
	c := Cluster{Unlike: []Node{{0, 1, 16}, {1, 1, 8}, {1, 1, 8}}}
	jobs := []Job{
		{ID: "a", GPUs: 1, WorkByType: []float64{10, 40}, Busy: .5, MemoryGiB: 4},
		{ID: "b", GPUs: 1, WorkByType: []float64{10, 40}, Busy: .5, MemoryGiB: 4},
		{ID: "c", GPUs: 2, WorkByType: []float64{10, 30}, Busy: .5, MemoryGiB: 4},
		{ID: "d", GPUs: 1, WorkByType: []float64{5, 20}, Busy: .5, MemoryGiB: 10},
		{ID: "e", GPUs: 1, WorkByType: []float64{6, 0}, Busy: .5, MemoryGiB: 4, Opportunistic: true},
	}
	o := play(t, c, jobs, Config{})
	for i, want := range []struct{ start, end float64 }{{0, 10}, {0, 40}, {40, 70}, {40, 45}, {0, 6}} {
		if r := o.Records[i]; !near(r.StartS, want.start) || !near(r.EndS, want.end) || !near(r.Slowdown, 1) {
			t.Errorf("%s runs from %v to %v, by hand %v, slowdown %v", r.ID, r.StartS, r.EndS, want, r.Slowdown)
		}
	}
	if o.Switches != 3 { // e on the GPU of a, d on that of e, and c on that of b
		t.Errorf("%d switches", o.Switches)
	}
	if !near(o.HeldS[0], 10+5) || !near(o.HeldS[1], 40+60) {
		t.Errorf("held %v", o.HeldS)
	}
}

func TestRefusals(t *testing.T) {
	ok := Job{ID: "a", GPUs: 1, WorkS: 1, Busy: 1}
	c := Cluster{Nodes: 1, NodeGPUs: 1, MemoryGiB: 16}
	bad := func(change func(*Job)) []Job {
		j := ok
		change(&j)
		return []Job{j}
	}
	for name, jobs := range map[string][]Job{
		"wide":   bad(func(j *Job) { j.GPUs = 2 }),
		"none":   bad(func(j *Job) { j.GPUs = 0 }),
		"work":   bad(func(j *Job) { j.WorkS = 0 }),
		"busy":   bad(func(j *Job) { j.Busy = 1.5 }),
		"memory": bad(func(j *Job) { j.MemoryGiB = 17 }),
		"nan":    bad(func(j *Job) { j.ArrivalS = math.NaN() }),
		"types":  bad(func(j *Job) { j.WorkByType = []float64{0, 1} }),
		"time":   bad(func(j *Job) { j.WorkByType = []float64{-1} }),
		"order":  {{ID: "a", ArrivalS: 2, GPUs: 1, WorkS: 1, Busy: 1}, ok},
	} {
		if _, err := Run(context.Background(), c, jobs, Config{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, cfg := range []Config{{Sharing: "x"}, {MaxBusy: 2}, {Interference: -1}, {HostSlowdown: 1e9},
		{Opportunists: -1}} {
		if _, err := Run(context.Background(), c, []Job{ok}, cfg); err == nil {
			t.Errorf("%+v: no error", cfg)
		}
	}
	for _, c := range []Cluster{{}, {Nodes: 1, NodeGPUs: 1}, {Nodes: 1 << 20, NodeGPUs: 2, MemoryGiB: 1},
		{Unlike: []Node{}}, {Unlike: []Node{{-1, 1, 1}}}, {Unlike: []Node{{0, 0, 1}}}, {Unlike: []Node{{0, 1, 0}}}} {
		if _, err := Run(context.Background(), c, []Job{ok}, Config{}); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, c, []Job{ok}, Config{}); err == nil {
		t.Error("a cancelled run goes on")
	}
}
