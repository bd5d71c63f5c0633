package list

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/estimate"
	"github.com/hare-sched/hare/online/placement"
)

// snapshotForm begins each snapshot; a SHA-256 of what stands before ends it.
const snapshotForm = "hare/list-scheduler/1\n"

// schedulerSnapshot is the state of a Scheduler as JSON.
type schedulerSnapshot struct {
	Policy     string          `json:"policy"`
	Parameters json.RawMessage `json:"parameters,omitempty"`
	NowUs      int64           `json:"now_us"`
	Serial     int             `json:"serial"`
	Types      []string        `json:"types"`
	GPUs       []gpuSnapshot   `json:"gpus"`
	Jobs       []jobSnapshot   `json:"jobs"`
	Topology   []string        `json:"topology,omitempty"`
	// Nodes are those with labels or limits.
	Nodes  []nodeSnapshot `json:"nodes,omitempty"`
	Quotas []hare.Quota   `json:"quotas,omitempty"`
	// Belief is of rules that learn sizes.
	Belief *BeliefSnapshot `json:"belief,omitempty"`
	Guard  *guardSnapshot  `json:"guard,omitempty"`
	// State is that of the rule.
	State json.RawMessage `json:"state,omitempty"`
}

// gpuSnapshot is one GPU; a vacant slot has no name.
type gpuSnapshot struct {
	Name      string `json:"name"`
	Type      int    `json:"type"`
	InService bool   `json:"in_service"`
	Initial   bool   `json:"initial"`
}

// nodeSnapshot is what is said of a node.
type nodeSnapshot struct {
	Name      string       `json:"name"`
	CPUMilli  int64        `json:"cpus_milli,omitempty"`
	MemoryMiB int64        `json:"memory_mib,omitempty"`
	Labels    []hare.Label `json:"labels,omitempty"`
}

// rulesSnapshot are the rules of a job about nodes.
type rulesSnapshot struct {
	GPUs      int64              `json:"gpus,omitempty"`
	CPUMilli  int64              `json:"cpus_milli,omitempty"`
	MemoryMiB int64              `json:"memory_mib,omitempty"`
	Distinct  bool               `json:"distinct,omitempty"`
	Only      []hare.LabelValues `json:"only,omitempty"`
	Exclude   []hare.LabelValues `json:"exclude,omitempty"`
	Within    string             `json:"within,omitempty"`
}

type jobSnapshot struct {
	ID          string         `json:"id"`
	WeightMicro int64          `json:"weight_micro"`
	Tasks       int64          `json:"tasks"`
	Sync        hare.Sync      `json:"sync"`
	Mix         bool           `json:"mix"`
	On          []hare.Profile `json:"on"`
	Rules       *rulesSnapshot `json:"rules,omitempty"`
	Users       []string       `json:"users,omitempty"`
	Serial      int            `json:"serial"`

	Round      int64       `json:"round"`
	Next       int64       `json:"next"`
	Ended      int64       `json:"ended"`
	Redo       []int64     `json:"redo,omitempty"`
	Syncing    []taskOnGPU `json:"syncing,omitempty"`
	GPUs       []heldGPU   `json:"gpus,omitempty"`
	Hold       hare.Sync   `json:"hold"`
	ArrivedUs  int64       `json:"arrived_us"`
	StartedUs  int64       `json:"started_us"`
	SinceUs    int64       `json:"since_us"`
	ExecutedUs int64       `json:"executed_us"`
	WaitedUs   int64       `json:"waited_us"`
	TotalUs    int64       `json:"total_us"`
	Queue      int         `json:"queue"`
	OnlyType   int         `json:"only_type"`
	LeaseEndUs int64       `json:"lease_end_us"`
	Last       []int       `json:"last,omitempty"`
	Promise    *promise    `json:"promise,omitempty"`

	Hints      *hare.JobHints       `json:"hints,omitempty"`
	Prediction *estimate.Prediction `json:"prediction,omitempty"`
	Guard      *guardedSnapshot     `json:"guard,omitempty"`
}

