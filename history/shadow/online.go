package shadow

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/online/rolling"
	"github.com/hare-sched/hare/sim"
)

// OnlineConfig are the settings of Hare's policy.
type OnlineConfig struct {
	// Rounds is about how many rounds the tasks of all jobs have together; zero means 200,000. The
	// policy sees that a job goes on only as rounds end, so that fewer rounds are a coarser knowledge
	// and less work.
	Rounds int64
	// LatencyUs is how long after an event a plan is there, as for a helper that decides at
	// intervals; zero means 30 s.
	LatencyUs int64
	// Exact is up to how many jobs the policy gets the users' estimates and classes, by which it learns
	// what is alike, and rounds of their own; beyond, a job is told without them and in few rounds, since
	// a decision would take too long. Zero means 20,000.
	Exact int
	// Plans is about how many plans are made at most; zero means 2,000.
	Plans int64
}

// These are the defaults of OnlineConfig.Rounds and Exact.
const (
	onlineRounds = 200_000
	onlineExact  = 20_000
)

// told is what the policy is told of the jobs: rounds of a length that does not depend on how long a
// job takes, whose number the policy does not learn before the job has ended.
type told struct {
	inst *hare.Instance
	// truth are the times of jobs by type, in the order of inst.Jobs[i].On.
	truth *hare.Instance
}

// roundUs is the length of a round on a job's fastest type: a minute, or longer where the jobs
// would have too many rounds.
func roundUs(inst *hare.Instance, rounds int64) int64 {
	sum := 0.0
	for i := range inst.Jobs {
		sum += float64(fastest(&inst.Jobs[i])) * float64(inst.Jobs[i].Tasks)
	}
	minute := int64(60e6)
	return max(minute, int64(sum/float64(rounds)/60e6)*minute)
}

// fastest is how long a job takes on its fastest type.
func fastest(j *hare.Job) int64 {
	us := j.On[0].DurationUs()
	for _, p := range j.On {
		us = min(us, p.DurationUs())
	}
	return us * j.Rounds
}

// tell makes what the policy is told.
func tell(built *history.Built, rounds int64, hints bool) *told {
	inst := built.Instance
	out, c := *inst, newCluster(inst)
	out.Jobs = slices.Clone(inst.Jobs)
	unit := roundUs(inst, rounds)
	for i := range out.Jobs {
		j := &out.Jobs[i]
		if j.Hints = nil; hints {
			j.Hints = built.Jobs[i].Hints()
		}
		least := fastest(j)
		j.On = slices.Clone(j.On)
		n := (least + unit - 1) / unit
		if j.Mix {
			n = 1 // the rounds of a gang could move between types; its one round is told as its estimate
		}
		if j.Mix && j.Running() {
			j.On, j.Rounds = inst.Jobs[i].On, 1
			continue
		}
		for k := range j.On {
			p := &j.On[k]
			// Rounded down, so that the last round is what is left, and at least a microsecond.
			share := float64(p.DurationUs()) / float64(least)
			p.ComputeUs, p.SyncUs = max(1, int64(float64(unit)*share)), 0
			for n > 1 && (n-1)*p.ComputeUs >= inst.Jobs[i].On[k].DurationUs() {
				p.ComputeUs--
			}
			if j.Mix && j.Hints != nil && j.Hints.EstimateUs > 0 {
				p.ComputeUs = max(1, int64(float64(j.Hints.EstimateUs)*share))
			}
		}
		j.Rounds = n
		if j.Running() { // the rounds before the one that runs are done
			j.Rounds = max(n, j.Progress.ElapsedUs/c.roundOn(j)+1)
		}
	}
	return &told{&out, inst}
}

// roundOn is the length of a round of a job that runs, on the slowest type that it has.
func (c *cluster) roundOn(j *hare.Job) int64 {
	longest := int64(1)
	for _, gpu := range j.Progress.GPUs {
		for k := range j.On {
			if j.On[k].Type == c.types[c.gpu[gpu].kind] {
				longest = max(longest, j.On[k].ComputeUs)
			}
		}
	}
	return longest
}

// times gives the true time of a round: that of the others, and for the last one what is left.
func (t *told) times(job int, round, _ int64, gpuType string) sim.TaskTimes {
	j := &t.inst.Jobs[job]
	for k := range j.On {
		if p := &j.On[k]; p.Type == gpuType {
			if round < j.Rounds-1 {
				return sim.TaskTimes{ComputeUs: p.ComputeUs}
			}
			return sim.TaskTimes{ComputeUs: t.truth.Jobs[job].On[k].DurationUs() - (j.Rounds-1)*p.ComputeUs}
		}
	}
	return sim.TaskTimes{}
}

// playOnline plays the jobs to Hare's policy rolling on a virtual clock.
func playOnline(ctx context.Context, built *history.Built, cfg OnlineConfig,
	progress func(done float64)) (*outcome, error) {
	if cfg.Rounds == 0 {
		cfg.Rounds = onlineRounds
	}
	if cfg.LatencyUs == 0 {
		cfg.LatencyUs = 30e6
	}
	if cfg.Plans == 0 {
		cfg.Plans = 2000
	}
	hints := len(built.Jobs) <= cmp.Or(cfg.Exact, onlineExact)
	if !hints {
		cfg.Rounds = int64(len(built.Jobs)) / 2
	}
	t := tell(built, cfg.Rounds, hints)
	span := int64(0)
	for i := range built.Happened.Jobs {
		span = max(span, built.Happened.Jobs[i].EndUs)
	}
	every := max(cfg.LatencyUs, span/cfg.Plans, 1)
	info, ok := policies.Find("rolling")
	if !ok {
		return nil, errors.New("shadow: there is no policy rolling")
	}
	// A plan that has not seen the last changes sends new jobs, which cannot move later, to slow types that
	// happen to be free. From twice the latency on hgittins decides, which is better at that.
	plan := rolling.Config{Aside: true, PlanEveryUs: every, MaxAgeUs: max(60e6, 2*cfg.LatencyUs)}
	if cfg.LatencyUs < 0 {
		plan = rolling.Config{}
	}
	p, err := info.New(ctx, t.inst, policies.Config{Rolling: plan})
	if err != nil {
		return nil, err
	}
	return play(ctx, t.inst, p, sim.Config{Name: "rolling", NoSchedule: true, Times: t.times,
		PlanLatencyUs: max(0, cfg.LatencyUs)}, hare.EventJobEnded, progress)
}
