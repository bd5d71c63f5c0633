package audit_test

import (
	"strings"
	"testing"

	"github.com/hare-sched/hare/internal/testing/audit"
)

// A relaxed job of three rounds with two tasks each: its home on a is lost behind round 1, and goes on there.
const relaxed = `{"at":1,"submit":{"shares":true,"job":{"module":"line","sync":"relaxed","rounds":3,"tasks":2}}}
{"at":2,"register":{"name":"a","devices":[{"type":"V100"}]}}
{"at":3,"register":{"name":"b","devices":[{"type":"T4"},{"type":"T4"}]}}
{"at":4,"answers":[{"decisions":[{"job":"j1","task":0,"gpus":["a/0"]},{"job":"j1","task":1,"gpus":["b/0"]}]}],` +
	`"ordered":[{"job":"j1","attempt":1,"on":"a"}]}
{"at":5,"sync":{"agent":"a","epoch":1,"reports":[{"job":"j1","attempt":1,"task":0,"state":"running","port":4711}]},` +
	`"ordered":[{"job":"j1","attempt":1,"task":1,"on":"a/0"},{"job":"j1","attempt":1,"task":2,"on":"b/0","of":1}]}
{"at":6,"sync":{"agent":"b","epoch":1,"reports":[{"job":"j1","attempt":1,"task":2,"state":"ended","exit_code":0}]}}
{"at":7,"sync":{"agent":"a","epoch":1,"after":1,"reports":[` +
	`{"job":"j1","attempt":1,"task":1,"state":"ended","exit_code":0},` +
	`{"job":"j1","attempt":1,"task":0,"state":"running","round":1}]}}
{"at":8,"answers":[{"decisions":[{"job":"j1","round":1,"task":0,"gpus":["a/0"]},` +
	`{"job":"j1","round":1,"task":1,"gpus":["b/0"]}]}],` +
	`"ordered":[{"job":"j1","attempt":1,"task":3,"on":"a/0","round":1},` +
	`{"job":"j1","attempt":1,"task":4,"on":"b/0","round":1,"of":1}]}
{"at":9,"sync":{"agent":"b","epoch":1,"after":1,"reports":[{"job":"j1","attempt":1,"task":4,"state":"lost"}]}}
{"at":10,"sync":{"agent":"a","epoch":1,"after":3,"reports":[{"job":"j1","attempt":1,"task":3,"state":"lost"},` +
	`{"job":"j1","attempt":1,"task":0,"state":"lost"}]}}
{"at":11,"answers":[{"decisions":[{"job":"j1","task":0,"gpus":["b/1"]},{"job":"j1","task":1,"gpus":["b/0"]}]}],` +
	`"ordered":[{"job":"j1","attempt":2,"on":"a"}]}
{"at":12,"sync":{"agent":"a","epoch":1,"after":5,"reports":[` +
	`{"job":"j1","attempt":2,"task":0,"state":"running","round":1,"port":4711}]},` +
	`"ordered":[{"job":"j1","attempt":2,"task":1,"on":"b/1","round":1},` +
	`{"job":"j1","attempt":2,"task":2,"on":"b/0","round":1,"of":1}]}
{"at":13,"sync":{"agent":"b","epoch":1,"after":2,"reports":[` +
	`{"job":"j1","attempt":2,"task":2,"state":"ended","exit_code":0},` +
	`{"job":"j1","attempt":2,"task":1,"state":"ended","exit_code":0}]}}
{"at":14,"answers":[{"decisions":[{"job":"j1","round":1,"task":0,"gpus":["b/1"]},` +
	`{"job":"j1","round":1,"task":1,"gpus":["b/0"]}]}],` +
	`"ordered":[{"job":"j1","attempt":2,"task":3,"on":"b/1","round":2},` +
	`{"job":"j1","attempt":2,"task":4,"on":"b/0","round":2,"of":1}]}
{"at":15,"sync":{"agent":"b","epoch":1,"after":4,"reports":[` +
	`{"job":"j1","attempt":2,"task":4,"state":"ended","exit_code":0},` +
	`{"job":"j1","attempt":2,"task":3,"state":"ended","exit_code":0}]}}
{"at":16,"sync":{"agent":"a","epoch":1,"after":6,"reports":[` +
	`{"job":"j1","attempt":2,"task":0,"state":"ended","exit_code":0,"round":3}]}}
`