type taskOnGPU struct {
	Task   int64          `json:"task"`
	GPU    string         `json:"gpu"`
	Others hare.OtherGPUs `json:"others,omitempty"`
}

// heldGPU is a GPU that a job holds, with the task on it or −1.
type heldGPU struct {
	GPU     int   `json:"gpu"`
	Task    int64 `json:"task"`
	SinceUs int64 `json:"since_us"`
}

// AppendSnapshot is online.Durable.AppendSnapshot, O(jobs + GPUs).
func (l *Scheduler) AppendSnapshot(b []byte) []byte {
	s := schedulerSnapshot{Policy: l.rule.Name, Parameters: l.rule.parameters, NowUs: l.nowUs, Serial: l.serial,
		Types: l.types, Guard: l.guardSnapshot(), Quotas: l.quotas, Topology: l.described.Topology()}
	for i := range l.gpus {
		x := &l.gpus[i]
		s.GPUs = append(s.GPUs, gpuSnapshot{x.Name, x.Type, x.InService, x.initial})
	}
	for _, j := range l.jobs {
		s.Jobs = append(s.Jobs, l.jobSnapshot(j))
	}
	for _, n := range l.described.All() {
		s.Nodes = append(s.Nodes, nodeSnapshot{n.Name, n.CPUMilli, n.MemoryMiB, n.Labels})
	}
	if l.belief != nil {
		belief := l.belief.Snapshot()
		s.Belief = &belief
	}
	if l.rule.State != nil {
		state, err := json.Marshal(l.rule.State(l))
		if err != nil {
			panic(err) // no state has a field that can fail
		}
		s.State = state
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // no field of these types can fail
	}
	start := len(b)
	b = slices.Grow(b, len(snapshotForm)+len(text)+sha256.Size)
	b = append(append(b, snapshotForm...), text...)
	sum := sha256.Sum256(b[start:])
	return append(b, sum[:]...)
}

func (l *Scheduler) jobSnapshot(j *JobState) jobSnapshot {
	s := jobSnapshot{
		ID: j.spec.ID, WeightMicro: j.spec.WeightMicro, Tasks: j.spec.Tasks, Sync: j.spec.Sync, Mix: j.spec.Mix,
		On: j.spec.On, Users: j.spec.Users, Serial: j.serial,
		Round: j.round, Next: j.next, Ended: j.ended, Redo: j.redo, ArrivedUs: j.arrivedUs, StartedUs: j.startedUs,
		SinceUs:    j.sinceUs,
		ExecutedUs: j.executedUs, WaitedUs: j.waitedUs, TotalUs: j.totalUs, Queue: j.Queue, OnlyType: j.OnlyType,
		LeaseEndUs: j.LeaseEndUs, Last: j.last, Promise: j.promise, Hints: j.spec.Hints, Guard: l.guardedSnapshot(j),
	}
	if j.prediction.Kind != estimate.Plain {
		s.Prediction = &j.prediction
	}
	if placement.Matters(j.spec) {
		s.Rules = &rulesSnapshot{j.spec.GPUsPerTask, j.spec.CPUMilliPerTask, j.spec.MemoryMiBPerTask, j.spec.DistinctNodes,
			j.spec.Only, j.spec.Exclude, j.spec.Within}
	}
	if j.next > 0 {
		s.Hold = j.hold // before the first start it has no meaning
	}
	for _, t := range j.syncing {
		s.Syncing = append(s.Syncing, taskOnGPU{t.task, t.gpu, t.others})
	}
	for _, g := range j.gpus {
		s.GPUs = append(s.GPUs, heldGPU{g, l.gpus[g].Task, l.gpus[g].SinceUs})
	}
	return s
}

