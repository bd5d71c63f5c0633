package bench

import (
	"bufio"
	"compress/gzip"
	_ "embed" // gap_set.txt
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/wire"
)

// These are the sets of instances on which gaps are measured.
const (
	// GapSixty is the frozen set of 60 instances, which are made on demand.
	GapSixty = "sixty"
	// GapFigures are the files of testdata/instances and their variants, each with the
	// limits for which figures are given.
	GapFigures = "figures"
)

// GapCase is one instance of a set.
type GapCase struct {
	Name string
	Cell string // the cell in which summaries count the case
	// Limits are the time limits that the set names; nil means the caller's.
	Limits []time.Duration
	// Make makes the instance. It is deterministic.
	Make func() (*hare.Instance, error)
}

//go:embed gap_set.txt
var gapSetHashes string

// GapSetHash returns the frozen SHA-256 of an instance of GapSixty, or "".
func GapSetHash(name string) string {
	for line := range strings.Lines(gapSetHashes) {
		if f := strings.Fields(line); len(f) == 2 && f[1] == name {
			return f[0]
		}
	}
	return ""
}

// GapSet returns a set. dir holds the frozen files, and each seed adds an instance of
// the same generator for each synthetic file; both are only for GapFigures.
func GapSet(name, dir string, seeds []uint64) ([]GapCase, error) {
	switch name {
	case GapSixty:
		return sixty(), nil
	case GapFigures:
		return figures(dir, seeds), nil
	}
	return nil, fmt.Errorf("unknown set %q; it must be %s or %s", name, GapSixty, GapFigures)
}

// FileCase is an instance of a file, such as jitter-301.json: its cell is the name without a number at its end.
func FileCase(path string, inst *hare.Instance) GapCase {
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	cell := strings.TrimRight(strings.TrimRight(name, "0123456789"), "-")
	if cell == "" {
		cell = name
	}
	return GapCase{Name: name, Cell: cell, Make: func() (*hare.Instance, error) { return inst, nil }}
}

// generator is trace.Generate with jobs of one or of mixed rules.
type generator struct {
	jobs int
	gpus string
	sync string  // relaxed, gang, rigid or mixed
	span float64 // the seconds over which jobs arrive; 0 means all at time 0
	seed uint64
}

func (g generator) instance() (*hare.Instance, error) {
	gpus, err := trace.ParseGPUs(g.gpus)
	if err != nil {
		return nil, err
	}
	cfg := trace.GenerateConfig{Jobs: g.jobs, GPUs: gpus, Seed: g.seed, Sync: g.sync}
	if g.span > 0 {
		cfg.Arrivals = fmt.Sprintf("uniform:%g", g.span)
	}
	if g.sync == "mixed" {
		cfg.Sync = "relaxed"
	}
	inst, err := trace.Generate(cfg)
	if err == nil && g.sync == "mixed" {
		Synchronise(inst, "mixed", false)
	}
	return inst, err
}

// Synchronise gives every job the rule sync or, for "mixed", the rules rigid, gang,
// rigid, relaxed in turn. Gang and rigid jobs are made no wider than the widest type.
// With fold, their synchronisation is added to compute.
func Synchronise(inst *hare.Instance, sync string, fold bool) {
	count := map[string]int64{}
	for _, n := range inst.Cluster.Nodes {
		for _, g := range n.GPUs {
			count[g.Type] += int64(g.Count)
		}
	}
	rules := map[string][]hare.Sync{
		"relaxed": {hare.Relaxed}, "gang": {hare.Gang}, "rigid": {hare.Rigid},
		"mixed": {hare.Rigid, hare.Gang, hare.Rigid, hare.Relaxed},
	}[sync]
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		j.Sync = rules[i%len(rules)]
		if j.Sync == hare.Relaxed {
			continue
		}
		var widest int64
		for k := range j.On {
			widest = max(widest, count[j.On[k].Type])
			if fold {
				j.On[k].ComputeUs, j.On[k].SyncUs = j.On[k].DurationUs(), 0
			}
		}
		j.Tasks = min(j.Tasks, widest)
	}
}

