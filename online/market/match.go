package market

import (
	"math"
	"slices"
)

// Matching is what a market gives a category: counts[i][c] workers of class c for job i, and the
// least prices of a worker by class that support it. At these prices every job has a bundle of as
// many workers as its category says with the greatest Σ (value − price), and a class that is not
// sold out costs nothing, so that no set of classes is demanded by more than it has: there is no
// constricted set.
type Matching struct {
	Counts [][]int
	Prices []float64
}

// Market matches jobs with workers, one category after another. A Market keeps its memory between
// calls and is not safe for concurrent use.
type Market struct {
	p     *Problem
	value []float64 // jobs × classes
	// used is the number of workers of each class that the jobs have, which may be more than there
	// are until Match ends.
	used  []int
	moves [][]jobMove // by from × classes + to: a heap of jobs, the cheapest first
	cost  []float64   // of reaching a class
	via   []int
	order []int
}

// jobMove is a job that can move a worker at a loss of value.
type jobMove struct {
	loss float64
	job  int
}

// NewMarket makes a market for a problem that Check accepts.
func NewMarket(p *Problem) *Market {
	n := len(p.Classes)
	return &Market{p: p, value: make([]float64, len(p.Jobs)*n), used: make([]int, n), moves: make([][]jobMove, n*n),
		cost: make([]float64, n), via: make([]int, n), order: make([]int, n)}
}

// Match gives category[i] workers to each job i so that the sum of the values is greatest, where
// value(i, c) is what a worker of class c is worth to job i; it must be finite. It returns false
// where no such matching exists. The caller owns the matching.
//
// Every job begins with the workers that it values most, as if it were alone. While a class is
// demanded by more than it has, the cheapest chain of moves, each of one job from one class to
// another, leads from such a class to a class with a free worker (successive shortest paths). This
// gives the matching and the prices of the ascending auction of Demange, Gale and Sotomayor (1986),
// which raises the prices of over-demanded classes until no constricted set is left. It takes
// O(A (C³ + C log J)) for C classes, J jobs and A chains, of which there were about as many as jobs
// in all that was measured.
func (m *Market) Match(category []int, value func(job, class int) float64) (*Matching, bool) {
	p, classes := m.p, len(m.p.Classes)
	got := &Matching{Counts: make([][]int, len(p.Jobs)), Prices: make([]float64, classes)}
	all := make([]int, len(p.Jobs)*classes)
	clear(m.used)
	for i := range m.moves {
		m.moves[i] = m.moves[i][:0]
	}
	for i := range p.Jobs {
		got.Counts[i] = all[i*classes : (i+1)*classes : (i+1)*classes]
		for c := range classes {
			m.value[i*classes+c] = value(i, c)
		}
		if !m.demand(i, category[i], got.Counts[i]) {
			return nil, false
		}
	}
	for i := range p.Jobs {
		for c, n := range got.Counts[i] {
			if n > 0 {
				m.offer(i, c)
			}
		}
	}
	for {
		to, overfull := m.nearest(got.Counts)
		if !overfull {
			break
		}
		if to < 0 {
			return nil, false
		}
		m.shift(got.Counts, to)
	}
	m.prices(got)
	return got, true
}

// demand gives job i the n workers that it values most.
func (m *Market) demand(i, n int, counts []int) bool {
	classes := len(m.p.Classes)
	values := m.value[i*classes : (i+1)*classes]
	for c := range m.order {
		m.order[c] = c
	}
	slices.SortStableFunc(m.order, func(a, b int) int {
		switch {
		case values[a] > values[b]:
			return -1
		case values[a] < values[b]:
			return 1
		}
		return a - b
	})
	for _, c := range m.order {
		if m.p.Jobs[i].Rate[c] > 0 {
			take := min(n, m.p.Classes[c].Workers)
			counts[c] = take
			m.used[c] += take
			n -= take
		}
	}
	return n == 0
}

// offer enters the moves of job i away from a class.
func (m *Market) offer(i, from int) {
	classes := len(m.p.Classes)
	for to := range classes {
		if to != from && m.p.Jobs[i].Rate[to] > 0 && m.p.Classes[to].Workers > 0 {
			h := &m.moves[from*classes+to]
			*h = append(*h, jobMove{m.value[i*classes+from] - m.value[i*classes+to], i})
			up(*h)
		}
	}
}

func (a jobMove) before(b jobMove) bool { return a.loss < b.loss || a.loss == b.loss && a.job < b.job }

func up(h []jobMove) {
	for at := len(h) - 1; at > 0; {
		parent := (at - 1) / 2
		if !h[at].before(h[parent]) {
			return
		}
		h[at], h[parent] = h[parent], h[at]
		at = parent
	}
}

func pop(h []jobMove) []jobMove {
	n := len(h) - 1
	h[0] = h[n]
	h = h[:n]
	for at := 0; ; {
		least := at
		for child := 2*at + 1; child <= 2*at+2 && child < n; child++ {
			if h[child].before(h[least]) {
				least = child
			}
		}
		if least == at {
			return h
		}
		h[at], h[least] = h[least], h[at]
		at = least
	}
}

