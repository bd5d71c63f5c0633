package wire

import (
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// gpuTypeTable is the table of what a cluster says of all GPUs of one type.
var gpuTypeTable = NewTable("GPUType", "GPUType says what all GPUs of one type have.",
	Millis("memory_gib", func(v *hare.GPUType) *int64 { return &v.MemoryMilliGiB }, 1, hare.MaxPerTask).
		Required("give the memory of one GPU in GiB").
		About("memory_gib is the memory of one GPU in GiB, with at most three decimals.").Example(16),
)

// bandwidthField makes the field bandwidth_gbps of a cluster: an object of a level and a number.
func bandwidthField() Field[clusterDoc] {
	number := Schema{"type": "number", "format": "double", "exclusiveMinimum": 0}
	return NewField("bandwidth_gbps", MapOf(number),
		func(r *Reader, v *clusterDoc) error { return readBandwidths(r, &v.Bandwidths) },
		func(b []byte, v *clusterDoc) []byte { return appendBandwidths(b, v.Bandwidths) }).
		About("bandwidth_gbps is what the network carries in one direction, in gigabits per second with at most three " +
			"decimals, by level: node is between the GPUs of one node, and a coarser level is between nodes that share a " +
			"domain of that level and of no finer one. A level that is left out has the number of the next coarser one. " +
			"Only methods and policies that say so use bandwidths.").
		Example(Schema{"node": 300, "rack": 100, "any": 25})
}

// gpuTypesField makes the field gpu_types of a cluster.
func gpuTypesField() Field[clusterDoc] {
	return NewField("gpu_types", MapOf(RefTo(gpuTypeTable)),
		func(r *Reader, v *clusterDoc) error { return readGPUTypes(r, &v.GPUTypes) },
		func(b []byte, v *clusterDoc) []byte { return appendGPUTypes(b, v.GPUTypes) }).
		About("gpu_types says what all GPUs of a type have, by type. Types that no node has are allowed. Only methods " +
			"and policies that say so use gpu_types.")
}

func readBandwidths(r *Reader, to *[]hare.LevelBandwidth) error {
	before := r.Faults()
	err := r.Object(nil, func(level string) (bool, error) {
		at := hare.LevelBandwidth{Level: level}
		err := r.Millis(&at.Mbps, 1, hare.MaxPerTask)
		*to = append(*to, at)
		return true, err
	})
	if r.Faults() > before {
		*to = nil
	}
	slices.SortFunc(*to, func(a, b hare.LevelBandwidth) int { return strings.Compare(a.Level, b.Level) })
	return err
}

func readGPUTypes(r *Reader, to *[]hare.GPUType) error {
	before := r.Faults()
	err := r.Object(nil, func(name string) (bool, error) {
		t := hare.GPUType{Type: name}
		err := gpuTypeTable.Read(r, &t)
		*to = append(*to, t)
		return true, err
	})
	if r.Faults() > before {
		*to = nil
	}
	slices.SortFunc(*to, func(a, b hare.GPUType) int { return strings.Compare(a.Type, b.Type) })
	return err
}

func appendBandwidths(b []byte, of []hare.LevelBandwidth) []byte {
	return AppendMap(b, of, func(at *hare.LevelBandwidth) string { return at.Level },
		func(b []byte, at *hare.LevelBandwidth) []byte { return hare.AppendMicros(b, at.Mbps*1000) })
}

func appendGPUTypes(b []byte, types []hare.GPUType) []byte {
	return AppendMap(b, types, func(t *hare.GPUType) string { return t.Type },
		func(b []byte, t *hare.GPUType) []byte { return gpuTypeTable.Append(b, t) })
}

// appendCanonicalHardware appends bandwidths and GPU types in the canonical form, each with a comma
// after it, and nothing where an instance has none.
func appendCanonicalHardware(b []byte, c *hare.Cluster) []byte {
	if len(c.Bandwidths) > 0 {
		b = AppendMap(append(b, `"bandwidth_mbps":`...),
			utf16Sorted(c.Bandwidths, func(at hare.LevelBandwidth) string { return at.Level }),
			func(at *hare.LevelBandwidth) string { return at.Level },
			func(b []byte, at *hare.LevelBandwidth) []byte { return appendInt(b, at.Mbps) })
		b = append(b, ',')
	}
	if len(c.GPUTypes) > 0 {
		b = AppendMap(append(b, `"gpu_types":`...),
			utf16Sorted(c.GPUTypes, func(t hare.GPUType) string { return t.Type }),
			func(t *hare.GPUType) string { return t.Type },
			func(b []byte, t *hare.GPUType) []byte {
				return append(appendInt(append(b, `{"memory_milli_gib":`...), t.MemoryMilliGiB), '}')
			})
		b = append(b, ',')
	}
	return b
}
