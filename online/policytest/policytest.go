// Package policytest is a test kit for policies that place tasks, in this module or in a module
// of one's own. It simulates random clusters, sends the policy possible and impossible events,
// and checks every decision.
package policytest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// Subject is the policy under test.
type Subject struct {
	// Open makes a fresh policy for a cluster. The jobs are those that may arrive,
	// with their rounds, for policies that know sizes; a job that is not cancelled
	// ends after its rounds.
	Open func(cluster *hare.Cluster, jobs []hare.Job) (online.Policy, error)
	// Restore makes the policy of which a snapshot was taken. Nil means that the policy cannot be
	// stored; otherwise the policies that Open makes must be online.Durable.
	Restore func(snapshot []byte) (online.Durable, error)
	// Planned says that the policy plans all jobs beforehand and follows the plan. Such a
	// policy meets no impossible events and no cancellations, every job can run on the
	// cluster, and GPUs that leave return as they were. Instead of the last check of Run,
	// all jobs must end once all of them have arrived and all GPUs are in service.
	Planned bool
	// SingleGPUs says that the policy does not go by nodes: no job has rules about them.
	SingleGPUs bool
	// Runs is the number of random clusters; zero means 40.
	Runs int
	// Events is the number of events on each cluster; zero means 120.
	Events int
}

// Run simulates random clusters under the policy. On each cluster, Run checks that
//
//   - every decision is feasible: GPUs are in service and free, gangs start together, on one
//     type unless they may mix types, rigid jobs keep their GPUs, and exactly the tasks are
//     withdrawn whose job ended or whose GPU left;
//   - an event that cannot be true (a duplicate, an unknown job, a GPU that is not
//     in service, a time that goes back) is refused with *online.RefusedError, and
//     changes nothing; in a step of several events the ones before the refused event
//     are applied, and the ones behind it are not;
//   - the same events give the same decisions;
//   - a policy that is restored from a snapshot, after any event, makes the same decisions and
//     the same snapshots as the policy that was never interrupted, at the next event and at
//     later ones, and so does a policy that adopted the recorded decisions;
//   - a job alone on a cluster that has room for it runs.
//
// Many events have the same time, GPUs leave while tasks run on them, and tasks fail.
func Run(t *testing.T, s Subject) {
	t.Helper()
	runs, events := s.Runs, s.Events
	if runs == 0 {
		runs = 40
	}
	if events == 0 {
		events = 120
	}
	for seed := range uint64(runs) {
		if err := s.run(seed, events); err != nil {
			t.Fatalf("run %d: %v", seed, err)
		}
	}
}

// player simulates one cluster under the policy and under the copies that the policy is compared
// with.
type player struct {
	subject Subject
	rng     *rand.Rand
	world   *world
	nowUs   int64
	policy  online.Policy
	twin    online.Policy  // a copy that gets the same possible events
	stored  online.Durable // a copy that was restored after an earlier event; nil if there is no Restore
	adopter online.Durable // a copy that adopts the recorded decisions; nil if there is no Restore
	number  int
	last    hare.Event
}

func (s Subject) run(seed uint64, events int) error {
	rng := rand.New(rand.NewPCG(seed, 0x706f6c696379))
	w := newWorld(rng, s.Planned, !s.Planned && !s.SingleGPUs)
	p := &player{subject: s, rng: rng, world: w}
	var err error
	if p.policy, err = s.Open(&w.cluster, w.specs); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if p.twin, err = s.Open(&w.cluster, w.specs); err != nil {
		return fmt.Errorf("open again: %w", err)
	}
	if s.Restore != nil {
		made, err := s.Open(&w.cluster, w.specs)
		if err != nil {
			return fmt.Errorf("open again: %w", err)
		}
		var ok bool
		if p.adopter, ok = made.(online.Durable); !ok {
			return errors.New("the spec has Restore, and its Open makes no online.Durable")
		}
	}
	for p.number = 1; p.number <= events; p.number++ {
		if !s.Planned && rng.IntN(4) == 0 {
			if err := p.hostile(); err != nil {
				return err
			}
		}
		if rng.IntN(2) == 0 {
			p.nowUs += rng.Int64N(2_000_000)
		}
		if err := p.step(w.next(rng)); err != nil {
			return err
		}
	}
	if s.Planned {
		return p.finish()
	}
	return p.alone()
}

