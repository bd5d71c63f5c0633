package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// MaxIdleFaults is the number of faults in a row, for each source, after which a run
// ends if no task runs and no job is to arrive: the policy then waits for a state that
// never comes, such as all GPUs of a large cluster in service at once.
const MaxIdleFaults = 1000

// MaxFruitlessFaults is the number of faults in a row, for each source, after which a
// run ends if no task ended between them (or if each ended a lease before a step): GPUs
// then fail too often for any task to end. A task that takes six mean times between
// failures ends within this limit.
const MaxFruitlessFaults = 10 * MaxIdleFaults

// checkFaults returns the GPUs of each fault. It refuses a fault that is not possible,
// with its entry, GPU and times.
func checkFaults(m *model.Model, faults []Fault) ([][]int, error) {
	type span struct {
		fromUs, untilUs int64
		entry           int
	}
	of, byGPU := make([][]int, len(faults)), map[int][]span{}
	gpus := map[string][]int{} // by "gpu " or "node " and the name
	for i, g := range m.GPUs {
		gpus["gpu "+g.ID] = []int{i}
		node := "node " + m.Instance.Cluster.Nodes[g.Node].Name
		gpus[node] = append(gpus[node], i)
	}
	for i, f := range faults {
		refuse := func(code, format string, args ...any) ([][]int, error) {
			return nil, &hare.InvalidError{Pointer: fmt.Sprintf("/faults/%d", i), Code: code,
				Detail: fmt.Sprintf(format, args...)}
		}
		who := "gpu " + f.GPU
		if f.GPU == "" {
			who = "node " + f.Node
		}
		switch {
		case (f.GPU == "") == (f.Node == ""):
			return refuse("bad_value", "a fault names either a GPU or a node")
		case gpus[who] == nil && f.GPU != "":
			return refuse("unknown_gpu", "there is no GPU %.60q in the cluster: name one as node/index", f.GPU)
		case gpus[who] == nil:
			return refuse("unknown_node", "there is no node %.60q with GPUs in the cluster", f.Node)
		case f.FromUs < 0 || f.UntilUs <= f.FromUs || f.FromUs > hare.MaxExact:
			return refuse("bad_value", "GPU %.60q: the fault %s: it must begin at 0 s or later and end after that",
				m.GPUs[gpus[who][0]].ID, fromUntil(f.FromUs, f.UntilUs))
		}
		of[i] = gpus[who]
		for _, g := range of[i] {
			id, windows := m.GPUs[g].ID, m.Classes[m.GPUs[g].Class].Windows
			if !slices.ContainsFunc(windows, func(w hare.Window) bool {
				return w.StartUs <= f.FromUs && f.UntilUs <= w.EndUs
			}) {
				return refuse("overlap", "GPU %.60q: the fault %s is not within one of the GPU's times in service, %s",
					id, fromUntil(f.FromUs, f.UntilUs), windowsText(windows))
			}
			byGPU[g] = append(byGPU[g], span{f.FromUs, f.UntilUs, i})
		}
	}
	for g := range m.GPUs {
		s := byGPU[g]
		slices.SortStableFunc(s, func(a, b span) int { return cmp.Compare(a.fromUs, b.fromUs) })
		for k := 1; k < len(s); k++ {
			if a, b := s[k-1], s[k]; b.fromUs < a.untilUs {
				return nil, &hare.InvalidError{Pointer: fmt.Sprintf("/faults/%d", max(a.entry, b.entry)),
					Code: "overlap",
					Detail: fmt.Sprintf("GPU %.60q: the fault %s (entry %d) overlaps the fault %s (entry %d): make "+
						"them one", m.GPUs[g].ID, fromUntil(a.fromUs, a.untilUs), a.entry, fromUntil(b.fromUs,
						b.untilUs), b.entry)}
			}
		}
	}
	return of, nil
}

func fromUntil(fromUs, untilUs int64) string {
	if untilUs == hare.Forever {
		return "from " + hare.FormatMicros(fromUs) + " s on"
	}
	return "from " + hare.FormatMicros(fromUs) + " to " + hare.FormatMicros(untilUs) + " s"
}

func windowsText(windows []hare.Window) string {
	if len(windows) == 0 {
		return "of which it has none"
	}
	const shown = 4
	text := ""
	for i, w := range windows {
		if i == shown {
			return fmt.Sprintf("%s and %d more", text, len(windows)-shown)
		}
		if i > 0 {
			text += ", "
		}
		text += fromUntil(w.StartUs, w.EndUs)
	}
	return text
}

