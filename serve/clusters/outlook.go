package clusters

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/clusters/ledger"
	"github.com/hare-sched/hare/serve/sessions"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// outlook is what is expected of the jobs of a cluster that have not ended.
type outlook struct {
	session *sessions.Outlook // nil where nothing is known
	places  map[string]int    // of waiting jobs
	reasons map[string]online.Reason
	asks    map[string]bool // the jobs of which the session knows why they wait
	now     time.Time
}

// outlook looks at the session once for a list of jobs, if jobs of the states that are wanted may be expected to do
// something.
func (c *Cluster) outlook(ctx context.Context, wants func(clusterdoc.JobState) bool) (*outlook, error) {
	v := &outlook{asks: map[string]bool{}, now: c.parent.cfg.Now()}
	if !wants(clusterdoc.JobWaiting) && !wants(clusterdoc.JobStarting) && !wants(clusterdoc.JobRunning) &&
		!wants(clusterdoc.JobStopping) {
		return v, nil
	}
	var rows []ledger.Row
	waits := func(s clusterdoc.JobState) bool { return s == clusterdoc.JobWaiting }
	if err := c.read(ctx, func(l *ledger.Ledger) { rows, _ = l.Rows(waits, false) }); err != nil {
		return nil, err
	}
	var err error
	if v.session, err = c.session.Outlook(ctx); err != nil {
		v.session = nil // jobs are listed all the same
	}
	if wants(clusterdoc.JobWaiting) {
		v.place(rows)
	}
	return v, nil
}

// place gives waiting jobs their places: those of which the session knows something in its order, the others
// behind; jobs that are held have none.
func (v *outlook) place(waiting []ledger.Row) {
	v.places = make(map[string]int, len(waiting))
	waiting = slices.DeleteFunc(waiting, func(r ledger.Row) bool { return r.Held })
	for i := range waiting {
		v.places[waiting[i].ID()] = 0
	}
	last := 0
	if v.session != nil {
		for i := range v.session.Rows {
			id := v.session.Rows[i].Job
			if at, waits := v.places[id]; waits && at == 0 {
				last++
				v.places[id] = last
			}
		}
	}
	for i := range waiting {
		if id := waiting[i].ID(); v.places[id] == 0 {
			last++
			v.places[id] = last
		}
	}
}

// row is what the session knows of a job; nil where it knows nothing.
func (v *outlook) row(id string) *online.JobRow {
	if v.session == nil {
		return nil
	}
	return v.session.Row(id)
}

// ask asks the session why jobs wait.
func (v *outlook) ask(jobs ...string) {
	v.reasons = make(map[string]online.Reason, len(jobs))
	for _, id := range jobs {
		if r := v.row(id); r != nil {
			v.reasons[id] = v.session.Reason(r)
		}
	}
}

// look adds to a job what the cluster knows of why it waits.
func (v *outlook) look(l *ledger.Ledger, job *clusterdoc.Job) {
	if job.State.Final() {
		return
	}
	why, known := v.reasons[job.ID]
	v.asks[job.ID] = l.Explain(job, !known || why.Code == online.NoService || why.Code == online.Fragmented)
}

// complete adds to a job what is expected of it, and what it waits for.
func (v *outlook) complete(job *clusterdoc.Job) {
	if job.State.Final() {
		return
	}
	if job.State == clusterdoc.JobWaiting {
		job.Place = v.places[job.ID]
	}
	r := v.row(job.ID)
	if r == nil {
		return
	}
	if why := v.reasons[job.ID]; v.asks[job.ID] {
		job.ReasonCode, job.ReasonShort = why.Code, why.Short
		if job.Reason != "" && why.Text != "" {
			why.Text = job.Reason + ". " + why.Text
		}
		job.Reason = cmp.Or(why.Text, job.Reason)
	}
	from := func(us int64) *float64 {
		if us < 0 {
			return nil
		}
		s := milliseconds(max(0, us-v.session.NowUs))
		return &s
	}
	startUs, endUs, earliestEndUs := v.session.Expected(r)
	if job.State == clusterdoc.JobWaiting {
		job.ExpectedInS = from(startUs)
	}
	job.ExpectedEndInS, job.EarliestEndInS = from(endUs), from(earliestEndUs)
	ran := time.Duration(0)
	if job.State != clusterdoc.JobWaiting && job.Started != nil {
		ran = v.now.Sub(*job.Started)
	}
	notAbove(&job.EarliestEndInS, &job.NewJob, ran)
}

// notAbove brings a proved end down to what the job itself says: the session may believe that it has several rounds of
// the length of the whole job, until it has learned from jobs that ended.
func notAbove(earliest **float64, spec *clusterdoc.NewJob, ran time.Duration) {
	least, known := ledger.LeastSeconds(spec)
	if left := milliseconds(int64(max(0, least-ran.Seconds()) * 1e6)); known && *earliest != nil && **earliest > left {
		*earliest = &left
	}
}
