package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

func TestSmaller(t *testing.T) {
	command := []string{"train"}
	types := []string{"T4", "V100"}
	v100 := func(s float64) map[string]float64 { return map[string]float64{"V100": s} }
	for name, x := range map[string]struct {
		job  clusterdoc.NewJob
		want []clusterdoc.NewJob
	}{
		"one GPU of any type": {job: clusterdoc.NewJob{Command: command}},
		"an odd number":       {job: clusterdoc.NewJob{Command: command, GPUs: 3}},
		"halves": {job: clusterdoc.NewJob{Command: command, GPUs: 4, EstimateS: new(60.0)},
			want: []clusterdoc.NewJob{{Command: command, GPUs: 2, EstimateS: new(120.0)},
				{Command: command, GPUs: 1, EstimateS: new(240.0)}}},
		"types first": {job: clusterdoc.NewJob{Command: command, GPUs: 2, On: v100(5)},
			want: []clusterdoc.NewJob{{Command: command, GPUs: 2, On: map[string]float64{"V100": 5, "T4": 0}},
				{Command: command, GPUs: 1, On: v100(10)}}},
		"fewer on each node": {job: clusterdoc.NewJob{Command: command, GPUs: 4, Nodes: 2},
			want: []clusterdoc.NewJob{{Command: command, GPUs: 2, Nodes: 2}, {Command: command, GPUs: 1, Nodes: 1}}},
		"whole processes": {job: clusterdoc.NewJob{Command: command, GPUs: 4, GPUsPerTask: 2},
			want: []clusterdoc.NewJob{{Command: command, GPUs: 2, GPUsPerTask: 2}}},
		"a rigid round job keeps its tasks": {
			job: clusterdoc.NewJob{Module: "m", Directory: "/d", Rounds: 3, GPUs: 2, On: v100(0)},
			want: []clusterdoc.NewJob{
				{Module: "m", Directory: "/d", Rounds: 3, GPUs: 2, Sync: SyncRigid, On: map[string]float64{"V100": 0, "T4": 0}},
				{Module: "m", Directory: "/d", Rounds: 3, GPUs: 1, Sync: SyncRigid, Tasks: 2, On: v100(0)}}},
		"a gang has one for each GPU": {
			job:  clusterdoc.NewJob{Module: "m", Directory: "/d", Rounds: 3, GPUs: 2, Tasks: 2, Sync: SyncGang},
			want: []clusterdoc.NewJob{{Module: "m", Directory: "/d", Rounds: 3, GPUs: 1, Sync: SyncGang}}},
		"a relaxed job has fewer tasks": {
			job:  clusterdoc.NewJob{Module: "m", Directory: "/d", Rounds: 3, Tasks: 3},
			want: []clusterdoc.NewJob{{Module: "m", Directory: "/d", Rounds: 3, Tasks: 1, Sync: SyncRelaxed}}},
	} {
		if diff := cmp.Diff(x.want, Smaller(&x.job, types)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
