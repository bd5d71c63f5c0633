package history_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/wire"
)

// TestKube reads a cluster with a Job of two pods, a Job whose pods are pieces of work of their own, a
// JobSet, a PyTorchJob that waits, a Job that waits in a queue of Kueue, and a node that was not ready.
func TestKube(t *testing.T) {
	log := read(t, "kube", "kube.json")
	was := build(t, log, history.Config{})
	now, err := log.BuildNow(history.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, built := range map[string]*history.Built{"kube": was, "kube-now": now} {
		var text bytes.Buffer
		if err := wire.EncodeInstance(&text, built.Instance); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".instance.json", text.String())
		golden(t, name+".report.txt", built.Report.String())
	}
}

// TestKubeForms checks that a list of one kind without kinds of its items, several documents in a text,
// and single objects give the same as one list.
func TestKubeForms(t *testing.T) {
	const node = `{"metadata":{"name":"n"},"status":{"capacity":{"nvidia.com/gpu":"2"}}}`
	const pod = `{"kind":"Pod","metadata":{"name":"p","namespace":"a","creationTimestamp":"2026-11-16T08:00:00Z"},
		"spec":{"nodeName":"n","containers":[{"resources":{"requests":{"nvidia.com/gpu":1}}}]},
		"status":{"phase":"Running","startTime":"2026-11-16T08:00:01Z"}}`
	typed := strings.Replace(node, "{", `{"kind":"Node",`, 1)
	var want []byte
	for _, texts := range [][]string{
		{`{"kind":"List","items":[` + typed + "," + pod + "]}"},
		{`{"kind":"NodeList","apiVersion":"v1","items":[` + node + "]}", pod},
		{typed + "\n" + pod},
		{pod + `{"kind":"NodeList","items":[` + node + "]}"},
	} {
		var sources []trace.Source
		for _, text := range texts {
			sources = append(sources, trace.Source{Name: "f", R: strings.NewReader(text)})
		}
		log, err := history.Read("kube", sources, history.ReadConfig{})
		if err != nil {
			t.Fatal(err)
		}
		built, err := log.BuildNow(history.Config{})
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := wire.EncodeInstance(&got, built.Instance); err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got.Bytes()
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%q gives\n%s, not\n%s", texts, got.Bytes(), want)
		}
	}
}

// TestKubeLive reads from a command in place of kubectl, of a cluster that has neither Kueue nor JobSet.
func TestKubeLive(t *testing.T) {
	run := func(_ context.Context, name string, args ...string) ([]byte, error) {
		command := name + " " + strings.Join(args, " ")
		switch {
		case !strings.HasPrefix(command, "kubectl --context=test get "):
			t.Errorf("ran %s", command)
		case strings.Contains(command, " nodes "):
			return []byte(`{"kind":"NodeList","items":[{"metadata":{"name":"n"},"status":{"capacity":{"x/gpu":"1"}}}]}`), nil
		case strings.Contains(command, ".io ") || strings.Contains(command, ".org "):
			return nil, errors.New(`error: the server doesn't have a resource type "x"`)
		}
		return []byte(`{"kind":"List","items":[]}`), nil
	}
	log, err := history.ReadLive(t.Context(), "kube", history.LiveConfig{Run: run, Arguments: []string{"--context=test"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(log.Nodes) != 1 || strings.Contains(log.Report.String(), "failed") {
		t.Errorf("%d nodes\n%s", len(log.Nodes), log.Report)
	}
}

// TestBadKube checks that a text of which nothing can be read is refused, with the place.
func TestBadKube(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"text", "NAME  READY", "f:1: is no object of Kubernetes"},
		{"tabs", "a: [1\n\tb: {", "f:1: is neither JSON nor YAML"},
		{"numbers", "[1,2]", "f#/0: is no object of Kubernetes"},
		{"cut", `{"kind":"List","items":[{"kind":"Pod",`, "f#/items/0: byte 24: the JSON ends or breaks off here"},
		{"other JSON", `{"a":1}`, "f#: has no kind"},
		{"items", `{"items":{}}`, "f#/items: is not a list"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := history.Read("kube", []trace.Source{{Name: "f", R: strings.NewReader(c.text)}}, history.ReadConfig{})
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %s…", err, c.want)
			}
		})
	}
}

