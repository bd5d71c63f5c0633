package wire

import (
	"strconv"

	"github.com/hare-sched/hare"
)

// gpuFault reads one entry of faults.
func (d *simulationReader) gpuFault(i int) error {
	f, at, before := SimulationFault{UntilUs: hare.Forever}, "/faults/"+strconv.Itoa(i), len(d.faults)
	from := false
	err := d.object(simulationFaultFields, func(name string) (bool, error) {
		switch name {
		case "gpu":
			return true, d.str(&f.GPU)
		case "node":
			return true, d.str(&f.Node)
		case "from_s":
			from = true
			return true, d.micros(&f.FromUs, 0)
		case "until_s":
			if d.is('n') {
				return true, d.skip()
			}
			return true, d.micros(&f.UntilUs, 1)
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	d.doc.Faults = append(d.doc.Faults, f)
	var found hare.InvalidErrors
	switch {
	case f.GPU != "" && f.Node != "":
		found.Add(at, "not_allowed", `give "gpu" or "node", not both`)
	case f.GPU == "" && f.Node == "":
		found.Add(at, "missing_field", `give "gpu", as node/index, or "node"`)
	case !from:
		found.Add(at, "missing_field", `"from_s" is missing: say when it leaves`)
	case len(d.faults) == before && f.UntilUs <= f.FromUs:
		found.Add(at+"/until_s", "out_of_range", "it must return after it left; leave until_s out where it never does")
	}
	return d.report(before, found)
}

func (d *simulationReader) faultRate() error {
	r, before := &d.doc.FaultRate, len(d.faults)
	err := d.object(faultRateFields, func(name string) (bool, error) {
		switch name {
		case "gpu_mean_s":
			return true, d.micros(&r.GPUMeanUs, 1)
		case "gpu_repair_s":
			return true, d.micros(&r.GPURepairUs, 1)
		case "node_mean_s":
			return true, d.micros(&r.NodeMeanUs, 1)
		case "node_repair_s":
			return true, d.micros(&r.NodeRepairUs, 1)
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	var found hare.InvalidErrors
	if len(d.faults) == before && ((r.GPUMeanUs == 0) != (r.GPURepairUs == 0) || (r.NodeMeanUs == 0) != (r.NodeRepairUs == 0)) {
		found.Add("/fault_rate", "missing_field", "a mean time between failures goes with one to repair: give both, or neither")
	}
	return d.report(before, found)
}

func (d *simulationReader) failures() error {
	f := &d.doc.Failures
	return d.object(failuresFields, func(name string) (bool, error) {
		switch name {
		case "probability":
			err := d.micros(&f.ProbabilityMicro, 0)
			if err == nil && f.ProbabilityMicro >= 1e6 {
				return true, d.fault("out_of_range", "must be at least 0 and less than 1")
			}
			return true, err
		case "per_gpu_hour":
			return true, d.micros(&f.PerGPUHourMicro, 0)
		}
		return false, nil
	})
}
