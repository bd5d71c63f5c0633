package verify

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/bits"
	"slices"

	"github.com/hare-sched/hare"
)

// These are limits of a certificate of the method search, and part of its meaning.
const (
	maxSearchNodes = 1 << 20 // of the search
	maxSearchSteps = 1 << 22 // of the recursions of all jobs
	maxSearchGPUs  = 64
	maxSearchJobs  = 64
	maxSearchCost  = 1 << 60 // in 1e-9 weights times steps
)

// searched is an instance in steps of time. Costs count 1e-9 weights times steps.
type searched struct {
	jobs   []searchedJob
	types  []int     // the GPUs of each type
	rest   [][]int64 // the price of a GPU from a step on, by type
	end    int       // the step from which nothing has a price
	least  int64     // the cost that the certificate states as least, releases included
	nodes  int
	ended  func() error // the error of the context
	queue  searchTimes
	spare  []*searchState           // by the number of starts at a time, to be used again
	states map[int]map[string]int64 // Σ w C of the jobs that have ended, by time and state
}

type searchedJob struct {
	w                      int64
	release, rounds, tasks int
	gang                   bool // all tasks of a round start at once; a rigid job is a gang of one round
	p, s                   []int
	tau                    int
	slot                   [][]int64 // the price of a task, by type and start
	v                      [][]int64 // V, by rounds left and start
	parts                  map[[4]int]int64
}

// searchBound returns the bound that a certificate of the method search states, if a search finds no schedule below it
// (docs/inside/bounds.md#search). It takes O(nodes · (jobs + GPUs)), and keeps the states of later times.
//
// The certificate has step_us, which divides all releases and times of the instance and all of grid_us. Jobs have no
// mix, gpus_per_task or further rule, and GPUs are there from 0 on for good. With times in steps, costs in 1e-9
// weights times steps, H the end of the grid, d_k = p_k + s_k, and for a rigid job one round of R d_k, limits are:
//
//   - 64 jobs, 64 GPUs, H ≤ 2^22; releases, rounds, tasks, p_k and s_k ≤ 2^22, as is p_k of a rigid job.
//   - The sum over jobs of L R (H + 1) ≤ 2^22, L being the greatest s_k + p_k ⌈K/M_k⌉, or the greatest d_k of a gang.
//   - The dearest price times H ≤ 2^54; w (a + H + (R + 1) L) ≤ 2^54 for each job; the bound ≤ 2^60.
//   - 2^20 nodes: at each time each state, and each choice of tasks that start, costs a node. Choices go through the
//     pairs of a job, in the order of the instance, and a type, by name: after tasks of a pair only those of later
//     pairs start at the time. What costs no less than the bound is not gone on from.
//
// Proof. At a state the prices of GPUs from then on bound what is left, as docs/inside/bounds.md#price has it: V
// bounds jobs whose round has not begun (stepsPhi; of a gang the minimum goes over all its starts), and part those
// of whose round some tasks have: the others start at now or later and pay no less than the cheapest slot that
// synchronises by the end x, after which V counts. GPUs that are busy offer their time from when they are free.
//
// It is enough to go through schedules in which no task could start earlier: of the schedules of least value, one
// with the least sum of starts is such. Its starts are at times at which a round is ready or a GPU becomes free.
// If a task starts at t, its round was ready before and a GPU of the type was idle just before t, then let the GPU
// change all that it does from t on with that of the task: the task can start earlier, alone or with the rest of
// its gang where as many GPUs were idle. So none does. What a state leaves out changes nothing: which GPU is busy
// until when, how long a round is ready or a GPU idle, and of equal states the one that costs more until now. ∎
func searchBound(ctx context.Context, inst *hare.Instance, s *supply, c *hare.Certificate) (*proved, error) {
	stated, ok := statedBound(c)
	if !ok {
		return nil, errForm(c)
	}
	sd, err := newSearched(inst, s, c)
	if err != nil {
		return nil, err
	}
	if err := sd.setLeast(inst, c, stated); err != nil {
		return nil, err
	}
	sd.ended = ctx.Err
	if err := sd.run(); err != nil {
		return nil, err
	}
	return &proved{low: stated}, nil
}

