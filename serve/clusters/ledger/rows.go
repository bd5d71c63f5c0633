package ledger

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// ID is that of the job.
func (r *Row) ID() string { return jobID(r.Number) }

// Number is the number of the job of an ID; 0 where it is none.
func Number(id string) int { return number(id) }

// Rows are the rows of the jobs that the archive does not have and whose states are wanted, and the archive, with the
// rows of the others. Only with types have they Types.
func (l *Ledger) Rows(wanted func(clusterdoc.JobState) bool, types bool) (rows []Row, past Past) {
	for i, j := range l.byTime {
		if j == nil || !wanted(j.state) {
			continue
		}
		r := Row{Number: i + 1, State: j.state, SubmittedUs: j.submittedUs, StartedUs: j.startedUs, EndedUs: j.endedUs,
			GPUs: j.traits.gpus, Held: j.held, Traits: j.traits}
		if j.relaxed != nil && j.live != nil {
			r.GPUs = len(j.live.relaxed.out)
		}
		if types && j.state != clusterdoc.JobWaiting {
			r.Types = j.types()
		}
		rows = append(rows, r)
	}
	return rows, *l.Past()
}

// types are the GPU types of the last attempt of a job, or of the tasks of its rounds.
func (j *job) types() []string {
	if j.relaxed != nil {
		types := slices.Collect(maps.Keys(j.relaxed.counted))
		if j.live != nil {
			for i := range j.live.relaxed.out {
				c := &j.live.relaxed.out[i]
				types = append(types, c.agent.Devices[c.device].Type)
			}
		}
		slices.Sort(types)
		return slices.Compact(types)
	}
	if len(j.attempts) == 0 {
		return nil
	}
	t := &j.attempts[len(j.attempts)-1].tasks[0] // all have one type
	if len(t.devices) == 0 || t.devices[0] >= len(t.agent.Devices) {
		return nil
	}
	return []string{t.agent.Devices[t.devices[0]].Type}
}

// States counts the jobs of some states, and gives the IDs of at most limit of them that follow the job of a number, 0
// meaning none, by submission or in the other direction.
func (l *Ledger) States(wanted func(clusterdoc.JobState) bool, after, limit int, down bool) (ids []string, total int,
	more bool) {
	for s, n := range l.counts {
		if wanted(s) {
			total += n
		}
	}
	step, i := 1, max(0, after)
	if down {
		step, i = -1, after-2
		if after <= 0 || after > len(l.byTime) {
			i = len(l.byTime) - 1
		}
	}
	for ; i >= 0 && i < len(l.byTime); i += step {
		var s clusterdoc.JobState
		if j := l.byTime[i]; j != nil {
			s = j.state
		} else {
			s = l.past.state(i)
		}
		if !wanted(s) {
			continue
		}
		if len(ids) == limit {
			return ids, total, true
		}
		ids = append(ids, jobID(i+1))
	}
	return ids, total, false
}

// Past are the jobs of the archive as of one moment. It may be read while the ledger goes on.
type Past struct {
	data   []byte
	chunks []chunk
	index  *index
}

// Rows are the rows of all jobs, by their end. They must not be written to.
func (p *Past) Rows() ([]Row, error) {
	x := p.index
	x.mu.Lock()
	defer x.mu.Unlock()
	for ; x.chunks < len(p.chunks); x.chunks++ {
		body, err := p.body(x.chunks)
		if err != nil {
			return nil, err
		}
		from := len(x.rows)
		for d := json.NewDecoder(bytes.NewReader(body)); ; {
			var s savedJob
			start := int(d.InputOffset())
			if err := d.Decode(&s); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				x.rows = x.rows[:from]
				return nil, err
			}
			r := Row{Number: s.ID, State: s.State, SubmittedUs: s.SubmittedUs, StartedUs: s.StartedUs, EndedUs: s.EndedUs,
				Types: s.Ran, Traits: traitsOf(&s.Spec), chunk: x.chunks, at: chunk{start, int(d.InputOffset())}}
			r.GPUs = r.gpus
			x.share(&r)
			x.rows = append(x.rows, r)
		}
	}
	return x.rows[:len(x.rows):len(x.rows)], nil
}

// share lets a row have the texts of other rows that are equal to its own.
func (x *index) share(r *Row) {
	one := func(text *string) {
		if old, ok := x.texts[*text]; ok {
			*text = old
		} else {
			x.texts[*text] = *text
		}
	}
	one(&r.Name)
	one(&r.User)
	for _, texts := range [][]string{r.Types, r.On, r.Labels} {
		for i := range texts {
			one(&texts[i])
		}
	}
}

func (p *Past) body(n int) ([]byte, error) {
	c := p.chunks[n]
	return io.ReadAll(flate.NewReader(bytes.NewReader(p.data[c.from:c.to])))
}

// Jobs describes the jobs of rows of the archive, as Ledger.Job does.
func (p *Past) Jobs(rows []*Row) (map[string]*clusterdoc.Job, error) {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b *Row) int { return a.chunk - b.chunk })
	agents := map[string]*agent{}
	agentOf := func(name string) *agent {
		if agents[name] == nil {
			agents[name] = &agent{Registration: clusterdoc.Registration{Name: name}}
		}
		return agents[name]
	}
	jobs := make(map[string]*clusterdoc.Job, len(rows))
	var body []byte
	for i, r := range rows {
		if i == 0 || r.chunk != rows[i-1].chunk {
			var err error
			if body, err = p.body(r.chunk); err != nil {
				return nil, err
			}
		}
		var s savedJob
		if err := json.Unmarshal(body[r.at.from:r.at.to], &s); err != nil {
			return nil, err
		}
		j, err := decoded(&s, agentOf)
		if err != nil {
			return nil, err
		}
		jobs[j.id] = j.describe(false)
	}
	return jobs, nil
}

// Archived reports whether the row is of a job of the archive.
func (r *Row) Archived() bool { return r.at.to > 0 }
