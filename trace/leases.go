package trace

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	hare "github.com/hare-sched/hare"
)

// RatedJob is a job of a trace in Gavel's terms with unchanged steps. A simulator of
// leases needs the steps, whereas an instance has merged rounds.
type RatedJob struct {
	ID       string
	Kind     string // the job type
	ArrivalS float64
	Weight   float64
	GPUs     int
	Steps    int64     // summed over the GPUs
	Rate     []float64 // in steps per second, by RatedTrace.Types; 0 means not measured
	SLO      float64   // as a multiple of the job's time alone; 0 means none
	Entity   *Entity   // nil means none
	// SpreadRate is Rate where the GPUs are on several servers; nil if the table has no
	// column placement.
	SpreadRate []float64
}

// RatedTrace is a trace with the rates of its jobs on the types of a cluster.
type RatedTrace struct {
	Types  []string // sorted
	GPUs   []int    // by type
	Jobs   []RatedJob
	spread rateTable              // rates on several servers; nil if the table does not tell
	pairs  map[pairKey][2]float64 // nil without measurements

	entities map[string]*Entity
}

// pairKey names two job types that share GPUs, a ≤ b.
type pairKey struct {
	a, b, gpuType string
	gpus          int
}

// ReadRated reads a trace and a table of rates. The trace has the columns job_id, arrival_s,
// job_type, total_steps, scale_factor and priority_weight, or Gavel's own form (ten fields
// between tabs and no header). The table has the columns job_type, scale_factor, gpu_type
// and steps_per_second, which is the sum over the GPUs. Rows of the table with the placement
// unconsolidated give RatedJob.SpreadRate. The table may have the columns other_job_type and
// other_steps_per_second; a row with an other_job_type is about two jobs that share their
// GPUs. The shipped file gavel_throughputs_colocated.csv has these columns, and Gavel's rates
// with all digits. Arrivals and rates are read as the nearest float64. Jobs are sorted by
// arrival; jobs of equal arrival keep their order.
//
// The trace may have further columns, which may be empty in a row. slo is the time that a job
// may take, as a multiple of its time alone. entity is the owner of the job. entity_weight
// (1 if empty) and entity_policy (fairness or fifo; fairness if empty) must be the same in all
// rows of an entity.
func ReadRated(trace, table Source, gpus []hare.TypeCount) (*RatedTrace, error) {
	gpus = slices.Clone(gpus)
	slices.SortFunc(gpus, func(a, b hare.TypeCount) int { return strings.Compare(a.Type, b.Type) })
	r := &RatedTrace{}
	for _, g := range gpus {
		r.Types, r.GPUs = append(r.Types, g.Type), append(r.GPUs, g.Count)
	}
	rates, err := r.table(table, gpus)
	if err != nil {
		return nil, err
	}
	t, err := newJobs(trace)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for {
		if ok, err := t.next(); err != nil {
			return nil, err
		} else if !ok {
			break
		}
		j, err := r.job(t, rates)
		if err != nil {
			return nil, err
		}
		if seen[j.ID] {
			return nil, t.errorAt("job_id", "%q appears twice", truncate(j.ID))
		}
		seen[j.ID] = true
		r.Jobs = append(r.Jobs, j)
	}
	if len(r.Jobs) == 0 {
		return nil, &RowError{t.file, 1, 1, "no row of this text gives a job"}
	}
	slices.SortStableFunc(r.Jobs, func(a, b RatedJob) int { return cmp.Compare(a.ArrivalS, b.ArrivalS) })
	return r, nil
}

// rateTable holds the rates of a job type by number of GPUs and type.
type rateTable map[string]map[int][]float64

func (rt *RatedTrace) table(src Source, gpus []hare.TypeCount) (rateTable, error) {
	t, err := newTable(src, "job_type", "scale_factor", "gpu_type", "steps_per_second")
	if err != nil {
		return nil, err
	}
	_, placed := t.column["placement"]
	if placed {
		rt.spread = rateTable{}
	}
	_, paired := t.column["other_job_type"]
	if paired {
		if _, ok := t.column["other_steps_per_second"]; !ok {
			return nil, &RowError{t.file, 1, 1, `no column "other_steps_per_second"`}
		}
		rt.pairs = map[pairKey][2]float64{}
	}
	rates, known := rateTable{}, []string{}
	for {
		if ok, err := t.next(); err != nil {
			return nil, err
		} else if !ok {
			break
		}
		gpuType := canonicalType(strings.Clone(t.text("gpu_type")))
		if !slices.Contains(known, gpuType) {
			known = append(known, gpuType)
		}
		jobType := strings.Clone(t.text("job_type"))
		if jobType == "" {
			return nil, t.errorAt("job_type", "empty")
		}
		scale, err := t.scale()
		if err != nil {
			return nil, err
		}
		rate := 0.0
		if t.text("steps_per_second") != "" { // an empty field means not measured
			if rate, err = t.float("steps_per_second"); err != nil {
				return nil, err
			}
		}
		if paired && t.text("other_job_type") != "" {
			other, err := t.float("other_steps_per_second")
			if err != nil {
				return nil, err
			}
			k := pairKey{jobType, strings.Clone(t.text("other_job_type")), gpuType, scale}
			both := [2]float64{rate, other}
			if k.a > k.b {
				k.a, k.b, both = k.b, k.a, [2]float64{other, rate}
			}
			rt.pairs[k] = both
			continue
		}
		into := rates
		if placed && t.text("placement") == "unconsolidated" {
			into = rt.spread
		}
		if into[jobType] == nil {
			into[jobType] = map[int][]float64{}
		}
		if into[jobType][scale] == nil {
			into[jobType][scale] = make([]float64, len(rt.Types))
		}
		if k := slices.Index(rt.Types, gpuType); k >= 0 {
			into[jobType][scale][k] = rate
		}
	}
	slices.Sort(known)
	return rates, requireTypes(gpus, known, t.file)
}