// Restore makes the scheduler of which a snapshot was taken; rule is given the parameters
// of the session. A torn or altered snapshot is an error.
func Restore(snapshot []byte, rule func(parameters []byte) (Rule, error)) (*Scheduler, error) {
	broken := func(why string) (*Scheduler, error) {
		return nil, online.Invalid("/snapshot", "bad_snapshot",
			"the snapshot %s: start from an older one and the log behind it", why)
	}
	n := len(snapshot) - sha256.Size
	if n < 0 || !bytes.HasPrefix(snapshot, []byte(snapshotForm)) {
		return broken("is torn, or of another version")
	}
	if sum := sha256.Sum256(snapshot[:n]); !bytes.Equal(sum[:], snapshot[n:]) {
		return broken("does not have the checksum that it states: it is torn or was altered")
	}
	var s schedulerSnapshot
	if err := DecodeState(snapshot[len(snapshotForm):n], &s); err != nil {
		return broken("cannot be read (" + err.Error() + ")")
	}
	r, err := rule(s.Parameters)
	if err != nil {
		return nil, err
	}
	if s.Policy != r.Name {
		return broken("is one of another policy")
	}
	r.parameters = s.Parameters
	l := New(nil, r)
	if !l.restore(&s) {
		return broken("contradicts itself")
	}
	return l, nil
}

// restore fills an empty scheduler; false says that the snapshot contradicts itself.
func (l *Scheduler) restore(s *schedulerSnapshot) bool {
	l.nowUs, l.serial = s.NowUs, s.Serial
	for _, t := range s.Types {
		if _, twice := l.typeOf[t]; twice {
			return false
		}
		l.addType(t)
	}
	if s.NowUs < 0 || s.NowUs > hare.MaxExact {
		return false
	}
	var topology hare.InvalidErrors
	if topology.CheckTopology("", &hare.Cluster{Topology: s.Topology}, nil); len(topology) > 0 {
		return false
	}
	l.described.SetTopology(s.Topology)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		node := &hare.Node{Name: n.Name, CPUMilli: n.CPUMilli, MemoryMiB: n.MemoryMiB, Labels: n.Labels}
		var faults hare.InvalidErrors
		if faults.CheckNode("", node, false); len(faults) > 0 || i > 0 && n.Name <= s.Nodes[i-1].Name {
			return false
		}
		l.described.Set(node)
	}
	for i, g := range s.GPUs {
		if _, twice := l.gpuOf[g.Name]; twice || g.Type < 0 || g.Name != "" && g.Type >= len(l.types) {
			return false
		}
		if g.Name == "" {
			l.gpus = append(l.gpus, GPU{Task: -1, user: -1})
			continue
		}
		l.addGPU(g.Name, g.Type)
		l.gpus[i].initial = g.Initial
		if g.InService && l.described.CheckLabels(g.Name, nil) != nil {
			return false
		}
		if g.InService {
			l.enterService(i)
		}
	}
	for i := len(l.gpus) - 1; i >= 0; i-- {
		if l.gpus[i].Name == "" {
			l.vacant = append(l.vacant, i)
		}
	}
	if l.quotas = s.Quotas; !online.OrderedQuotas(l.quotas) {
		return false
	}
	if len(l.quotas) > 0 {
		l.goByNodes()
	}
	if (l.belief == nil) != (s.Belief == nil) || l.belief != nil && !l.belief.Restore(s.Belief) {
		return false
	}
	for i := range s.Jobs {
		if !l.restoreJob(&s.Jobs[i]) {
			return false
		}
	}
	l.changed, l.spreadAt = false, l.capacity
	if !l.restoreGuard(s) {
		return false
	}
	return l.rule.Restore == nil || l.rule.Restore(l, s.State)
}

