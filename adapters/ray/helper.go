// Package ray starts jobs on a Ray cluster by a plan. Ray has no order of jobs, and lets those that find
// no room fail after a while; so the queue is Hare's own, a journal on disk, and Ray is given a job when
// the plan starts it and its GPUs are free.
//
// The files lie in layers: the queue on disk (spec, queue, journal, submit), what Ray says (dashboard, cluster), the
// helper, what becomes of jobs that Ray has (follow), and the loop.
package ray

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"net/http"

	"github.com/hare-sched/hare/adapters/advice"
	"github.com/hare-sched/hare/adapters/metrics"
	"github.com/hare-sched/hare/history"
)

// Config says what the helper does.
type Config struct {
	// Write lets the helper submit and stop jobs; otherwise it only says what it would submit.
	Write bool
	// PlanTime limits how long a plan may take; 0 means 5 s.
	PlanTime time.Duration
	// FallbackAfter is how long no plan must have come before jobs start first come, first served;
	// 0 means a minute.
	FallbackAfter time.Duration
	// Keep is how long jobs that have ended stay in the journal; 0 means a week.
	Keep time.Duration
	// StateFile holds what the session of a server knows; empty means none.
	StateFile string
	// Speeds tell how long jobs take on other types; nil means those that Hare brings along.
	Speeds *history.Speeds
	Logger *slog.Logger // nil means slog.Default()
}

