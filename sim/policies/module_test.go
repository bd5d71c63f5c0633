package policies_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The module of examples/policy builds, passes its tests and prints what docs/use/own-policy.md
// shows. The module does not use HiGHS, so it is built without cgo.
func TestExampleModule(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a second module")
	}
	page, err := os.ReadFile("../../docs/use/own-policy.md")
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir = "../../examples/policy"
		// With -trimpath the build cache has the standard library from other builds.
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly -trimpath")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run("vet", "./...")
	run("test", "-vet=off", "-ldflags=-w", "./...") // vetted above
	shows := func(what, text string) {
		for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
			if line = strings.TrimRight("    "+strings.ReplaceAll(line, "\t", "    "), " "); line != "" &&
				!strings.Contains(string(page), "\n"+line+"\n") {
				t.Errorf("docs/use/own-policy.md lacks a line of %s: %q", what, line)
			}
		}
	}
	shows("what compare prints", run("run", "./compare"))
	for name, from := range map[string]string{"narrow.go": "// Policy describes",
		"narrow_test.go": "// Hare's test kit"} {
		text, err := os.ReadFile("../../examples/policy/" + name)
		if err != nil {
			t.Fatal(err)
		}
		_, code, _ := strings.Cut(string(text), from)
		shows(name, from+code)
	}
}
