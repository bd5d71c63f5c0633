package hare_test

import (
	"testing"

	"github.com/hare-sched/hare"
)

// A guess is what was meant, and no guess is made where that would be something else.
func TestNearest(t *testing.T) {
	kinds := []string{"tick", "job_arrived", "job_cancelled", "task_ended", "task_failed", "node_up", "node_down",
		"gpu_added", "gpu_removed"}
	policies := []string{"asrpt", "fifo", "gavel:fifo", "gavel:fifo_perf", "rolling", "srtf", "tiresias", "slurm"}
	flags := []string{"time-limit", "work-limit", "output", "policy", "min-gpus", "max-gpus", "drop-node", "drop-after"}
	types := []string{"A100", "V100", "H200", "RTX 3090"}
	words := []string{"weight", "release_s", "start_s", "none", "import", "undrain", "increase", "minimize", "nodes"}
	for _, x := range []struct {
		name  string
		known []string
		want  string
	}{
		{"task_finished", kinds, ""}, {"task_succeeded", kinds, ""}, {"task_ende", kinds, "task_ended"},
		{"task_faild", kinds, "task_failed"}, {"TaskFailed", kinds, "task_failed"}, {"tock", kinds, "tick"},
		{"node_on", kinds, ""}, {"gpu_aded", kinds, "gpu_added"}, {"job_canceled", kinds, "job_cancelled"},
		{"srft", policies, "srtf"}, {"lifo", policies, ""}, {"tiresas", policies, "tiresias"}, {"lrtf", policies, ""},
		{"slrum", policies, "slurm"}, {"gavel:fifo_pref", policies, "gavel:fifo_perf"}, {"roling", policies, "rolling"},
		{"timelimit", flags, "time-limit"}, {"time_limt", flags, "time-limit"}, {"policies", flags, "policy"},
		{"mid-gpus", flags, "min-gpus"}, {"drop-nodes", flags, "drop-node"}, {"limit", flags, ""},
		{"add-node", flags, ""}, {"drop-before", flags, ""},
		{"H100", types, ""}, {"v100", types, "V100"}, {"rtx-3090", types, "RTX 3090"}, {"A10", types, ""},
		{"wieght", words, "weight"}, {"release", words, "release_s"}, {"stop_s", words, ""}, {"node", words, "nodes"},
		{"export", words, ""}, {"drain", words, ""}, {"decrease", words, ""}, {"maximize", words, ""},
		{"release_us", words, ""}, {"job7", []string{"job1", "job17"}, ""}, {"cab", []string{"cad", "cap"}, ""},
		{"", words, ""}, {"ö", words, ""}, {"\xff", words, ""},
	} {
		if got := hare.Nearest(x.name, x.known); got != x.want {
			t.Errorf("%q: %q, want %q", x.name, got, x.want)
		}
	}
}
