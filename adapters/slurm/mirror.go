package slurm

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
)

// gateUser is the user of all jobs in the session. While the session is told what has changed, a
// quota of no GPUs for this user keeps the session from starting jobs in between.
const gateUser = "slurm"

// Beliefs about jobs that nobody knows more of.
const (
	// roundsOfJob is how many rounds the policy believes that a job has before it has learned
	// better: a job whose duration is given has rounds of an eighth of it.
	roundsOfJob = 8
	// limitShare says that a job of which only the limit is known is expected to take a
	// quarter of it, until the jobs that end tell better.
	limitShare = 4
	// noLimitUs is the limit of a job that has none.
	noLimitUs = 24 * 3600 * 1_000_000
	// maxRoundsAtOnce limits the rounds of a job that are told in one loop.
	maxRoundsAtOnce = 64
)

// mirror is what the session has been told. It is stored as JSON, so that the helper goes on with
// a session after a restart.
type mirror struct {
	OriginUs int64                          `json:"origin_us"` // time 0 of the session, since 1970
	AtUs     int64                          `json:"at_us"`     // the time of the last event, of the session
	Seq      int64                          `json:"seq"`       // the last event
	Nodes    map[string]string              `json:"nodes"`     // by name, what was told of each
	Jobs     map[string]*toldJob            `json:"jobs"`
	GPUs     map[string]map[string][]string `json:"gpus"` // of nodes and types, the names of the GPUs
}

// toldJob is a job that the session knows.
type toldJob struct {
	Spec  string `json:"spec"`  // what was told of the job
	Entry int64  `json:"entry"` // of Slurm's queue
	// GPUs are those on which the session has the job, by task; nil where it waits there.
	GPUs    [][]string       `json:"gpus,omitempty"`
	Round   int64            `json:"round"`    // the round that runs
	FromUs  int64            `json:"from_us"`  // when the round began, of the session
	RoundUs map[string]int64 `json:"round_us"` // by type
	// Started says that Slurm runs the job, and that the session has it on the same nodes.
	Started bool `json:"started"`
}

func newMirror(nowUs int64) *mirror {
	return &mirror{OriginUs: nowUs, Nodes: map[string]string{}, Jobs: map[string]*toldJob{},
		GPUs: map[string]map[string][]string{}}
}

// open takes the nodes in service as told: a session begins with them.
func (m *mirror) open(s *State) *hare.Cluster {
	b, nodes := &batch{m: m}, map[string]*Node{}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.InService && len(n.GPUs) > 0 {
			nodes[n.Name] = n
		}
	}
	m.changeNodes(b, nodes)
	m.Seq = 0
	cluster := &hare.Cluster{}
	for _, e := range b.events {
		cluster.Nodes = append(cluster.Nodes, *e.Node())
	}
	return cluster
}

// batch collects the events of one loop.
type batch struct {
	m      *mirror
	events []hare.Event
}

func (b *batch) add(e hare.Event) {
	b.m.Seq++
	e.Seq, e.AtUs = b.m.Seq, b.m.AtUs
	b.events = append(b.events, e)
}

func (b *batch) gate(gpus int64) {
	b.add(hare.Event{Type: hare.EventSetQuota, Change: &hare.Change{Quota: &hare.Quota{User: gateUser, GPUs: gpus}}})
}

// update returns the events that tell the session how the cluster is now, and takes them as told.
// The decisions that answer them belong to decided. It takes O(jobs + GPUs), apart from sorts.
func (m *mirror) update(s *State, speeds *history.Speeds) []hare.Event {
	m.AtUs = max(m.AtUs, s.NowUs-m.OriginUs)
	b := &batch{m: m}
	b.gate(0)
	types := s.typesOf()
	nodes := map[string]*Node{}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.InService && len(n.GPUs) > 0 {
			nodes[n.Name] = n
		}
	}
	wanted, order := map[string]*Job{}, []string{}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.State != history.Running && (j.State != history.Pending || !j.Ready) {
			continue
		}
		if j.State == history.Running && !runsIn(j, nodes) {
			continue // its nodes take no other jobs
		}
		if wanted[j.ID] == nil {
			wanted[j.ID] = j
			order = append(order, j.ID)
		}
	}
	ended := map[string]*Job{}
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.EndUs > 0 && j.State != history.Pending && wanted[j.ID] == nil {
			ended[j.ID] = j
		}
	}
	specs := map[string]*hare.Job{}
	for _, id := range order {
		specs[id] = sessionJob(wanted[id], s.Nodes, types, speeds)
		if specs[id] == nil {
			delete(wanted, id)
		}
	}
	m.leave(b, wanted, ended, specs)
	m.changeNodes(b, nodes)
	for _, running := range []bool{true, false} {
		for _, id := range order {
			if j := wanted[id]; j != nil && (j.State == history.Running) == running && m.Jobs[id] == nil {
				m.arrive(b, j, specs[id])
			}
		}
	}
	b.gate(hare.MaxGPUs)
	b.add(hare.Event{Type: hare.EventTick})
	return b.events
}

