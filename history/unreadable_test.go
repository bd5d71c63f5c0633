package history_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/oasdiff/yaml"

	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/trace"
)

// damage puts a value that cannot be read at a random place of a document: in place of a member or an element, or
// between two elements. It returns the place.
func damage(doc any, rng *rand.Rand, values ...any) string {
	type slot struct {
		at  string
		set func(bad any)
	}
	var slots []slot
	var walk func(v any, at string, replace func(any))
	walk = func(v any, at string, replace func(any)) {
		switch v := v.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				set := func(bad any) { v[key] = bad }
				slots = append(slots, slot{at + "/" + key, set})
				walk(v[key], at+"/"+key, set)
			}
		case []any:
			for i := range v {
				set := func(bad any) { v[i] = bad }
				slots = append(slots, slot{at + "/" + fmt.Sprint(i), set})
				if replace != nil {
					slots = append(slots, slot{at + "/" + fmt.Sprint(i) + " before",
						func(bad any) { replace(slices.Insert(slices.Clone(v), i, bad)) }})
				}
				walk(v[i], at+"/"+fmt.Sprint(i), set)
			}
		}
	}
	walk(doc, "", nil)
	slots = slices.DeleteFunc(slots, func(s slot) bool { return s.at == "/items" })
	s := slots[rng.IntN(len(slots))]
	s.set(values[rng.IntN(len(values))])
	return s.at
}

// unreadable damages texts again and again. A damaged value may change jobs of the family to which it belongs, by the
// name in its text, and no others; and the report has one line more, or none where nobody reads the value.
func unreadable(t *testing.T, source string, docs func() []any, family func(docs []any, doc int, at string) string,
	write func(doc any) []byte) {
	t.Helper()
	read := func(docs []any) *history.Log {
		var texts []trace.Source
		for i, doc := range docs {
			texts = append(texts, trace.Source{Name: fmt.Sprint("f", i), R: strings.NewReader(string(write(doc)))})
		}
		log, err := history.Read(source, texts, history.ReadConfig{})
		if err != nil {
			t.Fatal(err)
		}
		return log
	}
	jobs := func(log *history.Log, but string) map[string]history.Job {
		out := map[string]history.Job{}
		for _, j := range log.Jobs {
			if j.Place = (history.Place{}); but == "" || !strings.Contains(j.ID, but) {
				out[j.ID] = j
			}
		}
		return out
	}
	whole := read(docs())
	if len(whole.Report.SetAside) > 0 || len(whole.Jobs) < 4 {
		t.Fatalf("%d jobs\n%s", len(whole.Jobs), whole.Report)
	}
	told := 0
	const times = 120
	for seed := range uint64(times) {
		rng := rand.New(rand.NewPCG(seed, 1))
		bad := docs()
		doc := rng.IntN(len(bad))
		at := damage(bad[doc], rng, map[string]any{"?": 1}, []any{[]any{}})
		of := family(docs(), doc, at)
		log := read(bad)
		if want, got := jobs(whole, of), jobs(log, of); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: a value at f%d#%s of %q changed other jobs: %s\n%s", seed, doc, at, of,
				cmp.Diff(want, got),
				log.Report)
		}
		if n := log.Report.Unread(); n > 1 {
			t.Fatalf("seed %d: one value at f%d#%s gives\n%s", seed, doc, at, log.Report)
		} else {
			told += int(n)
		}
	}
	// Values that can be read and cannot be do not cost other jobs their place in an instance either.
	for seed := range uint64(times) {
		rng := rand.New(rand.NewPCG(seed, 2))
		bad := docs()
		doc := rng.IntN(len(bad))
		at := damage(bad[doc], rng, -1, 1e30, 1<<60, "9E", "-3", "", strings.Repeat("x", 5000), "\u0000/\u202e",
			nil, true)
		log := read(bad)
		if _, err := log.Build(history.Config{}); err != nil {
			t.Fatalf("seed %d: a value at f%d#%s: %v", seed, doc, at, err)
		}
		if _, err := log.BuildNow(history.Config{}); err != nil {
			t.Fatalf("seed %d: a value at f%d#%s, now: %v", seed, doc, at, err)
		}
	}
	if told < times/2 {
		t.Errorf("only %d of %d values were read", told, times)
	}
}

