package history

import (
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
		{"sbatch --parsable -n2 --gpus-per-task=v100:2 job.sh", submission{perTask: 2}},
		{"sbatch -n2 --tres-per-task=cpu:4,gres/gpu:1 job.sh", submission{perTask: 1}},
		{"sbatch --gpus=4 job.sh", submission{gpus: true}},
		{"sbatch -G 4 -N2 job.sh", submission{gpus: true, nodes: true}},
		{"srun --exclusive=user -N1 a.out", submission{nodes: true}},
		{"srun --exclusive a.out --gpus=3", submission{exclusive: true}},
		{"sbatch --wrap sleep 10 -x n1", submission{exclude: []string{"n1"}}},
		{"sbatch --wrap=sleep 10 --dependency=afterok:7 -d afterany:8", submission{after: []string{"7", "8"}}},
		{"sbatch -- -x n1", submission{}},
		{"sbatch -x", submission{}},
	} {
		if diff := cmp.Diff(c.want, readSubmission(c.line), cmp.AllowUnexported(submission{})); diff != "" {
			t.Errorf("%q: %s", c.line, diff)
		}
	}
}
