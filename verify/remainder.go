package verify

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"github.com/hare-sched/hare"
)

// remainder is what a schedule leaves to be planned at an instant, by the rules of
// docs/replan.md: an instance whose time 0 is that instant.
type remainder struct {
	at       int64
	rest     *hare.Instance
	constant *big.Int    // the part of Σ w (C − a), in 1e-12, that no plan for the rest changes
	done     []int64     // by job of the whole instance: the rounds that the rest lacks
	kept     []laneEntry // what the whole keeps of the schedule

	started        []hare.StartedWork
	lost           []lostJob
	added, removed []string
	renamed        []hare.RenamedGPU
}

// lostJob is work that had started and must be repeated.
type lostJob struct {
	job   string
	round int64
	gpus  []string // the GPUs that it would still have needed
}

// laneEntry is one entry of a schedule on its GPU.
type laneEntry struct {
	gpu, kind string
	job       int // the index in the whole instance
	hare.Entry
}

// span is a half-open interval of time on a GPU.
type span struct{ from, to int64 }

// remainderBuilder divides a schedule at an instant.
type remainderBuilder struct {
	remainder
	whole, before *hare.Instance
	nodes         directory // of the whole
	held          map[int]map[int][]span
}

// remainderOf returns what is left of whole at the instant at if s, a feasible schedule of
// before, has been followed until then. An error says that s has started work that
// contradicts whole. remainderOf takes O(entries log entries + jobs + nodes + GPUs of nodes
// that are split), whatever the number of rounds.
func remainderOf(whole, before *hare.Instance, s *hare.Schedule, at int64) (*remainder, error) {
	p := &remainderBuilder{
		remainder: remainder{at: at, constant: new(big.Int), done: make([]int64, len(whole.Jobs))},
		whole:     whole, before: before, nodes: newDirectory(&whole.Cluster), held: map[int]map[int][]span{},
	}
	p.rest = &hare.Instance{Name: whole.Name, Objective: whole.Objective}
	old := make(map[string]int, len(before.Jobs))
	for i := range before.Jobs {
		old[before.Jobs[i].ID] = i
	}
	entries := laneEntries(before, s, old)
	for i := range whole.Jobs {
		job := &whole.Jobs[i]
		b, ok := old[job.ID]
		if !ok {
			p.added = append(p.added, job.ID)
			p.addRest(i, at)
			continue
		}
		delete(old, job.ID)
		if err := p.job(i, &before.Jobs[b], entries[b]); err != nil {
			return nil, err
		}
	}
	for i := range before.Jobs {
		if _, gone := old[before.Jobs[i].ID]; gone {
			p.removed = append(p.removed, before.Jobs[i].ID)
		}
	}
	if err := p.cluster(); err != nil {
		return nil, err
	}
	if len(p.rest.Cluster.Nodes) == 0 {
		return nil, fmt.Errorf("no GPU of the instance is in service from at_s on")
	}
	return &p.remainder, nil
}

// laneEntries gathers the entries of a feasible schedule by job of its instance.
func laneEntries(inst *hare.Instance, s *hare.Schedule, place map[string]int) [][]laneEntry {
	out := make([][]laneEntry, len(inst.Jobs))
	nodes := newDirectory(&inst.Cluster)
	for i := range s.Lanes {
		l := &s.Lanes[i]
		_, _, kind, _ := nodes.find(&inst.Cluster, l.GPU)
		for x := range l.Job {
			e := l.Entry(x)
			j := place[s.Jobs[e.Job]]
			out[j] = append(out[j], laneEntry{gpu: l.GPU, kind: kind, Entry: e})
		}
	}
	return out
}

// roundsBegun counts the rounds that have begun before at up to those of the entry,
// including all that the job has before the entry.
func (le *laneEntry) roundsBegun(at int64) int64 {
	switch {
	case le.StartUs >= at:
		return 0
	case le.Rounds == 1:
		return le.Round + 1
	}
	return le.Round + min(le.Rounds, 1+(at-le.StartUs-1)/le.PeriodUs)
}

// roundStart returns when round r of the job begins on this entry.
func (le *laneEntry) roundStart(r int64) int64 {
	if r == le.Round {
		return le.StartUs
	}
	return le.StartUs + (r-le.Round)*le.PeriodUs
}

// hasRound reports whether the entry has tasks of round r.
func (le *laneEntry) hasRound(r int64) bool { return le.Round <= r && r < le.Round+le.Rounds }

// taskTimes returns the compute and synchronisation times of the job's tasks on a type.
func taskTimes(j *hare.Job, kind string) (compute, sync int64) {
	for i := range j.On {
		if j.On[i].Type == kind {
			return j.On[i].ComputeUs, j.On[i].SyncUs
		}
	}
	return 0, 0
}

