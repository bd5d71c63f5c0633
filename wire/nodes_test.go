package wire_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/wire"
)

func TestBadNodeRulesAreNamed(t *testing.T) {
	const node, first = "/cluster/nodes/0", "/jobs/0"
	for name, c := range map[string]struct{ text, want string }{
		"no cpus":            {machine(`"cpus":0`), "out_of_range " + node + "/cpus"},
		"negative cpus":      {machine(`"cpus":-1`), "out_of_range " + node + "/cpus"},
		"fine cpus":          {machine(`"cpus":1.0005`), "too_many_decimals " + node + "/cpus"},
		"many cpus":          {machine(`"cpus":1e12`), "out_of_range " + node + "/cpus"},
		"cpus in words":      {machine(`"cpus":"two"`), "wrong_type " + node + "/cpus"},
		"no memory":          {machine(`"memory_mib":0`), "out_of_range " + node + "/memory_mib"},
		"half a MiB":         {machine(`"memory_mib":0.5`), "wrong_type " + node + "/memory_mib"},
		"labels in a list":   {machine(`"labels":["a"]`), "wrong_type " + node + "/labels"},
		"label of a number":  {machine(`"labels":{"a":1}`), "wrong_type " + node + "/labels/a"},
		"label without name": {machine(`"labels":{"":"x"}`), "bad_name " + node + "/labels/"},
		"label named node":   {machine(`"labels":{"node":"x"}`), "not_allowed " + node + "/labels/node"},
		"label twice":        {machine(`"labels":{"a":"x","a":"y"}`), "duplicate_name " + node + "/labels/a"},
		"long label": {machine(`"labels":{"a":"` + strings.Repeat("x", 254) + `"}`), "bad_name " +
			node + "/labels/a"},
		"no gpus a task": {job(`"gpus_per_task":0`), "out_of_range " + first + "/gpus_per_task"},
		"huge task":      {job(`"gpus_per_task":1048577`), "too_large " + first + "/gpus_per_task"},
		"huge round": {job(`"sync":"gang","tasks":1000000,"gpus_per_task":2`), "too_large " + first +
			"/gpus_per_task"},
		"negative cpus a task": {job(`"cpus_per_task":-1`), "out_of_range " + first + "/cpus_per_task"},
		"negative memory":      {job(`"memory_mib_per_task":-1`), "out_of_range " + first + "/memory_mib_per_task"},
		"distinct relaxed":     {job(`"distinct_nodes":true`), "not_allowed " + first + "/distinct_nodes"},
		"distinct number":      {job(`"distinct_nodes":1`), "wrong_type " + first + "/distinct_nodes"},
		"only a string":        {job(`"only":"a"`), "wrong_type " + first + "/only"},
		"only of a number":     {job(`"only":{"a":1}`), "wrong_type " + first + "/only/a"},
		"only without values":  {job(`"only":{"a":[]}`), "missing_field " + first + "/only/a"},
		"only without label":   {job(`"only":{"":"x"}`), "bad_name " + first + "/only/"},
		"exclude in a list":    {job(`"exclude":{"a":["x",2]}`), "wrong_type " + first + "/exclude/a/1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := wire.DecodeInstance(strings.NewReader(c.text), wire.Limits{})
			if got := haretest.Faults(err); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// A field that has its default changes no byte of the canonical form.
func TestDefaultNodeRulesChangeNothing(t *testing.T) {
	plain, err := wire.DecodeInstance(strings.NewReader(job(`"sync":"gang"`)), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	same := job(`"sync":"gang","gpus_per_task":1,"cpus_per_task":0,"memory_mib_per_task":0,"distinct_nodes":false,` +
		`"only":{},"exclude":{}`)
	inst, err := wire.DecodeInstance(strings.NewReader(same), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plain, inst, cmp.Transformer("empty",
		func(lv []hare.LabelValues) int { return len(lv) })); diff != "" {
		t.Error(diff)
	}
	if a, b := wire.Canonical(plain), wire.Canonical(inst); string(a) != string(b) {
		t.Errorf("the canonical form is %s, without the fields %s", b, a)
	}
	if at, placed := inst.Placed(); placed {
		t.Errorf("nodes matter because of %s", at)
	}
}

func TestCanonicalNodeRules(t *testing.T) {
	const text = `{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"V100":8},"cpus":2.5,"memory_mib":64,` +
		`"labels":{"rack":"r","disk":"nvme"}}]},"jobs":[{"id":"j","sync":"gang","on":{"V100":{"compute_s":1}},` +
		`"gpus_per_task":4,"cpus_per_task":0.25,"memory_mib_per_task":3,"distinct_nodes":true,` +
		`"only":{"disk":["nvme","hdd","nvme"]},"exclude":{"node":"b"}}]}`
	const want = `{"cluster":{"nodes":[{"busy":[],"cpus_milli":2500,"gpus":{"V100":8},"in_service_us":[[0,null]],` +
		`"labels":{"disk":"nvme","rack":"r"},"memory_mib":64,"name":"a"}]},"hare":"instance/v1","jobs":[` +
		`{"cpus_milli_per_task":250,"distinct_nodes":true,"exclude":{"node":["b"]},"gpus_per_task":4,"id":"j",` +
		`"memory_mib_per_task":3,"mix":false,"on":{"V100":{"compute_us":1000000,"sync_us":0}},` +
		`"only":{"disk":["hdd","nvme"]},"release_us":0,"rounds":1,"sync":"gang","tasks":1,"weight_micro":1000000}],` +
		`"objective":"weighted_jct"}`
	inst, err := wire.DecodeInstance(strings.NewReader(text), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(wire.Canonical(inst)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if at, placed := inst.Placed(); !placed || at != "/jobs/0/gpus_per_task" {
		t.Errorf("Placed says %q, %v", at, placed)
	}
}

// Pools survive the way into a result and back.
func TestPoolsSurviveEncoding(t *testing.T) {
	const text = `{"hare":"certificate/v1","method":"price","path":true,"objective":"weighted_jct","bound":"1.000000",` +
		`"grid_us":[0,5],"prices":{},"pools":[{"type":"A","per":"node","only":{"disk":"nvme"},"prices":[1,2],` +
		`"sizes":{"2":[3,4],"16":[5,6]}},{"cpus":"A","prices":[7,8]},{"memory":"A","prices":[9,10]}]}`
	res, err := wire.DecodeResult(strings.NewReader(`{"hare":"result/v1","certificate":`+text+`}`), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(wire.CertificateJSON(res.Certificate)); got != text {
		t.Errorf("got  %s\nwant %s", got, text)
	}
}

func TestBadPoolsAreNamed(t *testing.T) {
	for name, c := range map[string]struct{ pool, want string }{
		"no kind":        {`{"prices":[1]}`, "missing_field /certificate/pools/0"},
		"two kinds":      {`{"type":"A","cpus":"A","per":"all"}`, "missing_field /certificate/pools/0"},
		"no per":         {`{"type":"A"}`, "missing_field /certificate/pools/0"},
		"cpus per":       {`{"cpus":"A","per":"all"}`, "not_allowed /certificate/pools/0/per"},
		"size 0":         {`{"type":"A","per":"all","sizes":{"0":[1]}}`, "bad_size /certificate/pools/0/sizes/0"},
		"negative price": {`{"type":"A","per":"all","prices":[-1]}`, "out_of_range /certificate/pools/0/prices/0"},
	} {
		t.Run(name, func(t *testing.T) {
			text := `{"hare":"result/v1","certificate":{"hare":"certificate/v1","method":"price","path":true,` +
				`"objective":"weighted_jct","bound":"1.000000","grid_us":[0],"prices":{},"pools":[` + c.pool + `]}}`
			_, err := wire.DecodeResult(strings.NewReader(text), wire.Limits{})
			if got := haretest.Faults(err); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
