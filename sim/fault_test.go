package sim_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// nodes returns the nodes a, b, … with the given numbers of GPUs of type A.
func nodes(counts ...int) hare.Cluster {
	c := hare.Cluster{}
	for i, n := range counts {
		c.Nodes = append(c.Nodes, hare.Node{Name: string(rune('a' + i)),
			GPUs: []hare.TypeCount{{Type: "A", Count: n}}})
	}
	return c
}

func onA(computeUs, syncUs int64) []hare.Profile {
	return []hare.Profile{{Type: "A", ComputeUs: computeUs, SyncUs: syncUs}}
}

// constantStretch multiplies all compute times by itself.
type constantStretch float64

func (cs constantStretch) Draw(*rand.Rand) float64 { return float64(cs) }

func fifo(t testing.TB, inst *hare.Instance) online.Policy {
	t.Helper()
	p, err := online.NewFIFO(sim.Cluster(inst))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The outcomes of small instances under fifo are computed by hand.
func TestVariedByHand(t *testing.T) {
	type want struct {
		ends                                       string // the ends of jobs, in seconds
		lostUs, downUs, switchUs, switches, varied int64
		use                                        float64
	}
	bytes := func(*hare.Job) int64 { return 1e9 }
	network := sim.Network{InterBytesPerS: 1e9, IntraBytesPerS: 4e9, Bytes: bytes}
	for _, c := range []struct {
		name    string
		cluster hare.Cluster
		jobs    []hare.Job
		cfg     sim.Config
		want    want
	}{
		// 1 s is lost. The rounds then run from 3 to 5 and from 5 to 7, in 5 s of service.
		{"a GPU out", nodes(1), []hare.Job{{ID: "j", Rounds: 2, Tasks: 1, On: onA(2e6, 0)}},
			sim.Config{Faults: []sim.Fault{{GPU: "a/0", FromUs: 1e6, UntilUs: 3e6}}}, want{"7", 1e6, 2e6, 0, 0, 0,
				0.8}},
		// Two faults that touch are one fault. The round runs from 4 to 6.
		{"touching faults", nodes(1), []hare.Job{{ID: "j", Rounds: 1, Tasks: 1, On: onA(2e6, 0)}},
			sim.Config{Faults: []sim.Fault{{GPU: "a/0", FromUs: 2e6, UntilUs: 4e6},
				{Node: "a", FromUs: 1e6, UntilUs: 2e6}}}, want{"6", 1e6, 3e6, 0, 0, 0, 2. / 3}},
		// The GPU is out of service at the start.
		{"out at 0", nodes(1), []hare.Job{{ID: "j", Rounds: 1, Tasks: 1, On: onA(2e6, 0)}},
			sim.Config{Faults: []sim.Fault{{GPU: "a/0", FromUs: 0, UntilUs: 1e6}}}, want{"3", 0, 1e6, 0, 0, 0, 1}},
		// The node has both GPUs of a gang. The first round runs from 0 to 2; the second runs from
		// 2 to 3, is lost, and runs again from 4 to 6.
		{"a node out", nodes(2), []hare.Job{{ID: "j", Rounds: 2, Tasks: 2, Sync: hare.Gang, On: onA(2e6, 0)}},
			sim.Config{Faults: []sim.Fault{{Node: "a", FromUs: 3e6, UntilUs: 4e6}}}, want{"6", 2e6, 2e6, 0, 0, 0,
				0.8}},
		// After the first round one GPU never returns, and the other GPU does the rest.
		{"for ever", nodes(1, 1), []hare.Job{{ID: "j", Rounds: 2, Tasks: 2, On: onA(2e6, 0)}},
			sim.Config{Faults: []sim.Fault{{Node: "b", FromUs: 2e6, UntilUs: hare.Forever}}}, want{"6", 0, 4e6, 0, 0,
				0, 1}},
		// y begins half a second after x has ended.
		{"switch", nodes(1), []hare.Job{{ID: "x", Rounds: 2, Tasks: 1, On: onA(1e6, 0)},
			{ID: "y", Rounds: 2, Tasks: 1, On: onA(1e6, 0)}},
			sim.Config{SwitchUs: 500_000}, want{"2 4.5", 0, 0, 500_000, 1, 0, 4 / 4.5}},
		// The gang waits for the GPU that switches from x, and both GPUs lose the time.
		{"gang switch", nodes(2), []hare.Job{{ID: "x", Rounds: 1, Tasks: 1, On: onA(1e6, 0)},
			{ID: "y", Rounds: 2, Tasks: 2, Sync: hare.Gang, On: onA(1e6, 1e6)}},
			sim.Config{SwitchUs: 500_000}, want{"1 5.5", 0, 0, 1e6, 1, 0, 9. / 11}},
		// The time of a switch depends on the job and the type.
		{"switch of a job", nodes(1), []hare.Job{{ID: "x", Rounds: 1, Tasks: 1, On: onA(1e6, 0)},
			{ID: "y", Rounds: 1, Tasks: 1, On: onA(1e6, 0)}, {ID: "z", Rounds: 1, Tasks: 1, On: onA(1e6, 0)}},
			sim.Config{SwitchOfUs: func(j *hare.Job, kind string) int64 {
				return map[string]int64{"yA": 2e6, "zA": 3e6}[j.ID+kind]
			}}, want{"1 4 8", 0, 0, 5e6, 2, 0, 3. / 8}},
		// The GPU fails while it switches, so 1 to 1.2 is lost to the switch. When the GPU returns
		// at 2, y needs no switch.
		{"out in a switch", nodes(1), []hare.Job{{ID: "x", Rounds: 1, Tasks: 1, On: onA(1e6, 0)},
			{ID: "y", Rounds: 1, Tasks: 1, On: onA(1e6, 0)}},
			sim.Config{SwitchUs: 500_000, Faults: []sim.Fault{{GPU: "a/0", FromUs: 1_200_000,
				UntilUs: 2e6}}}, want{"1 3", 0, 800_000, 200_000, 1, 0, 2 / 2.2}},
		// The network adds 2 · 1/2 · 1e9 · (1/1e9 − 1/4e9) = 0.75 s to each round.
		{"network, gang", nodes(1, 1), []hare.Job{{ID: "j", Rounds: 2, Tasks: 2, Sync: hare.Gang,
			On: onA(1e6, 500_000)}},
			sim.Config{Network: network}, want{"4.5", 0, 0, 0, 0, 4, 1}},
		{"network, one node", nodes(2), []hare.Job{{ID: "j", Rounds: 2, Tasks: 2, Sync: hare.Gang,
			On: onA(1e6, 500_000)}},
			sim.Config{Network: network}, want{"3", 0, 0, 0, 0, 0, 1}},
		{"network, one task", nodes(1, 1), []hare.Job{{ID: "j", Rounds: 2, Tasks: 1, Sync: hare.Gang,
			On: onA(1e6, 500_000)}},
			sim.Config{Network: network}, want{"3", 0, 0, 0, 0, 0, 0.5}},
		// The first task of the round takes no longer, and the other task takes 0.75 s longer.
		{"network, relaxed", nodes(1, 1), []hare.Job{{ID: "j", Rounds: 2, Tasks: 2, On: onA(1e6, 500_000)}},
			sim.Config{Network: network}, want{"4.5", 0, 0, 0, 0, 2, 4. / 9}},
		// Compute takes three times as long; synchronisation takes as long as before.
		{"stretch", nodes(1), []hare.Job{{ID: "j", Rounds: 2, Tasks: 1, Sync: hare.Gang, On: onA(1e6, 500_000)}},
			sim.Config{Stretch: constantStretch(3)}, want{"7", 0, 0, 0, 0, 2, 1}},
	} {
		inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: c.cluster, Jobs: c.jobs}
		totals := newReplay(inst, c.cfg)
		if c.cfg.Log = totals.record; c.cfg.SwitchOfUs != nil {
			c.cfg.Log = nil
		}
		out, err := sim.Run(t.Context(), inst, fifo(t, inst), c.cfg)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var ends []string
		for _, j := range out.Jobs {
			ends = append(ends, hare.FormatMicros(j.EndUs))
		}
		got := want{strings.Join(ends, " "), out.LostUs, int64(out.DownUs), out.SwitchUs, out.Switches, out.Varied,
			out.Use[0].Use}
		if math.Abs(got.use-c.want.use) < 1e-12 {
			got.use = c.want.use
		}
		if got != c.want {
			t.Errorf("%s: %+v, by hand %+v", c.name, got, c.want)
		}
		if c.cfg.Log != nil {
			totals.check(t, out)
		}
		if m := out.Metrics(inst); m.DownS*1e6 != float64(c.want.downUs) ||
			math.Abs(m.Utilization-c.want.use) > 1e-9 || m.SwitchS*1e6 != float64(c.want.switchUs) {
			t.Errorf("%s: metrics %+v", c.name, m)
		}
		if (out.Schedule == nil) != (c.want.varied > 0) {
			t.Errorf("%s: schedule %v", c.name, out.Schedule)
		}
		if out.Schedule == nil {
			continue
		}
		res, err := out.Result(inst, nil)
		if err != nil {
			t.Fatal(err)
		}
		if rep := verify.Check(inst, res); !rep.OK {
			t.Errorf("%s: %v", c.name, rep)
		}
	}
}

