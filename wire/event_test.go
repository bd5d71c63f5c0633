package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

func ExampleDecodeEvent() {
	e, err := wire.DecodeEvent([]byte(`{"seq": 2, "at_s": 1.31, "type": "task_ended", "job": "bert", "round": 0, ` +
		`"task": 3, "gpu": "a/0", "compute_s": 1.2, "sync_s": 0.11}`))
	fmt.Println(e.Type, e.AtUs, e.ComputeUs, e.SyncUs, err)
	_, err = wire.DecodeEvent([]byte(`{"seq": 3, "at_s": 9, "type": "task_ende", "job": "bert"}`))
	fmt.Println(err)
	fmt.Println(string(wire.AppendEvent(nil, e)))
	// Output:
	// task_ended 1310000 1200000 110000 <nil>
	// /type: type "task_ende": did you mean "task_ended"? (unknown_value)
	// {"seq":2,"at_s":1.31,"type":"task_ended","job":"bert","round":0,"task":3,"gpu":"a/0","compute_s":1.2,"sync_s":0.11}
}

// everyEvent has each type once, with the field values that are written in
// another way than the others.
var everyEvent = []hare.Event{
	{Seq: 1, Type: hare.EventTick},
	{Seq: 2, AtUs: 1, Type: hare.EventJobArrived, Job: "a",
		Arrived: &hare.Job{ID: "a", WeightMicro: 1_500_000, Tasks: 4, Sync: hare.Gang, Mix: true,
			On: []hare.Profile{{Type: "T4"}, {Type: "V100", ComputeUs: 1, SyncUs: 2}}}},
	{Seq: 2, Type: hare.EventJobArrived, Job: "b", Arrived: &hare.Job{ID: "b", WeightMicro: 1e6, Tasks: 1,
		On: []hare.Profile{{Type: "T4"}},
		Hints: &hare.JobHints{EstimateUs: 3_600_000_001,
			Class: []hare.ClassLabel{{Name: "name", Value: "\"é"}, {Name: "user"}}}}},
	{Seq: 3, AtUs: 1_000_000, Type: hare.EventComputeEnded, Job: "\x00\"é", Round: 7, Task: 3, GPU: "a/0"},
	{Seq: 4, AtUs: 1_000_001, Type: hare.EventTaskEnded, Job: "a", Round: hare.MaxExact, Task: 3, GPU: "a/10",
		ComputeUs: 1, SyncUs: 0},
	{Seq: 5, AtUs: hare.MaxExact, Type: hare.EventTaskFailed, Job: "a", GPU: "x y/0"},
	{Seq: 6, AtUs: hare.MaxExact, Type: hare.EventJobEnded, Job: "a"},
	{Seq: 7, AtUs: hare.MaxExact, Type: hare.EventJobCancelled, Job: "a"},
	{Seq: 8, AtUs: hare.MaxExact, Type: hare.EventGPUJoined, GPU: "b/0", GPUType: "T4"},
	{Seq: hare.MaxExact, AtUs: hare.MaxExact, Type: hare.EventGPULeft, GPU: "b/0"},
	{Seq: 9, Type: hare.EventSetQuota, Change: &hare.Change{Quota: &hare.Quota{User: "é", GPUs: 0}}},
	{Seq: 9, Type: hare.EventSetQuota, Change: &hare.Change{Quota: &hare.Quota{User: "ann", GPUs: 7,
		Types: []string{"A", "B"}}}},
	{Seq: 10, Type: hare.EventJobArrived, Job: "c", Arrived: &hare.Job{ID: "c", WeightMicro: 1e6, Tasks: 2,
		Sync: hare.Rigid, On: []hare.Profile{{Type: "T4"}}, Users: []string{"ann", "vision"},
		Progress: &hare.Progress{RoundsDone: 7, GPUs: []string{"a/1", "b/0"}, ElapsedUs: 1}}},
	{Seq: 10, Type: hare.EventJobArrived, Job: "d", Arrived: &hare.Job{ID: "d", WeightMicro: 1e6, Tasks: 1,
		On: []hare.Profile{{Type: "T4"}}, Users: []string{"ann"}, Progress: &hare.Progress{RoundsDone: 7}}},
}

