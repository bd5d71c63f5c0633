package trace

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"

	hare "github.com/hare-sched/hare"
)

// Throughputs are Gavel's measured speeds.
type Throughputs struct {
	types []string // spelled as in instances, sorted
	rates map[rateKey]int64
	known map[string]bool // the job types
	// scales holds the numbers of GPUs measured for a job type.
	scales map[string][]int64
}

type rateKey struct {
	jobType string
	gpus    int64
	gpuType string
	spread  bool // spread over servers, which Gavel calls unconsolidated
}

// gavelGPUs maps Gavel's names of GPU types to those of instances.
var gavelGPUs = map[string]string{"k80": "K80", "p100": "P100", "v100": "V100"}

// KnownModel reports whether the tables of speeds that Hare brings along have a job type.
func KnownModel(jobType string) bool {
	known := shippedModels()
	return known[jobType]
}

var shippedModels = sync.OnceValue(func() map[string]bool {
	src, err := Shipped("gavel_throughputs.csv")
	if err != nil {
		return nil
	}
	tp, err := ReadThroughputs(src, nil)
	if err != nil {
		return nil
	}
	return tp.known
})

// ReadThroughputs reads a table with the columns job_type, scale_factor, gpu_type, placement
// and steps_per_second (or steps_per_second_physical for the physical cluster). A rate is the
// sum over the workers; a rate that is zero or empty means no profile. With base, the result
// has the rates of base, too, except for those that the table has. base is not changed.
func ReadThroughputs(src Source, base *Throughputs) (*Throughputs, error) {
	tp := &Throughputs{rates: map[rateKey]int64{}, known: map[string]bool{}, scales: map[string][]int64{}}
	if base != nil {
		tp.types = slices.Clone(base.types)
		for k, v := range base.rates {
			tp.rates[k] = v
		}
		for k := range base.known {
			tp.known[k] = true
			tp.scales[k] = slices.Clone(base.scales[k])
		}
	}
	t, err := newTable(src, "job_type", "scale_factor", "gpu_type", "placement")
	if err != nil {
		return nil, err
	}
	rate := "steps_per_second"
	if _, ok := t.column[rate]; !ok {
		rate = "steps_per_second_physical"
		if _, ok := t.column[rate]; !ok {
			return nil, &RowError{t.file, 1, 1, "no column \"steps_per_second\" or \"steps_per_second_physical\""}
		}
	}
	read := map[rateKey]bool{}
	for {
		if ok, err := t.next(); err != nil {
			return nil, err
		} else if !ok {
			break
		}
		if err := tp.row(t, rate, read); err != nil {
			return nil, err
		}
	}
	if len(tp.known) == 0 {
		return nil, &RowError{t.file, 1, 1, "no rows"}
	}
	return tp, nil
}

func (tp *Throughputs) row(t *table, rate string, read map[rateKey]bool) error {
	k := rateKey{jobType: strings.Clone(t.text("job_type"))}
	if k.jobType == "" {
		return t.errorAt("job_type", "empty")
	}
	var err error
	if k.gpus, err = t.count("scale_factor", 1); err != nil {
		return err
	}
	name, ok := gavelGPUs[strings.ToLower(t.text("gpu_type"))]
	if !ok {
		return t.errorAt("gpu_type", "unknown GPU %q; it must be k80, p100 or v100", truncate(t.text("gpu_type")))
	}
	k.gpuType = name
	var v int64
	if t.text(rate) != "" {
		if v, err = t.decimal(rate, 6); err != nil {
			return err
		}
	}
	switch p := t.text("placement"); p {
	case "consolidated":
	case "unconsolidated":
		k.spread = true
	default:
		return t.errorAt("placement", "%q is neither consolidated nor unconsolidated", truncate(p))
	}
	if read[k] {
		return t.errorAt("job_type", "%s on %d %s, %s, is given twice", truncate(k.jobType), k.gpus, k.gpuType,
			t.text("placement"))
	}
	read[k] = true
	tp.rates[k] = v
	tp.known[k.jobType] = true
	if !slices.Contains(tp.scales[k.jobType], k.gpus) {
		tp.scales[k.jobType] = append(tp.scales[k.jobType], k.gpus)
	}
	if !slices.Contains(tp.types, name) {
		tp.types = append(tp.types, name)
		slices.Sort(tp.types)
	}
	return nil
}

// step returns the synchronised step of a job on gpus GPUs of one type: d = gpus /
// rate(gpus), compute = min(1 / rate(1), d). It returns false without a measurement.
// noSync says that the minimum was d although gpus > 1.
func (tp *Throughputs) step(jobType string, gpus int64, gpuType string, spread bool) (s step, noSync, ok bool) {
	rate := tp.rates[rateKey{jobType, gpus, gpuType, spread}] // in 1e-6 steps per second
	if rate == 0 {
		return step{}, false, false
	}
	d := new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(gpus), big.NewInt(1e12)), big.NewInt(rate))
	s = step{gpuType, d, d}
	if gpus > 1 {
		alone := tp.rates[rateKey{jobType, 1, gpuType, spread}]
		if one := new(big.Rat); alone > 0 && one.SetFrac64(1e12, alone).Cmp(d) < 0 {
			s.compute = one
		} else {
			noSync = true
		}
	}
	return s, noSync, true
}