func (fr *FaultRate) validate() error {
	for _, p := range []struct {
		name         string
		mean, repair int64
	}{{"GPU", fr.GPUMeanUs, fr.GPURepairUs}, {"node", fr.NodeMeanUs, fr.NodeRepairUs}} {
		if p.mean < 0 || p.repair < 0 || (p.mean == 0) != (p.repair == 0) || max(p.mean, p.repair) > hare.MaxExact {
			return &hare.InvalidError{Pointer: "/fault_rate", Code: "bad_value",
				Detail: fmt.Sprintf("a %s fails every %s s for %s s: both must be positive, or both 0", p.name,
					hare.FormatMicros(p.mean), hare.FormatMicros(p.repair))}
		}
	}
	return nil
}

// addFaults puts the listed faults, and the first of each source, into the event queue.
func (e *engine) addFaults(cfg *Config) error {
	of, err := checkFaults(e.model, cfg.Faults)
	if err != nil {
		return err
	}
	if err := cfg.FaultRate.validate(); err != nil {
		return err
	}
	for i, f := range cfg.Faults {
		for _, g := range of[i] {
			e.eventQueue.push(newOccurrence(f.FromUs, faultBegins, int64(g), int32(g)))
			if f.UntilUs != hare.Forever {
				e.eventQueue.push(newOccurrence(f.UntilUs, faultEnds, int64(g), int32(g)))
			}
		}
	}
	r := cfg.FaultRate
	at := 0
	for n := 0; n < len(e.inst.Cluster.Nodes) && r.NodeMeanUs > 0; n++ {
		first := at
		for at < len(e.model.GPUs) && e.model.GPUs[at].Node == n {
			at++
		}
		if at > first {
			e.addSource(source{first: int32(first), n: int32(at - first), meanUs: r.NodeMeanUs,
				repairUs: r.NodeRepairUs, draws: rand.New(rand.NewPCG(cfg.Seed, mix(nodeFaults, uint64(n))))})
		}
	}
	for g := 0; g < len(e.model.GPUs) && r.GPUMeanUs > 0; g++ {
		e.addSource(source{first: int32(g), n: 1, meanUs: r.GPUMeanUs, repairUs: r.GPURepairUs,
			draws: rand.New(rand.NewPCG(cfg.Seed, mix(gpuFaults, uint64(g))))})
	}
	return nil
}

func (e *engine) addSource(s source) {
	e.sources = append(e.sources, s)
	e.next(int32(len(e.sources) - 1))
}

// next draws the time at which a source fails or returns next.
func (e *engine) next(i int32) {
	s := &e.sources[i]
	mean := s.meanUs
	if s.out {
		mean = s.repairUs
	}
	// Beyond MaxExact a run ends anyway.
	us := int64(min(math.Ceil(s.draws.ExpFloat64()*float64(mean)), hare.MaxExact))
	e.eventQueue.push(newOccurrence(e.nowUs+max(us, 1), sourceChanges, int64(i), i))
}

// changeSource lets a source fail or return.
func (e *engine) changeSource(i int32) error {
	s := &e.sources[i]
	s.out = !s.out
	by := int32(1)
	if s.out {
		e.sourcesOut++
	} else {
		by = -1
		e.sourcesOut--
	}
	e.next(i)
	for g := s.first; g < s.first+s.n; g++ {
		if err := e.change(g, e.gpus[g].closed, by); err != nil {
			return err
		}
	}
	e.idleFaults++
	if e.fruitlessFaults++; e.running > 0 && e.fruitlessFaults > MaxFruitlessFaults*len(e.sources) {
		return fmt.Errorf("%w: at %s s, after %d drawn faults in which no task ended: let GPUs fail more rarely",
			ErrStalled, hare.FormatMicros(e.nowUs), e.fruitlessFaults)
	}
	return nil
}

// waitsForFaults reports whether the run would never end because no task runs and only
// drawn faults are to come, while all sources are in service or after very many faults.
func (e *engine) waitsForFaults() bool {
	return e.running == 0 && len(e.eventQueue) == len(e.sources) &&
		(e.sourcesOut == 0 || e.idleFaults > MaxIdleFaults*len(e.sources))
}

// change opens or closes a window of service of a GPU, or begins or ends faults of the
// GPU, and notifies the policy if the GPU joins or leaves by that.
func (e *engine) change(g int32, closed bool, faults int32) error {
	x := &e.gpus[g]
	before := x.here()
	if x.faults > 0 && !x.closed {
		k := e.model.GPUs[g].Type
		e.totals.down[k] = e.totals.down[k].Add(hare.Product(1, e.nowUs-x.changedUs))
	}
	x.changedUs = e.nowUs
	if before && (closed || x.faults+faults > 0) {
		e.leave(g)
	}
	x.closed = closed
	x.faults += faults
	m := &e.model.GPUs[g]
	switch {
	case before && !x.here():
		e.events[0] = hare.Event{Type: hare.EventGPULeft, GPU: m.ID}
		return e.notify()
	case !before && x.here():
		x.last = none
		e.events[0] = hare.Event{Type: hare.EventGPUJoined, GPU: m.ID, GPUType: e.model.Types[m.Type],
			Change: e.describedNode(g)}
		return e.notify()
	}
	return nil
}
