package whatif_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/whatif"
)

const patchBase = `{"hare":"instance/v1","name":"n/1","cluster":{"nodes":[{"name":"a","count":2,"gpus":{"A":1}}]},
 "jobs":[{"id":"x","on":{"A":{"compute_s":1}}},{"id":"y","weight":2.50,"on":{"A":{"compute_s":1}}}]}`

// patchedInstance applies one scenario to patchBase.
func patchedInstance(t testing.TB, scenario string) (*hare.Instance, error) {
	t.Helper()
	req, err := decodeWhatIf(`{"instance":`+patchBase+`}`, []string{scenario}, "")
	if err != nil {
		return nil, err
	}
	return whatif.ScenarioInstance(req, 0)
}

func TestPatches(t *testing.T) {
	for _, c := range []struct{ name, patch, want string }{
		{"as it was sent", `{"op":"replace","path":"/cluster/nodes/0/count","value":3}`,
			`{"name":"a-2","gpus":{"A":1}}`},
		{"test and add", `{"op":"test","path":"/jobs/1/weight","value":2.50},{"op":"add","path":"/jobs/0/weight",` +
			`"value":9007199254.740991}`, `"id":"x","weight":9007199254.740991`},
		{"move", `{"op":"move","from":"/jobs/0/on","path":"/jobs/1/on"},{"op":"add","path":"/jobs/0/on",` +
			`"value":{"A":{"compute_s":7}}}`, `"compute_s":7`},
		{"moves in a circle", `{"op":"move","from":"/jobs/0","path":"/jobs/1"},{"op":"move","from":"/jobs/1",` +
			`"path":"/jobs/0"}`, `"jobs":[
  {"id":"x"`},
		{"copy", `{"op":"copy","from":"/jobs/0","path":"/jobs/-"},{"op":"replace","path":"/jobs/2/id","value":"z"}`,
			`"id":"z"`},
		{"whole", `{"op":"replace","path":"","value":{"hare":"instance/v1","cluster":{"nodes":[{"name":"q",` +
			`"gpus":{"Q":1}}]},"jobs":[]}}`, `"name":"q"`},
		{"no jobs", `{"op":"replace","path":"/jobs","value":[]}`, `"jobs":[]`},
		{"a name with a slash in the path", `{"op":"add","path":"/jobs/0/on/B~1C","value":{"compute_s":2}}`, `"B/C"`},
	} {
		inst, err := patchedInstance(t, `{"patch":[`+c.patch+`]}`)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if text := document(t, inst); !strings.Contains(text, c.want) {
			t.Errorf("%s: %s", c.name, text)
		}
	}
}

func TestPatchFaults(t *testing.T) {
	many := strings.Repeat(`{"op":"copy","from":"/jobs","path":"/jobs/-"},`, 40)
	for _, c := range []struct{ name, patch, pointer, code string }{
		{"unknown field", `{"op":"add","path":"/jobs/0/wieght","value":2}`, "/0/value", "unknown_field"},
		{"unknown field inside", `{"op":"test","path":"/jobs/0/id","value":"x"},{"op":"replace","path":"/jobs/0",` +
			`"value":{"id":"x","on":{"A":{"compute":1}}}}`, "/1/value/on/A/compute", "unknown_field"},
		{"remove everything", `{"op":"remove","path":"/cluster"},{"op":"remove","path":"/jobs"}`, "", "missing_field"},
		{"remove what is not there", `{"op":"add","path":"/name","value":"m"},{"op":"remove","path":"/jobs/7"}`, "/1",
			"patch_failed"},
		{"negative index", `{"op":"remove","path":"/jobs/-1"}`, "/0", "patch_failed"},
		{"leading zero", `{"op":"remove","path":"/jobs/x"}`, "/0", "patch_failed"},
		{"replace what is not there", `{"op":"replace","path":"/jobs/0/weight","value":1}`, "/0", "patch_failed"},
		{"test", `{"op":"test","path":"/jobs/0/id","value":"y"}`, "/0", "test_failed"},
		{"null", `{"op":"add","path":"/jobs/0/weight","value":null}`, "/0/value", "wrong_type"},
		{"not an instance", `{"op":"replace","path":"","value":7}`, "/0/value", "wrong_type"},
		{"not an instance, null", `{"op":"replace","path":"","value":null}`, "/0/value", "wrong_type"},
		{"copy into itself", `{"op":"copy","from":"","path":"/jobs/0/on"}`, "/0", "wrong_type"},
		{"copies that double", many + `{"op":"test","path":"/name","value":"n/1"}`, "", "too_large"},
		{"objective", `{"op":"add","path":"/objective","value":"makespan"}`, "", "not_supported"},
		{"same id", `{"op":"copy","from":"/jobs/0","path":"/jobs/-"}`, "", "duplicate_id"},
	} {
		_, err := patchedInstance(t, `{"patch":[`+c.patch+`]}`)
		var faults hare.InvalidErrors
		var fault *hare.InvalidError
		if !errors.As(err, &faults) && errors.As(err, &fault) {
			faults = hare.InvalidErrors{fault}
		}
		if len(faults) == 0 {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if pointer := "/scenarios/0/patch" + c.pointer; faults[0].Code != c.code || faults[0].Pointer != pointer {
			t.Errorf("%s: %v, want %s at %s", c.name, faults, c.code, pointer)
		}
	}
}

// No patch panics or makes an instance that is not valid.
func FuzzPatch(f *testing.F) {
	for _, s := range []string{
		`{"op":"replace","path":"/cluster/nodes/0/count","value":3}`,
		`{"op":"move","from":"/jobs/0/on","path":"/jobs/1/on"},{"op":"copy","from":"/jobs","path":"/cluster"}`,
		`{"op":"test","path":"","value":{}},{"op":"remove","path":"/jobs/0"}`,
		`{"op":"add","path":"/jobs/-/-","value":[null]}`,
		`{"op":"add","path":"/jobs/99999999999999999999","value":[null]}`,
		`{"op":"replace","path":"","value":null},{"op":"add","path":"/a","value":1}`,
		`{"op":"copy","from":"/name/x","path":"/jobs/0/on/A/compute_s/y"}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, patch string) {
		inst, err := patchedInstance(t, `{"patch":[`+patch+`]}`)
		if err != nil {
			return
		}
		if err := inst.Validate(); err != nil {
			t.Fatalf("%s: %v", patch, err)
		}
	})
}
