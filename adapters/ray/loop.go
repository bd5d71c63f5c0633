package ray

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hare-sched/hare/adapters/metrics"
)

// Result is what a loop did.
type Result struct {
	Starts []Start // that were submitted, or would have been
	// Ended lists the jobs whose end was read.
	Ended                    []*Entry
	Waiting, Active, NoRoom  int // NoRoom counts waiting jobs that no node could run
	PlanError                error
	InOrder                  bool // no plan came for long: first come, first served
	SubmitErrors, StopErrors []error
}

// Step is one loop: it reads what Ray does, notes it, lets the session plan, and submits what starts. An
// error means that Ray, or the directory of the queue, could not be read or written.
func (h *Helper) Step(ctx context.Context) (*Result, error) {
	h.counted.Leads = h.epoch > 0
	result, err := metrics.Run(&h.counted.Loops, func() (*Result, error) { return h.step(ctx) })
	h.counted.Sessions, h.counted.PlanSeconds = h.session.Begun, h.session.PlanSeconds
	if errors.Is(err, errFenced) {
		h.Resign()
	}
	h.shown.Set(h.counted.shown())
	return result, err
}

func (h *Helper) step(ctx context.Context) (*Result, error) {
	if h.cfg.Write && h.epoch == 0 {
		return nil, errFenced
	}
	if !h.cfg.Write {
		h.journal.read = nil // a dry run changed the queue in memory
	}
	if err := h.journal.Refresh(); err != nil {
		return nil, err
	}
	v, err := h.dashboard.read(ctx)
	if err != nil {
		return nil, err
	}
	h.tellUnread(v)
	if slices.ContainsFunc(v.nodes, func(n *node) bool { return !n.selectable }) {
		h.byType = true
	}
	for _, n := range v.nodes {
		n.outOfReach = !n.reach(h.byType)
	}
	before := map[string]State{}
	for _, e := range h.journal.Queue.Entries {
		before[e.ID] = e.State
	}
	if err := h.update(ctx, func(q *Queue) []Record { return h.follow(q, v) }); err != nil {
		return nil, err
	}
	result := &Result{}
	for _, e := range h.journal.Queue.Entries {
		if e.State.Ended() && before[e.ID] != e.State {
			result.Ended = append(result.Ended, e)
			h.counted.Ended++
		}
	}
	if h.cfg.Write {
		if result.StopErrors, err = h.stopCancelled(ctx, v); err != nil {
			return nil, err
		}
		for _, e := range h.journal.Queue.active() {
			if e.State == Starting && !e.Seen && v.jobs[e.SubmissionID()] == nil {
				result.addSubmit(h.post(ctx, e))
			}
		}
	}
	q := &h.journal.Queue
	v.count(q)
	starts := h.plan(ctx, q, v, result)
	if err := h.start(ctx, starts, result); err != nil {
		return nil, err
	}
	h.counted.Stuck = 0
	for _, e := range q.Entries {
		if e.State == Starting && h.now().UnixMicro()-e.StartUs >= stuckUs {
			h.counted.Stuck++
		}
		switch {
		case e.State == Waiting:
			result.Waiting++
			if len(v.typesFor(&e.Spec)) == 0 {
				result.NoRoom++
			}
		case !e.State.Ended():
			result.Active++
		}
	}
	h.counted.Waiting, h.counted.Active, h.counted.NoRoom = result.Waiting, result.Active, result.NoRoom
	if !h.cfg.Write {
		return result, nil
	}
	return result, h.journal.Compact(ctx, h.epoch, h.now().Add(-h.cfg.Keep).UnixMicro(), h.now())
}

func (r *Result) addSubmit(err error) {
	if err != nil {
		r.SubmitErrors = append(r.SubmitErrors, err)
	}
}

