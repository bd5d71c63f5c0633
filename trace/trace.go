// Package trace makes instances from public traces and tables of measured speeds, and
// from a seed. Each reader says in its Report what it rounded, skipped or assumed.
//
// It has three layers: tables, reports, configurations and merged steps; a reader for each format in a file of its
// own; and Import in trace.go, which knows them by name.
package trace

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	hare "github.com/hare-sched/hare"
)

//go:embed data/*.csv
var shipped embed.FS

// ImportConfig is Config with the texts to read.
type ImportConfig struct {
	Config
	// Trace is the list of jobs. Without a reader, its name is looked up among the shipped
	// traces; an empty name means the default trace of the format.
	Trace Source
	// Table is the second text of the format: throughputs for gavel and shockwave, step
	// times for pollux, nodes for openb. Without a reader, the shipped table is used.
	Table Source
}

// format is one kind of trace.
type format struct {
	name, trace, table string // the name of the format and the names of its shipped files
	about              string // one line for people
	read               func(trace, table Source, cfg Config) (*hare.Instance, *Report, error)
}

var formats = []format{
	{"gavel", "gavel_trace_max_min_fairness.csv", "gavel_throughputs.csv",
		"training steps over a table of speeds: Gavel's traces, also its older ones without a header", Gavel},
	{"shockwave", "shockwave_trace_120.csv", "gavel_throughputs.csv",
		"the same with dynamic batch sizes: Shockwave's traces, also without a header", Shockwave},
	{"pollux", "pollux_workload_6.csv", "pollux_t4_step_sync.csv", "applications and widths: Pollux' workloads", Pollux},
	{"philly", "philly_week_2017-10-02.csv", "", "arrivals, durations and GPUs: Microsoft's Philly",
		func(t, _ Source, c Config) (*hare.Instance, *Report, error) {
			return Philly(t, c)
		}},
	{"openb", "openb_gpu_pods.csv", "openb_gpu_nodes.csv", "pods of Alibaba's openb (2023), also in its own columns",
		Openb},
}

// specifications are the formats that only Import reads: no trace of theirs comes with Hare.
var specifications = []format{
	{"armada", "", "", "workload and clusters (--table) of Armada's simulator, YAML", Armada},
}

// Formats returns the formats of traces that simulations read, and Import, too.
func Formats() []string { return names(formats) }

// ImportFormats returns the formats that Import knows.
func ImportFormats() []string { return append(Formats(), names(specifications)...) }

func names(formats []format) []string {
	out := make([]string, len(formats))
	for i, f := range formats {
		out[i] = f.name
	}
	return out
}

// About says in one line what a format of Import is.
func About(name string) string {
	for _, f := range slices.Concat(formats, specifications) {
		if f.name == name {
			return f.about
		}
	}
	return ""
}

// ShippedTraces returns the names of the shipped traces, sorted.
func ShippedTraces() []string {
	return slices.DeleteFunc(shippedFiles(), func(name string) bool {
		return strings.HasPrefix(name, "gavel_throughputs") || strings.HasPrefix(name, "alibaba_minibatch") ||
			strings.HasSuffix(name, "_quantiles.csv") || name == polluxCells || name == polluxEpochs ||
			slices.ContainsFunc(formats, func(f format) bool { return f.table == name })
	})
}

// shippedFiles returns the names of the shipped traces and tables, sorted.
func shippedFiles() []string {
	entries, err := fs.ReadDir(shipped, "data")
	if err != nil {
		return nil
	}
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.Name()
	}
	return out
}

// Shipped opens a shipped file by its name, or by a part of the name that only one file has, such as
// "max_min_fairness". Among a trace and its tables, a part of the name means the trace.
func Shipped(name string) (Source, error) {
	var found []string
	for _, f := range shippedFiles() {
		if f == name {
			found = []string{f}
			break
		}
		if name != "" && strings.Contains(f, name) {
			found = append(found, f)
		}
	}
	if len(found) > 1 {
		traces := ShippedTraces()
		isTable := func(name string) bool { return !slices.Contains(traces, name) }
		if some := slices.DeleteFunc(slices.Clone(found), isTable); len(some) > 0 {
			found = some
		}
	}
	switch len(found) {
	case 0:
		return Source{}, fmt.Errorf("trace: no shipped file %q; there are %s", name,
			strings.Join(shippedFiles(), ", "))
	case 1:
	default:
		return Source{}, fmt.Errorf("trace: %q names several shipped files: %s", name, strings.Join(found, ", "))
	}
	f, err := shipped.Open(path.Join("data", found[0]))
	if err != nil {
		return Source{}, err
	}
	return Source{found[0], f}, nil
}

// Import reads a trace of the named format. Errors about a text are *RowError; other errors
// are about cfg. Import takes time linear in the texts.
func Import(formatName string, cfg ImportConfig) (*hare.Instance, *Report, error) {
	known := slices.Concat(formats, specifications)
	i := slices.IndexFunc(known, func(f format) bool { return f.name == formatName })
	if i < 0 {
		return nil, nil, fmt.Errorf("trace: unknown format %q; it must be one of %s", formatName,
			strings.Join(ImportFormats(), ", "))
	}
	f := known[i]
	trace, table := cfg.Trace, cfg.Table
	var err error
	if trace.R == nil {
		if trace.Name == "" {
			trace.Name = f.trace
		}
		if trace.Name == "" {
			return nil, nil, fmt.Errorf("trace: Hare brings no trace of %s along: name a file", f.name)
		}
		if trace, err = Shipped(trace.Name); err != nil {
			return nil, nil, err
		}
	}
	if table.R == nil && f.table != "" {
		if table, err = Shipped(f.table); err != nil {
			return nil, nil, err
		}
	}
	return f.read(trace, table, cfg.Config)
}
