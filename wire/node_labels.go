package wire

import (
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
)

// readLabels reads the labels of a node.
func readLabels(r *Reader, to *[]hare.Label) error {
	before := r.Faults()
	err := r.Object(nil, func(name string) (bool, error) {
		l := hare.Label{Name: name}
		err := r.String(&l.Value)
		*to = append(*to, l)
		return true, err
	})
	if r.Faults() > before {
		*to = nil
	}
	slices.SortFunc(*to, func(a, b hare.Label) int { return strings.Compare(a.Name, b.Name) })
	return err
}

func appendLabels(b []byte, labels []hare.Label) []byte {
	return AppendMap(b, labels, func(l *hare.Label) string { return l.Name },
		func(b []byte, l *hare.Label) []byte { return AppendString(b, l.Value) })
}

// selectorField makes a field that chooses nodes by labels: an object of a label and the
// value of the label, or an array of values. A selector without labels is left out.
func selectorField[T any](name string, at func(*T) *[]hare.LabelValues) Field[T] {
	value := Schema{"type": []string{"string", "array"}, "items": Schema{"type": "string"}, "minItems": 1}
	return NewField(name, MapOf(value),
		func(r *Reader, v *T) error { return readSelector(r, at(v)) },
		func(b []byte, v *T) []byte { return appendSelector(b, *at(v)) })
}

// readSelector reads a selector into the sorted form.
func readSelector(r *Reader, to *[]hare.LabelValues) error {
	before := r.Faults()
	err := r.Object(nil, func(label string) (bool, error) {
		lv := hare.LabelValues{Label: label}
		err := readLabelValues(r, &lv.Values)
		*to = append(*to, lv)
		return true, err
	})
	if r.Faults() > before {
		*to = nil
	}
	slices.SortFunc(*to, func(a, b hare.LabelValues) int { return strings.Compare(a.Label, b.Label) })
	return err
}

func readLabelValues(r *Reader, to *[]string) error {
	one := func() error {
		var s string
		err := r.String(&s)
		*to = append(*to, s)
		return err
	}
	if !r.Is('[') {
		return one()
	}
	err := r.Array(func(int) error { return one() })
	slices.Sort(*to)
	*to = slices.Compact(*to)
	return err
}

// appendSelector appends a selector; a label with one value has it as a string.
func appendSelector(b []byte, selector []hare.LabelValues) []byte {
	return AppendMap(b, selector, func(lv *hare.LabelValues) string { return lv.Label },
		func(b []byte, lv *hare.LabelValues) []byte {
			if len(lv.Values) == 1 {
				return AppendString(b, lv.Values[0])
			}
			return appendList(b, lv.Values, AppendString)
		})
}

// appendCanonicalLabels appends the labels of a node in the canonical form.
func appendCanonicalLabels(b []byte, labels []hare.Label) []byte {
	return appendLabels(b, utf16Sorted(labels, func(l hare.Label) string { return l.Name }))
}

// appendCanonicalSelector appends a selector in the canonical form, in which each label has
// an array of values.
func appendCanonicalSelector(b []byte, selector []hare.LabelValues) []byte {
	return AppendMap(b, utf16Sorted(selector, func(lv hare.LabelValues) string { return lv.Label }),
		func(lv *hare.LabelValues) string { return lv.Label },
		func(b []byte, lv *hare.LabelValues) []byte {
			return appendList(b, utf16Sorted(lv.Values, func(s string) string { return s }), AppendString)
		})
}

// placementFields are the fields of an arriving job about nodes.
func placementFields[T any](at func(*T) *hare.Job) []Field[T] {
	return []Field[T]{
		Integer("gpus_per_task", func(v *T) *int64 { return &at(v).GPUsPerTask }, 1, hare.MaxGPUs),
		Millis("cpus_per_task", func(v *T) *int64 { return &at(v).CPUMilliPerTask }, 0, hare.MaxPerTask),
		Integer("memory_mib_per_task", func(v *T) *int64 { return &at(v).MemoryMiBPerTask }, 0, hare.MaxPerTask),
		Bool("distinct_nodes", func(v *T) *bool { return &at(v).DistinctNodes }),
		selectorField("only", func(v *T) *[]hare.LabelValues { return &at(v).Only }),
		selectorField("exclude", func(v *T) *[]hare.LabelValues { return &at(v).Exclude }),
		withinField(at),
	}
}

// appendPlacement appends what an arriving job says about nodes.
func appendPlacement(b []byte, j *hare.Job) []byte {
	if j.GPUsPerTask > 1 {
		b = strconv.AppendInt(append(b, `,"gpus_per_task":`...), j.GPUsPerTask, 10)
	}
	if j.CPUMilliPerTask > 0 {
		b = append(append(b, `,"cpus_per_task":`...), hare.FormatMillis(j.CPUMilliPerTask)...)
	}
	if j.MemoryMiBPerTask > 0 {
		b = strconv.AppendInt(append(b, `,"memory_mib_per_task":`...), j.MemoryMiBPerTask, 10)
	}
	if j.DistinctNodes {
		b = append(b, `,"distinct_nodes":true`...)
	}
	if len(j.Only) > 0 {
		b = appendSelector(append(b, `,"only":`...), j.Only)
	}
	if len(j.Exclude) > 0 {
		b = appendSelector(append(b, `,"exclude":`...), j.Exclude)
	}
	if j.Within != "" {
		b = AppendString(append(b, `,"within":`...), j.Within)
	}
	return b
}