func (rt *RatedTrace) job(t *table, rates rateTable) (RatedJob, error) {
	j := RatedJob{ID: strings.Clone(t.text("job_id")), Kind: strings.Clone(t.text("job_type"))}
	byScale, ok := rates[j.Kind]
	if !ok {
		return j, t.errorAt("job_type", "unknown model %q: the table of rates has no such job type", truncate(j.Kind))
	}
	var err error
	if j.GPUs, err = t.scale(); err != nil {
		return j, err
	}
	if j.Rate, ok = byScale[j.GPUs]; !ok {
		return j, t.errorAt("scale_factor", "%s was not measured on %d GPUs", truncate(j.Kind), j.GPUs)
	}
	if rt.spread != nil {
		if j.SpreadRate = rt.spread[j.Kind][j.GPUs]; j.SpreadRate == nil {
			j.SpreadRate = make([]float64, len(rt.Types))
		}
	}
	if j.Steps, err = t.count("total_steps", 1); err != nil {
		return j, err
	}
	if j.ArrivalS, err = t.float("arrival_s"); err != nil {
		return j, err
	}
	if j.Weight, err = t.float("priority_weight"); err != nil {
		return j, err
	}
	if j.Weight <= 0 {
		return j, t.errorAt("priority_weight", "%v is not positive", j.Weight)
	}
	// Gavel writes −1 for a job without an SLO.
	if _, ok := t.column["slo"]; ok && t.text("slo") != "" && !strings.HasPrefix(t.text("slo"), "-") {
		if j.SLO, err = t.float("slo"); err != nil {
			return j, err
		}
	}
	if j.Entity, err = rt.entity(t); err != nil {
		return j, err
	}
	for k, rate := range j.Rate {
		if rate > 0 && rt.GPUs[k] >= j.GPUs {
			return j, nil
		}
	}
	return j, t.errorAt("job_type", "%s cannot run on %d GPUs of one type of this cluster", truncate(j.Kind), j.GPUs)
}

// PairRates returns the rates of two jobs that share their GPUs of a type; both are 0
// without a measurement.
func (rt *RatedTrace) PairRates(kindA, kindB string, gpus, gpuType int) (a, b float64) {
	k := pairKey{kindA, kindB, rt.Types[gpuType], gpus}
	swap := k.a > k.b
	if swap {
		k.a, k.b = k.b, k.a
	}
	both := rt.pairs[k]
	if swap {
		return both[1], both[0]
	}
	return both[0], both[1]
}

// HasPairs reports whether the table has rates of jobs that share GPUs.
func (rt *RatedTrace) HasPairs() bool { return rt.pairs != nil }

// scale reads a number of GPUs.
func (t *table) scale() (int, error) {
	v, err := t.count("scale_factor", 1)
	if err == nil && v > hare.MaxGPUs {
		err = t.errorAt("scale_factor", "%d is more than %d", v, hare.MaxGPUs)
	}
	return int(v), err
}

// float reads a number from 0 to 2^53 as the nearest float64.
func (t *table) float(column string) (float64, error) {
	text := t.text(column)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= hare.MaxExact) || math.Signbit(v) && v != 0 {
		return 0, t.errorAt(column, "%q is not a number from 0 to 2^53", truncate(text))
	}
	return v, nil
}

// Entity is the owner of jobs. Jobs of one entity share one Entity.
type Entity struct {
	Name   string
	Weight float64 // greater than 0
	FIFO   bool    // whether its jobs run in order of arrival and not by weight
}

// entity reads the owner of a job; its columns are optional.
func (rt *RatedTrace) entity(t *table) (*Entity, error) {
	text := func(column string) string {
		if _, ok := t.column[column]; !ok {
			return ""
		}
		return t.text(column)
	}
	e := Entity{Name: strings.Clone(text("entity")), Weight: 1}
	if e.Name == "" {
		return nil, nil
	}
	if text("entity_weight") != "" {
		var err error
		if e.Weight, err = t.float("entity_weight"); err != nil {
			return nil, err
		}
		if e.Weight == 0 {
			return nil, t.errorAt("entity_weight", "0 is not positive")
		}
	}
	switch policy := text("entity_policy"); policy {
	case "", "fairness":
	case "fifo":
		e.FIFO = true
	default:
		return nil, t.errorAt("entity_policy", "%q is neither fairness nor fifo", truncate(policy))
	}
	known := rt.entities[e.Name]
	if known == nil {
		if rt.entities == nil {
			rt.entities = map[string]*Entity{}
		}
		rt.entities[e.Name] = &e
		return &e, nil
	}
	if *known != e {
		return nil, t.errorAt("entity", "%q has another weight or policy in an earlier row", truncate(e.Name))
	}
	return known, nil
}
