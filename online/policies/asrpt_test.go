package policies_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/transcript"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/jobgraph"
	"github.com/hare-sched/hare/online/policies"
)

func newASRPT(t *testing.T, inst *hare.Instance, cfg policies.ASRPTConfig) online.Policy {
	t.Helper()
	p, err := policies.NewASRPT(&inst.Cluster, policies.SizesOf(inst), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Parameters are read as documented, and those that cannot be are refused with pointers.
func TestASRPTParameters(t *testing.T) {
	info, _ := policies.Find("asrpt")
	session, _ := info.Session()
	for _, c := range []struct{ parameters, want string }{
		{`{"delay_s": 0.5, "heavy": 2, "near": 1, "pass": true, "eager": true, "trust": true}`, ""},
		{`{"delay_s": 0, "backfill": true, "predict": "forest"}`, ""},
		{`{"predict": "oracle"}`, "/predict: asrpt: predict is \"oracle\": use belief, forest or none"},
		{`{"delay_s": -1}`, "/delay_s: asrpt: delay_s is -1"},
		{`{"heavy": 0.9}`, "/heavy: asrpt: heavy is 0.9"},
		{`{"near": 1e9}`, "/near: asrpt: near is 1e+09"},
		{`{"tau": 1}`, "/tau"},
	} {
		_, err := session.Open(transcript.Cluster("a=2A"), []byte(c.parameters))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.parameters, err, c.want)
		}
	}
}

// What goes by bandwidths is refused on clusters that have none.
func TestBandwidthsAreNeeded(t *testing.T) {
	const lone = "nodes a=2A\njobs j0 rigid 1x1 A:1"
	inst, named := transcript.Instance(lone), &jobgraph.Document{}
	for pointer, err := range map[string]error{
		"/cluster/bandwidth_gbps": madeWith(inst, policies.Config{ASRPT: policies.ASRPTConfig{
			Graphs: map[string]jobgraph.Training{"j0": {}}}}, "asrpt"),
		"/graphs": madeWith(inst, policies.Config{ASRPT: policies.ASRPTConfig{Named: named}}, "asrpt"),
		"/ring":   madeWith(inst, policies.Config{Sampling: policies.SamplingConfig{Ring: true}}, "sampling"),
	} {
		var fault *hare.InvalidError
		if !errors.As(err, &fault) || fault.Pointer != pointer {
			t.Errorf("got %v, want %s", err, pointer)
		}
	}
	cfg := policies.Config{ASRPT: policies.ASRPTConfig{Named: named}, Sampling: policies.SamplingConfig{Ring: true}}
	for _, name := range []string{"asrpt", "sampling"} {
		if err := madeWith(networked(lone), cfg, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func madeWith(inst *hare.Instance, cfg policies.Config, name string) error {
	info, _ := policies.Find(name)
	_, err := info.New(context.Background(), inst, cfg)
	return err
}
