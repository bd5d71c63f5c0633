package history_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/wire"
)

const rayJobs = `[
{"type":"SUBMISSION","job_id":"01000000","submission_id":"bert","status":"SUCCEEDED","entrypoint":"python bert.py",
 "start_time":1795300000000,"end_time":1795303600000,"driver_node_id":"aa","driver_exit_code":0,
 "metadata":{"user":"ann","gpus":"2","submitted":"1795299900","hare":"{\"V100\":3600,\"T4\":9000}"}},
{"type":"SUBMISSION","job_id":"02000000","submission_id":"vgg","status":"RUNNING","entrypoint":"python vgg.py",
 "start_time":1795303600000,"end_time":null,"driver_node_id":"aa","metadata":{}},
{"type":"SUBMISSION","job_id":null,"submission_id":"late","status":"PENDING","entrypoint":"python vgg.py",
 "start_time":1795303700000,"end_time":null,"metadata":{"gpus":"4","user":"ben","cpus":"12.5","memory_mib":"2048"}},
{"type":"DRIVER","job_id":"04000000","submission_id":null,"status":"FAILED","entrypoint":"","start_time":1795303800000,
 "end_time":1795303900000,"metadata":null,"runtime_env":{},"driver_node_id":"bb"}]`

const rayNodes = `{"result":true,"msg":"","data":{"result":{"total":2,"result":[
{"node_id":"aa","node_ip":"10.0.0.1","node_name":"n1","state":"ALIVE","start_time_ms":1795200000000,"end_time_ms":0,
 "resources_total":{"CPU":16.0,"GPU":4.0,"memory":68719476736.0,"accelerator_type:V100":1.0},"labels":{}},
{"node_id":"bb","node_ip":"10.0.0.2","node_name":"n2","state":"ALIVE","start_time_ms":1795200000000,
 "resources_total":{"CPU":16.0,"GPU":4.0,"accelerator_type:T4":1.0}}]}}}`

const rayGroups = `{"result":true,"data":{"result":{"result":[
{"placement_group_id":"pg","creator_job_id":"02000000","state":"CREATED","bundles":[
 {"bundle_id":{},"node_id":"aa","unit_resources":{"GPU":1.0,"CPU":1.0}},
 {"node_id":"bb","unit_resources":{"GPU":0.5}}]},
{"placement_group_id":"old","creator_job_id":"02000000","state":"REMOVED","bundles":[
 {"node_id":"aa","unit_resources":{"GPU":2.0}}]}]}}}`

const raySummary = `{"result":true,"msg":"","data":{"summary":[
{"hostname":"n1","ip":"10.0.0.1","gpus":[{"index":0,"name":"Tesla V100"}],"raylet":{"nodeId":"aa","state":"ALIVE",
 "startTimeMs":"1795200000000","endTimeMs":"0","resourcesTotal":{"CPU":16.0,"GPU":4.0}}}]}}`

func rayLog(t *testing.T, texts ...string) *history.Log {
	t.Helper()
	var sources []trace.Source
	for _, text := range texts {
		sources = append(sources, trace.Source{Name: "f", R: strings.NewReader(text)})
	}
	log, err := history.Read("ray", sources, history.ReadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// TestRay reads jobs, nodes and placement groups, in any order.
func TestRay(t *testing.T) {
	log := rayLog(t, rayJobs, rayGroups, rayNodes)
	was := build(t, log, history.Config{})
	now, err := log.BuildNow(history.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, built := range map[string]*history.Built{"ray": was, "ray-now": now} {
		var text bytes.Buffer
		if err := wire.EncodeInstance(&text, built.Instance); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".instance.json", text.String())
		golden(t, name+".report.txt", built.Report.String())
	}
	summary := rayLog(t, rayJobs, raySummary)
	if n := summary.Nodes; len(n) != 1 || n[0].GPUs[0].Type != "Tesla V100" || n[0].GPUs[0].Count != 4 ||
		n[0].Down[0].EndUs != 1795200000e6 {
		t.Errorf("nodes %+v", n)
	}
}

// TestBadRay checks that a text of which nothing can be read is refused, with the place.
func TestBadRay(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"cut", rayJobs[:300], "f#: byte "},
		{"table", "ACTOR_ID  STATE", "f:1: is no answer of Ray's dashboard"},
		{"two", "[] []", "f#: a second document follows the first"},
		{"other", `{"a":1}`, "f#: is no answer of Ray's dashboard"},
		{"error", `{"result":false,"msg":"no GCS"}`, "f#/result: Ray answered with an error: no GCS"},
		{"list", `{"data":{"summary":{}}}`, "f#/data/summary: is not a list"},
		{"no ID", `[{"status":"RUNNING"}]`, `f#/0: has neither`},
		{"others", `[{"worker":1}]`, "f#/0: is no job, node, placement group or actor of Ray"},
		{"node", `{"data":{"summary":[{"hostname":"x"}]}}`, "f#/data/summary/0: is a node without an ID"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := history.Read("ray", []trace.Source{{Name: "f", R: strings.NewReader(c.text)}},
				history.ReadConfig{})
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %s…", err, c.want)
			}
		})
	}
}