// step sends one possible event.
func (p *player) step(e hare.Event) error {
	at := fmt.Sprintf("event %d at %s s, %s", p.number, hare.FormatMicros(p.nowUs), describe(&e))
	events := []hare.Event{e}
	decisions, err := p.stepPolicy(at, e)
	if err != nil {
		return err
	}
	if err := p.world.apply(&e, decisions, p.nowUs); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	again, err := p.twin.Step(p.nowUs, events)
	if err != nil || !slices.Equal(again, decisions) {
		return fmt.Errorf("%s: the same events gave %v, then %v (%v)", at, decisions, again, err)
	}
	p.last = e
	if p.adopter == nil {
		return nil
	}
	return p.compareStored(at, e, decisions)
}

// stepPolicy sends one possible event to the policy, alone or as the first of three events of
// which the second is impossible, and returns the decisions on the first.
func (p *player) stepPolicy(at string, e hare.Event) ([]hare.Decision, error) {
	events := []hare.Event{e}
	if !p.subject.Planned && p.rng.IntN(4) == 0 {
		behind := hare.Event{Type: hare.EventJobArrived, Arrived: &hare.Job{ID: "behind", WeightMicro: 1e6, Tasks: 1,
			On: []hare.Profile{{Type: "A", ComputeUs: 1e6}, {Type: "B", ComputeUs: 1e6}}}}
		events = append(events, impossibleAfter(p.rng, &e), behind)
	}
	got, err := p.policy.Step(p.nowUs, events)
	decisions := slices.Clone(got)
	if len(events) == 1 {
		if err != nil {
			return nil, fmt.Errorf("%s: refused: %w", at, err)
		}
		return decisions, nil
	}
	at += ", with an impossible event behind it, " + describe(&events[1])
	var refused *online.RefusedError
	if !errors.As(err, &refused) {
		return nil, fmt.Errorf("%s: not refused: %v", at, err)
	}
	if err := checkRefusal(at, refused, 1); err != nil {
		return nil, err
	}
	return decisions, nil
}

// checkRefusal checks that a refusal names the event and has a code and a detail.
func checkRefusal(at string, refused *online.RefusedError, index int) error {
	if refused.Index != index || refused.Err == nil || refused.Err.Code == "" || refused.Err.Detail == "" {
		return fmt.Errorf("%s: event %d of the step cannot be true, and event %d is refused with %+v: index, code and "+
			"detail must say what is wrong", at, index, refused.Index, refused.Err)
	}
	return nil
}

// compareStored compares the policy after an event with a copy that was restored before
// the event, at the last event or some events earlier, and with a copy that adopts the decisions.
func (p *player) compareStored(at string, e hare.Event, decisions []hare.Decision) error {
	const prefix = "before"
	durable := p.policy.(online.Durable)
	got := durable.AppendSnapshot([]byte(prefix))
	snapshot, appended := bytes.CutPrefix(got, []byte(prefix))
	if !appended || !bytes.Equal(durable.AppendSnapshot(nil), snapshot) {
		return fmt.Errorf("%s: AppendSnapshot does not append the same bytes again", at)
	}
	if p.stored != nil {
		got, err := p.stored.Step(p.nowUs, []hare.Event{e})
		if err != nil || !slices.Equal(got, decisions) {
			return fmt.Errorf("%s: decided %v; restored from a snapshot before the event %v (%v)", at, decisions, got,
				err)
		}
		if !bytes.Equal(p.stored.AppendSnapshot(nil), snapshot) {
			return fmt.Errorf("%s: restored before the event, the policy has another snapshot after it", at)
		}
	}
	if err := p.adopter.Adopt(p.nowUs, e, decisions); err != nil {
		return fmt.Errorf("%s: its own decisions cannot be adopted: %w", at, err)
	}
	if other := p.adopter.AppendSnapshot(nil); !bytes.Equal(other, snapshot) {
		return fmt.Errorf("%s: after adopting the decisions the snapshot is another one:\n%q\n%q", at, other, snapshot)
	}
	var err error
	if p.stored, err = p.subject.Restore(snapshot); err != nil {
		return fmt.Errorf("%s: its snapshot cannot be restored: %w", at, err)
	}
	if p.rng.IntN(8) == 0 {
		torn := slices.Clone(snapshot)
		torn[p.rng.IntN(len(torn))] ^= 1 << p.rng.IntN(8)
		if _, err := p.subject.Restore(torn); err == nil {
			return fmt.Errorf("%s: a snapshot of which a bit was changed is restored", at)
		}
		if _, err := p.subject.Restore(snapshot[:p.rng.IntN(len(snapshot))]); err == nil {
			return fmt.Errorf("%s: a snapshot that was cut off is restored", at)
		}
	}
	return nil
}

