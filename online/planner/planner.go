// Package planner plans the rest of the jobs of an online session: which job runs on
// which GPU type, and in which order. A plan is made of what a session knows now. It is
// pure and its work is limited: the same question gives the same plan.
package planner

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/relax"
)

// Question is what a session knows at a time. Times are in microseconds after that time.
type Question struct {
	Types []string
	// FreeUs are, by type, the times at which each GPU in service becomes free.
	FreeUs [][]int64
	Jobs   []Job
	Seed   int64
	Work   Work
	// Prices are those of the last plan, with times after the time of the question; nil
	// means that there are none.
	Prices *hare.Relaxation
	// Prove asks for Plan.Bound.
	Prove bool
	// Quotas limit what the jobs of users hold together. Held are the GPUs that jobs hold now and
	// that are not in FreeUs, where there are quotas.
	Quotas []hare.Quota
	Held   []Held
}

// Held are GPUs of a type that a job of some users holds until UntilUs.
type Held struct {
	Users   []string
	Type    int // index in Question.Types
	Count   int
	UntilUs int64
}

// Work limits what a plan costs. Zeros mean the defaults.
type Work struct {
	// Cells is the finest grid of the prices; zero means 24, 12 for over 150 jobs, and 8 for
	// 300 or more, where there are prices to begin with.
	Cells int
	// Effort multiplies the ascent steps of the prices; zero means 0.3, and less for over
	// 100 jobs, down to 0.1 for 300.
	Effort float64
	// Moves limits the search; zero means 400 for each job, at most 20,000, and fewer for
	// over 150 jobs, down to none for 300. Less than zero means no search.
	Moves int64
	// First is how many jobs at the head of an order are tried on all types; the others keep
	// the types of the last plan where they have some. Zero means 100, and all jobs where there
	// is a search.
	First int
	// Groups is the most times at which GPUs of one type become free; zero means 64.
	Groups int
}

// maxMoves is the greatest default of Work.Moves.
const maxMoves = 20_000

func (w Work) resolve(jobs int) Work {
	n := max(1, int64(jobs))
	if w.Cells == 0 {
		w.Cells = 24
		if jobs > 150 {
			w.Cells = 12
		}
		if jobs >= 300 {
			w.Cells = 8
		}
	}
	if w.Effort == 0 {
		w.Effort = min(0.3, max(0.1, 30/float64(n)))
	}
	if w.Moves == 0 {
		if w.Moves = min(400*n, maxMoves, maxMoves*(300-n)/150); w.Moves < 2*n {
			w.Moves = -1
		}
	}
	if w.First == 0 && w.Moves < 0 {
		w.First = 100
	}
	if w.Groups == 0 {
		w.Groups = 64
	}
	return w
}

// Job is a job to plan.
type Job struct {
	WeightMicro int64
	Tasks       int64
	Sync        hare.Sync // Gang or Rigid; relaxed jobs are planned as gangs
	Mix         bool
	// ReadyUs is when the next round may start.
	ReadyUs int64
	// Rounds is how many rounds are believed to be left, without one that runs.
	Rounds int64
	// On are the times of a round by type, with a share of what a move to the type costs.
	On []Mode
	// Before are the types of the job's rows in the last plan, and BeforeUs the start of
	// its next row there. Nil means that the last plan had no place for the job.
	Before   []int
	BeforeUs int64
	// Users are the names under which quotas count the job, sorted.
	Users []string
}

// Mode is a job on a type.
type Mode struct {
	Type       int // index in Question.Types
	DurationUs int64
}

// Plan is the answer.
type Plan struct {
	// Rows are those of each job of the question, in the order of their rounds; nil
	// where the job has no place.
	Rows [][]Row
	// Prices are those that the plan was made by, for the next question; nil where there
	// was nothing to plan. Each row is of the type PricedTypes, an index in Question.Types.
	Prices      *hare.Relaxation
	PricedTypes []int
	// Value is the weighted sum of the completion times of the jobs that have rows, after
	// the time of the question, if the plan is followed. Bound is at most the value of every
	// plan of the same jobs on the same GPUs, which are free at the times of Work.Groups;
	// what a move costs is part of both. Bound is 0 where it was not asked for.
	Value, Bound hare.Amount
}

