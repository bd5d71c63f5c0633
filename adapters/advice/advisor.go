// Package advice keeps an online session in step with a cluster that another scheduler runs, and
// reads from the session's plan which job should start next on which GPU type.
package advice

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/internal/atomicfile"
	"github.com/hare-sched/hare/online"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/wire"
	sessiondoc "github.com/hare-sched/hare/wire/sessions"
)

// Advisor is a session that orders jobs by a policy that plans.
type Advisor interface {
	// Open begins a session on a cluster and returns its name.
	Open(ctx context.Context, cluster *hare.Cluster) (name string, err error)
	// Apply sends the session events. Events that were sent before get the same answers.
	Apply(ctx context.Context, events []hare.Event) ([]hare.Answer, error)
	// Plan describes the plan that the session follows.
	Plan(ctx context.Context) (*wire.SessionPlan, error)
}

// policyName is the policy that advises. Its parameters let it plan once a loop, however short
// the loops are, and start nothing before it has.
const (
	policyName       = "rolling"
	policyParameters = `{"aside":true,"plan_every_s":0,"wait_for_plan":true}`
)

// InProcess is a session in this process.
type InProcess struct {
	// Dir is where the log of a session is, which hare online replay reads, and what hare serve --follow shows; ""
	// means neither.
	Dir string
	// Helper is slurm, kube or ray, and Every the time between two loops at most: see sessiondoc.HelperState.
	Helper string
	Every  time.Duration

	policy online.Planned
	out    *os.File
	plan   []byte // was taken, and no event is in the log with it yet
	last   hare.Event
}

var _ Advisor = (*InProcess)(nil)

// Open begins a session.
func (p *InProcess) Open(_ context.Context, cluster *hare.Cluster) (string, error) {
	parameters := []byte(policyParameters)
	opened, err := registry.OpenSession(policyName, cluster, parameters)
	if err != nil {
		return "", err
	}
	planned, ok := opened.(online.Planned)
	if !ok {
		return "", errors.New("advice: the policy makes no plans")
	}
	p.policy, p.plan, p.last = planned, nil, hare.Event{}
	if p.out != nil {
		_ = p.out.Close()
		p.out = nil
	}
	if p.Dir == "" {
		return "", nil
	}
	name := fmt.Sprintf("session-%s-%d.ndjson", time.Now().UTC().Format("20060102T150405.000"), os.Getpid())
	p.out, err = os.OpenFile(filepath.Join(p.Dir, name), os.O_CREATE|os.O_WRONLY|os.O_EXCL, fileMode(p.Dir))
	if err != nil {
		return "", err
	}
	_, err = p.out.Write(append(wire.AppendLogHeader(nil, &wire.LogHeader{Policy: policyName, Parameters: parameters,
		Clock: "events", Cluster: *cluster}), '\n'))
	return "", err
}

// Apply tells the session events and lets it plan before the last one, which is a tick.
func (p *InProcess) Apply(ctx context.Context, events []hare.Event) (answers []hare.Answer, err error) {
	if p.policy == nil {
		return nil, errors.New("advice: no session is open")
	}
	w := bufio.NewWriter(io.Discard)
	if p.out != nil {
		w = bufio.NewWriter(p.out)
	}
	defer func() { err = errors.Join(err, w.Flush()) }()
	for i, e := range events {
		if i == len(events)-1 {
			if err := p.ask(ctx); err != nil {
				return answers, err
			}
		}
		decisions, err := p.policy.Step(e.AtUs, []hare.Event{e})
		if err != nil {
			return answers, err
		}
		kept := append([]hare.Decision(nil), decisions...)
		line := append(wire.AppendRecord(nil, wire.Record{Event: e, Plan: p.plan, Decisions: kept}), '\n')
		if _, err := w.Write(line); err != nil {
			return answers, err
		}
		p.plan, p.last = nil, e
		answers = append(answers, hare.Answer{Seq: e.Seq, Decisions: kept})
	}
	return answers, nil
}

// ask makes the next plan, where one is due, and lets the policy take it.
func (p *InProcess) ask(ctx context.Context) error {
	question := p.policy.Ask()
	if question == nil {
		return nil
	}
	plan, err := question.Answer(ctx)
	if err != nil {
		return err
	}
	if err := p.policy.Take(plan); err != nil {
		return err
	}
	p.plan = plan
	return nil
}

// Plan describes the plan that the session follows.
func (p *InProcess) Plan(context.Context) (*wire.SessionPlan, error) {
	if p.policy == nil {
		return nil, errors.New("advice: no session is open")
	}
	status := p.policy.Plan()
	return status.Document(policyName, p.last.Seq, p.last.AtUs), nil
}

// show writes what the session is like for servers that follow it, of a cluster as it was told.
func (p *InProcess) show(told *mirror, now *State) error {
	if p.out == nil {
		return nil
	}
	doc := sessiondoc.HelperState{Form: sessiondoc.HelperForm, Helper: p.Helper, Log: filepath.Base(p.out.Name()),
		Origin: time.UnixMicro(told.OriginUs).UTC(), Written: time.Now().UTC(), EveryS: p.Every.Seconds(),
		Seq: p.last.Seq, AtUs: p.last.AtUs, Jobs: map[string]sessiondoc.HelperJob{}, State: p.policy.AppendSnapshot(nil)}
	for _, j := range now.byType() {
		if j.Spec == nil {
			continue
		}
		if t := told.Jobs[j.Spec.ID]; t != nil && j.State != Ended {
			doc.Jobs[j.Spec.ID] = sessiondoc.HelperJob{Name: j.Name, User: j.User, Next: t.GPUs != nil && !t.Started}
		}
	}
	text, err := json.Marshal(&doc)
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(p.Dir, sessiondoc.HelperFile), fileMode(p.Dir), text)
}

// fileMode lets those read a file who may read its directory.
func fileMode(dir string) os.FileMode {
	info, err := os.Stat(dir)
	if err != nil {
		return 0o600
	}
	return info.Mode().Perm()&0o644 | 0o600
}

// Remote is a session of a server.
type Remote struct {
	Client  *client.Client
	Session string // continue this session; empty means that Open makes one
}

var _ Advisor = (*Remote)(nil)

// Open makes a session on the server.
func (r *Remote) Open(ctx context.Context, cluster *hare.Cluster) (string, error) {
	s, err := r.Client.CreateSession(ctx, &wire.SessionRequest{Cluster: *cluster, Policy: policyName,
		Parameters: []byte(policyParameters)})
	if err != nil {
		return "", fmt.Errorf("advice: open a session: %w", err)
	}
	r.Session = s.ID
	return s.ID, nil
}

// Apply sends events.
func (r *Remote) Apply(ctx context.Context, events []hare.Event) ([]hare.Answer, error) {
	return r.Client.Apply(ctx, &sessiondoc.Session{ID: r.Session, Clock: "events"}, events...)
}

// Plan asks for the plan.
func (r *Remote) Plan(ctx context.Context) (*wire.SessionPlan, error) {
	return r.Client.SessionPlan(ctx, r.Session)
}
