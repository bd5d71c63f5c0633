package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/timeslice"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/clusters"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/sessions"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/serve/store/sqlite"
)

// idleHeap is allocated and never touched, so that it occupies no memory. Go's garbage
// collector runs when the heap has doubled; with a small heap it would run several
// times for each small solve.
const idleHeap = 64 << 20

// spareProcs are additional values of GOMAXPROCS for requests. If solves used all of
// Go's processors, a request would wait about 10 ms for each time slice; with spare
// processors the operating system schedules it at once.
const spareProcs = 2

type serveFlags struct {
	listen, dataDir string
	access          accessFlags
	observe         observeFlags
	service         service.Config
	sessions        sessions.Config
	clusters        clusters.Config
	solves          solves.Config
	grace, delay    time.Duration

	follow                                                           []string // of --follow
	bodyMiB, callMiB, retainMiB, sessionMiB, logsMiB, checkpointsMiB int64
}

func serveCommand() *cobra.Command {
	var sf serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve solves, bounds, verification, simulations and online sessions over HTTP",
		Long: `Serve answers the HTTP interface that /docs describes, such as POST /v1/solves,
/v1/bounds, /v1/verify and /v1/sessions.

With --data-dir, a solve is on disk before it is acknowledged, and an event of a
session before its decisions are sent; both survive a crash. Without --data-dir they
are in memory and end with the server. If one session in a data directory is
damaged, the others are served, and the log says what to do.

On loopback addresses the server asks for no keys. On other addresses it requires
TLS and keys (hare key) unless --insecure is given; docs/use/secure.md shows the
steps. Web pages of other origins cannot use the server: it refuses what they send,
and without keys also requests that call it by a name that is neither localhost nor
given by --allow-host.

After SIGTERM the server refuses new work, lets running work finish for --grace, and
then ends it with the best certified schedule and bound so far.`,
		Example: `  hare serve
  hare serve --listen 127.0.0.1:9000 --running 4 --max-body 256
  hare serve --data-dir /var/lib/hare --max-sessions 100
  hare serve --follow slurm=/var/lib/hare/slurm      # the queue of Slurm, as hare slurm sees it
  hare serve --listen 0.0.0.0:8443 --data-dir /var/lib/hare --tls-cert cert.pem --tls-key key.pem
  curl -s http://127.0.0.1:8080/v1/sessions -H 'Content-Type: application/json' \
    -d '{"cluster": {"nodes": [{"name": "a", "gpus": {"V100": 2}}]}}'`,
		Args: exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error { return sf.run(c.Context()) },
	}
	f := c.Flags()
	sf.observe.add(c)
	f.StringVar(&sf.listen, "listen", "127.0.0.1:8080", "address and port")
	f.StringVar(&sf.dataDir, "data-dir", "", "keep solves and sessions in this directory (default: in memory, gone "+
		"with the server)")
	f.DurationVar(&sf.solves.Checkpoint, "checkpoint", time.Second,
		"interval at which the best schedule and bound of a running solve are saved")
	f.DurationVar(&sf.solves.MaxAge, "retain-age", 7*24*time.Hour, "how long finished solves are stored")
	f.Int64Var(&sf.retainMiB, "retain-size", 1024,
		"greatest size of all finished solves in MiB; the oldest are deleted first")
	f.IntVar(&sf.sessions.MaxSessions, "max-sessions", 10_000, "greatest number of sessions")
	f.IntVar(&sf.sessions.MaxJobs, "max-jobs", 100_000, "greatest number of active jobs in a session")
	f.IntVar(&sf.sessions.SnapshotEvery, "snapshot-every", 50_000,
		"events of a session between snapshots: the most that is read again after a crash")
	f.IntVar(&sf.sessions.Planners, "planners", 0,
		"how many plans of sessions are made at the same time (default: half as many as there are cores)")
	f.DurationVar(&sf.sessions.PlanTime, "plan-time", 10*time.Second, "longest time that a plan of a session may take")
	f.DurationVar(&sf.sessions.Idle, "idle", 5*time.Minute,
		"unload a session from memory after this long without events, until its next event")
	f.Int64Var(&sf.sessionMiB, "session-memory", 0, "how many MiB the sessions in memory may take as "+
		"estimated, with keys half of it those of one tenant; others are unloaded first (default: a quarter of the memory)")
	f.StringArrayVar(&sf.follow, "follow", nil, "show to all who may read here what a helper keeps in its --dir, as "+
		"slurm=DIR, kube=DIR or ray=DIR; may be repeated")
	f.DurationVar(&sf.clusters.Lease, "agent-lease", 15*time.Second,
		"how long an agent of a managed cluster goes on without an answer of this server before it ends its jobs")
	f.Int64Var(&sf.logsMiB, "logs", 10<<10, "how many MiB of outputs of jobs a managed cluster keeps; the oldest go "+
		"first")
	f.Int64Var(&sf.checkpointsMiB, "checkpoints", 10<<10, "how many MiB of copies of round jobs' checkpoints a managed "+
		"cluster keeps; 0 means none")
	sf.access.flags(f)
	f.Int64Var(&sf.bodyMiB, "max-body", 64, "largest request body in MiB")
	f.Int64Var(&sf.callMiB, "call-memory", 0, "memory in MiB for all calls together, from the first byte of their "+
		"bodies to their answers; further calls get status 503 (default: an eighth of the machine's, the control group's "+
		"or GOMEMLIMIT)")
	f.IntVar(&sf.service.Running, "running", 0, "how many calls run at the same time (default: one for each core)")
	f.IntVar(&sf.service.Queue, "queue", 64, "greatest number of calls that wait; 0 means none")
	f.DurationVar(&sf.service.MaxTime, "max-time", time.Minute, "time limit of solves that have none of their own")
	f.DurationVar(&sf.delay, "shutdown-delay", 0, "how long the server goes on as before after SIGTERM, until load "+
		"balancers send nothing more (default: no time)")
	f.DurationVar(&sf.grace, "grace", 10*time.Second, "how long running work may continue at shutdown")
	_ = c.MarkFlagDirname("data-dir") // cannot fail: the flag exists
	positive(c, "checkpoint", "retain-age", "retain-size", "max-sessions", "max-jobs", "snapshot-every", "idle",
		"max-body", "call-memory", "running", "max-time", "planners", "plan-time", "agent-lease",
		"logs", "session-memory")
	mebibytes(c, "session-memory", "retain-size", "logs", "checkpoints", "max-body", "call-memory", "quota-body",
		"quota-stored")
	positive(c, "quota-solves", "quota-rate", "quota-body", "quota-stored", "quota-sessions", "quota-streams",
		"quota-jobs")
	return c
}

