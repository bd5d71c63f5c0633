package wire_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// equipped is an instance on two nodes in two racks, with more fields of the cluster.
func equipped(fields string) string {
	return `{"hare":"instance/v1","cluster":{"topology":["rack"],"nodes":[` +
		`{"name":"a","gpus":{"A":2},"labels":{"rack":"r"}},{"name":"b","gpus":{"B":2},"labels":{"rack":"s"}}]` + fields +
		`},"jobs":[{"id":"j","on":{"A":{"compute_s":1}}}]}`
}

func TestBadHardwareIsNamed(t *testing.T) {
	const bandwidth, types = "/cluster/bandwidth_gbps", "/cluster/gpu_types"
	for name, c := range map[string]struct{ fields, want string }{
		"a number":           {`"bandwidth_gbps":10`, "wrong_type " + bandwidth},
		"negative":           {`"bandwidth_gbps":{"any":-1}`, "out_of_range " + bandwidth + "/any"},
		"zero":               {`"bandwidth_gbps":{"any":0}`, "out_of_range " + bandwidth + "/any"},
		"too fine":           {`"bandwidth_gbps":{"any":0.0001}`, "too_many_decimals " + bandwidth + "/any"},
		"too much":           {`"bandwidth_gbps":{"any":1e300}`, "out_of_range " + bandwidth + "/any"},
		"no number":          {`"bandwidth_gbps":{"any":"NaN"}`, "wrong_type " + bandwidth + "/any"},
		"null":               {`"bandwidth_gbps":{"any":null}`, "wrong_type " + bandwidth + "/any"},
		"unknown level":      {`"bandwidth_gbps":{"row":10,"any":1}`, "unknown_level " + bandwidth + "/row"},
		"level without name": {`"bandwidth_gbps":{"":10}`, "unknown_level " + bandwidth + "/"},
		"level twice":        {`"bandwidth_gbps":{"any":10,"any":1}`, "duplicate_name " + bandwidth + "/any"},
		"no memory":          {`"gpu_types":{"A":{}}`, "missing_field " + types + "/A"},
		"memory of 0":        {`"gpu_types":{"A":{"memory_gib":0}}`, "out_of_range " + types + "/A/memory_gib"},
		"negative memory":    {`"gpu_types":{"A":{"memory_gib":-16}}`, "out_of_range " + types + "/A/memory_gib"},
		"unknown field": {`"gpu_types":{"A":{"memory_gb":1,"memory_gib":1}}`, "unknown_field " +
			types + "/A/memory_gb"},
		"type without name": {`"gpu_types":{"":{"memory_gib":16}}`, "bad_name " + types + "/"},
	} {
		t.Run(name, func(t *testing.T) { expectFaults(t, equipped(","+c.fields), c.want) })
	}
}

