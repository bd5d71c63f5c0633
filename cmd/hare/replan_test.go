package main

import (
	"regexp"
	"strings"
	"testing"
)

// replanChanging matches times of the machine.
var replanChanging = regexp.MustCompile(changing.String() + `|after \d+\.\d+ s|"(total|wait)_s": ?[0-9.e-]+`)

func TestReplanPage(t *testing.T) { checkPage(t, "../../docs/use/replan.md", replanChanging, 12) }

func TestReplanFlags(t *testing.T) {
	inst := file(t, "i.json", tiny)
	result, _, _ := runHare(t, "", "solve", inst, "-q")
	prev := file(t, "r.json", result)
	bare, _, _ := runHare(t, "", "solve", inst, "-q", "--detail", "jobs")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"at alone":        {[]string{"--at", "3"}, "--previous"},
		"stability alone": {[]string{"--stability", "3"}, "--previous"},
		"no at":           {[]string{"--previous", prev}, "--at"},
		"bad at":          {[]string{"--previous", prev, "--at", "soon"}, "--at"},
		"negative":        {[]string{"--previous", prev, "--at", "-1"}, "/at_s"},
		"beyond":          {[]string{"--previous", prev, "--at", "1h"}, "/at_s"},
		"bad stability":   {[]string{"--previous", prev, "--at", "1", "--stability", "x"}, "--stability"},
		"no schedule":     {[]string{"--previous", file(t, "b.json", bare), "--at", "1"}, "/previous/schedule"},
		"no result":       {[]string{"--previous", inst, "--at", "1"}, "is an instance: give a result"},
		"twice stdin":     {[]string{"--previous", "-", "--previous-instance", "-", "--at", "1"}, "standard input"},
	} {
		stdout, stderr, code := runHare(t, "", append([]string{"solve", inst, "-q"}, c.args...)...)
		if code != exitUsage || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 || stdout != "" {
			t.Errorf("%s: %d %q %q", name, code, stdout, stderr)
		}
	}
	stdout, stderr, code := runHare(t, "", "solve", inst, "-q", "--previous", prev, "--at", "1.5s", "--stability", "0.25")
	if code != exitDone {
		t.Fatalf("%d %s", code, stderr)
	}
	again := file(t, "n.json", stdout)
	if out, _, code := runHare(t, "", "verify", inst, again); code != exitDone || !strings.Contains(out, "accepted") {
		t.Errorf("%d %s", code, out)
	}
	broken := file(t, "x.json", strings.Replace(stdout, `"constant":`, `"constant":1`, 1))
	if out, _, code := runHare(t, "", "verify", inst, broken); code != exitNo ||
		!strings.Contains(out, "replan.constant is 1.5") {
		t.Errorf("%d %s", code, out)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--previous", prev}, exitDone, "accepted"},
		{[]string{"--previous", prev, "--previous-instance", inst}, exitDone, "accepted"},
		{[]string{"--previous", again}, exitDone, "accepted"}, // the same whole instance, with the same past
		{[]string{"--previous-instance", inst}, exitUsage, "--previous"},
		{[]string{"--previous", inst}, exitUsage, "is an instance: give a result"},
		{[]string{"--previous", prev, "--previous-instance",
			file(t, "o.json", strings.Replace(tiny, `"rounds": 3`, `"rounds": 4`, 1))}, exitNo, "another instance"},
	} {
		out, stderr, code := runHare(t, "", append([]string{"verify", inst, again}, c.args...)...)
		if code != c.code || !strings.Contains(out+stderr, c.want) {
			t.Errorf("%v: %d %s%s", c.args, code, out, stderr)
		}
	}
	// The result of another, small instance is refused, although it is optimal for
	// that instance.
	toy := `{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"V100":1}}]},"jobs":[{"id":"x",` +
		`"on":{"V100":{"compute_s":1}}}]}`
	solved, _, _ := runHare(t, toy, "solve", "-", "-q")
	sha, _, _ := runHare(t, "", "hash", inst)
	forged := strings.Replace(solved, `"options":`, `"replan":{"at_s":0,"constant":0,`+
		`"instance_sha256":"`+strings.TrimSpace(sha)+`","instance":`+toy+`},"options":`, 1)
	if out, stderr, code := runHare(t, "", "verify", inst, file(t, "f.json", forged)); code != exitNo ||
		!strings.Contains(out, "nothing says what had started") {
		t.Errorf("a toy: %d %s%s", code, out, stderr)
	}
}