// Row says where some rounds of a job run.
type Row struct {
	Round, Rounds int64 // counted from the first round of the question
	StartUs       int64
	PeriodUs      int64
	Types         []TypeCount // the GPUs of each round
}

// TypeCount is some GPUs of a type.
type TypeCount struct {
	Type  int
	Count int64
}

// Make answers a question. Jobs that no type is wide enough for get no rows. An error
// says that the times of the question are too long to be added up, or is that of ctx.
func Make(ctx context.Context, q *Question) (*Plan, error) {
	work := q.Work.resolve(len(q.Jobs))
	p := &Plan{Rows: make([][]Row, len(q.Jobs))}
	inst, index := q.instance(work)
	if len(inst.Jobs) == len(q.Held) {
		return p, nil
	}
	if err := inst.Validate(); err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	m := model.New(inst)
	cfg := relax.Config{Workers: 1, MaxLPs: -1, Cells: work.Cells, Effort: work.Effort, NoSizes: true,
		Rounded: q.Prove, Quit: closed}
	if q.Prices != nil && len(q.Prices.Prices) == len(m.Types) {
		cfg.WarmStart = q.Prices
	}
	rel, err := relax.Run(ctx, m, cfg)
	if err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	plan, _, err := greedy.Replan(ctx, m, rel, q.hints(m, index),
		greedy.ImproveConfig{Seed: q.Seed, Moves: work.Moves, Chains: 1, Workers: 1, Heat: heat, First: work.First})
	if err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	typeOf := map[string]int{}
	for t, name := range q.Types {
		typeOf[name] = t
	}
	p.Prices = rel
	for _, name := range m.Types {
		p.PricedTypes = append(p.PricedTypes, typeOf[name])
	}
	var ready hare.Amount
	for i := range m.Jobs {
		ready = ready.Add(hare.Product(m.Jobs[i].WeightMicro, m.Jobs[i].ReleaseUs))
	}
	p.Value = plan.Value(m).Add(ready)
	if bound := rel.Bound.Add(ready); q.Prove && bound.Sign() > 0 {
		p.Bound = bound
	}
	for i := range plan.Jobs {
		if index[i] < 0 {
			continue
		}
		p.Rows[index[i]] = rowsOf(m, typeOf, plan.Jobs[i])
	}
	return p, nil
}

// heat is that of the search. A plan changes little from event to event, and the little
// work of a plan finds more near the last one. Measured on the families of hare experiment
// online; 0.01 to 0.05 do the same.
const heat = 0.02

// closed ends exact evaluations of bounds, which a plan does not need.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// hints are what the last plan had of each job of the instance.
func (q *Question) hints(m *model.Model, index []int) []greedy.Hint {
	hints := make([]greedy.Hint, len(m.Jobs))
	for i := range hints {
		if index[i] < 0 {
			continue
		}
		j := &q.Jobs[index[i]]
		if j.Before == nil {
			continue
		}
		hints[i] = greedy.Hint{Types: []int{}, StartUs: j.BeforeUs}
		for _, t := range j.Before {
			if k := slices.Index(m.Types, q.Types[t]); k >= 0 {
				hints[i].Types = append(hints[i].Types, k)
			}
		}
	}
	return hints
}

// rowsOf joins the blocks of equal rounds.
func rowsOf(m *model.Model, typeOf map[string]int, blocks []greedy.Block) []Row {
	var rows []Row
	for _, b := range blocks {
		t := typeOf[m.Types[m.Classes[b.Class].Type]]
		if n := len(rows); n > 0 && rows[n-1].Round == b.Round {
			r := &rows[n-1]
			if x := slices.IndexFunc(r.Types, func(c TypeCount) bool { return c.Type == t }); x >= 0 {
				r.Types[x].Count += int64(b.Width)
			} else {
				r.Types = append(r.Types, TypeCount{t, int64(b.Width)})
			}
			continue
		}
		rows = append(rows, Row{Round: b.Round, Rounds: b.Rounds, StartUs: b.StartUs, PeriodUs: b.PeriodUs,
			Types: []TypeCount{{t, int64(b.Width)}}})
	}
	return rows
}