// Pause splits each node in four. The second is out of service from a quarter to a half
// of span seconds, the fourth from three quarters to the whole span, and one GPU of the
// first is busy for an eighth.
func Pause(inst *hare.Instance, span float64) {
	at := func(share float64) int64 { return int64(share * span * 1e6) }
	var nodes []hare.Node
	for _, n := range inst.Cluster.Nodes {
		for _, g := range n.GPUs {
			for part := range 4 {
				count := (g.Count + 3 - part) / 4
				if count == 0 {
					continue
				}
				node := hare.Node{Name: fmt.Sprintf("%s-%d", n.Name, part),
					GPUs: []hare.TypeCount{{Type: g.Type, Count: count}}}
				switch part {
				case 0:
					node.Busy = []hare.Busy{{GPU: 0, UntilUs: at(1. / 8)}}
				case 1:
					node.Windows = []hare.Window{{StartUs: 0, EndUs: at(1. / 4)},
						{StartUs: at(1. / 2), EndUs: hare.Forever}}
				case 3:
					node.Windows = []hare.Window{{StartUs: 0, EndUs: at(3. / 4)},
						{StartUs: at(1), EndUs: hare.Forever}}
				}
				nodes = append(nodes, node)
			}
		}
	}
	inst.Cluster.Nodes = nodes
}

// imported reads a shipped trace.
func imported(format, file, gpus, sync, releases string, jobs int) (*hare.Instance, error) {
	types, err := trace.ParseGPUs(gpus)
	if err != nil {
		return nil, err
	}
	inst, _, err := trace.Import(format, trace.ImportConfig{
		Config: trace.Config{GPUs: types, Sync: sync, Releases: releases, Jobs: jobs}, Trace: trace.Source{Name: file},
	})
	return inst, err
}

// sixty returns the frozen set: 24 cells of synthetic instances on clusters of 3 to
// 1,600 GPUs, with arrivals over about half of the time that the jobs take, and 12
// instances from traces and with nodes that pause.
func sixty() []GapCase {
	const tenth, quarter, usual = "V100=4,T4=2,K80=2,M60=2", "V100=16,T4=12,K80=6,M60=6", "V100=64,T4=48,K80=24,M60=24"
	sizes := []struct {
		jobs, count int
		gpus        string
		seed        uint64
		when        string // "" means both
	}{
		{20, 3, "V100=1,T4=2", 1, ""}, {20, 10, tenth, 2, ""}, {20, 32, "V100=16,T4=8,K80=4,M60=4", 3, ""},
		{200, 160, usual, 1, ""}, {200, 40, quarter, 2, ""},
		{2000, 1600, "V100=640,T4=480,K80=240,M60=240", 1, "zero"}, {2000, 800, "V100=320,T4=240,K80=120,M60=120", 1,
			"spread"},
	}
	var out []GapCase
	for _, sync := range []string{"relaxed", "gang", "rigid", "mixed"} {
		for _, when := range []string{"zero", "spread"} {
			for _, s := range sizes {
				if s.when != "" && s.when != when {
					continue
				}
				g := generator{jobs: s.jobs, gpus: s.gpus, sync: sync, seed: s.seed}
				if when == "spread" {
					g.span = 960 * float64(s.jobs) / float64(s.count)
				}
				out = append(out, GapCase{
					Name: fmt.Sprintf("%s-%s-%d-on-%d", sync, when, s.jobs, s.count),
					Cell: fmt.Sprintf("%s %s %d", sync, when, s.jobs), Make: g.instance,
				})
			}
		}
	}
	for _, sync := range []string{"gang", "rigid"} {
		add := func(name, cell string, make func() (*hare.Instance, error)) {
			out = append(out, GapCase{Name: name + "-" + sync, Cell: cell + " " + sync, Make: make})
		}
		add("gavel-zero-500-on-36", "Gavel", func() (*hare.Instance, error) {
			return imported("gavel", "gavel_trace_generated500_multi.csv", "V100=12,P100=12,K80=12", sync, "zero", 0)
		})
		add("gavel-spread-500-on-24", "Gavel", func() (*hare.Instance, error) {
			return imported("gavel", "gavel_trace_generated500_multi.csv", "V100=8,P100=8,K80=8", sync, "trace", 0)
		})
		add("philly-zero-500-on-64", "Philly", func() (*hare.Instance, error) {
			return imported("philly", "philly_week_2017-10-02.csv", "GPU=64", sync, "zero", 500)
		})
		add("philly-spread-500-on-32", "Philly", func() (*hare.Instance, error) {
			return imported("philly", "philly_week_2017-10-02.csv", "GPU=32", sync, "trace", 500)
		})
	}
	for _, sync := range []string{"relaxed", "gang", "rigid", "mixed"} {
		out = append(out, GapCase{Name: sync + "-pausing-200-on-40", Cell: "pausing " + sync,
			Make: func() (*hare.Instance, error) {
				inst, err := generator{jobs: 200, gpus: quarter, sync: sync, seed: 3, span: 2400}.instance()
				if err == nil {
					Pause(inst, 4000)
				}
				return inst, err
			}})
	}
	return out
}

