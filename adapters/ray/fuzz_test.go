package ray

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
)

// answers pretends a dashboard by the answers of its paths.
type answers map[string]string

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r,
		Body: io.NopCloser(strings.NewReader(a[r.URL.Path]))}, nil
}

// FuzzAnswers checks that no answer of Ray makes the helper panic, and that what a session gets of it is within the
// limits of sessions.
func FuzzAnswers(f *testing.F) {
	whole := answers{
		"/api/version": `{"session_name":"s"}`,
		"/api/jobs/": `[{"submission_id":"a","status":"RUNNING","start_time":1e12,"driver_node_id":"n1"},` +
			`{"submission_id":"b","status":"FAILED","error_type":"JOB_SUPERVISOR_ACTOR_DIED","message":"x\ny",` +
			`"start_time":1,"end_time":2},{"submission_id":7},null]`,
		"/api/v0/nodes": `{"result":true,"data":{"result":{"total":3,"result":[{"node_id":"n1","node_name":"a","state":` +
			`"ALIVE","resources_total":{"GPU":2,"CPU":8,"memory":1e10,"accelerator_type:T4":1},"labels":{"ray.io/node-id":` +
			`"n1"}},{"node_id":"n2","state":"DEAD"}]}}}`,
		"/api/cluster_status": `{"data":{"clusterStatus":{"time":1.8e9,"loadMetricsReport":{"usageByNode":{"n1":{"GPU":` +
			`[1.5,2],"CPU":[3,8],"memory":[1e9,1e10]}}}}}}`,
	}
	paths := []string{"/api/version", "/api/jobs/", "/api/v0/nodes", "/api/cluster_status"}
	for i, path := range paths {
		f.Add(uint8(i), whole[path])
		f.Add(uint8(i), strings.ReplaceAll(whole[path], "1", "-9e99"))
	}
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		if len(text) > 1<<14 {
			return
		}
		a := answers{paths[int(which)%len(paths)]: text}
		for path, whole := range whole {
			if _, given := a[path]; !given {
				a[path] = whole
			}
		}
		d := &Dashboard{URL: "http://ray", HTTP: &http.Client{Transport: a}}
		h, err := New(Config{Logger: slog.New(slog.DiscardHandler)}, d, nil, &Journal{})
		if err != nil {
			t.Fatal(err)
		}
		h.now = func() time.Time { return time.Unix(1_800_000_000, 0) }
		v, err := d.read(t.Context())
		if err != nil {
			return // another program answers
		}
		h.tellUnread(v)
		q, at := &Queue{}, "2026-01-01T00:00:00Z"
		for i, id := range []string{"a", "b", "c"} {
			records := []Record{{Event: eventSubmitted, Job: id, Spec: &Spec{Entrypoint: "x", GPUs: 1, CPUs: 1, MemoryMiB: 5}},
				{Event: eventStart, Job: id, Attempt: 1, NodeID: "n1", Pinned: true, Session: "s"}}
			if i == 2 {
				records = records[:1] // waits
			}
			for _, r := range records {
				r.At = at
				if err := q.apply(&r); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, r := range h.follow(q, v) {
			r.At = at
			if err := q.apply(&r); err != nil {
				t.Fatal(err)
			}
		}
		v.count(q)
		for _, n := range v.forSession(q, 1_800_000_000e6, h.others, history.ShippedSpeeds()).Nodes {
			if len(n.GPUs) != 1 || n.GPUs[0].Count < 1 || n.GPUs[0].Count > hare.MaxGPUs || n.CPUMilli < 0 || n.MemoryMiB < 0 {
				t.Errorf("%+v", n)
			}
		}
		v.inOrder(q, "fuzz")
	})
}
