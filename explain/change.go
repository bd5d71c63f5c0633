package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// Kinds of changes.
const (
	changeGPU    = "add_gpu"
	changeWeight = "weight"
	changeRounds = "fewer_rounds"
)

// Limits of the search for a change.
const (
	weightStep       = 4  // factor by which the weight grows from one trial to the next
	weightSteps      = 5  // trials with a growing weight, at most
	weightBisections = 4  // bisection steps between the greatest weight that fails and the least that works
	roundsPrecision  = 32 // the search for rounds stops within 1/32 of the job's rounds
	maxGPUTypes      = 8  // GPU types that are tried
	maxDelays        = 10 // delayed jobs that are listed for a change
)

// errStopped says that the search ended during a solve; changeSearch.stopped says
// why.
var errStopped = errors.New("stopped")

// changeSearch looks for changes.
type changeSearch struct {
	ctx     context.Context
	inst    *hare.Instance
	job     int
	by      int64
	opt     hare.Options
	solve   SolveFunc
	ends    map[string]int64 // without a change
	out     *explaindoc.Earlier
	stopped string
}

// Search adds to a, which Static returned for the same instance, result and
// request, the changes with which the job ends as early as the request asks.
// Search solves one changed instance after another. Where ctx ends first, the
// answer says that the search is not finished; otherwise equal input gives an
// equal answer.
func Search(ctx context.Context, a *explaindoc.Answer, inst *hare.Instance, res *hare.Result, req Request,
	solve SolveFunc) {
	if a.Outcome != outcomeScheduled || req.ByUs == 0 && req.EarlierUs == 0 {
		return
	}
	job, err := jobAt(inst, a.Job)
	if err != nil {
		return // impossible: Static found the job
	}
	s := &changeSearch{ctx: ctx, inst: inst, job: job, solve: solve, opt: res.Options,
		out: &explaindoc.Earlier{Baseline: "result", Changes: []explaindoc.Change{}}}
	a.About, a.Earlier = aboutSolves, s.out
	s.opt.Detail = "jobs"
	end := int64(a.EndS)
	s.ends = make(map[string]int64, len(inst.Jobs))
	for _, j := range res.Jobs {
		s.ends[j.ID] = j.EndUs
	}
	timed := s.opt.TimeLimit > 0 || !res.Reproducible
	s.opt.TimeLimit = 0
	if timed {
		s.opt.WorkLimit = 0
		a.Notes = append(a.Notes, "the clock influenced this result: another solve of the instance may differ. "+
			"Changes are compared with a solve of the instance under the default work limit")
	}
	if timed || req.Recheck || len(s.ends) < len(inst.Jobs) {
		s.out.Baseline = "solved_again"
		ends, _, err := s.run(inst)
		if err != nil {
			s.finish(a, end, req)
			return
		}
		if s.ends = ends; ends[a.Job] != end && !timed {
			a.Notes = append(a.Notes,
				"solved again, the instance gives another schedule: the result is of another version "+
					"or engine, or was started from another's prices. Changes are compared with the new one")
		}
		end = ends[a.Job]
	}
	s.finish(a, end, req)
}

// finish searches each kind of change and fills in the answer. end is the job's
// end without a change.
func (s *changeSearch) finish(a *explaindoc.Answer, end int64, req Request) {
	s.by = req.ByUs
	if req.EarlierUs > 0 {
		s.by = end - req.EarlierUs
	}
	j := &s.inst.Jobs[s.job]
	earliest := j.ReleaseUs + int64(a.LeastS)
	o := s.out
	o.ByS, o.EndS, o.EarliestS = hare.Seconds(s.by), hare.Seconds(end), hare.Seconds(earliest)
	o.Already = end <= s.by
	if s.stopped == "" && !o.Already {
		for _, kind := range s.types() {
			s.addGPU(kind)
		}
		s.weight(earliest)
		s.rounds()
	}
	o.Finished, o.Unfinished = s.stopped == "", s.stopped
	for i := range o.Changes {
		c := &o.Changes[i]
		if c.Does && (o.Cheapest == nil || c.OthersCost.Cmp(*o.Changes[*o.Cheapest].OthersCost) < 0) {
			o.Cheapest = &i
		}
	}
}

