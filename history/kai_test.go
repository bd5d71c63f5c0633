package history_test

import (
	"archive/zip"
	"bytes"
	"strings"
	"testing"

	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/trace"
)

const kaiSnapshot = `{"config":{"actions":"allocate"},"schedulerParams":{},"rawObjects":{
 "nodes":[{"metadata":{"name":"a","uid":"u1","labels":{"nvidia.com/gpu.product":"A100"}},
  "status":{"allocatable":{"nvidia.com/gpu":"4","cpu":"8"}}}],
 "pods":[{"metadata":{"name":"p","namespace":"lab","uid":"u2","creationTimestamp":"2026-01-01T00:00:00Z"},
  "spec":{"nodeName":"a","containers":[{"name":"c","resources":{"limits":{"nvidia.com/gpu":"2"}}}]},
  "status":{"phase":"Running","startTime":"2026-01-01T00:00:05Z",
  "conditions":[{"type":"PodScheduled","status":"True","lastTransitionTime":"2026-01-01T00:00:05Z"}]}}],
 "podGroups":null,"queues":[{"metadata":{"name":"q"}}],"configMaps":"none"}}`

// TestKAI reads a snapshot of the KAI scheduler, packed and not: its objects, which name no kinds, are those of
// Kubernetes.
func TestKAI(t *testing.T) {
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	w, err := z.Create("snapshot.json")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(kaiSnapshot)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ source, text string }{
		{"kai", kaiSnapshot}, {"kai", packed.String()}, {"kube", packed.String()},
	} {
		log, err := history.Read(c.source, []trace.Source{{Name: "f", R: strings.NewReader(c.text)}}, history.ReadConfig{})
		if err != nil {
			t.Fatal(err)
		}
		built, err := log.BuildNow(history.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if j := built.Instance.Jobs; len(j) != 1 || !j[0].Running() || len(j[0].Progress.GPUs) != 2 ||
			built.Instance.Cluster.Nodes[0].GPUs[0].Type != "A100" {
			t.Errorf("%s: %+v", c.source, built.Instance)
		}
	}
	for text, want := range map[string]string{
		`{"a":1}`: "no snapshot of KAI", `{"rawObjects":{"queues":[]}}`: "neither nodes nor pods",
		`{"rawObjects":`: "breaks off",
		"PK\x03\x04junk": "zip",
	} {
		_, err := history.Read("kai", []trace.Source{{Name: "f", R: strings.NewReader(text)}}, history.ReadConfig{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.10q: %v, not %s", text, err, want)
		}
	}
}

// TestDetect tells sources by the begin of texts.
func TestDetect(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "hello\n": "", "a,b,c\n": "", `{"hare":"instance/v1","jobs":[]}`: "",
		"PK\x03\x04": "kai", kaiSnapshot: "kai", "; MaxProcs: 4\n1 2\n": "swf",
		"1 0 10 100 4 -1 -1 4 200 -1 1 3 1 7 1 1 -1 -1\n": "swf", "NodeName=a Gres=gpu:2\n": "slurm",
		"JobID|State|Submit\n": "slurm", "JobID;State;AllocTRES\n": "slurm",
		`{"meta":{"slurm":{}},"jobs":[{"job_id":1`:                       "slurm",
		`{"nodes":[{"hostname":"a"}],"meta":{}}`:                         "slurm",
		`{"apiVersion":"v1","kind":"List","items":[]}`:                   "kube",
		`[{"type":"SUBMISSION","submission_id":"a"}]`:                    "ray",
		`{"result":true,"data":{"result":{"result":[{"node_ip":"1"}]}}}`: "ray",
		"id,submit,gpus\n": "history", "node,gpus\n": "history",
		"job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time\n":   "helios",
		"job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time\n": "acme",
		"j1,worker,2.0,Terminated,110.0,200.0,600.0,29.296875,100.0,V100\n":                 "pai",
		"job_name,inst_id,user,status,start_time,end_time\n":                                "pai",
	} {
		if got, _ := history.Detect([]byte(text)); got != want {
			t.Errorf("%.60q is %q, not %q", text, got, want)
		}
	}
	forms, _ := history.Near([]string{"job_id", "submit_time", "start_time", "end_time", "type"})
	if got := strings.Join(forms, "; "); !strings.Contains(got, "acme (lacks gpu_num)") {
		t.Errorf("near: %s", got)
	}
}

// FuzzDetect checks that nothing makes Detect panic.
func FuzzDetect(f *testing.F) {
	f.Add([]byte(kaiSnapshot))
	f.Add([]byte("1 0 10 100 4 -1 -1 4 200 -1 1 3 1 7 1 1 -1 -1\n"))
	f.Add([]byte("]"))
	f.Fuzz(func(_ *testing.T, text []byte) { _, _ = history.Detect(text) })
}