// runsIn says whether all nodes of a running job are in service.
func runsIn(j *Job, nodes map[string]*Node) bool {
	return len(j.On) > 0 && !slices.ContainsFunc(j.On, func(h history.Held) bool {
		return h.GPUs > 0 && nodes[h.Node] == nil
	})
}

// leave takes out of the session the jobs that have ended, and those that the session has
// otherwise than Slurm.
func (m *mirror) leave(b *batch, wanted, ended map[string]*Job, specs map[string]*hare.Job) {
	for _, id := range slices.Sorted(maps.Keys(m.Jobs)) {
		t, j := m.Jobs[id], wanted[id]
		if j != nil {
			t.Entry = j.Entry
		}
		if j != nil && t.Spec == specText(specs[id]) {
			switch {
			case j.State == history.Pending && t.GPUs == nil:
				continue
			case j.State == history.Running && t.GPUs != nil && m.sameNodes(t, j):
				if !t.Started {
					t.Started, t.FromUs = true, max(0, j.StartUs-m.OriginUs)
				}
				m.rounds(b, id, t, m.AtUs, false)
				continue
			}
		}
		end, gone := ended[id], hare.EventJobCancelled
		if j == nil && end != nil && t.Started && end.State == history.Completed {
			m.rounds(b, id, t, max(t.FromUs+1, end.EndUs-m.OriginUs), true)
			gone = hare.EventJobEnded
		}
		b.add(hare.Event{Type: gone, Job: id})
		delete(m.Jobs, id)
	}
}

// rounds tells the rounds of a running job that are over at a time. A job that ends has at least
// one.
func (m *mirror) rounds(b *batch, id string, t *toldJob, untilUs int64, last bool) {
	gpuType := m.typeOf(t.GPUs[0][0])
	length := max(1, t.RoundUs[gpuType])
	n := min((untilUs-t.FromUs)/length, maxRoundsAtOnce)
	if last && (untilUs-t.FromUs)%length*2 >= length || last && t.Round == 0 && n == 0 {
		n++ // the rest counts as a round where it is more than half of one
	}
	for range max(0, n) {
		for task, gpus := range t.GPUs {
			b.add(hare.Event{Type: hare.EventTaskEnded, Job: id, Round: t.Round, Task: int64(task), GPU: gpus[0],
				ComputeUs: length})
		}
		t.Round++
		t.FromUs += length
	}
	if (untilUs-t.FromUs)/length > maxRoundsAtOnce {
		t.FromUs = untilUs
	}
}

// typeOf finds the type of a GPU of the session.
func (m *mirror) typeOf(gpu string) string {
	node, _, _ := strings.Cut(gpu, "/")
	for gpuType, names := range m.GPUs[node] {
		if slices.Contains(names, gpu) {
			return gpuType
		}
	}
	return ""
}

