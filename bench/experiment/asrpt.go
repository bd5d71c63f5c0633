package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/plot"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/sim/study"
	"github.com/hare-sched/hare/solver"
)

// asrptMeasurement compares A-SRPT with other policies on draws of traces and on jobs with graphs.
var asrptMeasurement = Measurement{
	Name:  "asrpt",
	Title: "A-SRPT beside other policies, and what each of its choices is worth",
	Text: "Draws of three traces as in everything, on which GPUs are alike wherever they are; and 160 jobs with " +
		"graphs on 16 nodes of 4 V100 (32 GiB, 300 Gb/s inside nodes, 25 between them), drawn by seed: built-in " +
		"configurations of 1 to 16 GPUs, 24 recurring jobs that make up nine tenths, whose lengths vary by a fifth (the " +
		"standard deviation of the logarithm), half an hour in the mean, and as much work as the GPUs do while jobs " +
		"arrive. " +
		"A round is about a minute of iterations and takes as long as the graph says where it runs; policies that do not " +
		"go by graphs know two times, on one node and on several, and put jobs near together by them. Lines below " +
		"asrpt change one choice. --scale divides the jobs, and the nodes down to 4.",
	Published: "A-SRPT (arXiv 2501.05563): completion times lower by 23 to 41 % than those of its baselines, on a " +
		"cluster and a trace of its own (the figure is from a second source).",
	plan:    planASRPT,
	tables:  asrptTables,
	picture: asrptPicture,
}

// The names of rows and groups.
const (
	asrptRow    = "asrpt"
	graphsGroup = "Jobs with graphs"
)

// asrptVariant is a scheme of the measurement.
type asrptVariant struct {
	row    string // empty means the policy
	policy string
	cfg    policies.ASRPTConfig
	graphs bool // only where jobs have graphs
}

func asrptVariants() []asrptVariant {
	of := func(row string, graphs bool, cfg policies.ASRPTConfig) asrptVariant {
		return asrptVariant{"asrpt, " + row, "asrpt", cfg, graphs}
	}
	return []asrptVariant{
		{policy: asrptRow},
		{policy: "fifo"}, {policy: "gavel_fifo"}, {policy: "easy_backfill"}, {policy: "srtf"}, {policy: "tiresias"},
		{policy: "rolling"}, {policy: "gavel:max_min_fairness_perf"}, {policy: "gavel:fifo_perf"},
		of("sizes by forest", false, policies.ASRPTConfig{Predict: policies.SizesForest}),
		of("sizes believed", false, policies.ASRPTConfig{Predict: policies.SizesBelief}),
		of("no prediction", false, policies.ASRPTConfig{Predict: policies.SizesMedian}),
		of("jobs pass", false, policies.ASRPTConfig{Pass: true}),
		of("backfill", false, policies.ASRPTConfig{Backfill: true}),
		of("eager", false, policies.ASRPTConfig{Eager: true}),
		of("eager, jobs pass", false, policies.ASRPTConfig{Eager: true, Pass: true}),
		of("first fit", true, policies.ASRPTConfig{FirstFit: true}),
		of("no delay", true, policies.ASRPTConfig{DelayUs: -1}),
		of("delay 60 s", true, policies.ASRPTConfig{DelayUs: 60e6}),
		of("delay 1,800 s", true, policies.ASRPTConfig{DelayUs: 1800e6}),
		of("heavy 1.1", true, policies.ASRPTConfig{Heavy: 1.1}),
		of("heavy 3", true, policies.ASRPTConfig{Heavy: 3}),
		of("near 1", true, policies.ASRPTConfig{Near: 1}),
		of("near 1.5", true, policies.ASRPTConfig{Near: 1.5}),
		of("jobs pass, sizes by forest", true, policies.ASRPTConfig{Pass: true, Predict: policies.SizesForest}),
		of("jobs pass, first fit", true, policies.ASRPTConfig{Pass: true, FirstFit: true}),
		of("jobs pass, no delay", true, policies.ASRPTConfig{Pass: true, DelayUs: -1}),
	}
}

func (v *asrptVariant) name() string {
	if v.row != "" {
		return v.row
	}
	return v.policy
}

