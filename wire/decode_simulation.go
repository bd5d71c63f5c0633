package wire

import (
	"io"
	"slices"
	"strings"
	"time"

	"github.com/hare-sched/hare"
)

var (
	simulationFields = []string{
		"policies", "trace", "instance", "generate", "gpus", "cluster", "jobs", "seed", "repeat",
		"lease_s", "reset_s", "restart_s", "interval_s", "prices", "merge_s", "faults", "fault_rate", "failures", "stragglers", "switch_s",
		"cdf", "detail", "time_limit_s",
	}
	simulationTraceFields    = []string{"name", "text", "format", "table", "table_name", "quantum_s", "sync"}
	simulationGenerateFields = []string{"jobs", "arrivals", "sync", "grain_s"}
	simulationFaultFields    = []string{"gpu", "node", "from_s", "until_s"}
	faultRateFields          = []string{"gpu_mean_s", "gpu_repair_s", "node_mean_s", "node_repair_s"}
	failuresFields           = []string{"probability", "per_gpu_hour"}
)

// maxPolicies keeps the list of a hostile document short; who simulates has a
// limit of its own.
const maxPolicies = 1000

// maxIntervalS is the longest interval of elastic jobs, in seconds.
const maxIntervalS = 1_000_000_000

// DecodeSimulation reads the document of a simulation, strictly, every fault
// with a pointer. Names of policies, traces and formats are not looked up.
func DecodeSimulation(r io.Reader, lim Limits) (*Simulation, error) {
	d := &simulationReader{reader: newReader(r, lim), doc: &Simulation{}}
	if err := d.finish(d.read()); err != nil {
		return nil, err
	}
	return d.doc, nil
}

type simulationReader struct {
	*reader
	doc *Simulation
}

