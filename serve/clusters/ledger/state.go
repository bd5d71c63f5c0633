package ledger

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hare-sched/hare"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Ledger is the state of a cluster.
type Ledger struct {
	agents  map[string]*agent
	jobs    map[string]*job
	byTime  []*job // by submission; nil where the archive has the job
	ended   []*job // that the archive does not have yet, by their end
	past    archive
	index   *index            // of the archive
	keys    map[string]string // Idempotency-Key to job
	waiting []hare.Event      // events without an answer, by number
	seq     int64             // number of the last event that was answered
	touched []*job            // jobs whose grants have changed since the session was last at rest
	types   map[string]bool   // GPU types that an agent has had
	counts  map[clusterdoc.JobState]int
	changed map[string]bool // agents whose orders have changed
	// altered are the jobs and agents that are described otherwise than when Altered was last called.
	altered altered
	usage   usage
	// affinities are the jobs that wait, or have waited, for the nodes that they should start on.
	affinities []*job
	nowUs      int64
	ordered    []Ordered // by the record that is being applied
}

// New is the ledger of an empty journal.
func New() *Ledger {
	return &Ledger{agents: map[string]*agent{}, jobs: map[string]*job{}, keys: map[string]string{},
		types: map[string]bool{}, counts: map[clusterdoc.JobState]int{},
		changed: map[string]bool{}, altered: newAltered(), usage: newUsage(), index: newIndex()}
}

// altered are jobs and agents, by their names.
type altered struct {
	jobs, agents map[string]bool
	counted      []*agent // by the record that is being applied, to be counted again
}

func newAltered() altered { return altered{jobs: map[string]bool{}, agents: map[string]bool{}} }

func (x *altered) job(j *job) { x.jobs[j.id] = true }

func (x *altered) agent(a *agent) {
	x.agents[a.Name] = true
	if !slices.Contains(x.counted, a) {
		x.counted = append(x.counted, a)
	}
}

// maxLost is how often a job may be lost with a node before it fails, so that a job that takes its nodes down
// does not do so for ever. A round job that has saved rounds since it was lost begins to count again.
const maxLost = 10

type agent struct {
	clusterdoc.Registration
	secretSum   string // see Register
	epoch       int64
	lost        bool
	draining    bool
	drainReason string
	devices     []device
	orders      []clusterdoc.Order // whose tasks are not final, by number
	lastOrder   int64
	reports     int64  // number of the last report of the epoch
	port        int    // the last MASTER_PORT that was given out
	servers     []*job // relaxed round jobs whose live attempt has its parameter server here, by number
}

type device struct {
	fault     string
	inSession bool
	job       *job // whose live attempt holds the device
	// used and serves say that the device is counted in usage.
	used, serves bool
}

// wanted reports whether new work may start there.
func (a *agent) wanted(i int) bool { return !a.lost && !a.draining && a.devices[i].fault == "" }

func (a *agent) gpu(i int) string { return gpuName(a.Name, i) }

func gpuName(node string, i int) string { return node + "/" + strconv.Itoa(i) }

// job is a job of any of three kinds: a command, which has neither rounds nor relaxed; a round job with GPUs of its
// own, which has rounds; and a relaxed round job, which shares GPUs round by round and has both.
type job struct {
	id          string
	spec        clusterdoc.NewJob
	traits      *Traits
	state       clusterdoc.JobState
	reason      string
	submittedUs int64
	startedUs   int64
	endedUs     int64
	arrived     bool // the session has the job
	knows       int  // GPU types of the cluster when the job arrived; -1 once its weight has changed while it ran
	tasks       int
	perTask     int
	granted     [][]string // by task, the GPUs that the session gave and no attempt has taken
	attempts    []*attempt
	live        *attempt
	failures    int
	lost        int
	cancelled   string // by whom
	held        bool   // the session does not have it
	changes     []change
	submitted   *submittedAs // nil: nobody has changed the job
	key         string       // Idempotency-Key
	secretSum   string       // see Submit

	lossesSinceSave int               // with its nodes, since it has last saved a round
	affinity        *affinity         // nil: the next attempt may start anywhere
	unreachable     []unreachablePair // nodes of its attempts

	rounds  *roundState
	relaxed *relaxedState
}

