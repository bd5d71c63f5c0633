package lp

import (
	"context"
	"slices"
)

// Chain solves problems each of which is the one before it with more rows, other costs or other bounds of columns. An
// engine goes on from the basis of the problem before, in a fraction of the time. Which optimum it finds depends on
// all problems of the chain, and on nothing else. A Chain must not be used by several goroutines at once.
type Chain interface {
	Solver
	// Close gives back what the chain holds.
	Close()
}

// Chainer is a Solver that goes on from a basis.
type Chainer interface {
	Solver
	Chain() Chain
}

// NewChain returns a chain of s. Without chains of its own, s solves each problem for itself.
func NewChain(s Solver) Chain {
	if c, ok := s.(Chainer); ok {
		return c.Chain()
	}
	return singly{s}
}

// singly is a chain of a Solver that knows none.
type singly struct{ Solver }

func (singly) Close() {}

// chainLength is the number of problems after which a chain begins again without a basis: so many at most are solved
// again where a worker fails.
const chainLength = 60

// pinned is a chain of a pool. It holds one worker, which keeps the problem and its basis, from its first problem
// until it is closed. A worker that takes the place of one that failed solves all problems since the beginning again,
// so that its answers are the same. The chain begins again after chainLength problems, after one without an optimum,
// and with one of fewer rows or other columns.
type pinned struct {
	pool   *Pool
	w      *process // nil if there is none
	links  []link   // since the beginning
	solved int      // by w
}

// link is what a problem of a chain has of its own, beside the rows of all.
type link struct {
	maximize           bool
	cost, lower, upper []float64 // by column
	rows               int       // with those of the problems before
}

// Chain returns a chain that holds one of the workers from its first problem until it is closed.
func (p *Pool) Chain() Chain { return &pinned{pool: p} }

// Solve implements Solver. It takes O(size of the problem) beside the engine.
func (c *pinned) Solve(ctx context.Context, problem *Problem) (*Solution, error) {
	if sol, err := problem.withoutEngine(ctx); sol != nil || err != nil {
		return sol, err
	}
	c.add(problem)
	for attempt := 1; ; attempt++ {
		sol, err := c.solve(ctx, problem)
		if c.pool.again(err, attempt) {
			continue
		}
		if err != nil {
			c.links, c.solved = nil, 0
		}
		return sol, err
	}
}

// add appends the link of a problem.
func (c *pinned) add(problem *Problem) {
	l := link{maximize: problem.Maximize, rows: len(problem.RowLower)}
	var last link
	if n := len(c.links); n > 0 {
		last = c.links[n-1]
		if n == chainLength || l.rows < last.rows || len(problem.Cost) != len(last.cost) || l.maximize != last.maximize {
			c.links, c.solved = nil, 0
		}
	}
	l.cost = copyUnless(last.cost, problem.Cost)
	l.lower = copyUnless(last.lower, problem.ColLower)
	l.upper = copyUnless(last.upper, problem.ColUpper)
	c.links = append(c.links, l)
}

// copyUnless returns old if v equals it, else a copy of v.
func copyUnless(old, v []float64) []float64 {
	if slices.Equal(old, v) {
		return old
	}
	return slices.Clone(v)
}

// solve lets the worker solve all links that it has not solved, and returns the last solution.
func (c *pinned) solve(ctx context.Context, problem *Problem) (sol *Solution, err error) {
	for sol == nil || c.solved < len(c.links) {
		if c.w == nil {
			if c.w, err = c.pool.acquire(ctx); err != nil {
				return nil, err
			}
			c.solved = 0
		}
		ask, first := frameBegin, 0
		if c.solved > 0 {
			ask, first = frameContinue, c.links[c.solved-1].rows
		}
		l := c.links[c.solved]
		var alive bool
		sol, alive, err = c.pool.run(ctx, c.w, ask, l.problem(problem, first), l.problem(problem, 0))
		if !alive {
			c.w = nil
		}
		if err != nil {
			return nil, err
		}
		c.solved++
	}
	return sol, nil
}

// problem returns the problem of l, whose rows the last problem has too, without those before first.
func (l *link) problem(last *Problem, first int) *Problem {
	p := &Problem{Maximize: l.maximize, Cost: l.cost, ColLower: l.lower, ColUpper: l.upper,
		RowLower: last.RowLower[first:l.rows], RowUpper: last.RowUpper[first:l.rows]}
	from, to := last.Start[first], last.Start[l.rows]
	p.Index, p.Value = last.Index[from:to], last.Value[from:to]
	for _, start := range last.Start[first : l.rows+1] {
		p.Start = append(p.Start, start-from)
	}
	return p
}

// Close implements Chain.
func (c *pinned) Close() {
	if c.w != nil {
		c.pool.release(c.w)
	}
	c.w, c.links, c.solved = nil, nil, 0
}
