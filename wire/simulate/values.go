package simulate

import (
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// readPrices reads what an hour of a GPU costs, by type.
func readPrices(r *wire.Reader, req *Request) error {
	req.Prices = []TypePrice{}
	before, isObject := r.Faults(), r.Is('{')
	err := r.Object(nil, func(name string) (bool, error) {
		p := TypePrice{Type: name}
		err := r.Micros(&p.Micro, 1)
		req.Prices = append(req.Prices, p)
		return true, err
	})
	if err != nil || !isObject {
		return err
	}
	slices.SortFunc(req.Prices, func(a, b TypePrice) int { return strings.Compare(a.Type, b.Type) })
	if len(req.Prices) == 0 && r.Faults() == before {
		return r.Fault("no_prices", `give what an hour of a GPU costs by type, e.g. {"V100": 2.48, "K80": 0.45}, `+
			`or leave prices out`)
	}
	return nil
}

func writePrices(b []byte, req *Request) []byte {
	return wire.AppendMap(b, req.Prices,
		func(p *TypePrice) string { return p.Type },
		func(b []byte, p *TypePrice) []byte { return hare.AppendMicros(b, p.Micro) })
}

// readParameters reads the parameters of policies, each an object that is kept as it is written.
func readParameters(r *wire.Reader, req *Request) error {
	return r.Object(nil, func(name string) (bool, error) {
		if req.Parameters == nil {
			req.Parameters = map[string]json.RawMessage{}
		}
		var text []byte
		err := r.Verbatim('{', &text)
		req.Parameters[name] = text
		return true, err
	})
}

func writeParameters(b []byte, req *Request) []byte {
	return wire.AppendMap(b, slices.Sorted(maps.Keys(req.Parameters)),
		func(name *string) string { return *name },
		func(b []byte, name *string) []byte { return append(b, req.Parameters[*name]...) })
}

// DecodeParameters reads the field parameters of a request alone, as a file holds it.
func DecodeParameters(r io.Reader, lim wire.Limits) (map[string]json.RawMessage, error) {
	reader, req := wire.NewReader(r, lim), &Request{}
	if err := reader.Finish(readParameters(reader, req)); err != nil {
		return nil, err
	}
	return req.Parameters, nil
}

// readWindow reads [first, last].
func readWindow(r *wire.Reader, req *Request) error {
	n, before, isArray := 0, r.Faults(), r.Is('[')
	err := r.Array(func(i int) error {
		n++
		switch i {
		case 0:
			return r.Integer(&req.First, 0, hare.MaxExact)
		case 1:
			return r.Integer(&req.Last, 1, hare.MaxExact)
		}
		return r.Skip()
	})
	switch {
	case err != nil || !isArray:
		return err
	case n != 2:
		return r.Fault("wrong_type", "give the first and the last job that count, numbered from 0, e.g. [4000, 4999]")
	case r.Faults() == before && req.Last < req.First:
		return r.Fault("out_of_range", "the first job, %d, comes after the last, %d", req.First, req.Last)
	}
	return nil
}

func writeWindow(b []byte, req *Request) []byte {
	if req.Last == 0 {
		return b
	}
	b = strconv.AppendInt(append(b, '['), req.First, 10)
	return append(strconv.AppendInt(append(b, ','), req.Last, 10), ']')
}

// readUntil reads when a GPU returns; null is never.
func readUntil(r *wire.Reader, f *Fault) error {
	if r.Is('n') {
		f.UntilUs = hare.Forever
		return r.Skip()
	}
	return r.Micros(&f.UntilUs, 1)
}

func writeUntil(b []byte, f *Fault) []byte {
	if f.UntilUs == hare.Forever {
		return b
	}
	return hare.AppendMicros(b, f.UntilUs)
}

func readProbability(r *wire.Reader, f *Failures) error {
	err := readRate(r, &f.Probability)
	if err == nil && f.Probability >= 1 {
		return r.Fault("out_of_range", "must be at least 0 and less than 1")
	}
	return err
}

func writeProbability(b []byte, f *Failures) []byte { return writeRate(b, f.Probability) }

func readPerGPUHour(r *wire.Reader, f *Failures) error { return readRate(r, &f.PerGPUHour) }

func writePerGPUHour(b []byte, f *Failures) []byte { return writeRate(b, f.PerGPUHour) }

// readRate reads a decimal with at most six digits behind the point.
func readRate(r *wire.Reader, to *float64) error {
	var micro int64
	err := r.Micros(&micro, 0)
	*to = float64(micro) / 1e6
	return err
}

// writeRate rounds a rate to six digits behind the point. A rate that no document can
// have, such as NaN, is written all the same, so that the reader refuses the document
// and says where.
func writeRate(b []byte, rate float64) []byte {
	text := strconv.FormatFloat(rate, 'f', 6, 64)
	micro, err := hare.ParseMicros(text)
	switch {
	case err != nil:
		return append(b, text...)
	case micro == 0:
		return b
	}
	return hare.AppendMicros(b, micro)
}
