package study

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/sim/sharing"
	"github.com/hare-sched/hare/sim/sharing/antman"
)

// antmanLabel is the label of a job's class that says whether the job is guaranteed or opportunistic.
const antmanLabel = "antman"

// readShared reads the jobs that policies of tasks play, as gangs.
func (rq *request) readShared(in *jobsInput, p registry.Info) error {
	s, inst := &sharedInput{}, in.tasks
	var err error
	if s.counts, err = clusterCounts(&inst.Cluster); err != nil {
		return err
	}
	s.memory = make([]float64, len(s.counts))
	for k, c := range s.counts {
		s.memory[k] = float64(inst.Cluster.GPUMemoryMilliGiB(c.Type)) / 1e3
	}
	for _, n := range inst.Cluster.Nodes {
		for _, g := range n.GPUs {
			s.nodes = append(s.nodes, antman.Node{Type: s.typeOf(g.Type), GPUs: g.Count})
		}
	}
	order := make([]int, len(inst.Jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(inst.Jobs[a].ReleaseUs, inst.Jobs[b].ReleaseUs)
	})
	for _, i := range order {
		if err := s.add(&inst.Jobs[i], fmt.Sprintf("/instance/jobs/%d", i)); err != nil {
			return err
		}
	}
	in.shared = s
	in.notes = append(in.notes, p.Name+": jobs share GPUs, which is outside of the model, so that no bound holds")
	return nil
}

func (s *sharedInput) typeOf(name string) int {
	return slices.IndexFunc(s.counts, func(c hare.TypeCount) bool { return c.Type == name })
}

// add adds a job. A gang of K tasks and R rounds takes R · (compute + sync) alone, and relaxed jobs run as gangs.
func (s *sharedInput) add(j *hare.Job, at string) error {
	if j.WeightMicro == 0 {
		return invalidAt(at+"/weight", "no_weight", "job %.60q weighs nothing: give it a weight", j.ID)
	}
	job := antman.Job{ID: j.ID, ArrivalS: float64(j.ReleaseUs) / 1e6, GPUs: int(min(j.Tasks, math.MaxInt32)),
		WorkByType: make([]float64, len(s.counts))}
	wide := false
	for _, p := range j.On {
		if k := s.typeOf(p.Type); k >= 0 && s.counts[k].Count >= job.GPUs {
			job.WorkByType[k] = float64(j.Rounds) * float64(p.DurationUs()) / 1e6
			wide = true
		}
	}
	if !wide {
		return invalidAt("", "no_gpu", "job %.60q needs %d GPUs of one type among %s, and gangs that share GPUs are on "+
			"one type: this cluster does not have them", j.ID, j.Tasks, typeNames(j))
	}
	kind := sharing.Unsaid
	if j.Hints != nil {
		for _, l := range j.Hints.Class {
			if l.Name != antmanLabel {
				continue
			}
			if kind = sharing.Kind(l.Value); kind != sharing.Guaranteed && kind != sharing.Opportunistic {
				return invalidAt(at+"/class/"+antmanLabel, "unknown_value", "the class of job %.60q has %s=%.60q: it is %s "+
					"or %s", j.ID, antmanLabel, l.Value, sharing.Guaranteed, sharing.Opportunistic)
			}
		}
	}
	s.jobs, s.kinds, s.weights = append(s.jobs, job), append(s.kinds, kind), append(s.weights,
		float64(j.WeightMicro)/1e6)
	return nil
}

// playShared runs a policy that lets jobs share GPUs.
func (s *series) playShared(ctx context.Context, r *simulatedRun, info registry.Info,
	in *sharedInput) (*sim.Metrics, error) {
	with := sharing.Default(r.run.Seed)
	parameters, err := s.req.parametersOf(info.Name)
	if err != nil {
		return nil, err
	}
	if parameters != nil {
		if with, err = info.ConfigureShared(with, parameters); err != nil {
			return nil, err
		}
	}
	memory, least := make([]float64, len(in.counts)), math.Inf(1)
	for k := range memory {
		memory[k] = cmp.Or(in.memory[k], with.GPUMemory)
		least = min(least, memory[k])
	}
	cluster := antman.Cluster{Unlike: slices.Clone(in.nodes)}
	for i := range cluster.Unlike {
		cluster.Unlike[i].MemoryGiB = memory[cluster.Unlike[i].Type]
	}
	jobs := slices.Clone(in.jobs)
	with.Draw(jobs, in.kinds, least)
	out, err := antman.Run(ctx, cluster, jobs, with.AntMan)
	if err != nil {
		return nil, err
	}
	times := make([]sim.JobTimes, len(jobs))
	for i, rec := range out.Records {
		alone, work := math.Inf(1), math.Inf(1)
		for _, seconds := range jobs[i].WorkByType {
			if seconds > 0 {
				alone, work = min(alone, seconds), min(work, seconds*float64(jobs[i].GPUs))
			}
		}
		times[i] = sim.JobTimes{ID: rec.ID, Weight: in.weights[i], ArrivalS: rec.ArrivalS, StartS: rec.StartS,
			EndS: rec.EndS, AloneS: alone, WorkS: work,
			Counts: s.req.Last == 0 || i >= int(s.req.First) && i <= int(s.req.Last)}
	}
	m := sim.NewMetrics(times, out.HeldS, in.counts)
	m.Switches = out.Switches
	return m, nil
}

// sharedNote says which jobs are opportunistic in the first run, and what was drawn.
func (s *series) sharedNote(in *jobsInput) []string {
	i := slices.IndexFunc(s.infos, func(p registry.Info) bool { return p.Engine == registry.Shared })
	if i < 0 || in.shared == nil {
		return nil
	}
	with := sharing.Default(uint64(s.req.Seed))
	if parameters, err := s.req.parametersOf(s.infos[i].Name); err == nil && parameters != nil {
		if with, err = s.infos[i].ConfigureShared(with, parameters); err != nil {
			return nil
		}
	}
	said := 0
	for _, k := range in.shared.kinds {
		if k != sharing.Unsaid {
			said++
		}
	}
	return []string{fmt.Sprintf("%s: %d of %d jobs are opportunistic with the first seed; the class says so of %d, and "+
		"the others are drawn, as are busy times from %v to %v and memory from %v to %v GiB of a GPU", s.infos[i].Name,
		with.Draw(slices.Clone(in.shared.jobs), in.shared.kinds, math.Inf(1)), len(in.shared.jobs), said, with.BusyLeast,
		with.BusyMost, with.MemoryLeast, with.MemoryMost)}
}

// checkShared finds fields that the engine of shared GPUs does not simulate.
func (rq *request) checkShared(infos []registry.Info, bad func(pointer, code, format string, a ...any)) {
	i := slices.IndexFunc(infos, func(p registry.Info) bool { return p.Engine == registry.Shared })
	if i < 0 {
		return
	}
	rq.disturbances(func(what, at string) {
		bad(at, "not_simulated", "policy %s lets jobs share GPUs, and with that %s are not simulated", infos[i].Name,
			what)
	})
}