func (l *Scheduler) restoreJob(s *jobSnapshot) bool {
	spec := &hare.Job{ID: s.ID, WeightMicro: s.WeightMicro, Tasks: s.Tasks, Sync: s.Sync, Mix: s.Mix, On: s.On,
		Hints: s.Hints, Users: s.Users}
	if x := s.Rules; x != nil {
		spec.GPUsPerTask, spec.CPUMilliPerTask, spec.MemoryMiBPerTask = x.GPUs, x.CPUMilli, x.MemoryMiB
		spec.DistinctNodes, spec.Only, spec.Exclude, spec.Within = x.Distinct, x.Only, x.Exclude, x.Within
	}
	if online.CheckArrival(&hare.Event{Type: hare.EventJobArrived, Arrived: spec}) != nil ||
		online.CheckLevels(spec, l.described.Topology()) != nil {
		return false
	}
	_, twice := l.jobOf[s.ID]
	last := -1
	if n := len(l.jobs); n > 0 {
		last = l.jobs[n-1].serial
	}
	if twice || s.Serial <= last || s.Serial >= l.serial || s.Round < 0 || s.Next < 0 || s.Next > s.Tasks ||
		s.Ended < 0 || s.Hold > hare.Rigid ||
		s.Queue < 0 || s.Queue > len(l.rule.ThresholdsUs) || s.OnlyType < -1 || s.OnlyType >= len(l.types) {
		return false
	}
	j := &JobState{
		spec: spec, serial: s.Serial, rounds: l.rule.Rounds[s.ID],
		round: s.Round, next: s.Next, ended: s.Ended, redo: s.Redo, hold: s.Hold,
		arrivedUs: s.ArrivedUs, startedUs: s.StartedUs, sinceUs: s.SinceUs, executedUs: s.ExecutedUs,
		waitedUs: s.WaitedUs, totalUs: s.TotalUs,
		Queue: s.Queue, OnlyType: s.OnlyType, LeaseEndUs: s.LeaseEndUs, last: s.Last,
		belief: l.belief, promise: s.Promise,
	}
	j.modes = l.modesOf(j)
	if !l.promises() {
		j.promise = nil // slurm made promises before
	}
	if j.promise != nil && (j.promise.Type < -1 || j.promise.Type >= len(l.types)) {
		return false
	}
	j.subject = subjectOf(spec.Hints)
	if s.Prediction != nil {
		if !s.Prediction.Valid() {
			return false
		}
		j.prediction = *s.Prediction
	}
	for _, g := range s.Last {
		if g < 0 || g >= len(l.gpus) {
			return false
		}
	}
	tasks := slices.Clone(s.Redo) // all that have been started and not ended
	for i, t := range s.Syncing {
		if i > 0 && t.Task <= s.Syncing[i-1].Task {
			return false
		}
		j.syncing = append(j.syncing, syncing{t.Task, t.GPU, t.Others})
		tasks = append(tasks, t.Task)
	}
	if len(s.GPUs)%j.TaskGPUs() != 0 {
		return false
	}
	l.arriveOnNodes(j)
	l.arriveWithLevels(j)
	for _, h := range s.GPUs {
		if h.GPU < 0 || h.GPU >= len(l.gpus) || !l.gpus[h.GPU].InService || l.gpus[h.GPU].Job != nil || h.Task < -1 {
			return false
		}
		x := &l.gpus[h.GPU]
		at, _ := slices.BinarySearch(l.free[x.Type], h.GPU)
		l.hold(j, x.Type, at)
		x.Task, x.SinceUs = h.Task, h.SinceUs
		if h.Task >= 0 {
			tasks = append(tasks, h.Task)
		}
	}
	slices.Sort(tasks)
	if len(slices.Compact(slices.Clone(tasks))) != len(tasks) || len(tasks) > 0 && (tasks[0] < 0 ||
		tasks[len(tasks)-1] >= j.next) ||
		int64(len(tasks)) != j.next-j.ended {
		return false
	}
	if l.nodes != nil && j.spec.GPUsPerTask > 1 {
		for at := 0; at < len(j.gpus); at += j.TaskGPUs() {
			for _, g := range l.taskOn(j, j.gpus[at]) {
				if l.nodes.Node(g) != l.nodes.Node(j.gpus[at]) || g != j.gpus[at] && l.gpus[g].Task >= 0 {
					return false
				}
			}
		}
	}
	j.active = int64(len(tasks) - len(j.redo))
	l.jobs = append(l.jobs, j)
	l.jobOf[s.ID] = j
	return true
}
