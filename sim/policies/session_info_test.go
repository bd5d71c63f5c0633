package policies_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/policies"
	registry "github.com/hare-sched/hare/sim/policies"
)

// ExampleSessionInfos prints what policies go by in sessions, and their parameters.
func ExampleSessionInfos() {
	for _, p := range registry.SessionInfos() {
		var names []string
		for _, x := range p.Parameters {
			names = append(names, x.Name)
		}
		fmt.Println(p.Name, p.Sizes, p.SimulatedSizes, p.Hints, p.Plans)
		if len(names) > 0 {
			fmt.Println("with", names)
		}
	}
	// Output:
	// asrpt estimates sizes true false
	// with [delay_s heavy near pass backfill eager trust graphs first_fit predict]
	// easy_backfill estimates sizes true false
	// fifo nothing nothing false false
	// gandiva nothing nothing false false
	// with [slice_s]
	// gavel_fifo nothing nothing false false
	// hare_offline estimates future true true
	// with [migration_s switch_s moves aside max_age_s plan_every_s wait_for_plan guard kappa fifo_slowdown]
	// hare_paper estimates future true false
	// hgittins estimates nothing true false
	// with [slowest_factor strict sticky by_arrival guard kappa fifo_slowdown]
	// hlas nothing nothing false false
	// with [queues thresholds_s kappa reference]
	// kueue nothing nothing false false
	// kueue_strict nothing nothing false false
	// rolling estimates nothing true true
	// with [migration_s switch_s moves aside max_age_s plan_every_s wait_for_plan guard kappa fifo_slowdown]
	// sampling estimates sizes true false
	// with [draws skip drawing valuation only_placed whole_rounds ring]
	// sched_allox estimates sizes true false
	// sched_homo estimates future true false
	// slurm estimates sizes true false
	// with [age size qos max_age_s]
	// srtf estimates sizes true false
	// themis estimates sizes true false
	// with [fairness lease_s]
	// tiresias nothing nothing false false
	// with [thresholds_s knob]
	// tiresias_gittins estimates distribution false false
	// with [thresholds_s knob]
}

// Each parameter that is listed is taken with its default, which changes nothing, and
// policies take no others.
func TestListedParametersAreTaken(t *testing.T) {
	cluster := &hare.Cluster{Nodes: []hare.Node{{Name: "n", GPUs: []hare.TypeCount{{Type: "V100", Count: 1}}}}}
	every := map[string]any{}
	for _, p := range registry.SessionInfos() {
		for _, x := range p.Parameters {
			every[x.Name] = x.Default
		}
	}
	every["guard"], every["aside"], every["migration_s"], every["moves"] = true, false, 60, 100
	every["reference"], every["switch_s"], every["fifo_slowdown"] = "V100", 1, 1
	for _, p := range registry.SessionInfos() {
		if names := registry.SessionNames(); !slices.Contains(names, p.Name) {
			t.Errorf("%s is no policy of sessions", p.Name)
		}
		for name, value := range every {
			i := slices.IndexFunc(p.Parameters, func(x policies.Parameter) bool { return x.Name == name })
			if i >= 0 && p.Parameters[i].Default != nil {
				value = p.Parameters[i].Default
			}
			text, err := json.Marshal(map[string]any{name: value})
			if err != nil {
				t.Fatal(err)
			}
			_, err = registry.OpenSession(p.Name, cluster, text)
			if (err == nil) != (i >= 0) {
				t.Errorf("%s with %s: %v", p.Name, text, err)
			}
			if err != nil && !strings.Contains(err.Error(), name) {
				t.Errorf("%s with %s: %v", p.Name, text, err)
			}
		}
	}
}
