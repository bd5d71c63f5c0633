package experiment

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim/leases"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/sim/study"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/trace"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// everything plays all policies of the registry. Its traces and clusters were fixed before its first run.
var everything = Measurement{
	Name:  "everything",
	Title: "Every policy of Hare on four traces, beside the certified bound",
	Text: "Each seed draws jobs of a trace with replacement, which keep their times of arrival. Policies of tasks " +
		"and of leases play the same gangs, whose steps are merged into rounds of at most a minute, and leases are " +
		"whole rounds. The bound holds for all plans of these gangs. Policies that let jobs share GPUs, or need " +
		"deadlines or entities, play the steps themselves on Gavel's and Shockwave's traces, and elastic ones the " +
		"measured epochs of Pollux's, so that no bound holds for them. Variants of asrpt know no sizes. --scale " +
		"divides the jobs.",
	Published: "None: the papers compare few policies each, on traces of their own.",
	plan:      planEverything,
	tables:    everythingTables,
	picture:   everythingPicture,
}

// drawnTrace is a trace of which jobs are drawn.
type drawnTrace struct {
	name, file, format   string
	id, arrivals, widths string // columns; a trace without names has no id
	jobs, widest         int    // wider jobs are not drawn
	gpus                 string
	rated                bool // the trace gives steps and not durations
}

// drawnTraces are jobs of one GPU, jobs that come nearly at once, jobs of which only the durations are
// known, and jobs whose widths can change.
var drawnTraces = []drawnTrace{
	{name: "Gavel", file: "gavel_trace_generated1000_single.csv", format: "gavel", id: "job_id", arrivals: "arrival_s",
		widths: "scale_factor", jobs: 200, widest: 1, gpus: "v100=4,p100=4,k80=4", rated: true},
	{name: "Shockwave", file: "shockwave_trace_220.csv", format: "shockwave", id: "job_id", arrivals: "arrival_s",
		widths: "scale_factor", jobs: 110, widest: 8, gpus: "v100=12,p100=12,k80=12", rated: true},
	{name: "Philly", file: "philly_week_2017-10-02.csv", format: "philly", arrivals: "arrival_s",
		widths: "num_gpus", jobs: 200, widest: 16, gpus: "GPU=16"},
	{name: "Pollux", file: "pollux_workload_6.csv", format: "pollux", id: "name", arrivals: "time",
		widths: "num_replicas", jobs: 160, widest: 64, gpus: "T4=64"},
}

// playedPolicy is a row of the table: a policy of the registry, or a variant of one.
type playedPolicy struct {
	row        string
	info       registry.Info
	parameters string // of the policy, as JSON; empty means none
	estimates  bool   // whether the policy is given no sizes
}

// knows is what the policy goes by beside the events.
func (pp *playedPolicy) knows() string { return string(pp.info.KnowsOf(pp.estimates)) }

// playedPolicies are all policies of the registry, and A-SRPT by what predicts sizes: by the jobs that ended, and by
// nothing. The jobs have no classes, so that a random forest would have nothing to go by.
func playedPolicies() ([]playedPolicy, error) {
	var all []playedPolicy
	for _, info := range registry.All() {
		all = append(all, playedPolicy{row: info.Name, info: info})
	}
	info, err := registry.Find("asrpt")
	if err != nil {
		return nil, err
	}
	for _, v := range [][2]string{{"asrpt, sizes believed", `{}`},
		{"asrpt, no prediction", `{"predict":"none"}`}} {
		all = append(all, playedPolicy{v[0], info, v[1], true})
	}
	return all, nil
}

// boundRow is the row of the bounds.
const boundRow = "certified bound"

// The figures of a run; bounds have the first alone.
const (
	weightedMean = "weighted mean JCT s"
	plainMean    = "mean JCT s"
	p99          = "p99 JCT s"
	utilization  = "use %"
)

func planEverything(cfg *Config) ([]measured, error) {
	policies, err := playedPolicies()
	if err != nil {
		return nil, err
	}
	var runs []measured
	for i := range drawnTraces {
		t := &drawnTraces[i]
		add := rowsOf(&runs, cfg, t.name, func(seed uint64) (*drawnJobs, error) {
			return t.draw(seed, max(2, t.jobs/cfg.Scale))
		})
		add(boundRow, func(ctx context.Context, _ uint64, jobs *drawnJobs) ([]figure, error) {
			return jobs.bound(ctx, cfg.Solver)
		})
		for _, p := range policies {
			add(p.row, func(ctx context.Context, seed uint64, jobs *drawnJobs) ([]figure, error) {
				return jobs.play(ctx, &p, study.Config{Solver: cfg.Solver}, seed)
			})
		}
	}
	return runs, nil
}

// rowsOf returns a function that adds the runs of a row to those of a group, one for each seed. Jobs are drawn once
// for all rows, when the first run needs them.
func rowsOf[J any](runs *[]measured, cfg *Config, group string, draw func(seed uint64) (J, error)) (
	add func(row string, run func(ctx context.Context, seed uint64, jobs J) ([]figure, error))) {
	drawn := make([]func() (J, error), cfg.Repeat)
	for k := range drawn {
		drawn[k] = sync.OnceValues(func() (J, error) { return draw(cfg.FirstSeed + uint64(k)) })
	}
	return func(row string, run func(context.Context, uint64, J) ([]figure, error)) {
		for k := range drawn {
			seed := cfg.FirstSeed + uint64(k)
			*runs = append(*runs, measured{group, row, seed, func(ctx context.Context) ([]figure, error) {
				jobs, err := drawn[k]()
				if err != nil {
					return nil, err
				}
				return run(ctx, seed, jobs)
			}})
		}
	}
}