// TestKubeSetAside checks that a value that cannot be read is set aside with its place, and that the rest is read.
func TestKubeSetAside(t *testing.T) {
	const rest = `{"kind":"Node","metadata":{"name":"rest"},"status":{"capacity":{"nvidia.com/gpu":"2"}}}`
	for _, c := range []struct{ name, text, want string }{
		{"wrong type", `{"kind":"JobSet","metadata":{"name":"j","creationTimestamp":"2026-11-16T08:00:00Z"},
			"spec":{"replicatedJobs":7}}`, `f#/items/0/spec/replicatedJobs: "7"`},
		{"amount", `{"kind":"Node","metadata":{"name":"n"},"status":{"capacity":{"cpu":"many"}}}`,
			`f#/items/0/status/capacity/cpu: "many"`},
		{"time", `{"kind":"Pod","metadata":{"name":"p","creationTimestamp":"yesterday"}}`,
			`f#/items/0/metadata/creationTimestamp: "yesterday"`},
		{"GPUs of a pod", `{"kind":"Pod","metadata":{"name":"p","creationTimestamp":"2026-11-16T08:00:00Z"},"spec":{
			"containers":[{"resources":{"limits":{"nvidia.com/gpu":"eight"}}}]}}`,
			`f#/items/0/spec/containers/0/resources/limits/nvidia.com~1gpu: "eight"`},
		{"label", `{"kind":"Node","metadata":{"name":"n","labels":{"a":7,"b":"c"}}}`, `f#/items/0/metadata/labels/a: "7"`},
		{"name", `{"kind":"Pod"}`, `f#/items/0: ""`},
		{"no kind", `{"metadata":{"name":"p"}}`, `f#/items/0: ""`},
		{"no object", `17`, `f#/items/0: "17"`},
		{"no time", `{"kind":"Pod","metadata":{"name":"p","namespace":"a"}}`, `f#/items/0: "a/p"`},
		{"GPUs", `{"kind":"Node","metadata":{"name":"n"},"status":{"capacity":{"nvidia.com/gpu":"1E"}}}`,
			`f#/items/0: "2147483647 gpu"`},
		{"seconds", `{"kind":"Pod","metadata":{"name":"p","creationTimestamp":"2026-11-16T08:00:00Z",
			"annotations":{"hare.dev/seconds":"fast"}}}`, `f#/items/0: "fast"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := readKubeText(t, `{"items":[`+c.text+`,`+rest+`]}`)
			if n := log.Report.SetAside; len(n) != 1 || n[0].Count != 1 || n[0].First != c.want {
				t.Errorf("got %v, want %s", n, c.want)
			}
			if c.name == "GPUs of a pod" && len(log.Jobs) > 0 {
				t.Errorf("counts as a job without GPUs: %+v", log.Jobs)
			}
			if i := slices.IndexFunc(log.Nodes, func(n history.Node) bool { return n.Name == "rest" }); i < 0 {
				t.Errorf("the node that can be read is not in %v", log.Nodes)
			}
		})
	}
}

func readKubeText(t *testing.T, texts ...string) *history.Log {
	t.Helper()
	var sources []trace.Source
	for _, text := range texts {
		sources = append(sources, trace.Source{Name: "f", R: strings.NewReader(text)})
	}
	log, err := history.Read("kube", sources, history.ReadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// FuzzKube checks that no text makes the reader of Kubernetes' objects panic, and that an instance that
// it makes is valid.
func FuzzKube(f *testing.F) {
	text, err := os.ReadFile("testdata/kube.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(text[:len(text)/2])
	f.Add([]byte(`{"kind":"NodeList","items":[{"metadata":{"name":"n"},"status":{"capacity":{"nvidia.com/gpu":"2"}}}]}`))
	f.Add([]byte(`{"kind":"Job","metadata":{"name":"j","ownerReferences":[{"uid":"j"}],"uid":"j"}}`))
	for _, text := range kubeSeeds() {
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text []byte) { readAnything("kube", text) })
}