// asrptJobs are jobs on which the variants are compared.
type asrptJobs interface {
	bound(context.Context, solver.Config) ([]figure, error)
	variant(ctx context.Context, v *asrptVariant, cfg *Config, seed uint64) ([]figure, error)
}

// asrptGroup is jobs by seed.
type asrptGroup struct {
	name string
	draw func(seed uint64) (asrptJobs, error)
}

func asrptGroups(scale int) []asrptGroup {
	var all []asrptGroup
	for i := range drawnTraces[:3] {
		t := &drawnTraces[i]
		all = append(all, asrptGroup{t.name, func(seed uint64) (asrptJobs, error) {
			d, err := t.draw(seed, max(2, t.jobs/scale))
			if err == nil {
				err = d.classify()
			}
			return d, err
		}})
	}
	return append(all, asrptGroup{graphsGroup, func(seed uint64) (asrptJobs, error) {
		return drawGraphs(seed, max(8, 160/scale), max(4, 16/scale))
	}})
}

func planASRPT(cfg *Config) ([]measured, error) {
	var runs []measured
	for _, g := range asrptGroups(cfg.Scale) {
		add := rowsOf(&runs, cfg, g.name, g.draw)
		add(boundRow, func(ctx context.Context, _ uint64, jobs asrptJobs) ([]figure, error) {
			return jobs.bound(ctx, cfg.Solver)
		})
		for _, v := range asrptVariants() {
			info, err := registry.Find(v.policy)
			if err != nil {
				return nil, err
			}
			if graphs := g.name == graphsGroup; v.graphs && !graphs || info.Engine == registry.Lease && graphs {
				continue
			}
			add(v.name(), func(ctx context.Context, seed uint64, jobs asrptJobs) ([]figure, error) {
				return jobs.variant(ctx, &v, cfg, seed)
			})
		}
	}
	return runs, nil
}

// variant plays the jobs of a trace under a scheme.
func (d *drawnJobs) variant(ctx context.Context, v *asrptVariant, cfg *Config, seed uint64) ([]figure, error) {
	info, err := registry.Find(v.policy)
	if err != nil {
		return nil, err
	}
	if info.Engine == registry.Lease {
		return d.play(ctx, &playedPolicy{row: info.Name, info: info}, study.Config{Solver: cfg.Solver}, seed)
	}
	return playASRPT(ctx, d.inst, v, cfg, sim.Config{Name: v.name()}, nil)
}

// playASRPT plays an instance under a policy of tasks.
func playASRPT(ctx context.Context, inst *hare.Instance, v *asrptVariant, cfg *Config, rules sim.Config,
	least *hare.Instance) ([]figure, error) {
	info, err := registry.FindTask(v.policy)
	if err != nil {
		return nil, err
	}
	p, err := info.New(ctx, inst, policies.Config{LP: cfg.Solver.LP, Moves: cfg.Moves, ASRPT: v.cfg})
	if err != nil {
		return nil, err
	}
	out, err := sim.Run(ctx, inst, p, rules)
	if err != nil {
		return nil, err
	}
	if cfg.Check != nil && out.Varied == 0 && !rules.NoSchedule {
		res, err := out.Result(inst, nil)
		if err == nil {
			err = cfg.Check(inst, res)
		}
		if err != nil {
			return nil, err
		}
	}
	m := out.Metrics(inst)
	weights := 0.
	for i := range inst.Jobs {
		weights += float64(inst.Jobs[i].WeightMicro) / 1e6
	}
	use := 100 * m.Utilization
	if least != nil {
		use = 100 * workShare(least, out)
	}
	return []figure{{weightedMean, m.WeightedJCTS / weights, 1}, {plainMean, m.MeanJCTS, 1}, {p99, m.P99JCTS, 0},
		{utilization, use, 1}}, nil
}

// workShare is the work of the jobs at their least times over what the GPUs could do until the last end.
func workShare(least *hare.Instance, out *sim.Outcome) float64 {
	work, gpus, endUs := 0., 0, int64(0)
	for i := range least.Jobs {
		j := &least.Jobs[i]
		work += float64(j.Rounds) * float64(j.Tasks) * float64(j.On[0].DurationUs())
		endUs = max(endUs, out.Jobs[i].EndUs)
	}
	for _, n := range least.Cluster.Nodes {
		gpus += n.GPUs[0].Count
	}
	return work / float64(gpus) / float64(endUs)
}

