// Package device has the GPUs of a node behind one interface: pretended ones, which need no hardware, and the
// cores of the machine. Nothing here changes a setting of a device.
package device

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Source are the devices of a node.
type Source interface {
	// Devices describes the devices, in an order that stays the same while the agent runs.
	Devices() []clusterdoc.AgentDevice
	// Visible is what CUDA_VISIBLE_DEVICES says of a device.
	Visible(i int) string
	// Pretended says that a job on the device that says how long it takes is simulated and not run.
	Pretended() bool
	// Faults maps the places of devices that are not well to the reasons.
	Faults(ctx context.Context) (map[int]string, error)
}

// most is the greatest number of devices of a node.
const most = 256

// Parse reads a list such as V100=2,T4=2 of pretended GPUs, or cpu=2 of cores that do real work.
func Parse(text string) (Source, error) {
	var f fixed
	for part := range strings.SplitSeq(text, ",") {
		name, count, found := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.Atoi(count)
		if !found || name == "" || err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a list of devices: give TYPE=NUMBER,…, such as V100=2,T4=2 or cpu=2", part)
		}
		if len(f.types)+n > most {
			return nil, fmt.Errorf("%q has more than %d devices", text, most)
		}
		for range n {
			f.types = append(f.types, name)
		}
		f.real = f.real || name == "cpu"
	}
	for _, t := range f.types {
		if f.real && t != "cpu" {
			return nil, fmt.Errorf("%q mixes cores and pretended GPUs: give one of the two to an agent", text)
		}
	}
	slices.Sort(f.types) // as the server numbers the GPUs of a node
	return f, nil
}

// fixed are devices that never change. FaultFile is where tests and people may write that one is not well.
type fixed struct {
	types []string
	real  bool
}

// FaultFile names a file in which each line has the place of a device and the reason why it is not well. It is for
// trying out what happens; "" means none.
var FaultFile = os.Getenv("HARE_PRETENDED_FAULTS")

func (f fixed) Devices() []clusterdoc.AgentDevice {
	all := make([]clusterdoc.AgentDevice, len(f.types))
	for i, t := range f.types {
		all[i].Type = t
	}
	return all
}

func (f fixed) Visible(i int) string {
	if f.real {
		return "" // a program that looks for GPUs finds none
	}
	return strconv.Itoa(i)
}

func (f fixed) Pretended() bool { return !f.real }

func (f fixed) Faults(context.Context) (map[int]string, error) {
	faults := map[int]string{}
	if FaultFile == "" {
		return faults, nil
	}
	text, err := os.ReadFile(FaultFile)
	if os.IsNotExist(err) {
		return faults, nil
	}
	for line := range strings.Lines(string(text)) {
		at, why, _ := strings.Cut(strings.TrimSpace(line), " ")
		if i, err := strconv.Atoi(at); err == nil && i >= 0 && i < len(f.types) {
			faults[i] = why
		}
	}
	return faults, err
}
