package explain

import (
	"context"
	"errors"
	"io"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/plot"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// ErrNoPrices says that a result's bound is not made of prices.
var ErrNoPrices = errors.New("explain: the bound of this solve is not made of prices")

// pricesMeaning goes with prices wherever they are shown.
const pricesMeaning = "bound_fall is an upper limit on how far the bound, not the value, can fall with one more GPU " +
	"of the type that is always in service. It is not what the GPU is worth: a what-if tells more."

// HasPrices says that the bound of a result is made of prices.
func HasPrices(res *hare.Result) bool {
	return res.Certificate != nil && res.Certificate.HasPrices()
}

// PricesOf reads the prices of a result's certificate, and computes the bound
// with one more GPU of each type again, until ctx ends. Without prices the error
// is ErrNoPrices.
func PricesOf(ctx context.Context, inst *hare.Instance, res *hare.Result) (*explaindoc.Prices, error) {
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
	out := &explaindoc.Prices{InstanceSHA256: wire.SHA256(inst), Bound: res.Bound, Meaning: pricesMeaning}
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
		p := explaindoc.TypePrice{Type: t.Type, Total: roundUp(t.Total), BoundFall: roundUp(after.Sub(before, after)),
			Prices: make([]explaindoc.Nanos, len(c.GridUs)-1)}
		if i := slices.IndexFunc(c.Prices, func(p hare.TypePrices) bool { return p.Type == t.Type }); i >= 0 {
			p.Prices = nanosOf(c.Prices[i].Nanos)
		}
		out.Types = append(out.Types, p)
	}
	for _, x := range c.Sizes {
		out.Sizes = append(out.Sizes, explaindoc.SizePrice{Type: x.Type, Tasks: x.Tasks, Prices: nanosOf(x.Nanos)})
	}
	return out, nil
}

func nanosOf(xs []int64) []explaindoc.Nanos {
	out := make([]explaindoc.Nanos, len(xs))
	for i, x := range xs {
		out[i] = explaindoc.Nanos(x)
	}
	return out
}

// roundUp returns b rounded up to a multiple of 1e-6 weight-seconds.
func roundUp(b *big.Rat) hare.Amount {
	a, _ := hare.FloorAmount(new(big.Rat).Neg(b)) // the limits of capacity and weights make b fit
	return a.Neg()
}

// EncodeSVG draws prices over time.
func EncodeSVG(w io.Writer, p *explaindoc.Prices) error {
	var curves []plot.PriceCurve
	for _, t := range p.Types {
		c := plot.PriceCurve{Name: t.Type + ": one more lowers the bound by at most " + t.BoundFall.String()}
		for _, x := range t.Prices {
			c.Prices = append(c.Prices, x.Float())
		}
		curves = append(curves, c)
	}
	grid := make([]int64, len(p.GridS))
	for i, t := range p.GridS {
		grid[i] = int64(t)
	}
	return plot.Prices(w, grid, curves, plot.Options{Title: "Price of a GPU-second, by type"})
}
