package history

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hare-sched/hare"
)

// maxNodeGPUs is how many GPUs of a type a node may have: more than any node has, with virtual GPUs too, and so few
// that one wrong number does not use up the GPUs that a whole instance may have.
const maxNodeGPUs = 1 << 16

// keepBounds sets aside what an instance may not have: names that are too long, of nodes also with slashes, and
// amounts that are too large. One of them would cost the whole instance otherwise.
func (l *Log) keepBounds() {
	clean := strings.NewReplacer("/", "_")
	for i := range l.Nodes {
		n := &l.Nodes[i]
		place := Place{File: n.Name}
		if len(n.Name) > hare.MaxLabelText {
			place.File = n.Name[:40] + "…"
		}
		if name := cut(clean.Replace(n.Name)); name != n.Name {
			l.Report.setAside("the name of a node: it counts under a name without slashes, of up to 253 bytes", place, n.Name)
			n.Name = name
		}
		for _, amount := range []*int64{&n.CPUMilli, &n.MemoryMiB} {
			if *amount < 0 || *amount > hare.MaxPerTask {
				l.Report.setAside("CPUs or memory of a node, beyond what a node may have: counts as not known", place,
					itoa(*amount))
				*amount = 0
			}
		}
		n.Labels = slices.DeleteFunc(n.Labels, func(v hare.Label) bool { return v.Name == "" || tooLong(v.Name, v.Value) })
		for _, list := range []*[]string{&n.Partitions, &n.Features} {
			*list = slices.DeleteFunc(*list, func(name string) bool { return name == "" || tooLong("partition."+name) })
		}
	}
	for i := range l.Jobs {
		j := &l.Jobs[i]
		for k := range j.On {
			j.On[k].Node = cut(clean.Replace(j.On[k].Node))
		}
		for _, name := range []*string{&j.User, &j.Account, &j.Partition, &j.QOS} {
			if tooLong("partition." + *name) {
				l.Report.setAside("a name of more than 253 bytes: counts as not told", j.Place, *name)
				*name = ""
			}
		}
		for _, list := range []*[]hare.LabelValues{&j.Only, &j.Exclude} {
			*list = slices.DeleteFunc(*list, func(v hare.LabelValues) bool {
				bad := v.Label == "" || tooLong(v.Label) || tooLong(v.Values...)
				if bad {
					l.Report.setAside("a selector of nodes with a name that is empty or has more than 253 bytes: is not kept",
						j.Place, v.Label)
				}
				return bad
			})
			*list = (*list)[:min(len(*list), hare.MaxLabels)]
		}
		j.CPUMilli, j.MemoryMiB = min(max(0, j.CPUMilli), maxAmount), min(max(0, j.MemoryMiB), maxAmount)
	}
}

// maxAmount bounds the CPUs and the memory of a whole job.
const maxAmount = 1e15

func tooLong(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return len(name) > hare.MaxLabelText })
}

// cut keeps as many bytes of a name as a name may have.
func cut(name string) string {
	if len(name) <= hare.MaxLabelText {
		return name
	}
	name = name[:hare.MaxLabelText]
	for len(name) > 0 && !utf8.ValidString(name) {
		name = name[:len(name)-1]
	}
	return name
}
