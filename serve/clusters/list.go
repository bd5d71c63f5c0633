package clusters

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/hare-sched/hare/serve/clusters/ledger"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Query says which jobs a list has.
type Query struct {
	clusterdoc.JobQuery
	After string // JobList.Next of the page before; "" begins
	Limit int    // at least 1
}

// ErrCursor says that Query.After is not of a list that is sorted as the query says.
var ErrCursor = errors.New("clusters: not the next of a list that is sorted so")

// Jobs lists jobs.
func (c *Cluster) Jobs(ctx context.Context, q *Query) (*clusterdoc.JobList, error) {
	l := lister{q: q, list: &clusterdoc.JobList{Jobs: []*clusterdoc.Job{}}}
	l.by, l.down = strings.CutPrefix(q.Sort, "-")
	if l.by == "" {
		l.by = "submitted"
	}
	if q.After != "" {
		if err := l.cursor(); err != nil {
			return nil, err
		}
	}
	var err error
	if l.view, err = c.outlook(ctx, l.wants); err != nil {
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
	q    *Query
	by   string
	down bool
	from *sortKey // the page begins behind it; nil: at the beginning
	view *outlook
	list *clusterdoc.JobList
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
	return l.by == "submitted" && q.User == "" && q.Name == "" && q.Type == "" && len(q.Labels) == 0 && q.Text == ""
}

// chooseStates chooses the jobs of the page where plain.
func (l *lister) chooseStates(x *ledger.Ledger) (ids []string) {
	after := 0
	if l.from != nil {
		after = l.from.Job
	}
	ids, total, more := x.States(l.wants, after, l.q.Limit, l.down)
	if l.list.Total = total; more {
		l.list.Next = ids[len(ids)-1]
	}
	return ids
}

// choose chooses the jobs of the page from all rows, and describes those of the archive. Only the rows of the other
// jobs are copied while the cluster waits.
func (l *lister) choose(ctx context.Context, c *Cluster) (ids []string, jobs map[string]*clusterdoc.Job, err error) {
	var rows []ledger.Row
	var past ledger.Past
	err = c.read(ctx, func(x *ledger.Ledger) { rows, past = x.Rows(l.wants, l.q.Type != "") })
	if err != nil {
		return nil, nil, err
	}
	p := page{lister: l, most: l.q.Limit + 1}
	p.add(rows)
	if l.wantsEnded() {
		ended, err := past.Rows()
		if err != nil {
			return nil, nil, err
		}
		p.add(ended)
	}
	p.cut()
	l.list.Total = p.total
	if len(p.chosen) > l.q.Limit {
		p.chosen = p.chosen[:l.q.Limit]
		if l.list.Next, err = l.next(&p.chosen[l.q.Limit-1].key); err != nil {
			return nil, nil, err
		}
	}
	var archived []*ledger.Row
	for i := range p.chosen {
		r := p.chosen[i].row
		if ids = append(ids, r.ID()); r.Archived() {
			archived = append(archived, r)
		}
	}
	jobs, err = past.Jobs(archived)
	return ids, jobs, err
}

// page collects the first rows behind a place.
type page struct {
	*lister
	most   int // rows that are kept
	total  int
	chosen []chosenRow
}

type chosenRow struct {
	key sortKey
	row *ledger.Row
}

func (p *page) add(rows []ledger.Row) {
	match := newMatch(p.q)
	for i := range rows {
		r := &rows[i]
		if !p.wants(r.State) || !match.row(r) {
			continue
		}
		p.total++
		key := p.keyOf(r)
		if p.from != nil && !p.from.before(&key, p.down) {
			continue
		}
		if p.chosen = append(p.chosen, chosenRow{key, r}); len(p.chosen) >= 4*p.most+1024 {
			p.cut()
		}
	}
}

// cut sorts the rows and keeps the first ones.
func (p *page) cut() {
	slices.SortFunc(p.chosen, func(a, b chosenRow) int {
		if a.key.before(&b.key, p.down) {
			return -1
		}
		return 1
	})
	p.chosen = p.chosen[:min(len(p.chosen), p.most)]
}

// sortKey is the place of a job in a list: what it is sorted by, and its number.
type sortKey struct {
	Class  int    `json:"c,omitempty"` // before all others: 0 what is known, 1 what is expected, 2 what is not known
	Number int64  `json:"n,omitempty"`
	Text   string `json:"t,omitempty"`
	Job    int    `json:"j"`
}

// unknown is the class of the jobs that come last in either direction.
const unknown = 2

// before reports whether a stands before b.
func (a *sortKey) before(b *sortKey, down bool) bool {
	x, y := a, b
	if down {
		x, y = b, a
	}
	switch {
	case (a.Class == unknown) != (b.Class == unknown):
		return b.Class == unknown
	case a.Class != b.Class:
		return x.Class < y.Class
	case a.Number != b.Number:
		return x.Number < y.Number
	case a.Text != b.Text:
		return x.Text < y.Text
	}
	return a.Job < b.Job
}

// keyOf is the place of the job of a row.
func (l *lister) keyOf(r *ledger.Row) sortKey {
	k := sortKey{Job: r.Number}
	expected := func(known, us int64) {
		switch {
		case known > 0:
			k.Number = known
		case us >= 0:
			k.Class, k.Number = 1, us
		default:
			k.Class = unknown
		}
	}
	switch l.by {
	case "submitted":
		k.Number = int64(r.Number)
	case "place":
		if k.Number = int64(l.view.places[r.ID()]); k.Number == 0 || r.State != clusterdoc.JobWaiting {
			k.Class, k.Number = unknown, 0
		}
	case "start":
		started := r.StartedUs
		if r.State == clusterdoc.JobWaiting {
			started = 0 // of an attempt that is over
		}
		expected(started, l.view.of(r.ID()).StartUs)
	case "end":
		expected(r.EndedUs, l.view.of(r.ID()).EndUs)
	case "weight":
		k.Number = int64(math.Float64bits(r.Weight)) // in the order of the weights, because they are not negative
	case "gpus":
		k.Number = int64(r.GPUs)
	case "user":
		k.Text = r.User
	case "name":
		k.Text = r.Name
	case "state":
		k.Number = int64(slices.Index(clusterdoc.JobStates(), r.State))
	}
	return k
}

// next is the cursor of the page behind a job: its ID in lists by submission, and opaque in others.
func (l *lister) next(k *sortKey) (string, error) {
	if l.by == "submitted" {
		return ledger.ID(k.Job), nil
	}
	text, err := json.Marshal(cursor{l.q.Sort, *k})
	return base64.RawURLEncoding.EncodeToString(text), err
}

type cursor struct {
	Sort string  `json:"s"`
	Key  sortKey `json:"k"`
}

// cursor reads where the page begins.
func (l *lister) cursor() error {
	if l.by == "submitted" {
		n := ledger.Number(l.q.After)
		if n == 0 {
			return ErrCursor
		}
		l.from = &sortKey{Number: int64(n), Job: n}
		return nil
	}
	var x cursor
	text, err := base64.RawURLEncoding.DecodeString(l.q.After)
	if err != nil || json.Unmarshal(text, &x) != nil || x.Sort != l.q.Sort {
		return ErrCursor
	}
	l.from = &x.Key
	return nil
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
