package study

import (
	"cmp"
	"fmt"
	"slices"

	"context"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/sim/leases"

	registry "github.com/hare-sched/hare/sim/policies"
)

// lease converts an instance to the input of policies that lease GPUs. A job of K
// tasks and R rounds becomes a job of R·K steps on K GPUs, each of which does one
// step a round: the gang makes K/(compute + sync) steps a second, and a lease
// consists of whole rounds. A job does not use a type on which a round takes longer
// than usableS, the part of a lease in which the job computes. Instances with
// windows of service or busy GPUs are refused.
func (in *jobsInput) lease(inst *hare.Instance, usableS float64) error {
	counts, err := clusterCounts(&inst.Cluster)
	if err != nil {
		return err
	}
	l := &leaseInput{nodes: &inst.Cluster}
	for _, c := range counts {
		l.cluster.Types, l.cluster.GPUs = append(l.cluster.Types, c.Type), append(l.cluster.GPUs, c.Count)
	}
	var kinds [3]int
	long := 0 // number of profiles that are left out
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		kinds[j.Sync]++
		if j.WeightMicro == 0 {
			return invalidAt("", "no_weight",
				"job %.60q weighs nothing, and leases are shared by weight: give it one", j.ID)
		}
		job := leases.Job{ID: j.ID, ArrivalS: float64(j.ReleaseUs) / 1e6, Weight: float64(j.WeightMicro) / 1e6,
			Steps: j.Rounds * j.Tasks, Rounds: true, Rate: make([]float64, len(counts))}
		if job.Steps/j.Tasks != j.Rounds || job.Steps > hare.MaxExact || j.Tasks > hare.MaxGPUs {
			return invalidAt("", "out_of_range",
				"job %.60q has too many tasks for leases: at most 2^53 in all and %d a round",
				j.ID, hare.MaxGPUs)
		}
		job.GPUs = int(j.Tasks)
		wide, usable := false, false
		for _, p := range j.On {
			k, ok := slices.BinarySearch(l.cluster.Types, p.Type)
			if !ok || l.cluster.GPUs[k] < job.GPUs {
				continue
			}
			wide = true
			round := float64(p.DurationUs()) / 1e6
			if round > usableS {
				long++
				continue
			}
			usable = true
			job.Rate[k] = float64(j.Tasks) / round
		}
		switch {
		case !wide:
			return invalidAt("", "no_gpu",
				"job %.60q needs %d GPUs of one type among %s, and leases are of one type: this "+
					"cluster does not have them", j.ID, j.Tasks, typeNames(j))
		case !usable:
			return invalidAt("/lease_s", "long_round",
				"a round of job %.60q does not fit into a lease of %g s on any type: "+
					"make leases longer, or rounds shorter", j.ID, usableS)
		}
		l.jobs = append(l.jobs, job)
	}
	slices.SortStableFunc(l.jobs, func(a, b leases.Job) int { return cmp.Compare(a.ArrivalS, b.ArrivalS) })
	for _, n := range []struct {
		jobs int
		note string
	}{
		{kinds[hare.Relaxed], "leases: %d relaxed jobs run as gangs, which hold a GPU for each task of a round " +
			"while it " +
			"synchronises too"},
		{kinds[hare.Rigid], "leases: %d rigid jobs may stop, and go on elsewhere, between two leases"},
		{long, "leases: %d times a job does not use a type of GPU, since a round takes longer there than a lease"},
	} {
		if n.jobs > 0 {
			in.notes = append(in.notes, fmt.Sprintf(n.note, n.jobs))
		}
	}
	in.leases = l
	return nil
}

// BuiltInLP is the name of the LP engine that is used where HiGHS does not run.
const BuiltInLP = "built-in simplex"

// playLeases runs a policy that leases GPUs.
func (s *series) playLeases(ctx context.Context, r *simulatedRun, info registry.Info,
	in *leaseInput) (*sim.Metrics, error) {
	cfg := leases.RunConfig{LeaseS: seconds(s.req.leaseUs()), ResetS: seconds(s.req.resetUs()),
		RestartS: seconds(s.req.restartUs()), Seed: r.run.Seed, First: int(s.req.First), Last: int(s.req.Last)}
	if cfg.ResetS == 0 {
		cfg.ResetS = -1
	}
	if err := s.req.disturbLeases(&cfg, in.nodes); err != nil {
		return nil, err
	}
	if info.Needs.PairRates {
		cfg.PairRates = func(a, b *leases.Job, k int) (float64, float64) {
			return in.rated.PairRates(a.Kind, b.Kind, a.GPUs, k)
		}
	}
	if s.cfg.Progress != nil {
		cfg.Progress = func(p sim.LeaseProgress) {
			s.progress(r, p.NowS, int64(p.Done), p.Rounds, false)
		}
	}
	with := leases.Config{Seed: r.run.Seed, Prices: s.req.priceByType()}
	parameters, err := s.req.parametersOf(info.Name)
	if err != nil {
		return nil, err
	}
	if parameters != nil {
		if with, err = info.Configure(with, parameters); err != nil {
			return nil, err
		}
		cfg.Fork = leases.Fork{MergeS: with.HadarE.MergeShare * cfg.LeaseS, Efficiency: with.HadarE.Efficiency}
	}
	lp := registry.Programs{Primary: s.cfg.Solver.LP}
	if info.Needs.LP {
		r.run.LP = BuiltInLP
		if lp.Primary != nil {
			with.Solver = &lp
			r.run.LP = "HiGHS " + s.cfg.Solver.EngineVersion
		}
	}
	out, err := leases.Run(ctx, info.Name, in.cluster, in.jobs, info.New(with), cfg)
	if err != nil {
		return nil, err
	}
	if lp.Fallbacks > 0 {
		r.run.LP = BuiltInLP
	}
	r.run.Rounds, r.run.Leases = out.Rounds, out.Leases
	return out.Metrics(in.cluster, in.jobs), nil
}