// TestKubeUnreadable damages a list of Kubernetes, as JSON and as YAML.
func TestKubeUnreadable(t *testing.T) {
	docs := func() []any {
		items := []object{eight("a"), eight("b"),
			kubeOf("batch/v1", "Job", "f0", object{"parallelism": 2, "completions": 2,
				"template": kubeTemplate(gpus(8))}),
			kubePodOf("f0-0", "batch/v1 Job f0", "a", 0, 60, gpus(8)), kubePodOf("f0-1", "batch/v1 Job f0", "b", 0,
				60, gpus(8)),
			kubeOf("batch/v1", "Job", "f1", object{"suspend": true, "template": kubeTemplate(gpus(4))}),
			kubePodOf("f2-0", "kubeflow.org/v1 PyTorchJob f2", "a", 70, 90, gpus(8)),
			kubePodOf("f2-1", "kubeflow.org/v1 PyTorchJob f2", "b", 70, 90, gpus(8)),
			kubePodOf("f3", "", "a", 95, 0, gpus(1)),
			kubeOf("batch.volcano.sh/v1alpha1", "Job", "f4", object{"tasks": []object{
				{"name": "w", "replicas": 2, "template": kubeTemplate(gpus(8))}}}),
			kubeOf("jobset.x-k8s.io/v1alpha2", "JobSet", "f5", object{"replicatedJobs": []object{{"replicas": 2,
				"template": object{"spec": object{"parallelism": 1, "template": kubeTemplate(gpus(2))}}}}}),
			kubeOf("kueue.x-k8s.io/v1beta2", "ResourceFlavor", "v", object{"nodeLabels": object{"x": "y"}}),
			{"apiVersion": "v1", "kind": "Event", "reason": "NodeReady", "metadata": object{"name": "e"},
				"involvedObject": object{"kind": "Node", "name": "a"}, "lastTimestamp": kubeAt(1)}}
		var doc any
		_ = json.Unmarshal([]byte(kubeItems(t, items...)), &doc)
		return []any{doc}
	}
	family := func(docs []any, _ int, at string) string {
		items := docs[0].(map[string]any)["items"].([]any)
		var i int
		if n, _ := fmt.Sscanf(at, "/items/%d", &i); n == 0 || i >= len(items) || strings.HasSuffix(at,
			fmt.Sprint(i, " before")) {
			return ""
		}
		name := items[i].(map[string]any)["metadata"].(map[string]any)["name"].(string)
		if name[0] != 'f' {
			return ""
		}
		return name[:2]
	}
	write := func(doc any) []byte {
		text, _ := json.Marshal(doc)
		return text
	}
	t.Run("JSON", func(t *testing.T) { unreadable(t, "kube", docs, family, write) })
	t.Run("YAML", func(t *testing.T) {
		unreadable(t, "kube", docs, family, func(doc any) []byte {
			text, err := yaml.JSONToYAML(write(doc))
			if err != nil {
				t.Fatal(err)
			}
			return text
		})
	})
}

// TestRayUnreadable damages lists of jobs, nodes, actors and placement groups.
func TestRayUnreadable(t *testing.T) {
	docs := func() []any {
		var jobs, actors, groups []object
		for i := range 6 {
			id := fmt.Sprint("f", i)
			jobs = append(jobs, object{"type": "SUBMISSION", "job_id": id, "submission_id": id + "-s",
				"entrypoint": "python x.py",
				"status":     []string{"SUCCEEDED", "RUNNING", "PENDING"}[i%3], "start_time": 1795300000000 + i,
				"end_time": 1795300600000, "driver_node_id": "aa", "metadata": object{"user": "ann",
					"hare": `{"T4":7}`}})
			actors = append(actors, object{"actor_id": id + "-a", "job_id": id, "node_id": "aa", "state": "ALIVE",
				"required_resources": object{"GPU": 0.5, "CPU": 1}}, object{"actor_id": id + "-b", "job_id": "x",
				"node_id": "aa",
				"name":    "_ray_internal_job_actor_" + id + "-s", "state": "ALIVE",
				"required_resources": object{"GPU": 1}})
			groups = append(groups, object{"placement_group_id": id + "-g", "creator_job_id": id, "state": "CREATED",
				"bundles": []object{{"node_id": "bb", "unit_resources": object{"GPU": 1}}}})
		}
		node := func(id string) object {
			return object{"node_id": id, "node_name": id, "state": "ALIVE", "start_time_ms": 1795200000000,
				"end_time_ms":     0,
				"resources_total": object{"GPU": 64, "CPU": 64, "accelerator_type:T4": 1}, "labels": object{"a": "b"}}
		}
		var out []any
		for _, list := range []any{jobs, []object{node("aa"), node("bb")}, actors, groups} {
			text, _ := json.Marshal(list)
			var doc any
			_ = json.Unmarshal(text, &doc)
			out = append(out, doc)
		}
		return out
	}
	family := func(docs []any, doc int, at string) string {
		var i int
		if n, _ := fmt.Sscanf(at, "/%d", &i); n == 0 || strings.HasSuffix(at, fmt.Sprint(i, " before")) {
			return ""
		}
		o := docs[doc].([]any)[i].(map[string]any)
		for _, name := range []string{"actor_id", "placement_group_id", "job_id"} {
			if id, ok := o[name].(string); ok {
				return id[:2]
			}
		}
		return ""
	}
	unreadable(t, "ray", docs, family, func(doc any) []byte {
		text, _ := json.Marshal(doc)
		return text
	})
}
