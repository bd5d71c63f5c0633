package study

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/sim/elastic"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/trace"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// The nodes that are made from counts of GPUs, as in Pollux's testbed, and the GPU
// type of its tables.
const (
	elasticNodeGPUs = 4
	elasticNodes    = 16
	elasticType     = "T4"
)

// readElastic reads a Pollux workload with the shipped measurements. A table of
// step times in the request replaces the shipped table; placements that are not in
// the request's table are refused then, since the shipped interpolation does not
// apply. others says whether policies of other engines simulate the workload too.
func (rq *request) readElastic(in *jobsInput, p registry.Info, others bool) error {
	at := fmt.Sprintf("/policies/%d", slices.Index(rq.Policies, p.Name))
	format := ""
	if rq.Trace != nil {
		var err error
		if format, err = (*jobsTrace)(rq.Trace).format(); err != nil {
			return err
		}
	}
	if format != "pollux" {
		return invalidAt(at, "not_elastic",
			"%s changes the widths of jobs, and needs a Pollux workload, whose columns "+
				"are name, time, application, num_replicas and batch_size", p.Name)
	}
	text, err := (*jobsTrace)(rq.Trace).source()
	if err != nil {
		return err
	}
	tables, err := trace.ShippedElasticTables()
	if err != nil {
		return err
	}
	if rq.Trace.Table != nil {
		if tables.Steps, err = (*jobsTrace)(rq.Trace).table(""); err != nil {
			return err
		}
		tables.Cells.R = strings.NewReader("application,a,b,c,d\n")
	}
	read, err := trace.ReadElastic(text, tables)
	if err != nil {
		return invalidAt("/trace/text", "bad_trace", "%v", err)
	}
	in.elastic = &elasticInput{}
	if others {
		in.notes = append(in.notes, "elastic policies play the measured epochs of this workload, the others assumed "+
			"sizes: do not compare the two kinds")
	}
	if in.elastic.cluster, err = rq.elasticCluster(); err != nil {
		return err
	}
	for _, j := range read.Jobs {
		a := j.Training
		in.elastic.jobs = append(in.elastic.jobs, elastic.Job{
			ID: j.ID, Kind: a.Application, ArrivalS: j.ArrivalS, Weight: 1, GPUs: j.GPUs, MaxGPUs: j.MaxGPUs,
			Batch: j.Batch, FixedBatch: j.FixedBatch, Epochs: a.Epochs, Training: a,
			Limits: elastic.BatchLimits{Init: a.InitBatch, Max: a.MaxBatch, MinLocal: a.MinLocal, MaxLocal: a.MaxLocal},
		})
	}
	return nil
}

// elasticCluster returns the nodes of the request, which must have one type. Counts
// of GPUs become nodes of four, and without GPUs in the request the cluster is
// Pollux's sixteen nodes.
func (rq *request) elasticCluster() (elastic.Cluster, error) {
	c := elastic.Cluster{GPUType: elasticType}
	add := func(g hare.TypeCount, at string) error {
		if !strings.EqualFold(g.Type, elasticType) && rq.Trace.Table == nil {
			return invalidAt(at, "not_measured", "the step times are of %s, not of %.60q", elasticType, g.Type)
		}
		if len(c.Nodes) > 0 && g.Type != c.GPUType {
			return invalidAt(at, "two_types", "GPUs of elastic jobs are all of one type, here are %.60q and %.60q",
				c.GPUType,
				g.Type)
		}
		c.GPUType = g.Type
		return nil
	}
	switch {
	case rq.Cluster != nil:
		if _, err := clusterCounts(rq.Cluster); err != nil {
			return c, err
		}
		for i := range rq.Cluster.Nodes {
			gpus := 0
			for _, g := range rq.Cluster.Nodes[i].GPUs {
				if err := add(g, fmt.Sprintf("/cluster/nodes/%d", i)); err != nil {
					return c, err
				}
				gpus += g.Count
			}
			c.Nodes = append(c.Nodes, gpus)
		}
	case rq.GPUs != nil:
		for _, g := range rq.GPUs {
			if err := add(g, "/gpus"); err != nil {
				return c, err
			}
			for left := g.Count; left > 0; left -= elasticNodeGPUs {
				c.Nodes = append(c.Nodes, min(left, elasticNodeGPUs))
			}
		}
	default:
		c.Nodes = slices.Repeat([]int{elasticNodeGPUs}, elasticNodes)
	}
	return c, nil
}

// playElastic runs an elastic policy.
func (s *series) playElastic(ctx context.Context, r *simulatedRun, info registry.Info,
	in *elasticInput) (*sim.Metrics, error) {
	with := elastic.Config{Seed: r.run.Seed}
	parameters, err := s.req.parametersOf(info.Name)
	if err != nil {
		return nil, err
	}
	if parameters != nil {
		if with, err = info.ConfigureElastic(with, parameters); err != nil {
			return nil, err
		}
	}
	p, err := info.NewElastic(with)
	if err != nil {
		return nil, err
	}
	// Validate has checked that the times are whole seconds.
	cfg := elastic.RunConfig{IntervalS: s.req.IntervalS, RestartS: s.req.restartUs() / 1e6, First: int(s.req.First),
		Last: int(s.req.Last), Interference: with.Interference}
	if s.cfg.Progress != nil {
		cfg.Progress = func(p sim.LeaseProgress) {
			s.progress(r, p.NowS, int64(p.Done), p.Rounds, false)
		}
	}
	out, err := elastic.Run(ctx, info.Name, in.cluster, in.jobs, p, cfg)
	if err != nil {
		return nil, err
	}
	r.run.Rounds, r.run.Leases = out.Intervals, out.Starts
	return out.Metrics(in.cluster, in.jobs), nil
}

// checkElastic finds faults in the fields that only elastic policies use, and
// fields that these policies do not simulate.
func (rq *request) checkElastic(infos []registry.Info, bad func(pointer, code, format string, a ...any)) {
	if rq.IntervalS < 0 || rq.IntervalS > 1e9 {
		bad("/interval_s", "out_of_range", "the interval of elastic jobs is a whole number of seconds, from 1 to 1e9")
	}
	i := slices.IndexFunc(infos, func(p registry.Info) bool { return p.Engine == registry.Elastic })
	if i < 0 {
		return
	}
	if rq.restartUs()%1e6 != 0 {
		bad("/restart_s", "not_whole", "restarts of elastic jobs take a whole number of seconds")
	}
	rq.disturbances(func(what, at string) {
		bad(at, "not_simulated", "policy %s changes the widths of jobs, and with that %s are not simulated", infos[i].Name,
			what)
	})
}

// disturbances calls found with what disturbs the cluster or its tasks, and where the request says so.
func (rq *request) disturbances(found func(what, at string)) {
	for _, c := range []struct {
		what, at string
		given    bool
	}{
		{"faults", "/faults", len(rq.Faults) > 0},
		{"faults by chance", "/fault_rate", rq.FaultRate != simulatedoc.FaultRate{}},
		{"failing tasks", "/failures", rq.Failures != simulatedoc.Failures{}},
		{"stragglers", "/stragglers", rq.Stragglers},
	} {
		if c.given {
			found(c.what, c.at)
		}
	}
}
