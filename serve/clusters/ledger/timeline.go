package ledger

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"sort"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Held is GPUs that an attempt of a job held, or holds.
type Held struct {
	Job, Name   string
	GPUs        []string
	FromUs      int64
	ToUs        int64 // 0: the attempt goes on
	SharesRound bool  // of a job that shares GPUs round by round: FromUs is not known, and 0
}

// Asked is what a waiting job asks for.
type Asked struct {
	Name string
	GPUs int64
}

// Timeline is which GPUs there are and what held them.
type Timeline struct {
	GPUs    []clusterdoc.GanttRow // by type, node and index
	Serving []bool                // of GPUs: whether new work may start there
	Held    []Held
	Waiting map[string]Asked
}

// Timeline is the state of the GPUs, and what held them after a time, by jobs that the archive does not have.
func (l *Ledger) Timeline(fromUs int64) *Timeline {
	t := &Timeline{Waiting: map[string]Asked{}}
	for _, name := range slices.Sorted(maps.Keys(l.agents)) {
		a := l.agents[name]
		for i := range a.devices {
			t.GPUs = append(t.GPUs, clusterdoc.GanttRow{GPU: a.gpu(i), Type: a.Devices[i].Type, Node: name})
			t.Serving = append(t.Serving, a.wanted(i))
		}
	}
	sort.Stable(byType{t})
	for _, j := range l.byTime {
		if j == nil {
			continue
		}
		if j.state == clusterdoc.JobWaiting {
			t.Waiting[j.id] = Asked{j.spec.Name, j.gpus()}
		}
		for _, at := range j.attempts {
			h := Held{Job: j.id, Name: j.spec.Name, FromUs: at.orderedUs, ToUs: at.endedUs}
			for k := range at.tasks {
				for _, i := range at.tasks[k].devices {
					h.GPUs = append(h.GPUs, at.tasks[k].agent.gpu(i))
				}
			}
			if at.relaxed != nil {
				h.FromUs, h.SharesRound = 0, true
				for i := range at.relaxed.out {
					h.GPUs = append(h.GPUs, at.relaxed.out[i].agent.gpu(at.relaxed.out[i].device))
				}
			}
			if len(h.GPUs) > 0 && (h.ToUs == 0 || h.ToUs > fromUs) {
				t.Held = append(t.Held, h)
			}
		}
	}
	return t
}

// byType sorts the GPUs of a timeline by type.
type byType struct{ *Timeline }

func (t byType) Len() int           { return len(t.GPUs) }
func (t byType) Less(i, j int) bool { return t.GPUs[i].Type < t.GPUs[j].Type }
func (t byType) Swap(i, j int) {
	t.GPUs[i], t.GPUs[j] = t.GPUs[j], t.GPUs[i]
	t.Serving[i], t.Serving[j] = t.Serving[j], t.Serving[i]
}

// Past shows the archive.
func (l *Ledger) Past() *Past {
	return &Past{slices.Clip(l.past.data), slices.Clip(l.past.chunks), l.index}
}

// pastAttempts is the part of a savedJob that Held needs.
type pastAttempts struct {
	ID       int
	Spec     struct{ Name string }
	EndedUs  int64
	Attempts []struct {
		Tasks []struct {
			Agent   string
			Devices []int
		}
		OrderedUs, EndedUs int64
	}
}

// Held is what held GPUs after a time, at most about most of it, the last. The archive has jobs by their end, so that
// older parts of it are not read.
func (p *Past) Held(fromUs int64, most int) (all []Held, err error) {
	for i := len(p.chunks) - 1; i >= 0 && len(all) < most; i-- {
		jobs := flate.NewReader(bytes.NewReader(p.data[p.chunks[i].from:p.chunks[i].to]))
		later := false
		for dec := json.NewDecoder(jobs); ; {
			var j pastAttempts
			if err := dec.Decode(&j); err == io.EOF {
				break
			} else if err != nil {
				return nil, err
			}
			later = later || j.EndedUs > fromUs
			for _, at := range j.Attempts {
				h := Held{Job: jobID(j.ID), Name: j.Spec.Name, FromUs: at.OrderedUs, ToUs: at.EndedUs}
				for _, t := range at.Tasks {
					for _, d := range t.Devices {
						h.GPUs = append(h.GPUs, gpuName(t.Agent, d))
					}
				}
				if h.ToUs > fromUs && len(h.GPUs) > 0 {
					all = append(all, h)
				}
			}
		}
		if !later {
			break
		}
	}
	return all, nil
}