// run solves a changed instance and returns the ends of its jobs. ok is false
// where the solve found no schedule.
func (s *changeSearch) run(inst *hare.Instance) (ends map[string]int64, ok bool, err error) {
	if s.stopped != "" {
		return nil, false, errStopped
	}
	res, err := s.solve(s.ctx, inst, s.opt)
	s.out.Solves++
	switch {
	case s.ctx.Err() != nil:
		s.stopped = "the time limit passed"
	case errors.Is(err, admission.ErrBusy), errors.Is(err, admission.ErrLate), errors.Is(err, admission.ErrDraining):
		s.stopped = err.Error()
	case err != nil:
		s.stopped = fmt.Sprintf("a solve failed: %v", err)
	case !res.Reproducible:
		s.stopped = "a solve was cut short, or a worker for linear programs was restarted: ask again, with more time"
	}
	if s.stopped != "" {
		return nil, false, errStopped
	}
	if len(res.Jobs) == 0 && len(inst.Jobs) > 0 {
		return nil, false, nil // no schedule was found
	}
	ends = make(map[string]int64, len(res.Jobs))
	for _, j := range res.Jobs {
		ends[j.ID] = j.EndUs
	}
	return ends, true, nil
}

// try solves a changed instance and reports whether the job ends in time. try
// writes the effects of the change to c where the job does, or where always is set.
func (s *changeSearch) try(c *explaindoc.Change, inst *hare.Instance, always bool) (does bool, err error) {
	if inst.Validate() != nil {
		return false, nil // the changed instance exceeds the limits of the model
	}
	ends, ok, err := s.run(inst)
	if err != nil || !ok {
		return false, err
	}
	c.Tried++
	id := s.inst.Jobs[s.job].ID
	does = ends[id] <= s.by
	if !does && !always {
		return false, nil
	}
	end, cost := hare.Seconds(ends[id]), hare.Amount{}
	c.Delayed, c.Sooner, c.Jobs = 0, 0, nil
	for i := range s.inst.Jobs {
		j := &s.inst.Jobs[i]
		if i == s.job || ends[j.ID] == s.ends[j.ID] {
			continue
		}
		by := ends[j.ID] - s.ends[j.ID]
		if by < 0 {
			c.Sooner++
			cost = cost.Sub(hare.Product(j.WeightMicro, -by))
			continue
		}
		c.Delayed++
		more := hare.Product(j.WeightMicro, by)
		cost = cost.Add(more)
		c.Jobs = append(c.Jobs, explaindoc.Delay{Job: j.ID, ByS: hare.Seconds(by), EndS: hare.Seconds(ends[j.ID]),
			Cost: more})
	}
	slices.SortStableFunc(c.Jobs, func(a, b explaindoc.Delay) int {
		return cmp.Or(b.Cost.Cmp(a.Cost), cmp.Compare(b.ByS, a.ByS))
	})
	c.Jobs = slices.Clone(c.Jobs[:min(len(c.Jobs), maxDelays)])
	c.EndS, c.OthersCost = &end, &cost
	return does, nil
}

// withJob returns the instance with the job changed by f.
func (s *changeSearch) withJob(f func(*hare.Job)) *hare.Instance {
	inst := withJobs(s.inst, slices.Clone(s.inst.Jobs)...)
	f(&inst.Jobs[s.job])
	return inst
}

// types lists the cluster's GPU types: first those that the job may use, then the
// others.
func (s *changeSearch) types() []string {
	var own, rest []string
	for _, n := range s.inst.Cluster.Nodes {
		for _, g := range n.GPUs {
			to := &rest
			if runsOn(&s.inst.Jobs[s.job], g.Type) {
				to = &own
			}
			if !slices.Contains(*to, g.Type) {
				*to = append(*to, g.Type)
			}
		}
	}
	slices.Sort(own)
	slices.Sort(rest)
	own = append(own, rest...)
	return own[:min(len(own), maxGPUTypes)]
}

