// Package kube helps a Kubernetes that runs: it reads nodes, pods and Jobs, lets a session plan by the
// policy rolling, and lets suspended Jobs that take part go, each on the GPU type of the plan, when
// there is room for all of their pods. It stops and deletes nothing that runs; a Job none of whose pods finds
// a node of the type is suspended again. Under Kueue it writes Workloads alone: the GPU type of those that
// start next, and the order of queues that opted in.
package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hare-sched/hare/adapters/advice"
	"github.com/hare-sched/hare/adapters/metrics"
	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/wire"
)

// Config says what the helper does. Zero values are sane but for those that say otherwise.
type Config struct {
	// Write lets Jobs go. Otherwise the API server checks each write and does nothing (dryRun=All).
	Write bool
	// Kueue makes the helper read and write the Workloads of Kueue in place of Jobs.
	Kueue bool
	// TypeLabel is the label of nodes that names their GPU type; "" means nvidia.com/gpu.product.
	TypeLabel string
	// Namespaces are those whose suspended Jobs take part without the annotation ManagedAnnotation.
	Namespaces []string
	// PlanTime is how long a plan may take; zero means 5 s.
	PlanTime time.Duration
	// MaxUpdates limits the Jobs that one loop lets go; zero means 100.
	MaxUpdates int
	// Events lets the helper write an Event for each Job that it lets go.
	Events bool
	// Speeds are the relative speeds of GPU types; nil means those that Hare brings along.
	Speeds *history.Speeds
	// StateFile keeps what a session of a server was told; "" means none.
	StateFile string
	// Lease is by which several helpers agree who writes; nil means that this one always does.
	Lease *Lease
	// Logger gets writes and what they failed of; nil means slog.Default().
	Logger *slog.Logger
}

