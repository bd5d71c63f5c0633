package main

import (
	"strings"
	"testing"
)

// TestWithoutHiGHS checks that whoever has no HiGHS, or another file in its place, is told why and how to mend it, and
// that what needs no linear programs goes on, without a word where it uses none.
func TestWithoutHiGHS(t *testing.T) {
	inst, library := file(t, "tiny.json", tiny), file(t, "libhighs.so", "no library")
	t.Setenv("HARE_LIBHIGHS", library)
	const going = "hare: going on without linear programs, so that gaps may be wider: no HiGHS: "
	const needs = " needs the LP engine (HiGHS), which is not running: take another method, or see hare doctor"
	solve, result := "solve "+inst+" --work-limit 100 -o ", file(t, "result.json", "")
	for _, c := range []struct {
		args string
		code int
		want []string
	}{
		{solve + result, 0, []string{going, library}},
		{solve + result + " -q", 0, nil},
		{solve + result + " --bound machine", 0, nil},
		{solve + result + " -q --bound paper", exitUsage, []string{"hare: --bound: paper" + needs}},
		{solve + result + " -q --order queyranne", exitUsage, []string{"hare: --order: queyranne" + needs}},
		{"bound " + inst + " --method critical_path", 0, []string{`"certified": true`}},
		{"bound " + inst + " --method queyranne", exitUsage, []string{going, "hare: --method: queyranne" + needs}},
		{"doctor --listen 127.0.0.1:0 --data-dir " + t.TempDir(), exitNo,
			[]string{"FAIL  HiGHS worker     no HiGHS: ", library, "remedy: keep lib next to hare"}},
	} {
		out, errs, code := runHare(t, "", strings.Fields(c.args)...)
		// Without the tag highs, no library is looked for.
		said := strings.ReplaceAll(out+errs, "built without the tag highs", library)
		if len(c.want) > 0 && c.want[0] != going && strings.Contains(said, going) || c.want == nil && errs != "" {
			t.Errorf("hare %s: %s", c.args, errs)
		}
		for _, want := range c.want {
			if code != c.code || !strings.Contains(said, want) {
				t.Errorf("hare %s: exit %d, want %q\n%s%s", c.args, code, want, out, errs)
			}
		}
	}
}
