package explain

import (
	"context"
	"errors"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/plot"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// ErrNoPrices says that a result's bound is not made of prices.
var ErrNoPrices = errors.New("explain: the bound of this solve is not made of prices")

// PricesMeaning goes with prices wherever they are shown.
const PricesMeaning = "bound_fall is an upper limit on how far the bound, not the value, can fall with one more GPU " +
	"of the type that is always in service. It is not what the GPU is worth: a what-if tells more."

// Prices are the prices of a certificate, by type and time.
type Prices struct {
	InstanceSHA256 string       `json:"instance_sha256"`
	Bound          *hare.Amount `json:"bound"`
	// Meaning says what the figures mean, and what they do not mean.
	Meaning string `json:"meaning"`
	// GridS are the boundaries of the cells, in seconds; after the last boundary all prices are 0.
	GridS []hare.Seconds `json:"grid_s"`
	Types []TypePrice    `json:"types"`
	// Sizes are prices of several GPUs that one gang holds together.
	Sizes []SizePrice `json:"sizes,omitempty"`
} //	@name	Prices

// TypePrice is one type's price of a GPU-second, in weight-seconds, by cell.
type TypePrice struct {
	Type string `json:"type"`
	// Total is Σ price · length. Where gangs have prices of their own, it is what the dearest use of one more GPU
	// costs. It is rounded up at six decimals.
	Total hare.Amount `json:"total"`
	// BoundFall is an upper limit on how far the bound can fall with one more GPU of the type that is always in
	// service, rounded up at six decimals. It is not what that GPU is worth.
	BoundFall hare.Amount `json:"bound_fall"`
	// Prices has a price for each cell.
	Prices []nanos `json:"prices"`
} //	@name	TypePrice

// SizePrice is the price of several GPUs of a type that one gang holds together for a second.
type SizePrice struct {
	Type   string  `json:"type"`
	Tasks  int64   `json:"tasks"`
	Prices []nanos `json:"prices"`
} //	@name	SizePrice

// nanos is a number in units of 1e-9, written as an exact decimal.
type nanos int64

func (na nanos) text() string {
	s := strconv.FormatInt(int64(na), 10)
	if len(s) < 10 {
		s = strings.Repeat("0", 10-len(s)) + s
	}
	s = s[:len(s)-9] + "." + s[len(s)-9:]
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// MarshalJSON writes the exact decimal.
func (na nanos) MarshalJSON() ([]byte, error) { return []byte(na.text()), nil }

// HasPrices says that the bound of a result is made of prices.
func HasPrices(res *hare.Result) bool {
	return res.Certificate != nil && res.Certificate.Method == hare.MethodPrice
}

// PricesOf reads the prices of a result's certificate, and computes the bound
// with one more GPU of each type anew, until ctx ends. Without prices the error
// is ErrNoPrices.
func PricesOf(ctx context.Context, inst *hare.Instance, res *hare.Result) (*Prices, error) {
	if !HasPrices(res) {
		return nil, ErrNoPrices
	}
	c := res.Certificate
	totals, err := verify.OneMore(inst, c)
	if err != nil {
		return nil, err
	}
	prices, err := verify.NewPrices(c)
	if err != nil {
		return nil, err
	}
	before, err := prices.Bound(inst)
	if err != nil {
		return nil, err
	}
	out := &Prices{InstanceSHA256: wire.SHA256(inst), Bound: res.Bound, Meaning: PricesMeaning}
	for _, t := range c.GridUs {
		out.GridS = append(out.GridS, hare.Seconds(t))
	}
	for _, t := range totals {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		after, err := prices.Bound(verify.WithOneMore(inst, t.Type))
		if err != nil {
			return nil, err
		}
		p := TypePrice{Type: t.Type, Total: roundUp(t.Total), BoundFall: roundUp(after.Sub(before, after)),
			Prices: make([]nanos, len(c.GridUs)-1)}
		if i := slices.IndexFunc(c.Prices, func(p hare.TypePrices) bool { return p.Type == t.Type }); i >= 0 {
			p.Prices = nanosOf(c.Prices[i].Nanos)
		}
		out.Types = append(out.Types, p)
	}
	for _, x := range c.Sizes {
		out.Sizes = append(out.Sizes, SizePrice{x.Type, x.Tasks, nanosOf(x.Nanos)})
	}
	return out, nil
}

func nanosOf(xs []int64) []nanos {
	out := make([]nanos, len(xs))
	for i, x := range xs {
		out[i] = nanos(x)
	}
	return out
}

// roundUp returns b rounded up to a multiple of 1e-6 weight-seconds.
func roundUp(b *big.Rat) hare.Amount {
	a, _ := hare.FloorAmount(new(big.Rat).Neg(b)) // the limits of capacity and weights make b fit
	return a.Neg()
}

// EncodeCSV writes a line for each cell and type. The column tasks is 1 for the
// price of a single GPU.
func (p *Prices) EncodeCSV(w io.Writer) error {
	b := []byte("type,tasks,from_s,to_s,price\n")
	row := func(kind string, tasks int64, prices []nanos) {
		for g, x := range prices {
			b = append(b, csvText(kind)...)
			b = append(strconv.AppendInt(append(b, ','), tasks, 10), ',')
			from, to := hare.FormatMicros(int64(p.GridS[g])), hare.FormatMicros(int64(p.GridS[g+1]))
			b = append(b, from+","+to+","+x.text()+"\n"...)
		}
	}
	for _, t := range p.Types {
		row(t.Type, 1, t.Prices)
	}
	for _, t := range p.Sizes {
		row(t.Type, t.Tasks, t.Prices)
	}
	_, err := w.Write(b)
	return err
}

// csvText returns a field of a CSV file, quoted where RFC 4180 requires quotes.
func csvText(s string) string {
	if strings.ContainsAny(s, ",\"\r\n") {
		return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
	}
	return s
}

// EncodeSVG draws the prices over time.
func (p *Prices) EncodeSVG(w io.Writer) error {
	var curves []plot.PriceCurve
	for _, t := range p.Types {
		c := plot.PriceCurve{Name: t.Type + ": one more lowers the bound by at most " + t.BoundFall.String()}
		for _, x := range t.Prices {
			c.Prices = append(c.Prices, float64(x)/1e9)
		}
		curves = append(curves, c)
	}
	grid := make([]int64, len(p.GridS))
	for i, t := range p.GridS {
		grid[i] = int64(t)
	}
	return plot.Prices(w, grid, curves, plot.Options{Title: "Price of a GPU-second, by type"})
}
