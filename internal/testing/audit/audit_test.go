package audit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/internal/testing/audit"
)

var rules = audit.Rules{Lease: 15 * time.Second, Kill: 5 * time.Second}

// Two agents, one job that is lost with the first one and succeeds on the second.
const sound = `{"at":1000000,"submit":{"job":{"command":["true"]}}}
{"at":2000000,"register":{"name":"a","devices":[{"type":"V100"}]}}
{"at":2000001,"answers":[{"decisions":[{"job":"j1","task":0,"gpus":["a/0"]}]}]}
{"at":3000000,"sync":{"agent":"a","epoch":1,"reports":[{"job":"j1","attempt":1,"task":0,"state":"running"}]}}
{"at":4000000,"register":{"name":"b","devices":[{"type":"V100"}]}}
{"at":23000000,"expire":{"agent":"a","epoch":1}}
{"at":23000001,"answers":[{"decisions":[{"job":"j1","task":0,"gpus":["b/0"]}]}]}
{"at":24000000,"sync":{"agent":"b","epoch":1,"reports":[{"job":"j1","attempt":2,"task":0,"state":"running"}]}}
{"at":25000000,"sync":{"agent":"b","epoch":1,"after":1,"reports":[` +
	`{"job":"j1","attempt":2,"task":0,"state":"ended","exit_code":0}]}}
`

