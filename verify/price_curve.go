package verify

import (
	"math/big"
	"slices"
)

// priceCurve is the price of a resource from time 0 on.
type priceCurve struct {
	grid   []int64
	prices []int64
	spent  []sum128 // ∫ π up to each grid point, in 1e-15 weight-seconds
	spentF []float64
}

func newPriceCurve(grid, prices []int64) *priceCurve {
	t := &priceCurve{grid: grid, prices: prices, spent: make([]sum128, len(grid)), spentF: make([]float64, len(grid))}
	var sum sum128
	for g, x := range prices {
		sum.addProduct(grid[g+1]-grid[g], x)
		t.spent[g+1] = sum
		t.spentF[g+1] = float64(sum.hi)*0x1p64 + float64(sum.lo)
	}
	return t
}

// cell returns the cell of time t, or the last grid point from the horizon on.
func (cu *priceCurve) cell(at int64) int {
	g, found := slices.BinarySearch(cu.grid, at)
	if !found {
		g--
	}
	return g
}

// upTo returns ∫_0^at π; a nil price curve is free.
func (cu *priceCurve) upTo(at int64) *big.Int {
	if cu == nil {
		return new(big.Int)
	}
	g := cu.cell(at)
	sum := cu.spent[g]
	if g < len(cu.prices) {
		sum.addProduct(at-cu.grid[g], cu.prices[g])
	}
	return sum.big()
}

func (cu *priceCurve) upToF(at int64) float64 {
	if cu == nil {
		return 0
	}
	g := cu.cell(at)
	if g == len(cu.prices) {
		return cu.spentF[g]
	}
	return cu.spentF[g] + float64(at-cu.grid[g])*float64(cu.prices[g])
}
