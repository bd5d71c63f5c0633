package slurm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

const oneType = "NodeName=n1 Gres=gpu:v100:2,shard:4 State=IDLE\nNodeName=n2 Gres=gpu:t4:2 State=IDLE\n"

// squeueOf pretends a squeue that knows jobs by columns, and says "json" to --json.
type squeueOf func(column string) []string

func (s squeueOf) Run(_ context.Context, _ []byte, name string, args ...string) ([]byte, error) {
	if name == "squeue" && len(args) == 1 {
		return []byte("json"), nil
	}
	if name == "squeue" {
		return []byte("7|n[3-4]\n8|\n"), nil
	}
	if name != "env" {
		return nil, errors.New(name + " is not pretended")
	}
	specs := strings.Split(args[len(args)-1], ",")
	var b strings.Builder
	for row := range len(s("JobID")) {
		for _, spec := range specs {
			column, mark, _ := strings.Cut(spec, ":")
			value := "(null)"
			if list := s(column); row < len(list) {
				value = list[row]
			}
			b.WriteString(value + mark)
		}
		b.WriteByte('\n')
	}
	return []byte(b.String()), nil
}

// TestQueueColumns reads columns with what users may write into names and comments, arrays, and GPUs
// by task.
func TestQueueColumns(t *testing.T) {
	columns := map[string][]string{
		"JobID": {"7", "8", "9"}, "ArrayJobID": {"7", "8", "9"}, "ArrayTaskID": {"N/A", "1-3,5%2", "N/A"},
		"Name": {"two\nlines", "9~9", `q"uote`}, "Comment": {"hare={\"v100\":5}\n9~", "(null)", "hare"},
		"State": {"PENDING", "PENDING", "RUNNING"}, "Reason": {"Priority", "Resources", "None"},
		"SubmitTime": {"1800000000", "1800000001", "1800000002"}, "StartTime": {"N/A", "N/A", "1800000003"},
		"TimeLimit": {"1-00:00:00", "UNLIMITED", "2:30"}, "NumNodes": {"1-1", "1", "1"}, "NumTasks": {"4", "1", "1"},
		"NodeList": {"", "", "n2"}, "tres-per-task": {"gres:gpu:2", "N/A", "N/A"},
		"tres-per-node": {"N/A", "gres:gpu:1", "gres:gpu:1"}, "UserName": {"ann", "ann", "bob"},
	}
	document, err := readQueue(t.Context(), squeueOf(func(c string) []string { return columns[c] }), []byte(oneType))
	if err != nil {
		t.Fatal(err)
	}
	s, err := parse([]byte(oneType), document, []byte("7|1|0\n8|1|0\n"), 1_800_000_010e6)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range s.Jobs {
		got = append(got, fmt.Sprintf("%s %q %d GPUs %d min %v", j.ID, j.Name, j.GPUs, j.LimitUs/60e6, j.On))
	}
	want := []string{`7 "two\nlines" 8 GPUs 1440 min []`, `8_1 "9~9" 1 GPUs 0 min []`, `8_2 "9~9" 1 GPUs 0 min []`,
		`8_3 "9~9" 1 GPUs 0 min []`, `8_5 "9~9" 1 GPUs 0 min []`, `9 "q\"uote" 1 GPUs 3 min [{n2 t4 1 false []}]`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if not := s.Jobs[0].NotNodes; len(not) != 2 || not[0] != "n3" {
		t.Errorf("job 7 excludes %v", not)
	}
	if len(s.Records) != 2 || s.Records[7].Comment != columns["Comment"][0] {
		t.Errorf("records %v", s.Records)
	}
}

// TestQueueFallsBack takes the JSON where columns are missing or could not tell which GPUs a job has.
func TestQueueFallsBack(t *testing.T) {
	one := func(columns map[string][]string) squeueOf {
		columns["JobID"], columns["State"] = []string{"7"}, []string{"RUNNING"}
		return func(c string) []string { return columns[c] }
	}
	for name, test := range map[string]struct {
		nodes string
		queue squeueOf
		json  bool
	}{
		"plain":          {oneType, one(map[string][]string{}), false},
		"two types":      {"NodeName=n Gres=gpu:v100:2,gpu:t4:1\n", one(map[string][]string{}), true},
		"uneven":         {oneType, one(map[string][]string{"NumNodes": {"2"}, "tres-per-job": {"gres:gpu:3"}}), true},
		"no number":      {oneType, one(map[string][]string{"SubmitTime": {"2026-11-23T06:51:02"}}), true},
		"unknown limits": {oneType, one(map[string][]string{"TimeLimit": {"soon"}}), true},
	} {
		document, err := readQueue(t.Context(), test.queue, []byte(test.nodes))
		if err != nil || (string(document) == "json") != test.json {
			t.Errorf("%s: %v, %s", name, err, document)
		}
	}
	for state, wantJSON := range map[string]bool{"CONFIGURING": true, "COMPLETING": true, "SUSPENDED": true,
		"STOPPED": true, "POWER_UP_NODE": true, "SIGNALING": true, "PENDING": false, "REQUEUE_HOLD": false,
		"COMPLETED": false, "CANCELLED": false} {
		queue := map[string][]string{"JobID": {"7"}, "State": {state}, "NumNodes": {"2"}, "tres-per-job": {"gres:gpu:3"}}
		document, err := readQueue(t.Context(), squeueOf(func(c string) []string { return queue[c] }), []byte(oneType))
		if err != nil || (string(document) == "json") != wantJSON {
			t.Errorf("%s: %v, %s", state, err, document)
		}
	}
	for _, text := range []string{"7~x", "\n", "7", strings.Repeat("7~x", len(queueColumns)+1)} {
		document, err := queueJSON([]byte(text), "~x", nil, false)
		if err == nil && !strings.Contains(string(document), `"jobs":[]`) {
			t.Errorf("%q gives %s", text, document)
		}
	}
}

// TestLongQueueTakesFewWrites orders only the head of the plan, and gives entries back that have left it.
func TestLongQueueTakesFewWrites(t *testing.T) {
	f := newFakeSlurm()
	for i := range 300 {
		f.submit(1 + (300-i)%50)
	}
	h := testHelper(t, f, t.TempDir(), nil)
	if _, err := h.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	ordered := func() (n int) {
		for _, j := range f.jobs {
			if j.State == "PENDING" && (j.site != 0 || j.Features != "") {
				n++
			}
		}
		return n
	}
	if n := ordered(); n == 0 || n > headLeast {
		t.Errorf("%d jobs have values", n)
	}
	for range 150 {
		f.submit(1) // they go before all others
	}
	for range 3 {
		if _, err := h.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := ordered(); n == 0 || n > 2*headLeast {
		t.Errorf("%d jobs have values", n)
	}
	before := f.updates
	if _, err := h.Step(t.Context()); err != nil || f.updates > before+20 {
		t.Errorf("nothing has changed: %v, %d writes", err, f.updates-before)
	}
	low, high := int64(1<<40), int64(0) // the priorities of the first jobs of the plan, and of the others
	for _, j := range f.jobs {
		if j.site != 0 {
			low = min(low, 100+j.site)
		} else {
			high = max(high, 100)
		}
	}
	if low <= high {
		t.Errorf("a job of the head has the priority %d, another %d", low, high)
	}
}
