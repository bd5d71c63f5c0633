package clusters

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/hare-sched/hare/internal/pages"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/clusters/ledger"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Query says which jobs a list has.
type Query struct {
	clusterdoc.JobQuery
	After string // JobList.Next of the page before; "" means the first page
	Limit int    // at least 1
}

// Jobs lists jobs. The error is pages.ErrCursor where Query.After is not of a list that is sorted as the query says.
func (c *Cluster) Jobs(ctx context.Context, q *Query) (*clusterdoc.JobList, error) {
	l := lister{q: q, list: &clusterdoc.JobList{Jobs: []*clusterdoc.Job{}}}
	err := l.begin()
	if err == nil {
		l.view, err = c.outlook(ctx, l.wants)
	}
	if err != nil {
		return nil, err
	}
	var ids []string
	var past map[string]*clusterdoc.Job
	if l.plain() {
		err = c.read(ctx, func(x *ledger.Ledger) { ids = l.chooseStates(x) })
	} else {
		ids, past, err = l.choose(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	l.view.ask(ids...)
	err = c.read(ctx, func(x *ledger.Ledger) {
		for _, id := range ids {
			job := past[id]
			if job == nil {
				job = x.Job(id, false)
			}
			if l.wants(job.State) { // which may have changed since
				l.view.look(x, job)
				l.list.Jobs = append(l.list.Jobs, job)
			}
		}
	})
	for _, job := range l.list.Jobs {
		job.Env, job.SecretEnv = nil, nil
		l.view.complete(job)
	}
	return l.list, err
}

// read looks at the state.
func (c *Cluster) read(ctx context.Context, look func(l *ledger.Ledger)) error {
	return c.do(ctx, &request{prepare: func(*ledger.Ledger) (*ledger.Record, error) { return nil, nil }, after: look})
}

// lister makes one page of a list.
type lister struct {
	q     *Query
	page  *pages.Page[*ledger.Row]
	after int // where plain: the number of the job after which the page begins
	view  *outlook
	list  *clusterdoc.JobList
}

// begin reads where the page begins: after the job of an ID in lists by submission, and after a cursor in others.
func (l *lister) begin() (err error) {
	sort, after := l.q.Sort, l.q.After
	if sort == "" {
		sort = "submitted"
	}
	if strings.TrimPrefix(sort, "-") == "submitted" && after != "" {
		if l.after = ledger.Number(after); l.after == 0 {
			return pages.ErrCursor
		}
		after = ""
	}
	l.page, err = pages.New[*ledger.Row](sort, after, l.q.Limit)
	return err
}

func (l *lister) wants(s clusterdoc.JobState) bool {
	return len(l.q.States) == 0 || slices.Contains(l.q.States, s)
}

// wantsEnded reports whether jobs that have ended may be in the list.
func (l *lister) wantsEnded() bool {
	return l.wants(clusterdoc.JobSucceeded) || l.wants(clusterdoc.JobFailed) || l.wants(clusterdoc.JobCancelled)
}

// plain reports whether states alone choose the jobs, and they are sorted by submission, so that no row is looked at.
func (l *lister) plain() bool {
	q := l.q
	return l.page.By == "submitted" && q.User == "" && q.Name == "" && q.Type == "" && len(q.Labels) == 0 && q.Text == ""
}

// chooseStates chooses the jobs of the page where plain.
func (l *lister) chooseStates(x *ledger.Ledger) (ids []string) {
	ids, total, more := x.States(l.wants, l.after, l.q.Limit, l.page.Down)
	if l.list.Total = total; more {
		l.list.Next = ids[len(ids)-1]
	}
	return ids
}

// choose chooses the jobs of the page from all rows, and describes those of the archive. Only the rows of the other
// jobs are copied while the cluster waits.
func (l *lister) choose(ctx context.Context, c *Cluster) (ids []string, jobs map[string]*clusterdoc.Job, err error) {
	var rows, ended []ledger.Row
	var past ledger.Past
	err = c.read(ctx, func(x *ledger.Ledger) { rows, past = x.Rows(l.wants, l.q.Type != "") })
	if err == nil && l.wantsEnded() {
		ended, err = past.Rows()
	}
	if err != nil {
		return nil, nil, err
	}
	match := newMatch(l.q)
	for _, all := range [][]ledger.Row{rows, ended} {
		for i := range all {
			if r := &all[i]; l.wants(r.State) && match.row(r) {
				l.add(r)
			}
		}
	}
	l.list.Total = l.page.Total
	chosen, next, err := l.page.Entries()
	if err != nil {
		return nil, nil, err
	}
	var archived []*ledger.Row
	for _, r := range chosen {
		if ids = append(ids, r.ID()); r.Archived() {
			archived = append(archived, r)
		}
	}
	if l.list.Next = next; next != "" && l.page.By == "submitted" {
		l.list.Next = ids[len(ids)-1]
	}
	jobs, err = past.Jobs(archived)
	return ids, jobs, err
}

// add adds a row to the page, unless the page begins after it.
func (l *lister) add(r *ledger.Row) {
	if l.after > 0 && (r.Number <= l.after) != l.page.Down || l.after > 0 && r.Number == l.after {
		l.page.Total++
		return
	}
	l.page.Add(l.keyOf(r), r)
}

// keyOf is the place of the job of a row.
func (l *lister) keyOf(r *ledger.Row) pages.Key {
	k := pages.Key{Number: r.Number}
	expected := func(known int64, us func(*online.JobRow) int64) {
		if k.Value = known; known > 0 {
			return
		}
		if k.Class = pages.Unknown; r.State.Final() {
			return
		}
		if x := l.view.row(r.ID()); x != nil && us(x) >= 0 {
			k.Class, k.Value = 1, us(x)
		}
	}
	switch l.page.By {
	case "submitted":
		k.Value = int64(r.Number)
	case "place":
		if k.Value = int64(l.view.places[r.ID()]); k.Value == 0 || r.State != clusterdoc.JobWaiting {
			k.Class, k.Value = pages.Unknown, 0
		}
	case "start":
		started := r.StartedUs
		if r.State == clusterdoc.JobWaiting {
			started = 0 // of an attempt that is over
		}
		expected(started, func(x *online.JobRow) int64 { return x.StartUs })
	case "end":
		expected(r.EndedUs, func(x *online.JobRow) int64 { return x.EndUs })
	case "weight":
		k.Value = int64(math.Float64bits(r.Weight)) // in the order of the weights, because they are not negative
	case "gpus":
		k.Value = int64(r.GPUs)
	case "user":
		k.Text = r.User
	case "name":
		k.Text = r.Name
	case "state":
		k.Value = int64(slices.Index(clusterdoc.JobStates(), r.State))
	}
	return k
}

// match chooses rows by all of a query but the states.
type match struct {
	q          *Query
	name, text string // in lower case
}

func newMatch(q *Query) match { return match{q, strings.ToLower(q.Name), strings.ToLower(q.Text)} }

func (m *match) row(r *ledger.Row) bool {
	return (m.q.User == "" || r.User == m.q.User) && (m.name == "" || has(r.Name, m.name)) &&
		(m.q.Type == "" || onType(r, m.q.Type)) && !slices.ContainsFunc(m.q.Labels, func(label string) bool {
		return !labelled(r.Labels, label)
	}) && (m.text == "" || m.anywhere(r))
}

// has reports whether a text has a part that is in lower case.
func has(text, part string) bool { return strings.Contains(strings.ToLower(text), part) }

// onType is clusterdoc.JobQuery.Type.
func onType(r *ledger.Row, gpuType string) bool {
	switch {
	case r.On != nil:
		return slices.Contains(r.On, gpuType)
	case r.State == clusterdoc.JobWaiting:
		return true
	}
	return slices.Contains(r.Types, gpuType)
}

func labelled(labels []string, wanted string) bool {
	key, _, whole := strings.Cut(wanted, "=")
	return slices.ContainsFunc(labels, func(l string) bool {
		return l == wanted || !whole && strings.HasPrefix(l, key+"=")
	})
}

// anywhere reports whether the text of the query is a part of any text of the job.
func (m *match) anywhere(r *ledger.Row) bool {
	return has(r.Name, m.text) || has(r.User, m.text) || has(r.ID(), m.text) || has(r.Work, m.text) ||
		slices.ContainsFunc(r.Labels, func(l string) bool {
			_, value, _ := strings.Cut(l, "=")
			return has(value, m.text)
		})
}