func TestEventsSurviveEncoding(t *testing.T) {
	for _, e := range everyEvent {
		line := wire.AppendEvent(nil, e)
		got, err := wire.DecodeEvent(line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
		} else if diff := cmp.Diff(e, got); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
		r := wire.Record{Event: e, Decisions: []hare.Decision{{Type: hare.DecisionWithdraw, Job: "é", Round: 1,
			Task: 2, GPU: "a/1", AtUs: 3}, {Job: "b", GPU: "a/0"}}}
		again, err := wire.DecodeRecord(wire.AppendRecord(nil, r))
		if diff := cmp.Diff(r, again); err != nil || diff != "" {
			t.Errorf("%s: %v %s", wire.AppendRecord(nil, r), err, diff)
		}
		r.Plan = []byte(`{ "made_us" : 7e0,"é":[{"a":1,"a":-0.0}] }`)
		again, err = wire.DecodeRecord(wire.AppendRecord(nil, r))
		if diff := cmp.Diff(r, again); err != nil || diff != "" {
			t.Errorf("%s: %v %s", wire.AppendRecord(nil, r), err, diff)
		}
		a := hare.Answer{Seq: e.Seq, Decisions: r.Decisions}
		answer, err := wire.DecodeAnswer(wire.AppendAnswer(nil, a))
		if diff := cmp.Diff(a, answer); err != nil || diff != "" {
			t.Errorf("%s: %v %s", wire.AppendAnswer(nil, a), err, diff)
		}
	}
}

// arrives is the line of a job that arrives with another member.
func arrives(member string) string {
	return `{"seq":1,"at_s":0,"type":"job_arrived","job":{"id":"j","on":{"T4":{}},` + member + `}}`
}

// What a user says of a job is read in any order and written in the order of names. A job
// of which nothing is said has the bytes that it always had.
func TestHintsOfJobs(t *testing.T) {
	for line, want := range map[string]string{
		arrives(`"class":{"user":"ann","name":"bert"},"estimate_s":7.5`): `,"estimate_s":7.5,"class":{"name":"bert",` +
			`"user":"ann"}}}`,
		arrives(`"class":{}`): `"on":{"T4":{}}}}`,
	} {
		e, err := wire.DecodeEvent([]byte(line))
		if text := wire.AppendEvent(nil, e); err != nil || !strings.HasSuffix(string(text), want) {
			t.Errorf("%s: %v\n got %s\nwant %s", line, err, text, want)
		}
	}
}

// What cannot stand in a line of a log is refused before it is written, and when it is
// read.
func TestBadPlans(t *testing.T) {
	for _, c := range []struct{ plan, want string }{
		{"", "is not a JSON object"},
		{"[]", "is not a JSON object"},
		{"null", "is not a JSON object"},
		{" {}", "is not a JSON object"},
		{`{"a":`, "is not a JSON object"},
		{`{"a":1}}`, "is not a JSON object"},
		{"{\"a\":\"\xff\"}", "is not a JSON object"},
		{"{\"a\":\n1}", "is not on one line"},
		{`{"a":"` + strings.Repeat("x", wire.MaxPlanBytes) + `"}`, "at most 4194304 are allowed"},
	} {
		if err := wire.CheckPlan([]byte(c.plan)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: got %v, want %s", c.plan, err, c.want)
		}
		if c.plan == "" || c.plan == " {}" {
			continue // as text in a record, another fault or none
		}
		line := `{"event":{"seq":1,"at_s":0,"type":"tick"},"plan":` + c.plan + `,"decisions":[]}`
		if _, err := wire.DecodeRecord([]byte(line)); err == nil {
			t.Errorf("%.80q is read", line)
		} else {
			checkFaults(t, err)
		}
	}
	if err := wire.CheckPlan([]byte(`{"jobs":[]}`)); err != nil {
		t.Error(err)
	}
}