// plan chooses what starts now.
func (h *Helper) plan(ctx context.Context, q *Queue, v *view, result *Result) (starts []Start) {
	if len(v.nodes) == 0 {
		result.PlanError = errors.New("no node with GPUs is alive")
		return nil
	}
	plan, err := h.session.Plan(ctx, v.forSession(q, h.now().UnixMicro(), h.others, h.cfg.Speeds))
	if err != nil {
		h.counted.PlanFailures++
		result.PlanError = err
		if without := h.now().Sub(h.lastPlan); without >= h.cfg.FallbackAfter {
			result.InOrder = true
			h.counted.InOrder++
			return v.inOrder(q, fmt.Sprintf("first come, first served: no plan for %s", without.Round(time.Second)))
		}
		return nil
	}
	h.lastPlan = h.now()
	for _, p := range h.session.Order(plan) {
		e := q.Get(p.ID)
		if !p.Now || e == nil || e.State != Waiting || len(p.GPUs) == 0 || len(p.GPUs[0]) == 0 {
			continue
		}
		name, _, _ := strings.Cut(p.GPUs[0][0], "/")
		n := v.named(name)
		if n == nil || !n.fits(&e.Spec) || !n.free().covers(e.Spec.needs()) {
			continue
		}
		n.ours = n.ours.plus(e.Spec.needs())
		starts = append(starts, Start{Job: e.ID, Name: e.Spec.Name, GPUs: e.Spec.GPUs, Node: n.name, NodeID: n.id,
			Type: n.gpuType, Reason: fmt.Sprintf("place %d in the plan, on %s", p.Place, n.gpuType)})
	}
	return starts
}

// start notes starts in the journal and then submits them. A job that was cancelled meanwhile is left
// out.
func (h *Helper) start(ctx context.Context, starts []Start, result *Result) error {
	if len(starts) == 0 {
		return nil
	}
	if !h.cfg.Write {
		result.Starts = starts
		return nil
	}
	session, err := h.dashboard.session(ctx)
	if err != nil {
		return err
	}
	var kept []Start
	err = h.update(ctx, func(q *Queue) (records []Record) {
		kept = kept[:0]
		for _, s := range starts {
			e := q.Get(s.Job)
			if e == nil || e.State != Waiting || e.Cancel {
				continue
			}
			kept = append(kept, s)
			records = append(records, Record{Event: eventStart, Job: s.Job, Attempt: e.Attempt + 1, Node: s.Node,
				NodeID: s.NodeID, Type: s.Type, Session: session, Reason: s.Reason, Pinned: s.NodeID != "" && !h.byType})
		}
		return records
	})
	if err != nil {
		return err
	}
	result.Starts = kept
	h.counted.Submitted += int64(len(kept))
	for _, s := range kept {
		h.cfg.Logger.Info("submit", "job", s.Job, "node", s.Node, "type", s.Type, "reason", s.Reason)
		result.addSubmit(h.post(ctx, h.journal.Queue.Get(s.Job)))
	}
	return nil
}

// stuckUs is after how long a job that Ray has and does not begin counts as stuck. Ray gives it up after a while (15
// minutes unless it was set otherwise), and it waits again.
const stuckUs = 60 * 1_000_000

// maxRefusals is how often Ray in good health may fail to take a job.
const maxRefusals = 5

// post submits an attempt that is in the journal. An attempt that Ray has already is submitted: it
// answers 500 then, as for any other fault, so that it is asked what it has. What remains unclear is
// submitted again in the next loop, under the same name, which Ray takes once.
func (h *Helper) post(ctx context.Context, e *Entry) error {
	s := h.submissionOf(e)
	h.journal.crash("before submit")
	err := h.dashboard.submit(ctx, s)
	h.journal.crash("after submit")
	var answer *AnswerError
	if err == nil || !errors.As(err, &answer) {
		return err
	}
	if answer.Status == http.StatusBadRequest && s.Labels != nil &&
		strings.Contains(answer.Text, "entrypoint_label_selector") {
		h.byType = true
		return fmt.Errorf("this Ray takes no selector of labels: jobs are sent to GPU types, not to nodes: %w", err)
	}
	if answer.Status == http.StatusUnauthorized || answer.Status == http.StatusForbidden {
		return err
	}
	has, asked := h.dashboard.job(ctx, s.SubmissionID)
	if asked != nil || has != nil {
		return asked
	}
	h.refusals[s.SubmissionID]++
	if answer.Status != http.StatusBadRequest && h.refusals[s.SubmissionID] < maxRefusals {
		return fmt.Errorf("the job %s is not taken yet: %w", e.ID, err)
	}
	delete(h.refusals, s.SubmissionID)
	now := h.now().UnixMicro()
	return errors.Join(err, h.update(ctx, func(*Queue) []Record {
		return []Record{{Event: eventEnd, Job: e.ID, State: Refused, EndUs: now,
			Reason: "Ray does not take the job: " + answer.Text}}
	}))
}
