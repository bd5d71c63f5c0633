// Package ledger is the state of a managed cluster as a function of its journal. Records go in; events for the
// cluster's online session and orders for its agents come out. The package has no clock, no input or output
// and no goroutine: the same records give the same events and orders, so that a server that was killed goes on
// where its journal ends.
//
// Why everything is started once, and only once:
//
//   - An attempt starts a job, and has a number that rises within the job. A task of an attempt is ordered once:
//     where nobody knows whether an agent has started a task, as after a crash of the machine, the attempt is lost
//     and the next one has a new number.
//   - An agent has an epoch, which rises with each registration of its name. Whatever it says carries the epoch,
//     and an old epoch is refused with stale_epoch. Each registration also gives a secret, which the agent shows
//     from then on; the journal has the SHA-256 of it.
//   - An agent has a lease, which each answer renews. The agent counts from when it sent the request, and has ended
//     all of its tasks when the lease has run out. The server counts from when it answered, and waits 5 s more
//     before it gives the work away. So clocks are never compared. After a restart all leases run from the start of
//     the server, which does not know when it last answered.
//   - A GPU that has a task is free once its agent says that no process of the task is left, or once the lease has
//     run out, and not when a job was cancelled or failed.
//   - A task of a round of a job that shares GPUs is ordered under a number that rises within the attempt; one that
//     is lost is ordered again under another number. A task that the session takes back, because its job or attempt
//     has ended, keeps its GPU out of the session until the agent says that nothing is left there.
//   - The next attempt of such a job begins when the parameter server and all tasks of the attempt before have
//     ended, or their leases are over. The session does not know which round is the last: it learns that the job
//     has ended right behind the last task, so that other jobs have the GPUs while the job saves.
//   - Exit code 0 of all tasks is success. A process that ends with 0 because it was told to end has not succeeded.
//
// What agents say is checked like all input: unknown states, devices that were not registered and gaps between
// reports are refused.
package ledger

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Record is one line of a journal. One of its pointers is set.
type Record struct {
	AtUs     int64           `json:"at"` // microseconds since 1970 by the server's clock
	Submit   *Submit         `json:"submit,omitempty"`
	Cancel   *Cancel         `json:"cancel,omitempty"`
	Register *Register       `json:"register,omitempty"`
	Expire   *AgentEpoch     `json:"expire,omitempty"`
	Sync     *SyncRecord     `json:"sync,omitempty"`
	Drain    *Drain          `json:"drain,omitempty"`
	Answers  []SessionAnswer `json:"answers,omitempty"`
	Copy     *Copied         `json:"copy,omitempty"`
	// Tick lets the session see that time has passed, so that it takes a plan that is ready.
	Tick bool `json:"tick,omitempty"`
	// Ordered are the homes and the tasks of relaxed round jobs that were ordered by the record. Apply writes them down
	// for whoever checks the journal, and reads them never.
	Ordered []Ordered `json:"ordered,omitempty"`
}

// Ordered is a home, which is task 0 of its attempt, or a task of a round.
type Ordered struct {
	Job     string `json:"job"`
	Attempt int64  `json:"attempt"`
	Task    int    `json:"task,omitempty"`
	On      string `json:"on"` // the node of a home, the GPU of a task
	Round   int64  `json:"round,omitempty"`
	Of      int    `json:"of,omitempty"` // the place of the task in its round
}

// Submit says that a job was submitted. Its ID follows from the jobs before.
type Submit struct {
	Job clusterdoc.NewJob `json:"job"`
	Key string            `json:"key,omitempty"` // Idempotency-Key
	// SecretSum is the SumSecrets of the job's secret variables, by which the submission is known when it is sent again
	// after the job has ended; "" where there are none.
	SecretSum string `json:"secret_sum,omitempty"`
	// Shares says of a round job of sync relaxed that it shares GPUs with other jobs round by round. Journals from
	// before such jobs were there call jobs relaxed that have their GPUs until their end, which are rigid.
	Shares bool `json:"shares,omitempty"`
}

