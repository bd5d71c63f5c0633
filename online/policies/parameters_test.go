package policies

import (
	"encoding/json"
	"reflect"
	"testing"
)

// shown are the parameters of a policy in sessions with the defaults that are shown of them.
func shown(t *testing.T, policy string) []byte {
	t.Helper()
	all := map[string]any{}
	for _, p := range parametersOf[policy] {
		if p.Default != nil {
			all[p.Name] = p.Default
		}
	}
	text, err := json.Marshal(all)
	if err != nil || len(all) == 0 {
		t.Fatal(policy, err)
	}
	return text
}

// The default that is shown of each parameter is that of the policy.
func TestShownDefaults(t *testing.T) {
	a, err := readASRPT(shown(t, "asrpt"))
	if a.Predict == SizesBelief { // as where it is left out, in sessions
		a.Predict = SizesTold
	}
	if !reflect.DeepEqual(a.withDefaults(), (ASRPTConfig{}).withDefaults()) || err != nil {
		t.Errorf("asrpt with %s: %+v, %v", shown(t, "asrpt"), a, err)
	}
	s, err := readSampling(shown(t, "sampling"))
	if err != nil {
		t.Fatal(err)
	}
	var want SamplingConfig
	if s.Market, err = s.Market.WithDefaults(); err != nil {
		t.Fatal(err)
	}
	if want.Market, err = want.Market.WithDefaults(); err != nil || s != want {
		t.Errorf("sampling with %s: %+v, %v", shown(t, "sampling"), s, err)
	}
}
