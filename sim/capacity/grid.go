package capacity

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
)

// Config configures how a plan is computed. No field changes the figures.
type Config struct {
	// Parallel is how many weeks are simulated at a time; zero means one.
	Parallel int
	// Progress is called from one goroutine at a time with the share of a part, of Parts, that is done; nil means
	// never.
	Progress func(part string, done float64)
	// Week is called with each week that is simulated, from one goroutine at a time, in the order of options, policies
	// and weeks. It must not keep the week. Nil means never.
	Week func(option, policy string, week int, w *Week) error
	// Journal keeps what has been computed; nil keeps nothing.
	Journal Journal
	// Proof gives what is proved less time than the plan has; nil gives it as much. When that time is over, the report is
	// without it, and says that time was over.
	Proof func(context.Context) (context.Context, context.CancelFunc)
	// Version is that of Hare, for the report.
	Version string
}

// Journal keeps what a plan has computed, so that the same plan, when it is cut off, goes on from there. It belongs to
// one request and one version of Hare. Its methods are called from several goroutines.
type Journal interface {
	// Get returns what was kept under a key; nil where nothing was.
	Get(key string) []byte
	Put(key string, value []byte) error
}

// The parts of a plan, for its progress.
const (
	partCertain = "what is proved"
	partWeeks   = "weeks"
	partMix     = "cheapest mix"
)

// Parts are the parts of which a request's progress tells, in order.
func Parts(req *capacitydoc.Request) []string {
	if len(req.Buy) > 0 {
		return []string{partCertain, partWeeks, partMix}
	}
	return []string{partCertain, partWeeks}
}

func (cfg *Config) tell(part string, done float64) {
	if cfg.Progress != nil {
		cfg.Progress(part, done)
	}
}

// cell is an option under a policy.
type cell struct {
	option, policy int
	weeks          []*Figures
}

// grid is the table of all runs.
type grid struct {
	*plan
	cfg   Config
	cells []cell // by option and policy
}

// week is week number i on the cluster of an option under a policy: as the journal has it, or played.
func (g *grid) week(ctx context.Context, i int, o *option, by policy) (*Week, error) {
	key := strings.Join([]string{"week", strconv.Itoa(i), o.text, by.String()}, "\x00")
	return kept(g.cfg.Journal, key, func() (*Week, error) { return g.play(ctx, g.draw.week(g.seed, i), o, by) })
}

// kept is what a journal has under a key, or what compute returns, which the journal then gets.
func kept[T any](j Journal, key string, compute func() (T, error)) (v T, err error) {
	if j == nil {
		return compute()
	}
	if text := j.Get(key); text != nil {
		err := json.Unmarshal(text, &v)
		return v, err
	}
	if v, err = compute(); err != nil {
		return v, err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return v, err
	}
	return v, j.Put(key, text)
}

// run plays all options under all policies. When the time of ctx is over, the cells that have been played remain.
func (g *grid) run(ctx context.Context) error {
	for o := range g.options {
		for q := range g.policies {
			g.cells = append(g.cells, cell{option: o, policy: q, weeks: make([]*Figures, g.weekCount)})
		}
	}
	all, done := len(g.cells)*g.weekCount, 0
	out := make([]*Week, all)
	err := g.inOrder(ctx, all, func(ctx context.Context, i int) (err error) {
		c := &g.cells[i/g.weekCount]
		o, q := &g.options[c.option], g.policies[c.policy]
		out[i], err = g.week(ctx, i%g.weekCount, o, q)
		if at := "/instance"; errors.Is(err, sim.ErrStalled) {
			if c.option > 0 {
				at = "/options/" + strconv.Itoa(c.option-1)
			}
			return fault(at, "stalled", "%q under %s: %v", o.text, q, err)
		}
		if errors.Is(err, policies.ErrInfeasible) {
			return fault("/policies/"+strconv.Itoa(c.policy), "infeasible", "%v", err)
		}
		return ofInstance(err)
	}, func(i int) error {
		c, w := &g.cells[i/g.weekCount], out[i]
		out[i] = nil
		c.weeks[i%g.weekCount] = g.figures(w)
		done++
		g.cfg.tell(partWeeks, float64(done)/float64(all))
		if g.cfg.Week == nil {
			return nil
		}
		return g.cfg.Week(g.options[c.option].text, g.policies[c.policy].String(), i%g.weekCount, w)
	})
	g.cells = g.cells[:done/g.weekCount]
	return err
}

