package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const threeJobs = "../../testdata/examples/three-jobs.instance.json"

// solvedFile solves the example with a work limit and returns the name of the
// result file.
func solvedFile(t *testing.T, args ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "r.json")
	args = append([]string{"solve", threeJobs, "--work-limit", "3000", "-q", "-o", name}, args...)
	if _, stderr, code := runHare(t, "", args...); code != 0 {
		t.Fatal(stderr)
	}
	return name
}

func TestExplainForPeopleAndPrograms(t *testing.T) {
	result := solvedFile(t)
	for _, c := range []struct {
		args []string
		code int
		want []string // in the output
	}{
		{[]string{}, 0, []string{"stretch", "slurm-4711"}},
		{[]string{"--sort", "end", "--limit", "1"}, 0, []string{"(1 of 3 jobs"}},
		{[]string{"--json"}, 0, []string{`"share":`}},
		{[]string{"vgg", "--plot"}, 0, []string{"vgg (gang, weight 1) is released at 1.5 s", "on T4 alone", "# runs",
			"  bert |"}},
		{[]string{"vgg", "--earlier", "3"}, 0, []string{"To end by", "* costs the other jobs least",
			"same options, seed and work limit"}},
		{[]string{"vgg", "--by", "1h"}, 0, []string{"as it is"}},
		{[]string{"vgg", "--by", "15", "--time-limit", "1us"}, 0,
			[]string{"Not finished after 1 solve: the time limit passed"}},
		{[]string{"vgg", "--json"}, 0, []string{`"timeline": [`}},
		{[]string{"vg"}, 2, []string{`did you mean "vgg"?`}},
		{[]string{"vgg", "--by", "soon"}, 2, []string{"--by"}},
		{[]string{"vgg", "--by", "-3"}, 2, []string{"--by"}},
		{[]string{"vgg", "--by", "3", "--earlier", "4"}, 2, []string{"not both"}},
		{[]string{"--plot"}, 2, []string{"name it"}},
		{[]string{"--sort", "colour"}, 2, []string{"stretch"}},
		{[]string{"vgg", "bert"}, 2, []string{"a job"}},
	} {
		stdout, stderr, code := runHare(t, "", append([]string{"explain", threeJobs, result}, c.args...)...)
		for _, want := range c.want {
			if code != c.code || !strings.Contains(stdout+stderr, want) {
				t.Errorf("%v: exit %d, want %d with %q\n%s%s", c.args, code, c.code, want, stdout, stderr)
			}
		}
		if c.code != 0 && strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: %q is not one line", c.args, stderr)
		}
	}
}

// TestReplayOfResults checks that a result is reproduced on any number of cores,
// and that the command names the reason where it cannot be.
// A plan of what is left is explained with the instance that --rest writes. With the whole one, the error says so.
func TestExplainRemainder(t *testing.T) {
	rest := filepath.Join(t.TempDir(), "rest.json")
	later := solvedFile(t, "--previous", solvedFile(t), "--at", "5", "--rest", rest)
	if stdout, stderr, code := runHare(t, "", "explain", rest, later); code != 0 || !strings.Contains(stdout, "stretch") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
	for _, job := range [][]string{nil, {"vgg"}, {"slurm-4711"}} {
		_, stderr, code := runHare(t, "", append([]string{"explain", threeJobs, later}, job...)...)
		if code != 2 || !strings.Contains(stderr, "give the instance that hare solve --rest FILE writes") {
			t.Errorf("%v: exit %d: %s", job, code, stderr)
		}
	}
}

func TestReplayOfResults(t *testing.T) {
	result := solvedFile(t)
	text, err := os.ReadFile(result)
	if err != nil {
		t.Fatal(err)
	}
	for _, cores := range []string{"1", "4"} {
		c := command("replay", threeJobs, result)
		c.Env = append(c.Env, "GOMAXPROCS="+cores)
		if out, err := c.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "identical, byte for byte") {
			t.Errorf("on %s cores: %v %s", cores, err, out)
		}
	}
	edit := func(from, to string) string {
		changed := strings.Replace(string(text), from, to, 1)
		if changed == string(text) {
			t.Fatalf("no %s in the result", from)
		}
		return changed
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, text, "", "  "); err != nil {
		t.Fatal(err)
	}
	lines, err := os.ReadFile(solvedFile(t, "--ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	other := file(t, "i.json", tiny)
	var doc struct{ Engine struct{ HiGHS string } }
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text, instance string
		code           int
		want           string
	}{
		"as it is":       {string(text), threeJobs, 0, "identical, byte for byte"},
		"a lane a line":  {string(lines), threeJobs, 0, "identical, byte for byte"},
		"laid out":       {pretty.String(), threeJobs, 0, "identical but for timing and the layout"},
		"laid out lines": {strings.ReplaceAll(string(lines), `,"`, `, "`), threeJobs, 0, "the layout"},
		"another seed":   {edit(`"seed":1,"status"`, `"seed":9,"status"`), threeJobs, 1, "/seed was 9 and is 1"},
		"another start": {edit(`"start_us":[0`, `"start_us":[7`), threeJobs, 1,
			"/schedule/lanes/0/start_us/0 was 7 and is 0"},
		"a field less": {edit(`"switches"`, `"changes"`), threeJobs, 1, "/metrics/changes is missing now"},
		"a line less": {string(lines[:bytes.LastIndexByte(lines[:len(lines)-1], '\n')+1]), threeJobs, 1,
			"/schedule/lanes had 5 items and has 6"},
		"another version":  {edit(`"version":"`+version, `"version":"9.9`), threeJobs, 2, `version "9.9"`},
		"another engine":   {edit(`"highs":"`+doc.Engine.HiGHS+`"`, `"highs":"0.1"`), threeJobs, 2, `HiGHS "0.1"`},
		"another instance": {string(text), other, 2, "another instance"},
		"cut by the clock": {strings.NewReplacer(`"reproducible":true`, `"reproducible":false`, `"termination":"work_limit"`,
			`"termination":"deadline"`).Replace(string(text)), threeJobs, 2, "the clock ended it"},
		"cancelled": {strings.NewReplacer(`"reproducible":true`, `"reproducible":false`, `"termination":"work_limit"`,
			`"termination":"cancelled"`).Replace(string(text)), threeJobs, 2, "its caller ended it"},
		"a restart": {edit(`"reproducible":true`, `"reproducible":false`), threeJobs, 2, "restarted"},
		"no result": {"{}", threeJobs, 2, "result/v1"},
	} {
		stdout, stderr, code := runHare(t, c.text, "replay", c.instance, "-")
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%s: exit %d, want %d with %q\n%s%s", name, code, c.code, c.want, stdout, stderr)
		}
	}
	// Each of the two replay commands refuses the files of the other and names it.
	if _, stderr, code := runHare(t, "", "replay", result); code != 2 ||
		!strings.Contains(stderr, "an instance and a result") {
		t.Errorf("exit %d %s", code, stderr)
	}
}

func TestExplainPage(t *testing.T) {
	if out, _, _ := runHare(t, tiny, "solve", "-"); !strings.Contains(out, `"highs":"1.15.1"`) {
		t.Skip("the prices on the page are those found with HiGHS 1.15.1")
	}
	checkPage(t, "../../docs/use/explain.md", changing, 5)
}