func TestBadEvents(t *testing.T) {
	const ended = `"type":"task_ended","job":"j","round":0,"task":0,"gpu":"a/0"`
	for _, c := range []struct{ line, want string }{
		{``, "document: the document is empty"},
		{`{"seq":1`, "the document ends too early"},
		{`[]`, "document: must be an object, not an array (wrong_type)"},
		{`{"seq":1,"at_s":0,"type":"tick"} x`, "malformed"},
		{`{"seq":1,"at_s":0,"type":"tick"}{"seq":2}`, "something follows"},
		{`{"seq":1,"at_s":0,"type":"tick","seq":1}`, `/seq: "seq" appears twice`},
		{`{"at_s":0,"type":"tick"}`, `document: "seq" is missing: count the events from 1`},
		{`{"seq":1,"type":"tick"}`, `document: "at_s" is missing`},
		{`{"seq":1,"at_s":0}`, `document: "type" is missing`},
		{`{"seq":0,"at_s":0,"type":"tick"}`, "/seq: 0 must be at least 1"},
		{`{"seq":1.5,"at_s":0,"type":"tick"}`, "/seq: 1.5 must be a whole number"},
		{`{"seq":1,"at_s":-1,"type":"tick"}`, "/at_s: -1 must not be negative"},
		{`{"seq":1,"at_s":0.0000001,"type":"tick"}`, "/at_s: 0.0000001 has more than six decimals"},
		{`{"seq":1,"at_s":9007199254.740993,"type":"tick"}`, "/at_s: 9007199254.740993 is above the limit"},
		{`{"seq":1,"at_s":"0","type":"tick"}`, "/at_s: must be a number, not a string"},
		{`{"seq":1,"at_s":0,"type":"tock"}`, `/type: type "tock": did you mean "tick"?`},
		{`{"seq":1,"at_s":0,"type":"xyzxyzxyz"}`, "/type: type \"xyzxyzxyz\": must be one of tick, job_arrived"},
		{`{"seq":1,"at_s":0,"type":"tick","at_":1}`, `/at_: unknown field "at_": did you mean "at_s"?`},
		{`{"seq":1,"at_s":0,"type":"tick","quota":1}`, `/quota: must be an object`},
		{`{"seq":1,"at_s":0,"type":"job_arrived","job":{"id":"j","shapes":[],"on":{"A":{}}}}`,
			"/job/shapes: sessions do not support shapes in this version: give the job one"},
		{arrives(`"after":["x"]`), "/job/after: sessions do not support dependencies in this version: leave after out"},
		{arrives(`"reshape_s":1`), "/job/reshape_s: sessions do not support shapes"},
		{arrives(`"durations":[{"p":1,"factor":2}]`), "/job/durations: sessions learn how long jobs take: leave"},
		{arrives(`"deadline_s":9`), "/job/deadline_s: sessions do not support deadlines in this version: leave"},
		{arrives(`"late_weight":9`), "/job/late_weight: sessions do not support deadlines in this version: leave"},
		{`{"seq":1,"at_s":0,"type":"tick","quota":{"user":"a","gpus":1}}`, `/quota: tick has no "quota"`},
		{`{"seq":1,"at_s":0,"type":"set_quota"}`, `"quota" is missing: give the quota`},
		{`{"seq":1,"at_s":0,"type":"set_quota","quota":{"user":"a"}}`, `/quota: "gpus" is missing`},
		{`{"seq":1,"at_s":0,"type":"set_quota","quota":{"gpus":1}}`, `/quota: "user" is missing`},
		{`{"seq":1,"at_s":0,"type":"set_quota","quota":{"user":"a","gpus":-1}}`, `/quota/gpus: -1 must`},
		{`{"seq":1,"at_s":0,"type":"set_quota","quota":{"user":"a","gpus":1,"types":[]}}`, `/quota/types: names no type`},
		{arrives(`"user":[""]`), "/job/user/0: is empty"},
		{arrives(`"progress":{"rounds_done":-1}`), "/job/progress/rounds_done: -1 must"},
		{arrives(`"progress":{"gpus":["a/0"]}`), "/job/progress/gpus: belongs to gang and rigid jobs"},
		{arrives(`"sync":"gang","tasks":2,"progress":{"gpus":["a/0"]}`), "/job/progress/gpus: names 1 GPUs, and 2 tasks"},
		{arrives(`"progress":{"elapsed_s":1}`), "/job/progress/elapsed_s: belongs to work that runs"},
		{arrives(`"within":"node"`), "/job/within: belongs to gang and rigid jobs"},
		{arrives(`"sync":"gang","within":""`), "/job/within: "},
		{arrives(`"gpus_per_task":0`), "/job/gpus_per_task: 0 must be at least 1"},
		{arrives(`"distinct_nodes":true`), "/job/distinct_nodes: belongs to gang and rigid jobs"},
		{arrives(`"only":{"disk":[]}`), "/job/only/disk: names no value"},
		{`{"seq":1,"at_s":0,"type":"node_joined","node":"a"}`, `"gpus" is missing: give the number of GPUs by type`},
		{`{"seq":1,"at_s":0,"type":"node_joined","node":"a","gpus":{}}`, `/gpus: "gpus" names no GPU`},
		{`{"seq":1,"at_s":0,"type":"node_joined","node":"a/b","gpus":{"A":1}}`, `/node: "a/b" is not the name of a node`},
		{`{"seq":1,"at_s":0,"type":"node_joined","node":"","gpus":{"A":1}}`, `/node: "" is not the name of a node`},
		{`{"seq":1,"at_s":0,"type":"node_joined","node":"a","gpus":{"A":0}}`, "/gpus/A: 0 must be at least 1"},
		{`{"seq":1,"at_s":0,"type":"node_left"}`, `"node" is missing: name the node`},
		{`{"seq":1,"at_s":0,"type":"node_left","node":"a","cpus":2}`, `/cpus: node_left has no "cpus"`},
		{`{"seq":1,"at_s":0,"type":"gpu_joined","gpu":"a/1","gpu_type":"A","labels":{"node":"b"}}`,
			`/labels/node: "node" is the name of the node itself`},
		{`{"seq":1,"at_s":0,"type":"gpu_left","gpu":"a/1","memory_mib":4}`, `/memory_mib: gpu_left has no "memory_mib"`},
		{`{"seq":1,"at_s":0,"type":"tick","job":"j"}`, `/job: tick has no "job": leave it out (not_allowed)`},
		{`{"seq":1,"at_s":0,"type":"job_ended"}`, `"job" is missing: name the job`},
		{`{"seq":1,"at_s":0,"type":"job_ended","job":""}`, "/job: must not be empty"},
		{`{"seq":1,"at_s":0,"type":"job_ended","job":{"id":"j","on":{"T4":{}}}}`,
			"/job: must be a string, the id of the job"},
		{`{"seq":1,"at_s":0,` + ended + `}`, `"compute_s" is missing: give the measured seconds`},
		{`{"seq":1,"at_s":0,` + ended + `,"compute_s":0}`, "/compute_s: 0 must be positive"},
		{`{"seq":1,"at_s":0,` + strings.Replace(ended, "task_ended", "task_failed", 1) + `,"compute_s":1}`,
			`/compute_s: task_failed has no "compute_s"`},
		{`{"seq":1,"at_s":0,"type":"gpu_left","gpu":"a"}`, `/gpu: "a" is not the name of a GPU`},
		{`{"seq":1,"at_s":0,"type":"gpu_left","gpu":"a/01"}`, `/gpu: "a/01" is not the name of a GPU`},
		{`{"seq":1,"at_s":0,"type":"gpu_joined","gpu":"a/1"}`, `"gpu_type" is missing`},
		{`{"seq":1,"at_s":0,"type":"gpu_joined","gpu":"a/1","gpu_type":""}`, "/gpu_type: a GPU type needs a name"},
		{`{"seq":1,"at_s":0,"type":"job_arrived"}`, `"job" is missing: give the job that arrives`},
		{`{"seq":1,"at_s":0,"type":"job_arrived","job":"j"}`, "/job: must be an object, the job that arrives"},
		{`{"seq":1,"at_s":0,"type":"job_arrived","job":{"on":{"T4":{}}}}`, "/job/id: a job needs an id"},
		{`{"seq":1,"at_s":0,"type":"job_arrived","job":{"id":"j"}}`, `/job: "on" is missing`},
		{`{"seq":1,"at_s":0,"type":"job_arrived","job":{"id":"j","on":{}}}`, `/job/on: "on" names no GPU type`},
		{`{"seq":1,"at_s":0,"type":"job_arrived","job":{"id":"j","rounds":3,"on":{"T4":{}}}}`,
			"/job/rounds: the size of an arriving job is not known: leave rounds out"},
		{`{"seq":1,"at_s":0,"type":"job_arrived","job":{"id":"j","release_s":3,"on":{"T4":{}}}}`,
			"/job/release_s: a job is released when it arrives: leave release_s out"},
		{`{"seq":1,"at_s":0,"type":"job_arrived","job":{"id":"j","on":{"T4":{"sync_s":1}}}}`,
			`/job/on/T4: "compute_s" is missing`},
		{`{"seq":1,"at_s":0,"type":"job_arrived","job":{"id":"j","on":{"T4":{"compute_s":0}}}}`,
			"/job/on/T4/compute_s: 0 must be positive"},
		{`{"seq":1,"at_s":0,"type":"job_arrived","job":{"id":"j","sync":"rigid","mix":true,"on":{"T4":{}}}}`,
			"/job/mix: rigid jobs never mix"},
		{`{"seq":1,"at_s":0,"type":"job_arrived","job":{"id":"j","sync":"gang","tasks":2000000,"on":{"T4":{}}}}`,
			"/job/tasks: must be between 1 and"},
		{arrives(`"estimate_s":0`), "/job/estimate_s: 0 must be positive, at least 0.000001"},
		{arrives(`"estimate_s":-5`), "/job/estimate_s: -5 must not be negative"},
		{arrives(`"estimate_s":1e12`), "/job/estimate_s: 1e12 is above the limit"},
		{arrives(`"estimate_s":1e309`), "/job/estimate_s: 1e309 is above the limit"},
		{arrives(`"estimate_s":"60"`), "/job/estimate_s: must be a number, not a string"},
		{arrives(`"estimate_s":null`), "/job/estimate_s: must be a number, not null"},
		{arrives(`"estimate_s":NaN`), "malformed"},
		{arrives(`"estimate":60`), `/job/estimate: unknown field "estimate": did you mean "estimate_s"?`},
		{arrives(`"class":"bert"`), "/job/class: must be an object, not a string"},
		{arrives(`"class":{"user":7}`), "/job/class/user: must be a string, not a number"},
		{arrives(`"class":{"user":"a","user":"b"}`), `/job/class/user: "user" appears twice`},
		{arrives(`"class":{"":"a"}`), "/job/class/: a label needs a name"},
		{arrives(`"class":{"user":"` + strings.Repeat("é", 101) + `"}`),
			"/job/class/user: names and values have at most 100"},
		{arrives(`"class":{"a":"","b":"","c":"","d":"","e":"","f":"","g":"","h":"","i":""}`),
			"/job/class: there are 9: at most 8 are allowed"},
	} {
		_, err := wire.DecodeEvent([]byte(c.line))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n got %v\nwant %s", c.line, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "(line") {
			t.Errorf("%s: which line it is, the caller knows: %v", c.line, err)
		}
	}
	_, err := wire.DecodeEvent([]byte(`{"seq":0,"at_s":-1,"type":"gpu_joined","gpu":"x","round":-1,"what":1}`))
	var all hare.InvalidErrors
	if !errors.As(err, &all) || len(all) != 6 {
		t.Errorf("want 6 faults in one pass, got %v", err)
	}
}

