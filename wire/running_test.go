package wire_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/wire"
)

// shared wraps jobs, and members of the cluster and of the instance, into an instance with two
// nodes of two V100s and a T4; node b is out of service from 9 s on.
func shared(jobs, cluster, instance string) string {
	return `{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"V100":2,"T4":1},"cpus":8,` +
		`"labels":{"rack":"r"}},{"name":"b","gpus":{"V100":2},"in_service_s":[[0,9]]}]` + cluster + `}` + instance +
		`,"jobs":[` + jobs + `]}`
}

func TestBadRunningWorkIsNamed(t *testing.T) {
	for fields, want := range map[string]string{
		`"progress":{"rounds_done":3}`:                                    "out_of_range /progress/rounds_done",
		`"progress":{"rounds_done":-1}`:                                   "out_of_range /progress/rounds_done",
		`"progress":{"gpu":["a/0"]}`:                                      "unknown_field /progress/gpu",
		`"progress":{"elapsed_s":1}`:                                      "not_allowed /progress/elapsed_s",
		`"progress":{"gpus":["a/1"]}`:                                     "out_of_range /progress/gpus",
		`"progress":{"gpus":["a/1","c/0"]}`:                               "unknown_gpu /progress/gpus/1",
		`"progress":{"gpus":["a/1","a/3"]}`:                               "unknown_gpu /progress/gpus/1",
		`"progress":{"gpus":["a","a/1"]}`:                                 "unknown_gpu /progress/gpus/0",
		`"progress":{"gpus":["a/+1","a/1"]}`:                              "unknown_gpu /progress/gpus/0",
		`"progress":{"gpus":["a/1","a/1"]}`:                               "duplicate_id /progress/gpus/1",
		`"progress":{"gpus":["a/0","a/1"]}`:                               "not_allowed /progress/gpus", // two types
		`"progress":{"gpus":["a/1","a/2"],"elapsed_s":2}`:                 "out_of_range /progress/elapsed_s",
		`"release_s":1,"progress":{"gpus":["a/1","a/2"]}`:                 "not_allowed /progress/gpus",
		`"distinct_nodes":true,` + onTwo:                                  "not_allowed /progress/gpus",
		`"exclude":{"rack":"r"},` + onTwo:                                 "not_allowed /progress/gpus",
		`"only":{"node":"b"},` + onTwo:                                    "not_allowed /progress/gpus",
		`"cpus_per_task":5,` + onTwo:                                      "too_many_cpus /progress/gpus",
		`"gpus_per_task":2,"progress":{"gpus":["a/1","a/2","b/0","a/0"]}`: "not_allowed /progress/gpus",
		`"user":3`:          "wrong_type /user",
		`"user":["ann",""]`: "bad_name /user/0",
		`"user":[3]`:        "wrong_type /user/0",
	} {
		code, pointer, _ := strings.Cut(want, " ")
		expectFaults(t, shared(`{"id":"j","sync":"gang","tasks":2,"rounds":3,`+
			`"on":{"V100":{"compute_s":2},"T4":{"compute_s":3}},`+fields+`}`, "", ""), code+" /jobs/0"+pointer)
	}
	const on, onA, onB = `"on":{"V100":{"compute_s":2}},`, `"progress":{"gpus":["a/1"]}`, `"progress":{"gpus":["b/1"]}`
	for jobs, want := range map[string]string{
		`{"id":"j",` + on + onA + `}`:                                       "not_allowed /jobs/0/progress/gpus", // relaxed
		`{"id":"j","sync":"rigid","rounds":5,` + on + onB + `}`:             "not_allowed /jobs/0/progress/gpus", // b leaves
		`{"id":"j","sync":"rigid","after":["k"],` + on + onA + `},` + other: "not_allowed /jobs/0/progress/gpus",
		`{"id":"j","sync":"rigid",` + on + onB + `},{"id":"k","sync":"rigid",` + on + onB + `}`: "duplicate_id " +
			"/jobs/1/progress/gpus/0",
	} {
		expectFaults(t, shared(jobs, "", ""), want)
	}
}

const (
	onTwo = `"progress":{"gpus":["a/1","a/2"]}`
	other = `{"id":"k","on":{"V100":{"compute_s":2}}}`
)

// expectFaults checks the faults of an instance.
func expectFaults(t *testing.T, text, want string) {
	t.Helper()
	_, err := wire.DecodeInstance(strings.NewReader(text), wire.Limits{})
	if got := haretest.Faults(err); got != want {
		t.Errorf("%s\ngot %s, want %s (%v)", text, got, want, err)
	}
}

func TestBadReservationsAndQuotasAreNamed(t *testing.T) {
	for cluster, want := range map[string]string{
		`{"from_s":3,"until_s":3}`:       "bad_window /until_s",
		`{"from_s":3}`:                   "missing_field ",
		`{"until_s":3,"jobs":["x","k"]}`: "unknown_job /jobs/1",
		`{"until_s":3,"nodes":["a"]}`:    "wrong_type /nodes",
		`{"until_s":3,"users":[""]}`:     "bad_name /users/0",
	} {
		code, pointer, _ := strings.Cut(want, " ")
		expectFaults(t, shared(other, `,"reservations":[`+cluster+`]`, ""), code+" /cluster/reservations/0"+pointer)
	}
	for quota, want := range map[string]string{
		`{"gpus":1}`:                          "missing_field ",
		`{"user":"ann"}`:                      "missing_field ",
		`{"user":"ann","gpus":-1}`:            "out_of_range /gpus",
		`{"user":"ann","gpus":1,"types":[]}`:  "missing_field /types",
		`{"user":"","gpus":1,"types":["A"]}`:  "missing_field /user",
		`{"user":"ann","gpus":1,"types":"A"}`: "wrong_type /types",
	} {
		code, pointer, _ := strings.Cut(want, " ")
		expectFaults(t, shared(other, "", `,"quota":[`+quota+`]`), code+" /quota/0"+pointer)
	}
}

