package verify

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"github.com/hare-sched/hare"
)

// remainder is what a schedule leaves to be planned at an instant, by the rules
// of docs/replan.md: an instance whose time 0 is that instant.
type remainder struct {
	at       int64
	rest     *hare.Instance
	constant *big.Int // of Σ w (C − a), what no plan of the rest changes; in 1e-12
	done     []int64  // by job of the whole instance, rounds that the rest lacks
	kept     []stint  // of the schedule, what the whole keeps of it

	started        []hare.StartedWork
	lost           []lostJob
	added, removed []string
	renamed        []hare.RenamedGPU
}

// lostJob is work that had started and has to be done again.
type lostJob struct {
	job   string
	round int64
	gpus  []string // that it would still have needed and cannot have
}

// stint is one entry of a schedule on its GPU.
type stint struct {
	gpu, kind string
	job       int // of the whole instance
	hare.Entry
}

// span is a time on a GPU, half-open.
type span struct{ from, to int64 }

// parting takes a schedule apart at an instant.
type parting struct {
	remainder
	whole, before *hare.Instance
	nodes         directory // of the whole
	held          map[int]map[int][]span
}

// remains is what is left of whole at the instant at, when s, a feasible
// schedule of before, has been followed until then. An error says that s has
// started something that whole contradicts.
// O(entries log entries + jobs + nodes), whatever the number of rounds, and the
// GPUs of nodes that must be split.
func remains(whole, before *hare.Instance, s *hare.Schedule, at int64) (*remainder, error) {
	p := &parting{
		remainder: remainder{at: at, constant: new(big.Int), done: make([]int64, len(whole.Jobs))},
		whole:     whole, before: before, nodes: newDirectory(&whole.Cluster), held: map[int]map[int][]span{},
	}
	p.rest = &hare.Instance{Name: whole.Name, Objective: whole.Objective}
	old := make(map[string]int, len(before.Jobs))
	for i := range before.Jobs {
		old[before.Jobs[i].ID] = i
	}
	stints := stintsOf(before, s, old)
	for i := range whole.Jobs {
		job := &whole.Jobs[i]
		b, ok := old[job.ID]
		if !ok {
			p.added = append(p.added, job.ID)
			p.goesOn(i, at)
			continue
		}
		delete(old, job.ID)
		if err := p.job(i, &before.Jobs[b], stints[b]); err != nil {
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

// stintsOf gathers the entries of a feasible schedule by job of its instance.
func stintsOf(inst *hare.Instance, s *hare.Schedule, place map[string]int) [][]stint {
	out := make([][]stint, len(inst.Jobs))
	nodes := newDirectory(&inst.Cluster)
	for i := range s.Lanes {
		l := &s.Lanes[i]
		_, _, kind, _ := nodes.find(&inst.Cluster, l.GPU)
		for x := range l.Job {
			e := l.Entry(x)
			j := place[s.Jobs[e.Job]]
			out[j] = append(out[j], stint{gpu: l.GPU, kind: kind, Entry: e})
		}
	}
	return out
}

// begun counts the rounds of the stint that have begun before at, including all
// that the job has before them.
func (s *stint) begun(at int64) int64 {
	switch {
	case s.StartUs >= at:
		return 0
	case s.Rounds == 1:
		return s.Round + 1
	}
	return s.Round + min(s.Rounds, 1+(at-s.StartUs-1)/s.PeriodUs)
}

// begin is when round r of the job begins here.
func (s *stint) begin(r int64) int64 {
	if r == s.Round {
		return s.StartUs
	}
	return s.StartUs + (r-s.Round)*s.PeriodUs
}

// has says whether the stint has tasks of round r.
func (s *stint) has(r int64) bool { return s.Round <= r && r < s.Round+s.Rounds }

// taskTimes are the compute and synchronisation of the job's tasks on a type.
func taskTimes(j *hare.Job, kind string) (compute, sync int64) {
	for i := range j.On {
		if j.On[i].Type == kind {
			return j.On[i].ComputeUs, j.On[i].SyncUs
		}
	}
	return 0, 0
}

// endOf is when all tasks of round r have synchronised.
func endOf(j *hare.Job, all []stint, r int64) int64 {
	end := int64(0)
	for i := range all {
		if s := &all[i]; s.has(r) {
			compute, sync := taskTimes(j, s.kind)
			end = max(end, s.begin(r)+s.Tasks*compute+sync)
		}
	}
	return end
}

// job parts job i of the whole, which was old and has these stints.
func (p *parting) job(i int, old *hare.Job, stints []stint) error {
	now := &p.whole.Jobs[i]
	done := int64(0)
	for x := range stints {
		done = max(done, stints[x].begun(p.at))
	}
	if done == 0 {
		p.goesOn(i, p.at)
		return nil
	}
	if old.Sync != now.Sync || old.Tasks != now.Tasks || old.Mix != now.Mix || old.ReleaseUs != now.ReleaseUs ||
		old.Sync == hare.Rigid && old.Rounds != now.Rounds {
		return fmt.Errorf("job %.60q has started and is another job in the instance", now.ID)
	}
	if old.Sync == hare.Rigid {
		done = old.Rounds
	}
	release := p.at
	if end := endOf(old, stints, done-1); end > p.at {
		needs, missing := p.needs(old, stints, done-1, end)
		if len(missing) == 0 {
			for _, n := range needs {
				p.hold(n)
			}
			p.started = append(p.started, hare.StartedWork{Job: now.ID, Rounds: done, UntilUs: end})
			release = end
		} else {
			done--
			if old.Sync == hare.Rigid {
				done = 0
			}
			p.lost = append(p.lost, lostJob{now.ID, done, missing})
		}
	}
	if done > now.Rounds {
		return fmt.Errorf("job %.60q has %d rounds in the instance, and %d of it have run or started",
			now.ID, now.Rounds, done)
	}
	p.done[i] = done
	for _, s := range stints {
		if s.Round < done {
			s.job, s.Rounds = i, min(s.Rounds, done-s.Round)
			p.kept = append(p.kept, s)
		}
	}
	if done == now.Rounds {
		p.count(now, endOf(old, stints, done-1))
		return nil
	}
	p.goesOn(i, release)
	return nil
}

// need is a GPU that started work keeps for a time.
type need struct {
	node, number int
	span
}

// needs are the GPUs that the started round r, which ends at end, still needs,
// and the names of those that the instance does not offer for that time.
func (p *parting) needs(j *hare.Job, stints []stint, r, end int64) (needs []need, missing []string) {
	for x := range stints {
		s := &stints[x]
		if !s.has(r) {
			continue
		}
		hold := span{max(p.at, s.begin(r)), end}
		switch j.Sync {
		case hare.Relaxed:
			compute, _ := taskTimes(j, s.kind)
			hold.to = s.begin(r) + s.Tasks*compute
		case hare.Rigid:
			hold.from = p.at // all rounds until then are one block
		}
		if hold.to <= hold.from {
			continue // computed: what is left is synchronisation
		}
		node, number, kind, ok := p.nodes.find(&p.whole.Cluster, s.gpu)
		open := func() bool {
			return slices.ContainsFunc(openTimes(&p.whole.Cluster.Nodes[node], number), func(w hare.Window) bool {
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

func (p *parting) hold(n need) {
	of := p.held[n.node]
	if of == nil {
		of = map[int][]span{}
		p.held[n.node] = of
	}
	of[n.number] = append(of[n.number], n.span)
}

// goesOn adds what is left of job i of the whole, which can go on at release.
func (p *parting) goesOn(i int, release int64) {
	j := p.whole.Jobs[i]
	from := max(release, j.ReleaseUs)
	p.count(&j, from)
	j.ReleaseUs = from - p.at
	j.Rounds -= p.done[i]
	p.rest.Jobs = append(p.rest.Jobs, j)
}

// count adds w (t − a) to the constant.
func (p *parting) count(j *hare.Job, t int64) {
	x := times(j.WeightMicro)
	p.constant.Add(p.constant, x.Mul(x, big.NewInt(t-j.ReleaseUs)))
}

// maxSplit limits GPUs × windows of the nodes that are split, so that a hostile
// document cannot make a rest that is far larger than itself.
const maxSplit = 1 << 24

// cluster builds the nodes of the rest.
func (p *parting) cluster() error {
	split := 0
	taken := make(map[string]bool, len(p.nodes))
	for name := range p.nodes {
		taken[name] = true
	}
	for i := range p.whole.Cluster.Nodes {
		n := &p.whole.Cluster.Nodes[i]
		windows := p.windowsFromNow(n)
		if len(windows) == 0 {
			continue // the node never comes back
		}
		busy := map[int]int64{}
		for _, b := range n.Busy {
			if b.UntilUs > p.at {
				busy[b.GPU] = b.UntilUs - p.at
			}
		}
		later := map[int][]span{}
		for number, spans := range p.held[i] {
			slices.SortFunc(spans, func(a, b span) int { return int(min(1, max(-1, a.from-b.from))) })
			for _, s := range spans {
				s.from, s.to = s.from-p.at, s.to-p.at
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
			p.rest.Cluster.Nodes = append(p.rest.Cluster.Nodes, out)
			continue
		}
		gpus := 0
		for _, g := range n.GPUs {
			gpus += g.Count
		}
		if split += gpus * (1 + len(windows)); split > maxSplit {
			return fmt.Errorf("started work splits nodes into more than %d GPUs and windows, too many to check", maxSplit)
		}
		number := 0
		for _, g := range n.GPUs {
			for range g.Count {
				p.alone(n.Name, g.Type, number, cutOut(windows, later[number]), busy[number], taken)
				number++
			}
		}
	}
	return nil
}

// alone adds one GPU of a split node as a node of its own.
func (p *parting) alone(node, kind string, number int, windows []hare.Window, until int64, taken map[string]bool) {
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
	p.rest.Cluster.Nodes = append(p.rest.Cluster.Nodes, out)
	p.renamed = append(p.renamed, hare.RenamedGPU{Rest: name + "/0", Whole: node + "/" + strconv.Itoa(number)})
}

// windowsFromNow are the windows of a node on the clock of the rest, explicit.
func (p *parting) windowsFromNow(n *hare.Node) []hare.Window {
	if n.Windows == nil {
		return []hare.Window{{StartUs: 0, EndUs: hare.Forever}}
	}
	var out []hare.Window
	for _, w := range n.Windows {
		if w.EndUs <= p.at {
			continue
		}
		w.StartUs = max(0, w.StartUs-p.at)
		if w.EndUs != hare.Forever {
			w.EndUs -= p.at
		}
		out = append(out, w)
	}
	return out
}

// plainWindows is nil for windows that are always open.
func plainWindows(windows []hare.Window) []hare.Window {
	if len(windows) == 1 && windows[0] == (hare.Window{StartUs: 0, EndUs: hare.Forever}) {
		return nil
	}
	return slices.Clone(windows)
}

// cutOut is the windows less spans, both in order and disjoint.
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