func (sf *serveFlags) run(ctx context.Context) error {
	if err := sf.access.check(sf.listen, sf.dataDir); err != nil {
		return err
	}
	helpers, err := followed(sf.follow)
	if err != nil {
		return err
	}
	seen, err := sf.observe.open(ctx)
	if err != nil {
		return err
	}
	defer seen.close()
	l, err := net.Listen("tcp", sf.listen)
	if err != nil {
		return usageError{fmt.Errorf("%w: see hare doctor --listen %s", err, sf.listen)}
	}
	timeslice.Short()
	engine, noEngine, closeEngine := openEngine()
	defer closeEngine()
	cores := runtime.GOMAXPROCS(0)
	engine.Workers = cores
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores + spareProcs))
	sf.service.Solver = engine
	if sf.service.Running <= 0 {
		sf.service.Running = cores
	}
	if sf.service.Queue == 0 {
		sf.service.Queue = -1 // here zero means the default
	}
	if sf.sessions.Planners <= 0 {
		sf.sessions.Planners = max(1, cores/2)
	}
	svc := service.New(sf.service)
	kept, err := openStore(ctx, sf.dataDir)
	if err != nil {
		return err
	}
	log := seen.log
	if noEngine != "" {
		log.Warn(withoutEngine, "reason", noEngine)
	}
	if disk, ok := kept.(*sqlite.Store); ok {
		go logDamage(ctx, disk, sf.dataDir, log)
		for _, path := range sqlite.OpenToOthers(sf.dataDir) {
			log.Warn("other users of the machine can read or write what is stored: use chmod go= "+path, "path", path)
		}
	}
	keys, quotas, err := sf.access.open(ctx, sf.dataDir, log)
	if err != nil {
		return errors.Join(err, kept.Close())
	}
	work, err := sf.open(ctx, svc, kept, quotas, log)
	if err != nil {
		return err
	}
	for _, f := range helpers {
		work.sessions.Follow(ctx, f.id, f.helper, f.dir)
	}
	scheme := "http://"
	address := l.Addr().String()
	if sf.access.cert != nil {
		l, scheme = tls.NewListener(l, sf.access.cert.Config()), "https://"
	}
	log.Info("listening", "address", address, "console", scheme+address+"/", "keys", keys != nil, "version", version,
		"highs", engine.EngineVersion)
	calls := sf.callMiB << 20
	if calls == 0 {
		calls = memoryShare(callParts, "/", goMemoryLimit())
	}
	h := api.New(svc, seen.config(api.Config{MaxBodyBytes: sf.bodyMiB << 20, EngineRestarts: engine.Restarts,
		Sessions: work.sessions, Clusters: work.clusters, Solves: work.solves, Hosts: sf.access.hosts, Keys: keys,
		Quotas: quotas, Memory: admission.NewMemory(calls, keys != nil)}, engine, sf.dataDir))
	idle := make([]byte, idleHeap)
	defer runtime.KeepAlive(idle)
	// The API ends its streams before solves and sessions close.
	ctx, cancel := delayed(ctx, sf.delay)
	defer cancel()
	return errors.Join(api.Serve(ctx, l, h, svc, sf.grace), work.close())
}