// hostile sends an impossible event.
func (p *player) hostile() error {
	e, nowUs := p.world.impossible(p.rng, &p.last, p.nowUs)
	at := fmt.Sprintf("before event %d, at %s s, impossible: %s", p.number, hare.FormatMicros(nowUs), describe(&e))
	var before []byte
	durable, stored := p.policy.(online.Durable)
	if stored = stored && p.adopter != nil; stored {
		before = durable.AppendSnapshot(nil)
	}
	decisions, err := p.policy.Step(nowUs, []hare.Event{e})
	var refused *online.RefusedError
	switch {
	case !errors.As(err, &refused):
		return fmt.Errorf("%s: not refused: %v, decided %v", at, err, decisions)
	case len(decisions) > 0:
		return fmt.Errorf("%s: refused, and decided %v", at, decisions)
	}
	if err := checkRefusal(at, refused, 0); err != nil {
		return err
	}
	if stored && !bytes.Equal(durable.AppendSnapshot(nil), before) {
		return fmt.Errorf("%s: refused, and the state has changed", at)
	}
	return nil
}

// alone cancels all jobs except one that has room. This job must then run.
func (p *player) alone() error {
	for len(p.world.jobs) > 1 || len(p.world.jobs) == 1 && !p.world.hasRoom(p.world.jobs[0]) {
		j := p.world.jobs[len(p.world.jobs)-1]
		if len(p.world.jobs) > 1 && p.world.hasRoom(j) {
			j = p.world.jobs[0]
		}
		p.number++
		if err := p.step(hare.Event{Type: hare.EventJobCancelled, Job: j.spec.ID}); err != nil {
			return err
		}
	}
	if err := p.step(hare.Event{Type: hare.EventTick}); err != nil {
		return err
	}
	if len(p.world.jobs) == 1 && !p.world.jobs[0].runs() && !p.world.jobs[0].over() {
		return fmt.Errorf("after event %d: job %q is alone on a cluster with room for it, and does not run", p.number,
			p.world.jobs[0].spec.ID)
	}
	return nil
}

// finish returns all GPUs to service, lets all jobs arrive and ends tasks until every job
// has ended.
func (p *player) finish() error {
	for {
		e, ok := p.world.nextToFinish(p.rng)
		if !ok {
			break
		}
		p.number++
		p.nowUs += p.rng.Int64N(2_000_000)
		if err := p.step(e); err != nil {
			return err
		}
	}
	if len(p.world.jobs) > 0 {
		return fmt.Errorf("after event %d: %d jobs wait, job %q among them, all GPUs are in service, and no task runs",
			p.number, len(p.world.jobs), p.world.jobs[0].spec.ID)
	}
	return nil
}

func describe(e *hare.Event) string {
	text := e.Type.String()
	if e.Arrived != nil {
		text += fmt.Sprintf(" of %q (%v, %d tasks)", e.Arrived.ID, e.Arrived.Sync, e.Arrived.Tasks)
	} else if e.Job != "" {
		text += fmt.Sprintf(" of %q, round %d, task %d", e.Job, e.Round, e.Task)
	}
	if e.GPU != "" {
		text += " on " + e.GPU
	}
	return text
}
