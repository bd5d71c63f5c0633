package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hare-sched/hare/plot"
	"github.com/hare-sched/hare/sim/study"
	"github.com/hare-sched/hare/wire"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// simulationProgress returns a function that rewrites a line of the terminal, at most
// ten times a second.
func simulationProgress(l *progressLine, now func() time.Time) func(simulatedoc.Progress) {
	start := now()
	var last time.Time
	return func(p simulatedoc.Progress) {
		at := now()
		if at.Sub(last) < 100*time.Millisecond || p.Jobs == 0 {
			return
		}
		last = at
		took := at.Sub(start).Seconds()
		left := "…"
		if p.JobsDone > 0 {
			left = fmt.Sprintf("%.0f s left", took*float64(p.Jobs-p.JobsDone)/float64(p.JobsDone))
		}
		l.text("%s  run %d of %d  %d of %d jobs  day %.1f  %s events/s  %s",
			p.Policy, min(p.RunsDone+1, p.Runs), p.Runs, p.JobsDone, p.Jobs, p.NowS/86400, thousands(float64(p.Events)/took),
			left)
	}
}

// thousands formats a rate with three significant digits and a unit.
func thousands(x float64) string {
	switch {
	case x >= 1e6:
		return fmt.Sprintf("%.1f M", x/1e6)
	case x >= 1e4:
		return fmt.Sprintf("%.0f k", x/1e3)
	}
	return fmt.Sprintf("%.0f", x)
}

// outFile is a file of a folder and the function that writes it.
type outFile struct {
	name  string
	write func(io.Writer) error
}

// write writes the report into the folders of -o and --record.
func (f *simulateFlags) write(rep *study.Report) error {
	if f.out != "" {
		files := []outFile{
			{"summary.json", rep.WithoutClock().JSON}, {"summary.csv", rep.SummaryCSV}, {"summary.parquet", rep.SummaryParquet},
			{"jobs.csv", rep.JobsCSV}, {"jobs.parquet", rep.JobsParquet}, {"report.html", rep.Page}, {"cdf.svg", rep.CDF},
		}
		if err := writeAll(f.out, files); err != nil {
			return err
		}
	}
	if f.record == "" {
		return nil
	}
	var files []outFile
	seen := ""
	for i := range rep.Runs {
		r := &rep.Runs[i]
		if r.Result == nil {
			continue
		}
		instance, result := "instance.json", strings.ReplaceAll(r.Policy, ":", "_")+".result.json"
		if f.repeat > 1 {
			result = fmt.Sprintf("%s.seed-%d.result.json", strings.ReplaceAll(r.Policy, ":", "_"), r.Seed)
			if rep.Instance == nil {
				instance = fmt.Sprintf("seed-%d.instance.json", r.Seed)
			}
		}
		if !strings.Contains(seen, "/"+instance+"/") {
			seen += "/" + instance + "/"
			files = append(files, outFile{instance, func(w io.Writer) error { return wire.EncodeInstance(w, r.Instance) }})
		}
		files = append(files, outFile{result, func(w io.Writer) error { return wire.EncodeResult(w, r.Result) }})
	}
	return writeAll(f.record, files)
}

// writeAll writes files into a folder, which it creates if necessary. All files are
// staged before the first is renamed, so that one failure leaves none.
func writeAll(dir string, files []outFile) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var staged []*output
	defer func() {
		for _, o := range staged {
			o.discard()
		}
	}()
	for _, x := range files {
		o, err := stageOutput(filepath.Join(dir, x.name), x.write)
		if errors.Is(err, plot.ErrNoSample) {
			continue
		}
		if err != nil {
			return err
		}
		staged = append(staged, o)
	}
	for _, o := range staged {
		if err := o.commit(); err != nil && !errors.Is(err, plot.ErrNoSample) {
			return err
		}
	}
	return nil
}