func TestUntimedEvents(t *testing.T) {
	for _, line := range []string{`{"seq":1,"type":"tick"}`, `{"seq":1,"type":"job_ended","job":"é"}`} {
		if e, err := wire.DecodeUntimedEvent([]byte(line)); err != nil || e.AtUs != 0 || e.Seq != 1 {
			t.Errorf("%s: %v %v", line, e, err)
		}
		timed := strings.Replace(line, "1,", `1,"at_s":0,`, 1)
		if _, err := wire.DecodeUntimedEvent([]byte(timed)); err == nil ||
			!strings.Contains(err.Error(), "/at_s: the server keeps the time") {
			t.Errorf("%s: %v", timed, err)
		}
	}
}

func TestDecodeCluster(t *testing.T) {
	const nodes = `{"nodes":[{"name":"a","count":2,"gpus":{"V100":2}},{"name":"b","gpus":{"T4":1},"busy":[{"gpu":0,` +
		`"until_s":4}]}]}`
	want, err := wire.DecodeCluster(strings.NewReader(nodes), wire.Limits{})
	if err != nil || len(want.Nodes) != 3 || len(want.Nodes[2].Busy) != 1 {
		t.Fatalf("%+v %v", want, err)
	}
	for _, text := range []string{
		`{"hare":"instance/v1","cluster":` + nodes + `,"jobs":[{"nonsense":1}]}`,
		`{"hare":"instance/v1","cluster":` + nodes + "}\n{\"id\":\"j\"}\n",
		`{"cluster":` + nodes + `}`,
		string(wire.AppendCluster(nil, want)),
		strings.TrimSuffix(nodes, "}") + `,"topology":[]}`,
	} {
		got, err := wire.DecodeCluster(strings.NewReader(text), wire.Limits{})
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", text, err, diff)
		}
	}
	for _, c := range []struct{ text, want string }{
		{`{}`, `document: "nodes" is missing`},
		{`{"nodes":[]}`, "/nodes: the cluster has no GPUs"},
		{`{"cluster":{}}`, `/cluster: "nodes" is missing`},
		{`{"node":[]}`, `did you mean "nodes"`},
		{`{"nodes":[{"name":"a","gpus":{"T4":1}},{"name":"a","gpus":{"T4":1}}]}`,
			`node "a" appears twice, first at /nodes/0`},
		{`{"nodes":[{"name":"a","gpus":{"T4":0}}]}`, "/nodes/0/gpus/T4: 0 must be at least 1"},
		{nodes + nodes, "something follows"},
		{`{"cluster":` + nodes + `,"nodes":[]}`, "give one of them"},
		{`{"cluster":` + nodes + `,"topology":["rack"]}`, "/topology: \"topology\" is outside"},
		{strings.TrimSuffix(nodes, "}") + `,"topology":["rack"]}`, `/nodes/0/labels: node "a-0" lacks the label "rack"`},
		{`{"cluster":` + strings.TrimSuffix(nodes, "}") + `,"topology":["rack"]}}`, "/cluster/nodes/0/labels: node"},
		{`{"hare":"result/v1","cluster":` + nodes + `}`, "/hare: must be"},
		{`{"cluster":` + strings.TrimSuffix(nodes, "}") + `,"reservations":[{"until_s":5}]}}`,
			`/cluster/reservations: sessions and simulations do not support reservations`},
		{strings.TrimSuffix(nodes, "}") + `,"reservations":[{"until_s":5}]}`,
			`/reservations: sessions and simulations`},
		{`{"cluster":` + nodes + `,"quota":[{"user":"ann","gpus":1}]}`, `/quota: a cluster has no quotas`},
	} {
		if _, err := wire.DecodeCluster(strings.NewReader(c.text), wire.Limits{}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

// randomEventText is an event as programs might write it, true or nearly so.
func randomEventText(r *rand.Rand) string {
	e := everyEvent[r.IntN(len(everyEvent))]
	e.Seq, e.AtUs, e.ComputeUs, e.SyncUs = r.Int64N(5), r.Int64N(1<<uint(r.IntN(55))), r.Int64N(3e6), r.Int64N(3e6)
	b := wire.AppendEvent(nil, e)
	text := strings.ReplaceAll(string(b), ",", [...]string{",", ", ", " ,"}[r.IntN(3)])
	if r.IntN(3) == 0 {
		at := r.IntN(len(text))
		const some = `0123456789.,:"{}eE-+ \/a` + "\n"
		text = text[:at] + string(some[r.IntN(len(some))]) + text[at+r.IntN(2):]
	}
	return text
}

// checkEventText compares the scan with the strict decoder.
func checkEventText(t *testing.T, text string) {
	t.Helper()
	for _, timed := range []bool{true, false} {
		strict, err := wire.DecodeEventStrictly([]byte(text), timed)
		decode := wire.DecodeEvent
		if !timed {
			decode = wire.DecodeUntimedEvent
		}
		got, gotErr := decode([]byte(text))
		if (err == nil) != (gotErr == nil) || err != nil && err.Error() != gotErr.Error() {
			t.Fatalf("%q: strictly %v, got %v", text, err, gotErr)
		}
		if diff := cmp.Diff(strict, got); diff != "" {
			t.Fatalf("%q: %s", text, diff)
		}
		if err != nil {
			checkFaults(t, err)
			continue
		}
		line := wire.AppendEvent(nil, got)
		if !timed {
			continue
		}
		again, err := wire.DecodeEvent(line)
		if err != nil || !bytes.Equal(line, wire.AppendEvent(nil, again)) {
			t.Fatalf("%q: encoded %q: %v", text, line, err)
		}
	}
}

func TestScanAgreesWithStrictDecoder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		checkEventText(t, randomEventText(r))
	}
}

