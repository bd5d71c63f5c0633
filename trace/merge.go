package trace

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	hare "github.com/hare-sched/hare"
)

// step is one synchronised training step of a job on one GPU type, in exact
// microseconds; d = compute + sync.
type step struct {
	gpu        string
	compute, d *big.Rat
}

// mergeSteps turns n steps into rounds of as many steps as fit in quantumUs on the
// fastest type, at least one and at most all. The last round is counted whole. Times are
// rounded to microseconds after merging, so that one rounding is spread over the round.
// The reason is empty if the job fits.
func mergeSteps(job *hare.Job, n int64, steps []step, quantumUs int64, row *Report) (reason string) {
	if len(steps) == 0 {
		return "no GPU type has a measurement for this job"
	}
	fastest := steps[0].d
	for _, s := range steps[1:] {
		if s.d.Cmp(fastest) < 0 {
			fastest = s.d
		}
	}
	fit := new(big.Rat).Quo(new(big.Rat).SetInt64(quantumUs), fastest)
	per := int64(1)
	if q := new(big.Int).Quo(fit.Num(), fit.Denom()); !q.IsInt64() || q.Int64() > n {
		per = n
	} else if q.Int64() > 1 {
		per = q.Int64()
	}
	job.Rounds = (n + per - 1) / per
	if extra := job.Rounds*per - n; extra > 0 {
		row.RoundsRoundedUp++
		row.ExtraSteps += extra
		row.MaxOvercount = max(row.MaxOvercount, float64(extra)/float64(n))
	}
	row.Steps += n
	count := new(big.Rat).SetInt64(per)
	for _, s := range steps {
		d, ok := roundHalfUp(new(big.Rat).Mul(count, s.d))
		compute, ok2 := roundHalfUp(new(big.Rat).Mul(count, s.compute))
		if !ok || !ok2 || d > hare.MaxExact/job.Rounds {
			return "the job takes longer than 2^53 µs on " + s.gpu
		}
		compute = max(1, compute)
		job.On = append(job.On, hare.Profile{Type: s.gpu, ComputeUs: compute, SyncUs: max(0, d-compute)})
	}
	sortProfiles(job.On)
	return ""
}

func sortProfiles(on []hare.Profile) {
	slices.SortFunc(on, func(a, b hare.Profile) int { return strings.Compare(a.Type, b.Type) })
}

// builder collects the jobs of an instance.
type builder struct {
	inst   *hare.Instance
	rep    *Report
	cfg    Config
	ids    map[string]bool
	widest map[string]int64 // the number of GPUs by type
	unread error            // of the first row that was set aside
	row    Report           // the report of the current row, which counts only if its job is kept
}

func newBuilder(format string, src Source, cfg Config, cluster hare.Cluster) *builder {
	b := &builder{
		inst:   &hare.Instance{Name: cfg.Name, Objective: hare.ObjectiveWeightedJCT, Cluster: cluster},
		rep:    &Report{Format: format, Source: src.Name},
		cfg:    cfg,
		ids:    map[string]bool{},
		widest: map[string]int64{},
	}
	for _, n := range cluster.Nodes {
		for _, g := range n.GPUs {
			b.widest[g.Type] += int64(g.Count)
		}
	}
	return b
}

// next moves to the next row of the trace. It returns false at the end, or if there are
// enough jobs.
func (b *builder) next(t *table) (bool, error) {
	if b.cfg.Jobs > 0 && len(b.inst.Jobs) >= b.cfg.Jobs {
		return false, nil
	}
	for {
		ok, err := t.next()
		if err != nil && b.aside(err) {
			continue
		}
		if ok {
			b.rep.Rows++
			b.row = Report{}
		}
		return ok, err
	}
}

// aside says in the report that a row cannot be read, if Config.SetAside is set and that is what err says.
func (b *builder) aside(err error) bool {
	var row *RowError
	if !b.cfg.SetAside || !errors.As(err, &row) {
		return false
	}
	if b.unread == nil {
		b.unread = err
	}
	column, why, ok := strings.Cut(row.Reason, ": ")
	if !ok {
		column, why = "the row", row.Reason
	}
	b.rep.skipAt("a row with a value that cannot be used: "+column, fmt.Sprintf("%s:%d, %s", row.File, row.Line, why))
	return true
}

// identify reads the row's name from a column; no other row may have the same name.
func (b *builder) identify(t *table, column string) (string, error) {
	id := strings.Clone(t.text(column))
	switch {
	case id == "":
		return "", t.errorAt(column, "empty")
	case len(id) > 128:
		return "", t.errorAt(column, "longer than 128 bytes")
	case b.ids[id]:
		return "", t.errorAt(column, "%q appears twice", id)
	}
	b.ids[id] = true
	return id, nil
}

// add keeps the job, or skips it if no type of the cluster can run it.
func (b *builder) add(t *table, job hare.Job) {
	if b.cfg.Releases == "zero" {
		job.ReleaseUs = 0
	}
	if b.cfg.Weights == "one" {
		job.WeightMicro = 1e6
	}
	for _, p := range job.On {
		if b.widest[p.Type] >= job.Tasks {
			b.inst.Jobs = append(b.inst.Jobs, job)
			b.rep.count(&b.row)
			return
		}
	}
	b.rep.skip(t, "no GPU type of the cluster that the job can use has as many GPUs as the job needs at once")
}

// finish returns the instance, which must have a job.
func (b *builder) finish(t *table) (*hare.Instance, *Report, error) {
	b.rep.Jobs = len(b.inst.Jobs)
	b.rep.Used, b.rep.Ignored = t.columns()
	b.rep.Cluster = b.clusterText()
	if b.rep.Renamed != nil {
		b.rep.Renamed.Jobs = b.rep.Jobs
	}
	if b.rep.Jobs == 0 && b.unread != nil {
		return nil, b.rep, b.unread
	}
	if b.rep.Jobs == 0 {
		why := ""
		if most := b.rep.mostSkipped(); most != nil {
			why = fmt.Sprintf("; most often (%d): %s (first at %s)", most.Rows, most.Reason, most.First)
		}
		return nil, b.rep, &RowError{t.file, 1, 1, "no row of this text gives a job" + why}
	}
	// Validation finds what single rows cannot show, such as the length of all jobs one
	// after another.
	validate := b.inst.Validate
	if b.cfg.Long {
		validate = b.inst.ValidateLong
	}
	if err := validate(); err != nil {
		return nil, b.rep, fmt.Errorf("%s: %w", t.file, err)
	}
	return b.inst, b.rep, nil
}

// clusterText says how many GPUs of which type there are, and who chose them.
func (b *builder) clusterText() string {
	types := make([]string, 0, len(b.widest))
	for name := range b.widest {
		types = append(types, name)
	}
	slices.Sort(types)
	for i, name := range types {
		types[i] = fmt.Sprintf("%s=%d", name, b.widest[name])
	}
	who := "the default of " + b.rep.Format
	if b.cfg.given {
		who = "as given"
	}
	return who + ", " + strings.Join(types, ",")
}