// change is a change of a job.
type change struct {
	atUs int64
	by   string
	clusterdoc.JobPatch
}

// submittedAs is what changes replace, as it was submitted.
type submittedAs struct {
	Weight *float64          `json:",omitempty"`
	Labels map[string]string `json:",omitempty"`
}

// newJob is a job of the kind that its specification asks for.
func newJob(id string, spec *clusterdoc.NewJob) *job {
	j := &job{id: id, spec: *spec, traits: traitsOf(spec)}
	j.tasks, j.perTask = processes(spec)
	if spec.Module != "" {
		j.rounds = &roundState{}
	}
	if Shares(spec) {
		j.relaxed = &relaxedState{}
	}
	return j
}

// roundState is what is known of the training of a round job.
type roundState struct {
	reported int64  // the round that an agent has reported last, and
	loss     string // its loss
	lost     int64  // the round in which the job was lost last

	// Of a job without a directory that the nodes share:
	saved     int64                      // the greatest number of rounds in a checkpoint
	holders   []*agent                   // that have this checkpoint
	trainedUs int64                      // how long the attempts ran that have saved rounds
	copy      *clusterdoc.CheckpointCopy // of the server; nil where it has none
}

// relaxedState is what the session has given a job that shares GPUs round by round.
type relaxedState struct {
	grants   []grant          // starts that no attempt has taken
	counted  map[string]int64 // tasks that have ended, by GPU type
	anywhere bool             // it has waited long enough for the node with its checkpoint
}

// attempt is one start of a job, with one task for each of its processes. The only such task of a relaxed round job
// is its parameter server.
type attempt struct {
	number    int64
	tasks     []task
	open      int // tasks that are not final
	running   int // tasks that have run
	stopping  bool
	failed    bool // a task ended badly
	lost      bool // a node or a device was lost
	saved     bool // a task has said that rounds are saved
	error     string
	result    string
	orderedUs int64
	endedUs   int64

	relaxed *relaxedAttempt // nil of other jobs
}

// relaxedAttempt is the part of an attempt that computes the rounds of a relaxed job.
type relaxedAttempt struct {
	out       []compute // the tasks of rounds that a GPU has, by number
	last      int       // number of the last one that was given out
	ready     bool      // the parameter server has said that it runs
	port      int       // of the parameter server; 0 where a pretended device plays it
	base      int64     // the job's round that is round 0 of the session
	round     int64     // of the session
	done      []int     // the tasks of the round that have ended, ascending
	lostInRow int       // tasks that were lost since one has ended
	moved     bool      // the parameter server leaves a node that is drained
	complete  bool      // the tasks of all rounds have ended, or the checkpoint has all rounds
}

type task struct {
	agent   *agent
	devices []int
	state   clusterdoc.TaskState
	exit    *int
	signal  string
	error   string
	ranUs   int64
}

func (t *task) final() bool {
	return t.state == clusterdoc.TaskEnded || t.state == clusterdoc.TaskLost
}

func (l *Ledger) setState(j *job, s clusterdoc.JobState) {
	if j.state != "" {
		l.counts[j.state]--
	}
	if j.state == clusterdoc.JobWaiting {
		l.usage.waitingGPUs -= j.gpus()
	}
	if s == clusterdoc.JobWaiting {
		l.usage.waitingGPUs += j.gpus()
	}
	j.state = s
	l.counts[s]++
	l.altered.job(j)
}

func (l *Ledger) agentOf(e AgentEpoch) (*agent, error) {
	a := l.agents[e.Agent]
	if a == nil || a.epoch != e.Epoch {
		return nil, fmt.Errorf("ledger: no agent %q of epoch %d", e.Agent, e.Epoch)
	}
	return a, nil
}

// device finds the device of a name.
func (l *Ledger) device(gpu string) (*agent, int) {
	name, index, _ := strings.Cut(gpu, "/")
	a := l.agents[name]
	i, err := strconv.Atoi(index)
	if a == nil || err != nil || i < 0 || i >= len(a.devices) {
		return nil, 0
	}
	return a, i
}