// TestRaySetAside checks that a value that cannot be read is set aside with its place, and that the rest is read.
func TestRaySetAside(t *testing.T) {
	const rest = `{"submission_id":"rest","status":"RUNNING","start_time":1795300000000}`
	for _, c := range []struct {
		name, text, want string
		jobs             int
	}{
		{"status", `{"submission_id":"a","status":"ASLEEP"}`, `f#/0: "ASLEEP"`, 2},
		{"no ID", `{"status":"RUNNING"}`, `f#/0: "{\"status\":\"RUNNING\"}"`, 1},
		{"CPUs", `{"submission_id":"a","status":"RUNNING","metadata":{"cpus":"some"}}`, `f#/0: "some"`, 2},
		{"memory", `{"submission_id":"a","status":"RUNNING","metadata":{"memory_mib":"-1"}}`, `f#/0: "-1"`, 2},
		{"time", `{"submission_id":"a","status":"RUNNING","start_time":1e300}`, `f#/0: "1e+300 ms"`, 2},
		{"time in words", `{"submission_id":"a","status":"RUNNING","start_time":"noon"}`,
			`f#/0/start_time: "noon"`, 2},
		{"gpus", `{"submission_id":"a","status":"RUNNING","metadata":{"gpus":"all"}}`, `f#/0: "all"`, 2},
		{"submitted", `{"submission_id":"a","status":"RUNNING","metadata":{"submitted":"soon"}}`, `f#/0: "soon"`, 2},
		{"seconds", `{"submission_id":"a","status":"RUNNING","metadata":{"hare":"fast"}}`, `f#/0: "fast"`, 2},
		{"metadata", `{"submission_id":"a","status":"RUNNING","metadata":[1]}`, `f#/0/metadata: "[1]"`, 2},
		{"null", `null`, `f#/0: "null"`, 1},
		{"node", `{"node_id":"n","resources_total":{"GPU":-1}}`, `f#/0: "-1"`, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := rayLog(t, "["+c.text+","+rest+"]")
			if n := log.Report.SetAside; len(n) != 1 || n[0].Count != 1 || n[0].First != c.want {
				t.Errorf("got %v, want %s", n, c.want)
			}
			if len(log.Jobs) != c.jobs || !slices.ContainsFunc(log.Jobs,
				func(j history.Job) bool { return j.ID == "rest" }) {
				t.Errorf("%d jobs, want %d: %v", len(log.Jobs), c.jobs, log.Jobs)
			}
		})
	}
}

