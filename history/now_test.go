package history_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/wire"
)

// TestNow makes the instance of what ran and waited on a real Slurm 22.05.8 with a node that was
// drained, an array, a job on two nodes, and jobs that were held, waited for others, or for a time.
func TestNow(t *testing.T) {
	log := read(t, "slurm", "squeue-now.json", "nodes-now.txt")
	built, err := log.BuildNow(history.Config{AtUs: log.NowUs + 60e6})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := wire.EncodeInstance(&text, built.Instance); err != nil {
		t.Fatal(err)
	}
	golden(t, "slurm-now.instance.json", text.String())
	golden(t, "slurm-now.report.txt", built.Report.String())
	for i, j := range built.Jobs {
		if built.Instance.Jobs[i].ID != j.ID {
			t.Errorf("job %d is %s of the log and %s of the instance", i, j.ID, built.Instance.Jobs[i].ID)
		}
	}
	with, err := log.BuildNow(history.Config{Dependencies: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(with.Instance.Jobs) != len(built.Instance.Jobs)+1 {
		t.Errorf("%d jobs with dependencies and %d without", len(with.Instance.Jobs), len(built.Instance.Jobs))
	}
}

// now reads texts and makes the instance of what runs and waits.
func now(t *testing.T, texts ...string) *history.Built {
	t.Helper()
	var sources []trace.Source
	for i, text := range texts {
		sources = append(sources, trace.Source{Name: string(rune('a' + i)), R: strings.NewReader(text)})
	}
	log, err := history.Read("slurm", sources, history.ReadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	built, err := log.BuildNow(history.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// TestNowReadsNumbersOfLaterVersions reads jobs, nodes and reservations in the form of Slurm 24.11: numbers
// with set and infinite, states and features as lists.
func TestNowReadsNumbersOfLaterVersions(t *testing.T) {
	const jobs = `{"jobs":[
	{"job_id":11,"name":"a","user_name":"ann","account":"x","partition":"gpu","job_state":["RUNNING"],
	 "submit_time":{"set":true,"infinite":false,"number":1000},
	 "eligible_time":{"set":true,"infinite":false,"number":1000},
	 "start_time":{"set":true,"infinite":false,"number":1100},"end_time":{"set":true,"infinite":false,"number":4700},
	 "time_limit":{"set":true,"infinite":false,"number":60},"node_count":{"set":true,"infinite":false,"number":1},
	 "nodes":"n1","gres_detail":["gpu:v100:2(IDX:2-3)"],"tres_req_str":"cpu=2,mem=1G,node=1,gres/gpu=2",
	 "tres_alloc_str":"cpu=2,mem=1G,node=1,gres/gpu=2,gres/gpu:v100=2","tres_per_node":"gres/gpu:2",
	 "array_job_id":{"set":true,"infinite":false,"number":0},"array_task_id":{"set":false,"infinite":false,"number":0},
	 "shared":[],"hold":false,"features":"","excluded_nodes":"","required_nodes":""},
	{"job_id":12,"name":"b","user_name":"ben","account":"x","partition":"gpu","job_state":["PENDING"],
	 "submit_time":{"set":true,"infinite":false,"number":1500},
	 "eligible_time":{"set":true,"infinite":false,"number":1500},
	 "start_time":{"set":false,"infinite":false,"number":0},"end_time":{"set":false,"infinite":false,"number":0},
	 "time_limit":{"set":false,"infinite":true,"number":0},"node_count":{"set":true,"infinite":false,"number":2},
	 "nodes":"","gres_detail":[],"tres_req_str":"cpu=4,mem=2G,node=2,gres/gpu=8","tres_alloc_str":"",
	 "tres_per_node":"gres/gpu:4","shared":["none"],"hold":false,"excluded_nodes":"n2","comment":""},
	{"job_id":13,"name":"c","user_name":"ben","job_state":["PENDING"],"state_reason":"JobHeldUser","hold":true,
	 "submit_time":{"set":true,"infinite":false,"number":1500},
	 "tres_per_node":"gres/gpu:1","node_count":{"set":true,"infinite":false,"number":1}}],
	"last_update":{"set":true,"infinite":false,"number":2000}}`
	const nodes = `{"nodes":[
	{"name":"n1","gres":"gpu:v100:4","cpus":8,"real_memory":64000,
	 "features":["fast"],"partitions":["gpu"],"state":["MIXED"]},
	{"name":"n2","gres":"gpu:v100:4","cpus":8,"real_memory":64000,
	 "features":[],"partitions":["gpu"],"state":["IDLE","DRAIN"]},
	{"name":"n3","gres":"gpu:v100:4","cpus":8,"real_memory":64000,
	 "features":[],"partitions":["gpu"],"state":["IDLE","POWERED_DOWN"]}]}`
	const reserved = `{"reservations":[{"name":"r","start_time":{"set":true,"infinite":false,"number":9000},
	 "end_time":{"set":true,"infinite":false,"number":9900},"node_list":"n3",
	 "users":"root","flags":["MAINT","SPEC_NODES"]}]}`
	built := now(t, jobs, nodes, reserved)
	if built.OriginUs != 2000e6 {
		t.Errorf("now is %d, not the time of the last update", built.OriginUs)
	}
	inst := built.Instance
	if nodes := inst.Cluster.Nodes; len(nodes) != 2 || nodes[1].Name != "n3" || len(nodes[1].Windows) != 2 {
		t.Errorf("nodes %+v", nodes)
	}
	if len(inst.Jobs) != 2 {
		t.Fatalf("jobs %+v", inst.Jobs)
	}
	running, waiting := &inst.Jobs[0], &inst.Jobs[1]
	if !slices.Equal(running.Progress.GPUs, []string{"n1/2", "n1/3"}) || running.Progress.ElapsedUs != 900e6 ||
		running.On[0].ComputeUs != 3600e6 {
		t.Errorf("the running job is %+v with %+v", running, running.Progress)
	}
	if waiting.Tasks != 2 || waiting.GPUsPerTask != 4 || !waiting.DistinctNodes || len(waiting.Exclude) != 1 {
		t.Errorf("the waiting job is %+v", waiting)
	}
}

// TestNowOfDoubtfulQueues reads queues that no cluster can have: the instance is valid nevertheless, and
// the report says what is left out.
func TestNowOfDoubtfulQueues(t *testing.T) {
	job := func(id, gpus, nodes string) string {
		return `{"job_id":` + id + `,"job_state":"RUNNING","submit_time":10,"start_time":20,"node_count":1,"nodes":"` +
			nodes + `","tres_alloc_str":"cpu=6,gres/gpu=` + gpus + `","time_limit":1}`
	}
	const nodes = "NodeName=n CPUTot=8 Gres=gpu:v100:2\n"
	for _, c := range []struct {
		name, jobs, want string
		kept             int
	}{
		{"overlap", job("1", "2", "n") + "," + job("2", "1", "n"), "holds or that are not known: left out", 1},
		{"too many", job("1", "3", "n"), "a GPU that the node does not have", 1},
		{"CPUs", job("1", "1", "n") + "," + job("2", "1", "n"), "holds more CPUs or memory than its nodes have", 2},
		{"no node", job("1", "1", "n") + "," + job("2", "1", ""), "does not say since when and on which nodes", 1},
		{"no room", job("1", "1", "n") + `,{"job_id":7,"job_state":"PENDING","submit_time":10,"node_count":1,
			"tres_per_node":"gpu:3"}`, "no room", 1},
		{"beyond its limit", job("1", "1", "n") + `,{"job_id":7,"job_state":"PENDING","submit_time":9000,"node_count":1,
			"tres_per_node":"gpu:1"}`, "has run for longer than expected", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			built := now(t, `{"jobs":[`+c.jobs+`]}`, nodes)
			if len(built.Instance.Jobs) != c.kept || !strings.Contains(built.Report.String(), c.want) {
				t.Errorf("%d jobs, not %d:\n%s", len(built.Instance.Jobs), c.kept, built.Report)
			}
		})
	}
}

// TestReservations reads reservations as text, one of them for maintenance.
func TestReservations(t *testing.T) {
	const text = `ReservationName=r1 StartTime=1970-01-01T01:00:00 EndTime=1970-01-01T02:00:00 Duration=01:00:00
   Nodes=n1 NodeCnt=1 Flags=SPEC_NODES
   Users=ann,ben Groups=(null) Accounts=(null) State=INACTIVE

ReservationName=r2 StartTime=1970-01-01T03:00:00 EndTime=1970-01-01T04:00:00 Duration=01:00:00
   Nodes=n2 NodeCnt=1 Flags=MAINT,SPEC_NODES
   Users=root Groups=(null) Accounts=(null) State=INACTIVE
`
	const nodes = "NodeName=n1 Gres=gpu:v100:2\nNodeName=n2 Gres=gpu:v100:2\n"
	const jobs = `{"jobs":[{"job_id":1,"job_state":"PENDING","submit_time":10,"tres_per_node":"gpu:1","node_count":1}]}`
	var texts []trace.Source
	for _, one := range []string{text, nodes, jobs} {
		texts = append(texts, trace.Source{Name: "f", R: strings.NewReader(one)})
	}
	log, err := history.Read("slurm", texts, history.ReadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	built, err := log.BuildNow(history.Config{Reservations: true})
	if err != nil {
		t.Fatal(err)
	}
	r := built.Instance.Cluster.Reservations
	if len(r) != 1 || r[0].FromUs != 3590e6 || r[0].UntilUs != 7190e6 ||
		!slices.Equal(r[0].Users, []string{"ann", "ben"}) {
		t.Errorf("reservations %+v", r)
	}
	want := []hare.Window{{StartUs: 0, EndUs: 10790e6}, {StartUs: 14390e6, EndUs: hare.Forever}}
	if got := built.Instance.Cluster.Nodes[1].Windows; !slices.Equal(got, want) {
		t.Errorf("maintenance leaves %v", got)
	}
}

// TestReadLive reads from commands in place of Slurm's: those that fail are lines of the report, unless
// nothing can be told without them.
func TestReadLive(t *testing.T) {
	texts := map[string][]byte{}
	for command, name := range map[string]string{"squeue": "squeue-now.json", "scontrol": "nodes-now.txt"} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		texts[command] = text
	}
	run := func(_ context.Context, name string, args ...string) ([]byte, error) {
		if name == "scontrol" && args[1] == "reservation" {
			return []byte("No reservations in the system\n"), nil
		}
		if text := texts[name]; text != nil {
			return text, nil
		}
		return nil, errors.New("Slurm accounting storage is disabled")
	}
	log, err := history.ReadLive(t.Context(), "slurm", history.LiveConfig{Now: true, Run: run})
	if err != nil {
		t.Fatal(err)
	}
	if len(log.Nodes) != 3 || len(log.Jobs) == 0 ||
		!strings.Contains(log.Report.String(), "failed: Slurm accounting storage is disabled") {
		t.Errorf("%d nodes, %d jobs\n%s", len(log.Nodes), len(log.Jobs), log.Report)
	}
	if _, err := history.ReadLive(t.Context(), "slurm", history.LiveConfig{Run: run}); err == nil ||
		!strings.Contains(err.Error(), "accounting storage is disabled") {
		t.Errorf("the history without accounting gives %v", err)
	}
}