// grant is a task of a round of the session, and the GPU that the session has given it.
type grant struct {
	round int64
	task  int
	gpu   string
}

// compute is a task of a round that has a device.
type compute struct {
	number   int
	round    int64 // of the session
	task     int
	agent    *agent
	device   int
	state    clusterdoc.TaskState // waiting until the parameter server runs
	stopping bool                 // the agent was told to end the task
	gone     bool                 // the session does not count on the task any more
}

func (x *relaxedState) dropGrants(which func(g *grant) bool) (dropped bool) {
	n := len(x.grants)
	x.grants = slices.DeleteFunc(x.grants, func(g grant) bool { return which(&g) })
	return len(x.grants) < n
}

func (a *agent) addServer(j *job) {
	i, _ := slices.BinarySearchFunc(a.servers, j, func(x, y *job) int { return number(x.id) - number(y.id) })
	a.servers = slices.Insert(a.servers, i, j)
}

// find is the place of the task of a round, which no attempt of another kind of job has.
func (at *attempt) find(number int) (int, bool) {
	if at.relaxed == nil {
		return 0, false
	}
	return slices.BinarySearchFunc(at.relaxed.out, number, func(c compute, n int) int { return c.number - n })
}

// unreachablePair are two nodes whose programs did not reach each other in an attempt of a job.
type unreachablePair struct {
	first, second string
	atUs          int64
}

func (p *unreachablePair) has(name string) bool { return p.first == name || p.second == name }

// affinity is where a job starts again: a round job on nodes of which one has the last checkpoint, until a time.
type affinity struct {
	nodes   []string // sorted; nil: any
	avoid   []string // sorted: that the job keeps away from
	untilUs int64
}

// saveIn notes the nodes of an attempt as those that have the checkpoint behind a round. An attempt that had to begin
// again has fewer rounds than the one before, whose checkpoint is worth more until the new one has caught up.
func (r *roundState) saveIn(at *attempt, round int64) {
	at.saved = true
	if round < r.saved {
		return
	}
	r.saved, r.holders = round, nil
	for k := range at.tasks {
		if a := at.tasks[k].agent; !slices.Contains(r.holders, a) {
			r.holders = append(r.holders, a)
		}
	}
}

func (j *job) mayRunOn(gpuType string) bool {
	_, ok := j.spec.On[gpuType]
	return ok || len(j.spec.On) == 0
}

func number(id string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(id, "j"))
	if err != nil || n < 1 || jobID(n) != id {
		return 0
	}
	return n
}

func jobID(n int) string { return "j" + strconv.Itoa(n) }

func instant(us int64) time.Time { return time.UnixMicro(us).UTC() }

func instantOrNil(us int64) *time.Time {
	if us == 0 {
		return nil
	}
	t := instant(us)
	return &t
}

// NextJob is the ID of the job that is submitted next.
func (l *Ledger) NextJob() string { return jobID(len(l.byTime) + 1) }

// defaultGraceS is the time between SIGTERM and SIGKILL where a job does not say.
const defaultGraceS = 10

func (j *job) graceS() float64 {
	if j.spec.GraceS != nil {
		return *j.spec.GraceS
	}
	return defaultGraceS
}

// graceOf is that of a task of an attempt.
func (j *job) graceOf(k int) float64 {
	if j.relaxed != nil && k > 0 {
		return 0
	}
	return j.graceS()
}

func (j *job) taskID(at *attempt, k int) clusterdoc.TaskID {
	return clusterdoc.TaskID{Job: j.id, Attempt: at.number, Task: k}
}

// order adds an order for an agent.
func (l *Ledger) order(a *agent, o clusterdoc.Order) *clusterdoc.Order {
	a.lastOrder++
	o.Number = a.lastOrder
	l.changed[a.Name] = true
	a.orders = append(a.orders, o)
	return &o
}

// dropOrders forgets the orders of a task that is final.
func (a *agent) dropOrders(id clusterdoc.TaskID) {
	a.orders = slices.DeleteFunc(a.orders, func(o clusterdoc.Order) bool { return o.TaskID == id })
}

