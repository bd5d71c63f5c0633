package history

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSubmission reads command lines as Slurm writes them, without the quotes of words.
func TestSubmission(t *testing.T) {
	for _, c := range []struct {
		line string
		want submission
	}{
		{"", submission{}},
		{"sbatch job.sh", submission{}},
		{"sbatch -x n[1-2] -w n3,n4 job.sh -x n9", submission{exclude: []string{"n[1-2]"}, require: []string{"n3,n4"}}},
		{"sbatch -xn1 --nodelist=n2 --exclude n3 a.sh", submission{exclude: []string{"n1", "n3"}, require: []string{"n2"}}},
		{"/usr/bin/sbatch --hold -Hvx n1 job.sh", submission{exclude: []string{"n1"}}},
		{"sbatch -w ./hosts -F nodes.txt job.sh", submission{unread: []string{"--nodelist", "--nodefile"}}},
		{"sbatch --parsable -n2 --gpus-per-task=v100:2 job.sh", submission{perTask: 2,
			types: map[string][]string{"gpus-per-task": {"v100"}}}},
		{"sbatch -n2 --tres-per-task=cpu:4,gres/gpu:1 job.sh", submission{perTask: 1}},
		{"sbatch --gpus=4 job.sh", submission{gpus: true}},
		{"sbatch -G 4 -N2 job.sh", submission{gpus: true, nodes: true}},
		{"srun --exclusive=user -N1 a.out", submission{nodes: true}},
		{"srun --exclusive a.out --gpus=3", submission{exclusive: true}},
		{"sbatch --wrap sleep 10 -x n1", submission{exclude: []string{"n1"}}},
		{"sbatch --wrap=sleep 10 --dependency=afterok:7 -d afterany:8", submission{after: []string{"7", "8"}}},
		{"sbatch -G2 --wrap srun -N1 --exclusive -n1 a", submission{gpus: true}},
		{"sbatch -G2 --wrap=srun --exclusive -G1 a; srun -N1 b", submission{gpus: true}},
		{"sbatch --wrap /usr/bin/srun a.out --exclusive -d afterok:7 --gpus-per-task=v100:2", submission{perTask: 2,
			after: []string{"7"}, types: map[string][]string{"gpus-per-task": {"v100"}}}},
		{"sbatch -N1 --gres=gpu:4 --wrap=python a.py --gpus 4", submission{nodes: true}},
		{"sbatch -- -x n1", submission{}},
		{"sbatch -x", submission{}},
	} {
		got := readSubmission(c.line)
		got.asks, got.numbers = nil, nil // see TestTotals
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(submission{})); diff != "" {
			t.Errorf("%q: %s", c.line, diff)
		}
	}
}

// TestComponents reads the options of each component of a heterogeneous job.
func TestComponents(t *testing.T) {
	line := "sbatch -n1 --gres=gpu:v100:1 : -n2 : --gres=gpu:t4:2 job.sh"
	for number, want := range []string{"v100", "", "t4"} {
		told := readWords(component(strings.Fields(line), int64(number)))
		if got := strings.Join(told.gpuTypes(), " "); got != want {
			t.Errorf("component %d: %q, not %q", number, got, want)
		}
	}
	if words := component([]string{"sbatch"}, 1); len(words) != 1 {
		t.Error(words)
	}
}