// TestRayHolders checks which GPUs a job held: those of its entrypoint, which an actor of the dashboard holds, and of
// its actors and placement groups, of which parts add up before they are rounded.
func TestRayHolders(t *testing.T) {
	const nodes = `[{"node_id":"n1","node_name":"gpu-1","state":"ALIVE","start_time_ms":1795200000000,
		"resources_total":{"GPU":8,"CPU":8,"accelerator_type:T4":1}}]`
	job := func(id, submission, status string) string {
		return `{"job_id":` + id + `,"submission_id":` + submission + `,"status":"` + status + `","entrypoint":"x",
			"start_time":1795300000000,"end_time":1795303600000,"driver_node_id":"n1"}`
	}
	actor := func(id, job, name, state, gpus string) string {
		return `{"actor_id":"` + id + `","job_id":"` + job + `","name":"` + name + `","state":"` + state + `","node_id":"n1",
			"placement_group_id":null,"required_resources":{"CPU":1,"GPU":` + gpus + `}}`
	}
	list := func(items ...string) string { return "[" + strings.Join(items, ",") + "]" }
	answer := func(total string, items ...string) string {
		return `{"result":true,"data":{"result":{"total":` + total + `,"num_after_truncation":` + total + `,"result":` +
			list(items...) + `,"warnings":null}}}`
	}
	quarter := []string{actor("a0", "02", "", "DEAD", "0.25"), actor("a1", "02", "", "DEAD", "0.25"),
		actor("a2", "02", "", "DEAD", "0.25"), actor("a3", "02", "", "DEAD", "0.25")}
	const part = ": a part of a GPU counts as a whole one"
	one := list(job(`"02"`, `"s1"`, "SUCCEEDED"))
	for _, c := range []struct {
		name  string
		texts []string
		want  string // GPUs by job
		note  string
	}{
		{"four quarters", []string{one, nodes, answer("4", quarter...)}, "s1:1", ""},
		{"three quarters", []string{one, nodes, answer("3", quarter[:3]...)}, "s1:1", "assumed 1" + part},
		{"as ray list writes them", []string{one, nodes, list(quarter...)}, "s1:1", ""},
		{"an answer without its frame", []string{one, nodes, `{"data":{"result":` + list(quarter...) + `}}`},
			"s1:1", ""},
		{"cut", []string{one, nodes, answer("120", quarter...)}, "s1:1",
			"doubtful 1: a list was cut: has 4 of 120 entries"},
		{"entrypoint", []string{list(job("null", `"s1"`, "SUCCEEDED")), nodes,
			list(actor("a0", "01", "_ray_internal_job_actor_s1", "DEAD", "0.5"))}, "s1:1", "assumed 1" + part},
		{"entrypoint and actors", []string{one, nodes, list(append(quarter,
			actor("e", "01", "_ray_internal_job_actor_s1", "DEAD", "1.5"))...)}, "s1:3", "assumed 1" + part},
		{"entrypoint of a job that runs", []string{list(job(`"02"`, `"s1"`, "RUNNING")), nodes,
			list(actor("e", "01", "_ray_internal_job_actor_s1", "ALIVE", "2"), quarter[0])}, "s1:2", ""},
		{"entrypoint that is told with the job", []string{strings.Replace(one, `"status"`,
			`"entrypoint_num_gpus":2,"status"`,
			1), nodes}, "s1:2", ""},
		{"jobs of which one is driver alone", []string{list(job(`"02"`, "null", "SUCCEEDED")), nodes,
			list(quarter...)}, "02:1",
			""},
		{"one after another", []string{one, nodes, list(actor("a", "02", "", "DEAD", "6"), actor("b", "02", "",
			"DEAD", "6"))},
			"s1:8", "had more GPUs on a node, one after another"},
		{"two jobs on one GPU", []string{list(job(`"02"`, `"s1"`, "SUCCEEDED"), job(`"03"`, `"s2"`, "SUCCEEDED")),
			strings.Replace(nodes, `"GPU":8`, `"GPU":1`, 1), list(quarter[0], actor("b", "03", "", "DEAD",
				"0.5"))}, "s1:1",
			"held a part of a GPU whose other parts others held"},
		{"without their resources", []string{one, nodes, `[{"actor_id":"a","job_id":"02","state":"DEAD"}]`}, "s1:0",
			"without its resources (ask with detail=1)"},
		{"not finite", []string{one, nodes, strings.Replace(list(quarter...), "0.25", "NaN", 1)}, "s1:1", ""},
		{"nothing", []string{one, nodes, "", "[]"}, "s1:0", "the text is empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := rayLog(t, c.texts...).Shared()
			var got []string
			for _, j := range log.Jobs {
				got = append(got, fmt.Sprintf("%s:%d", j.ID, j.GPUs))
			}
			if strings.Join(got, " ") != c.want || !strings.Contains(log.Report.String(), c.note) {
				t.Errorf("got %v, want %s and %q\n%s", got, c.want, c.note, log.Report)
			}
		})
	}
}

