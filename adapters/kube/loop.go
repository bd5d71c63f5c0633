package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hare-sched/hare/adapters/advice"
	"github.com/hare-sched/hare/adapters/metrics"
)

// Step is one loop: it reads, lets the session plan, and lets Jobs go. An error means that nothing was
// written in this loop from then on; the cluster goes on either way.
func (h *Helper) Step(ctx context.Context) (*Result, error) {
	result, err := metrics.Run(&h.counted.Loops, func() (*Result, error) { return h.step(ctx) })
	h.counted.Sessions, h.counted.PlanSeconds = h.session.Begun, h.session.PlanSeconds
	h.shown.Set(h.counted.shown())
	return result, err
}

func (h *Helper) step(ctx context.Context) (*Result, error) {
	result := &Result{Leads: true}
	if h.cfg.Lease != nil && h.cfg.Write {
		leads, err := h.cfg.Lease.Hold(ctx, h.api)
		if err != nil {
			return nil, fmt.Errorf("the Lease %s/%s, by which helpers agree who writes: %w (--lease names another, or none)",
				h.cfg.Lease.Namespace, h.cfg.Lease.Name, err)
		}
		if result.Leads = leads; !leads {
			return result, nil
		}
	}
	s, err := h.read(ctx)
	if err != nil {
		return nil, err
	}
	freed, changed, err := h.free(ctx, s)
	if err != nil {
		return nil, err
	}
	if changed {
		// They take part again, as they are now.
		if s, err = h.read(ctx); err != nil {
			return nil, err
		}
	}
	result.Freed = freed
	plan, err := h.session.Plan(ctx, h.forSession(s))
	if err != nil {
		return nil, fmt.Errorf("no plan, no Job is let go: %w", err)
	}
	result.Plan, result.Left = plan, s.left
	updates := h.choose(s, h.session.Order(plan), result)
	if h.cfg.Kueue {
		// First choices that did not help are taken back, and the order is set; then types are chosen, by which
		// Kueue may admit Workloads at once.
		updates = slices.Concat(h.undoChoices(s, result), h.order(s, result), updates)
		updates = updates[:min(len(updates), h.cfg.MaxUpdates)]
		h.forget(s)
	}
	h.counted.Waiting, h.counted.LeftAlone = int64(len(s.waiting)), 0
	for _, n := range s.left {
		h.counted.LeftAlone += int64(n)
	}
	for i := range updates {
		done, err := h.let(ctx, &updates[i])
		if err != nil {
			return result, err
		}
		if done {
			result.Updates = append(result.Updates, updates[i])
		}
	}
	h.tellExpected(ctx, s, result)
	return result, nil
}

// Limits of the Events that say when a Job is expected to start.
const (
	tellEvery        = 30 * time.Second
	mostExpectations = 20          // at a time
	leastChange      = time.Minute // that is worth another Event
	changedShare     = 5           // the change must also be a fifth of the wait
)

// tellExpected tells the users of Jobs that wait, by Events, when the plan expects them to start: at first, and
// again where the expectation has changed by much.
func (h *Helper) tellExpected(ctx context.Context, s *state, result *Result) {
	now, sent := h.now(), 0
	if !h.cfg.Events || !h.cfg.Write || now.Sub(h.toldAt) < tellEvery {
		return
	}
	h.toldAt = now
	waiting := map[string]bool{}
	for i := range result.Waiting {
		t := &result.Waiting[i]
		j := s.waiting[t.Job]
		if j == nil || t.Why == "" || t.StartS < 0 {
			continue
		}
		uid := j.Metadata.UID
		waiting[uid] = true
		start := now.Add(time.Duration(t.StartS) * time.Second)
		before, known := h.told[uid]
		if change := start.Sub(before).Abs(); known && (change < leastChange || change < start.Sub(now)/changedShare) {
			continue
		}
		if sent++; sent > mostExpectations {
			continue // the others are informed later
		}
		h.told[uid] = start
		note := fmt.Sprintf("Hare expects the Job to start in %s on %s, if jobs take as long as believed and nobody comes",
			(time.Duration(t.StartS) * time.Second).Round(time.Second), strings.Join(t.Types, " or "))
		h.event(ctx, &Update{Job: t.Job, UID: uid, of: j}, "HareExpected", "Plan", note)
	}
	for uid := range h.told {
		if !waiting[uid] {
			delete(h.told, uid)
		}
	}
}