// roundStart is what a round job trains; nil for a command. The name of the checkpoint has the time of the
// submission, so that a job of another cluster, or of a deleted one of the same name, does not go on from it.
func (j *job) roundStart() *clusterdoc.RoundStart {
	if j.rounds == nil {
		return nil
	}
	return &clusterdoc.RoundStart{Module: j.spec.Module, Tasks: RoundTasks(&j.spec), Rounds: j.spec.Rounds,
		Seed: j.spec.Seed, Gang: j.spec.Sync == SyncGang,
		Checkpoint: fmt.Sprintf("%s-%d.hare", j.id, j.submittedUs)}
}

// secretOf is what the programs of an attempt know each other by. It follows from a secret that nobody but the agent
// of the master and the server know, so that the journal gives the same one whenever it is read.
func secretOf(master *agent, job string, attempt int64) string {
	mac := hmac.New(sha256.New, []byte(master.Incarnation))
	fmt.Fprintf(mac, "hare rounds %s.%d", job, attempt)
	return hex.EncodeToString(mac.Sum(nil))
}

// env is all variables of a job that has not ended.
func (j *job) env() map[string]string {
	if len(j.spec.SecretEnv) == 0 {
		return j.spec.Env
	}
	all := make(map[string]string, len(j.spec.Env)+len(j.spec.SecretEnv))
	maps.Copy(all, j.spec.Env)
	maps.Copy(all, j.spec.SecretEnv)
	return all
}

// uncopiedUs is how long the job has trained for the rounds that no copy of the server has.
func (r *roundState) uncopiedUs() int64 {
	lacks := r.saved
	if r.copy != nil {
		lacks -= r.copy.Round
	}
	if lacks <= 0 {
		return 0
	}
	return int64(float64(r.trainedUs) * (float64(lacks) / float64(r.saved)))
}

// startOf is what the program of a rank trains: that of rank 0 begins with the copy of the server.
func (r *roundState) startOf(s *clusterdoc.RoundStart, rank int) *clusterdoc.RoundStart {
	if r == nil || rank > 0 || r.copy == nil {
		return s
	}
	x := *s
	x.Copy = r.copy
	return &x
}

// secretStart is what an attempt of a relaxed job trains.
func (j *job) secretStart(at *attempt) *clusterdoc.RoundStart {
	s := j.roundStart()
	s.Secret = secretOf(at.tasks[0].agent, j.id, at.number)
	return s
}

// maxAffinityUs is the longest time in microseconds that a round job waits for a node that has its checkpoint.
const maxAffinityUs = 10 * 60 * 1e6

// Row is what lists choose jobs by and sort them by. It does not change while the ledger goes on.
type Row struct {
	Number                          int // 17 of j17
	State                           clusterdoc.JobState
	SubmittedUs, StartedUs, EndedUs int64 // 0: not yet
	GPUs                            int
	Types                           []string // on which it runs or ran; where Rows was asked for them
	Held                            bool
	*Traits

	at    chunk // of a job of the archive: its place in a chunk
	chunk int
}

// Traits are what a job was submitted with.
type Traits struct {
	Name, User string
	Work       string   // the beginning of the command, or the module
	Labels     []string // key=value, sorted
	On         []string // the types that it may run on; nil means any
	Weight     float64
	gpus       int
}

// maxWork is how many bytes of a command lists look at.
const maxWork = 1000

func traitsOf(spec *clusterdoc.NewJob) *Traits {
	t := &Traits{Name: spec.Name, User: spec.User, Work: spec.Module, On: slices.Sorted(maps.Keys(spec.On)), Weight: 1}
	if spec.Module == "" {
		t.Work = hare.Cut(strings.Join(spec.Command, " "), maxWork)
	}
	for _, key := range slices.Sorted(maps.Keys(spec.Labels)) {
		t.Labels = append(t.Labels, key+"="+spec.Labels[key])
	}
	if spec.Weight != nil {
		t.Weight = *spec.Weight
	}
	if !Shares(spec) {
		t.gpus = max(1, spec.GPUs)
	}
	return t
}

// index has the rows of the jobs of an archive, as far as somebody has asked for them.
type index struct {
	mu     sync.Mutex
	rows   []Row
	chunks int
	texts  map[string]string // one of those that are equal
}

func newIndex() *index { return &index{texts: map[string]string{}} }