// newSearched refuses instances and certificates that are not for a search.
func newSearched(inst *hare.Instance, s *supply, c *hare.Certificate) (*searched, error) {
	if len(c.Pools)+len(c.After)+len(c.Sizes) > 0 || c.Path {
		return nil, errors.New("a search certificate has no path, sizes or pools, and moves no weight")
	}
	if inst.Objective != hare.ObjectiveWeightedJCT || s.placed {
		return nil, errors.New("a search certificate is neither for other objectives nor for nodes that matter")
	}
	if c.StepUs < 1 {
		return nil, errors.New("a search certificate needs step_us")
	}
	pc, _, err := readPrices(s, c)
	if err != nil {
		return nil, err
	}
	delta := c.StepUs
	horizon := c.GridUs[len(c.GridUs)-1] / delta
	if len(inst.Jobs) > maxSearchJobs || horizon > maxSearchSteps {
		return nil, errors.New("a search certificate is for fewer jobs and steps")
	}
	sd := &searched{end: int(horizon), states: map[int]map[string]int64{}}
	number := map[string]int{}
	all := int64(0)
	for _, kind := range slices.Sorted(maps.Keys(s.capacities)) {
		of := s.capacities[kind]
		if of.most == 0 {
			continue
		}
		if len(of.at) != 1 || of.at[0] != 0 {
			return nil, fmt.Errorf("a search certificate is for GPUs that are always there: not type %.40q", kind)
		}
		if all += of.most; all > maxSearchGPUs {
			return nil, errors.New("a search certificate is for fewer GPUs")
		}
		number[kind] = len(sd.types)
		sd.types = append(sd.types, int(of.most))
		rest := make([]int64, horizon+1)
		if curve := pc.curves[resource{kind, 1}]; curve != nil {
			cell := len(curve.prices) - 1
			for x := horizon - 1; x >= 0; x-- {
				for curve.grid[cell] > x*delta {
					cell--
				}
				hi, lo := bits.Mul64(uint64(curve.prices[cell]), uint64(horizon))
				if hi > 0 || lo > maxSearchCost/maxSearchGPUs {
					return nil, errors.New("the prices of a search certificate are too high")
				}
				rest[x] = rest[x+1] + curve.prices[cell]
			}
		}
		sd.rest = append(sd.rest, rest)
	}
	work := int64(0)
	for i := range inst.Jobs {
		more, err := sd.addJob(&inst.Jobs[i], number, delta)
		if err != nil {
			return nil, err
		}
		if work += more; work > maxSearchSteps {
			return nil, errors.New("a search certificate is for fewer rounds and steps")
		}
	}
	for i := range sd.jobs {
		sd.solve(&sd.jobs[i])
	}
	return sd, nil
}

