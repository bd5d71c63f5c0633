package clusters

// SecretHeader is the header of the secret of a registration, in all that an agent says after it.
const SecretHeader = "Hare-Agent-Secret"

// Registration is how an agent takes part: at its start, and again when it has lost its lease.
type Registration struct {
	Protocol int    `json:"protocol"` // ProtocolVersion
	Version  string `json:"version"`  // of hare, for people
	Name     string `json:"name"`     // of the node
	// Address is what other nodes reach this one by, for MASTER_ADDR; without it the address that the request
	// came from.
	Address string `json:"address,omitempty"`
	// Incarnation is a secret that the agent keeps in its directory. Whoever shows the secret of an agent whose
	// lease runs is that agent, started again.
	Incarnation string            `json:"incarnation"`
	Labels      map[string]string `json:"labels,omitempty"`
	CPUs        float64           `json:"cpus,omitempty"`
	MemoryGiB   float64           `json:"memory_gib,omitempty"`
	Devices     []AgentDevice     `json:"devices"`
	// Holds are the tasks that the agent has, from an earlier epoch.
	Holds []TaskReport `json:"holds,omitempty"`
} //	@name	Registration

// AgentDevice is a device as its agent sees it. Its GPU is called by the name of the node, "/", and its place
// in the list of the registration, from 0.
type AgentDevice struct {
	Type string `json:"type"`
	UUID string `json:"uuid,omitempty"`
	// Fault says why nothing may be started there; "" means that the device is well.
	Fault string `json:"fault,omitempty"`
} //	@name	RegisteredDevice

// Registered answers a registration.
type Registered struct {
	// Epoch rises with each registration of the same name. What the agent says from now on carries it.
	Epoch int64 `json:"epoch"`
	// Secret is that of this registration alone. Whatever the agent says from now on shows it in the header
	// Hare-Agent-Secret, by which the server knows the agent from others with the same or a like key.
	Secret string `json:"secret"`
	// LeaseS is how long the agent may go on, counted from when it sent the registration or a sync that was
	// answered. When it has run out, all tasks must have ended at once: SIGKILL without grace.
	LeaseS float64 `json:"lease_s"`
	// Confirmed are those of Holds that go on, under the new epoch. The agent ends all others.
	Confirmed []TaskID `json:"confirmed,omitempty"`
	// LogLimitBytes is how much of one output of one task is kept.
	LogLimitBytes int64 `json:"log_limit_bytes"`
	// ClusterID is that of the cluster. One that is deleted and made again has another ID, and other jobs.
	ClusterID string `json:"cluster_id"`
} //	@name	Registered

// TaskID names a task of an attempt of a job.
type TaskID struct {
	Job     string `json:"job"`
	Attempt int64  `json:"attempt"`
	Task    int    `json:"task"`
} //	@name	TaskID

// TaskState says where a task of an attempt stands.
type TaskState string

// The states of tasks. The last two are final.
const (
	// TaskWaiting is that of a task of a round that has a GPU and waits for the home of its job to run.
	TaskWaiting TaskState = "waiting"
	TaskOrdered TaskState = "ordered" // the agent has not said that it runs
	TaskRunning TaskState = "running"
	TaskEnded   TaskState = "ended" // its processes are gone, and how it ended is known
	TaskLost    TaskState = "lost"  // its processes are gone, or never were, and nothing else is known
)

// TaskReport says where a task stands. A report of a final state says that no process of the task is left.
type TaskReport struct {
	TaskID
	State    TaskState `json:"state" swaggertype:"string" enums:"running,ended,lost"`
	ExitCode *int      `json:"exit_code,omitempty"` // of an end that no signal brought
	Signal   string    `json:"signal,omitempty"`    // such as SIGKILL
	// Error is one line for people: why the process could not be started, or what it ended for.
	Error string `json:"error,omitempty"`
	// Apart are the tasks of the attempt whose programs the program of this one did not reach, and ended for it.
	Apart []int `json:"apart,omitempty"`
	// RanS is how long the task ran.
	RanS float64 `json:"ran_s,omitempty"`
	// Round is how many rounds of a round job stand in its checkpoint.
	Round int64 `json:"round,omitempty"`
	// Loss is that of the last of these rounds; a text, because it may be NaN.
	Loss string `json:"loss,omitempty"`
	// Port is where other nodes reach the home of a relaxed round job.
	Port int `json:"port,omitempty"`
	// SyncS is how long the gradient of a task of a relaxed round job took to its home, after RanS.
	SyncS float64 `json:"sync_s,omitempty"`
} //	@name	TaskReport

