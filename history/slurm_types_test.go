package history_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/trace"
)

// typedNodes are two nodes with GPUs of one type each.
const typedNodes = `NodeName=n1 CPUTot=16 RealMemory=4096 Gres=gpu:a100:4 Partitions=main State=IDLE
NodeName=n2 CPUTot=16 RealMemory=4096 Gres=gpu:v100:4 Partitions=main State=IDLE
`

// typesByJob lists the types that each job of an instance may use.
func typesByJob(inst *hare.Instance) map[string]string {
	out := map[string]string{}
	for i := range inst.Jobs {
		var types []string
		for _, p := range inst.Jobs[i].On {
			types = append(types, p.Type)
		}
		out[inst.Jobs[i].ID] = strings.Join(types, " ")
	}
	return out
}

// TestTypeOfSubmission reads jobs of a Slurm that counts GPUs without their types (AccountingStorageTRES=gres/gpu):
// the type is that of the command line, unless the job had GPUs of another type.
func TestTypeOfSubmission(t *testing.T) {
	text := "JobID|JobName|User|Partition|State|Submit|Start|End|TimelimitRaw|NNodes|ReqTRES|AllocTRES|NodeList|" +
		"SubmitLine\n"
	for i, c := range []struct{ line, got, node string }{
		{"--gres=gpu:a100:2 -t 1 --wrap sleep 6", "gres/gpu=2", "n1"},
		{"--gres=gpu:v100:2 -t 1 --wrap sleep 6", "gres/gpu=2", "n2"},
		{"--gpus=v100:2 -t 1 --wrap sleep 6", "gres/gpu=2", "n2"},
		{"--gres=gpu:2 job.sh", "gres/gpu=2", "n2"},
		{"--gres=gpu:a100:2 job.sh", "gres/gpu:v100=2,gres/gpu=2", "n2"}, // somebody changed the request
		{"-G V100:2 job.sh", "gres/gpu=2", "n2"},
	} {
		at := fmt.Sprintf("2026-11-28T0%d", i)
		text += fmt.Sprintf("%d|j|ann|main|COMPLETED|%s:00:00|%s:00:00|%s:10:00|20|1|cpu=1,gres/gpu=2,node=1|"+
			"cpu=1,%s,node=1|%s|sbatch --parsable %s\n", i+1, at, at, at, c.got, c.node, c.line)
	}
	log, err := history.Read("slurm", []trace.Source{{Name: "jobs", R: strings.NewReader(text)},
		{Name: "nodes", R: strings.NewReader(typedNodes)}}, history.ReadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"1": "a100", "2": "v100", "3": "v100", "4": "a100 v100", "5": "a100 v100", "6": "v100"}
	if got := typesByJob(build(t, log, history.Config{}).Instance); !maps.Equal(got, want) {
		t.Errorf("jobs may use %v, not %v", got, want)
	}
}

// TestTypeOfWaitingJobs reads jobs of squeue whose tres_req_str counts GPUs without their types: the type is
// that of tres_per_node, _job, _task or _socket, by versions; without them that of the command line.
func TestTypeOfWaitingJobs(t *testing.T) {
	var jobs []string
	for i, members := range []string{
		`"tres_per_node":"gres/gpu:v100:4"`,
		`"tres_per_node":"gres:gpu:a100:4"`,
		`"tres_per_job":"gres/gpu:v100:4"`,
		`"tres_per_task":"cpu=2,gres/gpu:v100=4"`,
		`"tres_per_socket":"gres/gpu:v100:4"`,
		`"tres_per_node":"gres/gpu:4"`,
		`"submit_line":"sbatch --gpus v100:4 job.sh"`,
		`"tres_per_node":"gres/gpu:v100:4","submit_line":"sbatch --gres=gpu:a100:4 job.sh"`, // as an operator changed it
	} {
		jobs = append(jobs, fmt.Sprintf(`{"job_id":%d,"name":"w","user_name":"ann","partition":"main",
			"job_state":["PENDING"],"submit_time":1000,"eligible_time":1000,"time_limit":1,"node_count":1,"tasks":1,
			"tres_req_str":"cpu=1,mem=64M,node=1,billing=1,gres/gpu=4",%s}`, i+1, members))
	}
	jobs = append(jobs, `{"job_id":29,"name":"array","user_name":"ann","partition":"main","job_state":["PENDING"],
		"array_job_id":29,"array_task_string":"4-6%2","submit_time":1000,"time_limit":1,"node_count":1,
		"tres_req_str":"cpu=1,gres/gpu=1","tres_per_node":"gres/gpu:a100:1"}`)
	built := now(t, `{"jobs":[`+strings.Join(jobs, ",")+`],"last_update":2000}`, typedNodes)
	want := map[string]string{"1": "v100", "2": "a100", "3": "v100", "4": "v100", "5": "v100", "6": "a100 v100",
		"7": "v100", "8": "v100", "29_4": "a100", "29_5": "a100", "29_6": "a100"}
	if got := typesByJob(built.Instance); !maps.Equal(got, want) {
		t.Errorf("jobs may use %v, not %v", got, want)
	}
}

