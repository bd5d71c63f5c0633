package advice

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
)

// gateUser is the user of all jobs in the session. While the session learns what has changed, a
// quota of no GPUs for this user keeps the session from starting jobs in between.
const gateUser = "advised"

// maxRoundsAtOnce limits the rounds of a job that are reported in one loop.
const maxRoundsAtOnce = 64

// mirror is what the session knows. It is stored as JSON, so that the helper goes on with
// a session after a restart.
type mirror struct {
	OriginUs int64                          `json:"origin_us"` // time 0 of the session, since 1970
	AtUs     int64                          `json:"at_us"`     // the time of the last event, of the session
	Seq      int64                          `json:"seq"`       // the last event
	Nodes    map[string]string              `json:"nodes"`     // by name, what it knows of each
	Jobs     map[string]*toldJob            `json:"jobs"`
	GPUs     map[string]map[string][]string `json:"gpus"`             // of nodes and types, the names of the GPUs
	Quotas   map[string]hare.Quota          `json:"quotas,omitempty"` // by quotaKey
}

// toldJob is a job that the session knows.
type toldJob struct {
	Spec string `json:"spec"` // what it knows of the job
	// GPUs are those on which the session has the job, by task; nil where it waits there.
	GPUs    [][]string       `json:"gpus,omitempty"`
	Round   int64            `json:"round"`    // the round that runs
	FromUs  int64            `json:"from_us"`  // when the round began, of the session
	RoundUs map[string]int64 `json:"round_us"` // by type
	// CPUMilli and MemoryMiB are what the session knows of each task.
	CPUMilli  int64 `json:"cpu_milli,omitempty"`
	MemoryMiB int64 `json:"memory_mib,omitempty"`
	// Started says that the cluster runs the job, and that the session has it on the same nodes.
	Started bool `json:"started"`
}

func newMirror(nowUs int64) *mirror {
	return &mirror{OriginUs: nowUs, Nodes: map[string]string{}, Jobs: map[string]*toldJob{},
		GPUs: map[string]map[string][]string{}}
}

// open takes the nodes as known: a session begins with them.
func (m *mirror) open(s *State) *hare.Cluster {
	b := &batch{m: m}
	m.changeNodes(b, s.nodes())
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
	held   map[string]bool // the GPUs that jobs have; nil until a running job arrives
	// used are the thousandths of CPUs and MiB of memory that jobs have, by node.
	used map[string][2]int64
	has  map[string]*Node
}

func (b *batch) add(e hare.Event) {
	b.m.Seq++
	e.Seq, e.AtUs = b.m.Seq, b.m.AtUs
	b.events = append(b.events, e)
}

func (b *batch) gate(gpus int64) {
	b.add(hare.Event{Type: hare.EventSetQuota, Change: &hare.Change{Quota: &hare.Quota{User: gateUser, GPUs: gpus}}})
}

// update returns the events that tell the session how the cluster is now, and takes them as known.
// The decisions that answer them belong to decided. It takes O(jobs + GPUs), apart from sorts.
func (m *mirror) update(s *State) []hare.Event {
	m.AtUs = max(m.AtUs, s.NowUs-m.OriginUs)
	nodes := s.nodes()
	b := &batch{m: m, has: nodes}
	b.gate(0)
	wanted, ended, order := map[string]*Job{}, map[string]*Job{}, []string{}
	jobs := s.byType()
	for i := range jobs {
		j := &jobs[i]
		if j.State == Ended || j.Spec == nil || j.State == Running && !runsIn(j, nodes) || wanted[j.Spec.ID] != nil {
			continue // where its nodes are out of service, they take no other jobs
		}
		wanted[j.Spec.ID] = j
		order = append(order, j.Spec.ID)
	}
	for i := range jobs {
		if j := &jobs[i]; j.State == Ended && j.Spec != nil && wanted[j.Spec.ID] == nil {
			ended[j.Spec.ID] = j
		}
	}
	m.leave(b, wanted, ended)
	m.changeNodes(b, nodes)
	m.changeQuotas(b, s.Quotas)
	for _, state := range []JobState{Running, Waiting} {
		for _, id := range order {
			if j := wanted[id]; j.State == state && m.Jobs[id] == nil {
				m.arrive(b, j)
			}
		}
	}
	b.gate(hare.MaxGPUs)
	b.add(hare.Event{Type: hare.EventTick})
	return b.events
}

// quotaKey tells the quotas of a session apart.
func quotaKey(q *hare.Quota) string { return fmt.Sprintf("%q %q", q.User, q.Types) }

