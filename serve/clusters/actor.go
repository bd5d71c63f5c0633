package clusters

import (
	"context"
	"errors"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/changes"
	"github.com/hare-sched/hare/serve/clusters/ledger"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
)

// run is the goroutine that owns the state. Each turn takes what waits, makes it durable at once, answers, and
// then tells the session what follows.
func (c *Cluster) run() {
	defer close(c.ended)
	defer c.saving.Wait()
	tick := time.NewTicker(c.parent.cfg.Tick)
	defer tick.Stop()
	var retry <-chan time.Time // set while the session does not answer
	for {
		var batch []*request
		var answers []ledger.SessionAnswer
		if c.ledger != nil && len(c.ledger.Events()) > 0 && retry == nil {
			var err error
			if answers, err = c.ask(); err != nil {
				what := "the session of a cluster does not answer: it is asked again"
				if errors.As(err, new(*sessions.ConflictError)) || errors.As(err, new(*sessions.SequenceError)) {
					what = "the session of a cluster does not fit its journal, so that no job starts: restore a backup, which has " +
						"both, or delete the cluster"
				}
				c.parent.cfg.Logger.Error(what, "cluster", c.name, "session", c.session.ID(), "error", err)
				retry = time.After(time.Second)
			}
		}
		ticked := false
		if len(answers) == 0 {
			select {
			case r := <-c.inbox:
				batch = append(batch, r)
			case <-tick.C:
				ticked = true
			case <-retry:
				retry = nil
			case <-c.stop:
				return
			}
		}
		for n := len(c.inbox); n > 0 && len(batch) < maxBatch; n-- {
			batch = append(batch, <-c.inbox)
		}
		c.turn(batch, answers, ticked)
	}
}

// ask sends the session the events that it has not answered, all at once, and returns the answers in order. An
// event that was sent before gets the same answer as then.
func (c *Cluster) ask() (answers []ledger.SessionAnswer, err error) {
	ctx := c.parent.context
	events := c.ledger.Events()
	if len(events) > maxBatch {
		events = events[:maxBatch]
	}
	promises := make([]*sessions.Promise, 0, len(events))
	for i := range events {
		p, err := c.session.Submit(ctx, events[i])
		if err != nil {
			break
		}
		promises = append(promises, p)
	}
	if len(promises) == 0 {
		p, err := c.session.Submit(ctx, events[0])
		if err != nil {
			return nil, err
		}
		promises = append(promises, p)
	}
	for i, p := range promises {
		answer, err := p.Wait(ctx)
		var bad *hare.InvalidError
		switch {
		case err == nil:
			answers = append(answers, ledger.AnswerOf(answer))
			continue
		case errors.As(err, &bad):
			c.parent.cfg.Logger.Error("the session of a cluster refused an event", "cluster", c.name, "event",
				events[i].Type.String(), "job", events[i].Job, "gpu", events[i].GPU, "error", err)
			answers = append(answers, ledger.SessionAnswer{Refused: bad.Detail})
			return answers, nil // the numbers of the events behind it have changed
		case len(answers) > 0:
			return answers, nil
		}
		return nil, err
	}
	return answers, nil
}

// turn applies answers of the session and requests, makes the records durable, and answers the requests.
func (c *Cluster) turn(batch []*request, answers []ledger.SessionAnswer, ticked bool) {
	if c.ledger == nil {
		if err := c.load(); err != nil {
			for _, r := range batch {
				r.err = err
				close(r.done)
			}
			return
		}
	}
	var records []*ledger.Record
	record := func(r *ledger.Record) error {
		r.AtUs = c.parent.cfg.Now().UnixMicro()
		if err := c.ledger.Apply(r); err != nil {
			return err
		}
		records = append(records, r)
		c.count()
		return nil
	}
	var err error
	if len(answers) > 0 {
		err = record(&ledger.Record{Answers: answers})
	}
	for _, r := range batch {
		var rec *ledger.Record
		if rec, r.err = r.prepare(c.ledger); r.err == nil && rec != nil {
			r.err = record(rec)
		}
	}
	if ticked {
		for _, name := range c.overdue() {
			epoch, _, _, _ := c.ledger.Agent(name)
			err = errors.Join(err, record(&ledger.Record{Expire: &ledger.AgentEpoch{Agent: name, Epoch: epoch}}))
			c.parent.counts.expired.Add(1)
			c.parent.cfg.Logger.Warn("an agent is lost", "cluster", c.name, "agent", name)
		}
		if c.planReady() || c.wakeDue() || c.ledger.AffinitiesEnd(c.parent.cfg.Now().UnixMicro()) {
			err = errors.Join(err, record(&ledger.Record{Tick: true}))
		}
	}
	before := c.journal.links.Last
	if err == nil && len(records) > 0 {
		var bytes int
		if bytes, err = c.journal.append(context.WithoutCancel(c.parent.context), records); err == nil {
			c.countStored(int64(bytes))
			c.parent.counts.commits.Add(1)
			c.parent.counts.records.Add(int64(len(records)))
		}
	}
	if err != nil {
		// The state is ahead of the journal: it is read again.
		c.ledger = nil
		c.parent.counts.failures.Add(1)
		c.parent.cfg.Logger.Error("the journal of a cluster cannot be written", "cluster", c.name, "error", err)
	} else {
		c.publish()
		if len(records) > 0 {
			c.announce(before)
		}
		if ticked {
			c.saveHistory()
		}
		c.saveSnapshot()
	}
	for _, r := range batch {
		switch {
		case r.err != nil:
		case err != nil:
			r.err = err
		case r.after != nil:
			r.after(c.ledger)
		}
		close(r.done)
	}
}

