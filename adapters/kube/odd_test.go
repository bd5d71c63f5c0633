package kube

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
)

// oddAPI adds objects to the lists of an API server.
type oddAPI struct {
	API
	items map[string][]string // by path
}

func (o *oddAPI) Do(ctx context.Context, method, path, contentType string, body []byte) (int, []byte, error) {
	status, answer, err := o.API.Do(ctx, method, path, contentType, body)
	list, _, _ := strings.Cut(path, "?")
	items := o.items[list]
	if method != "GET" || len(items) == 0 || err != nil {
		return status, answer, err
	}
	var page map[string]json.RawMessage
	var before []json.RawMessage
	_ = json.Unmarshal(answer, &page)
	_ = json.Unmarshal(page["items"], &before)
	for _, text := range items {
		before = append(before, json.RawMessage(text))
	}
	page["items"], _ = json.Marshal(before)
	answer, err = json.Marshal(page)
	return status, answer, err
}

// TestOddObjects checks that objects with values that cannot be read, and nodes whose GPUs are shared, stop nothing:
// the others are planned as if they were not there, and the metrics count them.
func TestOddObjects(t *testing.T) {
	f := newFakeKube()
	f.submit(4, 1, 4, 8, 2)
	h := testHelper(t, f, nil)
	const labels = `"labels":{"nvidia.com/gpu.product":"H100","nvidia.com/gpu.count":"7"}`
	h.api = &oddAPI{h.api, map[string][]string{
		nodesPath: {`7`, `{"metadata":{"name":"odd"},"status":{"allocatable":{"cpu":"many"},"conditions":"none"}}`,
			`{"metadata":{"name":"huge",` + labels + `},"status":{"allocatable":{"nvidia.com/gpu":"1E"}}}`,
			`{"metadata":{"name":"shared",` + labels + `},"status":{"allocatable":{"nvidia.com/gpu":"70"}}}`,
			`{"metadata":{"name":"percent",` + labels + `},"status":{"allocatable":{"koordinator.sh/gpu":"800"}}}`},
		podsPath: {`{"metadata":{"name":"p","uid":"p","creationTimestamp":"soon"},"spec":{"containers":[7]}}`},
		jobsPath: {`{"metadata":{"name":"j","uid":"j","annotations":{"hare.dev/managed":"true"}},"spec":{"suspend":true,
			"parallelism":"two","template":{"spec":{"containers":[{"resources":{"limits":{"nvidia.com/gpu":1}}}]}}}}`},
	}}
	r := step(t, h)
	if len(r.Updates) != 1 || r.Updates[0].Type != "H100" || r.Left[unreadValue] != 1 {
		t.Errorf("%+v", r)
	}
	if h.counted.Unread != 6 || h.counted.NodesLeftOut != 2 {
		t.Errorf("%d values not read, %d nodes left out: %v", h.counted.Unread, h.counted.NodesLeftOut, h.report.SetAside)
	}
}
