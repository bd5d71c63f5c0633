package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hare-sched/hare"
)

// Simulation is the document of a call that plays jobs to policies. One of
// Trace, Instance and Generate gives the jobs.
type Simulation struct {
	Policies []string
	Trace    *SimulationTrace
	Instance *hare.Instance
	Generate *SimulationGenerate
	// GPUs or Cluster is where the jobs run; without either it is the cluster of
	// the instance, or the one that comes with the trace's format.
	GPUs    []hare.TypeCount
	Cluster *hare.Cluster
	// First and Last are the numbers, by arrival from 0, of the jobs that count;
	// Last 0 means all jobs.
	First, Last int64
	// Seed is of all draws of the first repeat, Seed + 1 of the second.
	Seed int64
	// Repeat is how often each policy runs; 0 means once.
	Repeat int64
	// LeaseUs is how long a gang holds its GPUs, ResetUs the least time between
	// two divisions of them, RestartUs what a lease on other GPUs than before
	// loses. Nil leaves a time to the server.
	LeaseUs, ResetUs, RestartUs *int64
	// IntervalS is how often policies that change widths are asked, in seconds; 0
	// leaves it to the server.
	IntervalS int64
	// Prices are of an hour of a GPU, by type, for policies of cost; types that the
	// cluster lacks may be among them. Nil leaves them to the server.
	Prices []TypePrice
	// MergeUs, where not 0, simulates as one as many rounds of a gang as take so
	// long on its fastest type; of Instance and Generate, as a trace has its
	// QuantumUs.
	MergeUs int64
	// Faults take GPUs out of service, and FaultRate does so by chance; Failures
	// make tasks start again, and Stragglers stretches them. SwitchUs is lost when
	// a GPU begins a task of another job.
	Faults     []SimulationFault
	FaultRate  SimulationFaultRate
	Failures   SimulationFailures
	Stragglers bool
	SwitchUs   int64
	// CDF asks for the distribution of completion times.
	CDF bool
	// Detail is runs (default), or jobs for the figures of every job.
	Detail string
	// TimeLimit covers waiting and working; 0 means the server's.
	TimeLimit time.Duration
}

// SimulationTrace is a text of jobs, one job a line.
type SimulationTrace struct {
	// Name is that of a trace that comes with the program, where Text is empty.
	Name string
	Text string
	// Format is one of those of hare import; empty means that the columns tell.
	Format string
	// Table is the format's second text, TableName one that comes with the
	// program; both empty means the one that belongs to the format.
	Table, TableName string
	// QuantumUs is how long a round of merged steps takes on a job's fastest
	// type; 0 means the server's default.
	QuantumUs int64
	Sync      string // gang (default) or rigid
}

// SimulationGenerate draws an instance for every repeat; zeroes are the
// defaults of hare generate.
type SimulationGenerate struct {
	Jobs     int64
	Arrivals string
	Sync     string
	GrainUs  int64
}

// SimulationFault takes a GPU (node/index), or a node, out of service from FromUs
// until UntilUs, which may be Forever.
type SimulationFault struct {
	GPU, Node       string
	FromUs, UntilUs int64
}

// SimulationFaultRate are mean times between failures and to repair, of GPUs and
// of nodes; zeroes mean none.
type SimulationFaultRate struct {
	GPUMeanUs, GPURepairUs, NodeMeanUs, NodeRepairUs int64
}

// SimulationFailures say how often tasks fail, in millionths: the chance that one
// does, and how many do for each hour that a GPU computes.
type SimulationFailures struct {
	ProbabilityMicro, PerGPUHourMicro int64
}

// TypePrice is what an hour of a GPU of a type costs, in millionths of whatever
// it is paid in.
type TypePrice struct {
	Type  string
	Micro int64
}

// Details of the answer to a simulation.
const (
	SimulationRuns = "runs"
	SimulationJobs = "jobs"
)