// sameNodes says whether the session has a job on as many GPUs of the same types on the same nodes
// as Slurm has. Which of the GPUs these are makes no difference.
func (m *mirror) sameNodes(t *toldJob, j *Job) bool {
	count := map[hare.TypeCount]int{}
	for _, gpus := range t.GPUs {
		for _, gpu := range gpus {
			node, _, _ := strings.Cut(gpu, "/")
			count[hare.TypeCount{Type: node + "\x00" + m.typeOf(gpu)}]++
		}
	}
	for _, h := range gpusHeld(j.On) {
		count[hare.TypeCount{Type: h.Type}] -= h.Count
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// changeNodes tells which nodes came, went or changed.
func (m *mirror) changeNodes(b *batch, nodes map[string]*Node) {
	for _, name := range slices.Sorted(maps.Keys(m.Nodes)) {
		if n := nodes[name]; n == nil || nodeText(n) != m.Nodes[name] {
			b.add(hare.Event{Type: hare.EventNodeLeft, Change: &hare.Change{Node: &hare.Node{Name: name}}})
			// The tasks that it had are lost; jobs that run there are told anew.
			for _, t := range m.Jobs {
				if slices.ContainsFunc(t.GPUs, func(gpus []string) bool { return strings.HasPrefix(gpus[0], name+"/") }) {
					t.GPUs, t.Started, t.Spec = nil, false, ""
				}
			}
			delete(m.Nodes, name)
			delete(m.GPUs, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		if _, known := m.Nodes[name]; known {
			continue
		}
		n := sessionNode(nodes[name])
		b.add(hare.Event{Type: hare.EventNodeJoined, Change: &hare.Change{Node: &n}})
		m.Nodes[name] = nodeText(nodes[name])
		m.GPUs[name] = map[string][]string{}
		at := 0
		for _, g := range n.GPUs {
			for range g.Count {
				m.GPUs[name][g.Type] = append(m.GPUs[name][g.Type], fmt.Sprintf("%s/%d", name, at))
				at++
			}
		}
	}
}

func nodeText(n *Node) string { return fmt.Sprint(n.GPUs, n.Features, n.Partitions) }

// sessionNode is a node as the session is told it.
func sessionNode(n *Node) hare.Node {
	out := hare.Node{Name: n.Name, GPUs: slices.Clone(n.GPUs)}
	for _, f := range n.Features {
		out.Labels = append(out.Labels, hare.Label{Name: "feature." + f, Value: "yes"})
	}
	for _, p := range n.Partitions {
		out.Labels = append(out.Labels, hare.Label{Name: "partition." + p, Value: "yes"})
	}
	if len(out.Labels) > hare.MaxLabels {
		out.Labels = out.Labels[:hare.MaxLabels]
	}
	slices.SortFunc(out.Labels, func(a, b hare.Label) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// arrive tells a job that waits, or that Slurm has started, with its GPUs.
func (m *mirror) arrive(b *batch, j *Job, spec *hare.Job) {
	t := &toldJob{Spec: specText(spec), Entry: j.Entry, RoundUs: map[string]int64{}}
	for _, p := range spec.On {
		t.RoundUs[p.Type] = p.ComputeUs
	}
	told := *spec
	if j.State == history.Running {
		if t.GPUs = m.take(j, spec); t.GPUs == nil {
			return // Slurm has the job on GPUs that it gave to others too: the next reading tells
		}
		length := max(1, t.RoundUs[m.typeOf(t.GPUs[0][0])])
		elapsed := max(0, m.AtUs-(j.StartUs-m.OriginUs))
		t.Round, t.FromUs, t.Started = elapsed/length, m.AtUs-elapsed%length, true
		told.Progress = &hare.Progress{RoundsDone: t.Round, ElapsedUs: elapsed % length}
		for _, gpus := range t.GPUs {
			told.Progress.GPUs = append(told.Progress.GPUs, gpus...)
		}
	}
	m.Jobs[j.ID] = t
	b.add(hare.Event{Type: hare.EventJobArrived, Job: told.ID, Arrived: &told})
}

// take finds GPUs of the session for a job that runs, one list a task; nil where there are none.
func (m *mirror) take(j *Job, spec *hare.Job) (tasks [][]string) {
	held := map[string]bool{}
	for _, t := range m.Jobs {
		for _, gpus := range t.GPUs {
			for _, gpu := range gpus {
				held[gpu] = true
			}
		}
	}
	var all []string
	for _, h := range j.On {
		left := h.GPUs
		for _, gpuType := range slices.Sorted(maps.Keys(m.GPUs[h.Node])) {
			for _, gpu := range m.GPUs[h.Node][gpuType] {
				if left > 0 && !held[gpu] && (h.Type == "" || h.Type == gpuType) {
					all = append(all, gpu)
					held[gpu] = true
					left--
				}
			}
		}
		if left > 0 {
			return nil
		}
	}
	g := int(spec.TaskGPUs())
	if int64(len(all)) != spec.Tasks*int64(g) {
		return nil
	}
	for ; len(all) > 0; all = all[g:] {
		tasks = append(tasks, slices.Clone(all[:g]))
	}
	return tasks
}

// decided takes the decisions of the session: where it has started jobs.
func (m *mirror) decided(answers []hare.Answer) {
	for _, a := range answers {
		for i := range a.Decisions {
			d := &a.Decisions[i]
			t := m.Jobs[d.Job]
			if t == nil || t.Started {
				continue
			}
			if d.Type == hare.DecisionWithdraw {
				t.GPUs = nil
				continue
			}
			for int64(len(t.GPUs)) <= d.Task {
				t.GPUs = append(t.GPUs, nil)
			}
			t.GPUs[d.Task], t.Round, t.FromUs = d.GPUs(), d.Round, d.AtUs
		}
	}
}

// specText is what the session is told of a job, as text that changes with it.
func specText(spec *hare.Job) string {
	return fmt.Sprint(spec.On, spec.Tasks, spec.GPUsPerTask, spec.DistinctNodes, spec.Only)
}

// sessionJob is a job as the session is told it; nil where no node could run it.
func sessionJob(j *Job, nodes []Node, types []string, speeds *history.Speeds) *hare.Job {
	out := &hare.Job{ID: j.ID, WeightMicro: 1e6, Sync: hare.Rigid, Users: []string{gateUser}, Tasks: j.GPUs}
	if j.PerTask != 1 && j.Nodes > 0 && j.GPUs%j.Nodes == 0 {
		out.Tasks, out.DistinctNodes = j.Nodes, j.Nodes > 1
		if g := j.GPUs / j.Nodes; g > 1 {
			out.GPUsPerTask = g
		}
	}
	feature, ok := parseConstraint(j.Features)
	can := map[string]bool{}
	everywhere := true // all nodes with GPUs satisfy the constraint and are in the partition
	for i := range nodes {
		n := &nodes[i]
		if len(n.GPUs) == 0 || !n.InService {
			continue
		}
		if ok && !feature.admits(n.Features) || j.Partition != "" && len(n.Partitions) > 0 &&
			!sharesPartition(j.Partition, n.Partitions) {
			everywhere = false
			continue
		}
		for _, g := range n.GPUs {
			can[g.Type] = true
		}
	}
	if j.State == history.Running { // its GPUs count, whatever was asked
		for _, h := range j.On {
			can[h.Type] = true
		}
	}
	limit := cmp.Or(j.LimitUs, noLimitUs)
	slowest := ""
	for _, t := range types {
		if can[t] && (j.Type == "" || strings.EqualFold(j.Type, t)) && (slowest == "" || slower(j, speeds, t, slowest)) {
			slowest = t
		}
	}
	fastestUs := int64(0)
	for _, t := range types {
		if !can[t] || j.Type != "" && !strings.EqualFold(j.Type, t) {
			continue
		}
		us := secondsOn(j, t)
		if us == 0 {
			us, _ = speeds.Time(&j.Job, slowest, t, max(1, limit/limitShare))
		}
		us = min(max(us, roundsOfJob), hare.MaxExact)
		out.On = append(out.On, hare.Profile{Type: t, ComputeUs: us / roundsOfJob})
		if fastestUs == 0 || us < fastestUs {
			fastestUs = us
		}
	}
	if len(out.On) == 0 {
		return nil
	}
	if !everywhere {
		if !feature.either {
			for _, f := range feature.names {
				out.Only = append(out.Only, hare.LabelValues{Label: "feature." + f, Values: []string{"yes"}})
			}
		}
		if p, _, several := strings.Cut(j.Partition, ","); p != "" && !several && leavesOut(p, nodes) {
			out.Only = append(out.Only, hare.LabelValues{Label: "partition." + p, Values: []string{"yes"}})
		}
		slices.SortFunc(out.Only, func(a, b hare.LabelValues) int { return strings.Compare(a.Label, b.Label) })
		out.Only = slices.CompactFunc(out.Only, func(a, b hare.LabelValues) bool { return a.Label == b.Label })
	}
	out.Hints = &hare.JobHints{EstimateUs: fastestUs, Class: []hare.ClassLabel{
		{Name: "name", Value: short(j.Name)}, {Name: "user", Value: short(j.User)}}}
	return out
}

// slower says whether the job is slower on the first type than on the second.
func slower(j *Job, speeds *history.Speeds, a, b string) bool {
	us, _ := speeds.Time(&j.Job, a, b, 1_000_000)
	return us < 1_000_000
}

// secondsOn is the time that the job's comment gives for a type.
func secondsOn(j *Job, gpuType string) int64 {
	for _, d := range j.Seconds {
		if strings.EqualFold(d.Type, gpuType) {
			return d.Us
		}
	}
	return 0
}

// short cuts a label of a class to the length that sessions take.
func short(text string) string {
	if runes := []rune(strings.ToValidUTF8(text, "?")); len(runes) > hare.MaxClassText {
		return string(runes[:hare.MaxClassText])
	}
	return strings.ToValidUTF8(text, "?")
}

func sharesPartition(wanted string, has []string) bool {
	return slices.ContainsFunc(strings.Split(wanted, ","), func(p string) bool { return slices.Contains(has, p) })
}

// leavesOut says whether a node with GPUs is not in the partition.
func leavesOut(partition string, nodes []Node) bool {
	return slices.ContainsFunc(nodes, func(n Node) bool {
		return len(n.GPUs) > 0 && n.InService && !slices.Contains(n.Partitions, partition)
	})
}
