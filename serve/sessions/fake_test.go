package sessions_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/wire"
)

// history is a policy whose decisions depend on every event and decision before: a lost,
// doubled or altered event changes all later decisions.
type history struct {
	Hash   uint64
	AtUs   int64
	Jobs   []string
	Breaks bool // fragile gives it a fault
	out    []hare.Decision
	buf    []byte
}

var _ online.Durable = (*history)(nil)

func newHistory(policy string, _ *hare.Cluster, parameters []byte) (online.Durable, error) {
	if policy != "history" {
		return nil, &hare.InvalidError{Pointer: "/policy", Code: "unknown_policy", Detail: "must be history"}
	}
	return &history{Hash: uint64(len(parameters))}, nil
}

func restoreHistory(_ string, state []byte) (online.Durable, error) {
	p := &history{}
	return p, json.Unmarshal(state, p)
}

func (p *history) AppendSnapshot(b []byte) []byte {
	s, _ := json.Marshal(p)
	return append(b, s...)
}

func (p *history) mix(e hare.Event, ds []hare.Decision) {
	h := fnv.New64a()
	p.buf = strconv.AppendUint(p.buf[:0], p.Hash, 16)
	p.buf = wire.AppendDecisions(wire.AppendEvent(p.buf, e), ds)
	h.Write(p.buf)
	p.Hash = h.Sum64()
	p.AtUs = e.AtUs
}

func (p *history) apply(e hare.Event) error {
	i, known := slices.BinarySearch(p.Jobs, e.Job)
	switch e.Type {
	case hare.EventJobArrived:
		if known {
			return &hare.InvalidError{Pointer: "/job/id", Code: "duplicate", Detail: "is there already"}
		}
		p.Jobs = slices.Insert(p.Jobs, i, e.Job)
	case hare.EventJobEnded, hare.EventJobCancelled:
		if !known {
			return &hare.InvalidError{Pointer: "/job", Code: "unknown_job", Detail: "no such job"}
		}
		p.Jobs = slices.Delete(p.Jobs, i, i+1)
	}
	return nil
}

func (p *history) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	p.out = p.out[:0]
	for i, e := range events {
		if nowUs < p.AtUs {
			return p.out, errors.New("time went back")
		}
		if err := p.apply(e); err != nil {
			return p.out, &online.RefusedError{Index: i, Err: err.(*hare.InvalidError)}
		}
		for n := range p.Hash % 3 {
			p.out = append(p.out, hare.Decision{Type: hare.DecisionType(n % 2),
				Job: "j" + strconv.FormatUint(p.Hash%97, 10), Round: int64(p.Hash >> 40), Task: int64(n), GPU: "a/0",
				AtUs: nowUs})
		}
		p.mix(e, p.out)
	}
	return p.out, nil
}

func (p *history) Adopt(nowUs int64, e hare.Event, ds []hare.Decision) error {
	if nowUs < p.AtUs {
		return errors.New("time went back")
	}
	if err := p.apply(e); err != nil {
		return err
	}
	p.mix(e, ds)
	return nil
}

// script makes n events that history accepts.
func script(seed uint64, n int) []hare.Event {
	rng := rand.New(rand.NewPCG(seed, 1))
	events := make([]hare.Event, n)
	var at int64
	var jobs []string
	for i := range events {
		at += rng.Int64N(3) * 1000
		e := hare.Event{Seq: int64(i + 1), AtUs: at}
		switch k := rng.IntN(10); {
		case k < 2 || len(jobs) == 0:
			e.Type, e.Job = hare.EventJobArrived, fmt.Sprintf("j%d", i)
			e.Arrived = &hare.Job{ID: e.Job, WeightMicro: 1e6, Tasks: 1,
				On: []hare.Profile{{Type: "V100", ComputeUs: 1_000_000}}}
			jobs = append(jobs, e.Job)
		case k == 2:
			j := rng.IntN(len(jobs))
			e.Type, e.Job = hare.EventJobEnded, jobs[j]
			jobs = slices.Delete(jobs, j, j+1)
		case k < 9:
			e.Type, e.Job, e.GPU, e.ComputeUs, e.SyncUs = hare.EventTaskEnded, jobs[rng.IntN(len(jobs))], "a/0",
				1_000_000, 1000
			e.Round, e.Task = rng.Int64N(100), rng.Int64N(4)
		}
		events[i] = e
	}
	return events
}

// undisturbed returns the answers of a session to events in a run without faults.
func undisturbed(t testing.TB, events []hare.Event) []string {
	t.Helper()
	p := &history{}
	lines := make([]string, len(events))
	for i, e := range events {
		ds, err := p.Step(e.AtUs, []hare.Event{e})
		if err != nil {
			t.Fatal(err)
		}
		lines[i] = line(hare.Answer{Seq: e.Seq, Decisions: ds})
	}
	return lines
}

func line(a hare.Answer) string { return string(wire.AppendAnswer(nil, a)) }

var cluster = hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 4}}}}}

// soak makes some tests as long as they are run before a release.
var soak = flag.Bool("hare.soak", false, "kill, damage and load for longer")

func sessionsConfig(store store.SessionStore) sessions.Config {
	return sessions.Config{Store: store, New: newHistory, Restore: restoreHistory, SnapshotEvery: 100,
		Retry: time.Millisecond}
}

func open(t testing.TB, cfg sessions.Config) *sessions.Sessions {
	t.Helper()
	s, err := sessions.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func create(t testing.TB, s *sessions.Sessions) *sessions.Session {
	t.Helper()
	e, err := s.Create(context.Background(), "", sessions.SessionConfig{Cluster: cluster, Policy: "history"})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// send submits events as fast as the session takes them, and returns the
// answers up to the first error.
func send(ctx context.Context, e *sessions.Session, events []hare.Event) (answers []string, err error) {
	promises := make([]*sessions.Promise, 0, len(events))
	for _, ev := range events {
		p, bad := e.Submit(ctx, ev)
		if bad != nil {
			err = bad
			break
		}
		promises = append(promises, p)
	}
	for _, p := range promises {
		a, bad := p.Wait(ctx)
		if bad != nil {
			return answers, bad
		}
		answers = append(answers, line(a))
	}
	return answers, err
}
