package policy_test

import (
	"os"
	"strings"
	"testing"

	"github.com/hare-sched/hare/policy"
)

// TestPoliciesPage holds the pages to the code: every policy is named, and the
// example is that of example_test.go, which compiles and runs.
func TestPoliciesPage(t *testing.T) {
	page, err := os.ReadFile("../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := os.ReadFile("../docs/task-policies.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range policy.All() {
		text, name := string(page), "policies.md"
		if p.Engine == policy.Task {
			text, name = string(tasks), "task-policies.md"
		}
		short := strings.TrimSuffix(p.Name, "_perf")
		if !strings.Contains(text, "`"+p.Name+"`") && !strings.Contains(text, "`"+short+"`, `…_perf`") {
			t.Errorf("docs/%s does not name %s", name, p.Name)
		}
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(example), "// ShortestFirst gives")
	code, _, _ = strings.Cut("// ShortestFirst gives"+code, "\n// A policy of one's own")
	for _, line := range strings.Split(strings.TrimSpace(code), "\n") {
		if line = strings.ReplaceAll(line, "\t", "    "); line != "" && !strings.Contains(string(page), "\n    "+line+"\n") {
			t.Errorf("docs/policies.md lacks %q", line)
		}
	}
}