func TestBadDependenciesAreNamed(t *testing.T) {
	waits := func(id, fields string) string {
		return `{"id":"` + id + `","on":{"V100":{"compute_s":2}},` + fields + `}`
	}
	for fields, want := range map[string]string{
		`"after":["b"]`:                               "unknown_job /after/0",
		`"after":["a"]`:                               "cycle /after/0",
		`"after":["k",{"job":"k","lag_s":1}]`:         "duplicate_id /after/1",
		`"after":[1]`:                                 "wrong_type /after/0",
		`"after":[{"lag_s":1}]`:                       "missing_field /after/0",
		`"after":[{"job":"k","lag_s":-1}]`:            "out_of_range /after/0/lag_s",
		`"after":[{"job":"k","lag_s":9007199254.74}]`: "too_large ",
		`"deadline_s":0`:                              "out_of_range /deadline_s",
		`"late_weight":1`:                             "not_allowed /late_weight",
	} {
		code, pointer, _ := strings.Cut(want, " ")
		expectFaults(t, shared(waits("a", fields)+","+other, "", ""), code+" /jobs/0"+pointer)
	}
	cycle := waits("a", `"after":["b"]`) + "," + waits("b", `"after":["c"]`) + "," + waits("c", `"after":["a"]`)
	_, err := wire.DecodeInstance(strings.NewReader(shared(cycle, "", "")), wire.Limits{})
	if got := haretest.Faults(err); got != "cycle /jobs/0/after" {
		t.Errorf("got %s", got)
	} else if !strings.Contains(err.Error(), `"a" waits for "b" waits for "c" waits for "a"`) {
		t.Errorf("%v does not name the cycle", err)
	}
}

func TestCanonicalRunningWorkAndDependencies(t *testing.T) {
	text := shared(`{"id":"k","sync":"rigid","on":{"V100":{"compute_s":2}},"user":["z","ann","z"],`+
		`"progress":{"rounds_done":0,"gpus":["a/1"],"elapsed_s":0.5}},`+
		`{"id":"j","after":["k",{"job":"i","lag_s":1.5}],"deadline_s":4,"late_weight":0.5,"on":{"V100":{"compute_s":2}}},`+
		`{"id":"i","rounds":4,"progress":{"rounds_done":2},"user":"bob","on":{"V100":{"compute_s":2}}}`,
		`,"reservations":[{"nodes":{"rack":"r"},"from_s":3,"until_s":7,"users":["ops","ann"],"jobs":["k"]},{"until_s":1}]`,
		`,"quota":[{"user":"ann","gpus":0,"types":["V100","A"]},{"user":"bob","gpus":2}]`)
	inst, err := wire.DecodeInstance(strings.NewReader(text), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	got := string(wire.Canonical(inst))
	for _, want := range []string{
		`"reservations":[{"from_us":3000000,"jobs":["k"],"nodes":{"rack":["r"]},"until_us":7000000,"users":["ann","ops"]},` +
			`{"until_us":1000000}]},"hare"`,
		`"progress":{"elapsed_us":500000,"gpus":["a/1"]},"release_us":0`,
		`"tasks":1,"user":["ann","z"],"weight_micro"`,
		`{"after":[{"job":"i","lag_us":1500000},{"job":"k"}],"deadline_us":4000000,"id":"j",` +
			`"late_weight_micro":500000,"mix"`,
		`"progress":{"rounds_done":2},"release_us"`,
		`"quota":[{"gpus":0,"types":["A","V100"],"user":"ann"},{"gpus":2,"user":"bob"}]}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the canonical form\n%s\nlacks\n%s", got, want)
		}
	}
	if at, placed := inst.Placed(); !placed || at != "/cluster/reservations" {
		t.Errorf("Placed is %s, %v", at, placed)
	}
	m := model.New(inst)
	if k := &m.Jobs[0]; k.RunsUntilUs != 1_500_000 || k.Rounds != 0 || len(k.RunsOn) != 1 ||
		m.GPUs[k.RunsOn[0]].ID != "a/1" {
		t.Errorf("the running job is %+v", k)
	}
	held := []model.Step{{FromUs: 0, Count: 1}, {FromUs: 1_500_000, Count: 0}}
	if diff := cmp.Diff(held, m.Quotas[0].Running); diff != "" {
		t.Error(diff)
	}
	// Node a is closed to job i from 0 to 1 and from 3 to 7 s, node b from 0 to 1 s; b leaves at 9 s.
	room := m.TaskRoom(&m.Jobs[2], m.GPUs[1].Type)
	want := []model.Step{{FromUs: 0, Count: 0}, {FromUs: 1_000_000, Count: 3}, {FromUs: 1_500_000, Count: 4},
		{FromUs: 3_000_000, Count: 2}, {FromUs: 7_000_000, Count: 4}, {FromUs: 9_000_000, Count: 2}}
	if diff := cmp.Diff(want, room); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{0, 2, 1}, inst.TopologicalOrder()); diff != "" {
		t.Error(diff)
	}
}