// endOf returns when all tasks of round r have synchronised.
func endOf(j *hare.Job, all []laneEntry, r int64) int64 {
	end := int64(0)
	for i := range all {
		if s := &all[i]; s.hasRound(r) {
			compute, sync := taskTimes(j, s.kind)
			end = max(end, s.roundStart(r)+s.Tasks*compute+sync)
		}
	}
	return end
}

// job divides job i of the whole, which was old and has these entries.
func (rb *remainderBuilder) job(i int, old *hare.Job, entries []laneEntry) error {
	now := &rb.whole.Jobs[i]
	done := int64(0)
	for x := range entries {
		done = max(done, entries[x].roundsBegun(rb.at))
	}
	if done == 0 {
		rb.addRest(i, rb.at)
		return nil
	}
	if old.Sync != now.Sync || old.Tasks != now.Tasks || old.Mix != now.Mix || old.ReleaseUs != now.ReleaseUs ||
		old.Sync == hare.Rigid && old.Rounds != now.Rounds {
		return fmt.Errorf("job %.60q has started and is another job in the instance", now.ID)
	}
	if old.Sync == hare.Rigid {
		done = old.Rounds
	}
	release := rb.at
	if end := endOf(old, entries, done-1); end > rb.at {
		needs, missing := rb.needs(old, entries, done-1, end)
		if len(missing) == 0 {
			for _, n := range needs {
				rb.hold(n)
			}
			rb.started = append(rb.started, hare.StartedWork{Job: now.ID, Rounds: done, UntilUs: end})
			release = end
		} else {
			done--
			if old.Sync == hare.Rigid {
				done = 0
			}
			rb.lost = append(rb.lost, lostJob{now.ID, done, missing})
		}
	}
	if done > now.Rounds {
		return fmt.Errorf("job %.60q has %d rounds in the instance, and %d of it have run or started",
			now.ID, now.Rounds, done)
	}
	rb.done[i] = done
	for _, s := range entries {
		if s.Round < done {
			s.job, s.Rounds = i, min(s.Rounds, done-s.Round)
			rb.kept = append(rb.kept, s)
		}
	}
	if done == now.Rounds {
		rb.addToConstant(now, endOf(old, entries, done-1))
		return nil
	}
	rb.addRest(i, release)
	return nil
}

// need is a GPU that started work holds for a time.
type need struct {
	node, number int
	span
}

// needs returns the GPUs that the started round r, which ends at end, still needs, and
// the names of those that the instance does not offer for that time.
func (rb *remainderBuilder) needs(j *hare.Job, entries []laneEntry, r, end int64) (needs []need, missing []string) {
	for x := range entries {
		s := &entries[x]
		if !s.hasRound(r) {
			continue
		}
		hold := span{max(rb.at, s.roundStart(r)), end}
		switch j.Sync {
		case hare.Relaxed:
			compute, _ := taskTimes(j, s.kind)
			hold.to = s.roundStart(r) + s.Tasks*compute
		case hare.Rigid:
			hold.from = rb.at // all rounds until then are one block
		}
		if hold.to <= hold.from {
			continue // the task has left the GPU, and only its synchronisation is left
		}
		node, number, kind, ok := rb.nodes.find(&rb.whole.Cluster, s.gpu)
		open := func() bool {
			return slices.ContainsFunc(openTimes(&rb.whole.Cluster.Nodes[node], number), func(w hare.Window) bool {
				return w.StartUs <= hold.from && hold.to <= w.EndUs
			})
		}
		if ok && kind == s.kind && open() {
			needs = append(needs, need{node, number, hold})
		} else {
			missing = append(missing, s.gpu)
		}
	}
	return needs, missing
}

func (rb *remainderBuilder) hold(n need) {
	of := rb.held[n.node]
	if of == nil {
		of = map[int][]span{}
		rb.held[n.node] = of
	}
	of[n.number] = append(of[n.number], n.span)
}

// addRest adds what is left of job i of the whole, which can continue at release.
func (rb *remainderBuilder) addRest(i int, release int64) {
	j := rb.whole.Jobs[i]
	from := max(release, j.ReleaseUs)
	rb.addToConstant(&j, from)
	j.ReleaseUs = from - rb.at
	j.Rounds -= rb.done[i]
	rb.rest.Jobs = append(rb.rest.Jobs, j)
}

// addToConstant adds w (t − a) to the constant.
func (rb *remainderBuilder) addToConstant(j *hare.Job, t int64) {
	x := times(j.WeightMicro)
	rb.constant.Add(rb.constant, x.Mul(x, big.NewInt(t-j.ReleaseUs)))
}