func TestJournal(t *testing.T) {
	report, err := audit.Journal(strings.NewReader(sound), rules)
	want := audit.Report{Records: 9, Agents: 2, Jobs: 1, Attempts: 2, Lost: 1}
	if err != nil || report != want {
		t.Fatalf("%+v, %v", report, err)
	}
	lines := strings.SplitAfter(sound, "\n")
	without := func(n int) string {
		return strings.Join(lines[:n-1], "") + strings.Join(lines[n:], "")
	}
	for name, test := range map[string]struct{ journal, want string }{
		"given away while it runs": {without(6), "is given GPUs while its attempt 1 runs"},
		"given away too early":     {strings.Replace(sound, "23000000", "22900000", 1), "is lost 19.9s after"},
		"an old epoch": {strings.Replace(sound, `"b","epoch":1,"after":1`, `"b","epoch":2,"after":1`, 1),
			"after that epoch"},
		"a report twice": {strings.Replace(sound, `"after":1`, `"after":0`, 1), "follows report"},
		"after its end": {sound + `{"at":26000000,"sync":{"agent":"b","epoch":1,"after":2,"reports":` +
			`[{"job":"j1","attempt":3,"task":0,"state":"running"}]}}`, "had succeeded"},
		"a task twice": {sound + `{"at":26000000,"register":{"name":"a","devices":[{"type":"V100"}]}}` + "\n" +
			`{"at":26000000,"sync":{"agent":"a","epoch":2,"after":0,"reports":` +
			`[{"job":"j1","attempt":2,"task":0,"state":"running"}]}}`, `runs on agent "a" and ran on "b"`},
		"GPUs of another agent": {strings.Replace(sound, `["b/0"]`, `["a/0"]`, 1), `was given GPUs of "a"`},
		"GPUs of no agent":      {strings.Replace(sound, `["b/0"]`, `["c/0"]`, 1), "has never registered"},
		"no such job":           {without(1), "never submitted"},
	} {
		if _, err := audit.Journal(strings.NewReader(test.journal), rules); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := audit.Journal(strings.NewReader("{\n"), rules); err == nil {
		t.Error("a line that is no record was taken")
	}
}

// A round job that is killed on its agent goes on there, and is done on another one.
func TestRounds(t *testing.T) {
	const rounds = `{"at":1,"submit":{"job":{"module":"line","rounds":9,"gpus":2}}}
{"at":2,"register":{"name":"a","devices":[{"type":"V100"},{"type":"V100"}]}}
{"at":3,"answers":[{"decisions":[{"job":"j1","task":0,"gpus":["a/0","a/1"]}]}]}
{"at":4,"sync":{"agent":"a","epoch":1,"reports":[{"job":"j1","attempt":1,"task":0,"state":"running","round":4}]}}
{"at":5,"sync":{"agent":"a","epoch":1,"after":1,"reports":[` +
		`{"job":"j1","attempt":1,"task":0,"state":"lost","round":5}]}}
{"at":6,"sync":{"agent":"a","epoch":1,"after":2,"reports":[` +
		`{"job":"j1","attempt":2,"task":0,"state":"running","round":5}]}}
{"at":7,"sync":{"agent":"a","epoch":1,"after":3,"reports":[` +
		`{"job":"j1","attempt":2,"task":0,"state":"ended","exit_code":0,"round":9}]}}
`
	if _, err := audit.Journal(strings.NewReader(rounds), rules); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string][2]string{
		"has 8 rounds":                     {`"rounds":9`, `"rounds":8`},
		"behind round 3 after round 4":     {`"lost","round":5`, `"lost","round":3`},
		"which had saved round 5":          {`"running","round":5`, `"running","round":4`},
		"ended with 0 behind round 8 of 9": {`"round":9}`, `"round":8}`},
	} {
		_, err := audit.Journal(strings.NewReader(strings.Replace(rounds, change[0], change[1], 1)), rules)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// What a job on two nodes has saved is saved on both, unless the nodes share a directory and either one says so.
func TestRoundsOfSeveralNodes(t *testing.T) {
	const rounds = `{"at":1,"submit":{"job":{"module":"line","rounds":9,"gpus":2,"nodes":2}}}
{"at":2,"register":{"name":"a","devices":[{"type":"V100"}]}}
{"at":2,"register":{"name":"b","devices":[{"type":"V100"}]}}
{"at":2,"register":{"name":"c","devices":[{"type":"V100"}]}}
{"at":3,"answers":[{"decisions":[{"job":"j1","task":0,"gpus":["a/0"]},{"job":"j1","task":1,"gpus":["b/0"]}]}]}
{"at":4,"sync":{"agent":"b","epoch":1,"reports":[{"job":"j1","attempt":1,"task":1,"state":"running"}]}}
{"at":5,"sync":{"agent":"a","epoch":1,"reports":[{"job":"j1","attempt":1,"task":0,"state":"running","round":4},` +
		`{"job":"j1","attempt":1,"task":0,"state":"lost"}]}}
{"at":6,"sync":{"agent":"b","epoch":1,"after":1,"reports":[{"job":"j1","attempt":1,"task":1,"state":"lost"}]}}
{"at":7,"answers":[{"decisions":[{"job":"j1","task":0,"gpus":["b/0"]},{"job":"j1","task":1,"gpus":["c/0"]}]}]}
{"at":8,"sync":{"agent":"b","epoch":1,"after":2,"reports":[` +
		`{"job":"j1","attempt":2,"task":0,"state":"running","round":4}]}}
`
	if _, err := audit.Journal(strings.NewReader(rounds), rules); err != nil {
		t.Fatal(err)
	}
	lost := strings.Replace(rounds, `"attempt":2,"task":0,"state":"running","round":4`,
		`"attempt":2,"task":0,"state":"running","round":3`, 1)
	want := `attempt 2 of job j1 is behind round 3 on agent "b", which had saved round 4`
	if _, err := audit.Journal(strings.NewReader(lost), rules); err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
	shared := strings.Replace(lost, `"nodes":2`, `"nodes":2,"checkpoint_directory":"/shared"`, 1)
	if _, err := audit.Journal(strings.NewReader(shared), rules); err != nil {
		t.Error(err)
	}
}

func TestRuns(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(0, int64(s*1e9)) }
	runs := func() []audit.Run {
		return []audit.Run{
			{Agent: "a", Epoch: 1, Order: 1, Job: "j1", Attempt: 1, GPUs: []string{"a/0"}, Start: at(1), End: at(2)},
			{Agent: "b", Epoch: 1, Order: 1, Job: "j1", Attempt: 2, GPUs: []string{"b/0"}, Start: at(2), End: at(3)},
			{Agent: "a", Epoch: 1, Order: 3, Job: "j2", Attempt: 1, GPUs: []string{"a/0"}, Start: at(2), End: at(4)},
			{Agent: "b", Epoch: 2, Order: 1, Job: "j2", Attempt: 1, Task: 1, GPUs: []string{"b/0"}, Start: at(3), End: at(4)},
		}
	}
	if err := audit.Runs(runs()); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(r []audit.Run){
		"attempt 1 ran on a until": func(r []audit.Run) { r[0].End = at(2.5) },
		"GPU a/0 had job j1":       func(r []audit.Run) { r[0].End, r[1].Start, r[1].End = at(2.5), at(2.6), at(3) },
		"ran twice":                func(r []audit.Run) { r[3].Task = 0 },
		"started after attempt 2":  func(r []audit.Run) { r[0].Attempt, r[1].Attempt = 2, 1 },
		"obeyed order":             func(r []audit.Run) { r[3].Epoch, r[3].Order = 1, 1 },
	} {
		changed := runs()
		change(changed)
		if err := audit.Runs(changed); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A round job on another node begins with the copy that the server has of its checkpoint.
func TestCopies(t *testing.T) {
	const copied = `{"at":1,"submit":{"job":{"module":"line","rounds":9}}}
{"at":2,"register":{"name":"a","devices":[{"type":"V100"}]}}
{"at":2,"register":{"name":"b","devices":[{"type":"V100"}]}}
{"at":3,"answers":[{"decisions":[{"job":"j1","task":0,"gpus":["a/0"]}]}]}
{"at":4,"sync":{"agent":"a","epoch":1,"reports":[{"job":"j1","attempt":1,"task":0,"state":"running","round":4}]}}
{"at":5,"copy":{"job":"j1","attempt":1,"round":4}}
{"at":6,"sync":{"agent":"a","epoch":1,"after":1,"reports":[{"job":"j1","attempt":1,"task":0,"state":"lost"}]}}
{"at":7,"answers":[{"decisions":[{"job":"j1","task":0,"gpus":["b/0"]}]}]}
{"at":8,"sync":{"agent":"b","epoch":1,"reports":[{"job":"j1","attempt":2,"task":0,"state":"running","round":5}]}}
`
	if _, err := audit.Journal(strings.NewReader(copied), rules); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ journal, want string }{
		"began again": {strings.Replace(copied, `"round":5`, `"round":3`, 1), "the server had a copy behind round 4"},
		"too late": {copied + `{"at":9,"copy":{"job":"j1","attempt":1,"round":6}}`,
			"has brought a checkpoint after attempt 2"},
		"older":  {copied + `{"at":9,"copy":{"job":"j1","attempt":2,"round":4}}`, "follows the one behind round 4"},
		"no job": {copied + `{"at":9,"copy":{"job":"j2","attempt":2,"round":4}}`, "which is no round job"},
	} {
		if _, err := audit.Journal(strings.NewReader(test.journal), rules); err == nil ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	lost := strings.Replace(copied, `{"at":7,`, `{"at":7,"copy":{"job":"j1"}}`+"\n"+`{"at":7,`, 1)
	lost = strings.Replace(lost, `"round":5`, `"round":3`, 1)
	if _, err := audit.Journal(strings.NewReader(lost), rules); err != nil {
		t.Error(err)
	}
}