// TestSubmittedTypes reads the GPU types that options name, in all of their forms.
func TestSubmittedTypes(t *testing.T) {
	for line, want := range map[string]string{
		"sbatch --gres=gpu:v100:1 job.sh":                                            "v100",
		"sbatch --gres gpu:v100 job.sh":                                              "v100",
		"sbatch --gres=gpu:1 job.sh":                                                 "",
		"sbatch --gres=gpu job.sh":                                                   "",
		"sbatch --gres=ssd:2,gpu:v100:1 job.sh":                                      "v100",
		"sbatch --gres=gpu:v100:1,gpu:a100:2 job.sh":                                 "a100 v100",
		"sbatch --gres=gpu:a100:1 --gres=gpu:v100:1 job.sh":                          "v100",
		"sbatch --gres=gpu:a100:1 --gres=none job.sh":                                "",
		"sbatch --gpus=v100:2 job.sh":                                                "v100",
		"sbatch --gpus v100 job.sh":                                                  "v100",
		"sbatch -G v100:2 job.sh":                                                    "v100",
		"sbatch -Gv100:2 job.sh":                                                     "v100",
		"sbatch -N2 -G2 job.sh":                                                      "",
		"sbatch --gpus=v100:1,a100:2 job.sh":                                         "a100 v100",
		"sbatch --gpus-per-node=v100:2 job.sh":                                       "v100",
		"sbatch --gpus-per-n v100:2 job.sh":                                          "v100",
		"sbatch --gpus-per-socket=v100:1 --sockets-per-node=2 job.sh":                "v100",
		"sbatch -n2 --gpus-per-task v100:1 job.sh":                                   "v100",
		"sbatch -n2 --tres-per-task=gres/gpu:v100:1 job.sh":                          "v100",
		"sbatch -n2 --tres-per-task=cpu=4,gres/gpu:v100=1 job.sh":                    "v100",
		"sbatch -n2 --tres-per-task cpu:4,gres:gpu:v100:1 job.sh":                    "v100",
		"srun --gres=gpu:a100:1 --gpus=v100:2 a.out":                                 "a100 v100",
		"sbatch job.sh --gres=gpu:v100:1":                                            "",
		"sbatch --gres=gpu:t4:2 --wrap srun --gres=gpu:t4:1 a & srun --gres=gpu:1 b": "t4",
		"sbatch --wrap srun a --gres=gpu:v100:1":                                     "v100",
		"salloc --gres=gpu:nvidia_a100-sxm4-80gb:1(S:0-1),nic:1 -t 3":                "nvidia_a100-sxm4-80gb",
		"sbatch --gpu-bind=single:1 --gres-flags=enforce-binding --gres=x:y":         "",
	} {
		told := readSubmission(line)
		if got := strings.Join(told.gpuTypes(), " "); got != want {
			t.Errorf("%q: %q, not %q", line, got, want)
		}
	}
}

// TestTotals adds up what command lines ask for in all.
func TestTotals(t *testing.T) {
	for _, c := range []struct {
		line  string
		nodes int64
		want  string
	}{
		{"sbatch --gres=gpu:a100:2 job.sh", 1, "2 a100:2"},
		{"sbatch --gres=gpu:a100:2 -N 3 job.sh", 0, "6 a100:6"},
		{"sbatch --gpus-per-node 1 --nodes 2 job.sh", 2, "2"},
		{"sbatch --gpus 4 job.sh", 1, "4"},
		{"sbatch -G v100:4 --gres=ssd:1 job.sh", 2, "4 v100:4"},
		{"sbatch -n 3 --gpus-per-task=2 job.sh", 1, "6"},
		{"sbatch --ntasks-per-node=2 --gpus-per-task=2 job.sh", 2, "8"},
		{"sbatch --tres-per-task=cpu=2,gres/gpu=1 -n4 job.sh", 2, "4"},
		{"sbatch --gpus-per-socket 2 --sockets-per-node 2 job.sh", 1, "4"},
		{"sbatch --gres=shard:4 job.sh", 1, "0 shards 4"},
		{"sbatch --wrap=python train.py --gpus 4", 1, "0"},
		{"sbatch -N 99999999 --gres=gpu:4 job.sh", 0, "4"},
		{"sbatch --gres=gpu:1048576 job.sh", 1048576, "0"},
		{"sbatch job.sh --gpus 4", 1, "0"},
	} {
		told := readSubmission(c.line)
		g := told.total(c.nodes)
		got := itoa(g.gpus)
		for _, t := range g.byType {
			got += " " + t.Type + ":" + itoa(int64(t.Count))
		}
		if g.parts.shards > 0 {
			got += " shards " + itoa(g.parts.shards)
		}
		if got != c.want {
			t.Errorf("%q: %s, not %s", c.line, got, c.want)
		}
	}
}
