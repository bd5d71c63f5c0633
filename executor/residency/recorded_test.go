package residency_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/executor/residency"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/wire"
)

// paperModels are the eight models of the paper with the bytes of their parameters, four for
// each: 143.7, 25.6, 27.2, 109.5, 65, 30, 0.08 and 0.33 million parameters, as the
// reference implementations have them. The times of a task are made up.
var paperModels = []struct {
	name              string
	bytes, v100, t4Us int64
}{
	{"VGG19", 575e6, 210_000, 640_000},
	{"ResNet50", 102e6, 150_000, 420_000},
	{"InceptionV3", 109e6, 180_000, 530_000},
	{"BERT_base", 438e6, 240_000, 810_000},
	{"Transformer", 260e6, 120_000, 390_000},
	{"DeepSpeech", 120e6, 310_000, 700_000},
	{"FastGCN", 320e3, 20_000, 50_000},
	{"GraphSAGE", 1_320e3, 15_000, 35_000},
}

// recorded returns the switches of each GPU, in the order in which a session with the policy
// started them: eight relaxed jobs with four tasks a round on two V100 and two T4.
func recorded(t testing.TB, name string, rounds int64) [][]residency.Model {
	t.Helper()
	inst := &hare.Instance{
		Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{
			{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 2}}},
			{Name: "b", GPUs: []hare.TypeCount{{Type: "T4", Count: 2}}}}},
	}
	bytes := map[string]int64{}
	for i, m := range paperModels {
		inst.Jobs = append(inst.Jobs, hare.Job{ID: m.name, WeightMicro: 1e6, ReleaseUs: int64(i) * 700_000,
			Rounds: rounds + int64(7*i%5)*rounds/3, Tasks: 4,
			On: []hare.Profile{{Type: "T4", ComputeUs: m.t4Us, SyncUs: m.t4Us / 10},
				{Type: "V100", ComputeUs: m.v100, SyncUs: m.v100 / 10}}})
		bytes[m.name] = m.bytes
	}
	info, err := registry.FindTask(name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := info.New(t.Context(), inst, policies.Config{ThresholdUs: 4_000_000, LeaseUs: 1_000_000})
	if err != nil {
		t.Fatal(err)
	}
	byGPU := map[string][]residency.Model{}
	_, err = sim.Run(context.Background(), inst, p, sim.Config{NoSchedule: true, Log: func(r wire.Record) error {
		for _, d := range r.Decisions {
			if d.Type == hare.DecisionStart {
				// Tasks of one job after another need no switch, and count as one.
				if n := len(byGPU[d.GPU]); n == 0 || byGPU[d.GPU][n-1].Job != d.Job {
					byGPU[d.GPU] = append(byGPU[d.GPU], residency.Model{Job: d.Job, Bytes: bytes[d.Job]})
				}
			}
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	var all [][]residency.Model
	for _, gpu := range []string{"a/0", "a/1", "b/0", "b/1"} {
		all = append(all, byGPU[gpu])
	}
	return all
}

// The test holds the table of docs/lab/switching.md. Under every session policy and cap, fewer tasks
// wait for their model under hare than under belady, and over all sessions hare copies at most
// 1.25 times as often as belady, and 1.1 times at the two smaller caps.
func TestHareOnRecordedSessions(t *testing.T) {
	var total int64
	for _, m := range paperModels {
		total += m.bytes
	}
	var table strings.Builder
	var copies [3]struct{ hare, belady int64 }
	for _, name := range []string{"hlas", "gandiva", "srtf", "rolling", "fifo"} {
		all := recorded(t, name, 60)
		for i, percent := range []int64{40, 60, 80} {
			var least int64
			var counts [4]residency.Counts
			for _, tasks := range all {
				n, err := leastCopies(tasks, total*percent/100)
				if err != nil {
					t.Fatal(err)
				}
				least += n
				for p, policy := range []residency.Policy{residency.Hare{}, residency.Hare{Models: 1},
					residency.LRU{}, belady{}} {
					n := play(t, tasks, total*percent/100, policy)
					counts[p].Misses += n.Misses
					counts[p].Prefetches += n.Prefetches
					counts[p].Tasks += n.Tasks
				}
			}
			hare, one, lru, belady := counts[0], counts[1], counts[2], counts[3]
			fmt.Fprintf(&table, "| %s | %d %% | %d | %d | %d | %d | %d | %d | %d |\n", name, percent, hare.Tasks,
				hare.Misses, belady.Misses, lru.Misses, hare.Misses+hare.Prefetches, one.Misses+one.Prefetches, least)
			if hare.Misses > belady.Misses {
				t.Errorf("%s at %d %%: %d tasks wait under hare, %d under belady", name, percent, hare.Misses, belady.Misses)
			}
			if belady.Misses < least || hare.Misses+hare.Prefetches < least {
				t.Errorf("%s at %d %%: fewer copies than the optimum, %d: %+v", name, percent, least, counts)
			}
			copies[i].hare += hare.Misses + hare.Prefetches
			copies[i].belady += belady.Misses
		}
	}
	for i, most := range []float64{1.1, 1.1, 1.25} {
		if ratio := float64(copies[i].hare) / float64(copies[i].belady); ratio > most {
			t.Errorf("cap %d: hare copies %.2f times as often as belady, %+v", i, ratio, copies[i])
		} else {
			t.Logf("cap %d: hare copies %.2f times as often as belady", i, ratio)
		}
	}
	page, err := os.ReadFile("../../docs/lab/switching.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), table.String()) {
		t.Errorf("docs/lab/switching.md does not have these rows:\n%s", table.String())
	}
}