func FuzzDecodeEvent(f *testing.F) {
	for _, e := range everyEvent {
		f.Add(string(wire.AppendEvent(nil, e)))
	}
	f.Add(`{"seq":1,"at_s":0.100000,"type":"tick"} `)
	f.Add(`{"seq":01,"at_s":1e3,"type":"job_ended","job":"\u0041"}`)
	f.Fuzz(func(t *testing.T, text string) { checkEventText(t, text) })
}

func FuzzDecodeAnswer(f *testing.F) {
	f.Add(`{"seq":1,"decisions":[{"type":"start","job":"bert","round":0,"task":0,"gpu":"a/0","at_s":0}]}`)
	f.Add(`{"event":{"seq":1,"at_s":0,"type":"tick"},"decisions":[]}`)
	f.Add(`{"event":{"seq":1,"at_s":0,"type":"tick"},"plan":{ "made_us":1, "jobs":[{}]},"decisions":[]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if a, err := wire.DecodeAnswer([]byte(text)); err != nil {
			checkFaults(t, err)
		} else if line := wire.AppendAnswer(nil, a); true {
			again, err := wire.DecodeAnswer(line)
			if err != nil || !bytes.Equal(line, wire.AppendAnswer(nil, again)) {
				t.Fatalf("%q: %q: %v", text, line, err)
			}
		}
		if r, err := wire.DecodeRecord([]byte(text)); err != nil {
			checkFaults(t, err)
		} else if line := wire.AppendRecord(nil, r); true {
			again, err := wire.DecodeRecord(line)
			if err != nil || !bytes.Equal(line, wire.AppendRecord(nil, again)) {
				t.Fatalf("%q: %q: %v", text, line, err)
			}
		}
	})
}

func FuzzDecodeCluster(f *testing.F) {
	f.Add(`{"nodes":[{"name":"a","count":2,"gpus":{"V100":2}}]}`)
	f.Add(`{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"V100":2},"in_service_s":[[0,null]]}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := wire.DecodeCluster(strings.NewReader(text), fuzzLimits)
		if err != nil {
			checkFaults(t, err)
			return
		}
		line := wire.AppendCluster(nil, c)
		again, err := wire.DecodeCluster(bytes.NewReader(line), wire.Limits{MaxBytes: 1 << 30})
		if err != nil || !bytes.Equal(line, wire.AppendCluster(nil, again)) {
			t.Fatalf("%q: %q: %v", text, line, err)
		}
	})
}