// Cancel says that somebody asked for the end of a job.
type Cancel struct {
	Job string `json:"job"`
	By  string `json:"by,omitempty"`
}

// Register says that an agent took part, from here on with the next epoch.
type Register struct {
	clusterdoc.Registration
	// SecretSum is the SHA-256 of the secret of the registration, in hexadecimal digits. Registrations from before there
	// were secrets have none.
	SecretSum string `json:"secret_sha256,omitempty"`
	// Again says that Labels and Devices are those of the registration before, and left out.
	Again bool `json:"again,omitempty"`
}

// AgentEpoch names an agent that registered.
type AgentEpoch struct {
	Agent string `json:"agent"`
	Epoch int64  `json:"epoch"`
}

// SyncRecord is what is new in a sync.
type SyncRecord struct {
	AgentEpoch
	After   int64                   `json:"after"` // number of the report before the first
	Reports []clusterdoc.TaskReport `json:"reports,omitempty"`
	// Faults are the devices that are not well; nil says that nothing has changed.
	Faults *map[int]string `json:"faults,omitempty"`
}

// Drain says that an agent gets nothing new, or gets jobs again.
type Drain struct {
	Agent  string `json:"agent"`
	On     bool   `json:"on"`
	Reason string `json:"reason,omitempty"`
}

// Copied says that the server has a copy of the checkpoint of a round job; of round 0, that it has none any more.
type Copied struct {
	Job string `json:"job"`
	clusterdoc.CheckpointCopy
}

// SessionAnswer is the answer of the session to the first event that has none. Refused says why the session
// did not take the event; the number of the event is then used by the next one.
type SessionAnswer struct {
	Refused   string     `json:"refused,omitempty"`
	Decisions []Decision `json:"decisions,omitempty"`
}

// Decision is a start, or, without GPUs, the end of an earlier start.
type Decision struct {
	Job   string   `json:"job"`
	Round int64    `json:"round,omitempty"`
	Task  int64    `json:"task"`
	GPUs  []string `json:"gpus,omitempty"`
}

// AnswerOf brings an answer of a session into the form of the journal.
func AnswerOf(a hare.Answer) SessionAnswer {
	var s SessionAnswer
	for i := range a.Decisions {
		d := &a.Decisions[i]
		x := Decision{Job: d.Job, Round: d.Round, Task: d.Task}
		if d.Type == hare.DecisionStart {
			x.GPUs = d.GPUs()
		}
		s.Decisions = append(s.Decisions, x)
	}
	return s
}

// Ledger is the state of a cluster.
type Ledger struct {
	agents  map[string]*agent
	jobs    map[string]*job
	byTime  []*job // by submission; nil where the archive has the job
	ended   []*job // that the archive does not have yet, by their end
	past    archive
	keys    map[string]string // Idempotency-Key to job
	waiting []hare.Event      // events without an answer, by number
	seq     int64             // number of the last event that was answered
	touched []*job            // jobs whose grants have changed since the session was last at rest
	types   map[string]bool   // GPU types that an agent has had
	counts  map[clusterdoc.JobState]int
	changed map[string]bool // agents whose orders have changed
	pins    []*job          // round jobs that wait, or have waited, for nodes with their checkpoint
	nowUs   int64
	ordered []Ordered // by the record that is being applied
}

// New is the ledger of an empty journal.
func New() *Ledger {
	return &Ledger{agents: map[string]*agent{}, jobs: map[string]*job{}, keys: map[string]string{},
		types: map[string]bool{}, counts: map[clusterdoc.JobState]int{},
		changed: map[string]bool{}}
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
	homes       []*job // relaxed round jobs whose live attempt has its home here, by number
}

type device struct {
	fault     string
	inSession bool
	job       *job // whose live attempt holds the device
}

// wanted reports whether new work may start there.
func (a *agent) wanted(i int) bool { return !a.lost && !a.draining && a.devices[i].fault == "" }