// addJob adds a job, and returns rounds · steps · the greatest length of a round that matters.
func (sd *searched) addJob(job *hare.Job, number map[string]int, delta int64) (work int64, err error) {
	if job.Mix || !plain(job) || gpusOf(job) != 1 {
		return 0, fmt.Errorf("a search certificate is for jobs without further rules, which job %.40q is not", job.ID)
	}
	if job.ReleaseUs%delta != 0 || job.ReleaseUs/delta > maxSearchSteps || job.Rounds > maxSearchSteps ||
		job.Tasks > maxSearchSteps {
		return 0, fmt.Errorf("job %.40q is not in whole steps, or too large for a search certificate", job.ID)
	}
	j := searchedJob{w: job.WeightMicro * 1000, release: int(job.ReleaseUs / delta), rounds: int(job.Rounds),
		tasks: int(job.Tasks), gang: job.Sync != hare.Relaxed, p: make([]int, len(sd.types)),
		s: make([]int, len(sd.types)), parts: map[[4]int]int64{}}
	longest := 0
	for _, p := range job.On {
		k, ok := number[p.Type]
		if !ok || j.gang && sd.types[k] < j.tasks {
			continue
		}
		if p.ComputeUs%delta != 0 || p.SyncUs%delta != 0 || p.ComputeUs/delta > maxSearchSteps ||
			p.SyncUs/delta > maxSearchSteps {
			return 0, fmt.Errorf("job %.40q is not in whole steps, or too large for a search certificate", job.ID)
		}
		j.p[k], j.s[k] = int(p.ComputeUs/delta), int(p.SyncUs/delta)
		if j.gang {
			j.p[k], j.s[k] = j.p[k]+j.s[k], 0
		}
		if job.Sync == hare.Rigid {
			j.p[k] *= j.rounds
			if j.p[k] > maxSearchSteps {
				return 0, fmt.Errorf("job %.40q is too large for a search certificate", job.ID)
			}
		}
		alone := j.s[k] + j.p[k]*((j.tasks-1)/sd.types[k]+1)
		longest = max(longest, alone)
		if d := j.s[k] + j.p[k]; j.gang && (j.tau == 0 || d < j.tau) {
			j.tau = d
		}
	}
	if longest == 0 {
		return 0, errNever
	}
	if job.Sync == hare.Rigid {
		j.rounds = 1
	}
	work, ok := mul(int64(longest)*int64(j.rounds), int64(sd.end)+1)
	if !ok || work > maxSearchSteps {
		return math.MaxInt32, nil
	}
	for j.tau == 0 || !j.gang && sd.fit(&j, j.tau) < j.tasks {
		j.tau++
	}
	latest, ok := mul(j.w, int64(j.release)+int64(sd.end)+int64(j.rounds+1)*int64(longest))
	if !ok || latest > maxSearchCost/maxSearchJobs {
		return 0, errors.New("the weights of a search certificate are too high")
	}
	sd.jobs = append(sd.jobs, j)
	return work, nil
}

// setLeast sets the cost that no schedule may be below.
func (sd *searched) setLeast(inst *hare.Instance, c *hare.Certificate, stated *big.Rat) error {
	cost := new(big.Rat).Mul(stated, big.NewRat(unit, 1))
	cost.Quo(cost, big.NewRat(c.StepUs, 1))
	least := new(big.Int).Add(cost.Num(), new(big.Int).Sub(cost.Denom(), big.NewInt(1)))
	least.Div(least, cost.Denom()) // rounded up: costs are whole
	for i := range sd.jobs {
		least.Add(least, times(sd.jobs[i].w, int64(sd.jobs[i].release)))
	}
	if least.CmpAbs(big.NewInt(maxSearchCost)) > 0 {
		return errors.New("the bound of a search certificate is too high")
	}
	sd.least = least.Int64()
	return nil
}

// fit returns how many tasks a round of so many steps has at most.
func (sd *searched) fit(j *searchedJob, length int) (n int) {
	for k, m := range sd.types {
		if j.p[k] > 0 && length >= j.p[k]+j.s[k] {
			n += m * ((length - j.s[k]) / j.p[k])
		}
	}
	return n
}

// price returns what a task on type k pays from a step on.
func (sd *searched) price(j *searchedJob, k, from int) int64 {
	if from >= sd.end {
		return 0
	}
	return j.slot[k][from]
}

// value returns V.
func (sd *searched) value(j *searchedJob, left, x int) int64 {
	if x >= sd.end {
		return j.w * int64(x+left*j.tau)
	}
	return j.v[left][x]
}