// drawnJobs are the jobs of a seed, as a text of the trace's format and as an instance.
type drawnJobs struct {
	of   *drawnTrace
	text []byte
	inst *hare.Instance
}

// draw draws rows of the trace with replacement. For the policies that need them, it draws deadlines of
// 1.2, 2 or 10 times the time alone, as Gavel's own generator does, and one of five entities.
func (t *drawnTrace) draw(seed uint64, jobs int) (*drawnJobs, error) {
	source, err := trace.Shipped(t.file)
	if err != nil {
		return nil, err
	}
	rows, err := csv.NewReader(source.R).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.file, err)
	}
	at := map[string]int{}
	for i, head := range rows[0] {
		at[head] = i
	}
	usable := slices.DeleteFunc(rows[1:], func(row []string) bool {
		width, err := strconv.Atoi(row[at[t.widths]])
		duration, ok := at["duration_s"]
		return err != nil || width > t.widest || ok && row[duration] == "0"
	})
	random := rand.New(rand.NewPCG(seed, 0))
	lines := [][]string{rows[0]}
	for range jobs {
		lines = append(lines, slices.Clone(usable[random.IntN(len(usable))]))
	}
	slices.SortStableFunc(lines[1:], func(a, b []string) int {
		x, _ := strconv.ParseFloat(a[at[t.arrivals]], 64)
		y, _ := strconv.ParseFloat(b[at[t.arrivals]], 64)
		return cmp.Compare(x, y)
	})
	if t.rated {
		lines[0] = append(slices.Clone(lines[0]), "entity", "entity_policy")
	}
	for i, line := range lines[1:] {
		if t.id != "" {
			line[at[t.id]] = fmt.Sprintf("%d-of-%s", i, line[at[t.id]])
		}
		if t.rated {
			line[at["slo"]] = []string{"1.2", "2", "10"}[random.IntN(3)]
			lines[i+1] = append(line, fmt.Sprint("e", random.IntN(5)), "fairness")
		}
	}
	d := &drawnJobs{of: t}
	var text bytes.Buffer
	if err := csv.NewWriter(&text).WriteAll(lines); err != nil {
		return nil, err
	}
	d.text = text.Bytes()
	gpus, err := trace.ParseGPUs(t.gpus)
	if err != nil {
		return nil, err
	}
	d.inst, _, err = trace.Import(t.format, trace.ImportConfig{
		Trace:  trace.Source{Name: t.name, R: bytes.NewReader(d.text)},
		Config: trace.Config{GPUs: gpus, Sync: "gang", Long: true},
	})
	if err != nil {
		return nil, fmt.Errorf("%s, seed %d: %w", t.file, seed, err)
	}
	return d, nil
}

// bound is the certified bound on the weighted mean JCT of the instance, without linear programs, so that
// it is the same everywhere.
func (d *drawnJobs) bound(ctx context.Context, cfg solver.Config) ([]figure, error) {
	cfg.LP, cfg.BoundWork = nil, boundWork
	rel, err := solver.Bound(ctx, d.inst, hare.MethodPrice, cfg)
	if err != nil {
		return nil, err
	}
	weights := 0.
	for i := range d.inst.Jobs {
		weights += float64(d.inst.Jobs[i].WeightMicro) / 1e6
	}
	return []figure{{weightedMean, rel.Bound.RoundDown().Float() / weights, 1}}, nil
}

// lacking are the codes of what a trace lacks for a policy.
var lacking = []string{"no_pair_rates", "lacking", "no_price", "wide_job", "not_elastic"}

// play is the run of a policy. The error is a *cannotPlay where the trace lacks what the policy needs.
func (d *drawnJobs) play(ctx context.Context, p *playedPolicy, cfg study.Config, seed uint64) ([]figure, error) {
	rq := &simulatedoc.Request{Policies: []string{p.info.Name}, Seed: int64(seed)}
	if p.estimates {
		rq.Sizes = simulatedoc.SizesEstimates
	}
	if p.parameters != "" {
		rq.Parameters = map[string]json.RawMessage{p.info.Name: json.RawMessage(p.parameters)}
	}
	if d.of.playsText(p.info) {
		gpus, err := trace.ParseGPUs(d.of.gpus)
		if err != nil {
			return nil, err
		}
		rq.GPUs, rq.Trace = gpus, &simulatedoc.Trace{Name: d.of.name, Text: d.text, Format: d.of.format}
	} else {
		rq.Instance = d.inst
	}
	out, err := study.Simulate(ctx, rq, cfg)
	var fault *hare.InvalidError
	if errors.As(err, &fault) && slices.Contains(lacking, fault.Code) {
		return nil, &cannotPlay{fault.Detail}
	}
	if err != nil {
		return nil, err
	}
	run := &out.Runs[0]
	if run.Dropped > 0 {
		return nil, errDropped
	}
	return []figure{{weightedMean, run.WeightedMeanJCTS, 1}, {plainMean, run.MeanJCTS, 1}, {p99, run.P99JCTS, 0},
		{utilization, 100 * run.Utilization, 1}}, nil
}

// playsText says that the policy plays the trace itself and not the gangs of the bound.
func (t *drawnTrace) playsText(info registry.Info) bool {
	if info.Engine == registry.Elastic {
		return t.format == "pollux"
	}
	return t.rated && (info.Needs.PairRates || info.Needs.Entities || info.Needs.SLOs)
}

// bounded says that no run of the policy can be below the bound: it runs the gangs of the instance, each
// round once.
func (t *drawnTrace) bounded(info registry.Info) bool {
	if info.Engine == registry.Shared {
		return false
	}
	if info.Engine == registry.Lease {
		if _, forks := info.New(leases.Config{}).(leases.ForkingHoldPolicy); forks {
			return false
		}
	}
	return !t.playsText(info)
}