// keptWork is what a server keeps: sessions, managed clusters and solves.
type keptWork struct {
	sessions *sessions.Sessions
	clusters *clusters.Clusters
	solves   *solves.Solves
}

func (w *keptWork) close() error {
	return errors.Join(w.solves.Close(), w.clusters.Close(), w.sessions.Close())
}

// open opens what the server keeps in a store, which ends with the sessions.
func (sf *serveFlags) open(ctx context.Context, svc *service.Service, kept store.SessionStore,
	quotas *admission.Quotas, log *slog.Logger) (*keptWork, error) {
	w := &keptWork{}
	var err error
	if sf.sessions.Memory = sf.sessionMiB << 20; sf.sessionMiB == 0 {
		sf.sessions.Memory = memoryShare(sessionParts, "/", goMemoryLimit())
	}
	sf.sessions.Store = api.NewTimedStore(store.WithoutJournals(kept))
	sf.sessions.Logger, sf.sessions.Quotas = log, quotas
	if w.sessions, err = sessions.Open(ctx, sf.sessions); err != nil {
		return nil, errors.Join(err, kept.Close())
	}
	sf.clusters.MaxLogs = sf.logsMiB << 20
	if sf.clusters.MaxCheckpoints = sf.checkpointsMiB << 20; sf.checkpointsMiB == 0 {
		sf.clusters.MaxCheckpoints = -1
	}
	sf.clusters.Store, sf.clusters.Sessions = store.Journals(kept), w.sessions
	sf.clusters.Logger, sf.clusters.Quotas = log, quotas
	if sf.dataDir != "" {
		sf.clusters.LogDir = filepath.Join(sf.dataDir, "logs")
		sf.clusters.CheckpointDir = filepath.Join(sf.dataDir, "checkpoints")
	}
	if w.clusters, err = clusters.Open(ctx, sf.clusters); err != nil {
		return nil, errors.Join(err, w.sessions.Close())
	}
	sf.solves.Service, sf.solves.Store, sf.solves.Logger, sf.solves.Quotas = svc, store.NewMemorySolves(), log, quotas
	if disk, ok := kept.(*sqlite.Store); ok {
		sf.solves.Store = disk
	}
	sf.solves.MaxBytes = sf.retainMiB << 20
	if w.solves, err = solves.Open(ctx, sf.solves); err != nil {
		return nil, errors.Join(err, w.clusters.Close(), w.sessions.Close())
	}
	return w, nil
}

