package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSimulatePolicies(t *testing.T) {
	out, _, _ := runHare(t, "", "simulate", "policies", "--json")
	var got struct {
		Policies []struct {
			Name, Engine string
			Parameters   []struct{ Name string }
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	parameters := map[string]int{}
	for _, p := range got.Policies {
		parameters[p.Name] = len(p.Parameters)
	}
	if parameters["pollux"] != 9 || parameters["hadar"] != 8 || parameters["gavel:fifo"] != 0 ||
		parameters["slurm"] != 4 {
		t.Errorf("numbers of parameters: %v", parameters)
	}
	for _, c := range []struct{ names, want string }{
		{"polux", `did you mean "pollux"?`}, {"hadar hadare", "at most one policy"}} {
		_, errs, code := runHare(t, "", append([]string{"simulate", "policies"}, strings.Fields(c.names)...)...)
		if code != 2 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit code %d, %s", c.names, code, errs)
		}
	}
	table, _, code := runHare(t, "", "simulate", "policies")
	one, _, oneCode := runHare(t, "", "simulate", "policies", "optimus")
	if code != 0 || oneCode != 0 || !strings.Contains(table, "threshold_s, interference") ||
		!strings.Contains(one, "0.95") {
		t.Error(table, one)
	}
}