// Bandwidths and GPU types survive a round trip in both forms, change the hash, and leave the
// canonical form of an instance without them as it was.
func TestHardwareRoundTrip(t *testing.T) {
	decode := func(text string) *hare.Instance {
		t.Helper()
		inst, err := wire.DecodeInstance(strings.NewReader(text), wire.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if err := inst.Validate(); err != nil {
			t.Fatal(err)
		}
		return inst
	}
	plain, empty := decode(equipped("")), decode(equipped(`,"bandwidth_gbps":{},"gpu_types":{}`))
	inst := decode(equipped(`,"gpu_types":{"V100":{"memory_gib":16},"A":{"memory_gib":0.5}},` +
		`"bandwidth_gbps":{"rack":100,"node":300.25,"any":25}`))
	want := `{"cluster":{"bandwidth_mbps":{"any":25000,"node":300250,"rack":100000},` +
		`"gpu_types":{"A":{"memory_milli_gib":500},"V100":{"memory_milli_gib":16000}},"nodes":`
	if got := string(wire.Canonical(inst)); !strings.HasPrefix(got, want) {
		t.Errorf("the canonical form is %s", got)
	}
	if !strings.HasPrefix(string(wire.Canonical(plain)), `{"cluster":{"nodes":`) {
		t.Error("the canonical form of an instance without hardware has more than before")
	}
	if !bytes.Equal(wire.Canonical(plain), wire.Canonical(empty)) {
		t.Error("empty tables change the hash")
	}
	// The verifier in Python has the same hash for this instance (verify/hare_verify_test.py).
	nodes := ""
	for _, at := range []string{"ae", "be", "cw"} {
		nodes += `,{"name":"` + at[:1] + `","gpus":{"A":2},"labels":{"zone":"` + at[1:] + `","rack":"r"}}`
	}
	zones := decode(`{"hare":"instance/v1","cluster":{"topology":["zone","rack"],"nodes":[` + nodes[1:] + `],` +
		`"bandwidth_gbps":{"zone":100,"node":300.25,"any":25},"gpu_types":{"A":{"memory_gib":0.5}}},` +
		`"jobs":[{"id":"x","sync":"gang","on":{"A":{"compute_s":2}}}]}`)
	if got := wire.SHA256(zones); got != "740eb0d3a2d98d8ece22a764995c314f922ec3892ad57b079ae976fdaab2c5cb" {
		t.Errorf("the hash is %s", got)
	}
	var pretty bytes.Buffer
	if err := wire.EncodeInstance(&pretty, inst); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(inst, decode(pretty.String())); diff != "" {
		t.Error(diff)
	}
	line := wire.AppendCluster(nil, &inst.Cluster)
	if diff := cmp.Diff(inst, decode(`{"hare":"instance/v1","cluster":`+string(line)+
		`,"jobs":[{"id":"j","on":{"A":{"compute_s":1}}}]}`)); diff != "" {
		t.Error(diff)
	}
}

// A level without a bandwidth has that of the next coarser one, and no bandwidth is 0.
func TestBandwidthOfALevel(t *testing.T) {
	c := hare.Cluster{Topology: []string{"zone", "rack"}, Bandwidths: []hare.LevelBandwidth{
		{Level: "node", Mbps: 300}, {Level: "zone", Mbps: 100}}}
	levels := hare.NewLevels(&c)
	for level, want := range []int64{300, 100, 100, 0} {
		if got := c.BandwidthMbps(levels, level); got != want {
			t.Errorf("level %s has %d Mbit/s, not %d", levels.Names[level], got, want)
		}
	}
	c.GPUTypes = []hare.GPUType{{Type: "A", MemoryMilliGiB: 16000}}
	if c.GPUMemoryMilliGiB("A") != 16000 || c.GPUMemoryMilliGiB("B") != 0 {
		t.Error("the memory of a GPU is wrong")
	}
}

// A cluster of a session has the fields in each of its forms, and names what is wrong with them.
func TestHardwareOfAClusterAlone(t *testing.T) {
	const (
		fields = `"topology":["rack"],"bandwidth_gbps":{"rack":100},"gpu_types":{"A":{"memory_gib":16}}`
		nodes  = `"nodes":[{"name":"a","gpus":{"A":2},"labels":{"rack":"r"}}]`
	)
	var first *hare.Cluster
	for _, text := range []string{`{` + fields + `,` + nodes + `}`, `{` + nodes + `,` + fields + `}`,
		`{"cluster":{` + fields + `,` + nodes + `}}`} {
		c, err := wire.DecodeCluster(strings.NewReader(text), wire.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = c
		}
		if diff := cmp.Diff(first, c); diff != "" || len(c.Bandwidths) != 1 || len(c.GPUTypes) != 1 {
			t.Errorf("%s: %v, %s", text, c, diff)
		}
	}
	for text, want := range map[string]string{
		`{` + nodes + `,"bandwidth_gbps":{"row":1}}`:                     "/bandwidth_gbps/row: there is no level",
		`{` + nodes + `,"bandwidth_gbps":{"any":0}}`:                     "/bandwidth_gbps/any: 0 must be between",
		`{` + nodes + `,"gpu_types":{"A":{}}}`:                           `/gpu_types/A: "memory_gib" is missing`,
		`{"cluster":{` + nodes + `},"gpu_types":{"A":{"memory_gib":1}}}`: `/gpu_types: "gpu_types" is outside "cluster"`,
	} {
		if _, err := wire.DecodeCluster(strings.NewReader(text), wire.Limits{}); err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
