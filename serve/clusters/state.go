package clusters

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/changes"
	"github.com/hare-sched/hare/serve/clusters/ledger"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/store"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// ErrNoCluster says that there is no cluster of that name.
var ErrNoCluster = errors.New("clusters: no such cluster")

// ErrNoJob says that the cluster has no job of that ID.
var ErrNoJob = errors.New("clusters: no such job")

// ErrNoAgent says that the cluster has no agent of that name.
var ErrNoAgent = errors.New("clusters: no such agent")

// ErrSecret says that what claims to be an agent does not show the secret of the agent's registration.
var ErrSecret = errors.New("clusters: not the secret of the agent's registration")

// Config sizes Clusters. Zero is a valid value of each field but Store and Sessions.
type Config struct {
	// Store has the journals: store.Journals of the store of the sessions, or a store of its own.
	Store    store.SessionStore
	Sessions *sessions.Sessions
	// LogDir is the directory of the jobs' outputs; "" means a temporary one, gone with Close.
	LogDir string
	// LogLimit is how many bytes of one output of one task are kept; zero means 16 MiB.
	LogLimit int64
	// MaxLogs is how many bytes of outputs a cluster keeps. Beyond it the outputs of the jobs that were submitted
	// first and have ended are removed. Zero means 10 GiB.
	MaxLogs int64
	// CheckpointDir is the directory of the copies of round jobs' checkpoints; "" means checkpoints in LogDir.
	CheckpointDir string
	// MaxCheckpoints is how many bytes of these copies a cluster keeps, the one that is being brought besides the one
	// that it takes the place of. Zero means 10 GiB; less, that the server keeps none.
	MaxCheckpoints int64
	// MaxClusters limits the clusters of all tenants; zero means 1,000.
	MaxClusters int
	// MaxJobs limits the jobs of a cluster that have not ended; zero means 100,000.
	MaxJobs int
	// Quotas count the jobs of each tenant that have not ended, and the bytes that are stored; nil means no quotas.
	Quotas *admission.Quotas
	// Lease is how long an agent may go on without an answer; zero means 15 s. Kill is how long the server
	// waits beyond that before it gives the agent's work away; zero means 5 s.
	Lease, Kill time.Duration
	// SnapshotBytes is how many bytes a journal grows by, at least, between two snapshots; zero means 2 MiB.
	SnapshotBytes int
	// Tick is how often leases are looked at; zero means 1 s.
	Tick time.Duration
	// Now is the server's clock; nil means time.Now.
	Now func() time.Time
	// Logger gets what an operator has to act on; nil means that nothing is logged.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	number := func(n *time.Duration, d time.Duration) {
		if *n <= 0 {
			*n = d
		}
	}
	number(&c.Lease, 15*time.Second)
	number(&c.Kill, 5*time.Second)
	number(&c.Tick, time.Second)
	if c.LogLimit <= 0 {
		c.LogLimit = 16 << 20
	}
	if c.MaxLogs <= 0 {
		c.MaxLogs = 10 << 30
	}
	if c.MaxCheckpoints == 0 {
		c.MaxCheckpoints = 10 << 30
	}
	if c.MaxClusters <= 0 {
		c.MaxClusters = 1000
	}
	if c.MaxJobs <= 0 {
		c.MaxJobs = 100_000
	}
	if c.SnapshotBytes <= 0 {
		c.SnapshotBytes = 2 << 20
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Clusters are the managed clusters of one server. Safe for concurrent use.
type Clusters struct {
	cfg     Config
	context context.Context // of the actors
	cancel  context.CancelFunc
	ownLogs bool
	counts  counters

	mu       sync.Mutex
	clusters map[clusterKey]*Cluster
	closed   bool
}

type clusterKey struct{ tenant, name string }

// Cluster is one managed cluster. Safe for concurrent use.
type Cluster struct {
	parent  *Clusters
	name    string
	meta    store.Meta
	cfg     storedConfig
	session *sessions.Session
	damage  error // the journal cannot be read; owned by the actor once it runs
	inbox   chan *request
	stop    chan struct{}
	ended   chan struct{}
	deleted bool         // set before stop is closed
	stored  atomic.Int64 // the bytes that Config.Quotas counts
	feed    *changes.Feed

	// Owned by the actor.
	journal *journal
	ledger  *ledger.Ledger // nil: must be read
	counted int            // the jobs that Config.Quotas counts
	planned int64          // Session.Planned, as the feed has it
	storeAt time.Time      // when the history is stored again after it could not be
	saving  sync.WaitGroup // for the snapshot that is being saved, if any
	busy    atomic.Bool    // a snapshot is being saved

	mu        sync.Mutex
	presences map[string]*presence
	logs      [64]sync.Mutex // of outputs that are being written, by the hash of their path
	room      logRoom
	copies    copies
}

// storedConfig is the stored form of what a cluster was created with.
type storedConfig struct {
	Tenant     string          `json:"tenant,omitempty"`
	Name       string          `json:"name"`
	Policy     string          `json:"policy"`
	Parameters json.RawMessage `json:"parameters,omitempty"`
	Session    string          `json:"session"`
}

// endErr says why a cluster takes no more requests.
func (c *Cluster) endErr() error {
	c.parent.mu.Lock()
	defer c.parent.mu.Unlock()
	if c.deleted {
		return ErrNoCluster
	}
	return admission.ErrDraining
}

func (c *Cluster) logDir() string { return filepath.Join(c.parent.cfg.LogDir, c.meta.ID) }

// maxBatch is the greatest number of requests that become durable together.
const maxBatch = 1024

// request is something that the actor does for a caller.
type request struct {
	// prepare looks at the state and returns what is to be recorded; nil for requests that only read.
	prepare func(l *ledger.Ledger) (*ledger.Record, error)
	// after runs once the record is durable, and may read the state; nil means nothing.
	after func(l *ledger.Ledger)
	err   error
	done  chan struct{}
}

// do runs a request to its end. A record may become durable though do fails with the error of ctx.
func (c *Cluster) do(ctx context.Context, r *request) error {
	r.done = make(chan struct{})
	select {
	case c.inbox <- r:
	case <-c.ended:
		return c.endErr()
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-r.done:
		return r.err
	case <-c.ended:
		select {
		case <-r.done:
			return r.err
		default:
			return c.endErr()
		}
	}
}

// counters count what happened since the server started.
type counters struct{ records, commits, failures, expired, logBytes, logsRemoved, copies, copyBytes atomic.Int64 }

// presence is what the server knows of an agent besides the journal, and a copy of what agents ask for again and
// again, as of the last durable record.
type presence struct {
	epoch    int64
	secret   string // the SHA-256 of the registration's; "" where it had none
	alive    bool
	reports  int64
	devices  int
	faults   map[int]string
	orders   []clusterdoc.Order
	answered time.Time // when the server last gave the agent a lease
	heard    time.Time
	wake     chan struct{} // closed and replaced when orders or epoch have changed
}

// logRoom counts the bytes of the outputs that a cluster keeps. The zero value has not counted yet.
type logRoom struct {
	mu      sync.Mutex
	counted bool
	bytes   int64
	looked  time.Time // when outputs were last removed, or looked for
}

// directoryBytes adds up the sizes of the files below a directory; one that is not there has none.
func directoryBytes(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Size()
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
	return bytes, err
}

const (
	// keepCopies is how long the copies of a job that has ended are kept, where nothing else needs the room.
	keepCopies = time.Hour
	// sweepEvery is how often the server removes copies of jobs that have ended.
	sweepEvery = time.Minute
	partSuffix = ".part"
)

// copies are the copies of checkpoints of round jobs that a cluster keeps, in a directory for each job. A copy is
// called by its attempt, its round and its SHA-256 hash; while it is brought, .part follows.
type copies struct {
	locks [16]sync.Mutex // of jobs, by number

	mu    sync.Mutex
	bytes atomic.Int64 // of all files, where there are quotas

	parts    map[string]int64  // by job, the bytes that the copy will have that is being brought
	problems map[string]string // by job, why the last one was not kept
}

func (c *Cluster) copyDir() string { return filepath.Join(c.parent.cfg.CheckpointDir, c.meta.ID) }
