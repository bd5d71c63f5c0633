package clusters

import (
	"cmp"
	"context"
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

// Preview says what is expected of a job if it is submitted now, and which jobs it delays. Nothing is recorded. The
// error is *sessions.NoPlansError where the cluster's policy makes no plans.
func (c *Cluster) Preview(ctx context.Context, n *clusterdoc.NewJob) (*clusterdoc.Preview, error) {
	if err := ledger.CheckJob(n); err != nil {
		return nil, err
	}
	spec := ledger.WithEstimate(ledger.WithSync(*n))
	d := &clusterdoc.Preview{Delays: []*clusterdoc.Delay{}, Assumes: assumes}
	var job *hare.Job
	err := c.read(ctx, func(l *ledger.Ledger) {
		if job, d.ReasonShort, d.Reason = l.Preview(&spec); job == nil {
			d.ReasonCode = online.NoService
		}
	})
	if err != nil || job == nil {
		return d, err
	}
	p, err := c.session.Preview(ctx, job)
	if err != nil {
		return nil, err
	}
	describePreview(d, p, job.ID)
	notAbove(&d.EarliestEndInS, &spec, 0)
	return d, c.read(ctx, func(l *ledger.Ledger) {
		for _, x := range d.Delays {
			x.Name, x.User = l.NameAndUser(x.Job)
		}
	})
}

func describePreview(d *clusterdoc.Preview, p *sessions.Preview, id string) {
	without := map[string]int64{}
	for i := range p.Before {
		without[p.Before[i].Job] = p.Before[i].EndUs
	}
	place := 0
	for i := range p.Rows {
		r := &p.Rows[i]
		if r.State != "running" {
			place++
		}
		if r.Job == id {
			describeRow(d, p, r, place)
			continue
		}
		endUs, known := without[r.Job]
		if by := r.EndUs - endUs; known && endUs >= 0 && by >= 1e6 {
			d.Delays = append(d.Delays, &clusterdoc.Delay{Job: r.Job, ByS: milliseconds(by)})
		}
	}
	slices.SortStableFunc(d.Delays, func(a, b *clusterdoc.Delay) int { return cmp.Compare(b.ByS, a.ByS) })
	d.Delayed = len(d.Delays)
	d.Delays = d.Delays[:min(len(d.Delays), maxDelays)]
}

// describeRow says what is expected of the job itself.
func describeRow(d *clusterdoc.Preview, p *sessions.Preview, r *online.JobRow, place int) {
	from := func(us int64) *float64 {
		if us < 0 {
			return nil
		}
		s := milliseconds(max(0, us-p.NowUs))
		return &s
	}
	d.ExpectedInS, d.ExpectedEndInS, d.EarliestEndInS = from(r.StartUs), from(r.EndUs), from(r.EarliestEndUs)
	if r.State == "running" {
		d.ExpectedInS = new(float64)
		return
	}
	d.Place, d.Reason, d.ReasonShort, d.ReasonCode = place, p.Reason.Text, p.Reason.Short, p.Reason.Code
	if r.StartUs < 0 && r.EarliestEndUs < 0 && d.ReasonCode != online.NoService {
		d.ReasonCode, d.ReasonShort = "length_unknown", "its times are not known"
		d.Reason = "It states no time for some type that it may run on, so that the plan has no place for it. " + d.Reason
	}
}

// milliseconds is a time in seconds with three decimals.
func milliseconds(us int64) float64 { return math.Round(float64(us)/1e3) / 1e3 }
