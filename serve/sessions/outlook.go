package sessions

import (
	"context"
	"time"

	"github.com/hare-sched/hare/online"
	sessiondoc "github.com/hare-sched/hare/wire/sessions"
)

// Outlook is what lists say of the jobs of a session that have not ended, as of one of its events.
type Outlook struct {
	Seq, AtUs int64 // the last event
	// NowUs is the time of the session when it was asked for its outlook. Nothing has happened since AtUs.
	NowUs int64
	*kept
}

// Row is that of a job; nil where there is none.
func (k *kept) Row(job string) *online.JobRow {
	if i, ok := k.at[job]; ok {
		return &k.Rows[i]
	}
	return nil
}

// Expected are the start, the end and the earliest end of the job of a row, as the policy would give them now; −1
// where it knows nothing. A job that waits has not started since the last event.
func (o *Outlook) Expected(r *online.JobRow) (startUs, endUs, earliestEndUs int64) {
	startUs, endUs, earliestEndUs = r.StartUs, r.EndUs, r.EarliestEndUs
	if r.State == "running" {
		return startUs, endUs, earliestEndUs
	}
	if earliestEndUs >= 0 {
		earliestEndUs += o.NowUs - o.AtUs
	}
	if late := o.NowUs - startUs; startUs >= 0 && late > 0 {
		startUs += late
		if endUs >= 0 {
			endUs += late
		}
	}
	if endUs >= 0 {
		endUs = max(endUs, earliestEndUs)
	}
	return startUs, endUs, earliestEndUs
}

// Reason says why the job of a row waits.
func (k *kept) Reason(r *online.JobRow) online.Reason {
	if r.Reason != (online.Reason{}) {
		return r.Reason
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s, _ := k.policy.Explain(r.Job)
	s.Reason.Text = s.Why
	return s.Reason
}

// An outlook that took more than quickOutlook is given again until outlookShare times as long has passed, so that many
// readers of lists of many jobs cost a twentieth of a core.
const (
	quickOutlook = 10 * time.Millisecond
	outlookShare = 20
)

// Outlook describes the jobs after the events that were submitted before, or, where there are so many that it takes
// long, a little earlier. It is made of a copy of the policy, so that no event waits for it.
func (s *Session) Outlook(ctx context.Context) (*Outlook, error) {
	s.planMu.Lock()
	defer s.planMu.Unlock()
	o := &Outlook{}
	began := time.Now()
	old := s.outlook
	stays := old != nil && old.took > quickOutlook && began.Sub(old.made) < outlookShare*old.took
	var state []byte
	var told map[string]sessiondoc.HelperJob
	err := s.look(ctx, func(a *actor) {
		told = a.told
		o.Seq, o.AtUs = a.links.Last+a.pending(), a.atUs
		if o.NowUs = o.AtUs; s.cfg.Clock == ClockServer {
			o.NowUs = a.serverUs()
		}
		if _, ok := a.policy.(online.Observable); ok && !stays && (old == nil || old.seq != o.Seq) {
			state = a.policy.AppendSnapshot(nil)
		}
	})
	switch {
	case err != nil:
		return nil, err
	case state == nil && old != nil:
		o.kept, o.Seq, o.AtUs = old, old.seq, old.atUs
		return o, nil
	case state == nil:
		return nil, errNoView
	}
	k := &kept{seq: o.Seq, atUs: o.AtUs}
	err = recovered(func() error {
		copied, err := s.parent.cfg.Restore(s.cfg.Policy, state)
		if err != nil {
			return err
		}
		k.policy = copied.(online.Observable)
		k.Rows, k.Told = k.policy.Rows(), told
		for i := range k.Rows {
			if r := &k.Rows[i]; told[r.Job].Next {
				r.State, r.RunningOn, r.StartUs, r.StartedUs = "waiting", nil, r.StartedUs, -1
				r.Reason = handedOver(s.followed.helper)
			}
		}
		_, k.Planned = copied.(online.Planned)
		return nil
	})
	if err != nil {
		return nil, err
	}
	k.at = make(map[string]int, len(k.Rows))
	for i := range k.Rows {
		k.at[k.Rows[i].Job] = i
	}
	k.made = time.Now()
	k.took = k.made.Sub(began)
	s.outlook, o.kept = k, k
	return o, nil
}