func BenchmarkDecodeEvent(b *testing.B) {
	for _, c := range []struct{ name, line string }{
		{"task_ended", `{"seq": 123456, "at_s": 1234.567, "type": "task_ended", "job": "job-1234", "round": 17, ` +
			`"task": 3, "gpu": "node-17/3", "compute_s": 1.2, "sync_s": 0.11}`},
		{"job_arrived", string(wire.AppendEvent(nil, everyEvent[1]))},
	} {
		b.Run(c.name, func(b *testing.B) {
			line := []byte(c.line)
			b.ReportAllocs()
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				if _, err := wire.DecodeEvent(line); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendAnswer(b *testing.B) {
	a := hare.Answer{Seq: 123456, Decisions: []hare.Decision{{Job: "job-1234", Round: 17, Task: 3, GPU: "node-17/3",
		AtUs: 1234567890}}}
	b.ReportAllocs()
	var buf []byte
	for b.Loop() {
		buf = wire.AppendAnswer(buf[:0], a)
	}
}

// Events and decisions about nodes are written and read back as they are.
func TestNodeEventsAndDecisions(t *testing.T) {
	for _, line := range []string{
		`{"seq":1,"at_s":0,"type":"node_joined","gpus":{"A100":8,"T4":1},"node":"a","cpus":96.5,"memory_mib":1024,` +
			`"labels":{"disk":"nvme","rack":"r1"}}`,
		`{"seq":2,"at_s":1.5,"type":"gpu_joined","gpu":"b/3","gpu_type":"A100","cpus":4,"labels":{"rack":"r2"}}`,
		`{"seq":3,"at_s":2,"type":"node_left","node":"a"}`,
		`{"seq":4,"at_s":2,"type":"job_arrived","job":{"id":"j","weight":1,"tasks":2,"sync":"gang","on":{"A100":{}},` +
			`"gpus_per_task":4,"cpus_per_task":2.5,"memory_mib_per_task":7,"distinct_nodes":true,` +
			`"only":{"disk":"nvme"},"exclude":{"node":["b","c"]}}}`,
		`{"seq":5,"at_s":2,"type":"job_arrived","job":{"id":"k","weight":1,"tasks":2,"sync":"gang","on":{"A100":` +
			`{"compute_s":1,"sync_s":{"any":0.2,"node":0}},"T4":{}},"within":"rack"}}`,
	} {
		e, err := wire.DecodeEvent([]byte(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if got := string(wire.AppendEvent(nil, e)); got != line {
			t.Errorf("got  %s\nwant %s", got, line)
		}
	}
	answer := `{"seq":1,"decisions":[{"type":"start","job":"j","round":0,"task":1,"gpu":"a/2",` +
		`"gpus":["a/2","a/3","a/11"],"at_s":0}]}`
	a, err := wire.DecodeAnswer([]byte(answer))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(wire.AppendAnswer(nil, a)); got != answer || a.Decisions[0].Others != "3,11" {
		t.Errorf("got %s, others %q", got, a.Decisions[0].Others)
	}
	for _, gpus := range []string{`["a/3","a/2"]`, `["a/2"]`, `["a/2","b/3"]`, `["a/2","a"]`} {
		bad := strings.Replace(answer, `["a/2","a/3","a/11"]`, gpus, 1)
		if _, err := wire.DecodeAnswer([]byte(bad)); err == nil || !strings.Contains(err.Error(), "/gpus") {
			t.Errorf("%s: %v", gpus, err)
		}
	}
}