func (c *Config) validate() error {
	if c.PlanTime < 0 || c.FallbackAfter < 0 || c.Keep < 0 {
		return errors.New("ray: times must not be negative")
	}
	if c.PlanTime == 0 {
		c.PlanTime = 5 * time.Second
	}
	if c.FallbackAfter == 0 {
		c.FallbackAfter = time.Minute
	}
	if c.Keep == 0 {
		c.Keep = 7 * 24 * time.Hour
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
	cfg       Config
	dashboard *Dashboard
	session   *advice.Session
	journal   *Journal
	now       func() time.Time
	epoch     int64 // in which this process leads; 0 means that another does, or none
	release   func()
	lastPlan  time.Time
	others    map[string]*others // by the IDs of nodes
	refusals  map[string]int     // by submission: how often Ray in good health did not take it
	stopped   map[string]bool    // by submission: the stop is in the journal
	warned    map[string]bool    // what was logged as not read
	byType    bool               // this Ray takes no selector of labels
	counted   counters
	shown     *metrics.Shown
}

// New makes a helper. It asks nobody.
func New(cfg Config, dashboard *Dashboard, advisor advice.Advisor, journal *Journal) (*Helper, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	session := &advice.Session{Advisor: advisor, StateFile: cfg.StateFile, PlanTime: cfg.PlanTime,
		Logger: cfg.Logger}
	session.Resume()
	h := &Helper{cfg: cfg, dashboard: dashboard, session: session, journal: journal, now: time.Now,
		others: map[string]*others{}, refusals: map[string]int{}, stopped: map[string]bool{}, warned: map[string]bool{},
		shown: metrics.New("hare_ray_", new(counters).shown())}
	h.lastPlan = h.now()
	return h, nil
}

// Lead tries to become the process that submits: false means that another one is. Each process that
// leads has a higher epoch than the one before, and the journal takes nothing of an older one.
func (h *Helper) Lead(ctx context.Context) (bool, error) {
	if h.epoch > 0 {
		return true, nil
	}
	release, led, err := tryLock(filepath.Join(h.journal.dir, leaderLock), fileMode(h.journal.dir))
	if err != nil || !led {
		return false, err
	}
	host, _ := os.Hostname()
	err = h.journal.Update(ctx, 0, h.now(), func(q *Queue) ([]Record, error) {
		return []Record{{Event: eventLead, Epoch: q.Epoch + 1, By: fmt.Sprintf("%s, process %d", host, os.Getpid())}}, nil
	})
	if err != nil {
		release()
		return false, err
	}
	h.epoch, h.release, h.lastPlan = h.journal.Queue.Epoch, release, h.now()
	return true, nil
}

// Resign lets another process lead.
func (h *Helper) Resign() {
	if h.release != nil {
		h.release()
	}
	h.epoch, h.release = 0, nil
}

// update appends to the journal where this process leads; a dry run changes the queue in memory alone,
// until the next loop.
func (h *Helper) update(ctx context.Context, change func(*Queue) []Record) error {
	if h.cfg.Write {
		return h.journal.Update(ctx, h.epoch, h.now(), func(q *Queue) ([]Record, error) { return change(q), nil })
	}
	for _, r := range change(&h.journal.Queue) {
		r.At = h.now().UTC().Format(time.RFC3339Nano)
		if err := h.journal.Queue.apply(&r); err != nil {
			return err
		}
	}
	return nil
}

// tellUnread counts what could not be read, and logs each kind of it once.
func (h *Helper) tellUnread(v *view) {
	h.counted.Unread, h.counted.Cut = v.report.Unread(), v.cut
	warn := func(what, first string) {
		if !h.warned[what] {
			h.warned[what] = true
			h.cfg.Logger.Warn("Ray reported something that cannot be read: it is left aside", "what", what, "first", first)
		}
	}
	for _, j := range v.jobs {
		if j.Status != "PENDING" && j.Status != "RUNNING" && !j.ended() {
			h.counted.Unread++
			warn("a status of another version: the job counts as one that goes on", j.SubmissionID+": "+j.Status)
		}
	}
	for _, n := range v.report.SetAside {
		warn(n.What, n.First)
	}
	if v.cut {
		warn("the list of nodes was cut: those that are missing get no jobs", "")
	}
}

// submissionOf is what Ray gets of an attempt.
func (h *Helper) submissionOf(e *Entry) *submission {
	s := &submission{SubmissionID: e.SubmissionID(), Entrypoint: e.Spec.Entrypoint, GPUs: e.Spec.GPUs,
		CPUs: e.Spec.CPUs, Memory: e.Spec.MemoryMiB * mib,
		Metadata: maps.Clone(e.Spec.Metadata), RuntimeEnv: maps.Clone(e.Spec.RuntimeEnv)}
	switch {
	case e.NodeID != "" && !h.byType:
		s.Labels = map[string]string{nodeLabel: e.NodeID}
	case e.Type != untyped && e.Type != "":
		s.Resources = map[string]float64{typeResource + e.Type: typeShare}
	}
	if s.Metadata == nil {
		s.Metadata = map[string]string{}
	}
	// hare import ray reads these.
	s.Metadata["gpus"] = fmt.Sprint(e.Spec.GPUs)
	s.Metadata["submitted"] = time.UnixMicro(e.SubmitUs).UTC().Format(time.RFC3339Nano)
	if e.Spec.CPUs > 0 {
		s.Metadata["cpus"] = strconv.FormatFloat(e.Spec.CPUs, 'g', -1, 64)
	}
	if e.Spec.MemoryMiB > 0 {
		s.Metadata["memory_mib"] = fmt.Sprint(e.Spec.MemoryMiB)
	}
	for key, value := range map[string]string{"user": e.Spec.User, "name": e.Spec.Name, "hare": secondsText(&e.Spec)} {
		if value != "" {
			s.Metadata[key] = value
		}
	}
	if s.RuntimeEnv == nil {
		s.RuntimeEnv = map[string]any{}
	}
	vars := map[string]any{}
	if given, ok := s.RuntimeEnv["env_vars"].(map[string]any); ok {
		vars = maps.Clone(given)
	}
	vars["HARE_JOB"], vars["HARE_ATTEMPT"] = e.ID, fmt.Sprint(e.Attempt)
	if e.Type != "" {
		vars["HARE_GPU_TYPE"] = e.Type
	}
	s.RuntimeEnv["env_vars"] = vars
	return s
}

// Metrics serves the metrics. It may be called, and serve, while Step runs.
func (h *Helper) Metrics() http.Handler { return h.shown.Handler() }