// announce tells the feed what the records after the one numbered last have changed.
func (c *Cluster) announce(last int64) {
	var things []changes.Thing
	jobs, agents := c.ledger.Altered()
	for _, id := range jobs {
		things = append(things, changes.Thing{Kind: changes.Job, Name: id, Gone: c.ledger.Final(id)})
	}
	for _, name := range agents {
		things = append(things, changes.Thing{Kind: changes.Node, Name: name})
	}
	if planned := c.session.Planned(); planned != c.planned {
		c.planned = planned
		things = append(things, changes.Thing{Kind: changes.Plan})
	}
	c.feed.Add(last, c.journal.links.Last, things)
}

// saveSnapshot saves a snapshot where the journal has grown by enough, while the actor goes on. A snapshot
// that is lost makes the next opening take longer, and nothing else.
func (c *Cluster) saveSnapshot() {
	if !c.busy.CompareAndSwap(false, true) {
		return
	}
	failed := func(err error) {
		c.parent.cfg.Logger.Warn("a snapshot of a cluster was not saved: until the next one, opening takes longer",
			"cluster", c.name, "error", err)
	}
	snapshot, err := c.journal.snapshot(c.ledger, c.parent.cfg.SnapshotBytes)
	if err != nil {
		failed(err)
	}
	if snapshot == nil {
		c.busy.Store(false)
		return
	}
	c.saving.Go(func() {
		defer c.busy.Store(false)
		if err := c.parent.cfg.Store.SaveSnapshot(context.WithoutCancel(c.parent.context), snapshot()); err != nil {
			failed(err)
		}
	})
}

// count tells the quotas how many jobs have not ended.
func (c *Cluster) count() {
	n := c.ledger.Unended()
	c.parent.cfg.Quotas.Jobs(c.cfg.Tenant, n-c.counted)
	c.counted = n
}

// planReady reports whether the session has a plan that only an event would bring into force while jobs wait.
func (c *Cluster) planReady() bool {
	if !c.ledger.JobsWait() || len(c.ledger.Events()) > 0 {
		return false
	}
	report, err := c.session.PlanReport(c.parent.context)
	return err == nil && report != nil && report.State == "ready"
}

// wakeDue reports whether the policy of the session wants to decide at a time that has come, while jobs wait.
func (c *Cluster) wakeDue() bool {
	if !c.ledger.JobsWait() || len(c.ledger.Events()) > 0 {
		return false
	}
	due, err := c.session.WakeDue(c.parent.context)
	return err == nil && due
}

// load reads the journal.
func (c *Cluster) load() error {
	if c.damage != nil {
		return c.damage
	}
	j, l, err := openJournal(c.parent.context, c.parent.cfg.Store, &c.meta)
	if errors.As(err, new(*store.CorruptError)) {
		c.damage = err
		c.parent.cfg.Logger.Error("a cluster is damaged; the others go on", "cluster", c.name, "error", err)
	}
	if err != nil {
		return err
	}
	c.journal, c.ledger = j, l
	c.count()
	l.Changed()
	l.Altered()
	c.feed.Add(-1, j.links.Last, nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.parent.cfg.Now()
	for _, name := range l.AgentNames() {
		p := c.presences[name]
		if p == nil {
			// The server may have answered the agent just before it ended.
			p = &presence{answered: now, wake: make(chan struct{})}
			c.presences[name] = p
		}
		p.update(l, name)
	}
	return nil
}
