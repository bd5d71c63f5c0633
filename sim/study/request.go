package study

import (
	"encoding/json"
	"fmt"
	"strings"

	"bytes"
	"cmp"
	"time"

	"github.com/hare-sched/hare"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/trace"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// request is a simulatedoc.Request with what this package makes of it.
type request simulatedoc.Request

// jobsTrace is a simulatedoc.Trace with what this package makes of it.
type jobsTrace simulatedoc.Trace

// parametersOf are the parameters with which a policy is made; nil means none.
func (rq *request) parametersOf(name string) (json.RawMessage, error) {
	if rq.Parameters[name] == nil {
		return nil, nil
	}
	return registry.SimulationParameters(name, rq.Parameters[name], rq.estimates(), rq.PlanLatencyUs > 0)
}

// priceByType returns the prices as policies take them; nil means the default.
func (rq *request) priceByType() map[string]float64 {
	if rq.Prices == nil {
		return nil
	}
	prices := map[string]float64{}
	for _, p := range rq.Prices {
		prices[p.Type] = float64(p.Micro) / 1e6
	}
	return prices
}

func (rq *request) leaseUs() int64   { return orDefault(rq.LeaseUs, 360e6) }
func (rq *request) resetUs() int64   { return orDefault(rq.ResetUs, 1920e6) } // Gavel's
func (rq *request) restartUs() int64 { return orDefault(rq.RestartUs, 0) }

// estimates reports whether policies of tasks are given no sizes.
func (rq *request) estimates() bool { return rq.Sizes == simulatedoc.SizesEstimates }

func orDefault(us *int64, none int64) int64 {
	if us == nil {
		return none
	}
	return *us
}

// workUs is the part of a lease in which a job makes progress after a restart.
func (rq *request) workUs() int64 { return rq.leaseUs() - rq.restartUs() }

func seconds(us int64) float64 { return float64(us) / 1e6 }

func (rq *request) repeats() int { return max(1, int(rq.Repeat)) }

func (rq *request) countRuns() int { return len(rq.Policies) * rq.repeats() }

// invalidAt returns one fault of a request.
func invalidAt(pointer, code, format string, a ...any) error {
	return &hare.InvalidError{Pointer: pointer, Code: code, Detail: fmt.Sprintf(format, a...)}
}

// micros is a time as a Duration.
func micros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// nodesOf returns a cluster with one node for each type.
func nodesOf(gpus []hare.TypeCount) hare.Cluster {
	var c hare.Cluster
	for _, g := range gpus {
		c.Nodes = append(c.Nodes, hare.Node{Name: strings.ToLower(g.Type), GPUs: []hare.TypeCount{g}})
	}
	return c
}

// format returns the format that the request names, or the format that the columns
// of the text show.
func (t *jobsTrace) format() (string, error) {
	if t.Format != "" {
		return t.Format, nil
	}
	src, err := t.source()
	if err != nil {
		return "", err
	}
	format, err := trace.DetectFormat(src)
	if err != nil {
		return "", invalidAt("/trace/text", "unknown_format", "%v", err)
	}
	return format, nil
}

// source returns the text of the trace: the request's, or the shipped trace that the
// request names.
func (t *jobsTrace) source() (trace.Source, error) {
	if t.Text != nil {
		return trace.Source{Name: cmp.Or(t.Name, "trace"), R: bytes.NewReader(t.Text)}, nil
	}
	src, err := trace.Shipped(t.Name)
	if err != nil {
		return src, invalidAt("/trace/name", "unknown_trace", "%v", err)
	}
	return src, nil
}

// table returns the request's table, or the shipped table that the request names.
// shipped is the name of the default.
func (t *jobsTrace) table(shipped string) (trace.Source, error) {
	if t.Table != nil {
		return trace.Source{Name: cmp.Or(t.TableName, "table"), R: bytes.NewReader(t.Table)}, nil
	}
	if t.TableName != "" {
		shipped = t.TableName
	}
	if shipped == "" {
		return trace.Source{}, nil
	}
	src, err := trace.Shipped(shipped)
	if err != nil {
		return src, invalidAt("/trace/table", "unknown_table", "%v", err)
	}
	return src, nil
}
