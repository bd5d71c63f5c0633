package clusters

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/clusters/ledger"
	"github.com/hare-sched/hare/serve/sessions"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// maxDelays is how many delays a preview lists.
const maxDelays = 100

// assumes is Preview.Assumes.
const assumes = "no other job comes, nothing fails, and jobs take the times that they state or are believed to take"

// Preview says what is expected of a job if it is submitted now, and which jobs it delays, and with sooner also which
// smaller job would start earlier. Nothing is recorded. The error is *sessions.NoPlansError where the cluster's policy
// makes no plans.
func (c *Cluster) Preview(ctx context.Context, n *clusterdoc.NewJob, sooner bool) (*clusterdoc.Preview, error) {
	if err := ledger.CheckJob(n); err != nil {
		return nil, err
	}
	d, err := c.preview(ctx, n)
	if err == nil && sooner && (d.ExpectedInS == nil || *d.ExpectedInS >= 1) {
		d.Sooner, err = c.sooner(ctx, n, d)
	}
	return d, err
}

// sooner is the nearest smaller job that would start at least a second earlier than what is expected of a job. A
// smaller job that cannot be planned is passed over.
func (c *Cluster) sooner(ctx context.Context, n *clusterdoc.NewJob, d *clusterdoc.Preview) (*clusterdoc.Sooner,
	error) {
	var types []string
	if err := c.read(ctx, func(l *ledger.Ledger) { types = l.Types() }); err != nil {
		return nil, err
	}
	for _, x := range ledger.Smaller(n, types) {
		p, err := c.preview(ctx, &x)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil || p.ExpectedInS == nil || d.ExpectedInS != nil && *p.ExpectedInS > *d.ExpectedInS-1 {
			continue
		}
		s := &clusterdoc.Sooner{Expected: p.Expected}
		switch {
		case len(x.On) > len(n.On):
			for t := range x.On {
				if _, has := n.On[t]; !has {
					s.On = append(s.On, t)
				}
			}
			slices.Sort(s.On)
		case ledger.Shares(&x):
			s.Tasks = x.Tasks
		default:
			s.GPUs, s.Nodes = x.GPUs, x.Nodes
		}
		return s, nil
	}
	return nil, nil
}

func (c *Cluster) preview(ctx context.Context, n *clusterdoc.NewJob) (*clusterdoc.Preview, error) {
	spec := ledger.WithEstimate(ledger.WithSync(*n))
	d := &clusterdoc.Preview{Delays: []*clusterdoc.Delay{}, Assumes: assumes}
	var job *hare.Job
	err := c.settled(ctx, func(l *ledger.Ledger) error {
		if job, d.ReasonShort, d.Reason = l.Preview(&spec); job == nil {
			d.ReasonCode = online.NoService
		}
		return nil
	})
	if err != nil && !errors.Is(err, errUnsettled) { // a session that hears of ever more is asked as it is
		return nil, err
	}
	if job == nil {
		return d, nil
	}
	p, err := c.session.Preview(ctx, job)
	if err != nil {
		return nil, err
	}
	describePreview(d, p, job.ID)
	notAbove(&d.EarliestEndInS, &spec, 0)
	return d, c.names(ctx, d.Delays...)
}

// PreviewOfSession is Preview of a job that arrives at a session. The error is *sessions.NoPlansError where the policy
// makes no plans, and *hare.InvalidError where it refuses the job.
func PreviewOfSession(ctx context.Context, s *sessions.Session, job *hare.Job) (*clusterdoc.Preview, error) {
	p, err := s.Preview(ctx, job)
	if err != nil {
		return nil, err
	}
	d := &clusterdoc.Preview{Assumes: assumes}
	describePreview(d, p, job.ID)
	seen, err := s.Outlook(ctx)
	if err == nil {
		for _, x := range d.Delays {
			x.Name, x.User = seen.Told[x.Job].Name, seen.Told[x.Job].User
		}
	}
	return d, err
}

// names gives delays the names and users of their jobs.
func (c *Cluster) names(ctx context.Context, all ...*clusterdoc.Delay) error {
	return c.read(ctx, func(l *ledger.Ledger) {
		for _, x := range all {
			x.Name, x.User = l.NameAndUser(x.Job)
		}
	})
}

func describePreview(d *clusterdoc.Preview, p *sessions.Preview, id string) {
	d.Expected = expected(p.Rows, p.NowUs, id, p.Reason)
	d.Delays, d.Delayed = delays(p.Before, p.Rows, id)
}

// delays are by how much the other jobs end later than in another plan, the greatest first, and their number.
func delays(before, after []online.JobRow, id string) (all []*clusterdoc.Delay, n int) {
	was := map[string]int64{}
	for i := range before {
		was[before[i].Job] = before[i].EndUs
	}
	all = []*clusterdoc.Delay{}
	for i := range after {
		r := &after[i]
		endUs, known := was[r.Job]
		if by := r.EndUs - endUs; r.Job != id && known && endUs >= 0 && r.EndUs >= 0 && by >= 1e6 {
			all = append(all, &clusterdoc.Delay{Job: r.Job, ByS: milliseconds(by)})
		}
	}
	slices.SortStableFunc(all, func(a, b *clusterdoc.Delay) int { return cmp.Compare(b.ByS, a.ByS) })
	return all[:min(len(all), maxDelays)], len(all)
}

// expected says what a plan expects of a job.
func expected(rows []online.JobRow, nowUs int64, id string, why online.Reason) (d clusterdoc.Expected) {
	place := 0
	for i := range rows {
		r := &rows[i]
		if r.State != "running" {
			place++
		}
		if r.Job == id {
			return expectedOf(r, nowUs, place, why)
		}
	}
	return d
}

func expectedOf(r *online.JobRow, nowUs int64, place int, why online.Reason) (d clusterdoc.Expected) {
	from := func(us int64) *float64 {
		if us < 0 {
			return nil
		}
		s := milliseconds(max(0, us-nowUs))
		return &s
	}
	d.ExpectedInS, d.ExpectedEndInS, d.EarliestEndInS = from(r.StartUs), from(r.EndUs), from(r.EarliestEndUs)
	if r.State == "running" {
		d.ExpectedInS = new(float64)
		return d
	}
	d.Place, d.Reason, d.ReasonShort, d.ReasonCode = place, why.Text, why.Short, why.Code
	if r.StartUs < 0 && r.EarliestEndUs < 0 && d.ReasonCode != online.NoService {
		d.ReasonCode, d.ReasonShort = "length_unknown", "its times are not known"
		d.Reason = "It states no time for some type that it may run on, so that the plan has no place for it. " + d.Reason
	}
	return d
}

// milliseconds is a time in seconds with three decimals.
func milliseconds(us int64) float64 { return math.Round(float64(us)/1e3) / 1e3 }
