package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A history that cannot be used is refused with the line, and the rules of one that can
// stand in a table, the best first.
func TestReadHistory(t *testing.T) {
	const heads = "arrival_s,duration_s,user\n"
	for text, want := range map[string]string{
		"":                 "h.csv: EOF",
		"arrival_s,user\n": "h.csv:1: the columns arrival_s and duration_s are needed",
		"arrival_s,duration_s,a,b,c,d,e,f,g,h,i\n": "h.csv:1: there are 9 columns",
		heads + "1,0,ann\n":                        `h.csv:2: duration_s is "0"`,
		heads + "1,5,ann\n-1,5,ann\n":              `h.csv:3: arrival_s is "-1"`,
		heads + "NaN,5,ann\n":                      `h.csv:2: arrival_s is "NaN"`,
		heads + "1,1e12,ann\n":                     `h.csv:2: duration_s is "1e12"`,
		heads + "1,5\n":                            "wrong number of fields",
		heads + "1,5,ann\n":                        "h.csv: 1 job: give",
		"arrival_s,duration_s,a,a\n":               `h.csv:1: the column "a" is there twice`,
		"arrival_s,duration_s,estimate_s\n":        "h.csv:1: leave out the column estimate_s",
		"arrival_s,duration_s,\n":                  `h.csv:1: column 3, "": a label needs a name`,
	} {
		if _, err := readHistory("h.csv", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	text := "user,arrival_s,duration_s,name\nann,1,2.5,bert\nbob,3,4,vgg\n"
	jobs, err := readHistory("h.csv", strings.NewReader(text))
	if err != nil || len(jobs) != 2 || jobs[0].DurationS != 2.5 || jobs[0].Labels[0].Name != "name" ||
		jobs[1].Labels[1].Value != "bob" {
		t.Errorf("%+v, %v", jobs, err)
	}
}

// TestEstimatesPage runs what the page on estimates shows.
func TestEstimatesPage(t *testing.T) {
	checkPage(t, "../../docs/lab/estimates.md", changing, 8)
}

// What estimate cannot fill in is refused with the place of the fault, and nothing is
// written.
func TestEstimatesThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	past := write("past.csv", "arrival_s,duration_s,a,b,num_gpus\n0,5,x,y,1\n9,5,x,y,1\n")
	inst := `{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"T4":1}}]},` +
		`"jobs":[{"id":"x-y","on":{"T4":{"compute_s":1}}`
	seven := `,"class":{"c":"","d":"","e":"","f":"","g":"","h":"","i":""}}]}`
	for _, x := range []struct {
		name, jobs, want string
		flags            []string
	}{
		{"no group", inst + "}]}", "--class-from-id: it names no group", []string{"--class-from-id", "(.)"}},
		{"bad expression", inst + "}]}", "--class-from-id: error parsing", []string{"--class-from-id", "("}},
		{"rule", inst + "}]}", `--rule "worst": must be best or one of median`, []string{"--rule", "worst"}},
		{"too many labels", inst + seven, "/jobs/0/class: there are 9: at most 8",
			[]string{"--class-from-id", "(?P<a>.)"}},
		{"a long label", strings.Replace(inst, "x-y", strings.Repeat("x", 101), 1) + "}]}",
			"/jobs/0/class/a: names and values", []string{"--class-from-id", "(?P<a>.*)"}},
		{"bad instance", inst, "jobs: ", nil},
		{"bad event", `{"seq":1,"at_s":0,"type":"tick"}` + "\n\n" +
			`{"seq":2,"at_s":0,"type":"job_arrived","job":{"id":"j"}}`, `jobs:3: /job: "on" is missing`, nil},
		{"too many labels in an event", `{"type":"job_arrived","seq":1,"job":{"id":"j","on":{"T4":{}}` +
			strings.TrimSuffix(seven, "}]}") + "}}", "jobs:1: /job/class: there are 9",
			[]string{"--class-from-id", "(?P<a>.)"}},
	} {
		out := filepath.Join(dir, "out")
		args := append([]string{"estimate", "--history", past, write("jobs", x.jobs), "-o", out}, x.flags...)
		said, faults, code := runHare(t, "", args...)
		if code != 2 || said != "" || !strings.Contains(faults, x.want) || strings.Count(faults, "\n") != 1 {
			t.Errorf("%s: exit code %d, %q, %q, want %s", x.name, code, said, faults, x.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: there is a file", x.name)
		}
	}
}
