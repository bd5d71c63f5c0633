package elastic

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// table is a training whose steps take stepS[GPUs] for any batch, all of it synchronisation.
// Each epoch takes epochSteps.
type table struct {
	stepS      []float64
	epochSteps float64
}

func (m *table) Step(placement []int, _ int) (stepS, syncS float64, err error) {
	n := 0
	for _, g := range placement {
		n += g
	}
	if n >= len(m.stepS) {
		return 0, 0, fmt.Errorf("%d GPUs were not measured", n)
	}
	return m.stepS[n], m.stepS[n], nil
}

func (m *table) Epoch(_, epoch int) (gain, endProgress, endSteps float64, err error) {
	steps := m.epochSteps * float64(epoch+1)
	return 1, steps, steps, nil
}

// elastic returns a job of three epochs that asks for a number of GPUs.
func elastic(number, gpus int, training Training, held ...NodeGPUs) View {
	return View{Number: number, Held: held, Job: &Job{
		ID: fmt.Sprint(number), Weight: 1, GPUs: gpus, MaxGPUs: 64, Batch: 64, Epochs: 3,
		Limits: BatchLimits{Init: 64, Max: 64, MaxLocal: 64}, Training: training,
	}}
}

func allocate(t *testing.T, p Policy, s *State, want ...[]NodeGPUs) {
	t.Helper()
	got, err := p.Allocate(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range max(len(want), len(got)) {
		if len(got) != len(want) || !slices.Equal(got[i], want[i]) {
			t.Errorf("at %v s: %v, by hand %v", s.NowS, got, want)
			return
		}
	}
	for i := range s.Jobs {
		s.Jobs[i].Held = got[i]
	}
}

func at(nodes ...int) []NodeGPUs {
	var held []NodeGPUs
	for i := 0; i < len(nodes); i += 2 {
		held = append(held, NodeGPUs{Node: nodes[i], GPUs: nodes[i+1]})
	}
	return held
}

// A has 10 steps left after its first epoch, and B has 20. Each gets one GPU. The third GPU would
// save A (10 − 6) · 10 = 40 s and B (8 − 5) · 20 = 60 s, so B gets it. The fourth would save A
// 40 s and B (5 − 4.5) · 20 = 10 s, so A gets it. The fifth would save A (6 − 5) · 10 = 10 s and B
// as much, so A, which is first, gets it. The sixth would save B 10 s and A (5 − 4.9) · 10 = 1 s,
// so B gets it. A further GPU would cost B time, so A gets the seventh. The eighth would help no
// job.
func TestPolluxOptimusWidths(t *testing.T) {
	a := &table{[]float64{0, 10, 6, 5, 4.9, 4.9, 4.9, 4.9, 4.9}, 5}
	b := &table{[]float64{0, 8, 5, 4.5, 4.6, 4, 4, 4, 4}, 10}
	for i, want := range [][2]int{{1, 0}, {1, 1}, {1, 2}, {2, 2}, {3, 2}, {3, 3}, {4, 3}, {4, 3}} {
		gpus := i + 1
		s := &State{Nodes: []int{gpus}, Jobs: []View{elastic(0, 1, a), elastic(1, 1, b)}}
		got, err := new(optimus).widths(s)
		if err != nil || got[0] != want[0] || got[1] != want[1] {
			t.Errorf("%d GPUs: widths %v, by hand %v; %v", gpus, got, want, err)
		}
	}
	// In its last epoch, one step of B counts, so a second GPU would save B 3 s and A 40 s.
	s := &State{Nodes: []int{3}, Jobs: []View{elastic(0, 1, a), elastic(1, 1, b)}}
	s.Jobs[1].Epoch = 2
	if got, err := new(optimus).widths(s); err != nil || got[0] != 2 || got[1] != 1 {
		t.Errorf("last epoch: widths %v; %v", got, err)
	}
	// A job gets no more GPUs than its batch can be divided over.
	s.Jobs[0].MaxGPUs, s.Nodes = 1, []int{8}
	if got, err := new(optimus).widths(s); err != nil || got[0] != 1 || got[1] != 3 {
		t.Errorf("narrow: widths %v; %v", got, err)
	}
}

// Two jobs of 3 and 1 GPUs are placed on nodes of 2. The narrow job is placed first, on node 0.
// The wide job gets node 1, which has the most free GPUs, and the other GPU of node 0. When a
// third job arrives, the jobs have 2, 1 and 1 GPUs. The second keeps its GPU. Of the jobs that
// change, the new one is narrower and gets the first GPU of node 1; the first job gets what is
// left, on two nodes.
func TestPolluxOptimusPlacement(t *testing.T) {
	wide := &table{[]float64{0, 10, 6, 5, 4.9}, 5}
	flat := &table{[]float64{0, 1, 1, 1, 1}, 5}
	p := newOptimus(false, 0)
	s := &State{Nodes: []int{2, 2}, Jobs: []View{elastic(0, 1, wide), elastic(1, 1, flat)}}
	allocate(t, p, s, at(1, 2, 0, 1), at(0, 1))
	s.Jobs = append(s.Jobs, elastic(2, 1, flat))
	allocate(t, p, s, at(0, 1, 1, 1), at(0, 1), at(1, 1))
}

// Jobs of 3, 2 and 1 GPUs are placed on 4 GPUs. The second does not fit and is passed over. After
// 19,200 s the first job has had 57,600 GPU-seconds and moves to the lower queue. The second now
// comes first and runs beside the third; the first no longer fits.
func TestPolluxTiresias(t *testing.T) {
	p := newPolluxTiresias(0)
	s := &State{Nodes: []int{2, 2}, Jobs: []View{elastic(0, 3, nil), elastic(1, 2, nil),
		elastic(2, 1, nil)}}
	s.NowS = 60
	allocate(t, p, s, at(0, 2, 1, 1), nil, at(1, 1))
	s.NowS = 60 + 19140
	allocate(t, p, s, at(0, 2, 1, 1), nil, at(1, 1))
	s.NowS = 60 + 19200
	allocate(t, p, s, nil, at(0, 2), at(1, 1))
	// The second job ends. The first runs again, and a job that arrives is placed before it.
	s.Jobs = []View{s.Jobs[0], s.Jobs[2], elastic(3, 2, nil)}
	s.NowS += 60
	allocate(t, p, s, nil, at(1, 1), at(0, 2))
	s.Jobs = s.Jobs[:2]
	s.NowS += 60
	allocate(t, p, s, at(0, 2, 1, 1), at(1, 1))
}

// Time without GPUs does not count as executed.
func TestPolluxTiresiasWaits(t *testing.T) {
	p := newPolluxTiresias(0)
	s := &State{NowS: 60, Nodes: []int{4}, Jobs: []View{elastic(0, 4, nil), elastic(1, 4, nil)}}
	allocate(t, p, s, at(0, 4), nil)
	s.NowS = 60 + 14400 // the first job moves to the lower queue
	allocate(t, p, s, nil, at(0, 4))
	s.NowS += 14399 // the second job is one second below the threshold
	allocate(t, p, s, nil, at(0, 4))
	s.NowS++ // the second job moves to the lower queue, behind the first
	allocate(t, p, s, at(0, 4), nil)
	s.NowS += 1e6
	allocate(t, p, s, at(0, 4), nil)
}

// A has 10 steps to do and is young, so a second GPU saves it 0.95 · (10 − 6) · 10 = 38 s. B is at
// the start of its second epoch of 6.5 steps, so a second GPU saves it (8 − 5) · 13 = 39 s, and B
// gets the third GPU. Pollux's variant counts (10 − 6) · 20/3 = 26.7 s and (8 − 5) · 6.5 = 19.5 s.
// If both jobs are young and B's epochs have 3 steps, the GPU saves B 0.95 · 3 · 9 = 25.65 s.
func TestOptimusYoung(t *testing.T) {
	a := &table{[]float64{0, 10, 6, 5}, 10. / 3}
	b := &table{[]float64{0, 8, 5, 4.5}, 6.5}
	s := &State{Nodes: []int{3}, Jobs: []View{elastic(0, 1, a), elastic(1, 1, b)}}
	s.Jobs[1].Epoch = 1
	for i, c := range []struct {
		paper bool
		want  [2]int
	}{{true, [2]int{1, 2}}, {false, [2]int{2, 1}}} {
		got, err := newOptimus(c.paper, 0).widths(s)
		if err != nil || got[0] != c.want[0] || got[1] != c.want[1] {
			t.Errorf("%d: widths %v, by hand %v; %v", i, got, c.want, err)
		}
	}
	b.epochSteps, s.Jobs[1].Epoch = 3, 0
	if got, err := newOptimus(true, 0).widths(s); err != nil || got[0] != 2 || got[1] != 1 {
		t.Errorf("both young: widths %v; %v", got, err)
	}
}

// Six GPUs on two nodes of four are divided into three and three; Pollux would take four and two.
// Five GPUs on nodes with 2, 4 and 4 free GPUs are 3 and 2 of the last two nodes. On nodes with 1
// and 4 free GPUs, five GPUs cannot be divided evenly.
func TestOptimusEvenParts(t *testing.T) {
	for _, c := range []struct {
		free []int
		gpus int
		want []NodeGPUs
		left []int
	}{
		{[]int{4, 4}, 6, at(0, 3, 1, 3), []int{1, 1}},
		{[]int{2, 4, 4}, 5, at(1, 3, 2, 2), []int{2, 1, 2}},
		{[]int{2, 4, 4}, 4, at(1, 4), []int{2, 0, 4}},
		{[]int{1, 4}, 5, at(1, 4, 0, 1), []int{0, 0}},
		{[]int{2, 2, 2}, 5, at(0, 2, 1, 2, 2, 1), []int{0, 0, 1}},
		{[]int{3}, 0, nil, []int{3}},
	} {
		free := slices.Clone(c.free)
		if got := evenParts(free, c.gpus); !slices.Equal(got, c.want) || !slices.Equal(free, c.left) {
			t.Errorf("%d of %v: %v, left %v; by hand %v, %v", c.gpus, c.free, got, free, c.want, c.left)
		}
	}
	if got := mostFree([]int{4, 4}, 6); !slices.Equal(got, at(0, 4, 1, 2)) {
		t.Errorf("most free: %v", got)
	}
}
