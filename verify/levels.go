package verify

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare"
)

// spreadChecker finds how far the rounds of one job after another are spread.
type spreadChecker struct {
	tp      *topology
	entries [][]int32 // by level and domain: how many entries of a stretch are there
	domains []int     // by level: in how many domains the entries of a stretch are
	edges   []spreadEdge
	levels  []int      // by stretch: the spread of its rounds
	ends    []envelope // by level: the latest ends of rounds of this spread
	sync    [][]int64  // by level and mode
	rows    []int      // by round that is examined: its spread
}

// spreadEdge says that an entry on a node begins or ends with a stretch.
type spreadEdge struct {
	stretch  int
	node, by int32
}

func newSpreadChecker(tp *topology) *spreadChecker {
	n := len(tp.names)
	sp := &spreadChecker{tp: tp, entries: make([][]int32, n), domains: make([]int, n), ends: make([]envelope, n),
		sync: make([][]int64, n)}
	for level := range sp.ends {
		sp.entries[level] = make([]int32, len(tp.domain[0]))
		sp.ends[level].value = func(x *piece, r int64) int64 { return x.startOf(r) + x.compute + sp.sync[level][x.mode] }
	}
	return sp
}

// find sets the spread of each stretch. cuts are the starts of the stretches and the end of the
// last. It takes O(n (log n + levels)).
func (sp *spreadChecker) find(cuts []int64, ps []piece, nodeOf []int32) {
	sp.edges, sp.levels = sp.edges[:0], sp.levels[:0]
	for i := range ps {
		x := &ps[i]
		from, _ := slices.BinarySearch(cuts, x.round)
		to, _ := slices.BinarySearch(cuts, x.round+x.rounds)
		sp.edges = append(sp.edges, spreadEdge{from, nodeOf[x.gpu], 1}, spreadEdge{to, nodeOf[x.gpu], -1})
	}
	slices.SortFunc(sp.edges, func(a, b spreadEdge) int { return cmp.Compare(a.stretch, b.stretch) })
	at := 0
	for s := range cuts {
		for ; at < len(sp.edges) && sp.edges[at].stretch == s; at++ {
			e := sp.edges[at]
			for level, domain := range sp.tp.domain {
				n := &sp.entries[level][domain[e.node]]
				before := *n
				if *n += e.by; before == 0 {
					sp.domains[level]++
				} else if *n == 0 {
					sp.domains[level]--
				}
			}
		}
		if s+1 < len(cuts) {
			sp.levels = append(sp.levels, slices.Index(sp.domains, 1))
		}
	}
}

// syncTimes sets the synchronisation times of a job by spread.
func (sp *spreadChecker) syncTimes(job *hare.Job) {
	profiles := profilesOf(job)
	for level := range sp.sync {
		sp.sync[level] = sp.sync[level][:0]
		for m := range profiles {
			sp.sync[level] = append(sp.sync[level], sp.tp.syncAt(&profiles[m], level))
		}
	}
}

// rigid sets the synchronisation times of the entries of a rigid job, which is on the same GPUs
// throughout.
func (sp *spreadChecker) rigid(ps []piece, nodeOf []int32) {
	spread := 0
	for i := range ps {
		for sp.tp.domain[spread][nodeOf[ps[i].gpu]] != sp.tp.domain[spread][nodeOf[ps[0].gpu]] {
			spread++
		}
	}
	for i := range ps {
		ps[i].after = sp.sync[spread][ps[i].mode]
	}
}

// envelopes sets the spread of each round that is examined, and returns the envelopes of the
// spreads that occur. first has the first round that is examined of each stretch.
func (sp *spreadChecker) envelopes(first []int) []*envelope {
	sp.rows = sp.rows[:0]
	seen := make([]bool, len(sp.ends))
	var out []*envelope
	for s, level := range sp.levels {
		for range first[s+1] - first[s] {
			sp.rows = append(sp.rows, level)
		}
		if !seen[level] {
			seen[level] = true
			out = append(out, &sp.ends[level])
		}
	}
	return out
}