// asrptLine is a scheme on a group, over the seeds.
type asrptLine struct {
	row                       string
	mean, tail, use           sim.Stat
	lower, lowerTail, overall sim.Stat // by how many % asrpt is lower; weighted mean JCT over the bound
}

// asrptLines are the lines of each group, and the bounds.
func asrptLines(me *Measured) (groups []string, lines map[string][]asrptLine, bounds map[string]*sim.Stat,
	err error) {
	type key struct {
		group, row string
		seed       uint64
	}
	at := map[key][]figure{}
	for i := range me.runs {
		r := &me.runs[i]
		at[key{r.group, r.row, r.seed}] = me.figures[i]
	}
	lines, bounds = map[string][]asrptLine{}, map[string]*sim.Stat{}
	for i := range me.runs {
		r, f := &me.runs[i], me.figures[i]
		if !slices.Contains(groups, r.group) {
			groups, bounds[r.group] = append(groups, r.group), &sim.Stat{}
		}
		if len(f) == 0 {
			return nil, nil, nil, errors.New(me.reasons[i])
		}
		if r.row == boundRow {
			bounds[r.group].Add(f[0].value)
			continue
		}
		of := lines[r.group]
		if len(of) == 0 || of[len(of)-1].row != r.row {
			of = append(of, asrptLine{row: r.row})
		}
		y, first, least := &of[len(of)-1], at[key{r.group, asrptRow, r.seed}], at[key{r.group, boundRow, r.seed}][0].value
		y.mean.Add(f[1].value)
		y.tail.Add(f[2].value)
		y.use.Add(f[3].value)
		y.lower.Add(100 * (1 - first[1].value/f[1].value))
		y.lowerTail.Add(100 * (1 - first[2].value/f[2].value))
		if least > 0 {
			ratio := f[0].value / least
			if ratio < leastRatio {
				return nil, nil, nil, fmt.Errorf("%s, %s, seed %d: %v s is below the bound of %v s", r.group, r.row, r.seed,
					f[0].value, least)
			}
			y.overall.Add(ratio)
		}
		lines[r.group] = of
	}
	return groups, lines, bounds, nil
}

func asrptTables(me *Measured) ([]table, error) {
	groups, lines, bounds, err := asrptLines(me)
	if err != nil {
		return nil, err
	}
	var all []table
	for _, g := range groups {
		t := table{Caption: fmt.Sprintf("%s: certified bound on the weighted mean JCT %s s", g, cell(*bounds[g], 0, true)),
			Heads: []string{"policy", "mean JCT s", "value/bound", "asrpt lower by %", "p99 JCT s", "asrpt's p99 lower by %",
				"use %"}, Texts: 1}
		if n := bounds[g].N; n > 1 {
			t.Caption += fmt.Sprintf("; means over %d seeds, ± 95 %% confidence", n)
		}
		for i := range lines[g] {
			y := &lines[g][i]
			t.Rows = append(t.Rows, []string{y.row, cell(y.mean, 0, true), cell(y.overall, 2, true), cell(y.lower, 1, true),
				cell(y.tail, 0, true), cell(y.lowerTail, 1, true), cell(y.use, 0, false)})
		}
		all = append(all, t)
	}
	return all, nil
}

// asrptPicture has a row of dots for each scheme.
func asrptPicture(me *Measured) (picture, error) {
	groups, lines, _, err := asrptLines(me)
	if err != nil {
		return nil, err
	}
	p := &plot.Dots{Mark: 1, Series: groups,
		Legend: "weighted JCT over the certified bound (the line at 1), mean over " +
			"seeds with its 95 % confidence interval"}
	for _, v := range asrptVariants() {
		r := plot.DotRow{Name: v.name()}
		for _, g := range groups {
			ratio, half := math.NaN(), 0.
			for i := range lines[g] {
				if y := &lines[g][i]; y.row == v.name() && y.overall.N > 0 {
					ratio, half = y.overall.Mean, y.overall.Half
				}
			}
			r.Values, r.Halves = append(r.Values, ratio), append(r.Halves, half)
		}
		p.Rows = append(p.Rows, r)
	}
	return p, nil
}