// Gavel reads a trace in Gavel's terms, with the columns job_id, arrival_s, job_type,
// total_steps, scale_factor and priority_weight, or in Gavel's own form. A job has
// scale_factor tasks in a round and total_steps / scale_factor steps, rounded up, which are
// merged into rounds (see Config.Quantum). The default cluster is the paper's, with 36 GPUs
// of each type.
//
// The speeds, the arrivals and the mix of jobs are real; generated traces follow Gavel's
// generator, which draws durations after Philly. Report.Assumed says what is assumed.
func Gavel(trace, throughputs Source, cfg Config) (*hare.Instance, *Report, error) {
	inst, rep, err := gavelLike("gavel", "V100=36,P100=36,K80=36", trace, throughputs, &cfg)
	if rep != nil {
		rep.Measured = "step rates by GPU type and number of GPUs (" + cfg.Placement +
			" placement); the trace's arrivals, models and steps"
		rep.Assumed = []string{"a job's compute time on several GPUs is that of one GPU; the rest of its step is " +
			"synchronisation",
			"every job always runs in that placement; slo and node boundaries are left out"}
	}
	return inst, rep, err
}

// Shockwave reads a Shockwave trace over Gavel's throughputs. Its columns are Gavel's
// with dynamic batch sizes. The default cluster has 12 GPUs of each type.
func Shockwave(trace, throughputs Source, cfg Config) (*hare.Instance, *Report, error) {
	inst, rep, err := gavelLike("shockwave", "V100=12,P100=12,K80=12", trace, throughputs, &cfg)
	if rep != nil {
		rep.Measured = "step rates by GPU type and number of GPUs (Gavel's, " + cfg.Placement +
			"); the trace's arrivals, models and steps"
		rep.Assumed = []string{"batch sizes stay as they start: accordion and gns are read as static, and stated " +
			"durations are left out",
			"a job's compute time on several GPUs is that of one GPU; the rest of its step is synchronisation"}
	}
	return inst, rep, err
}

// gavelLike reads a trace in Gavel's terms; it resolves config in place.
func gavelLike(format, gpus string, trace, throughputs Source, config *Config) (*hare.Instance, *Report, error) {
	cfg, err := config.resolve(format, trace, "gang", gpus)
	if err != nil {
		return nil, nil, err
	}
	*config = cfg
	tp, err := ReadThroughputs(throughputs, nil)
	if err != nil {
		return nil, nil, err
	}
	if err := requireTypes(cfg.GPUs, tp.types, "the throughputs"); err != nil {
		return nil, nil, err
	}
	t, err := newJobs(trace)
	if err != nil {
		return nil, nil, err
	}
	b := newBuilder(format, trace, cfg, clusterOf(cfg.GPUs))
	for {
		if ok, err := b.next(t); err != nil {
			return nil, nil, err
		} else if !ok {
			break
		}
		if err := b.gavelRow(t, tp); err != nil && !b.aside(err) {
			return nil, nil, err
		}
	}
	b.rep.Renamed = &Renamed{As: "JOB_ID-MODEL", Why: "a number alone says little"}
	return b.finish(t)
}

func (b *builder) gavelRow(t *table, tp *Throughputs) error {
	jobType := strings.Clone(t.text("job_type"))
	if !tp.known[jobType] {
		return t.errorAt("job_type", "unknown model %q: the throughputs have no such job type", truncate(jobType))
	}
	total, err := t.count("total_steps", 1)
	if err != nil {
		return err
	}
	gpus, err := t.count("scale_factor", 1)
	if err != nil {
		return err
	}
	if !slices.Contains(tp.scales[jobType], gpus) {
		return t.errorAt("scale_factor", "%s was not measured on %d GPUs; it was on %v", jobType, gpus,
			tp.scales[jobType])
	}
	weight, err := t.decimal("priority_weight", 6)
	if err != nil {
		return err
	}
	release, err := t.decimal("arrival_s", 6)
	if err != nil {
		return err
	}
	var steps []step
	for _, g := range tp.types {
		s, noSync, ok := tp.step(jobType, gpus, g, b.cfg.Placement == "unconsolidated")
		switch {
		case !ok:
			b.row.NoProfile++
			continue
		case noSync:
			b.row.NoSync++
		}
		steps = append(steps, s)
	}
	if total%gpus != 0 {
		b.row.StepsRoundedUp++
	}
	id, err := b.identify(t, "job_id")
	if err != nil {
		return err
	}
	job := hare.Job{ID: fmt.Sprintf("%s-%s", id, slug(jobType)), WeightMicro: weight, ReleaseUs: release, Tasks: gpus,
		Sync: b.cfg.syncRule()}
	if reason := mergeSteps(&job, (total+gpus-1)/gpus, steps, b.cfg.Quantum.Microseconds(), &b.row); reason != "" {
		return t.errorAt("job_type", "%s", reason)
	}
	b.add(t, job)
	return nil
}

// slug returns the model of a job type for use in an ID: "ResNet-18 (batch size 64)"
// gives resnet-18.
func slug(jobType string) string {
	model, _, _ := strings.Cut(jobType, " (")
	return strings.ToLower(strings.ReplaceAll(model, " ", "-"))
}