func TestFaultsRefused(t *testing.T) {
	inst := &hare.Instance{Cluster: nodes(2, 1), Jobs: []hare.Job{{ID: "j", Rounds: 1, Tasks: 1, On: onA(1e6, 0)}}}
	inst.Cluster.Nodes = append(inst.Cluster.Nodes,
		hare.Node{Name: "w", GPUs: []hare.TypeCount{{Type: "A", Count: 1}},
			Windows: []hare.Window{{StartUs: 1e6, EndUs: 5e6}, {StartUs: 9e6, EndUs: hare.Forever}}},
		hare.Node{Name: "busy", GPUs: []hare.TypeCount{{Type: "A", Count: 1}},
			Busy: []hare.Busy{{GPU: 0, UntilUs: 4e6}}})
	bytes := func(*hare.Job) int64 { return 1 }
	for want, cfg := range map[string]sim.Config{
		`/faults/0: a fault names either a GPU or a node (bad_value)`: {Faults: []sim.Fault{
			{UntilUs: 1}}},
		`/faults/0: a fault names either`: {Faults: []sim.Fault{
			{GPU: "a/0", Node: "a", UntilUs: 1}}},
		`/faults/0: there is no GPU "a/2" in the cluster`: {Faults: []sim.Fault{
			{GPU: "a/2", UntilUs: 1}}},
		`/faults/0: there is no node "c" with GPUs`: {Faults: []sim.Fault{
			{Node: "c", UntilUs: 1}}},
		`/faults/1: GPU "a/1": the fault from 2 to 1.5 s: it must begin at 0 s or later and end`: {Faults: []sim.Fault{
			{GPU: "a/0", UntilUs: 1}, {GPU: "a/1", FromUs: 2e6, UntilUs: 1.5e6}}},
		`/faults/2: GPU "a/1": the fault from 2 to 4 s (entry 0) overlaps the fault from 3 to 5 s`: {Faults: []sim.Fault{
			{GPU: "a/1", FromUs: 2e6, UntilUs: 4e6}, {GPU: "a/0", FromUs: 1, UntilUs: hare.Forever},
			{GPU: "a/1", FromUs: 3e6, UntilUs: 5e6}}},
		`/faults/1: GPU "a/0": the fault from 3 s on (entry 1) overlaps the fault from 9 to 10 s`: {Faults: []sim.Fault{
			{GPU: "a/0", FromUs: 9e6, UntilUs: 1e7}, {Node: "a", FromUs: 3e6, UntilUs: hare.Forever}}},
		`/faults/0: GPU "w/0": the fault from 4 to 6 s is not within one of the GPU's times in service, from 1 to 5 s,` +
			` from 9 s on`: {Faults: []sim.Fault{{GPU: "w/0", FromUs: 4e6, UntilUs: 6e6}}},
		`/faults/0: GPU "busy/0": the fault from 3 to 6 s is not within one of the GPU's times in service,` +
			` from 4 s on`: {Faults: []sim.Fault{{GPU: "busy/0", FromUs: 3e6, UntilUs: 6e6}}},
		`/fault_rate: a GPU fails every 5 s for 0 s`:  {FaultRate: sim.FaultRate{GPUMeanUs: 5e6}},
		`/fault_rate: a node fails every 0 s for 1 s`: {FaultRate: sim.FaultRate{NodeRepairUs: 1e6}},
		`/failures/probability: 1 must be`:            {Failures: sim.FailureRate{Probability: 1}},
		`/failures/per_gpu_hour: -1 must be`:          {Failures: sim.FailureRate{PerGPUHour: -1}},
		`/failures/per_gpu_hour: NaN must be`:         {Failures: sim.FailureRate{PerGPUHour: math.NaN()}},
		`/switch_s: -0.000001 must not be negative`:   {SwitchUs: -1},
		`/network: a network needs the bytes`:         {Network: sim.Network{InterBytesPerS: 1}},
		`/network: 1 bytes/s inside a node are less than 2 between`: {
			Network: sim.Network{InterBytesPerS: 2, IntraBytesPerS: 1, Bytes: bytes}},
		`/network: -2 and 1 bytes/s`: {
			Network: sim.Network{InterBytesPerS: -2, IntraBytesPerS: 1, Bytes: bytes}},
	} {
		out, err := sim.Run(t.Context(), inst, silent{}, cfg)
		if bad, ok := errors.AsType[*hare.InvalidError](err); !ok || out != nil ||
			!strings.HasPrefix(bad.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	// These functions of the configuration return values that cannot be.
	for want, cfg := range map[string]sim.Config{
		`the switch to job "k"`: {SwitchOfUs: func(*hare.Job, string) int64 { return -1 }},
		`is stretched by 0`:     {Stretch: constantStretch(0)},
		`is stretched by NaN`:   {Stretch: constantStretch(math.NaN())},
		`is stretched by 1e+15`: {Stretch: constantStretch(1e15)},
		`job "k" reduces -1 bytes`: {Network: sim.Network{InterBytesPerS: 1,
			Bytes: func(*hare.Job) int64 { return -1 }}},
		`have failed, and it is not`: {Failures: sim.FailureRate{PerGPUHour: 3.6e9}},
	} {
		inst := &hare.Instance{Cluster: nodes(1, 1),
			Jobs: []hare.Job{{ID: "j", Rounds: 1, Tasks: 2, Sync: hare.Gang, On: onA(1e6, 0)},
				{ID: "k", Rounds: 1, Tasks: 2, Sync: hare.Gang, On: onA(1e6, 0)}}}
		out, err := sim.Run(t.Context(), inst, fifo(t, inst), cfg)
		if err == nil || out != nil || !strings.Contains(strings.ReplaceAll(err.Error(), `"j"`, `"k"`), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// If a task of a gang fails, the policy must start the round again on the same GPUs at once;
// other decisions are refused.
func TestFailedGangMustStartAgain(t *testing.T) {
	inst := &hare.Instance{Cluster: nodes(4), Jobs: []hare.Job{{ID: "j", Rounds: 9, Tasks: 2, Sync: hare.Gang,
		On: onA(1e6, 0)}}}
	for want, change := range map[string]func([]hare.Decision) []hare.Decision{
		"it is missing: a round of which a task failed starts again at once": func(ds []hare.Decision) []hare.Decision {
			return slices.DeleteFunc(ds, func(d hare.Decision) bool { return d.Type == hare.DecisionStart })
		},
		"a gang job stays on its GPUs": func(ds []hare.Decision) []hare.Decision {
			ds[len(ds)-1].GPU = "a/3"
			return ds
		},
		"it is missing: the tasks of the round start together": func(ds []hare.Decision) []hare.Decision {
			return ds[:len(ds)-1]
		},
		": it is missing": func(ds []hare.Decision) []hare.Decision { return ds[1:] }, // without the withdrawal
	} {
		failed := false
		p := &observer{Policy: fifo(t, inst), see: func(e *hare.Event, ds []hare.Decision) []hare.Decision {
			if failed = e.Type == hare.EventTaskFailed; failed {
				return change(ds)
			}
			return ds
		}}
		_, err := sim.Run(t.Context(), inst, p, sim.Config{Failures: sim.FailureRate{Probability: 0.5}})
		if d, ok := errors.AsType[*sim.DecisionError](err); !ok || !failed || !strings.Contains(d.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// observer sees the events and the decisions of a policy, and may change the decisions.
type observer struct {
	online.Policy
	see func(*hare.Event, []hare.Decision) []hare.Decision
}

func (ob *observer) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	ds, err := ob.Policy.Step(nowUs, events)
	return ob.see(&events[0], slices.Clone(ds)), err
}

// Failures and faults are as frequent as configured, and the faults of a GPU are the same
// whatever runs on it.
func TestRates(t *testing.T) {
	const n = 20_000
	inst := &hare.Instance{Cluster: nodes(1), Jobs: []hare.Job{{ID: "j", Rounds: n, Tasks: 1, On: onA(1e6, 0)}}}
	within := func(what string, got, want, tolerance float64) {
		if math.Abs(got-want) > tolerance*want {
			t.Errorf("%s %v, expected %v", what, got, want)
		}
	}
	out, err := sim.Run(t.Context(), inst, fifo(t, inst),
		sim.Config{Failures: sim.FailureRate{Probability: 0.2}, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	within("failures", float64(out.Failures), n*0.25, 0.05)
	within("lost seconds", float64(out.LostUs)/1e6, n*0.125, 0.05)
	// With a failure in ten GPU-seconds, a task of 1 s fails with probability 1 − e^−0.1.
	out, err = sim.Run(t.Context(), inst, fifo(t, inst),
		sim.Config{Failures: sim.FailureRate{PerGPUHour: 360}, Seed: 4})
	if err != nil {
		t.Fatal(err)
	}
	within("failures a GPU-second", float64(out.Failures)/(float64(out.MakespanUs)/1e6), 0.1, 0.05)

	cfg := sim.Config{FaultRate: sim.FaultRate{GPUMeanUs: 30e6, GPURepairUs: 10e6, NodeMeanUs: 200e6,
		NodeRepairUs: 20e6}, Seed: 5}
	changes := func(inst *hare.Instance) (list []string, out *sim.Outcome) {
		cfg.Log = func(r wire.Record) error {
			if r.Event.Type == hare.EventGPULeft || r.Event.Type == hare.EventGPUJoined {
				list = append(list, fmt.Sprint(r.Event.Type, r.Event.GPU, r.Event.AtUs))
			}
			return nil
		}
		out, err := sim.Run(t.Context(), inst, fifo(t, inst), cfg)
		if err != nil {
			t.Fatal(err)
		}
		return list, out
	}
	inst.Cluster = nodes(2)
	inst.Jobs[0].Rounds = 3 * n
	long, out := changes(inst)
	// A GPU is up for 30/40 of the time and a node for 200/220, so the availability is
	// 0.75/1.1.
	within("availability", 1-out.DownUs/2/float64(out.MakespanUs), 0.75/1.1, 0.05)
	inst.Jobs[0].Rounds, inst.Jobs[0].Sync = n, hare.Gang
	if short, _ := changes(inst); len(short) < 100 || !slices.Equal(short, long[:len(short)]) {
		t.Errorf("%d changes of another run are not the same", len(short))
	}
	// A run in which the policy starts nothing stalls.
	if _, err := sim.Run(t.Context(), inst, silent{}, cfg); !errors.Is(err, sim.ErrStalled) {
		t.Error(err)
	}
}

// Memory does not grow with simulated time, neither with rounds nor with faults, failures and
// the events that they leave in the queue.
func TestMemoryIsFlat(t *testing.T) {
	for _, sync := range []hare.Sync{hare.Relaxed, hare.Gang} {
		inst := &hare.Instance{Cluster: nodes(4, 4)}
		for i := range 6 {
			inst.Jobs = append(inst.Jobs, hare.Job{ID: fmt.Sprint("j", i), Rounds: 8000, Tasks: 2, Sync: sync,
				On: onA(900_000, 100_000)})
		}
		var heap []uint64
		cfg := sim.Config{
			NoSchedule: true, SwitchUs: 10_000, Failures: sim.FailureRate{Probability: 0.1},
			FaultRate: sim.FaultRate{GPUMeanUs: 20e6, GPURepairUs: 1e6},
			Log: func(r wire.Record) error {
				if r.Event.Seq%20_000 == 0 {
					runtime.GC()
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					heap = append(heap, m.HeapAlloc)
				}
				return nil
			},
		}
		if _, err := sim.Run(t.Context(), inst, fifo(t, inst), cfg); err != nil {
			t.Fatal(err)
		}
		if n := len(heap); n < 5 || heap[n-1] > heap[1]+100_000 {
			t.Errorf("%v: heap %v", sync, heap)
		}
	}
}