// Sync is what an agent tells the server again and again. It renews the lease.
type Sync struct {
	Epoch int64 `json:"epoch"`
	// Secret is that of the registration; it stands in the header SecretHeader.
	Secret string `json:"-"`
	// WaitS is how long the server may wait for orders before it answers.
	WaitS float64 `json:"wait_s,omitempty"`
	// Reports are all reports that the server has not acknowledged, in order. Report number ReportsAfter+1
	// is the first of them.
	ReportsAfter int64        `json:"reports_after,omitempty"`
	Reports      []TaskReport `json:"reports,omitempty"`
	// OrdersSeen is the number of the last order that the agent has noted durably. Orders up to it are not
	// repeated.
	OrdersSeen int64 `json:"orders_seen,omitempty"`
	// Faults maps the place of each device that is not well, from 0, to the reason.
	Faults map[int]string `json:"faults,omitempty"`
	// Checkpoints are jobs whose checkpoints the node keeps, and of which it has no task: at most 1,000.
	Checkpoints []string `json:"checkpoints,omitempty"`
} //	@name	Sync

// Synced answers a sync.
type Synced struct {
	LeaseS float64 `json:"lease_s"`
	// ReportsSeen is the number of the last report that is durable.
	ReportsSeen int64 `json:"reports_seen"`
	// Orders are all orders after OrdersSeen, in order.
	Orders []Order `json:"orders,omitempty"`
	// EndedJobs are those of Checkpoints that have ended, or that the cluster does not have.
	EndedJobs []string `json:"ended_jobs,omitempty"`
} //	@name	Synced

// Order tells an agent to start or to stop a task. Orders are numbered from 1 in each epoch.
type Order struct {
	Number int64  `json:"number"`
	Type   string `json:"type" enums:"start,stop,home,compute"`
	TaskID
	// GraceS is the time between SIGTERM and SIGKILL, of an order to stop and of every end of the task; 0
	// means SIGKILL at once.
	GraceS float64 `json:"grace_s"`
	// Start is what is to be started; of an order to stop it is left out.
	Start *Start `json:"start,omitempty"`
	// Home is what an order of this type is to hold.
	Home *HomeStart `json:"home,omitempty"`
	// Compute is what an order of this type is to compute.
	Compute *Compute `json:"compute,omitempty"`
} //	@name	Order

// The types of orders.
const (
	OrderStart = "start"
	OrderStop  = "stop"
	// OrderHome has the node hold the parameters of a relaxed round job, for an attempt; the task is number 0.
	OrderHome = "home"
	// OrderCompute has a device compute one task of a round of a relaxed round job; the tasks of an attempt are
	// numbered from 1, and one that is given out again has a new number.
	OrderCompute = "compute"
)

// Start is what a task needs to start.
type Start struct {
	Name    string   `json:"name"`
	Command []string `json:"command,omitempty"`
	// Devices are places in the list of the registration, from 0.
	Devices []int `json:"devices"`
	// LocalDevices are those of all tasks of the job on the node, by rank; it is left out where each task has several
	// devices, or where the task is alone. A process sees them all and takes the one of its LOCAL_RANK, as under
	// torchrun.
	LocalDevices []int             `json:"local_devices,omitempty"`
	GPUType      string            `json:"gpu_type"`
	Env          map[string]string `json:"env,omitempty"`
	// The variables of torchrun. MasterPort is a port that no other attempt of the same master has.
	Rank           int    `json:"rank"`
	WorldSize      int    `json:"world_size"`
	LocalRank      int    `json:"local_rank"`
	LocalWorldSize int    `json:"local_world_size"`
	MasterAddress  string `json:"master_address"`
	MasterPort     int    `json:"master_port"`

	Directory           string `json:"directory,omitempty"`
	CheckpointDirectory string `json:"checkpoint_directory,omitempty"`
	// PretendS is how long a pretended device holds the task, where the job says its seconds.
	PretendS float64 `json:"pretend_s,omitempty"`
	// Rounds is what a round job trains; nil for commands.
	Rounds *RoundStart `json:"rounds,omitempty"`
} //	@name	Start

