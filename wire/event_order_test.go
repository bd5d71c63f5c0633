package wire

import (
	"bytes"
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hare-sched/hare"
)

// namesAt returns the names of the object that stands in text at the depth.
func namesAt(t *testing.T, text []byte, depth int) []string {
	t.Helper()
	var names []string
	for d := jsontext.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.ReadToken()
		if err != nil {
			return names
		}
		if kind, n := d.StackIndex(d.StackDepth()); kind == '{' && n%2 == 1 && d.StackDepth() == depth {
			names = append(names, token.String())
		}
	}
}

// The encoders of online documents are written by hand, because tables are slower.
// Their fields are those of the tables, in the order of the tables.
func TestEncodersFollowTheTables(t *testing.T) {
	job := &hare.Job{ID: "x", WeightMicro: 1e6, Tasks: 2, Sync: hare.Gang, Mix: true,
		On:          []hare.Profile{{Type: "V100", ComputeUs: 1, SyncUs: 1}},
		Hints:       &hare.JobHints{EstimateUs: 1, Class: []hare.ClassLabel{{Name: "user", Value: "ann"}}},
		GPUsPerTask: 2, CPUMilliPerTask: 1500, MemoryMiBPerTask: 7, DistinctNodes: true,
		Only:     []hare.LabelValues{{Label: "disk", Values: []string{"nvme"}}},
		Exclude:  []hare.LabelValues{{Label: "node", Values: []string{"b", "c"}}},
		Users:    []string{"ann", "vision"},
		Progress: &hare.Progress{RoundsDone: 1, GPUs: []string{"a/0"}, ElapsedUs: 1}}
	node := &hare.Node{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 2}}, CPUMilli: 1500, MemoryMiB: 7,
		Labels: []hare.Label{{Name: "disk", Value: "nvme"}}}
	decisions := []hare.Decision{{Job: "x", GPU: "a/0", Others: "1,5"}}
	seen := map[string]bool{}
	for _, kind := range hare.EventTypes() {
		e := hare.Event{Seq: 1, AtUs: 1, Type: kind, Job: "x", Round: 1, Task: 1, GPU: "a/0", GPUType: "V100",
			ComputeUs: 1, SyncUs: 1, Change: &hare.Change{Node: node, Quota: &hare.Quota{User: "ann", GPUs: 2}}}
		if kind == hare.EventJobArrived {
			e.Arrived = job
		}
		text := AppendEvent(nil, e)
		names := namesAt(t, text, 1)
		inTableOrder(t, eventTable, names)
		for _, name := range names {
			seen[name] = true
		}
		if e.Arrived != nil {
			inTableOrder(t, arrivingTable, namesAt(t, text, 2))
			inTableOrder(t, profileTable, namesAt(t, text, 4))
		}
	}
	for _, name := range eventTable.names {
		if !seen[name] {
			t.Errorf("no event has %s", name)
		}
	}
	answer := AppendAnswer(nil, hare.Answer{Seq: 1, Decisions: decisions})
	if got := namesAt(t, answer, 1); !slices.Equal(append(got, "error"), answerTable.names) { // an answer or an error
		t.Errorf("%s: %q", answer, got)
	}
	if got := namesAt(t, answer, 3); !slices.Equal(got, decisionTable.names) {
		t.Errorf("%s: %q", answer, got)
	}
	record := AppendRecord(nil, Record{Plan: []byte(`{}`), Decisions: decisions})
	if got := namesAt(t, record, 1); !slices.Equal(got, recordTable.names) {
		t.Errorf("%s: %q", record, got)
	}
}

func inTableOrder[T any](t *testing.T, table *Table[T], names []string) {
	t.Helper()
	last := -1
	for _, name := range names {
		i := slices.Index(table.names, name)
		if i <= last {
			t.Errorf("%s: %s is not behind %q", table.name, name, names)
		}
		last = i
	}
	if len(names) == 0 {
		t.Errorf("%s: no names", table.name)
	}
}
