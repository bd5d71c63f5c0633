package history_test

import (
	"bytes"
	"testing"

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