// changeQuotas tells which quotas came, went or changed.
func (m *mirror) changeQuotas(b *batch, quotas []hare.Quota) {
	now := map[string]hare.Quota{}
	for i := range quotas {
		now[quotaKey(&quotas[i])] = quotas[i]
	}
	for _, key := range slices.Sorted(maps.Keys(m.Quotas)) {
		if _, there := now[key]; !there {
			gone := m.Quotas[key]
			gone.GPUs = hare.MaxGPUs
			b.add(hare.Event{Type: hare.EventSetQuota, Change: &hare.Change{Quota: &gone}})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if q := now[key]; m.Quotas[key].GPUs != q.GPUs || m.Quotas[key].User == "" {
			b.add(hare.Event{Type: hare.EventSetQuota, Change: &hare.Change{Quota: &q}})
		}
	}
	m.Quotas = now
}

// runsIn reports whether all nodes of a running job are in service.
func runsIn(j *Job, nodes map[string]*Node) bool {
	return len(j.On) > 0 && !slices.ContainsFunc(j.On, func(h history.Held) bool {
		return h.GPUs > 0 && nodes[h.Node] == nil
	})
}

// leave takes out of the session the jobs that have ended, and those that the session has
// otherwise than the cluster.
func (m *mirror) leave(b *batch, wanted, ended map[string]*Job) {
	for _, id := range slices.Sorted(maps.Keys(m.Jobs)) {
		t, j := m.Jobs[id], wanted[id]
		if j != nil && t.Spec == jobText(j) {
			switch {
			case j.State == Waiting && t.GPUs == nil:
				continue
			case j.State == Running && t.GPUs != nil && m.sameNodes(t, j):
				if !t.Started {
					t.Started, t.FromUs = true, max(0, j.StartUs-m.OriginUs)
				}
				m.rounds(b, id, t, m.AtUs, false)
				continue
			}
		}
		end, gone := ended[id], hare.EventJobCancelled
		if j == nil && end != nil && t.Started && end.Completed {
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

// sameNodes reports whether the session has a job on as many GPUs of the same types on the same nodes
// as the cluster has. Which of the GPUs these are makes no difference.
func (m *mirror) sameNodes(t *toldJob, j *Job) bool {
	count := map[string]int64{}
	for _, gpus := range t.GPUs {
		for _, gpu := range gpus {
			node, _, _ := strings.Cut(gpu, "/")
			count[node+"\x00"+m.typeOf(gpu)]++
		}
	}
	for _, h := range j.On {
		count[h.Node+"\x00"+h.Type] -= h.GPUs
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
			// The tasks that it had are lost; jobs that run there are reported again.
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

func nodeText(n *Node) string { return fmt.Sprint(n.GPUs, n.Labels, n.CPUMilli, n.MemoryMiB) }

// sessionNode is a node as the session gets it.
func sessionNode(n *Node) hare.Node {
	out := hare.Node{Name: n.Name, GPUs: slices.Clone(n.GPUs), Labels: slices.Clone(n.Labels), CPUMilli: n.CPUMilli,
		MemoryMiB: n.MemoryMiB}
	if len(out.Labels) > hare.MaxLabels {
		out.Labels = out.Labels[:hare.MaxLabels]
	}
	slices.SortFunc(out.Labels, func(a, b hare.Label) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// arrive tells a job that waits, or that the cluster has started, with its GPUs.
func (m *mirror) arrive(b *batch, j *Job) {
	spec := j.Spec
	t := &toldJob{Spec: jobText(j), RoundUs: map[string]int64{}}
	for _, p := range spec.On {
		t.RoundUs[p.Type] = p.ComputeUs
	}
	told := *spec
	told.Users = []string{gateUser}
	if j.Queue != "" {
		told.Users = append(told.Users, j.Queue)
		slices.Sort(told.Users)
	}
	if j.State == Running {
		all := b.take(j)
		if all == nil {
			return // the cluster has given its GPUs to others too: the next reading tells
		}
		// It stays where it is: where it was allowed to go does not matter any more, and may have changed.
		told.Only, told.Exclude = nil, nil
		if t.GPUs = tasksOf(all, int(spec.TaskGPUs()), spec.DistinctNodes, b.m.typeOf); t.GPUs == nil {
			told.Tasks, told.GPUsPerTask, told.DistinctNodes = int64(len(all)), 0, false
			told.CPUMilliPerTask, told.MemoryMiBPerTask = 0, 0
			t.GPUs = tasksOf(all, 1, false, b.m.typeOf)
		}
		if !b.fits(&told, t.GPUs) { // Slurm may let jobs share CPUs
			told.CPUMilliPerTask, told.MemoryMiBPerTask = 0, 0
		}
		b.hold(t.GPUs, told.CPUMilliPerTask, told.MemoryMiBPerTask)
		length := max(1, t.RoundUs[m.typeOf(t.GPUs[0][0])])
		elapsed := max(0, m.AtUs-(j.StartUs-m.OriginUs))
		t.Round, t.FromUs, t.Started = elapsed/length, m.AtUs-elapsed%length, true
		told.Progress = &hare.Progress{RoundsDone: t.Round, ElapsedUs: elapsed % length}
		for _, gpus := range t.GPUs {
			told.Progress.GPUs = append(told.Progress.GPUs, gpus...)
		}
	}
	t.CPUMilli, t.MemoryMiB = told.CPUMilliPerTask, told.MemoryMiBPerTask
	m.Jobs[spec.ID] = t
	b.add(hare.Event{Type: hare.EventJobArrived, Job: told.ID, Arrived: &told})
}

// take finds GPUs of the session for a job that runs; nil where there are none.
func (b *batch) take(j *Job) (all []string) {
	if b.held == nil {
		b.held, b.used = map[string]bool{}, map[string][2]int64{}
		for _, id := range slices.Sorted(maps.Keys(b.m.Jobs)) {
			t := b.m.Jobs[id]
			b.hold(t.GPUs, t.CPUMilli, t.MemoryMiB)
		}
	}
	for _, h := range j.On {
		left := h.GPUs
		for _, gpuType := range slices.Sorted(maps.Keys(b.m.GPUs[h.Node])) {
			for _, gpu := range b.m.GPUs[h.Node][gpuType] {
				if left > 0 && !b.held[gpu] && (h.Type == "" || h.Type == gpuType) && !slices.Contains(all, gpu) {
					all = append(all, gpu)
					left--
				}
			}
		}
		if left > 0 {
			return nil
		}
	}
	if int64(len(all)) != j.Spec.Tasks*j.Spec.TaskGPUs() {
		return nil
	}
	return all
}

// nodeOf is the node of a GPU.
func nodeOf(gpu string) string {
	node, _, _ := strings.Cut(gpu, "/")
	return node
}

// hold notes what tasks have.
func (b *batch) hold(tasks [][]string, cpuMilli, memoryMiB int64) {
	for _, gpus := range tasks {
		for _, gpu := range gpus {
			b.held[gpu] = true
		}
		if len(gpus) > 0 && cpuMilli+memoryMiB > 0 {
			u := b.used[nodeOf(gpus[0])]
			b.used[nodeOf(gpus[0])] = [2]int64{u[0] + cpuMilli, u[1] + memoryMiB}
		}
	}
}

// fits reports whether the nodes of tasks have CPUs and memory for them next to the other running jobs.
func (b *batch) fits(spec *hare.Job, tasks [][]string) bool {
	need := map[string]int64{}
	for _, gpus := range tasks {
		need[nodeOf(gpus[0])]++
	}
	for name, n := range need {
		node, used := b.has[name], b.used[name]
		if node == nil {
			return false
		}
		if node.CPUMilli > 0 && used[0]+n*spec.CPUMilliPerTask > node.CPUMilli ||
			node.MemoryMiB > 0 && used[1]+n*spec.MemoryMiBPerTask > node.MemoryMiB {
			return false
		}
	}
	return true
}

// tasksOf gives each task g of the GPUs; nil where a task would have GPUs of two nodes or types, or two
// tasks that must be on distinct nodes would share one.
func tasksOf(all []string, g int, distinct bool, typeOf func(string) string) (tasks [][]string) {
	seen := map[string]bool{}
	for ; len(all) > 0; all = all[g:] {
		node, gpuType := nodeOf(all[0]), typeOf(all[0])
		if distinct && seen[node] || slices.ContainsFunc(all[1:g], func(gpu string) bool {
			return nodeOf(gpu) != node || typeOf(gpu) != gpuType
		}) {
			return nil
		}
		seen[node] = true
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

// jobText is what the session knows of a job, as text that changes with it.
func jobText(j *Job) string {
	spec := j.Spec
	text := ""
	if j.Queue != "" {
		text = " " + j.Queue
	}
	return fmt.Sprint(spec.On, spec.Tasks, spec.GPUsPerTask, spec.DistinctNodes, spec.Only, spec.Exclude,
		spec.CPUMilliPerTask, spec.MemoryMiBPerTask) + text
}
