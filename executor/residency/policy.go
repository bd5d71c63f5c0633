package residency

import "slices"

// Hare keeps the models that are needed next and else those used last, and prefetches. It is the
// speculative memory management of Hare (HPDC 2022, section 4): the running model stays;
// of the others, a model of the next tasks stays before one that no expected task needs, and
// among those the model whose task ended last. It departs from the paper where even the next
// models do not fit next to the running one: then the model that is needed last leaves
// for one that is needed before, so that a task seldom waits.
type Hare struct {
	// Models is how many of the next models count; zero means 4.
	Models int
}

// LRU evicts the model whose last task ended longest ago, and copies nothing ahead.
type LRU struct{}

var (
	_ Policy = Hare{}
	_ Policy = LRU{}
)

// Ahead is the number of next models that count.
func (h Hare) Ahead() int {
	if h.Models == 0 {
		return 4
	}
	return h.Models
}

// Prefetch is true.
func (h Hare) Prefetch() bool { return true }

// Victim returns a model that no next task needs, the one that ended first; else the one
// that is needed last.
func (h Hare) Victim(candidates []Candidate) int {
	return first(candidates, func(a, b Candidate) bool {
		if (a.Next < 0) != (b.Next < 0) {
			return a.Next < 0
		}
		if a.Next != b.Next {
			return a.Next > b.Next
		}
		return age(a) < age(b)
	})
}

// Ahead is zero.
func (LRU) Ahead() int { return 0 }

// Prefetch is false.
func (LRU) Prefetch() bool { return false }

// Victim returns the model that ended first.
func (LRU) Victim(candidates []Candidate) int {
	return first(candidates, func(a, b Candidate) bool { return age(a) < age(b) })
}

// age is the number of the last task that used a copy, or for which it was made.
func age(c Candidate) int64 { return max(c.Ended, c.Loaded) }

// first returns the index of the least candidate; of equal ones, the one that stands first.
func first(candidates []Candidate, less func(a, b Candidate) bool) int {
	least := slices.MinFunc(candidates, func(a, b Candidate) int {
		switch {
		case less(a, b):
			return -1
		case less(b, a):
			return 1
		}
		return 0
	})
	return slices.IndexFunc(candidates, func(c Candidate) bool { return c.Job == least.Job })
}