// cellOf returns the cell of an option under a policy; nil where there is none.
func (g *grid) cellOf(option string, by policy) *cell {
	for i := range g.cells {
		c := &g.cells[i]
		if g.options[c.option].text == option && g.policies[c.policy].name == by.name {
			return c
		}
	}
	return nil
}

// addCell adds a row for an option that was not asked for.
func (g *grid) addCell(o *option, by policy, weeks []*Figures) {
	at := slices.IndexFunc(g.options, func(x option) bool { return x.text == o.text })
	if at < 0 {
		at = len(g.options)
		g.options = append(g.options, *o)
	}
	q := slices.IndexFunc(g.policies, func(x policy) bool { return x.name == by.name })
	g.cells = append(g.cells, cell{at, q, weeks})
}

// figures are those of a week, with whether it reaches the goal.
func (g *grid) figures(w *Week) *Figures {
	f := w.figures()
	f.Reached, f.Jobs, f.HeldH, f.Queue = g.goal.reached(w), len(w.Jobs), map[string]float64{}, w.Queue
	f.UsedH = map[string]float64{}
	for k, us := range w.HeldUs {
		f.HeldH[k] = float64(us) / 3600e6
	}
	for k, us := range w.UsedUs {
		f.UsedH[k] = float64(us) / 3600e6
	}
	return &f
}

// inOrder runs n steps on the workers, and takes what each has made in their order. The first error of the order is
// returned.
func (g *grid) inOrder(ctx context.Context, n int, run func(context.Context, int) error, take func(int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var workers sync.WaitGroup
	defer workers.Wait()
	ended := make([]chan error, n)
	for i := range ended {
		ended[i] = make(chan error, 1)
	}
	next := make(chan int)
	for range max(1, min(g.cfg.Parallel, n)) {
		workers.Go(func() {
			for i := range next {
				ended[i] <- run(ctx, i)
			}
		})
	}
	workers.Go(func() {
		defer close(next)
		for i := range n {
			select {
			case next <- i:
			case <-ctx.Done():
				return
			}
		}
	})
	for i := range n {
		select {
		case err := <-ended[i]:
			if err == nil {
				err = take(i)
			}
			if err != nil {
				cancel()
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// settle makes no cluster look worse than one that it contains. A policy may do worse with more GPUs, as Graham's
// anomalies show; whoever has them could leave them idle, so that what the smaller cluster reaches counts.
func (g *grid) settle() (marked map[*cell]int) {
	marked = map[*cell]int{}
	lowered := map[*cell][]bool{}
	for i := range g.cells {
		c := &g.cells[i]
		lowered[c] = make([]bool, len(c.weeks))
		for x := range g.cells {
			s := &g.cells[x]
			if x == i || s.policy != c.policy || !g.options[c.option].contains(&g.options[s.option]) {
				continue
			}
			for w := range c.weeks {
				if c.weeks[w].atMost(s.weeks[w]) && !lowered[c][w] {
					lowered[c][w] = true
					marked[c]++
				}
			}
		}
	}
	return marked
}

// atMost lowers figures to those of another week, and reports whether one was higher.
func (f *Figures) atMost(s *Figures) (lowered bool) {
	for _, x := range [][2]*float64{{&f.MeanWaitS, &s.MeanWaitS}, {&f.P95WaitS, &s.P95WaitS},
		{&f.MeanCompletionS, &s.MeanCompletionS}, {&f.P95CompletionS, &s.P95CompletionS}} {
		if *x[0] > *x[1] {
			*x[0], lowered = *x[1], true
		}
	}
	if f.DeadlinesMet < s.DeadlinesMet {
		f.DeadlinesMet, lowered = s.DeadlinesMet, true
	}
	if s.Reached && !f.Reached {
		f.Reached, lowered = true, true
	}
	return lowered
}

// stat is a figure over the weeks of a cell.
func (c *cell) stat(of func(*Figures) float64) (s sim.Stat) {
	for _, w := range c.weeks {
		s.Add(of(w))
	}
	return s
}

// share is the share of weeks that reach the goal.
func (c *cell) share() float64 {
	n := 0
	for _, w := range c.weeks {
		if w.Reached {
			n++
		}
	}
	return float64(n) / float64(len(c.weeks))
}

// pareto are the indices of the points that no other one beats in cost and waiting, by cost.
func pareto(cost, wait []float64) (front []int) {
	order := make([]int, len(cost))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(cost[a], cost[b]), cmp.Compare(wait[a], wait[b]))
	})
	for _, i := range order {
		if len(front) == 0 || wait[i] < wait[front[len(front)-1]] {
			front = append(front, i)
		}
	}
	return front
}