// solve computes V_r(x), the least cost of the last r rounds of the job alone, from x on.
func (sd *searched) solve(j *searchedJob) {
	j.slot = make([][]int64, len(sd.types))
	longest := 0
	for k, p := range j.p {
		j.slot[k] = make([]int64, sd.end)
		for x := range j.slot[k] {
			j.slot[k][x] = sd.rest[k][x] - sd.rest[k][min(x+p, sd.end)]
		}
		if p > 0 {
			longest = max(longest, j.s[k]+p*((j.tasks-1)/sd.types[k]+1))
		}
	}
	j.v = [][]int64{make([]int64, sd.end)}
	for x := range sd.end {
		j.v[0][x] = j.w * int64(x)
	}
	for r := 1; r <= j.rounds; r++ {
		v := make([]int64, sd.end)
		for x := range v {
			v[x] = j.w * int64(sd.end+r*j.tau)
		}
		j.v = append(j.v, v)
	}
	cheap := make([]int64, len(sd.types))
	for x := sd.end - 1; x >= 0; x-- {
		for k := range cheap {
			cheap[k] = math.MaxInt64
		}
		for r := 1; r <= j.rounds && x+1 < sd.end; r++ {
			j.v[r][x] = j.v[r][x+1]
		}
		for d := 1; d <= longest; d++ {
			cost := sd.round(j, x, d, cheap)
			for r := 1; r <= j.rounds && cost >= 0; r++ {
				j.v[r][x] = min(j.v[r][x], cost+sd.value(j, r-1, x+d))
			}
		}
	}
}

// round returns what a round pays that starts at x and lasts d steps, or −1 where there is no such round. cheap has
// the least prices of tasks of a round that is one step shorter.
func (sd *searched) round(j *searchedJob, x, d int, cheap []int64) int64 {
	if j.gang {
		best := int64(-1)
		for k, p := range j.p {
			if cost := int64(j.tasks) * sd.price(j, k, x); p == d && (best < 0 || cost < best) {
				best = cost
			}
		}
		return best
	}
	for k, p := range j.p {
		if w := d - p - j.s[k]; p > 0 && w >= 0 {
			cheap[k] = min(cheap[k], sd.price(j, k, x+w))
		}
	}
	cost, left, taken := int64(0), j.tasks, 0
	for left > 0 {
		k := -1
		for i, c := range cheap {
			if c < math.MaxInt64 && taken>>i&1 == 0 && (k < 0 || c < cheap[k]) {
				k = i
			}
		}
		if k < 0 {
			return -1
		}
		taken |= 1 << k
		n := min(left, sd.types[k]*((d-j.s[k])/j.p[k]))
		cost += int64(n) * cheap[k]
		left -= n
	}
	return cost
}

// part returns the least cost of the rounds of a job that are left where so many tasks of the first of them start at
// now or later, and this round ends at end or later.
func (sd *searched) part(j *searchedJob, left, tasks, now, end int) int64 {
	key := [4]int{left, tasks, now, end}
	if v, ok := j.parts[key]; ok {
		return v
	}
	best, task := int64(math.MaxInt64), int64(math.MaxInt64)
	for x := now + 1; ; x++ {
		for k, p := range j.p {
			if v := x - p - j.s[k]; p > 0 && v >= now {
				task = min(task, sd.price(j, k, v))
			}
		}
		if x < end || task == math.MaxInt64 {
			continue
		}
		v := sd.value(j, left-1, x)
		best = min(best, int64(tasks)*task+v)
		if v >= best || task == 0 {
			break
		}
	}
	j.parts[key] = best
	return best
}

// searchState is a partial schedule at a time.
type searchState struct {
	now  int
	busy [][]int // until when, by type, rising
	idle []int   // the GPUs of each type that were idle just before
	jobs []searchRun
	done int64 // Σ w C of the jobs that have ended
}

// searchRun is what is left of a job: rounds, and tasks of the first of them that have not started. That round may
// start from ready on, and end is the latest end of its tasks that have started.
type searchRun struct{ rounds, tasks, ready, end int }

// searchTimes is a heap of times.
type searchTimes []int