// EncodeJSON writes the document that DecodeSimulation reads.
func (s *Simulation) EncodeJSON(w io.Writer) error {
	if len(s.Policies) == 0 {
		return errors.New("hare: a simulation without policies")
	}
	doc := simulationJSON{
		Policies: s.Policies, GPUs: countsJSON(s.GPUs), Seed: s.Seed, Repeat: s.Repeat,
		LeaseS: secondsJSON(s.LeaseUs), ResetS: secondsJSON(s.ResetUs), RestartS: secondsJSON(s.RestartUs), IntervalS: s.IntervalS, Prices: pricesJSON(s.Prices),
		MergeS: positiveJSON(s.MergeUs), Stragglers: s.Stragglers, SwitchS: positiveJSON(s.SwitchUs), CDF: s.CDF, Detail: s.Detail,
	}
	if us := s.TimeLimit.Microseconds(); us > 0 {
		doc.TimeLimitS = secondsJSON(&us)
	}
	if s.Last > 0 {
		doc.Jobs = []int64{s.First, s.Last}
	}
	for _, f := range s.Faults {
		x := simulationFaultJSON{GPU: f.GPU, Node: f.Node, FromS: secondsJSON(&f.FromUs)}
		if f.UntilUs != hare.Forever {
			x.UntilS = secondsJSON(&f.UntilUs)
		}
		doc.Faults = append(doc.Faults, x)
	}
	if r := s.FaultRate; r != (SimulationFaultRate{}) {
		doc.FaultRate = &faultRateJSON{positiveJSON(r.GPUMeanUs), positiveJSON(r.GPURepairUs), positiveJSON(r.NodeMeanUs), positiveJSON(r.NodeRepairUs)}
	}
	if f := s.Failures; f != (SimulationFailures{}) {
		doc.Failures = &failuresJSON{positiveJSON(f.ProbabilityMicro), positiveJSON(f.PerGPUHourMicro)}
	}
	if t := s.Trace; t != nil {
		doc.Trace = &simulationTraceJSON{Name: t.Name, Text: t.Text, Format: t.Format, Table: t.Table, TableName: t.TableName, QuantumS: positiveJSON(t.QuantumUs), Sync: t.Sync}
	}
	if g := s.Generate; g != nil {
		doc.Generate = &simulationGenerateJSON{Jobs: g.Jobs, Arrivals: g.Arrivals, Sync: g.Sync, GrainS: positiveJSON(g.GrainUs)}
	}
	if s.Instance != nil {
		var b bytes.Buffer
		if err := EncodeInstance(&b, s.Instance); err != nil {
			return err
		}
		doc.Instance = b.Bytes()
	}
	if s.Cluster != nil {
		var b bytes.Buffer
		if err := EncodeInstance(&b, &hare.Instance{Cluster: *s.Cluster}); err != nil {
			return err
		}
		var only struct {
			Cluster json.RawMessage `json:"cluster"`
		}
		if err := json.Unmarshal(b.Bytes(), &only); err != nil {
			return fmt.Errorf("hare: encode a cluster: %w", err)
		}
		doc.Cluster = only.Cluster
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(doc)
}

type simulationJSON struct {
	Policies   []string                `json:"policies"`
	Trace      *simulationTraceJSON    `json:"trace,omitempty"`
	Instance   json.RawMessage         `json:"instance,omitempty"`
	Generate   *simulationGenerateJSON `json:"generate,omitempty"`
	GPUs       map[string]int          `json:"gpus,omitempty"`
	Cluster    json.RawMessage         `json:"cluster,omitempty"`
	Jobs       []int64                 `json:"jobs,omitempty"`
	Seed       int64                   `json:"seed,omitempty"`
	Repeat     int64                   `json:"repeat,omitempty"`
	LeaseS     json.Number             `json:"lease_s,omitempty"`
	ResetS     json.Number             `json:"reset_s,omitempty"`
	RestartS   json.Number             `json:"restart_s,omitempty"`
	IntervalS  int64                   `json:"interval_s,omitempty"`
	Prices     map[string]json.Number  `json:"prices,omitempty"`
	MergeS     json.Number             `json:"merge_s,omitempty"`
	Faults     []simulationFaultJSON   `json:"faults,omitempty"`
	FaultRate  *faultRateJSON          `json:"fault_rate,omitempty"`
	Failures   *failuresJSON           `json:"failures,omitempty"`
	Stragglers bool                    `json:"stragglers,omitempty"`
	SwitchS    json.Number             `json:"switch_s,omitempty"`
	CDF        bool                    `json:"cdf,omitempty"`
	Detail     string                  `json:"detail,omitempty"`
	TimeLimitS json.Number             `json:"time_limit_s,omitempty"`
}

type simulationTraceJSON struct {
	Name      string      `json:"name,omitempty"`
	Text      string      `json:"text,omitempty"`
	Format    string      `json:"format,omitempty"`
	Table     string      `json:"table,omitempty"`
	TableName string      `json:"table_name,omitempty"`
	QuantumS  json.Number `json:"quantum_s,omitempty"`
	Sync      string      `json:"sync,omitempty"`
}

type simulationGenerateJSON struct {
	Jobs     int64       `json:"jobs,omitempty"`
	Arrivals string      `json:"arrivals,omitempty"`
	Sync     string      `json:"sync,omitempty"`
	GrainS   json.Number `json:"grain_s,omitempty"`
}

type simulationFaultJSON struct {
	GPU    string      `json:"gpu,omitempty"`
	Node   string      `json:"node,omitempty"`
	FromS  json.Number `json:"from_s"`
	UntilS json.Number `json:"until_s,omitempty"`
}

type faultRateJSON struct {
	GPUMeanS    json.Number `json:"gpu_mean_s,omitempty"`
	GPURepairS  json.Number `json:"gpu_repair_s,omitempty"`
	NodeMeanS   json.Number `json:"node_mean_s,omitempty"`
	NodeRepairS json.Number `json:"node_repair_s,omitempty"`
}

type failuresJSON struct {
	Probability json.Number `json:"probability,omitempty"`
	PerGPUHour  json.Number `json:"per_gpu_hour,omitempty"`
}

func secondsJSON(us *int64) json.Number {
	if us == nil {
		return ""
	}
	return json.Number(hare.FormatMicros(*us))
}

func positiveJSON(us int64) json.Number {
	if us == 0 {
		return ""
	}
	return secondsJSON(&us)
}

func countsJSON(counts []hare.TypeCount) map[string]int {
	if counts == nil {
		return nil
	}
	m := map[string]int{}
	for _, c := range counts {
		m[c.Type] = c.Count
	}
	return m
}

func pricesJSON(prices []TypePrice) map[string]json.Number {
	if prices == nil {
		return nil
	}
	m := map[string]json.Number{}
	for _, p := range prices {
		m[p.Type] = json.Number(hare.FormatMicros(p.Micro))
	}
	return m
}
