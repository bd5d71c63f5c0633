package wire_test

import (
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

const inV, inT = `"on":{"V100":{"compute_s":1}}`, `"on":{"T4":{"compute_s":1}}`

func TestBadShapesAreNamed(t *testing.T) {
	const one, two, wide = `{` + inV + `}`, `{"counts":2,` + inV + `}`, `{"tasks":2,` + inV + `}`
	for fields, want := range map[string]string{
		`"shapes":[]`:                                    "missing_field /shapes",
		`"shapes":3`:                                     "wrong_type /shapes",
		`"shapes":[3]`:                                   "wrong_type /shapes/0",
		`"shapes":[{"tasks":2}]`:                         "missing_field /shapes/0",
		`"shapes":[{"tasks":2,"on":{}}]`:                 "missing_field /shapes/0/on",
		`"shapes":[` + two + `],` + inV:                  "not_allowed /shapes",
		`"shapes":[` + two + `],"tasks":1`:               "not_allowed /shapes",
		`"shapes":[` + two + `],"gpus_per_task":1`:       "not_allowed /shapes",
		`"shapes":[{"counts":0,` + inV + `}]`:            "out_of_range /shapes/0/counts",
		`"shapes":[` + one + `,{"tasks":0,` + inV + `}]`: "out_of_range /shapes/1/tasks",
		`"sync":"gang","shapes":[` + one + `,{"tasks":1048576,"gpus_per_task":2,` + inV + `}]`: "too_large " +
			"/shapes/1/gpus_per_task",
		`"shapes":[` + one + `,` + two + `],"reshape_s":1`:                     "not_allowed /reshape_s",
		`"sync":"rigid","shapes":[` + one + `,` + two + `],"reshape_s":1`:      "not_allowed /reshape_s",
		`"sync":"gang","shapes":[` + one + `,` + two + `],"reshape_s":-1`:      "out_of_range /reshape_s",
		`"sync":"gang",` + inV + `,"reshape_s":1`:                              "not_allowed /reshape_s",
		`"shapes":[` + one + `,` + two + `],"rounds":9007199254,"reshape_s":0`: "not_allowed /reshape_s",
		`"shapes":[{"count":2,` + inV + `}]`: "unknown_field " +
			"/shapes/0/count",
		`"shapes":[` + one + `,` + wide + `],"rounds":9007199254`:                            "too_large ",
		`"sync":"gang","shapes":[` + one + `,` + two + `],"rounds":9000000,"reshape_s":1000`: "too_large ",
		`"sync":"gang","shapes":[` + one + `,` + wide + `],"progress":{"gpus":["a/1"],"shape":2}`: "out_of_range " +
			"/progress/shape",
		`"sync":"gang","shapes":[` + one + `,` + wide + `],"progress":{"gpus":["a/1"],"shape":1}`: "out_of_range " +
			"/progress/gpus",
		`"sync":"gang","shapes":[` + one + `,{` + inT + `}],"progress":{"gpus":["a/1"],"shape":1}`: "not_allowed " +
			"/progress/gpus",
		`"sync":"gang","shapes":[` + one + `,` + two + `],"progress":{"shape":1}`: "not_allowed /progress/shape",
		`"sync":"gang",` + inV + `,"progress":{"gpus":["a/1"],"shape":1}`:         "out_of_range /progress/shape",
		`"sync":"gang",` + inV + `,"progress":{"gpus":["a/1"],"shape":1000}`:      "too_large /progress/shape",
		inV + `,"durations":[{"p":0.5,"factor":1}]`:                               "out_of_range /durations",
		inV + `,"durations":[]`: "out_of_range /durations",
		inV + `,"durations":[{"p":0.5,"factor":1},{"p":0.5,"factor":1}]`: "duplicate_id " +
			"/durations/1/factor",
		inV + `,"durations":[{"p":1,"factor":0}]`:                    "out_of_range /durations/0/factor",
		inV + `,"durations":[{"p":0,"factor":1},{"p":1,"factor":2}]`: "out_of_range /durations/0/p",
		inV + `,"durations":[{"factor":1}]`:                          "missing_field /durations/0",
	} {
		code, pointer, _ := strings.Cut(want, " ")
		expectFaults(t, shared(`{"id":"j",`+fields+`}`, "", ""), code+" /jobs/0"+pointer)
	}
}

func TestShapesHaveOneForm(t *testing.T) {
	decode := func(job string) *hare.Instance {
		inst, err := wire.DecodeInstance(strings.NewReader(shared(`{"id":"j","sync":"gang",`+job+`}`, "", "")),
			wire.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return inst
	}
	plain := wire.SHA256(decode(`"tasks":2,"gpus_per_task":2,` + inV))
	for _, same := range []string{
		`"shapes":[{"tasks":2,"gpus_per_task":2,` + inV + `}]`,
		`"reshape_s":3,"shapes":[{"tasks":2,"gpus_per_task":2,"counts":1,` + inV + `}]`,
	} {
		if wire.SHA256(decode(same)) != plain {
			t.Errorf("%s has another hash than without shapes", same)
		}
	}
	inst := decode(`"durations":[{"p":0.25,"factor":2},{"p":0.75,"factor":0.5}],"reshape_s":0,` +
		`"progress":{"gpus":["a/1"],"shape":0},"rounds":9,` +
		`"shapes":[{"gpus_per_task":1,` + inV + `},{"tasks":2,"counts":2,"gpus_per_task":2,` + inT + `}]`)
	const want = `{"durations":[{"factor_micro":500000,"p_micro":750000},{"factor_micro":2000000,"p_micro":250000}],` +
		`"id":"j","mix":false,"progress":{"gpus":["a/1"]},"release_us":0,"reshape_us":0,"rounds":9,` +
		`"shapes":[{"on":{"V100":{"compute_us":1000000,"sync_us":0}},"tasks":1},` +
		`{"counts":2,"gpus_per_task":2,"on":{"T4":{"compute_us":1000000,"sync_us":0}},"tasks":2}],` +
		`"sync":"gang","weight_micro":1000000}`
	if got := string(wire.Canonical(inst)); !strings.Contains(got, want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
	for known, want := range map[hare.Rules]string{
		^hare.RuleShapes: "/jobs/0/shapes", ^hare.RuleDurations: "/jobs/0/durations", ^hare.RuleSwitch: "",
	} {
		if got := inst.FirstRule(known); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestSetups(t *testing.T) {
	for fields, want := range map[string]string{
		`"switch_s":-1`:         "out_of_range /jobs/0/on/V100/switch_s",
		`"switch_s":"1"`:        "wrong_type /jobs/0/on/V100/switch_s",
		`"switch_s":1e10`:       "too_large /jobs/0/on/V100/switch_s",
		`"switch_s":9007199254`: "too_large /jobs/0",
	} {
		expectFaults(t, shared(`{"id":"j","rounds":2,"on":{"V100":{"compute_s":1,`+fields+`}}}`, "", ""), want)
	}
	const none, given = `"on":{"V100":{"compute_s":1}}`, `"on":{"V100":{"compute_s":1,"switch_s":2.5}}`
	const zero = `"on":{"V100":{"compute_s":1,"switch_s":0}}`
	decode := func(on string) *hare.Instance {
		inst, err := wire.DecodeInstance(strings.NewReader(shared(`{"id":"j",`+on+`}`, "", "")), wire.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return inst
	}
	if wire.SHA256(decode(none)) != wire.SHA256(decode(zero)) {
		t.Error("a switch_s of 0 changes the hash")
	}
	if got := string(wire.Canonical(decode(given))); !strings.Contains(got,
		`"on":{"V100":{"compute_us":1000000,"switch_us":2500000,"sync_us":0}}`) {
		t.Error(got)
	}
	if got, want := decode(given).FirstRule(^hare.RuleSwitch), "/jobs/0/on/V100/switch_s"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSetupsOfASchedule(t *testing.T) {
	inst, err := wire.DecodeInstance(strings.NewReader(shared(`{"id":"j","sync":"gang","rounds":9,"progress":{"gpus":`+
		`["a/1"]},"on":{"V100":{"compute_s":1,"switch_s":2}}},{"id":"k","on":{"V100":{"compute_s":1,"switch_s":0.5}}}`,
		"", "")), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	s := &hare.Schedule{Jobs: []string{"j", "k"}, Lanes: []hare.Lane{
		{GPU: "a/1", Job: []int32{0, 1, 0, 0}, StartUs: []int64{0, 0, 0, 0}}, // none for the first
		{GPU: "b/0", Job: []int32{1, 1}, StartUs: []int64{0, 0}},
	}}
	if count, timeUs, ok := inst.Setups(s); count != 3 || timeUs != 3_000_000 || !ok {
		t.Errorf("got %d, %d, %v", count, timeUs, ok)
	}
	inst.Jobs[0].On[0].SwitchUs, inst.Jobs[1].On[0].SwitchUs = 0, 0
	if _, _, ok := inst.Setups(s); ok {
		t.Error("there are setups although no job has one")
	}
}
