package capacity

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
)

// tried is a mix, in numbers of GPUs by bought type, and what is known of its weeks: 1 reached, −1 not, 0 unknown.
type tried struct {
	counts []int
	weeks  []int8
}

// searcher finds the cheapest mix for a policy. That more GPUs never miss what fewer reach (see grid.settle) decides
// weeks without a simulation.
type searcher struct {
	*grid
	policy policy
	known  []tried
}

// cheapest finds the cheapest mix that reaches the goal in the share of weeks: branch and bound over the counts of
// all types but the last, and bisection over that. O(product of the numbers of steps of all types but the last ×
// log steps of the last) mixes at worst.
func (s *searcher) cheapest(ctx context.Context) (*capacitydoc.Mix, error) {
	most := make([]int, len(s.buy))
	for i, b := range s.buy {
		most[i] = b.most
	}
	ok, err := s.reaches(ctx, most)
	if err != nil {
		return nil, err
	}
	if !ok {
		return s.mix(ctx, most)
	}
	best := most
	counts, last := make([]int, len(s.buy)), len(s.buy)-1
	var branch func(i int) error
	branch = func(i int) error {
		if i == last {
			cheaper, err := s.bisect(ctx, counts, s.cost(best))
			if cheaper != nil {
				best = cheaper
			}
			return err
		}
		for n := range s.steps(i) + 1 {
			clear(counts[i+1:])
			if s.costWith(counts, i, n) >= s.cost(best) {
				return nil
			}
			if err := branch(i + 1); err != nil {
				return err
			}
		}
		return nil
	}
	if err := branch(0); err != nil {
		return nil, err
	}
	m, err := s.mix(ctx, best)
	if err != nil {
		return nil, err
	}
	m.Found = true
	if next := s.nextCheaper(s.cost(best)); next != nil {
		m.Next, err = s.mix(ctx, next)
	}
	return m, err
}

// bisect finds the fewest GPUs of the last type that reach the goal beside those of the others and cost less than a
// limit; nil where none do.
func (s *searcher) bisect(ctx context.Context, counts []int, limit float64) ([]int, error) {
	last := len(s.buy) - 1
	low, high := 0, s.affordable(counts, limit)
	if high < 0 {
		return nil, nil
	}
	counts[last] = s.gpus(last, high)
	if ok, err := s.reaches(ctx, counts); err != nil || !ok {
		return nil, err
	}
	for low < high {
		mid := (low + high) / 2
		counts[last] = s.gpus(last, mid)
		ok, err := s.reaches(ctx, counts)
		switch {
		case err != nil:
			return nil, err
		case ok:
			high = mid
		default:
			low = mid + 1
		}
	}
	counts[last] = s.gpus(last, high)
	return slices.Clone(counts), nil
}

// affordable is the greatest number of steps of the last type with which a mix costs less than a limit; −1 if none is.
func (s *searcher) affordable(counts []int, limit float64) int {
	last := len(s.buy) - 1
	return sort.Search(s.steps(last)+1, func(n int) bool { return s.costWith(counts, last, n) >= limit }) - 1
}

// steps is how many steps of a type a mix may have, and gpus how many GPUs so many steps are.
func (s *searcher) steps(i int) int { return (s.buy[i].most + s.buy[i].step - 1) / s.buy[i].step }

func (s *searcher) gpus(i, steps int) int { return min(steps*s.buy[i].step, s.buy[i].most) }

// cost is what a mix costs in seven days.
func (s *searcher) cost(counts []int) (sum float64) {
	for i, b := range s.buy {
		sum += float64(counts[i]) * s.Prices[b.gpuType] * weekHours
	}
	return sum
}

// costWith sets the steps of a type, and returns what the mix costs.
func (s *searcher) costWith(counts []int, i, steps int) float64 {
	counts[i] = s.gpus(i, steps)
	return s.cost(counts)
}

// nextCheaper is the dearest mix that costs less than cost. It takes O(mixes of all types but the last × log steps).
func (s *searcher) nextCheaper(cost float64) (best []int) {
	found, counts := -1.0, make([]int, len(s.buy))
	var walk func(i int)
	walk = func(i int) {
		if i == len(s.buy)-1 {
			if n := s.affordable(counts, cost); n >= 0 {
				if c := s.costWith(counts, i, n); c > found {
					found, best = c, slices.Clone(counts)
				}
			}
			counts[i] = 0
			return
		}
		for n := range s.steps(i) + 1 {
			counts[i] = s.gpus(i, n)
			walk(i + 1)
		}
		counts[i] = 0
	}
	walk(0)
	return best
}

