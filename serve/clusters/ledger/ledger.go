// Package ledger is the state of a managed cluster as a function of its journal. Records go in; events for the
// cluster's online session and orders for its agents come out. The package has no clock, no input or output
// and no goroutine: the same records give the same events and orders, so that a server that was killed goes on
// where its journal ends.
//
// Why everything is started once, and only once:
//
//   - An attempt starts a job, and has a number that rises within the job. A task of an attempt is ordered once:
//     where nobody knows whether an agent has started a task, as after a crash of the machine, the attempt is lost
//     and the next one has a new number.
//   - An agent has an epoch, which rises with each registration of its name. Whatever it says carries the epoch,
//     and an old epoch is refused with stale_epoch. Each registration also gives a secret, which the agent shows
//     from then on; the journal has the SHA-256 of it.
//   - An agent has a lease, which each answer renews. The agent counts from when it sent the request, and has ended
//     all of its tasks when the lease has run out. The server counts from when it answered, and waits 5 s more
//     before it gives the work away. So clocks are never compared. After a restart all leases run from the start of
//     the server, which does not know when it last answered.
//   - A GPU that has a task is free once its agent says that no process of the task is left, or once the lease has
//     run out, and not when a job was cancelled or failed.
//   - A task of a round of a job that shares GPUs is ordered under a number that rises within the attempt; one that
//     is lost is ordered again under another number. A task that the session takes back, because its job or attempt
//     has ended, keeps its GPU out of the session until the agent says that nothing is left there.
//   - The next attempt of such a job begins when the parameter server and all tasks of the attempt before have
//     ended, or their leases are over. The session does not know which round is the last: it learns that the job
//     has ended right behind the last task, so that other jobs have the GPUs while the job saves.
//   - Exit code 0 of all tasks is success. A process that ends with 0 because it was told to end has not succeeded.
//
// What agents say is checked like all input: unknown states, devices that were not registered and gaps between
// reports are refused.
//
// Its files are layers. State and what is read out of a specification are at the bottom; above them is what the
// session is told, then where a job may start and the tasks of rounds, then attempts and their reports, then agents,
// snapshots and descriptions. The journal is read at the top.
package ledger

import (
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Apply takes the next record of the journal. An error says that the record cannot follow those before.
func (l *Ledger) Apply(r *Record) error {
	l.advance(r.AtUs)
	l.nowUs = r.AtUs
	err := l.apply(r)
	for _, a := range l.altered.counted {
		l.recount(a)
	}
	l.altered.counted = l.altered.counted[:0]
	r.Ordered, l.ordered = l.ordered, nil
	return err
}

func (l *Ledger) apply(r *Record) error {
	switch {
	case r.Submit != nil:
		l.submit(r.Submit)
	case r.Cancel != nil:
		return l.cancel(r.Cancel)
	case r.Change != nil:
		return l.change(r.Change)
	case r.Register != nil:
		l.register(r.Register)
	case r.Expire != nil:
		a, err := l.agentOf(*r.Expire)
		if err != nil {
			return err
		}
		l.expire(a)
	case r.Sync != nil:
		return l.sync(r.Sync)
	case r.Drain != nil:
		return l.drain(r.Drain)
	case r.Answers != nil:
		return l.answers(r.Answers)
	case r.Copy != nil:
		l.copied(r.Copy)
	case r.Tick:
		l.endAffinities()
		l.emit(hare.Event{Type: hare.EventTick})
	default:
		return fmt.Errorf("ledger: an empty record")
	}
	return nil
}

// answers takes the answers to the first events that have none. When all events are answered, the session is
// at rest, and what it gave is used.
func (l *Ledger) answers(all []SessionAnswer) error {
	if len(all) > len(l.waiting) {
		return fmt.Errorf("ledger: %d answers to %d events", len(all), len(l.waiting))
	}
	events := l.waiting[:len(all)]
	l.waiting = slices.Clone(l.waiting[len(all):])
	for i := range all {
		if all[i].Refused != "" {
			l.refused(&events[i], all[i].Refused)
			continue
		}
		l.seq++
		l.answered(&events[i])
		for _, d := range all[i].Decisions {
			l.grant(&d)
		}
	}
	if len(l.waiting) > 0 {
		return nil
	}
	touched := l.touched
	l.touched = nil
	for _, j := range touched {
		if j.relaxed != nil {
			l.share(j)
		} else {
			l.assemble(j)
		}
	}
	return nil
}

// refused handles an event that the session did not take. That of a job ends the job; others leave the session
// as it was, and the state of the cluster here is what counts.
func (l *Ledger) refused(e *hare.Event, why string) {
	if j := l.jobs[e.Job]; j != nil && e.Type == hare.EventJobArrived && !j.state.Final() {
		j.arrived = false
		l.end(j, clusterdoc.JobFailed, "the scheduler refused the job: "+why)
	}
}

func (l *Ledger) grant(d *Decision) {
	j := l.jobs[d.Job]
	switch {
	case j == nil || j.state.Final():
		return // a start of a round that does not come any more
	case j.relaxed != nil:
		l.grantTask(j, d)
	case d.Task < 0 || d.Task >= int64(j.tasks):
		return
	default:
		j.granted[d.Task] = d.GPUs
	}
	if !slices.Contains(l.touched, j) {
		l.touched = append(l.touched, j)
	}
}
