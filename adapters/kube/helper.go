// Package kube helps a Kubernetes that runs: it reads nodes, pods and Jobs, lets a session plan by the
// policy rolling, and lets suspended Jobs that take part go, each on the GPU type of the plan, when
// there is room for all of their pods. It stops and deletes nothing that runs; a Job none of whose pods finds
// a node of the type is suspended again. Under Kueue it writes Workloads alone: the GPU type of those that
// start next, and the order of queues that opted in.
//
// The files lie in layers: the API and its objects (client, objects, state), the helper and what it writes (helper,
// journal, write), what it reads (sets, kueue, opt_in, read), what a session gets (session), what follows from a
// plan (free, kueue_choice, kueue_order), and the loop.
package kube

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"net/http"

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
	// StateFile keeps what a session of a server knows; "" means none.
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
		return fmt.Errorf("kube: %q is not a label of nodes: give one such as nvidia.com/gpu.product", c.TypeLabel)
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
	told     map[string]time.Time // by UID, the start that a Job's user was last given
	toldAt   time.Time            // when users were last informed
	counted  counters
	shown    *metrics.Shown
	report   *history.Report // of the last reading

	kueueVersion string               // of Kueue's objects
	chosenAt     map[string]time.Time // by UID, when the type of a Workload that waits was chosen

	setsSeen map[*setKind]bool // kinds that were listed before
	warned   map[string]bool   // what was logged: kinds that may not be listed, UIDs and values that cannot be read
}

// New makes a helper. It asks nothing.
func New(cfg Config, api API, advisor advice.Advisor, journal *Journal) (*Helper, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	session := &advice.Session{Advisor: advisor, StateFile: cfg.StateFile, PlanTime: cfg.PlanTime,
		Logger: cfg.Logger}
	session.Resume()
	return &Helper{cfg: cfg, api: api, session: session, journal: journal, now: time.Now,
		refused: map[string]refusal{}, told: map[string]time.Time{}, chosenAt: map[string]time.Time{},
		setsSeen: map[*setKind]bool{}, warned: map[string]bool{},
		shown: metrics.New("hare_kube_", new(counters).shown())}, nil
}

// Waiting is what the plan says of a Job that waits.
type Waiting struct {
	Job    string   `json:"job"`
	Types  []string `json:"types"`
	StartS int64    `json:"start_s"` // from now; −1 where the plan does not say
	Why    string   `json:"why"`     // why it is not let go now; "" where it is
}

// Result is what one loop did.
type Result struct {
	Updates []Update  // that were made, or would have been
	Freed   []Update  // that took Jobs back which cannot start
	Waiting []Waiting // the jobs that wait, in the order of the plan
	// Left says why suspended Jobs that opted in were left alone, by reason.
	Left map[string]int
	// Unordered names the ClusterQueues whose order the helper leaves alone, and why.
	Unordered []string
	Plan      *wire.SessionPlan
	// Leads reports whether this helper may write; others only plan.
	Leads bool
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

// Metrics serves the metrics. It may be called, and serve, while Step runs.
func (h *Helper) Metrics() http.Handler { return h.shown.Handler() }

// refusal is a Job that could not be let go.
type refusal struct {
	until time.Time
	wait  time.Duration
}
