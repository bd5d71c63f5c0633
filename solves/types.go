package solves

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/admission"
	"github.com/hare-sched/hare/service"
	"github.com/hare-sched/hare/store"
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

// errCancelled is the cause of solves that were asked to end.
var errCancelled = errors.New("solves: cancelled")

// States of a solve. The last three are final.
const (
	StatusQueued    = "queued"
	StatusRunning   = "running"
	StatusSucceeded = hare.StatusSucceeded
	StatusCancelled = hare.StatusCancelled
	StatusFailed    = hare.StatusFailed
)

// Types of the events of a solve.
const (
	EventStatus     = "status"     // Status changed; QueuePosition is that of the moment
	EventPhase      = "phase"      // Phase begins
	EventIncumbent  = "incumbent"  // a better Value
	EventBound      = "bound"      // a better Bound
	EventCheckpoint = "checkpoint" // the pair that a crash would leave: the final one is at least as good
	EventDone       = "done"       // the last one
)

// KeyError says that an idempotency key cannot be used again so.
type KeyError struct {
	Key      string
	InFlight bool // its first request has not been taken yet; else it had another body
}

func (e *KeyError) Error() string {
	if e.InFlight {
		return fmt.Sprintf("the request with the idempotency key %q is being taken: try again", e.Key)
	}
	return fmt.Sprintf("the idempotency key %q was used for another request", e.Key)
}

// Config sizes Solves. Zeroes are good but for Service and Store.
type Config struct {
	// Service runs the work: its places and its queue are shared with all else.
	Service *service.Service
	Store   store.SolveStore
	// MaxAge is how long a finished solve is kept; zero means 7 days.
	MaxAge time.Duration
	// MaxBytes is how much finished solves may take, the oldest of them go
	// first; zero means 1 GiB.
	MaxBytes int64
	// Checkpoint is about how often the best pair of a running solve is saved;
	// zero means 1 s.
	Checkpoint time.Duration
	// Resume finds the work of a solve of this kind after a restart; nil means
	// that of kinds other than "" none is found, and they end with what was saved.
	Resume func(kind string, parameters []byte) (service.RunFunc, error)
	// Retry is how long writing waits after the disk refused; zero means 1 s.
	Retry time.Duration
	// Quotas counts what is kept and what goes on of each tenant; nil limits
	// nothing.
	Quotas *admission.Quotas
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Logger is told what an operator has to see to; nil means nobody.
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

// Input is a solve that is asked for.
type Input struct {
	Instance *hare.Instance
	Options  hare.Options
	Tenant   string // "" without keys
	// Began is when the request came, from which the time limit counts; zero
	// means now.
	Began time.Time
	// Warm has prices to start from, as solver.Config.Warm.
	Warm *hare.Certificate
	// Key makes a repetition of the request find the first one's solve; Digest
	// is of all that the request asked for. "" means none.
	Key    string
	Digest store.Sum
	// Attached solves end, as cancelled, when the contexts of all calls of
	// Submit that named them end; after a restart they do too.
	Attached bool
	// Run is the work; nil means the service's engine. Solves of another work
	// than the engine's are not answered from the cache.
	Run service.RunFunc
	// Replan asks for a plan for the rest of an earlier one, which goes on after
	// a restart; it is in place of Run, Kind and Parameters.
	Replan *hare.ReplanRequest
	// Release gives back the caller's place in the quota of the tenant, and is
	// called once: when the solve has ended, or before Submit returns where
	// nothing goes on. Nil holds none.
	Release func()
	// Kind and Parameters let Config.Resume find Run again.
	Kind       string
	Parameters []byte
}

// Info describes a solve as it is durable.
type Info struct {
	ID, Tenant                       string
	Status, Termination              string
	Phase                            string // of a running one
	QueuePosition                    int    // from 1, of a queued one
	Created, Started, Ended          time.Time
	Deadline                         time.Time // by when the time limit, or that of the service, ends
	InstanceSHA256                   string
	Options                          hare.Options // defaults filled in
	Jobs, GPUs                       int
	Value, Bound                     *hare.Amount // nil without one; of a running solve as last told by events
	CheckpointValue, CheckpointBound *hare.Amount // of the pair that is saved while it runs
	Revision                         int64        // grows with every change but that of QueuePosition
	Events                           int64        // the last one
	Error                            string       // why it failed
	Cached                           bool         // answered from an equal solve's result
	Resumed                          bool         // went on after a restart
	Degraded                         bool         // the server had too much to do, and Options.Degrade allowed less
	ResultBytes                      int64        // 0 without a result
	Kind                             string
}

// Finished says that the solve has ended.
func (i *Info) Finished() bool { return store.Finished(i.Status) }

// Event is one thing that happened to a solve.
type Event = store.SolveEvent

// Filter selects solves; zeroes select all.
type Filter struct {
	Status, Termination, InstanceSHA256 string
	After                               string // cursor: what List gave as next
	Limit                               int    // zero means 100; at most 1,000
}

// micros is a time as it is kept.
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