func (st searchTimes) Len() int           { return len(st) }
func (st searchTimes) Less(i, j int) bool { return st[i] < st[j] }
func (st searchTimes) Swap(i, j int)      { st[i], st[j] = st[j], st[i] }
func (st *searchTimes) Push(x any)        { *st = append(*st, x.(int)) }
func (st *searchTimes) Pop() any {
	old := *st
	x := old[len(old)-1]
	*st = old[:len(old)-1]
	return x
}

// run goes through the states in the order of time, and fails where it meets a schedule below least, or more than
// maxSearchNodes nodes.
func (sd *searched) run() error {
	s := &searchState{idle: make([]int, len(sd.types))}
	for _, m := range sd.types {
		s.busy = append(s.busy, make([]int, m))
	}
	for i := range sd.jobs {
		j := &sd.jobs[i]
		s.jobs = append(s.jobs, searchRun{j.rounds, j.tasks, j.release, 0})
	}
	if sd.cost(s) < sd.least {
		sd.add(s)
	}
	for len(sd.queue) > 0 {
		now := heap.Pop(&sd.queue).(int)
		for key, done := range sd.states[now] {
			s := sd.read(now, key, done)
			if err := sd.from(s, sd.cost(s), -1, 0); err != nil {
				return err
			}
		}
		delete(sd.states, now)
	}
	return nil
}

// cost returns the least cost of the schedules that go on from a state.
func (sd *searched) cost(s *searchState) int64 {
	sum := s.done
	for k, gpus := range s.busy {
		for _, b := range gpus {
			sum -= sd.worth(k, max(b, s.now))
		}
	}
	for i := range s.jobs {
		sum += sd.left(s, i)
	}
	return sum
}

// worth returns what a GPU of type k earns from a step on.
func (sd *searched) worth(k, from int) int64 {
	if from >= sd.end {
		return 0
	}
	return sd.rest[k][from]
}

// left returns the least cost of what is left of job i.
func (sd *searched) left(s *searchState, i int) int64 {
	switch j, x := &sd.jobs[i], &s.jobs[i]; {
	case x.rounds == 0:
		return 0
	case x.tasks == j.tasks:
		return sd.value(j, x.rounds, max(x.ready, s.now))
	default:
		return sd.part(j, x.rounds, x.tasks, s.now, x.end)
	}
}

// from goes on from a state of a cost in each way in which tasks start on types, of pairs of a job and a type behind
// last, and then lets time go on. depth counts the starts at this time.
func (sd *searched) from(s *searchState, cost int64, last, depth int) error {
	if sd.nodes++; sd.nodes > maxSearchNodes {
		return errors.New("the search takes too long to check")
	}
	if sd.nodes%4096 == 0 && sd.ended() != nil {
		return sd.ended()
	}
	open := false
	for i := range s.jobs {
		j, x := &sd.jobs[i], &s.jobs[i]
		open = open || x.rounds > 0
		if x.rounds == 0 || x.ready > s.now {
			continue
		}
		least := 1
		if j.gang {
			least = j.tasks
		}
		for k, m := range sd.types {
			if i*len(sd.types)+k <= last || j.p[k] == 0 || x.ready < s.now && s.idle[k] >= least {
				continue // tasks could have started before
			}
			free := 0
			for free < m && s.busy[k][free] <= s.now {
				free++
			}
			for n := least; n <= min(free, x.tasks); n++ {
				next := sd.next(s, depth)
				before := sd.left(s, i)
				sd.start(next, i, k, n)
				c := cost - before + sd.left(next, i) + next.done - s.done
				if c += int64(n) * (sd.worth(k, s.now) - sd.worth(k, s.now+j.p[k])); c >= sd.least {
					continue
				}
				if err := sd.from(next, c, i*len(sd.types)+k, depth+1); err != nil {
					return err
				}
			}
		}
	}
	if !open {
		if s.done < sd.least {
			return errors.New("there is a schedule below the bound")
		}
		return nil
	}
	if next := sd.next(s, depth); sd.wait(next) && sd.cost(next) < sd.least {
		sd.add(next)
	}
	return nil
}

