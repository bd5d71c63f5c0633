package model

import (
	"fmt"
	"github.com/hare-sched/hare"
	"slices"
	"strings"
)

// Model is an instance with its names resolved: the form for relaxations and schedulers.
// A Model is read-only and may be shared.
type Model struct {
	Instance *hare.Instance
	Types    []string // the types of the cluster, sorted
	GPUs     []GPU    // in the order of nodes, then by index
	// Classes hold GPUs of one type that are available at the same times. The GPUs of a
	// class are interchangeable. Classes are sorted by type, then by first GPU.
	Classes []Class
	Jobs    []Job
	// Placed says that nodes matter (Instance.Placed). Nodes, Kinds and Sets are nil where
	// they do not.
	Placed bool
	Nodes  []Node     // by index in Instance.Cluster.Nodes
	Kinds  []NodeKind // in the order of their first nodes
	Sets   []NodeSet  // the sets of nodes that jobs may use, in the order of their first jobs
	Quotas []Quota
	// Levels is nil unless some job has within or a time by spread.
	Levels *hare.Levels
}

// GPU is one device of the cluster.
type GPU struct {
	ID    string // node/index
	Node  int    // the index in Instance.Cluster.Nodes
	Type  int    // the index in Model.Types
	Class int    // the index in Model.Classes
}

// Class is a set of interchangeable GPUs.
type Class struct {
	Type    int
	Windows []hare.Window // the times in service and not busy; at least [0, Forever) or explicit
	GPUs    []int32       // the indices in Model.GPUs, ascending
}

// Job is a job with its profiles on the types of the cluster.
type Job struct {
	WeightMicro, ReleaseUs int64
	// Rounds are the rounds, or units, that are neither done nor running at time 0; 0 means that the job
	// ends with the work that runs. FirstRound is the first of them.
	Rounds, FirstRound int64
	Tasks              int64
	Sync               hare.Sync
	Mix                bool
	// Modes is sorted by type. It has only types that are available at some time and, where
	// nodes matter, on which at least one task of the job finds room at some time.
	Modes     []Mode
	GPUs      int64 // g ≥ 1, the GPUs of one task
	CPUMilli  int64 // of one task
	MemoryMiB int64 // of one task
	Distinct  bool  // at most one task of a round on a node
	Within    int   // the level of which one domain must hold a round; 0 where Levels is nil
	Set       int   // the index in Model.Sets; −1 means that the job may always use all nodes
	// RunsUntilUs is E, when the work that runs at time 0 ends, and RunsOn are the GPUs on
	// which it runs, as indices in Model.GPUs; 0 and nil where nothing runs.
	RunsUntilUs int64
	RunsOn      []int32
	Quotas      []int32 // the indices in Model.Quotas of the quotas that count the job
	After       []Predecessor
	// DeadlineUs and LateWeightMicro are d and v, and 0 unless the objective is
	// jct_and_tardiness.
	DeadlineUs, LateWeightMicro int64
	// Shapes are the shapes in which the rounds that are left may run; Tasks, GPUs and Modes have
	// no meaning then, and Rounds and FirstRound count units. It is nil for a job without shapes.
	Shapes []Shape
	// Reshape lets rounds have different shapes, with ReshapeUs between two in unlike shapes.
	Reshape   bool
	ReshapeUs int64
	RunsShape int // the shape of the work that runs at time 0, as an index in Job.Shapes
}

// Predecessor is a job for whose end another job waits.
type Predecessor struct {
	Job   int // the index in Model.Jobs
	LagUs int64
}

// Quota limits the GPUs that some jobs hold together at any time.
type Quota struct {
	GPUs  int64
	Types []bool // by index in Model.Types: the GPUs of the type count
	// Running are the GPUs that count and that running work holds, over time.
	Running []Step
}

// Mode is one GPU type that a job may use.
type Mode struct {
	Type int // the index in Model.Types
	// SyncUs is s of a round that is spread as far as the job allows, the longest there is.
	ComputeUs, SyncUs int64
	SwitchUs          int64 // σ, the setup of a GPU for the job
	// SyncByLevel is s by the level that a round is spread over, up to that of Within; nil means
	// that s does not go by spread.
	SyncByLevel []int64
}

// SyncAtUs returns s of a round that is spread over a level.
func (md Mode) SyncAtUs(level int) int64 {
	if md.SyncByLevel == nil {
		return md.SyncUs
	}
	return md.SyncByLevel[level]
}

// DurationUs returns d = p + s, the longest where s goes by spread.
func (md Mode) DurationUs() int64 { return md.ComputeUs + md.SyncUs }

