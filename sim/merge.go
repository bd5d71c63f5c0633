package sim

import (
	"context"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/online"
)

// Merged is an instance with its rounds merged, so that long jobs can be
// simulated: time and memory do not depend on how many rounds jobs have.
type Merged struct {
	// Inst is the merged instance; a policy is made with Inst or Cluster(Inst).
	Inst *hare.Instance
	orig *hare.Instance
	// runs is, by job, the number of rounds in a merged round, last the number in the last
	// merged round.
	runs, last []int64
	// first is, by job, the round with which merged round 0 begins, which is below 0 where that
	// only ends with the round that runs at time 0; nil where all are 0.
	first []int64
	kinds map[string]string // see gpuTypes
}

// Merge merges all rounds of a rigid job into one: the rounds follow each other back to
// back anyway, so that the simulation is the same unless a round is lost, which is then
// the whole job. Of a gang job it merges as many rounds as take quantumUs on the job's
// fastest type, at least one, or somewhat fewer so that merged rounds are even; the last
// merged round has the rest. Two things become approximate: policies that preempt do so
// at merged barriers alone, and policies that know sizes count the last merged round as
// a whole one. Relaxed jobs are not merged, because their tasks may change place inside
// a round. quantumUs zero means 60 s. inst must be valid. The cost is O(jobs).
func Merge(inst *hare.Instance, quantumUs int64) *Merged {
	if quantumUs == 0 {
		quantumUs = 60e6
	}
	m := &Merged{orig: inst, runs: make([]int64, len(inst.Jobs)), last: make([]int64, len(inst.Jobs))}
	merged := *inst
	merged.Jobs = make([]hare.Job, len(inst.Jobs))
	for i, j := range inst.Jobs {
		n, left := int64(1), j.Rounds-j.FirstRound()
		fastest, slowest := int64(hare.MaxExact), int64(1)
		for _, p := range j.On {
			fastest, slowest = min(fastest, p.DurationUs()), max(slowest, p.DurationUs())
		}
		switch j.Sync {
		case hare.Gang:
			n = max(1, min(quantumUs/fastest, left))
		case hare.Rigid:
			n = left
		}
		n = max(1, min(n, hare.MaxExact/slowest)) // times stay exact
		rounds := (left + n - 1) / n
		n = (left + rounds - 1) / rounds // as even as can be
		if j.Progress != nil {
			left = m.mergeProgress(i, &j, n, left)
			rounds = (left + n - 1) / n
		}
		m.runs[i], m.last[i] = n, left-(rounds-1)*n
		on := make([]hare.Profile, len(j.On))
		for k, p := range j.On {
			on[k] = hare.Profile{Type: p.Type, ComputeUs: n * p.ComputeUs, SyncUs: n * p.SyncUs}
			for _, s := range p.SyncAt {
				on[k].SyncAt = append(on[k].SyncAt, hare.LevelSync{Level: s.Level, SyncUs: n * s.SyncUs})
			}
		}
		j.Rounds, j.On = rounds, on
		merged.Jobs[i] = j
	}
	m.Inst = &merged
	return m
}

// mergeProgress merges the progress of a job with merged rounds of n, of which so many rounds are
// left, and returns how many rounds the merged ones have in all. The merged round that runs at time
// 0 ends with the round that runs then.
func (mg *Merged) mergeProgress(job int, j *hare.Job, n, left int64) int64 {
	if mg.first == nil {
		mg.first = make([]int64, len(mg.orig.Jobs))
	}
	mg.first[job] = j.FirstRound()
	if !j.Running() {
		j.Progress = nil
		return left
	}
	p := &hare.Progress{GPUs: j.Progress.GPUs, ElapsedUs: j.Progress.ElapsedUs}
	j.Progress = p
	if j.Sync == hare.Rigid {
		return left
	}
	if mg.kinds == nil {
		mg.kinds = gpuTypes(mg.orig)
	}
	if spreads(j) { // E is for the spread of the GPUs
		p.ElapsedUs += (n - 1) * (model.RunningUntilUs(mg.orig, job) + p.ElapsedUs)
	} else {
		longest := int64(0)
		for _, gpu := range p.GPUs {
			longest = max(longest, durationOn(j, mg.kinds[gpu]))
		}
		p.ElapsedUs += (n - 1) * longest
	}
	mg.first[job] -= n - 1
	return left + n - 1
}

// Run runs m.Inst and returns an outcome whose schedule is of the original instance, with
// runs of rounds as lane entries. Tasks, losses and preemptions count merged rounds. cfg
// applies to merged rounds too: a merged round that fails is lost as a whole, and
// Network.Bytes counts the bytes of all rounds of a merged one.
func (mg *Merged) Run(ctx context.Context, policy online.Policy, cfg Config) (*Outcome, error) {
	cfg.runs, cfg.lastRuns = mg.runs, mg.last
	o, err := Run(ctx, mg.Inst, policy, cfg)
	if err == nil && o.Schedule != nil {
		o.Schedule = mg.expand(o.Schedule)
	}
	return o, err
}