// next returns a copy of a state that is valid until the next one at the depth.
func (sd *searched) next(s *searchState, depth int) *searchState {
	for len(sd.spare) <= depth {
		c := &searchState{}
		for _, m := range sd.types {
			c.busy = append(c.busy, make([]int, m))
		}
		sd.spare = append(sd.spare, c)
	}
	c := sd.spare[depth]
	c.now, c.done = s.now, s.done
	c.idle, c.jobs = append(c.idle[:0], s.idle...), append(c.jobs[:0], s.jobs...)
	for k, gpus := range s.busy {
		copy(c.busy[k], gpus)
	}
	return c
}

// start lets so many tasks of job i start on type k.
func (sd *searched) start(c *searchState, i, k, tasks int) {
	j, x := &sd.jobs[i], &c.jobs[i]
	until := c.now + j.p[k]
	gpus := c.busy[k]
	for range tasks { // the first GPUs are free
		at := 1
		for at < len(gpus) && gpus[at] <= until {
			gpus[at-1] = gpus[at]
			at++
		}
		gpus[at-1] = until
	}
	x.tasks -= tasks
	x.end = max(x.end, until+j.s[k])
	if x.tasks == 0 {
		*x = searchRun{x.rounds - 1, j.tasks, x.end, 0}
		if x.rounds == 0 {
			c.done += j.w * int64(x.ready)
			*x = searchRun{}
		}
	}
}

// wait lets time go on until GPUs become free or rounds may start; it returns false where there is no such time.
func (sd *searched) wait(c *searchState) bool {
	next := math.MaxInt
	for _, gpus := range c.busy {
		for _, b := range gpus {
			if b > c.now {
				next = min(next, b)
			}
		}
	}
	for i := range c.jobs {
		if x := &c.jobs[i]; x.rounds > 0 && x.ready > c.now {
			next = min(next, x.ready)
		}
	}
	if next == math.MaxInt {
		return false
	}
	c.now = next
	for k, gpus := range c.busy {
		c.idle[k] = 0
		for g, b := range gpus {
			if b < next {
				c.idle[k]++
				gpus[g] = next
			}
		}
	}
	for i := range c.jobs {
		if x := &c.jobs[i]; x.rounds > 0 && x.ready < next {
			x.ready = next - 1 // how long ago does not matter
		}
	}
	for i := range c.jobs {
		if x := &c.jobs[i]; x.rounds > 0 && x.tasks < sd.jobs[i].tasks {
			x.end = max(x.end, next)
		}
	}
	return true
}

// add keeps a state for its time, with the least done of equal ones.
func (sd *searched) add(s *searchState) {
	at := sd.states[s.now]
	if at == nil {
		at = map[string]int64{}
		sd.states[s.now] = at
		heap.Push(&sd.queue, s.now)
	}
	var key []byte
	put := func(x int) { key = append(key, byte(x), byte(x>>8), byte(x>>16), byte(x>>24)) }
	for k, gpus := range s.busy {
		put(s.idle[k])
		for _, b := range gpus {
			put(b)
		}
	}
	for _, x := range s.jobs {
		put(x.rounds)
		put(x.tasks)
		put(x.ready)
		put(x.end)
	}
	if done, ok := at[string(key)]; !ok || s.done < done {
		at[string(key)] = s.done
	}
}

// read returns the state of a key.
func (sd *searched) read(now int, key string, done int64) *searchState {
	s := &searchState{now: now, done: done}
	get := func() int {
		x := int(int32(uint32(key[0]) | uint32(key[1])<<8 | uint32(key[2])<<16 | uint32(key[3])<<24))
		key = key[4:]
		return x
	}
	for _, m := range sd.types {
		s.idle = append(s.idle, get())
		gpus := make([]int, m)
		for g := range gpus {
			gpus[g] = get()
		}
		s.busy = append(s.busy, gpus)
	}
	for range sd.jobs {
		s.jobs = append(s.jobs, searchRun{get(), get(), get(), get()})
	}
	return s
}