func (d *simulationReader) read() error {
	if !d.is('{') {
		_, err := d.want('{')
		return err
	}
	s, before := d.doc, len(d.faults)
	named := false
	err := d.object(simulationFields, func(name string) (bool, error) {
		switch name {
		case "policies":
			named = true
			return true, d.policies()
		case "trace":
			s.Trace = &SimulationTrace{}
			return true, d.trace()
		case "instance":
			return true, d.instanceAt("/instance", &s.Instance)
		case "generate":
			s.Generate = &SimulationGenerate{}
			return true, d.generate()
		case "gpus":
			return true, d.gpus()
		case "cluster":
			in := newInstanceReader(d.reader, "")
			err := in.cluster()
			s.Cluster = &in.inst.Cluster
			return true, err
		case "jobs":
			return true, d.window()
		case "seed":
			return true, d.integer(&s.Seed, 0, hare.MaxExact)
		case "repeat":
			return true, d.integer(&s.Repeat, 1, hare.MaxExact)
		case "lease_s":
			return true, d.time(&s.LeaseUs, 1)
		case "reset_s":
			return true, d.time(&s.ResetUs, 0)
		case "restart_s":
			return true, d.time(&s.RestartUs, 0)
		case "interval_s":
			return true, d.integer(&s.IntervalS, 1, maxIntervalS)
		case "prices":
			return true, d.prices()
		case "merge_s":
			return true, d.micros(&s.MergeUs, 1)
		case "faults":
			return true, d.array(d.gpuFault)
		case "fault_rate":
			return true, d.faultRate()
		case "failures":
			return true, d.failures()
		case "stragglers":
			return true, d.boolean(&s.Stragglers)
		case "switch_s":
			return true, d.micros(&s.SwitchUs, 0)
		case "cdf":
			return true, d.boolean(&s.CDF)
		case "detail":
			return true, d.oneOf(&s.Detail, SimulationRuns, SimulationJobs)
		case "time_limit_s":
			var us int64
			err := d.micros(&us, 1)
			if err == nil && us > maxTimeLimit.Microseconds() {
				return true, d.fault("out_of_range", "must be at most %d", int64(maxTimeLimit.Seconds()))
			}
			s.TimeLimit = time.Duration(us) * time.Microsecond
			return true, err
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	var found hare.InvalidErrors
	if !named {
		found.Add("", "missing_field", `"policies" is missing: give an array of names, e.g. ["hlas", "gavel:fifo"]`)
	}
	return d.report(before, found)
}

func (d *simulationReader) policies() error {
	return d.array(func(i int) error {
		if i >= maxPolicies {
			err := d.skip()
			if err == nil && i == maxPolicies {
				err = d.fault("too_many", "there are more than %d policies", maxPolicies)
			}
			return err
		}
		var name string
		err := d.str(&name)
		d.doc.Policies = append(d.doc.Policies, name)
		return err
	})
}

func (d *simulationReader) trace() error {
	t, before := d.doc.Trace, len(d.faults)
	err := d.object(simulationTraceFields, func(name string) (bool, error) {
		switch name {
		case "name":
			return true, d.str(&t.Name)
		case "text":
			return true, d.str(&t.Text)
		case "format":
			return true, d.str(&t.Format)
		case "table":
			return true, d.str(&t.Table)
		case "table_name":
			return true, d.str(&t.TableName)
		case "quantum_s":
			return true, d.micros(&t.QuantumUs, 1)
		case "sync":
			return true, d.oneOf(&t.Sync, "gang", "rigid")
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	var found hare.InvalidErrors
	switch {
	case t.Name == "" && t.Text == "":
		found.Add("/trace", "missing_field", `give "text", one job a line, or "name" of a trace that comes with the program`)
	case t.Name != "" && t.Text != "":
		found.Add("/trace", "not_allowed", `give "text" or "name", not both: a name is that of a trace that comes with the program`)
	}
	if t.Table != "" && t.TableName != "" {
		found.Add("/trace", "not_allowed", `give "table" or "table_name", not both`)
	}
	return d.report(before, found)
}

func (d *simulationReader) generate() error {
	g := d.doc.Generate
	return d.object(simulationGenerateFields, func(name string) (bool, error) {
		switch name {
		case "jobs":
			return true, d.integer(&g.Jobs, 1, hare.MaxExact)
		case "arrivals":
			return true, d.str(&g.Arrivals)
		case "sync":
			return true, d.oneOf(&g.Sync, "relaxed", "gang", "rigid")
		case "grain_s":
			return true, d.micros(&g.GrainUs, 1)
		}
		return false, nil
	})
}

// gpus reads counts by type.
func (d *simulationReader) gpus() error {
	d.doc.GPUs = []hare.TypeCount{}
	total, before := int64(0), len(d.faults)
	err := d.object(nil, func(name string) (bool, error) {
		c := int64(1) // replaced, or a fault
		err := d.integer(&c, 1, hare.MaxGPUs)
		total += c
		d.doc.GPUs = append(d.doc.GPUs, hare.TypeCount{Type: name, Count: int(c)})
		return true, err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(d.doc.GPUs, func(a, b hare.TypeCount) int { return strings.Compare(a.Type, b.Type) })
	var found hare.InvalidErrors
	switch {
	case len(d.doc.GPUs) == 0:
		found.Add("/gpus", "no_gpus", `give counts by type, e.g. {"V100": 36, "K80": 36}`)
	case total > hare.MaxGPUs:
		found.Add("/gpus", "too_large", "there are more than %d GPUs", hare.MaxGPUs)
	}
	return d.report(before, found)
}

// prices reads what an hour of a GPU costs, by type.
func (d *simulationReader) prices() error {
	d.doc.Prices = []TypePrice{}
	before := len(d.faults)
	err := d.object(nil, func(name string) (bool, error) {
		p := TypePrice{Type: name}
		err := d.micros(&p.Micro, 1)
		d.doc.Prices = append(d.doc.Prices, p)
		return true, err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(d.doc.Prices, func(a, b TypePrice) int { return strings.Compare(a.Type, b.Type) })
	var found hare.InvalidErrors
	if len(d.doc.Prices) == 0 {
		found.Add("/prices", "no_prices", `give what an hour of a GPU costs by type, e.g. {"V100": 2.48, "K80": 0.45}, or leave prices out`)
	}
	return d.report(before, found)
}

// window reads [first, last].
func (d *simulationReader) window() error {
	n, before := 0, len(d.faults)
	err := d.array(func(i int) error {
		n++
		switch i {
		case 0:
			return d.integer(&d.doc.First, 0, hare.MaxExact)
		case 1:
			return d.integer(&d.doc.Last, 1, hare.MaxExact)
		}
		return d.skip()
	})
	if err != nil {
		return err
	}
	var found hare.InvalidErrors
	switch {
	case n != 2:
		found.Add("/jobs", "wrong_type", "give the first and the last job that count, numbered from 0, e.g. [4000, 4999]")
	case len(d.faults) == before && d.doc.Last < d.doc.First:
		found.Add("/jobs", "out_of_range", "the first job, %d, is behind the last, %d", d.doc.First, d.doc.Last)
	}
	return d.report(before, found)
}

func (d *simulationReader) time(to **int64, least int64) error {
	*to = new(int64)
	return d.micros(*to, least)
}

// oneOf reads a string that must be one of some.
func (r *reader) oneOf(to *string, known ...string) error {
	from := len(r.faults)
	if err := r.str(to); err != nil || len(r.faults) > from {
		return err
	}
	if slices.Contains(known, *to) {
		return nil
	}
	hint := ""
	if best := hare.Nearest(hare.Cut(*to, 60), known); best != "" {
		hint = `: did you mean "` + best + `"?`
	}
	return r.fault("unknown_value", "%q is not one of %s%s", hare.Clip(*to), strings.Join(known, ", "), hint)
}