// instance is the question as an instance, and the job of the question for each job; below 0 for
// jobs that stand for Question.Held.
func (q *Question) instance(work Work) (*hare.Instance, []int) {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	for t, free := range q.FreeUs {
		for k, group := range groups(free, work.Groups) {
			node := hare.Node{Name: strconv.Itoa(t) + "-" + strconv.Itoa(k),
				GPUs: []hare.TypeCount{{Type: q.Types[t], Count: group.count}}}
			if group.atUs > 0 {
				node.Windows = []hare.Window{{StartUs: group.atUs, EndUs: hare.Forever}}
			}
			inst.Cluster.Nodes = append(inst.Cluster.Nodes, node)
		}
	}
	var index []int
	inSight := make([]int64, len(q.Types)) // GPUs of each type
	for t := range q.FreeUs {
		inSight[t] = int64(len(q.FreeUs[t]))
	}
	inst.Quota = q.Quotas
	for i := range q.Held {
		h := &q.Held[i]
		inSight[h.Type] += int64(h.Count)
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, h.node(q.Types, i))
		inst.Jobs = append(inst.Jobs, h.job(q.Types, i))
		index = append(index, -1)
	}
	for i := range q.Jobs {
		j := &q.Jobs[i]
		widest, all := int64(0), int64(0)
		job := hare.Job{ID: strconv.Itoa(i), WeightMicro: j.WeightMicro, ReleaseUs: j.ReadyUs, Rounds: j.Rounds,
			Tasks: j.Tasks, Sync: j.Sync, Mix: j.Mix, Users: j.Users}
		for _, md := range j.On {
			n := inSight[md.Type]
			if n == 0 {
				continue
			}
			widest, all = max(widest, n), all+n
			job.On = append(job.On, hare.Profile{Type: q.Types[md.Type], ComputeUs: md.DurationUs})
		}
		if j.Rounds <= 0 || widest < j.Tasks && (!j.Mix || all < j.Tasks) {
			continue
		}
		slices.SortFunc(job.On, func(a, b hare.Profile) int {
			if a.Type < b.Type {
				return -1
			}
			return 1
		})
		inst.Jobs = append(inst.Jobs, job)
		index = append(index, i)
	}
	return inst, index
}

// node is a node of the GPUs that are held.
func (he *Held) node(types []string, number int) hare.Node {
	return hare.Node{Name: "held-" + strconv.Itoa(number),
		GPUs: []hare.TypeCount{{Type: types[he.Type], Count: he.Count}}}
}

// job is a job that runs on these GPUs until they are free.
func (he *Held) job(types []string, number int) hare.Job {
	name := "held-" + strconv.Itoa(number)
	j := hare.Job{ID: name, Rounds: 1, Tasks: int64(he.Count), Sync: hare.Rigid, Users: he.Users,
		On:       []hare.Profile{{Type: types[he.Type], ComputeUs: max(1, he.UntilUs)}},
		Progress: &hare.Progress{}}
	for g := range he.Count {
		j.Progress.GPUs = append(j.Progress.GPUs, name+"/"+strconv.Itoa(g))
	}
	return j
}

type group struct {
	atUs  int64
	count int
}

// groups merges the times at which GPUs become free to at most n times beside 0, each
// the latest of those merged.
func groups(free []int64, n int) []group {
	free = slices.Clone(free)
	slices.Sort(free)
	at := 0
	for at < len(free) && free[at] <= 0 {
		at++
	}
	var all []group
	if at > 0 {
		all = append(all, group{0, at})
	}
	busy := free[at:]
	for k := range n {
		from, to := k*len(busy)/n, (k+1)*len(busy)/n
		if from < to {
			all = append(all, group{busy[to-1], to - from})
		}
	}
	return all
}
