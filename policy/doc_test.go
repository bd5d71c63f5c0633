package policy_test

import (
	"os"
	"strings"
	"testing"

	"github.com/hare-sched/hare/policy"
)

// TestPoliciesPage holds the page to the code: every policy is named, and the
// example is that of example_test.go, which compiles and runs.
func TestPoliciesPage(t *testing.T) {
	page, err := os.ReadFile("../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range policy.Names() {
		short := strings.TrimSuffix(name, "_perf")
		if !strings.Contains(string(page), "`"+name+"`") && !strings.Contains(string(page), "`"+short+"`, `…_perf`") {
			t.Errorf("docs/policies.md does not name %s", name)
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
