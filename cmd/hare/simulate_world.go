package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// world reads faults, failures and stragglers.
func (f *simulateFlags) world(req *simulatedoc.Request) error {
	if f.mtbf < 0 || f.mttr <= 0 || f.switches < 0 || f.planLatency < 0 {
		return errors.New("--mtbf, --switch and --plan-latency must not be negative, and --mttr must be positive")
	}
	if f.mtbf > 0 {
		req.FaultRate = simulatedoc.FaultRate{GPUMeanUs: f.mtbf.Microseconds(), GPURepairUs: f.mttr.Microseconds()}
	}
	req.Failures.PerGPUHour, req.Stragglers, req.SwitchUs = f.failures, f.stragglers, f.switches.Microseconds()
	req.PlanLatencyUs = f.planLatency.Microseconds()
	if f.faults == "" {
		return nil
	}
	file, err := openIn(f.faults)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	req.Faults, err = readFaults(f.faults, file)
	return err
}

// readFaults reads CSV with the columns gpu, from_s and until_s.
func readFaults(name string, r io.Reader) ([]simulatedoc.Fault, error) {
	c := csv.NewReader(r)
	c.ReuseRecord = true
	columns := []string{"gpu", "from_s", "until_s"}
	head, err := c.Read()
	if err != nil || !slices.Equal(head, columns) {
		return nil, fmt.Errorf("%s:1:1: the first line must be gpu,from_s,until_s", name)
	}
	var faults []simulatedoc.Fault
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
		x := simulatedoc.Fault{GPU: strings.Clone(row[0]), UntilUs: hare.Forever}
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