// cheapest is the cheapest move from one class to another; false where no job can move. A job with
// no worker left in the class drops out until it has one again. A job that has all workers of the
// other class cannot move there either: it comes back when it gives one up (see shift).
func (m *Market) cheapest(counts [][]int, from, to int) (jobMove, bool) {
	h := &m.moves[from*len(m.p.Classes)+to]
	for len(*h) > 0 {
		first := (*h)[0]
		if held := counts[first.job]; held[from] > 0 && held[to] < m.p.Classes[to].Workers {
			return first, true
		}
		*h = pop(*h)
	}
	return jobMove{}, false
}

// nearest finds the class with a free worker that is cheapest to reach from the classes with too
// few, by Bellman and Ford; −1 where there is none. It returns false where no class has too few.
func (m *Market) nearest(counts [][]int) (to int, overfull bool) {
	classes := len(m.p.Classes)
	for c := range classes {
		m.cost[c], m.via[c] = math.Inf(1), -1
		if m.used[c] > m.p.Classes[c].Workers {
			m.cost[c], overfull = 0, true
		}
	}
	if !overfull {
		return -1, false
	}
	for range classes {
		changed := false
		for from := range classes {
			if math.IsInf(m.cost[from], 1) {
				continue
			}
			for next := range classes {
				if next == from || m.used[next] > m.p.Classes[next].Workers {
					continue
				}
				mv, ok := m.cheapest(counts, from, next)
				if !ok {
					continue
				}
				// Rounding must not make a cycle of moves that gains nothing look like a gain.
				if through := m.cost[from] + mv.loss; through < m.cost[next]-1e-12*(math.Abs(through)+math.Abs(mv.loss)) &&
					!m.leads(next, from) {
					m.cost[next], m.via[next], changed = through, from, true
				}
			}
		}
		if !changed {
			break
		}
	}
	to = -1
	for c := range classes {
		if m.used[c] < m.p.Classes[c].Workers && !math.IsInf(m.cost[c], 1) && (to < 0 || m.cost[c] < m.cost[to]) {
			to = c
		}
	}
	return to, true
}

// leads reports whether the chain that leads to class c passes through class of.
func (m *Market) leads(of, c int) bool {
	for ; c >= 0; c = m.via[c] {
		if c == of {
			return true
		}
	}
	return false
}

// shift moves as many workers along the chain that ends at a class as its moves allow.
func (m *Market) shift(counts [][]int, to int) {
	n := m.p.Classes[to].Workers - m.used[to]
	start := to
	for c := to; m.via[c] >= 0; c = m.via[c] {
		mv, _ := m.cheapest(counts, m.via[c], c)
		held := counts[mv.job]
		n = min(n, held[m.via[c]], m.p.Classes[c].Workers-held[c])
		start = m.via[c]
	}
	n = min(n, m.used[start]-m.p.Classes[start].Workers)
	// All moves are chosen before any is made. A job that moves workers twice in a chain loses
	// n of a class and gains n of it again, which its counts allow in any order.
	type step struct{ job, from, to int }
	var steps []step
	for c := to; m.via[c] >= 0; c = m.via[c] {
		mv, _ := m.cheapest(counts, m.via[c], c)
		steps = append(steps, step{mv.job, m.via[c], c})
	}
	for _, s := range steps {
		held := counts[s.job]
		full := held[s.from] == m.p.Classes[s.from].Workers
		entered := held[s.to] == 0
		held[s.from] -= n
		held[s.to] += n
		if entered {
			m.offer(s.job, s.to)
		}
		if full { // the moves of the job to this class count again
			for c, k := range held {
				if k > 0 && c != s.from {
					m.offer(s.job, c)
				}
			}
		}
	}
	m.used[start] -= n
	m.used[to] += n
}

// prices sets the least prices that support a matching of the greatest value: p_b is at least p_a
// plus what a job with a worker of class a and room for one of class b would gain, and at least 0.
func (m *Market) prices(got *Matching) {
	classes := len(m.p.Classes)
	gain := make([]float64, classes*classes)
	for i := range gain {
		gain[i] = math.Inf(-1)
	}
	for i, held := range got.Counts {
		values := m.value[i*classes : (i+1)*classes]
		for a, n := range held {
			if n == 0 {
				continue
			}
			for b := range classes {
				if held[b] < m.p.Classes[b].Workers && m.p.Jobs[i].Rate[b] > 0 {
					gain[a*classes+b] = max(gain[a*classes+b], values[b]-values[a])
				}
			}
		}
	}
	for range classes { // longest paths; there is no cycle of positive gain
		for a := range classes {
			for b := range classes {
				if a != b {
					got.Prices[b] = max(got.Prices[b], got.Prices[a]+gain[a*classes+b])
				}
			}
		}
	}
	for c := range classes {
		if m.used[c] < m.p.Classes[c].Workers { // 0 but for rounding
			got.Prices[c] = 0
		}
	}
}
