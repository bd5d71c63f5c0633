package wire_test

import (
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

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