// TestRayTasks gives each actor and bundle its GPUs on one node, where all have the same whole number.
func TestRayTasks(t *testing.T) {
	const jobs = `[{"job_id":"02","submission_id":"s","status":"SUCCEEDED","start_time":1795300000000,
		"end_time":1795303600000,"driver_node_id":"aa"}]`
	actor := func(node, gpus string) string {
		return `{"actor_id":"` + node + gpus + `","job_id":"02","state":"DEAD","node_id":"` + node +
			`","required_resources":{"GPU":` + gpus + `}}`
	}
	for _, c := range []struct{ holders, want string }{
		{actor("aa", "2") + "," + actor("bb", "2"), "2x2"},
		{actor("aa", "2") + "," + actor("bb", "1"), "3x1"},
		{actor("aa", "1.5"), "2x1"},
		{actor("aa", "3"), "1x3"},
		{`{"placement_group_id":"p","creator_job_id":"02","state":"REMOVED","bundles":[{"node_id":"aa",
			"unit_resources":{"GPU":4}},{"node_id":"bb","unit_resources":{"GPU":4}}]}`, "2x4"},
	} {
		built, err := rayLog(t, jobs, rayNodes, "["+c.holders+"]").Build(history.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if j := built.Instance.Jobs[0]; fmt.Sprintf("%dx%d", j.Tasks, j.TaskGPUs()) != c.want {
			t.Errorf("%s: %d tasks of %d GPUs, not %s", c.holders, j.Tasks, j.TaskGPUs(), c.want)
		}
	}
}

// TestRayListWords reads nodes as ray list nodes --detail --format json writes them: times in the zone where it runs,
// and bytes with units.
func TestRayListWords(t *testing.T) {
	const list = `[{"node_id":"n","node_ip":"10.0.0.1","node_name":"gpu-1","state":"ALIVE","is_head_node":true,
		"resources_total":{"CPU":8.0,"GPU":4.0,"memory":"5.224 GiB","object_store_memory":"2.239 GiB"},
		"start_time_ms":"2026-11-28 15:28:38.762000","end_time_ms":"1970-01-01 00:00:00"}]`
	log, err := history.Read("ray", []trace.Source{{Name: "f", R: strings.NewReader(list)}},
		history.ReadConfig{Zone: time.FixedZone("", 3600)})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Date(2026, 11, 28, 14, 28, 38, 762e6, time.UTC).UnixMicro()
	if n := log.Nodes[0]; n.MemoryMiB != 5349 || n.Down[0].EndUs != began || len(log.Report.SetAside) > 0 {
		t.Errorf("%+v, want service from %d\n%s", n, began, log.Report)
	}
}

// TestRayLive reads from a function in place of the dashboard, of a version without the state API.
func TestRayLive(t *testing.T) {
	run := func(_ context.Context, name string, args ...string) ([]byte, error) {
		switch address := name + " " + args[0]; {
		case address == "GET http://ray:8265/api/jobs/":
			return []byte(rayJobs), nil
		case strings.HasSuffix(address, "/nodes?view=summary"):
			return []byte(raySummary), nil
		}
		return nil, errors.New("404 Not Found")
	}
	log, err := history.ReadLive(t.Context(), "ray", history.LiveConfig{Run: run, Address: "http://ray:8265/"})
	if err != nil {
		t.Fatal(err)
	}
	if len(log.Jobs) != 4 || len(log.Nodes) != 1 || !strings.Contains(log.Report.String(), "404 Not Found") {
		t.Errorf("%d jobs, %d nodes\n%s", len(log.Jobs), len(log.Nodes), log.Report)
	}
}

// FuzzRay checks that no text makes the reader of Ray's answers panic.
func FuzzRay(f *testing.F) {
	for _, text := range []string{rayJobs, rayNodes, rayGroups, raySummary} {
		f.Add([]byte(text))
		f.Add([]byte(text[:len(text)/2]))
	}
	f.Add([]byte(`[{"submission_id":"a","status":"RUNNING","start_time":NaN},
		{"actor_id":"a","name":"_ray_internal_job_actor_a","node_id":"n","required_resources":{"GPU":0.5}},
		{"node_id":"n","resources_total":{"GPU":1}}]`))
	f.Fuzz(func(_ *testing.T, text []byte) { readAnything("ray", text) })
}