// maxSplit limits GPUs × windows of the nodes that are split, so that a hostile document
// cannot make a rest that is far larger than the document.
const maxSplit = 1 << 24

// cluster builds the nodes of the rest.
func (rb *remainderBuilder) cluster() error {
	split := 0
	taken := make(map[string]bool, len(rb.nodes))
	for name := range rb.nodes {
		taken[name] = true
	}
	for i := range rb.whole.Cluster.Nodes {
		n := &rb.whole.Cluster.Nodes[i]
		windows := rb.windowsFromNow(n)
		if len(windows) == 0 {
			continue // the node never returns
		}
		busy := map[int]int64{}
		for _, b := range n.Busy {
			if b.UntilUs > rb.at {
				busy[b.GPU] = b.UntilUs - rb.at
			}
		}
		later := map[int][]span{}
		for number, spans := range rb.held[i] {
			slices.SortFunc(spans, func(a, b span) int { return int(min(1, max(-1, a.from-b.from))) })
			for _, s := range spans {
				s.from, s.to = s.from-rb.at, s.to-rb.at
				if s.from <= busy[number] {
					busy[number] = max(busy[number], s.to)
				} else {
					later[number] = append(later[number], s)
				}
			}
		}
		if len(later) == 0 {
			out := hare.Node{Name: n.Name, GPUs: slices.Clone(n.GPUs), Windows: plainWindows(windows)}
			for number, until := range busy {
				out.Busy = append(out.Busy, hare.Busy{GPU: number, UntilUs: until})
			}
			slices.SortFunc(out.Busy, func(a, b hare.Busy) int { return a.GPU - b.GPU })
			rb.rest.Cluster.Nodes = append(rb.rest.Cluster.Nodes, out)
			continue
		}
		gpus := 0
		for _, g := range n.GPUs {
			gpus += g.Count
		}
		if split += gpus * (1 + len(windows)); split > maxSplit {
			return fmt.Errorf("started work splits nodes into more than %d GPUs and windows, too many to check",
				maxSplit)
		}
		number := 0
		for _, g := range n.GPUs {
			for range g.Count {
				rb.addSplitGPU(n.Name, g.Type, number, cutOut(windows, later[number]), busy[number], taken)
				number++
			}
		}
	}
	return nil
}

// addSplitGPU adds one GPU of a split node as a node of its own.
func (rb *remainderBuilder) addSplitGPU(node, kind string, number int, windows []hare.Window, until int64,
	taken map[string]bool) {
	if len(windows) == 0 {
		return
	}
	name := node + "." + strconv.Itoa(number)
	for taken[name] {
		name += "'"
	}
	taken[name] = true
	out := hare.Node{Name: name, GPUs: []hare.TypeCount{{Type: kind, Count: 1}}, Windows: plainWindows(windows)}
	if until > 0 {
		out.Busy = []hare.Busy{{GPU: 0, UntilUs: until}}
	}
	rb.rest.Cluster.Nodes = append(rb.rest.Cluster.Nodes, out)
	rb.renamed = append(rb.renamed, hare.RenamedGPU{Rest: name + "/0", Whole: node + "/" + strconv.Itoa(number)})
}

// windowsFromNow returns the windows of a node on the clock of the rest, explicit.
func (rb *remainderBuilder) windowsFromNow(n *hare.Node) []hare.Window {
	if n.Windows == nil {
		return []hare.Window{{StartUs: 0, EndUs: hare.Forever}}
	}
	var out []hare.Window
	for _, w := range n.Windows {
		if w.EndUs <= rb.at {
			continue
		}
		w.StartUs = max(0, w.StartUs-rb.at)
		if w.EndUs != hare.Forever {
			w.EndUs -= rb.at
		}
		out = append(out, w)
	}
	return out
}

// plainWindows returns nil for windows that are always open.
func plainWindows(windows []hare.Window) []hare.Window {
	if len(windows) == 1 && windows[0] == (hare.Window{StartUs: 0, EndUs: hare.Forever}) {
		return nil
	}
	return slices.Clone(windows)
}

// cutOut returns the windows without the spans; both are in order and disjoint. It takes
// O(windows + spans).
func cutOut(windows []hare.Window, spans []span) []hare.Window {
	var out []hare.Window
	for _, w := range windows {
		for len(spans) > 0 && spans[0].to <= w.StartUs {
			spans = spans[1:]
		}
		from := w.StartUs
		for _, s := range spans {
			if s.from >= w.EndUs {
				break
			}
			if from < s.from {
				out = append(out, hare.Window{StartUs: from, EndUs: s.from})
			}
			from = max(from, s.to)
		}
		if from < w.EndUs {
			out = append(out, hare.Window{StartUs: from, EndUs: w.EndUs})
		}
	}
	return out
}