func (c *Config) validate() error {
	if c.TypeLabel == "" {
		c.TypeLabel = history.TypeLabels[0]
	}
	if c.PlanTime == 0 {
		c.PlanTime = 5 * time.Second
	}
	if c.MaxUpdates == 0 {
		c.MaxUpdates = 100
	}
	if c.PlanTime < 0 || c.MaxUpdates < 0 {
		return errors.New("kube: the time of a plan and the number of updates must be positive")
	}
	if strings.ContainsAny(c.TypeLabel, " \t\n") {
		return fmt.Errorf("kube: %q is no label of nodes: give one such as nvidia.com/gpu.product", c.TypeLabel)
	}
	if c.Speeds == nil {
		c.Speeds = history.ShippedSpeeds()
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return nil
}

// Helper is the loop. It is not safe for concurrent use, but for Metrics.
type Helper struct {
	cfg     Config
	api     API
	session *advice.Session
	journal *Journal
	now     func() time.Time
	// versions are of the lists that were read last, by path.
	versions map[string]string
	refused  map[string]refusal   // by UID, Jobs that the API server did not let go
	told     map[string]time.Time // by UID, the start that a Job's user was last told to expect
	toldAt   time.Time            // when users were last told
	counted  counters
	shown    *metrics.Shown
	report   *history.Report // of the last reading

	kueueVersion string               // of Kueue's objects
	chosenAt     map[string]time.Time // by UID, when the type of a Workload that waits was chosen

	setsSeen map[*setKind]bool // kinds that were listed before
	warned   map[string]bool   // what was logged: kinds that may not be listed, UIDs and values that cannot be read
}

// refusal is a Job that could not be let go.
type refusal struct {
	until time.Time
	wait  time.Duration
}

// Waits after a refusal; each further one doubles the wait.
const (
	firstRefusalWait = time.Minute
	lastRefusalWait  = time.Hour
)

// New makes a helper. It asks nothing.
func New(cfg Config, api API, advisor advice.Advisor, journal *Journal) (*Helper, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	session := &advice.Session{Advisor: advisor, StateFile: cfg.StateFile, Logger: cfg.Logger}
	session.Resume()
	return &Helper{cfg: cfg, api: api, session: session, journal: journal, now: time.Now,
		refused: map[string]refusal{}, told: map[string]time.Time{}, chosenAt: map[string]time.Time{},
		setsSeen: map[*setKind]bool{}, warned: map[string]bool{},
		shown: metrics.New("hare_kube_", new(counters).shown())}, nil
}

// Update is one Job that the helper lets go, or would let go.
type Update struct {
	Job    string `json:"job"` // namespace/name
	UID    string `json:"uid"`
	Type   string `json:"type"` // GPU type of the node selector
	Old    string `json:"old"`
	New    string `json:"new"`
	Reason string `json:"reason"`
	path   string
	patch  []byte // of what is not a Workload
	of     *job   // nil for Workloads
	frees  bool   // the Job, which was let go before

	work       *workload // that is patched; nil for Jobs
	operations []patchOperation
}

// Turn is what the plan says of a Job that waits.
type Turn struct {
	Job    string   `json:"job"`
	Types  []string `json:"types"`
	StartS int64    `json:"start_s"` // from now; −1 where the plan does not say
	Why    string   `json:"why"`     // why it is not let go now; "" where it is
}

// Result is what one loop did.
type Result struct {
	Updates []Update // that were made, or would have been
	Freed   []Update // that took Jobs back which cannot start
	Turns   []Turn   // the jobs that wait, in the order of the plan
	// Left says why suspended Jobs that opted in were left alone, by reason.
	Left map[string]int
	// Unordered names the ClusterQueues whose order the helper leaves alone, and why.
	Unordered []string
	Plan      *wire.SessionPlan
	// Leads reports whether this helper may write; others only plan.
	Leads bool
}

// Step is one loop: it reads, lets the session plan, and lets Jobs go. An error means that nothing was
// written in this loop from then on; the cluster goes on either way.
func (h *Helper) Step(ctx context.Context) (*Result, error) {
	began := time.Now()
	h.counted.Loops++
	result, err := h.step(ctx)
	h.counted.LoopSeconds = time.Since(began).Seconds()
	if err != nil {
		h.counted.Failures++
	} else {
		h.counted.LastSuccess = time.Now().Unix()
	}
	h.counted.Sessions = h.session.Begun
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
	told := h.forSession(s)
	planCtx, cancel := context.WithTimeout(ctx, h.cfg.PlanTime)
	defer cancel()
	began := time.Now()
	plan, err := h.session.Plan(planCtx, told)
	h.counted.PlanSeconds = time.Since(began).Seconds()
	if err != nil {
		return nil, fmt.Errorf("no plan, no Job is let go: %w", err)
	}
	result.Plan, result.Left = plan, s.left
	updates := h.choose(s, h.session.Turns(plan), result)
	if h.cfg.Kueue {
		// First what was chosen in vain is taken back, and the order is set; then types are chosen, by which
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
	for i := range result.Turns {
		t := &result.Turns[i]
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
			continue // the others are told later
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
func (h *Helper) choose(s *state, turns []advice.Turn, result *Result) (updates []Update) {
	kept := h.keepChoices(s)
	for _, t := range turns {
		j := s.waiting[t.ID]
		if j == nil {
			continue
		}
		turn := Turn{Job: t.ID, Types: t.Types, StartS: t.StartS}
		r, wasRefused := h.refused[j.Metadata.UID]
		switch {
		case kept[t.ID]: // was chosen before, and waits for Kueue
		case !t.Now:
			turn.Why = "its turn comes later"
		case len(updates) >= h.cfg.MaxUpdates:
			turn.Why = "a loop lets no more Jobs go"
		case wasRefused && h.now().Before(r.until):
			turn.Why = "the API server refused it before, or Kueue did not admit it on the type chosen"
		case !h.fitsNow(s, j, t.Types[0]):
			turn.Why = "its nodes lack room for its pods now, or might when all pods that were let go are bound"
		case j.work != nil:
			updates = append(updates, h.chooseType(j, t.Types[0], fmt.Sprintf("turn %d in the plan, %d pods fit on %s now",
				t.Turn, j.pods(), t.Types[0])))
		default:
			updates = append(updates, h.update(j, t))
		}
		result.Turns = append(result.Turns, turn)
	}
	return updates
}

// update is the patch that lets a Job go on a type. The resourceVersion makes it fail where somebody
// else has changed the Job since it was read.
func (h *Helper) update(j *job, t advice.Turn) Update {
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
		Reason: fmt.Sprintf("turn %d in the plan, %d pods fit on %s now", t.Turn, j.pods(), gpuType),
		path:   j.path(), patch: text, of: j}
}

// fieldManager is the name under which the API server knows the helper's writes.
const fieldManager = "fieldManager=hare"

// let lets one Job go, or has the API server check that it could. A write stands in the journal before
// it is made. An error means that the API server does not answer, or that this helper may no longer
// write.
func (h *Helper) let(ctx context.Context, u *Update) (done bool, err error) {
	path := u.path + "?" + fieldManager
	if !h.cfg.Write {
		path += "&dryRun=All"
	} else {
		if h.cfg.Lease != nil && !h.cfg.Lease.Held() {
			return false, errors.New("the lease ran out before the writes were made: the next loop goes on")
		}
		if err := h.journal.record("write", u, nil, h.now()); err != nil {
			return false, fmt.Errorf("nothing is written: %w", err)
		}
	}
	patch, kind := u.patch, "application/merge-patch+json"
	var after struct {
		Metadata struct{ ResourceVersion string }
	}
	switch {
	case u.work != nil:
		patch, kind = u.jsonPatch(), "application/json-patch+json"
	case u.of.sets != nil:
		kind = "application/json-patch+json"
	}
	err = call(ctx, h.api, http.MethodPatch, path, kind, patch, &after)
	switch status := statusOf(err); {
	case err == nil:
		delete(h.refused, u.UID)
		if h.cfg.Write {
			h.counted.Updates++
			h.cfg.Logger.Info("written", "job", u.Job, "old", u.Old, "new", u.New, "reason", u.Reason)
			switch {
			case u.frees:
				h.event(ctx, u, "HareFreed", "Suspend", "Hare took the "+u.of.kind()+" back from "+u.Type+", "+u.Reason)
			case u.work == nil:
				h.event(ctx, u, "HareStarted", "Unsuspend", "Hare let the "+u.of.kind()+" go on "+u.Type+": "+u.Reason)
			case u.Type != "":
				h.event(ctx, u, "HareChose", "ChooseType", "Hare chose "+u.Type+" for the Workload: "+u.Reason)
			}
			if u.work != nil && after.Metadata.ResourceVersion != "" {
				u.work.Metadata.ResourceVersion = after.Metadata.ResourceVersion
			}
		}
		return true, nil
	case status == 0, status == http.StatusTooManyRequests, status >= 500:
		h.counted.WriteFailures++
		return false, fmt.Errorf("PATCH %s: %w", u.path, err)
	case status == http.StatusConflict, status == http.StatusNotFound:
		h.counted.Conflicts++ // somebody else has changed or deleted the Job: the next loop sees how
		h.note("conflict", u, err)
		return false, nil
	default:
		h.counted.Refused++
		r := h.refused[u.UID]
		r.wait = min(max(2*r.wait, firstRefusalWait), lastRefusalWait)
		r.until = h.now().Add(r.wait)
		h.refused[u.UID] = r
		h.note("refused", u, err)
		return false, nil
	}
}

// note says in log and journal that a write had no effect.
func (h *Helper) note(event string, u *Update, err error) {
	h.cfg.Logger.Warn("the API server did not take a write", "job", u.Job, "error", err.Error())
	if h.cfg.Write {
		if err := h.journal.record(event, u, err, h.now()); err != nil {
			h.cfg.Logger.Warn("the journal cannot be written", "error", err.Error())
		}
	}
}

// event tells a Job's user something by an Event. Nothing depends on it.
func (h *Helper) event(ctx context.Context, u *Update, reason, action, note string) {
	if !h.cfg.Events {
		return
	}
	namespace, name, _ := strings.Cut(u.Job, "/")
	apiVersion, kind := "batch/v1", "Job"
	switch {
	case h.cfg.Kueue:
		apiVersion, kind = "kueue.x-k8s.io/"+h.kueueVersion, "Workload"
	case u.of != nil && u.of.sets != nil:
		namespace, apiVersion, kind = u.of.Metadata.Namespace, u.of.sets.kind.version, u.of.sets.kind.kind
	}
	at := h.now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")
	text, _ := json.Marshal(map[string]any{
		"apiVersion": "events.k8s.io/v1", "kind": "Event",
		"metadata":            map[string]any{"generateName": "hare-", "namespace": namespace},
		"eventTime":           at,
		"type":                "Normal",
		"reason":              reason,
		"action":              action,
		"note":                note,
		"reportingController": "hare.dev/kube",
		"reportingInstance":   "hare",
		"regarding": map[string]any{"apiVersion": apiVersion, "kind": kind, "namespace": namespace, "name": name,
			"uid": u.UID},
	})
	path := "/apis/events.k8s.io/v1/namespaces/" + url.PathEscape(namespace) + "/events?" + fieldManager
	if err := call(ctx, h.api, http.MethodPost, path, "application/json", text, nil); err != nil {
		h.cfg.Logger.Warn("an Event could not be written", "job", u.Job, "error", err.Error())
	}
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
				result.Turns = append(result.Turns, Turn{Job: updates[i].Job, StartS: -1,
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
			result.Turns = append(result.Turns, Turn{Job: u.Job, StartS: -1, Why: "one call lets no more Jobs go"})
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

// Reasons lists the reasons of Left, the most frequent first.
func (r *Result) Reasons() (reasons []string) {
	for reason := range r.Left {
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Left[b], r.Left[a]), strings.Compare(a, b))
	})
	return reasons
}
