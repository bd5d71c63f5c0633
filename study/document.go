package study

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/study/simulation"
	"github.com/hare-sched/hare/trace"
)

// RequestOf is the request that a document asks for.
func RequestOf(doc *simulation.Request) *Request {
	seconds := func(us *int64, none float64) float64 {
		if us == nil {
			return none
		}
		return float64(*us) / 1e6
	}
	r := &Request{
		Policies: doc.Policies, Instance: doc.Instance, GPUs: doc.GPUs, Cluster: doc.Cluster,
		First: int(doc.First), Last: int(doc.Last), Seed: uint64(doc.Seed), Repeat: int(doc.Repeat),
		LeaseS: seconds(doc.LeaseUs, 0), ResetS: seconds(doc.ResetUs, DefaultResetS), RestartS: seconds(doc.RestartUs, 0),
		Merge: time.Duration(doc.MergeUs) * time.Microsecond, CDF: doc.CDF,
		World: World{
			FaultRate:  sim.FaultRate(doc.FaultRate),
			Failures:   sim.FailureRate{Probability: float64(doc.Failures.ProbabilityMicro) / 1e6, PerGPUHour: float64(doc.Failures.PerGPUHourMicro) / 1e6},
			Stragglers: doc.Stragglers, SwitchS: float64(doc.SwitchUs) / 1e6,
		},
	}
	r.IntervalS = float64(doc.IntervalS)
	if doc.Prices != nil {
		r.Prices = map[string]float64{}
	}
	for _, p := range doc.Prices {
		r.Prices[p.Type] = float64(p.Micro) / 1e6
	}
	for _, f := range doc.Faults {
		r.World.Faults = append(r.World.Faults, sim.Fault(f))
	}
	if t := doc.Trace; t != nil {
		r.Trace = &Trace{Name: t.Name, Format: t.Format, TableName: t.TableName, Quantum: time.Duration(t.QuantumUs) * time.Microsecond, Sync: t.Sync}
		if t.Text != "" {
			r.Trace.Name, r.Trace.Text = "trace", []byte(t.Text)
		}
		if t.Table != "" {
			r.Trace.TableName, r.Trace.Table = "table", []byte(t.Table)
		}
	}
	if g := doc.Generate; g != nil {
		r.Generate = &trace.GenerateConfig{Jobs: int(g.Jobs), Arrivals: g.Arrivals, Sync: g.Sync, GrainUs: g.GrainUs}
	}
	return r
}

// Document is the document that asks for r, where Validate accepts it:
// RequestOf of it is r, but for what is less than a millionth, and for Record,
// which no document has.
func (r *Request) Document() *simulation.Request {
	micros := func(s float64) int64 { return int64(math.Round(s * 1e6)) }
	time := func(s float64) *int64 {
		us := micros(s)
		return &us
	}
	doc := &simulation.Request{
		Policies: r.Policies, Instance: r.Instance, GPUs: r.GPUs, Cluster: r.Cluster,
		First: int64(r.First), Last: int64(r.Last), Seed: int64(r.Seed), Repeat: int64(r.Repeat),
		ResetUs: time(r.ResetS), RestartUs: time(r.RestartS), IntervalS: int64(r.IntervalS), MergeUs: r.Merge.Microseconds(), CDF: r.CDF,
		FaultRate: simulation.FaultRate(r.World.FaultRate), Stragglers: r.World.Stragglers, SwitchUs: micros(r.World.SwitchS),
		Failures: simulation.Failures{ProbabilityMicro: micros(r.World.Failures.Probability), PerGPUHourMicro: micros(r.World.Failures.PerGPUHour)},
	}
	if r.LeaseS != 0 {
		doc.LeaseUs = time(r.LeaseS)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Prices)) {
		doc.Prices = append(doc.Prices, simulation.TypePrice{Type: name, Micro: micros(r.Prices[name])})
	}
	for _, f := range r.World.Faults {
		doc.Faults = append(doc.Faults, simulation.Fault(f))
	}
	if t := r.Trace; t != nil {
		doc.Trace = &simulation.Trace{Name: t.Name, Format: t.Format, TableName: t.TableName, QuantumUs: t.Quantum.Microseconds(), Sync: t.Sync}
		if t.Text != nil {
			doc.Trace.Name, doc.Trace.Text = "", string(t.Text)
		}
		if t.Table != nil {
			doc.Trace.TableName, doc.Trace.Table = "", string(t.Table)
		}
	}
	if g := r.Generate; g != nil {
		doc.Generate = &simulation.Generate{Jobs: int64(g.Jobs), Arrivals: g.Arrivals, Sync: g.Sync, GrainUs: g.GrainUs}
	}
	return doc
}