// Frozen reads a file of the frozen instances, by its name without extension.
func Frozen(dir, name string) (*hare.Instance, error) {
	f, err := os.Open(filepath.Join(dir, name+".json.gz"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return wire.DecodeInstance(z, wire.Limits{})
}

// frozenFiles are the files of figures. Synthetic files also have a generator, which
// follows the same rules but draws other numbers.
var frozenFiles = []struct {
	name   string
	gpus   string // "" means that the file is not synthetic
	jobs   int
	span   float64
	small  int64 // if > 0: a third of the rounds and at most so many tasks
	fold   bool  // for gang and rigid variants, synchronisation is added to compute
	limits map[string]string
}{
	{"standard-200", "V100=64,P100=48,K80=24,M60=24", 200, 0, 0, true, map[string]string{
		"relaxed": "0.3,2,30", "gang": "0.3,2,30", "rigid": "0.3,2,30", "mixed": "2", "pausing": "2",
		"mixed-pausing": "2"}},
	{"arrivals-200", "V100=64,P100=48,K80=24,M60=24", 200, 1200, 0, false,
		map[string]string{"relaxed": "2,30", "gang": "2", "rigid": "2"}},
	{"gavel-500-on-108", "", 0, 0, 0, false, map[string]string{"gang": "2", "rigid": "2"}},
	{"gavel-500-on-36", "", 0, 0, 0, false, map[string]string{"gang": "2", "rigid": "2"}},
	{"standard-2000", "V100=640,P100=480,K80=240,M60=240", 2000, 0, 0, true,
		map[string]string{"relaxed": "20", "gang": "20", "rigid": "20"}},
	{"relaxed-20", "V100=4,P100=2,K80=2,M60=2", 20, 0, 2, true, map[string]string{"relaxed": "2", "gang": "2",
		"rigid": "2"}},
	{"relaxed-50", "V100=8,P100=4,K80=4,M60=4", 50, 0, 4, true, map[string]string{"relaxed": "2", "gang": "2",
		"rigid": "2"}},
}

// figures returns the frozen files with their variants and the largest instance.
func figures(dir string, seeds []uint64) []GapCase {
	var out []GapCase
	for _, f := range frozenFiles {
		for _, variant := range []string{"relaxed", "gang", "rigid", "mixed", "pausing", "mixed-pausing"} {
			limits, err := ParseLimits(f.limits[variant])
			if err != nil {
				continue // the file has no such variant
			}
			change := func(inst *hare.Instance, err error) (*hare.Instance, error) {
				if err != nil {
					return nil, err
				}
				sync, _ := strings.CutSuffix(variant, "-pausing")
				if sync != "pausing" {
					Synchronise(inst, sync, f.fold)
				}
				if strings.HasSuffix(variant, "pausing") {
					Pause(inst, 1000)
				}
				return inst, nil
			}
			base := f.name
			if variant != "relaxed" {
				base += "-" + variant
			}
			out = append(out, GapCase{Name: base, Cell: base, Limits: limits,
				Make: func() (*hare.Instance, error) { return change(Frozen(dir, f.name)) }})
			if f.gpus == "" {
				continue
			}
			for _, seed := range seeds {
				out = append(out, GapCase{Name: fmt.Sprintf("%s-seed-%d", base, seed), Cell: base + " (seeds)",
					Limits: limits,
					Make: func() (*hare.Instance, error) {
						inst, err := generator{jobs: f.jobs, gpus: f.gpus, sync: "relaxed", span: f.span,
							seed: seed}.instance()
						if err == nil && f.small > 0 {
							for i := range inst.Jobs {
								j := &inst.Jobs[i]
								j.Rounds, j.Tasks = max(1, j.Rounds/3), min(j.Tasks, f.small)
							}
						}
						return change(inst, err)
					}})
			}
		}
	}
	const largest = "largest-20000"
	return append(out, GapCase{Name: largest, Cell: largest, Limits: []time.Duration{time.Minute},
		Make: generator{jobs: 20_000, gpus: "V100=6400,T4=4800,K80=2400,M60=2400", sync: "relaxed", seed: 1}.instance})
}

// ParseLimits reads time limits in seconds, such as "0.1,1,2".
func ParseLimits(text string) ([]time.Duration, error) {
	var out []time.Duration
	for part := range strings.SplitSeq(text, ",") {
		us, err := hare.ParseMicros(strings.TrimSpace(part))
		if err != nil || us <= 0 || us > 86_400e6 {
			return nil, fmt.Errorf("times %q: write seconds above 0 and up to 86400, such as 0.1,1,2", text)
		}
		out = append(out, time.Duration(us)*time.Microsecond)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
