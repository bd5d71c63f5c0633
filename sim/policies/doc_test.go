package policies_test

import (
	"os"
	"strings"
	"testing"

	registry "github.com/hare-sched/hare/sim/policies"
)

// TestPoliciesPage compares the pages with the code: docs/use/policies.md names every policy in a table, and the
// examples of docs/use/own-policy.md are those of example_test.go here and of online/policies.
func TestPoliciesPage(t *testing.T) {
	read := func(file string) string {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var rows strings.Builder // first cells of the tables
	for line := range strings.SplitSeq(read("../../docs/use/policies.md"), "\n") {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			rows.WriteString(cells[1] + "\n")
		}
	}
	for _, p := range registry.All() {
		short := strings.TrimSuffix(p.Name, "_perf")
		if !strings.Contains(rows.String(), "`"+p.Name+"`") &&
			!strings.Contains(rows.String(), "`"+short+"`, `…_perf`") {
			t.Errorf("no table of docs/use/policies.md has a row of %s", p.Name)
		}
	}
	page := read("../../docs/use/own-policy.md")
	for _, x := range []struct{ file, from, to string }{
		{"example_test.go", "// ShortestFirst gives", "\n// The example"},
		{"../../online/policies/example_test.go", "// NewWeightedSRTF runs", "\n// The example"},
	} {
		_, code, _ := strings.Cut(read(x.file), x.from)
		code, _, _ = strings.Cut(x.from+code, x.to)
		for line := range strings.SplitSeq(strings.TrimSpace(code), "\n") {
			if line = strings.ReplaceAll(line, "\t", "    "); line != "" && !strings.Contains(page, "\n    "+line+"\n") {
				t.Errorf("docs/use/own-policy.md lacks %q of %s", line, x.file)
			}
		}
	}
}
