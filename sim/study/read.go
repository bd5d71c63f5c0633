package study

import (
	"fmt"
	"slices"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/words"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/sim/leases"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/trace"
)

// input reads or generates the jobs of a repeat.
func (rq *request) input(infos []registry.Info, repeat int) (*jobsInput, error) {
	shared := slices.IndexFunc(infos, func(p registry.Info) bool { return p.Engine == registry.Shared })
	tasks := shared >= 0 || slices.ContainsFunc(infos, func(p registry.Info) bool { return p.Engine == registry.Task })
	leases := slices.ContainsFunc(infos, func(p registry.Info) bool { return p.Engine == registry.Lease })
	in := &jobsInput{}
	var err error
	if i := slices.IndexFunc(infos, func(p registry.Info) bool { return p.Engine == registry.Elastic }); i >= 0 {
		if err := rq.readElastic(in, infos[i], tasks || leases); err != nil {
			return nil, err
		}
	}
	switch {
	case !tasks && !leases:
	case rq.Trace != nil:
		err = rq.readTrace(in, tasks, leases)
	default:
		inst := rq.Instance
		if rq.Generate != nil {
			g := rq.Generate
			cfg := trace.GenerateConfig{Jobs: int(g.Jobs), GPUs: rq.GPUs, Arrivals: g.Arrivals, Sync: g.Sync,
				Seed: uint64(rq.Seed) + uint64(repeat), GrainUs: g.GrainUs}
			if inst, err = trace.Generate(cfg); err != nil {
				return nil, invalidAt("/generate", "invalid", "%v", err)
			}
		}
		if inst, err = rq.onCluster(inst); err == nil {
			if in.tasks = inst; rq.MergeUs > 0 && tasks {
				in.merged = sim.Merge(inst, rq.MergeUs)
				in.notes = append(in.notes,
					fmt.Sprintf("tasks: rounds of gangs are merged up to %v on their fastest type, all "+
						"of rigid jobs; policies stop gangs between merged rounds alone", micros(rq.MergeUs)))
			}
			if leases {
				err = in.lease(inst, seconds(rq.workUs()))
			}
		}
	}
	if err != nil {
		return nil, err
	}
	if err := rq.checkInput(in, infos); err != nil || shared < 0 {
		return in, err
	}
	return in, rq.readShared(in, infos[shared])
}

// checkInput finds faults of the jobs that the request's policies cannot use.
func (rq *request) checkInput(in *jobsInput, infos []registry.Info) error {
	n := in.jobs()
	if in.tasks != nil {
		if err := checkFits(in.tasks); err != nil {
			return err
		}
	}
	if n == 0 {
		return invalidAt("", "no_jobs", "there are no jobs to simulate")
	}
	if int(rq.Last) >= n {
		return invalidAt("/jobs", "out_of_range",
			"jobs %d to %d are asked for: the trace has %s, numbered from 0",
			rq.First, rq.Last, words.Count(n, "job"))
	}
	for _, p := range infos {
		at := fmt.Sprintf("/policies/%d", slices.Index(rq.Policies, p.Name))
		if p.Needs.PairRates && (in.leases.rated == nil || !in.leases.rated.HasPairs()) {
			return invalidAt(at, "no_pair_rates",
				"%s needs the rates of jobs that share GPUs: give a trace in Gavel's terms, and leave the table "+
					"out or give one with other_job_type and other_steps_per_second", p.Name)
		}
		if in.leases != nil {
			if lack := p.Needs.Lacks(in.leases.jobs); lack != "" {
				return invalidAt(at, "lacking", "%s needs %s", p.Name, lack)
			}
		}
		if p.Needs.Prices {
			if err := leases.CheckPrices(in.leases.cluster.Types, rq.priceByType()); err != nil {
				if rq.Prices != nil {
					at = "/prices"
				}
				return invalidAt(at, "no_price", "%s: %v", p.Name, err)
			}
		}
		if p.Needs.OneGPU {
			for _, j := range in.leases.jobs {
				if j.GPUs > 1 {
					return invalidAt(at, "wide_job", "%s places jobs of one GPU, and job %.60q of the trace needs %d",
						p.Name, j.ID,
						j.GPUs)
				}
			}
		}
	}
	return nil
}

// onCluster returns the instance with the request's GPUs in place of its own, where
// the request names GPUs.
func (rq *request) onCluster(inst *hare.Instance) (*hare.Instance, error) {
	if rq.Cluster == nil && (rq.GPUs == nil || rq.Generate != nil) {
		return inst, nil
	}
	moved := *inst
	if rq.Cluster != nil {
		moved.Cluster = *rq.Cluster
	} else {
		moved.Cluster = nodesOf(rq.GPUs)
	}
	if err := moved.ValidateLong(); err != nil {
		return nil, err
	}
	return &moved, nil
}

// counts returns the request's GPUs by type, or nil where the request names none.
func (rq *request) counts() ([]hare.TypeCount, error) {
	if rq.Cluster == nil {
		return rq.GPUs, nil
	}
	return clusterCounts(rq.Cluster)
}

