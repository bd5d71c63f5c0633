package solves

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/wire"
)

// Sentinels of solves.
var (
	// ErrNoSolve says that there is no such solve for this tenant.
	ErrNoSolve = errors.New("solves: no such solve")
	// ErrGone says that the solve was deleted, or removed by age or size.
	ErrGone = errors.New("solves: the solve is deleted or expired")
	// ErrRunning says that the solve has not ended.
	ErrRunning = errors.New("solves: the solve has not ended")
	// ErrNoResult says that there is no schedule yet, or never was.
	ErrNoResult = errors.New("solves: the solve has no result")
)

// errCancelled is the cause with which a cancelled solve ends.
var errCancelled = errors.New("solves: cancelled")

// States of a solve. The last three are final.
const (
	StatusQueued    = "queued"
	StatusRunning   = "running"
	StatusSucceeded = hare.StatusSucceeded
	StatusCancelled = hare.StatusCancelled
	StatusFailed    = hare.StatusFailed
)

// Kinds of reports.
const (
	KindWhatIf     = "what-if"
	KindSimulation = "simulation"
	KindCapacity   = "capacity"
)

// reportKind returns the kind of a report, and "" for a solve, whose kind says what its work is.
func reportKind(kind string) string {
	if kind == KindWhatIf || kind == KindSimulation || kind == KindCapacity {
		return kind
	}
	return ""
}

// NewID returns an ID for a solve or a report.
func NewID() string { return strings.ToLower(rand.Text()) }

// Types of the events of a solve.
const (
	EventStatus     = "status"     // Status changed; QueuePosition is the position at that moment
	EventPhase      = "phase"      // Phase begins
	EventIncumbent  = "incumbent"  // Value is better than before
	EventBound      = "bound"      // Bound is better than before
	EventCheckpoint = "checkpoint" // the pair that a crash would leave; the final pair is at least as good
	EventDone       = "done"       // the last event
)

// KeyError says that an idempotency key is in use for another request.
type KeyError struct {
	Key      string
	InFlight bool // the first request with the key is still being accepted; else it had another body
}

func (e *KeyError) Error() string {
	if e.InFlight {
		return fmt.Sprintf("the request with the idempotency key %q is being taken: try again", e.Key)
	}
	return fmt.Sprintf("the idempotency key %q was used for another request", e.Key)
}

// Config sizes Solves. Zero is a valid value of each field but Service and Store.
type Config struct {
	// Service runs the work; its slots and its queue are shared with all other calls.
	Service *service.Service
	Store   store.SolveStore
	// MaxAge is how long a finished solve is kept; zero means 7 days.
	MaxAge time.Duration
	// MaxBytes is how much space finished solves may take; the first to end are removed
	// first. Zero means 1 GiB.
	MaxBytes int64
	// Checkpoint is about how often the best pair of a running solve is saved;
	// zero means 1 s.
	Checkpoint time.Duration
	// Resume finds the work of a solve of this kind after a restart. Nil means that no
	// work is found: after a restart, a solve of a kind other than "" ends with its last
	// checkpoint.
	Resume func(kind string, parameters []byte) (service.RunFunc, error)
	// Retry is the time between a failed write and the next try; zero means 1 s.
	Retry time.Duration
	// Quotas counts the stored bytes and the running solves of each tenant; nil means no
	// limit.
	Quotas *admission.Quotas
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger gets what an operator has to act on; nil means that nothing is logged.
	Logger *slog.Logger
}

func (cfg Config) withDefaults() Config {
	span := func(d *time.Duration, zero time.Duration) {
		if *d <= 0 {
			*d = zero
		}
	}
	span(&cfg.MaxAge, 7*24*time.Hour)
	span(&cfg.Checkpoint, time.Second)
	span(&cfg.Retry, time.Second)
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = 1 << 30
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return cfg
}

// Input describes a solve to submit.
type Input struct {
	Instance *hare.Instance
	Options  hare.Options
	Tenant   string // "" without keys
	// Began is when the request arrived; zero means now. The time limit counts from then. It
	// counts the time in the queue for attached solves alone: the others were promised an
	// answer, and wait as long as it takes.
	Began time.Time
	// Warm has the prices to start from, as in solver.Config.Warm.
	Warm *hare.Certificate
	// Key is an idempotency key: a repeated request with the same Key finds the solve of
	// the first one. Digest is the digest of the whole request. A Key of "" means none.
	Key    string
	Digest store.Sum
	// An attached solve is cancelled when the contexts of all calls of Submit that named
	// it have ended, and after a restart.
	Attached bool
	// Run is the work; nil means the service's engine. A solve with work of its own is not
	// answered from the cache.
	Run service.RunFunc
	// Replan asks for a plan for the rest of an earlier plan. Such a solve goes on after a
	// restart. Replan takes the place of Run, Kind and Parameters.
	Replan *hare.ReplanRequest
	// Release gives back the caller's place in the tenant's quota. It is called once: when
	// the solve has ended, or before Submit returns where no new solve goes on. Nil means
	// that the caller has no place.
	Release func()
	// Kind and Parameters let Config.Resume find Run after a restart.
	Kind       string
	Parameters []byte
	Tags       wire.Tags
}

// Info describes the durable state of a solve.
type Info struct {
	ID, Tenant                       string
	Status, Termination              string
	Phase                            string // of a running solve
	QueuePosition                    int    // from 1, of a queued solve
	Created, Started, Ended          time.Time
	Deadline                         time.Time // when the solve's time limit, or that of the service, ends
	InstanceSHA256                   string
	Options                          hare.Options // with the defaults filled in
	Jobs, GPUs                       int
	Value, Bound                     *hare.Amount // nil without one; of a running solve those of the last events
	CheckpointValue, CheckpointBound *hare.Amount // of the last checkpoint of a running solve
	Revision                         int64        // grows with every change but a change of QueuePosition
	Events                           int64        // the number of the last event
	Error                            string       // why it failed
	Cached                           bool         // the answer is the result of an equal solve
	Resumed                          bool         // the solve went on after a restart
	Degraded                         bool         // the server was overloaded, and Options.Degrade allowed less work
	ResultBytes                      int64        // 0 without a result
	Kind                             string
	Tags                             wire.Tags
}

// Finished says that the solve has ended.
func (i *Info) Finished() bool { return store.Finished(i.Status) }

// Event is something that happened to a solve.
type Event = store.SolveEvent

// Filter selects solves; a zero field selects all.
type Filter struct {
	Status, Termination, InstanceSHA256 string
	Labels                              []string // all of these, each NAME=VALUE, or NAME for any value
	Text                                string   // a part of the id, the name or the value of a label, in any case
	After                               string   // cursor: the value next of an earlier List
	Limit                               int      // zero means 100; at most 1,000
}

// micros returns the stored form of a time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
