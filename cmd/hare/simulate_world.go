package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/study"
)

// world reads what goes wrong.
func (f *simulateFlags) world(w *study.World) error {
	if f.mtbf < 0 || f.mttr <= 0 || f.switches < 0 {
		return errors.New("--mtbf and --switch must not be negative, and --mttr must be positive")
	}
	if f.mtbf > 0 {
		w.FaultRate = sim.FaultRate{GPUMeanUs: f.mtbf.Microseconds(), GPURepairUs: f.mttr.Microseconds()}
	}
	w.Failures.PerGPUHour, w.Stragglers, w.SwitchS = f.failures, f.stragglers, f.switches.Seconds()
	if f.faults == "" {
		return nil
	}
	file, err := openIn(f.faults)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	w.Faults, err = readFaults(f.faults, file)
	return err
}

// readFaults reads a text with the columns gpu, from_s and until_s.
func readFaults(name string, r io.Reader) ([]sim.Fault, error) {
	c := csv.NewReader(r)
	c.ReuseRecord = true
	columns := []string{"gpu", "from_s", "until_s"}
	head, err := c.Read()
	if err != nil || !slices.Equal(head, columns) {
		return nil, fmt.Errorf("%s:1:1: the first line must be gpu,from_s,until_s", name)
	}
	var faults []sim.Fault
	for {
		row, err := c.Read()
		if errors.Is(err, io.EOF) {
			return faults, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		line, column := c.FieldPos(1)
		field := 1
		x := sim.Fault{GPU: strings.Clone(row[0]), UntilUs: hare.Forever}
		if !strings.Contains(x.GPU, "/") {
			x.GPU, x.Node = "", x.GPU
		}
		if x.FromUs, err = hare.ParseMicros(row[1]); err == nil && row[2] != "" {
			line, column = c.FieldPos(2)
			field = 2
			x.UntilUs, err = hare.ParseMicros(row[2])
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d:%d: %s: %.60q %w", name, line, column, columns[field], row[field], err)
		}
		faults = append(faults, x)
	}
}