// openStore opens the store of a data directory, or a store in memory where dir is "".
func openStore(ctx context.Context, dir string) (store.SessionStore, error) {
	if dir == "" {
		return store.NewMemory(), nil
	}
	kept, err := sqlite.Open(ctx, dir)
	if err != nil {
		return nil, usageError{fmt.Errorf("--data-dir: %w%s", err, storeRemedy(dir, err))}
	}
	return kept, nil
}

// delayed returns a context that ends when the wait after the end of ctx has passed.
func delayed(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	if wait <= 0 {
		return context.WithCancel(ctx)
	}
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(wait, cancel) })
	return later, cancel
}

// storeRemedy says what to do about an error of a data directory, or nothing.
func storeRemedy(dir string, err error) string {
	full, _ := diskFull(dir)
	switch {
	case errors.As(err, new(*store.CorruptError)):
		return fmt.Sprintf(": restore a backup into a new directory with hare restore, or copy what can be trusted with "+
			"hare repair %s NEWDIR", dir)
	case errors.Is(err, syscall.EROFS):
		return fmt.Sprintf(": mount the disk for writing, or copy what is stored with hare backup %s FILE", dir)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, store.ErrStorage) && full:
		return ": make room on the disk of " + dir
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Sprintf(": %s is not a folder: name another one", dir)
	}
	return ""
}

// logDamage waits for the check of all pages, which runs in the background after a
// clean shutdown, and logs its error.
func logDamage(ctx context.Context, disk *sqlite.Store, dir string, log *slog.Logger) {
	if err := disk.Damage(ctx); errors.As(err, new(*store.CorruptError)) {
		log.Error("nothing more is written: restore a backup, or copy what can be trusted with hare repair "+dir+" NEWDIR",
			"error", err)
	} else if err != nil && ctx.Err() == nil {
		log.Warn("the pages of the database could not be checked", "error", err)
	}
}

type healthFlags struct {
	ca string
}

func healthCommand() *cobra.Command {
	var hf healthFlags
	c := &cobra.Command{
		Use:   "healthcheck [URL]",
		Short: "Exit with 0 if a server answers its health check",
		Long: `Healthcheck sends GET to URL, by default that of hare serve on this machine, and
exits with 0 if the answer is 200 and with 1 otherwise. It is meant for probes of
containers, which have no curl.`,
		Example: `  hare healthcheck
  hare healthcheck http://127.0.0.1:8080/readyz`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return hf.run(c, args) },
	}
	c.Flags().StringVar(&hf.ca, "ca", "", caUsage)
	return c
}

func (hf *healthFlags) run(c *cobra.Command, args []string) error {
	url := "http://127.0.0.1:8080/healthz"
	if len(args) > 0 {
		url = args[0]
	}
	client := &http.Client{}
	if hf.ca != "" {
		var err error
		if client, err = trusting(hf.ca); err != nil {
			return err
		}
	}
	client.Timeout = 3 * time.Second
	resp, err := client.Get(url)
	if err != nil {
		if advice := tlsAdvice(err); advice != "" {
			err = fmt.Errorf("%w: %s", err, advice)
		}
		fmt.Fprintln(c.ErrOrStderr(), "hare:", err)
		return errNo
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		fmt.Fprintf(c.ErrOrStderr(), "hare: %s answers %s\n", url, resp.Status)
		return errNo
	}
	return nil
}

// certificates reads a PEM file.
func certificates(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", path)
	}
	return pool, nil
}
