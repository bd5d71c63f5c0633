package wire

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
)

// certificateDoc is a certificate while it is read or written.
type certificateDoc struct {
	*hare.Certificate
	form  string
	sizes bool // the certificate has prices by size
}

func readTypePrices(r *Reader, to *[]hare.TypePrices) error {
	return r.Object(nil, func(kind string) (bool, error) {
		p := hare.TypePrices{Type: kind}
		err := r.column(&p.Nanos, hare.MaxExact)
		*to = append(*to, p)
		return true, err
	})
}

func appendTypePrices(b []byte, prices []hare.TypePrices) []byte {
	b = append(b, '{')
	for i, p := range prices {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(AppendString(b, p.Type), ':')
		b = appendColumn(b, p.Nanos)
	}
	return append(b, '}')
}

// readSizes reads prices by type and number of tasks; any says that there is a type.
func readSizes(r *Reader, to *[]hare.SizePrices) (any bool, err error) {
	err = r.Object(nil, func(kind string) (bool, error) {
		any = true
		return true, r.Object(nil, func(tasks string) (bool, error) { return true, readSize(r, to, kind, tasks) })
	})
	return any, err
}

// readSize reads the prices of a number of tasks on a GPU type.
func readSize(r *Reader, to *[]hare.SizePrices, kind, tasks string) error {
	n, bad := strconv.ParseInt(tasks, 10, 64)
	if bad != nil || n < 2 || n > hare.MaxTasks(hare.Gang) || strconv.FormatInt(n, 10) != tasks {
		if err := r.Skip(); err != nil {
			return err
		}
		return r.Fault("bad_size", "%q is not a number of GPUs held together: give 2 to %d", hare.Clip(tasks),
			hare.MaxTasks(hare.Gang))
	}
	p := hare.SizePrices{Type: kind, Tasks: n}
	err := r.column(&p.Nanos, hare.MaxExact)
	*to = append(*to, p)
	return err
}

// appendSizes appends an object {type: {tasks: prices}}; sizes must be sorted.
func appendSizes(b []byte, sizes []hare.SizePrices) []byte {
	for i, s := range sizes {
		switch {
		case i == 0:
			b = append(b, '{')
		case s.Type != sizes[i-1].Type:
			b = append(b, `},`...)
		default:
			b = append(b, ',')
		}
		if i == 0 || s.Type != sizes[i-1].Type {
			b = append(AppendString(b, s.Type), `:{`...)
		}
		b = append(strconv.AppendInt(append(b, '"'), s.Tasks, 10), `":`...)
		b = appendColumn(b, s.Nanos)
	}
	if len(sizes) > 0 {
		b = append(b, `}}`...)
	}
	return b
}

// sortPrices sorts prices as a certificate has them.
func sortPrices(prices []hare.TypePrices, sizes []hare.SizePrices) {
	slices.SortFunc(prices, func(a, b hare.TypePrices) int { return strings.Compare(a.Type, b.Type) })
	slices.SortFunc(sizes, func(a, b hare.SizePrices) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), cmp.Compare(a.Tasks, b.Tasks))
	})
}
