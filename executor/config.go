package executor

import (
	"context"
	"log/slog"
	"time"

	"github.com/hare-sched/hare/executor/device"
	"github.com/hare-sched/hare/executor/runner"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Server is what an agent asks of the server; *client.Client is one.
type Server interface {
	RegisterAgent(ctx context.Context, cluster string, r *clusterdoc.Registration) (*clusterdoc.Registered, error)
	SyncAgent(ctx context.Context, cluster, agent string, s *clusterdoc.Sync) (*clusterdoc.Synced, error)
	PutLog(ctx context.Context, cluster, agent string, at *clusterdoc.LogChunk, piece []byte) (*clusterdoc.LogStored,
		error)
	PutCheckpoint(ctx context.Context, cluster, agent string, at *clusterdoc.CheckpointChunk, piece []byte) (
		*clusterdoc.CheckpointStored, error)
	GetCheckpoint(ctx context.Context, cluster, agent string, at *clusterdoc.CheckpointChunk) ([]byte, error)
}

// Config is what an agent needs. Server, Cluster, Name, Directory, Devices and Runner must be given.
type Config struct {
	Server  Server
	Cluster string
	Name    string // of the node
	Address string // that other nodes reach this one by; "" lets the server see
	// Directory keeps what the agent needs after a restart, the tasks' directories and checkpoints. One agent at a
	// time has it.
	Directory string
	Devices   device.Source
	// Runner is the command that calls runner.Main with the directory that is added to it.
	Runner []string
	// RoundRunner is the command that calls rounds.Main with the directory that is added to it. Without it round jobs
	// fail.
	RoundRunner []string
	// PoolRunner is the command that calls pool.Main with the directory that is added to it. Without it relaxed round
	// jobs fail.
	PoolRunner []string
	// ModelBytes is the memory of each device for the parameters of relaxed round jobs and what their optimisers
	// remember; zero means no limit.
	ModelBytes int64
	// Python is the command of the interpreter of round jobs; empty means python3.
	Python  []string
	PassEnv []string // names of variables that tasks get besides the usual ones
	// Speed is how many times faster than they say tasks are simulated on pretended devices; zero means 1.
	Speed float64
	// CopyEvery is how long lies between two copies of a round job's checkpoint that are brought to the server, at the
	// least; zero means 5 s, and less that none are brought.
	CopyEvery time.Duration
	// NodePatience is how long a node of a rigid job or a gang may be out of reach of the node that holds the parameters;
	// zero means two minutes. Nodes of relaxed jobs always wait two minutes.
	NodePatience time.Duration
	// RunAs is the user of all tasks; nil means the agent's. It needs an agent of root.
	RunAs *runner.User
	// KeepCheckpoints is how long the checkpoints of a job stay in the directory after the server has said that the job
	// has ended; zero means not at all.
	KeepCheckpoints time.Duration
	Labels          map[string]string
	Version         string
	Logger          *slog.Logger // nil means that nothing is logged
}