// RoundStart is what a round job trains, on the devices of all starts of the attempt. The program of rank 0 holds the
// parameters, and listens at the master's address and port for the others.
type RoundStart struct {
	Module string `json:"module"`
	Tasks  int    `json:"tasks"` // of a round
	Rounds int64  `json:"rounds"`
	Seed   int64  `json:"seed,omitempty"`
	Gang   bool   `json:"gang,omitempty"`
	// Checkpoint is the name of the job's file in the checkpoint directory. No other job has the same name.
	Checkpoint string `json:"checkpoint"`
	// Secret is what the programs of the attempt know each other by; it is left out where the job has one node.
	Secret string `json:"secret,omitempty"`
	// Copy is the copy of the checkpoint that the server has. The program of rank 0 begins with it where its node has
	// none that is as new.
	Copy *CheckpointCopy `json:"copy,omitempty"`
} //	@name	RoundStart

// HomeStart is what the home of a relaxed round job holds: the node that has the parameters, takes the gradients of
// all tasks, makes the steps, and saves. The home needs no device of the cluster. Its first report, of state running,
// names the port at which the other nodes reach it and the rounds of the checkpoint that it begins with; later ones
// say how many rounds are saved. Its end with exit code 0 says that all rounds are saved.
//
// A home that is played gets no gradients: its first report names port 0, the server counts its rounds by the tasks
// that have ended and tells it to stop behind the last one, and it ends with exit code 0.
type HomeStart struct {
	Name                string            `json:"name"`
	RoundStart                            // what is trained, with the secret of the attempt
	Directory           string            `json:"directory,omitempty"`
	CheckpointDirectory string            `json:"checkpoint_directory,omitempty"`
	Env                 map[string]string `json:"env,omitempty"`
	// Pretend is set where the job says its seconds: agents of pretended devices play its home, as they do its tasks.
	Pretend bool `json:"pretend,omitempty"`
} //	@name	HomeStart

// Compute is one task of a round. The device takes the parameters from the home once the home has made the steps of
// all rounds before, and brings it the gradient. The report of its end with exit code 0 says that the home has the
// gradient; RanS is how long the device was busy, and SyncS what passed from then on.
type Compute struct {
	Round  int64 `json:"round"` // from 0, counted over all attempts
	Task   int   `json:"task"`  // of the round, from 0
	Device int   `json:"device"`
	// Address is the host and port of the home.
	Address    string            `json:"address"`
	GPUType    string            `json:"gpu_type"`
	RoundStart                   // as the home has it
	Directory  string            `json:"directory,omitempty"`
	Env        map[string]string `json:"env,omitempty"`
	// PretendS is how long a pretended device holds the task, where the job says its seconds.
	PretendS float64 `json:"pretend_s,omitempty"`
} //	@name	Compute

// CheckpointCopy is a copy of the checkpoint of a round job that the server keeps.
type CheckpointCopy struct {
	Attempt int64  `json:"attempt"` // that has brought it
	Round   int64  `json:"round"`   // the number of rounds that stand in it
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"` // of the whole file, in hexadecimal digits
} //	@name	CheckpointCopy

// The outputs of a task.
const (
	StreamStdout = "stdout"
	StreamStderr = "stderr"
)

// LogChunk says where the bytes of an uploaded piece of a log belong. It stands in the query of the request,
// whose body is the bytes.
type LogChunk struct {
	Epoch  int64  `json:"epoch"`
	Secret string `json:"-"` // of the registration, in the header SecretHeader
	TaskID
	Stream string `json:"stream"`
	Offset int64  `json:"offset"`
} //	@name	LogChunk

// LogStored answers the upload of a piece of a log.
type LogStored struct {
	// Next is the offset of the first byte that the server has not stored.
	Next int64 `json:"next"`
	// Full says that the server stores no more of this log.
	Full bool `json:"full,omitempty"`
} //	@name	LogStored

// CheckpointChunk says where the bytes of a piece of a checkpoint belong, which the agent of the program of rank 0
// brings. It stands in the query of the request, whose body is the bytes.
type CheckpointChunk struct {
	Epoch  int64  `json:"epoch"`
	Secret string `json:"-"` // of the registration, in the header SecretHeader
	Job    string `json:"job"`
	CheckpointCopy
	Offset int64 `json:"offset"`
} //	@name	CheckpointChunk

// CheckpointStored answers a piece of a checkpoint.
type CheckpointStored struct {
	// Next is the offset of the first byte that the server has not stored.
	Next int64 `json:"next"`
	// Complete says that the server has the whole copy durably, and that it has taken the place of the one before.
	Complete bool `json:"complete,omitempty"`
} //	@name	CheckpointStored