// of is the option that a mix is.
func (s *searcher) of(counts []int) *option {
	o := &option{}
	var parts []string
	for i, b := range s.buy {
		if counts[i] > 0 {
			o.add = append(o.add, hare.TypeCount{Type: b.gpuType, Count: counts[i]})
		}
	}
	slices.SortFunc(o.add, func(a, b hare.TypeCount) int { return cmp.Compare(a.Type, b.Type) })
	for _, g := range o.add {
		parts = append(parts, g.Type+"="+strconv.Itoa(g.Count))
	}
	if o.text = strings.Join(parts, ","); o.text == "" {
		o.text = AsItIs
	}
	return o
}

// reaches reports whether a mix reaches the goal in the share of weeks. It plays weeks until that is decided.
func (s *searcher) reaches(ctx context.Context, counts []int) (bool, error) {
	t := s.tried(counts)
	need := int(math.Ceil(s.Share*float64(s.weekCount) - 1e-9))
	for {
		yes, open := 0, []int(nil)
		for w, x := range t.weeks {
			switch x {
			case 1:
				yes++
			case 0:
				open = append(open, w)
			}
		}
		switch {
		case yes >= need:
			return true, nil
		case yes+len(open) < need:
			return false, nil
		}
		// As many weeks at once as must be played whatever comes of them.
		least := min(need-yes, yes+len(open)-need+1)
		if err := s.playWeeks(ctx, t, open[:least]); err != nil {
			return false, err
		}
	}
}

// tried is what is known of a mix.
func (s *searcher) tried(counts []int) *tried {
	for i := range s.known {
		if slices.Equal(s.known[i].counts, counts) {
			return &s.known[i]
		}
	}
	t := tried{slices.Clone(counts), make([]int8, s.weekCount)}
	for i := range s.known {
		k := &s.known[i]
		for w, x := range k.weeks {
			if x > 0 && below(k.counts, counts) || x < 0 && below(counts, k.counts) {
				t.weeks[w] = x
			}
		}
	}
	s.known = append(s.known, t)
	return &s.known[len(s.known)-1]
}

func below(a, b []int) bool {
	for i := range a {
		if a[i] > b[i] {
			return false
		}
	}
	return true
}

// playWeeks plays weeks of a mix.
func (s *searcher) playWeeks(ctx context.Context, t *tried, weeks []int) error {
	o := s.of(t.counts)
	reached := make([]bool, len(weeks))
	return s.inOrder(ctx, len(weeks), func(ctx context.Context, i int) error {
		w, err := s.week(ctx, weeks[i], o, s.policy)
		if err == nil {
			reached[i] = s.goal.reached(w)
		}
		return err
	}, func(i int) error {
		if t.weeks[weeks[i]] = -1; reached[i] {
			t.weeks[weeks[i]] = 1
		}
		return nil
	})
}

// mix describes a mix by all of its weeks, which are a row of the table from then on.
func (s *searcher) mix(ctx context.Context, counts []int) (*capacitydoc.Mix, error) {
	m := &capacitydoc.Mix{Policy: s.policy.String(), CostPerWeek: s.cost(counts), Add: []capacitydoc.AddedGPUs{}}
	for _, g := range s.of(counts).add {
		m.Add = append(m.Add, capacitydoc.AddedGPUs{Type: g.Type, Count: g.Count})
	}
	o := s.of(counts)
	sums, missed, reached := make([]float64, len(s.goal)), make([]int, len(s.goal)), 0
	weeks := make([]*Week, s.weekCount)
	figures := make([]*Figures, s.weekCount)
	add := s.cellOf(o.text, s.policy) == nil
	err := s.inOrder(ctx, s.weekCount, func(ctx context.Context, i int) (err error) {
		weeks[i], err = s.week(ctx, i, o, s.policy)
		return err
	}, func(i int) error {
		for x, b := range s.goal {
			if b.what != "deadlines" {
				sums[x] += weeks[i].figure(b)
			}
			if !(goal{b}).reached(weeks[i]) {
				missed[x]++
			}
		}
		if s.goal.reached(weeks[i]) || s.tried(counts).weeks[i] > 0 {
			reached++
		}
		w := weeks[i]
		weeks[i], figures[i] = nil, s.figures(w)
		if !add || s.cfg.Week == nil {
			return nil
		}
		return s.cfg.Week(o.text, s.policy.String(), i, w)
	})
	if err != nil {
		return nil, err
	}
	if add {
		s.addCell(o, s.policy, figures)
	}
	m.Share = float64(reached) / float64(s.weekCount)
	if worst := slices.Index(missed, slices.Max(missed)); missed[worst] > 0 {
		m.Missed = s.goal[worst].String()
		m.MissedMeanS, m.MissedLimitS = sums[worst]/float64(s.weekCount), s.goal[worst].limit
	}
	return m, nil
}
