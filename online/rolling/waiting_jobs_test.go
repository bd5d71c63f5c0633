package rolling

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/list"
)

// Jobs that wait in groups start as they do where a schedule looks at all of them.
func TestWaitingJobsAgainstAll(t *testing.T) {
	starts := 0
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3))
		cluster := &hare.Cluster{}
		for i := range 1 + rng.IntN(4) {
			cluster.Nodes = append(cluster.Nodes, hare.Node{Name: fmt.Sprint("n", i),
				GPUs: []hare.TypeCount{{Type: string(rune('A' + rng.IntN(3))), Count: 1 + rng.IntN(5)}}})
		}
		whole := HGittinsConfig{}.Rule()
		whole.Version = nil
		fast, slow := NewHGittins(cluster, HGittinsConfig{}), list.New(cluster, whole)
		s := &stream{tb: t, rng: rng, fast: fast, slow: slow, left: map[string]int64{}}
		for range 1500 {
			s.step()
		}
		starts += s.starts
	}
	if starts < 10_000 {
		t.Errorf("only %d starts", starts)
	}
}

// stream sends random events to two schedulers that should decide alike.
type stream struct {
	tb         testing.TB
	rng        *rand.Rand
	fast, slow *list.Scheduler
	left       map[string]int64 // rounds by job
	jobs       []string
	running    []hare.Decision
	away       []hare.Event // GPUs that have left, as events that bring them back
	serial     int
	starts     int
	nowUs      int64
}

func (s *stream) step() {
	s.nowUs += s.rng.Int64N(3) * 1e5
	x := s.rng.IntN(100)
	switch {
	case len(s.running) > 0 && x < 75:
		at := s.rng.IntN(len(s.running))
		d := s.running[at]
		e := hare.Event{Type: hare.EventTaskEnded, Job: d.Job, Round: d.Round, Task: d.Task, GPU: d.GPU, ComputeUs: 1e6}
		if x < 3 {
			e = hare.Event{Type: hare.EventTaskFailed, Job: d.Job, Round: d.Round, Task: d.Task, GPU: d.GPU}
		}
		s.running = slices.Delete(s.running, at, at+1)
		round := s.fast.Job(d.Job).Round()
		s.send(e)
		if j := s.fast.Job(d.Job); j.Round() > round {
			if s.left[d.Job]--; s.left[d.Job] <= 0 {
				s.end(d.Job, hare.EventJobEnded)
			}
		}
	case len(s.jobs) < 40 && x < 93:
		s.arrive()
	case len(s.jobs) > 0 && x < 95:
		s.end(s.jobs[s.rng.IntN(len(s.jobs))], hare.EventJobCancelled)
	case len(s.away) > 0 && x < 98:
		e := s.away[0]
		s.away = s.away[1:]
		s.send(e)
	case len(s.away) < 3:
		g := s.fast.Slots()[s.rng.IntN(len(s.fast.Slots()))]
		if g.InService {
			s.send(hare.Event{Type: hare.EventGPULeft, GPU: g.Name})
			s.away = append(s.away, hare.Event{Type: hare.EventGPUJoined, GPU: g.Name, GPUType: s.fast.Types()[g.Type]})
		}
	}
}

func (s *stream) arrive() {
	s.serial++
	j := &hare.Job{ID: fmt.Sprint("j", s.serial), WeightMicro: s.rng.Int64N(3) * 1e6, Tasks: 1 + s.rng.Int64N(6),
		Sync: []hare.Sync{hare.Gang, hare.Rigid, hare.Relaxed}[s.rng.IntN(3)]}
	j.Mix = j.Sync == hare.Gang && s.rng.IntN(3) == 0
	for _, k := range []string{"A", "B", "C"} {
		if len(j.On) == 0 || s.rng.IntN(3) > 0 {
			j.On = append(j.On, hare.Profile{Type: k, ComputeUs: 1e5 * (1 + s.rng.Int64N(30))})
		}
	}
	s.left[j.ID] = 1 + s.rng.Int64N(10)
	s.jobs = append(s.jobs, j.ID)
	s.send(hare.Event{Type: hare.EventJobArrived, Arrived: j})
}

func (s *stream) end(job string, how hare.EventType) {
	s.jobs = slices.DeleteFunc(s.jobs, func(id string) bool { return id == job })
	s.send(hare.Event{Type: how, Job: job})
	s.running = slices.DeleteFunc(s.running, func(d hare.Decision) bool { return d.Job == job })
}

func (s *stream) send(e hare.Event) {
	a, err := s.fast.Step(s.nowUs, []hare.Event{e})
	if err != nil {
		s.tb.Fatalf("%+v: %v", e, err)
	}
	b, err := s.slow.Step(s.nowUs, []hare.Event{e})
	if err != nil {
		s.tb.Fatalf("%+v: %v", e, err)
	}
	if !slices.Equal(a, b) {
		s.tb.Fatalf("after %+v\nthe groups decide %v\nall jobs decide   %v", e, a, b)
	}
	for _, d := range a {
		if d.Type == hare.DecisionStart {
			s.starts++
			s.running = append(s.running, d)
			continue
		}
		s.running = slices.DeleteFunc(s.running, func(o hare.Decision) bool {
			return o.Job == d.Job && o.Round == d.Round && o.Task == d.Task
		})
	}
}
