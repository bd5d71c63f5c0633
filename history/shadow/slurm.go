package shadow

import (
	"cmp"
	"context"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
)

// SlurmConfig are the settings of the simulated Slurm.
type SlurmConfig struct {
	// BackfillUs is how often backfill runs (bf_interval), in microseconds; zero means 30 s.
	BackfillUs int64
	// Depth is how many waiting jobs one run of backfill tests (bf_max_job_test); zero means 500.
	Depth int
	// AnyType lets jobs that named no GPU type run on every type that they may use, as Slurm does.
	// Otherwise each job keeps to the types on which it ran, so that no speed is assumed.
	AnyType bool
}

// noLimit stands for the limit of a job that has none: a year, as Slurm plans with.
const noLimit = 365 * 86400 * int64(1e6)

// playSlurm plays the jobs to the policy slurm on a virtual clock: first come, first served, by partitions and time
// limits. Jobs take as long as they took in truth.
func playSlurm(ctx context.Context, inst *hare.Instance, jobs []*history.Job, sc SlurmConfig,
	progress func(done float64)) (*outcome, error) {
	inst, order := bySubmission(inst, jobs)
	cfg := policies.SlurmConfig{Age: 1, MaxAgeUs: hare.MaxExact, BackfillUs: sc.BackfillUs, Depth: sc.Depth, Defer: true,
		Partitions: map[string]string{}, LimitsUs: map[string]int64{}}
	for x, i := range order {
		id := inst.Jobs[x].ID
		cfg.Partitions[id], cfg.LimitsUs[id] = jobs[i].Partition, cmp.Or(jobs[i].LimitUs, noLimit)
	}
	p := policies.NewSlurm(&inst.Cluster, policies.SizesOf(inst), cfg)
	played, err := play(ctx, inst, p, sim.Config{Name: "slurm", NoSchedule: true}, hare.EventJobArrived, progress)
	if err != nil {
		return nil, err
	}
	o := newOutcome(len(order))
	o.lost = played.lost
	for x, i := range order {
		o.startUs[i], o.endUs[i], o.gpus[i] = played.startUs[x], played.endUs[x], played.gpus[x]
	}
	return o, nil
}

// bySubmission is an instance with its jobs by release and submission, and their indices before.
func bySubmission(inst *hare.Instance, jobs []*history.Job) (*hare.Instance, []int) {
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(inst.Jobs[a].ReleaseUs, inst.Jobs[b].ReleaseUs),
			cmp.Compare(jobs[a].SubmitUs, jobs[b].SubmitUs))
	})
	out := *inst
	out.Jobs = make([]hare.Job, len(order))
	for x, i := range order {
		out.Jobs[x] = inst.Jobs[i]
	}
	return &out, order
}