func (a *agent) gpu(i int) string { return a.Name + "/" + strconv.Itoa(i) }

type job struct {
	id          string
	spec        clusterdoc.NewJob
	state       clusterdoc.JobState
	reason      string
	submittedUs int64
	startedUs   int64
	endedUs     int64
	arrived     bool // the session has the job
	knows       int  // GPU types of the cluster when the job arrived
	tasks       int
	perTask     int
	granted     [][]string // by task, the GPUs that the session gave and no attempt has taken
	attempts    []*attempt
	live        *attempt
	failures    int
	lost        int
	vain        int    // how often it was lost since it has last saved a round
	lostRound   int64  // the round in which it was lost last
	round       int64  // that an agent has reported last, of a round job
	loss        string // of that round
	cancelled   string // by whom
	key         string // Idempotency-Key
	secretSum   string // see Submit

	// Of a round job without a directory that the nodes share:
	savedRound int64                      // the most rounds that stand in a checkpoint
	holders    []*agent                   // that have this checkpoint
	trainedUs  int64                      // how long the attempts ran that have saved rounds
	pin        *pin                       // nil: the job may start anywhere
	apart      []pair                     // nodes of its attempts that did not reach each other
	copy       *clusterdoc.CheckpointCopy // of the server; nil where it has none

	// Of a relaxed round job, which shares GPUs round by round:
	relaxed  bool
	grants   []grant          // starts that the session gave and no attempt has taken
	counted  map[string]int64 // tasks that have ended, by GPU type
	anywhere bool             // it has waited long enough for the node with its checkpoint
}

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

	// Of a relaxed round job, whose only task is its home:
	out      []compute // the tasks of rounds that a GPU has, by number
	last     int       // number of the last one that was given out
	ready    bool      // the home has said that it runs
	port     int       // of the home; 0 where the home is played
	base     int64     // the job's round that is round 0 of the session
	round    int64     // of the session
	done     []int     // the tasks of the round that have ended, ascending
	vain     int       // tasks that were lost since one has ended
	moved    bool      // the home leaves a node that is drained
	complete bool      // the tasks of all rounds have ended, or the checkpoint has all rounds
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
	j.state = s
	l.counts[s]++
}

// emit adds an event for the session.
func (l *Ledger) emit(e hare.Event) { l.waiting = append(l.waiting, e) }

// Events are the events that the session has not answered, as far as the journal knows. They are numbered from
// the first event after those that it answered.
func (l *Ledger) Events() []hare.Event {
	all := slices.Clone(l.waiting)
	for i := range all {
		all[i].Seq = l.seq + 1 + int64(i)
	}
	return all
}

// Apply takes the next record of the journal. An error says that the record cannot follow those before.
func (l *Ledger) Apply(r *Record) error {
	l.nowUs = r.AtUs
	err := l.apply(r)
	r.Ordered, l.ordered = l.ordered, nil
	return err
}

func (l *Ledger) apply(r *Record) error {
	switch {
	case r.Submit != nil:
		l.submit(r.Submit)
	case r.Cancel != nil:
		return l.cancel(r.Cancel)
	case r.Register != nil:
		l.register(r.Register)
	case r.Expire != nil:
		a, err := l.agentOf(*r.Expire)
		if err != nil {
			return err
		}
		l.expire(a)
	case r.Sync != nil:
		return l.sync(r.Sync)
	case r.Drain != nil:
		return l.drain(r.Drain)
	case r.Answers != nil:
		return l.answers(r.Answers)
	case r.Copy != nil:
		l.copied(r.Copy)
	case r.Tick:
		l.unpin()
		l.emit(hare.Event{Type: hare.EventTick})
	default:
		return fmt.Errorf("ledger: an empty record")
	}
	return nil
}

func (l *Ledger) agentOf(e AgentEpoch) (*agent, error) {
	a := l.agents[e.Agent]
	if a == nil || a.epoch != e.Epoch {
		return nil, fmt.Errorf("ledger: no agent %q of epoch %d", e.Agent, e.Epoch)
	}
	return a, nil
}