// NewModel resolves inst, which must be valid. It takes O(GPUs log GPUs + jobs · types).
func New(inst *hare.Instance) *Model {
	m := &Model{Instance: inst}
	seen := map[string]bool{}
	for _, n := range inst.Cluster.Nodes {
		for _, g := range n.GPUs {
			if !seen[g.Type] {
				seen[g.Type] = true
				m.Types = append(m.Types, g.Type)
			}
		}
	}
	slices.Sort(m.Types)
	typeIndex := make(map[string]int, len(m.Types))
	for i, t := range m.Types {
		typeIndex[t] = i
	}
	classIndex := map[string]int{}
	runs := runningUntil(inst)
	for ni, n := range inst.Cluster.Nodes {
		index := 0
		busy := n.Busy
		for _, g := range n.GPUs {
			for range g.Count {
				var until int64
				for len(busy) > 0 && busy[0].GPU < index {
					busy = busy[1:]
				}
				if len(busy) > 0 && busy[0].GPU == index {
					until = busy[0].UntilUs
				}
				if runs != nil {
					until = max(until, runs[gpuPlace{n.Name, index}])
				}
				t := typeIndex[g.Type]
				windows := available(n.Windows, until)
				key := classKey(t, windows)
				c, ok := classIndex[key]
				if !ok {
					c = len(m.Classes)
					classIndex[key] = c
					m.Classes = append(m.Classes, Class{Type: t, Windows: windows})
				}
				m.Classes[c].GPUs = append(m.Classes[c].GPUs, int32(len(m.GPUs)))
				m.GPUs = append(m.GPUs, GPU{ID: fmt.Sprintf("%s/%d", n.Name, index), Node: ni, Type: t, Class: c})
				index++
			}
		}
	}
	m.sortClasses()
	served := make([]bool, len(m.Types))
	for _, c := range m.Classes {
		if len(c.Windows) > 0 {
			served[c.Type] = true
		}
	}
	modes := func(on []hare.Profile) (of []Mode) {
		for _, p := range on {
			if of == nil {
				of = make([]Mode, 0, len(on))
			}
			if t, ok := typeIndex[p.Type]; ok && served[t] {
				of = append(of, Mode{Type: t, ComputeUs: p.ComputeUs, SyncUs: p.SyncUs, SwitchUs: p.SwitchUs})
			}
		}
		return of
	}
	m.Jobs = make([]Job, len(inst.Jobs))
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		mj := Job{WeightMicro: j.WeightMicro, ReleaseUs: j.ReleaseUs, Rounds: j.Rounds - j.FirstRound(),
			FirstRound: j.FirstRound(), Tasks: j.Tasks,
			Sync: j.Sync, Mix: j.Mix, GPUs: j.TaskGPUs(), CPUMilli: j.CPUMilliPerTask, MemoryMiB: j.MemoryMiBPerTask,
			Distinct: j.DistinctNodes, Set: -1}
		mj.Modes = modes(j.On)
		mj.addShapes(j, modes)
		m.Jobs[i] = mj
	}
	m.addLevels()
	m.addRunning()
	m.addQuotas()
	m.addDependencies()
	if _, m.Placed = inst.Placed(); m.Placed {
		m.addNodes()
	}
	return m
}

func (m *Model) sortClasses() {
	order := make([]int, len(m.Classes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return m.Classes[a].Type - m.Classes[b].Type })
	classes := make([]Class, len(order))
	place := make([]int, len(order))
	for to, from := range order {
		classes[to] = m.Classes[from]
		place[from] = to
	}
	m.Classes = classes
	for i := range m.GPUs {
		m.GPUs[i].Class = place[m.GPUs[i].Class]
	}
}

// available cuts [0, untilUs) off the windows of service.
func available(windows []hare.Window, untilUs int64) []hare.Window {
	if windows == nil {
		return []hare.Window{{StartUs: untilUs, EndUs: hare.Forever}}
	}
	out := make([]hare.Window, 0, len(windows))
	for _, w := range windows {
		if w.EndUs > untilUs {
			out = append(out, hare.Window{StartUs: max(w.StartUs, untilUs), EndUs: w.EndUs})
		}
	}
	return out
}

func classKey(t int, windows []hare.Window) string {
	var b strings.Builder
	fmt.Fprint(&b, t)
	for _, w := range windows {
		fmt.Fprintf(&b, ",%d-%d", w.StartUs, w.EndUs)
	}
	return b.String()
}

// Step says that Count GPUs are in service from FromUs until the next step.
type Step struct {
	FromUs int64
	Count  int64
}

// Capacity returns M_k(t) of type k as steps from time 0; the count changes at each
// step. It takes O(windows log windows).
func (m *Model) Capacity(k int) []Step {
	changes := map[int64]int64{0: 0}
	for _, c := range m.Classes {
		if c.Type != k {
			continue
		}
		for _, w := range c.Windows {
			changes[w.StartUs] += int64(len(c.GPUs))
			if w.EndUs != hare.Forever {
				changes[w.EndUs] -= int64(len(c.GPUs))
			}
		}
	}
	return sumChanges(changes)
}

// sumChanges makes steps of changes of a count by time.
func sumChanges(changes map[int64]int64) []Step {
	times := make([]int64, 0, len(changes))
	for t := range changes {
		times = append(times, t)
	}
	slices.Sort(times)
	var steps []Step
	var level int64
	for _, t := range times {
		level += changes[t]
		if n := len(steps); n > 0 && steps[n-1].Count == level {
			continue
		}
		steps = append(steps, Step{t, level})
	}
	return steps
}
