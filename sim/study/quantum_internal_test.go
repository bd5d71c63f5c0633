package study

import (
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	registry "github.com/hare-sched/hare/sim/policies"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// If a trace would have more than ten million tasks in rounds of a minute, policies of tasks get
// longer rounds, and the report says so. Policies of leases keep rounds that fit into a lease. A
// quantum that the request gives is kept.
func TestLongRoundsOfLargeTraces(t *testing.T) {
	infos := make([]registry.Info, 2)
	for i, name := range []string{"hlas", "gavel:isolated"} {
		info, err := registry.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		infos[i] = info
	}
	// 16,667 rounds of a minute on 1,200 GPUs are 20,000,400 tasks.
	text := []byte("arrival_s,duration_s,num_gpus\n0,1000000,1200\n5,60,1\n")
	input := func(tr simulatedoc.Trace) *jobsInput {
		t.Helper()
		tr.Text, tr.Name = text, "t.csv"
		r := &request{Policies: []string{"hlas", "gavel:isolated"}, Trace: &tr,
			GPUs: []hare.TypeCount{{Type: "GPU", Count: 1200}}}
		in, err := r.input(infos, 0)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	noted := func(in *jobsInput) bool {
		return slices.ContainsFunc(in.notes, func(n string) bool {
			return strings.Contains(n, "rounds of 3m0s") &&
				strings.Contains(n, "20000401")
		})
	}
	in := input(simulatedoc.Trace{})
	if got := in.tasks.Jobs[0].Rounds; got != 5556 || !noted(in) { // ⌈1000000 / 180⌉
		t.Errorf("%d rounds; %q", got, in.notes)
	}
	if got := in.leases.jobs[0].Steps; got != 16667*1200 {
		t.Errorf("%d steps on leases", got)
	}
	in = input(simulatedoc.Trace{QuantumUs: 60e6})
	if got := in.tasks.Jobs[0].Rounds; got != 16667 || noted(in) {
		t.Errorf("%d rounds of a minute; %q", got, in.notes)
	}
	if in = input(simulatedoc.Trace{Sync: "rigid"}); noted(in) {
		t.Errorf("rigid: %q", in.notes)
	}
}