// choose finds the Jobs that the plan starts now and that there is room for.
func (h *Helper) choose(s *state, order []advice.Planned, result *Result) (updates []Update) {
	kept := h.keepChoices(s)
	for _, t := range order {
		j := s.waiting[t.ID]
		if j == nil {
			continue
		}
		w := Waiting{Job: t.ID, Types: t.Types, StartS: t.StartS}
		r, wasRefused := h.refused[j.Metadata.UID]
		switch {
		case kept[t.ID]: // was chosen before, and waits for Kueue
		case !t.Now:
			w.Why = "the plan starts it later"
		case len(updates) >= h.cfg.MaxUpdates:
			w.Why = "a loop lets no more Jobs go"
		case wasRefused && h.now().Before(r.until):
			w.Why = "the API server refused it before, or Kueue did not admit it on the type chosen"
		case !h.fitsNow(s, j, t.Types[0]):
			w.Why = "its nodes lack room for its pods now, or might when all pods that were let go are bound"
		case j.work != nil:
			updates = append(updates, h.chooseType(j, t.Types[0], fmt.Sprintf("place %d in the plan, %d pods fit on %s now",
				t.Place, j.pods(), t.Types[0])))
		default:
			updates = append(updates, h.update(j, t))
		}
		result.Waiting = append(result.Waiting, w)
	}
	return updates
}

// update is the patch that lets a Job go on a type. The resourceVersion makes it fail where somebody
// else has changed the Job since it was read.
func (h *Helper) update(j *job, t advice.Planned) Update {
	gpuType := t.Types[0]
	annotations := map[string]string{StartedAnnotation: gpuType}
	if j.choosesOpen(h.cfg.TypeLabel) {
		annotations[SelectorAnnotation] = h.cfg.TypeLabel
	}
	patch := map[string]any{
		"metadata": map[string]any{"resourceVersion": j.Metadata.ResourceVersion, "annotations": annotations},
		"spec": map[string]any{"suspend": false, "template": map[string]any{
			"spec": map[string]any{"nodeSelector": map[string]string{h.cfg.TypeLabel: gpuType}}}},
	}
	text, _ := json.Marshal(patch) // maps of strings are always JSON
	if j.sets != nil {
		text = j.goPatch(h.cfg.TypeLabel, gpuType)
	}
	return Update{Job: j.id(), UID: j.Metadata.UID, Type: gpuType, Old: "suspended",
		New:    h.cfg.TypeLabel + "=" + gpuType,
		Reason: fmt.Sprintf("place %d in the plan, %d pods fit on %s now", t.Place, j.pods(), gpuType),
		path:   j.path(), patch: text, of: j}
}

// Release is for the day when Hare is taken away: it finds the suspended Jobs that take part, the oldest
// first, and lets them go without a choice of their GPU type where Write is set. Under Kueue it takes back
// what was written on Workloads that wait.
func (h *Helper) Release(ctx context.Context) (*Result, error) {
	s, err := h.read(ctx)
	if err != nil {
		return nil, err
	}
	result := &Result{Leads: true, Left: s.left}
	if h.cfg.Kueue {
		updates := h.releaseWorkloads(s)
		for i := range updates {
			if i >= h.cfg.MaxUpdates {
				result.Waiting = append(result.Waiting, Waiting{Job: updates[i].Job, StartS: -1,
					Why: "one call changes no more Workloads"})
				continue
			}
			done, err := h.let(ctx, &updates[i])
			if err != nil {
				return result, err
			}
			if done {
				result.Updates = append(result.Updates, updates[i])
			}
		}
		return result, nil
	}
	for _, j := range s.jobs {
		if !j.Spec.Suspend || !h.takesPart(j) {
			continue
		}
		if why := h.whyNot(s, j); why != "" && why != unclearRule+j.Spec.Template.Spec.selects(h.cfg.TypeLabel).unclear &&
			why != unclearRule+j.Spec.Template.Spec.unclear {
			s.left[why]++
			continue
		}
		if h.cfg.Write && j.ours(h.cfg.TypeLabel) && j.Metadata.Annotations[StartedAnnotation] == "" {
			// It was freed, and still has the node selector of the type.
			if _, err := h.unselect(ctx, j); err != nil {
				return result, err
			}
		}
		text, _ := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": j.Metadata.ResourceVersion},
			"spec": map[string]any{"suspend": false}})
		if j.sets != nil {
			text = j.goPatch("", "")
		}
		u := Update{Job: j.id(), UID: j.Metadata.UID, Old: "suspended", New: "let go", Reason: "release",
			path: j.path(), patch: text, of: j}
		if len(result.Updates) >= h.cfg.MaxUpdates {
			result.Waiting = append(result.Waiting, Waiting{Job: u.Job, StartS: -1, Why: "one call lets no more Jobs go"})
			continue
		}
		done, err := h.let(ctx, &u)
		if err != nil {
			return result, err
		}
		if done {
			result.Updates = append(result.Updates, u)
		}
	}
	return result, nil
}