// expand writes merged rounds as runs of rounds. O(merged rounds) at worst,
// O(entries) where they follow each other.
func (mg *Merged) expand(s *hare.Schedule) *hare.Schedule {
	kinds := gpuTypes(mg.orig)
	slow := mg.roundSpreads(s, kinds, mg.mixedRounds(s, kinds))
	out := &hare.Schedule{Jobs: s.Jobs}
	_, placed := mg.orig.Placed()
	for i := range s.Lanes {
		from := &s.Lanes[i]
		l := lane{}
		for x := range from.Job {
			e := from.Entry(x)
			l.cut = placed // so that the entries of a task stay equal
			j, n, first := &mg.orig.Jobs[e.Job], mg.runs[e.Job], int64(0)
			if mg.first != nil {
				first = mg.first[e.Job]
			}
			if n == 1 {
				e.Round += first
				l.extend(e)
				continue
			}
			d := durationOn(j, kinds[from.GPU])
			last := e.Round+e.Rounds == mg.Inst.Jobs[e.Job].Rounds
			if slow == nil && (e.Rounds == 1 || e.PeriodUs == n*d) { // back to back
				rounds := e.Rounds * n
				if last {
					rounds += mg.last[e.Job] - n
				}
				l.extend(hare.Entry{Job: e.Job, Round: first + e.Round*n, Rounds: rounds, Tasks: 1, PeriodUs: d,
					StartUs: e.StartUs})
				continue
			}
			for r := range e.Rounds {
				rounds := n
				if last && r == e.Rounds-1 {
					rounds = mg.last[e.Job]
				}
				period, waits := slow[jobRound{e.Job, e.Round + r}]
				if !waits {
					period = d
				}
				l.extend(hare.Entry{Job: e.Job, Round: first + (e.Round+r)*n, Rounds: rounds, Tasks: 1, PeriodUs: period,
					StartUs: e.StartUs + r*e.PeriodUs})
			}
		}
		out.Lanes = append(out.Lanes, l.columns(from.GPU))
	}
	return out
}

type jobRound struct {
	job   int32
	round int64
}

// mixedRounds returns, for the merged rounds of jobs that mix types, the longest time of a
// task, for which all tasks of the round wait. The map is nil where no job mixes types.
func (mg *Merged) mixedRounds(s *hare.Schedule, kinds map[string]string) map[jobRound]int64 {
	var slow map[jobRound]int64
	for i := range s.Lanes {
		l := &s.Lanes[i]
		for x := range l.Job {
			e := l.Entry(x)
			j := &mg.orig.Jobs[e.Job]
			if !j.Mix || mg.runs[e.Job] == 1 {
				continue
			}
			if slow == nil {
				slow = map[jobRound]int64{}
			}
			d := durationOn(j, kinds[l.GPU])
			for r := range e.Rounds {
				at := jobRound{e.Job, e.Round + r}
				slow[at] = max(slow[at], d)
			}
		}
	}
	return slow
}

// gpuTypes maps the names of GPUs to their types.
func gpuTypes(inst *hare.Instance) map[string]string {
	m := model.New(inst)
	kinds := make(map[string]string, len(m.GPUs))
	for _, g := range m.GPUs {
		kinds[g.ID] = m.Types[g.Type]
	}
	return kinds
}

func durationOn(j *hare.Job, kind string) int64 {
	for _, p := range j.On {
		if p.Type == kind {
			return p.DurationUs()
		}
	}
	return 0
}

// roundSpreads finds, for the merged rounds of jobs whose times go by the spread, the longest time of a
// task, for which all tasks of the round wait.
func (mg *Merged) roundSpreads(s *hare.Schedule, kinds map[string]string,
	slow map[jobRound]int64) map[jobRound]int64 {
	var compiled *model.Model
	var nodeOf map[string]int
	type spreadRound struct {
		first, spread int
		gpus          []string
	}
	rounds := map[jobRound]*spreadRound{}
	for i := range s.Lanes {
		l := &s.Lanes[i]
		for x := range l.Job {
			e := l.Entry(x)
			j := &mg.orig.Jobs[e.Job]
			if mg.runs[e.Job] == 1 || !spreads(j) {
				continue
			}
			if compiled == nil {
				compiled, nodeOf = model.New(mg.orig), map[string]int{}
				for _, g := range compiled.GPUs {
					nodeOf[g.ID] = g.Node
				}
			}
			n := nodeOf[l.GPU]
			for r := range e.Rounds {
				at := jobRound{e.Job, e.Round + r}
				x := rounds[at]
				if x == nil {
					x = &spreadRound{first: n}
					rounds[at] = x
				}
				x.spread = compiled.Levels.Join(x.spread, x.first, n)
				x.gpus = append(x.gpus, l.GPU)
			}
		}
	}
	for at, x := range rounds {
		if slow == nil {
			slow = map[jobRound]int64{}
		}
		slow[at] = 0
		for _, gpu := range x.gpus {
			slow[at] = max(slow[at], durationOf(&mg.orig.Jobs[at.job], kinds[gpu], compiled.Levels, x.spread))
		}
	}
	return slow
}

// spreads reports whether some time of a job goes by the spread of a round.
func spreads(j *hare.Job) bool {
	for i := range j.On {
		if j.On[i].SyncAt != nil {
			return true
		}
	}
	return false
}

// durationOf is the time of a round of a job on a type that is spread over a level.
func durationOf(j *hare.Job, kind string, lv *hare.Levels, spread int) int64 {
	for i := range j.On {
		if p := &j.On[i]; p.Type == kind {
			return p.ComputeUs + lv.SyncUs(p, spread)
		}
	}
	return 0
}
