package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/trace"
)

// ScaleRow is one run of a task policy on a trace that resembles Philly.
type ScaleRow struct {
	Policy    string  `json:"policy"`
	Jobs      int     `json:"jobs"`
	GPUs      int     `json:"gpus"`
	Sync      string  `json:"sync"`
	QuantumS  float64 `json:"quantum_s,omitempty"` // of gang jobs
	Load      float64 `json:"load"`
	Seed      uint64  `json:"seed"`
	Events    int64   `json:"events"` // the events sent to the policy
	MeanJCTS  float64 `json:"mean_jct_s"`
	MakespanS float64 `json:"makespan_s"`
	// MakeS is the time for making the trace, and WallS the time from making the policy to
	// the outcome, both in seconds. Only these figures differ from run to run.
	MakeS float64 `json:"make_s"`
	WallS float64 `json:"wall_s"`
	// PeakRSSBytes is the greatest memory that the process has held so far, with the trace;
	// 0 if the system does not report it.
	PeakRSSBytes int64 `json:"peak_rss_bytes"`
}

// JobsPerS returns the jobs simulated per second.
func (sc *ScaleRow) JobsPerS() float64 { return float64(sc.Jobs) / sc.WallS }

// EventsPerS returns the events per second.
func (sc *ScaleRow) EventsPerS() float64 { return float64(sc.Events) / sc.WallS }

// RunScale makes a trace and plays it to a policy of the task engine. It keeps no
// schedule.
func RunScale(ctx context.Context, name string, cfg trace.PhillyConfig) (*ScaleRow, error) {
	info, err := registry.FindTask(name)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	inst, err := trace.PhillyLike(cfg)
	if err != nil {
		return nil, err
	}
	row := &ScaleRow{Policy: name, Jobs: len(inst.Jobs), Sync: inst.Jobs[0].Sync.String(), Load: cfg.Load,
		Seed:  cfg.Seed,
		MakeS: time.Since(start).Seconds()}
	if row.Sync == "gang" {
		row.QuantumS = cfg.Quantum.Seconds()
	}
	for _, n := range inst.Cluster.Nodes {
		for _, g := range n.GPUs {
			row.GPUs += g.Count
		}
	}
	start = time.Now()
	p, err := info.New(ctx, inst, policies.Config{})
	if err != nil {
		return nil, err
	}
	o, err := sim.Run(ctx, inst, p, sim.Config{Name: name, NoSchedule: true})
	if err != nil {
		return nil, err
	}
	row.WallS = time.Since(start).Seconds()
	row.Events, row.MeanJCTS, row.MakespanS = o.Events, o.MeanJCTUs/1e6, float64(o.MakespanUs)/1e6
	row.PeakRSSBytes = peakRSS()
	return row, nil
}

// peakRSS returns VmHWM of Linux, or 0.
func peakRSS() int64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "VmHWM:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10
		}
	}
	return 0
}

// WriteScale prints rows as a table in Markdown.
func WriteScale(w io.Writer, rows []ScaleRow) error {
	if _, err := fmt.Fprint(w,
		"| policy | sync | jobs | GPUs | events | simulated days | s | jobs/s | events/s | peak MiB |\n"+
			"|---|---|---|---|---|---|---|---|---|---|\n"); err != nil {
		return err
	}
	for i := range rows {
		r := &rows[i]
		sync := r.Sync
		if r.QuantumS > 0 {
			sync += " of " + strconv.FormatFloat(r.QuantumS, 'f', -1, 64) + " s"
		}
		if _, err := fmt.Fprintf(w, "| %s | %s | %d | %d | %d | %.0f | %.2f | %.0f | %.0f | %d |\n", r.Policy, sync,
			r.Jobs,
			r.GPUs, r.Events,
			r.MakespanS/86400, r.WallS, r.JobsPerS(), r.EventsPerS(), r.PeakRSSBytes>>20); err != nil {
			return err
		}
	}
	return nil
}
