package policies_test

import (
	"os"
	"strings"
	"testing"

	registry "github.com/hare-sched/hare/sim/policies"
)

// TestPoliciesPage compares the pages with the code: the pages name every policy, and their
// examples are those of example_test.go and task/example_test.go.
func TestPoliciesPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/use/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := os.ReadFile("../../docs/use/task-policies.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range registry.All() {
		text, name := string(page), "policies.md"
		if p.Engine == registry.Task {
			text, name = string(tasks), "task-policies.md"
		}
		short := strings.TrimSuffix(p.Name, "_perf")
		if !strings.Contains(text, "`"+p.Name+"`") && !strings.Contains(text, "`"+short+"`, `…_perf`") {
			t.Errorf("docs/%s does not name %s", name, p.Name)
		}
	}
	for _, x := range []struct{ page, file, from, to string }{
		{string(page), "example_test.go", "// ShortestFirst gives", "\n// The example"},
		{string(tasks), "task/example_test.go", "// NewWeightedSRTF runs", "\n// The example"},
	} {
		example, err := os.ReadFile(x.file)
		if err != nil {
			t.Fatal(err)
		}
		_, code, _ := strings.Cut(string(example), x.from)
		code, _, _ = strings.Cut(x.from+code, x.to)
		for line := range strings.SplitSeq(strings.TrimSpace(code), "\n") {
			if line = strings.ReplaceAll(line, "\t", "    "); line != "" &&
				!strings.Contains(x.page, "\n    "+line+"\n") {
				t.Errorf("the page of %s lacks %q", x.file, line)
			}
		}
	}
}