// answers takes the answers to the first events that have none. When all events are answered, the session is
// at rest, and what it gave is used.
func (l *Ledger) answers(all []SessionAnswer) error {
	if len(all) > len(l.waiting) {
		return fmt.Errorf("ledger: %d answers to %d events", len(all), len(l.waiting))
	}
	events := l.waiting[:len(all)]
	l.waiting = slices.Clone(l.waiting[len(all):])
	for i := range all {
		if all[i].Refused != "" {
			l.refused(&events[i], all[i].Refused)
			continue
		}
		l.seq++
		l.answered(&events[i])
		for _, d := range all[i].Decisions {
			l.grant(&d)
		}
	}
	if len(l.waiting) > 0 {
		return nil
	}
	touched := l.touched
	l.touched = nil
	for _, j := range touched {
		if j.relaxed {
			l.share(j)
		} else {
			l.assemble(j)
		}
	}
	return nil
}

// refused handles an event that the session did not take. That of a job ends the job; others leave the session
// as it was, and the state of the cluster here is what counts.
func (l *Ledger) refused(e *hare.Event, why string) {
	if j := l.jobs[e.Job]; j != nil && e.Type == hare.EventJobArrived && !j.state.Final() {
		j.arrived = false
		l.end(j, clusterdoc.JobFailed, "the scheduler refused the job: "+why)
	}
}

func (l *Ledger) grant(d *Decision) {
	j := l.jobs[d.Job]
	switch {
	case j == nil || j.state.Final():
		return // a start of a round that does not come any more
	case j.relaxed:
		l.grantTask(j, d)
	case d.Task < 0 || d.Task >= int64(j.tasks):
		return
	default:
		j.granted[d.Task] = d.GPUs
	}
	if !slices.Contains(l.touched, j) {
		l.touched = append(l.touched, j)
	}
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

// reconcileAll is reconcile of all devices of an agent. A whole node joins at once, so that a job that waits can
// choose among its GPUs.
func (l *Ledger) reconcileAll(a *agent) {
	var gpus []hare.TypeCount
	for i := range a.devices {
		if d := &a.devices[i]; d.job != nil || d.inSession || !a.wanted(i) {
			gpus = nil
			break
		}
		if n := len(gpus); n > 0 && gpus[n-1].Type == a.Devices[i].Type {
			gpus[n-1].Count++
		} else {
			gpus = append(gpus, hare.TypeCount{Type: a.Devices[i].Type, Count: 1})
		}
	}
	// The session numbers the GPUs of a node by their types' names.
	if len(a.devices) > 1 && len(gpus) > 0 && slices.IsSortedFunc(gpus, func(x, y hare.TypeCount) int {
		return strings.Compare(x.Type, y.Type)
	}) && !twice(gpus) {
		for i := range a.devices {
			a.devices[i].inSession = true
		}
		l.emit(hare.Event{Type: hare.EventNodeJoined,
			Change: &hare.Change{Node: &hare.Node{Name: a.Name, GPUs: gpus}}})
		return
	}
	for i := range a.devices {
		l.reconcile(a, i)
	}
}

// twice reports whether a type stands in two places of a sorted list.
func twice(gpus []hare.TypeCount) bool {
	for i := range gpus[1:] {
		if gpus[i].Type == gpus[i+1].Type {
			return true
		}
	}
	return false
}

// reconcile tells the session whether a device that nobody holds is in service.
func (l *Ledger) reconcile(a *agent, i int) {
	d := &a.devices[i]
	if d.job != nil || d.inSession == a.wanted(i) {
		return
	}
	d.inSession = a.wanted(i)
	e := hare.Event{Type: hare.EventGPULeft, GPU: a.gpu(i)}
	if d.inSession {
		e.Type, e.GPUType = hare.EventGPUJoined, a.Devices[i].Type
	}
	l.emit(e)
}
