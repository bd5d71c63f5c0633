package slurm

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/history"
)

// texts pretends the commands of Slurm by what they write. In columns, ~ stands for the mark that squeue is asked to
// write; "" means that squeue knows no columns.
type texts struct{ nodes, columns, excluded, queue, priorities string }

func (w *texts) Run(_ context.Context, _ []byte, name string, args ...string) ([]byte, error) {
	switch all := name + " " + strings.Join(args, " "); {
	case name == "scontrol":
		return []byte(w.nodes), nil
	case name == "sprio":
		return []byte(w.priorities), nil
	case all == "squeue --json":
		return []byte(w.queue), nil
	case name == "squeue":
		return []byte(w.excluded), nil
	case w.columns == "":
		return nil, errors.New("squeue knows no such column")
	default:
		_, mark, _ := strings.Cut(args[len(args)-1], ":")
		mark, _, _ = strings.Cut(mark, ",")
		return bytes.ReplaceAll([]byte(w.columns), []byte("~"), []byte(mark)), nil
	}
}

// FuzzRead checks that no text of Slurm's commands makes the reader panic, and that what follows from it is within
// the limits of sessions.
func FuzzRead(f *testing.F) {
	row := func(values map[string]string) string {
		var b strings.Builder
		for _, c := range queueColumns {
			if v, ok := values[c.column]; ok {
				b.WriteString(v)
			} else {
				b.WriteString("(null)")
			}
			b.WriteByte('~')
		}
		return b.String() + "\n"
	}
	columns := row(map[string]string{"JobID": "7", "ArrayJobID": "7", "ArrayTaskID": "1-3,5%2", "State": "PENDING",
		"Reason": "Priority", "SubmitTime": "1800000000", "TimeLimit": "1-02:03:04", "NumNodes": "1-2", "NumTasks": "2",
		"tres-per-node": "gres:gpu:1", "Feature": "v100|t4", "Comment": `hare={"v100":5}`, "ReqNodes": "n[1-2]"}) +
		row(map[string]string{"JobID": "8", "ArrayJobID": "8", "State": "RUNNING", "NumNodes": "1", "NodeList": "n2",
			"tres-per-node": "gres:gpu:2", "StartTime": "1800000001", "SubmitTime": "1800000000"})
	const queue = `{"jobs":[{"job_id":{"set":true,"number":7},"job_state":["PENDING"],"submit_time":1800000000,` +
		`"tres_per_node":"gres/gpu:v100:2,ssd:1","node_count":2,"features":"a&b","state_reason":"None","nice":-5},` +
		`{"job_id":8,"job_state":"RUNNING","nodes":"n[1-2]","gres_detail":["gpu:1(IDX:0)"],"array_job_id":3}]}`
	f.Add(oneType, columns, "7|n[3-4]\n8|\n", queue, "7|100|-20\n8|1.5|0\n")
	f.Add(oneType, "", "", queue, "|\n")
	f.Add("NodeName=n1 Gres=gpu:v100:2(S:0-1),gpu:t4:1 ActiveFeatures=v100,big State=IDLE+RESERVED Version=26.05.1\n"+
		"NodeName=n2 Gres=gpu:t4:2 CPUAlloc=0 CPUTot=8 RealMemory=9000 State=DOWN* Partitions=a,b Comment=x State=y\n",
		columns, "x", queue, "7|100|0\n")
	f.Fuzz(func(t *testing.T, nodes, columns, excluded, queue, priorities string) {
		if len(nodes)+len(columns)+len(excluded)+len(queue)+len(priorities) > 1<<14 {
			return
		}
		s, err := Read(t.Context(), &texts{nodes, columns, excluded, queue, priorities},
			func() time.Time { return time.Unix(1_800_000_010, 0) })
		if err != nil {
			return // another program answers
		}
		s.CPUs, s.Memory = true, true
		typeFeatures(s.Nodes)
		for entry, j := range s.waitingJobs() {
			if r := s.Records[entry]; r != nil {
				s.canStart(r, j, r.Features)
			}
		}
		for _, j := range s.forSession(history.ShippedSpeeds()).Jobs {
			if j.Spec != nil && len(j.Spec.On) > 0 && (j.Spec.Tasks < 1 || j.Spec.TaskGPUs() < 1) {
				t.Errorf("a job of %d tasks of %d GPUs", j.Spec.Tasks, j.Spec.TaskGPUs())
			}
		}
	})
}