// TestGPUsOfDetail reads a running job whose GPUs gres_detail alone tells, in a Slurm that counts no GPUs.
func TestGPUsOfDetail(t *testing.T) {
	built := now(t, `{"jobs":[{"job_id":301,"name":"infer","user_name":"ann","partition":"main","job_state":["RUNNING"],
		"submit_time":1000,"start_time":1010,"time_limit":60,"node_count":1,"nodes":"n1","tres_req_str":"cpu=1,node=1",
		"tres_alloc_str":"cpu=1,node=1","tres_per_socket":"gres/gpu:2","gres_detail":["gpu:a100:4(IDX:0-3)"]},
		{"job_id":302,"name":"wait","user_name":"ann","partition":"main","job_state":["PENDING"],"submit_time":1000,
		"time_limit":60,"node_count":1,"tres_per_socket":"gres/gpu:2","sockets_per_node":2}],
		"last_update":2000}`, typedNodes)
	jobs := built.Instance.Jobs
	if len(jobs) != 2 || jobs[0].Progress == nil || len(jobs[0].Progress.GPUs) != 4 {
		t.Fatalf("%+v", jobs)
	}
	if n := jobs[1].Tasks * jobs[1].TaskGPUs(); n != 4 {
		t.Errorf("the job of two sockets waits for %d GPUs", n)
	}
}

// TestGPUsOfNodesWithoutTypes reads a job over a node that tells the type of its GPUs and one that does not:
// AllocTRES counts those of the first alone.
func TestGPUsOfNodesWithoutTypes(t *testing.T) {
	const head = "JobID|JobName|User|Partition|State|Submit|Start|End|TimelimitRaw|NNodes|ReqTRES|AllocTRES|NodeList\n"
	const nodes = "NodeName=n2 Gres=gpu:v100:4 Partitions=all State=IDLE\n" +
		"NodeName=u1 Gres=gpu:4 Partitions=all State=IDLE\n"
	for _, got := range []string{"gres/gpu:v100=3,gres/gpu=3", "gres/gpu=3"} {
		row := "38|w|ann|all|COMPLETED|2026-11-28T08:49:57|2026-11-28T08:49:58|2026-11-28T08:50:02|1|2|" +
			"cpu=2,gres/gpu=6,node=2|cpu=2," + got + ",node=2|n2,u1\n"
		log, err := history.Read("slurm", []trace.Source{{Name: "jobs", R: strings.NewReader(head + row)},
			{Name: "nodes", R: strings.NewReader(nodes)}}, history.ReadConfig{})
		if err != nil {
			t.Fatal(err)
		}
		var on []string
		for _, h := range log.Jobs[0].On {
			on = append(on, fmt.Sprint(h.Node, ":", h.GPUs))
		}
		if !slices.Equal(on, []string{"n2:3", "u1:3"}) || log.Jobs[0].GPUs != 6 {
			t.Errorf("%s: %d GPUs on %v", got, log.Jobs[0].GPUs, on)
		}
	}
}