// addGPU tries one more GPU of a type, on a node of its own that is always in
// service.
func (s *changeSearch) addGPU(kind string) {
	c := explaindoc.Change{Kind: changeGPU, Type: kind, Node: "added"}
	for slices.ContainsFunc(s.inst.Cluster.Nodes, func(n hare.Node) bool { return n.Name == c.Node }) {
		c.Node += "-1"
	}
	inst := withJobs(s.inst, s.inst.Jobs...)
	added := hare.Node{GPUs: []hare.TypeCount{{Type: kind, Count: 1}}}
	if _, placed := inst.Placed(); placed {
		added = s.likeNode(kind)
		if n := countOf(&added, kind); n > 1 {
			c.GPUs = n
		}
	}
	added.Name = c.Node
	inst.Cluster.Nodes = append(slices.Clone(inst.Cluster.Nodes), added)
	does, err := s.try(&c, inst, true)
	c.Does, c.Finished = does, err == nil
	s.out.Changes = append(s.out.Changes, c)
}

// likeNode returns a copy of the node with the most GPUs of a type, first of those that the
// job may use, which is always in service and never busy.
func (s *changeSearch) likeNode(kind string) hare.Node {
	var best *hare.Node
	j := &s.inst.Jobs[s.job]
	for i := range s.inst.Cluster.Nodes {
		n := &s.inst.Cluster.Nodes[i]
		if countOf(n, kind) == 0 {
			continue
		}
		if best == nil || j.AllowsNode(n) && !j.AllowsNode(best) ||
			j.AllowsNode(n) == j.AllowsNode(best) && countOf(n, kind) > countOf(best, kind) {
			best = n
		}
	}
	added := *best // types lists the types of nodes alone
	added.Windows, added.Busy = nil, nil
	return added
}

// weight searches for the least weight with which the job ends in time. The
// weight grows until a trial works; bisection by ratio follows from there.
func (s *changeSearch) weight(earliest int64) {
	c := explaindoc.Change{Kind: changeWeight}
	defer func() { s.out.Changes = append(s.out.Changes, c) }()
	if s.by < earliest {
		c.Finished, c.Detail = true, fmt.Sprintf("no plan ends the job before %s s: that is proved",
			hare.FormatMicros(earliest))
		return
	}
	was := s.inst.Jobs[s.job].WeightMicro
	low, high := float64(was), 0.0
	tried := func(w float64) (bool, error) {
		weight := hare.Seconds(w)
		does, err := s.try(&c, s.withJob(func(j *hare.Job) { j.WeightMicro = int64(weight) }), false)
		switch {
		case err != nil:
		case does:
			high, c.Weight, c.Does = w, &weight, true
		default:
			low, c.NotWeight = w, &weight
		}
		return does, err
	}
	next := low * weightStep
	if was == 0 {
		next = 1e6
	}
	for range weightSteps {
		if next = min(next, hare.MaxExact); next <= low {
			break
		}
		does, err := tried(next)
		if err != nil {
			return
		}
		if does {
			break
		}
		next *= weightStep
	}
	for range weightBisections {
		if !c.Does || was == 0 {
			break
		}
		middle := math.Floor(math.Sqrt(low * high))
		if middle <= low || middle >= high {
			break
		}
		if _, err := tried(middle); err != nil {
			return
		}
	}
	c.Finished = true
}

// rounds searches for the most rounds with which the job is in time.
func (s *changeSearch) rounds() {
	c := explaindoc.Change{Kind: changeRounds}
	defer func() { s.out.Changes = append(s.out.Changes, c) }()
	was := s.inst.Jobs[s.job].Rounds
	if was == 1 {
		c.Finished, c.Detail = true, "the job has one round"
		return
	}
	low, high := int64(0), was // the most rounds that work, the fewest that do not
	for at := int64(1); high-low > max(1, was/roundsPrecision); at = low + (high-low)/2 {
		does, err := s.try(&c, s.withJob(func(j *hare.Job) { j.Rounds = at }), false)
		if err != nil {
			return
		}
		rounds := at
		if does {
			low, c.Rounds, c.Does = at, &rounds, true
			continue
		}
		if high, c.NotRounds = at, &rounds; at == 1 {
			break
		}
	}
	c.Finished = true
}