// readTrace reads the trace into the form of each engine that is needed.
func (rq *request) readTrace(in *jobsInput, tasks, leases bool) error {
	t := (*jobsTrace)(rq.Trace)
	format, err := t.format()
	if err != nil {
		return err
	}
	if t.Table == nil && format == "philly" && t.TableName != "" {
		return invalidAt("/trace/table", "no_table", "a philly trace has no table")
	}
	rates := format == "gavel" || format == "shockwave"
	if leases && rates {
		if err := rq.readRated(in, format); err != nil {
			return err
		}
		if !tasks {
			return nil
		}
	}
	inst, err := rq.importTrace(in, format, t.Sync, micros(t.QuantumUs))
	if err != nil {
		return err
	}
	quantum := micros(t.QuantumUs)
	if n := tasksOf(inst, hare.MaxExact); tasks && quantum == 0 && t.Sync != "rigid" && n > defaultTasks {
		quantum = time.Duration(1+(n-1)/defaultTasks) * time.Minute
		in.notes = nil
		if inst, err = rq.importTrace(in, format, t.Sync, quantum); err != nil {
			return err
		}
		in.notes = append(in.notes, fmt.Sprintf(
			"tasks: rounds of %s, as rounds of a minute come to %d tasks; a quantum "+
				"chooses", quantum, n))
	}
	if tasks {
		in.tasks = inst
	}
	if leases && !rates {
		if t.Sync == "rigid" || quantum != micros(t.QuantumUs) { // leases need gangs whose rounds fit into a lease
			if inst, err = rq.importTrace(&jobsInput{}, format, "gang", micros(t.QuantumUs)); err != nil {
				return err
			}
		}
		return in.lease(inst, seconds(rq.workUs()))
	}
	return nil
}

// defaultTasks is the number of tasks from which on the rounds of a trace are made
// longer than a minute, where the request does not set their length.
const defaultTasks = 10_000_000

// defaultRated holds the default cluster of each format with step rates, as in
// package trace.
var defaultRated = map[string][]hare.TypeCount{
	"gavel":     {{Type: "V100", Count: 36}, {Type: "P100", Count: 36}, {Type: "K80", Count: 36}},
	"shockwave": {{Type: "V100", Count: 12}, {Type: "P100", Count: 12}, {Type: "K80", Count: 12}},
}

// readRated reads a trace with step rates for leases, without merging steps into
// rounds.
func (rq *request) readRated(in *jobsInput, format string) error {
	text, err := (*jobsTrace)(rq.Trace).source()
	if err != nil {
		return err
	}
	table, err := (*jobsTrace)(rq.Trace).table("gavel_throughputs_colocated.csv")
	if err != nil {
		return err
	}
	gpus, err := rq.counts()
	if err != nil {
		return err
	}
	if gpus == nil {
		gpus = defaultRated[format]
	}
	rated, err := trace.ReadRated(text, table, gpus)
	if err != nil {
		return invalidAt("/trace/text", "bad_trace", "%v", err)
	}
	in.leases = &leaseInput{cluster: leases.Cluster{Types: rated.Types, GPUs: rated.GPUs}, rated: rated,
		nodes: rq.Cluster}
	if rq.Cluster == nil {
		nodes := nodesOf(gpus)
		in.leases.nodes = &nodes
	}
	for _, j := range rated.Jobs {
		in.leases.jobs = append(in.leases.jobs,
			leases.Job{ID: j.ID, ArrivalS: j.ArrivalS, Weight: j.Weight, GPUs: j.GPUs,
				Steps: j.Steps, Rate: j.Rate, Kind: j.Kind, SLO: j.SLO, Entity: (*leases.Entity)(j.Entity)})
	}
	return nil
}

// importTrace converts the trace to an instance on the request's cluster.
func (rq *request) importTrace(in *jobsInput, format, sync string, quantum time.Duration) (*hare.Instance, error) {
	t := (*jobsTrace)(rq.Trace)
	text, err := t.source()
	if err != nil {
		return nil, err
	}
	if sync == "" {
		sync = "gang"
	}
	cfg := trace.ImportConfig{Trace: text,
		Config: trace.Config{GPUs: rq.GPUs, Sync: sync, Quantum: quantum, Long: true}}
	if rq.Cluster != nil {
		always := *rq.Cluster // the cluster with all GPUs always in service
		always.Nodes = slices.Clone(always.Nodes)
		for i := range always.Nodes {
			always.Nodes[i].Windows, always.Nodes[i].Busy = nil, nil
		}
		if cfg.GPUs, err = clusterCounts(&always); err != nil {
			return nil, err
		}
	}
	if t.Table != nil || t.TableName != "" {
		if cfg.Table, err = t.table(""); err != nil {
			return nil, err
		}
	}
	inst, rep, err := trace.Import(format, cfg)
	if err != nil {
		return nil, invalidAt("/trace/text", "bad_trace", "%v", err)
	}
	in.notes = append(in.notes, importNotes(rep)...)
	if rq.Cluster != nil {
		inst.Cluster = *rq.Cluster
	}
	return inst, nil
}

// importNotes are what a reader left out or added.
func importNotes(rep *trace.Report) []string {
	var notes []string
	for _, s := range rep.Skipped {
		notes = append(notes, fmt.Sprintf("%d rows give no job (%s; the first is %s)", s.Rows, s.Reason, s.First))
	}
	if rep.RoundsRoundedUp > 0 {
		notes = append(notes, fmt.Sprintf("tasks: steps are merged into rounds, of which the last of %d jobs counts "+
			"whole: %.3f %% more steps in all, at most %.1f %% more of a job",
			rep.RoundsRoundedUp, 100*float64(rep.ExtraSteps)/float64(max(1, rep.Steps)), 100*rep.MaxOvercount))
	}
	return notes
}
