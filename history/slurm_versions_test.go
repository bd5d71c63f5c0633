package history_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/wire"
)

// TestVersionsOfSlurmAgree reads documents with all members that the OpenAPI documents of Slurm 23.11 to
// 25.11 (data_parser/v0.0.40 to v0.0.44) list, about the same jobs and nodes: running and waiting jobs,
// arrays, GPUs by job, node and task, nodes that are excluded and required, limits without an end. Each
// version gives the same instances.
func TestVersionsOfSlurmAgree(t *testing.T) {
	for _, version := range []string{"v0.0.40", "v0.0.41", "v0.0.42", "v0.0.43", "v0.0.44"} {
		t.Run(version, func(t *testing.T) {
			now, err := read(t, "slurm", "squeue-"+version+".json", "nodes-"+version+".json").BuildNow(history.Config{})
			if err != nil {
				t.Fatal(err)
			}
			was := build(t, read(t, "slurm", "sacct-"+version+".json", "nodes-"+version+".json"), history.Config{})
			for name, built := range map[string]*history.Built{"slurm-versions-now": now, "slurm-versions": was} {
				var text bytes.Buffer
				if err := wire.EncodeInstance(&text, built.Instance); err != nil {
					t.Fatal(err)
				}
				golden(t, name+".instance.json", text.String())
			}
		})
	}
}

// TestLiveVersionsOfSlurm reads what a real Slurm 23.11.4, 24.11.5 and 25.11.2 answered (sacct --json,
// squeue --json, scontrol show node --json) about jobs with GPUs by type, node, job and task, an array,
// a dependency, and jobs that were cancelled, failed, ran or waited.
func TestLiveVersionsOfSlurm(t *testing.T) {
	const ran = `1: 1 x 2 on v100
2: 2 x 2 on t4 v100
3: 1 x 1 on t4 v100
4: 2 x 1 on t4 v100
5_0: 1 x 1 on t4 v100
5_1: 1 x 1 on t4 v100
5_2: 1 x 1 on t4 v100
7: 1 x 1 on t4 v100
9: 1 x 1 on t4 v100
6: 1 x 1 on t4 v100
`
	const waits = `12: 4 x 1 on v100, holds 4
14_0: 1 x 1 on v100, holds 1
14_1: 1 x 1 on v100, holds 1
13: 1 x 4 on v100
14_2: 1 x 1 on v100
14_3: 1 x 1 on v100
14_4: 1 x 1 on v100
`
	for _, version := range []string{"23.11.4", "24.11.5", "25.11.2"} {
		t.Run(version, func(t *testing.T) {
			nodes := "live/nodes-" + version + ".json.gz"
			was := build(t, read(t, "slurm", "live/sacct-"+version+".json.gz", nodes), history.Config{})
			now, err := read(t, "slurm", "live/squeue-"+version+".json.gz", nodes).BuildNow(history.Config{})
			if err != nil {
				t.Fatal(err)
			}
			// Since 24.11, job 4 was beside job 2, which then must have had one GPU on a node and three on the other.
			want := ran
			if version != "23.11.4" {
				want = strings.Replace(ran, "2: 2 x 2", "2: 4 x 1", 1)
			}
			if got := shapes(was.Instance); got != want {
				t.Errorf("sacct:\n%s", got)
			}
			if got := shapes(now.Instance); got != waits {
				t.Errorf("squeue:\n%s", got)
			}
		})
	}
}

// shapes says what each job asks for and, if it runs, what it holds.
func shapes(inst *hare.Instance) string {
	var all strings.Builder
	for _, j := range inst.Jobs {
		fmt.Fprintf(&all, "%s: %d x %d on", j.ID, j.Tasks, j.TaskGPUs())
		for _, p := range j.On {
			fmt.Fprint(&all, " ", p.Type)
		}
		if j.Progress != nil {
			fmt.Fprintf(&all, ", holds %d", len(j.Progress.GPUs))
		}
		fmt.Fprintln(&all)
	}
	return all.String()
}
