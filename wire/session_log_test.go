package wire_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

const oneNode = `{"nodes":[{"name":"a","gpus":{"V100":2}}]}`

func TestLogHeaderSurvivesEncoding(t *testing.T) {
	for _, text := range []string{
		`{"hare":"log/v1","policy":"hlas","clock":"events","cluster":` + oneNode + `}`,
		`{"hare":"log/v1","policy":"x","parameters":{"a":[1,{}]},"clock":"server","cluster":` + oneNode + `}`,
	} {
		h, err := wire.DecodeLogHeader([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(wire.AppendLogHeader(nil, h)); got != text {
			t.Errorf("got  %s\nwant %s", got, text)
		}
	}
	if _, err := wire.DecodeLogHeader([]byte(`{"hare":"result/v1","cluster":` + oneNode + `}`)); err == nil ||
		!strings.Contains(err.Error(), "/hare: must be") {
		t.Error(err)
	}
}

func TestDecodeSession(t *testing.T) {
	h, err := wire.DecodeSession([]byte(`{"cluster":`+oneNode+`,"parameters":{ "kappa" : 2 }}`), wire.Limits{})
	if err != nil || h.Policy != "" || h.Clock != "" || string(h.Parameters) != `{"kappa":2}` ||
		len(h.Cluster.Nodes) != 1 {
		t.Errorf("%+v %v", h, err)
	}
	for _, c := range []struct{ text, want string }{
		{`{}`, `"cluster" is missing`},
		{`{"cluster":{"nodes":[]}}`, "/cluster/nodes: the cluster has no GPUs"},
		{`{"cluster":` + oneNode + `,"clock":"wall"}`, `/clock: clock "wall": must be events or server`},
		{`{"cluster":` + oneNode + `,"policy":1}`, "/policy: must be a string"},
		{`{"cluster":` + oneNode + `,"parameters":[]}`, "/parameters: must be an object"},
		{`{"cluster":` + oneNode + `,"polcy":"hlas"}`, `did you mean "policy"?`},
		{`{"cluster":` + oneNode + `,"hare":"log/v1"}`, `/hare: unknown field`},
		{`{"cluster":` + oneNode, "ends too early"},
	} {
		_, err := wire.DecodeSession([]byte(c.text), wire.Limits{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

func TestAppendRefusal(t *testing.T) {
	one := &hare.InvalidError{Pointer: "/gpu", Code: "unknown_gpu", Detail: `no "x"`}
	for _, c := range []struct {
		r    wire.Refusal
		want string
	}{
		{wire.Refusal{Seq: 4, Line: 2, Status: 422, Errors: hare.InvalidErrors{one}},
			`{"seq":4,"error":{"status":422,"line":2,"pointer":"/gpu","code":"unknown_gpu","detail":"no \"x\""}}`},
		{wire.Refusal{Status: 409, Expected: 3, Errors: hare.InvalidErrors{one, one}},
			`{"seq":null,"error":{"status":409,"pointer":"/gpu","code":"unknown_gpu","detail":"no ` +
				`\"x\"","expected":3,"errors":[{"pointer":"/gpu","code":"unknown_gpu","detail":"no ` +
				`\"x\""},{"pointer":"/gpu","code":"unknown_gpu","detail":"no \"x\""}]}}`},
	} {
		line := wire.AppendRefusal(nil, &c.r)
		if diff := cmp.Diff(c.want, string(line)); diff != "" {
			t.Error(diff)
		}
		if got, err := wire.DecodeAnswerLine(line); err != nil {
			t.Error(err)
		} else if diff := cmp.Diff(&c.r, got.Refusal); diff != "" {
			t.Error(diff)
		}
		if _, err := wire.DecodeAnswer(line); err == nil {
			t.Errorf("%s is read as an answer", line)
		}
	}
	for _, text := range []string{`{"seq":1}`, `{"seq":null,"decisions":[]}`, `{"seq":1,"error":{}}`,
		`{"error":null,"seq":1}`,
		`{"seq":1,"decisions":[],"error":{"status":422,"pointer":"","code":"c","detail":"d"}}`} {
		if _, err := wire.DecodeAnswerLine([]byte(text)); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}

func TestRefusedLineKeepsItsNumber(t *testing.T) {
	e, err := wire.DecodeEvent([]byte(`{"seq":7,"at_s":-1,"type":"tick"}`))
	var all hare.InvalidErrors
	if !errors.As(err, &all) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(hare.Event{Seq: 7}, e); diff != "" {
		t.Error(diff)
	}
}

func FuzzDecodeSession(f *testing.F) {
	f.Add(`{"hare":"log/v1","policy":"x","parameters":{"a":[1,{}]},"clock":"server","cluster":` + oneNode + `}`)
	f.Add(`{"cluster":` + oneNode + `}`)
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := wire.DecodeSession([]byte(text), wire.Limits{}); err != nil {
			checkFaults(t, err)
		}
		h, err := wire.DecodeLogHeader([]byte(text))
		if err != nil {
			checkFaults(t, err)
			return
		}
		if h.Clock == "" {
			h.Clock = "events"
		}
		line := wire.AppendLogHeader(nil, h)
		again, err := wire.DecodeLogHeader(line)
		if err != nil || string(wire.AppendLogHeader(nil, again)) != string(line) {
			t.Fatalf("%q: %q: %v", text, line, err)
		}
	})
}

// The session of a managed cluster begins without GPUs. A request for a session does not.
func TestLogOfAnEmptyCluster(t *testing.T) {
	line := wire.AppendLogHeader(nil, &wire.LogHeader{Policy: "rolling", Clock: "server"})
	h, err := wire.DecodeLogHeader(line)
	if err != nil || len(h.Cluster.Nodes) != 0 {
		t.Error(h, err)
	}
	if _, err := wire.DecodeSession([]byte(`{"cluster":{"nodes":[]}}`), wire.Limits{}); err == nil {
		t.Error("a session without GPUs was asked for and not refused")
	}
}
