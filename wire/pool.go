package wire

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/hare-sched/hare"
)

// poolDoc is a pool of a certificate while it is read or written. A pool is named by one of
// three members that hold its GPU type, type, cpus or memory, or by the index of its quota.
type poolDoc struct {
	*hare.Pool
}

// poolKind makes the member that names a pool of one resource.
func poolKind(name string, resource hare.PoolResource) Field[poolDoc] {
	return NewField(name, Schema{"type": "string"},
		func(r *Reader, v *poolDoc) error {
			v.Resource = resource
			return r.String(&v.Type)
		},
		func(b []byte, v *poolDoc) []byte {
			if v.Resource != resource {
				return b
			}
			return AppendString(b, v.Type)
		})
}

var poolTable = NewTable("Pool",
	"Pool prices a resource of some nodes, or a quota. It has one of type, cpus and memory, which names the GPU "+
		"type, or quota.",
	poolKind("type", hare.PoolGPUs).About("type is the GPU type of a pool of GPUs."),
	poolKind("cpus", hare.PoolCPUs).About("cpus prices the CPUs of the nodes that have GPUs of this type."),
	poolKind("memory", hare.PoolMemory).About("memory prices the memory of the nodes that have GPUs of this type."),
	NewField("quota", Schema{"type": "integer", "format": "int64", "minimum": 0},
		func(r *Reader, v *poolDoc) error {
			v.Resource = hare.PoolQuota
			quota := int64(0)
			err := r.Integer(&quota, 0, hare.MaxQuotas)
			v.Quota = int(quota)
			return err
		},
		func(b []byte, v *poolDoc) []byte {
			if v.Resource != hare.PoolQuota {
				return b
			}
			return appendInt(b, int64(v.Quota))
		}).
		About("quota is the index of the quota of the instance whose GPUs the pool prices."),
	String("per", func(v *poolDoc) *string { return &v.Per }).
		About("per splits a pool of GPUs into domains: node, each node by itself, a label of the topology of the cluster, "+
			"or all, all nodes together."),
	selectorField("only", func(v *poolDoc) *[]hare.LabelValues { return &v.Only }).
		About("only chooses the nodes of a pool of GPUs, as only of a job does. Left out: all nodes."),
	NewField("prices", integers,
		func(r *Reader, v *poolDoc) error { return r.column(&v.Nanos, hare.MaxExact) },
		func(b []byte, v *poolDoc) []byte {
			if v.Nanos == nil {
				return b
			}
			return appendColumn(b, v.Nanos)
		}).
		About("prices of one GPU, CPU or MiB, one a cell, in 1e-9 weight-seconds per second. Left out: 0."),
	NewField("sizes", MapOf(integers), readPoolSizes,
		func(b []byte, v *poolDoc) []byte {
			return AppendMap(b, v.Sizes, func(s *hare.PoolSize) string { return strconv.FormatInt(s.GPUs, 10) },
				func(b []byte, s *hare.PoolSize) []byte { return appendColumn(b, s.Nanos) })
		}).
		About("sizes by number of GPUs: what a unit of so many GPUs in one domain pays in place of prices."),
).Check(func(v *poolDoc, has Members, found *hare.InvalidErrors) {
	slices.SortFunc(v.Sizes, func(a, b hare.PoolSize) int { return cmp.Compare(a.GPUs, b.GPUs) })
	kinds := 0
	for _, name := range []string{"type", "cpus", "memory", "quota"} {
		if has.Has(name) {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		found.Add("", "missing_field", `needs one of "type", "cpus" and "memory", with the name of a GPU type, or "quota"`)
	case v.Resource == hare.PoolGPUs && v.Per == "":
		found.Add("", "missing_field", `"per" is missing: give %q, %q or a label of the topology`, hare.PerNode,
			hare.PerAll)
	case v.Resource != hare.PoolGPUs:
		for _, name := range []string{"per", "only", "sizes"} {
			if has.Has(name) && (name != "sizes" || v.Resource != hare.PoolQuota) {
				found.Add("/"+name, "not_allowed", "belongs to pools of GPUs")
			}
		}
	}
})

func readPoolSizes(r *Reader, v *poolDoc) error {
	return r.Object(nil, func(gpus string) (bool, error) {
		n, bad := strconv.ParseInt(gpus, 10, 64)
		if bad != nil || n < 1 || n > hare.MaxGPUs || strconv.FormatInt(n, 10) != gpus {
			if err := r.Skip(); err != nil {
				return true, err
			}
			return true, r.Fault("bad_size", "%q is not a number of GPUs held together: give 1 to %d", hare.Clip(gpus),
				hare.MaxGPUs)
		}
		p := hare.PoolSize{GPUs: n}
		err := r.column(&p.Nanos, hare.MaxExact)
		v.Sizes = append(v.Sizes, p)
		return true, err
	})
}