func TestRelaxedJobs(t *testing.T) {
	report, err := audit.Journal(strings.NewReader(relaxed), rules)
	if want := (audit.Report{Records: 16, Agents: 2, Jobs: 1, Attempts: 2, Tasks: 6}); err != nil || report != want {
		t.Fatalf("%+v, %v", report, err)
	}
	for want, change := range map[string][2]string{
		`has a home on agent "a", and gets another one on "a"`: {`,` +
			`{"job":"j1","attempt":1,"task":0,"state":"lost"}`, `,{"job":"j1","attempt":1,"task":3,"state":"lost"}`},
		"begins while 1 tasks of attempt 1 are out": {`"task":4,"state":"lost"`, `"task":4,"state":"running"`},
		"attempt 1 of job j1 begins after attempt 1": {`"ordered":[{"job":"j1","attempt":2,"on":"a"}]`,
			`"ordered":[{"job":"j1","attempt":1,"on":"a"}]`},
		"GPU b/0 has task 2 of job j1 and is ordered task 4": {`"task":2,"state":"ended"`, `"task":2,"state":"running"`},
		"GPU b/0 is given to job j1 while task 4": {`{"at":9,"sync":{"agent":"b","epoch":1,"after":1,"reports":[` +
			`{"job":"j1","attempt":1,"task":4,"state":"lost"`, `{"at":9,"sync":{"agent":"b","epoch":1,"after":1,"reports":[` +
			`{"job":"j1","attempt":1,"task":4,"state":"running"`},
		"a task of round 2 of job j1 is ordered while round 1 has 0 of 2 tasks": {
			`"task":1,"on":"b/1","round":1`, `"task":1,"on":"b/1","round":2`},
		"a task of round 0 of job j1 is ordered while round 1": {`"task":3,"on":"a/0","round":1`,
			`"task":3,"on":"a/0","round":0`},
		"task 1 of round 2 of job j1 is ordered on": {`"task":3,"on":"b/1","round":2`,
			`"task":3,"on":"b/1","round":2,"of":1`},
		"begins again on agent \"a\", which had saved round 1": {`"state":"running","round":1,"port":4711`,
			`"state":"running","port":4711`},
		"has saved round 3, and 0 of 2 tasks of round 1 were ordered": {`"running","round":1}`, `"running","round":3}`},
		"is ordered before its home runs": {
			`"state":"running","port":4711}`, `"state":"running"}`},
		"has 3 rounds of 2 tasks, and task 5 of round 2": {`"task":4,"on":"b/0","round":2,"of":1`,
			`"task":4,"on":"b/0","round":2,"of":5`},
		`runs on agent "b" and was ordered on "a"`: {`"reports":[{"job":"j1","attempt":1,"task":4,"state":"lost"}`,
			`"reports":[{"job":"j1","attempt":1,"task":0,"state":"running"}`},
		"task 1 of round 0 of job j1 is ordered again, and had ended": {`{"at":7`,
			`{"at":7,"ordered":[{"job":"j1","attempt":1,"task":3,"on":"b/1","of":1}]}` + "\n" + `{"at":7`},
		"behind round 2 after round 3": {`"after":6,"reports":[`,
			`"after":6,"reports":[{"job":"j1","attempt":2,"task":0,"state":"running","round":3},` +
				`{"job":"j1","attempt":2,"task":0,"state":"running","round":2},`},
		`ordered on agent "c", which is not there`: {`"on":"a/0","round":1`, `"on":"c/0","round":1`},
		"which is no relaxed round job":            {`"shares":true,`, ``},
		"ended with 0 behind round 2 of 3":         {`"exit_code":0,"round":3`, `"exit_code":0,"round":2`},
	} {
		journal := strings.Replace(relaxed, change[0], change[1], 1)
		if journal == relaxed {
			t.Errorf("%s: the journal was not changed", want)
		}
		if _, err := audit.Journal(strings.NewReader(journal), rules); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
