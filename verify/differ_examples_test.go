package verify_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// exampleDocuments returns the examples whose optima were found by trying all schedules: with the
// bound that their certificates prove, which is to be accepted, and with the least decimal above
// it, which is to be refused. Each comes several times, so that it has more mutants.
func exampleDocuments(t *testing.T) (out []documents) {
	paths, err := filepath.Glob("testdata/real/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var x nodeExample
		if err := json.Unmarshal(text, &x); err != nil || x.Schedule == nil {
			continue // a file of wrong readings has an example by name, without schedules
		}
		var cert map[string]any
		if err := json.Unmarshal(x.Certificate, &cert); err != nil {
			t.Fatal(path, err)
		}
		objective := cert["objective"].(string)
		name := filepath.Base(path)
		for more, want := range []int{0, 1} {
			bound := x.Price
			if more > 0 {
				bound = bound[:len(bound)-1] + string(bound[len(bound)-1]+1)
			}
			cert["bound"] = bound
			stated, err := json.Marshal(cert)
			if err != nil {
				t.Fatal(err)
			}
			constant := ""
			if x.Constant != "" && x.Constant != "0" {
				constant = fmt.Sprintf(`"constant":%s,`, x.Constant)
			}
			doc := documents{name: fmt.Sprintf("example %s, %d above", name, more), instance: x.Instance,
				result: fmt.Appendf(nil, `{"hare":"result/v1","objective":%q,"status":"succeeded","value":%s,%s`+
					`"schedule":%s,"certificate":%s}`, objective, x.Optimum, constant, x.Schedule, stated)}
			if code, said := goVerdict(&doc); code != want {
				t.Errorf("%s: %d, %s", doc.name, code, said)
			}
			for range 4 {
				out = append(out, doc)
			}
		}
	}
	if len(out) < 80 {
		t.Errorf("only %d documents of %s", len(out), strings.Join(paths, ", "))
	}
	return out
}
