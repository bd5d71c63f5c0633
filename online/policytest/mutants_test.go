package policytest

import (
	"errors"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// mutant is FIFO that breaks one promise of the interfaces.
type mutant struct {
	online.Durable
	step  func(p online.Durable, nowUs int64, events []hare.Event) ([]hare.Decision, error)
	adopt func(p online.Durable, nowUs int64, e hare.Event, decisions []hare.Decision) error
	save  func(p online.Durable, b []byte) []byte
}

func (mu *mutant) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	if mu.step == nil {
		return mu.Durable.Step(nowUs, events)
	}
	return mu.step(mu.Durable, nowUs, events)
}

func (mu *mutant) Adopt(nowUs int64, e hare.Event, decisions []hare.Decision) error {
	if mu.adopt == nil {
		return mu.Durable.Adopt(nowUs, e, decisions)
	}
	return mu.adopt(mu.Durable, nowUs, e, decisions)
}

func (mu *mutant) AppendSnapshot(b []byte) []byte {
	if mu.save == nil {
		return mu.Durable.AppendSnapshot(b)
	}
	return mu.save(mu.Durable, b)
}

// without returns a Step that leaves out the decisions for which drop is true.
func without(drop func(d *hare.Decision) bool) func(online.Durable, int64, []hare.Event) ([]hare.Decision, error) {
	return func(p online.Durable, nowUs int64, events []hare.Event) ([]hare.Decision, error) {
		decisions, err := p.Step(nowUs, events)
		var kept []hare.Decision
		for i := range decisions {
			if !drop(&decisions[i]) {
				kept = append(kept, decisions[i])
			}
		}
		return kept, err
	}
}

// FIFO passes the kit, and each mutant that breaks one promise of online.Policy or
// online.Durable is found.
func TestMutants(t *testing.T) {
	var calls int
	mutants := map[string]*mutant{
		"withdraws no task":   {step: without(func(d *hare.Decision) bool { return d.Type == hare.DecisionWithdraw })},
		"never starts a gang": {step: without(func(d *hare.Decision) bool { return d.Task == 1 })},
		"accepts what cannot be true": {step: func(p online.Durable, nowUs int64,
			events []hare.Event) ([]hare.Decision, error) {
			decisions, _ := p.Step(nowUs, events)
			return decisions, nil
		}},
		"names the first event as refused": {step: func(p online.Durable, nowUs int64,
			events []hare.Event) ([]hare.Decision, error) {
			decisions, err := p.Step(nowUs, events)
			if refused, ok := errors.AsType[*online.RefusedError](err); ok {
				err = &online.RefusedError{Err: refused.Err}
			}
			return decisions, err
		}},
		"drops the decisions before a refused event": {step: func(p online.Durable, nowUs int64,
			events []hare.Event) ([]hare.Decision, error) {
			decisions, err := p.Step(nowUs, events)
			if err != nil {
				return nil, err
			}
			return decisions, nil
		}},
		"applies the events behind a refused one": {step: func(p online.Durable, nowUs int64,
			events []hare.Event) ([]hare.Decision, error) {
			var all []hare.Decision
			var first error
			for i := range events {
				decisions, err := p.Step(nowUs, events[i:i+1])
				all = append(all, decisions...)
				if refused, ok := errors.AsType[*online.RefusedError](err); ok && first == nil {
					first = &online.RefusedError{Index: i, Err: refused.Err}
				}
			}
			return all, first
		}},
		"applies no event of a step with a refused one": {step: func(p online.Durable, nowUs int64,
			events []hare.Event) ([]hare.Decision, error) {
			probe, err := online.RestoreFIFO(p.AppendSnapshot(nil))
			if err != nil {
				return nil, err
			}
			if _, err := probe.Step(nowUs, events); err != nil {
				return nil, err
			}
			return p.Step(nowUs, events)
		}},
		"lets time pass at a refused event": {step: func(p online.Durable, nowUs int64,
			events []hare.Event) ([]hare.Decision, error) {
			decisions, err := p.Step(nowUs, events)
			if err != nil && nowUs >= 0 {
				_, _ = p.Step(nowUs+1, []hare.Event{{Type: hare.EventTick}})
			}
			return decisions, err
		}},
		"decides otherwise at times": {step: func(p online.Durable, nowUs int64,
			events []hare.Event) ([]hare.Decision, error) {
			calls++
			decisions, err := p.Step(nowUs, events)
			if n := len(decisions); calls%3 == 0 && n > 1 && decisions[0].Type == hare.DecisionStart {
				decisions = append(decisions[1:n:n], decisions[0])
			}
			return decisions, err
		}},
		"adopts nothing": {
			adopt: func(online.Durable, int64, hare.Event, []hare.Decision) error { return nil }},
		"overwrites instead of appending": {
			save: func(p online.Durable, b []byte) []byte { return p.AppendSnapshot(b[:0]) }},
	}
	run := func(mu *mutant) error {
		s := Subject{
			Open: func(c *hare.Cluster, _ []hare.Job) (online.Policy, error) {
				p, err := online.NewFIFO(c)
				if mu == nil || err != nil {
					return p, err
				}
				made := *mu
				made.Durable = p
				return &made, nil
			},
			Restore: func(snapshot []byte) (online.Durable, error) {
				p, err := online.RestoreFIFO(snapshot)
				if mu == nil || err != nil {
					return p, err
				}
				made := *mu
				made.Durable = p
				return &made, nil
			},
		}
		for seed := range uint64(20) {
			if err := s.run(seed, 120); err != nil {
				return err
			}
		}
		return nil
	}
	if err := run(nil); err != nil {
		t.Fatal(err)
	}
	for name, mu := range mutants {
		if err := run(mu); err == nil {
			t.Errorf("the mutant that %s passes", name)
		}
	}
}
