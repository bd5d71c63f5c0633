package verify

import (
	"math/big"
	"slices"
)

// costOf returns the price of some GPUs of a type.
func (pc *priceCertificate) costOf(kind string, s *typeCapacity) *big.Int {
	if sizes := pc.sizes[kind]; len(sizes) > 0 {
		return pc.patterns(kind, sizes, s)
	}
	if curve := pc.curves[resource{kind, 1}]; curve != nil {
		return s.cost(pc.cert.GridUs, curve.prices)
	}
	return new(big.Int)
}

// patterns returns ∫ F over the grid. A table gives F for every M of a cell, and is
// valid until prices change. It takes O(cells · GPUs · sizes).
func (pc *priceCertificate) patterns(kind string, sizes []int64, s *typeCapacity) *big.Int {
	k := knapsack{peak: s.peak()}
	total := new(big.Int)
	known := -1 // the cell of the table
	s.walk(pc.cert.GridUs, func(cell int, level, length int64) {
		if cell != known {
			known = cell
			var offers []pricedSize
			if t := pc.curves[resource{kind, 1}]; t != nil {
				offers = append(offers, pricedSize{1, t.prices[cell]})
			}
			for _, gpus := range sizes {
				offers = append(offers, pricedSize{gpus, pc.curves[resource{kind, gpus}].prices[cell]})
			}
			k.fill(offers)
		}
		v := k.value(level)
		total.Add(total, v.Mul(v, big.NewInt(length)))
	})
	return total
}

// pricedSize is so many GPUs at a price, as often as wanted.
type pricedSize struct{ gpus, price int64 }

// knapsack returns the greatest price of a pattern that n GPUs hold, for n up to peak:
// max Σ count·price subject to Σ count·gpus ≤ n, with integer counts ≥ 0.
type knapsack struct {
	peak   int64
	offers []pricedSize
	short  []uint64 // by n, if all values fit
	long   []sum128 // by n, otherwise
}

func (k *knapsack) fill(offers []pricedSize) {
	if k.offers != nil && slices.Equal(offers, k.offers) {
		return
	}
	k.offers = offers
	dear := int64(0)
	for _, o := range offers {
		dear = max(dear, o.price)
	}
	// No pattern costs more than peak times the dearest price.
	if most := (sum128{}).plus(k.peak, dear); most.hi > 0 {
		k.short, k.long = nil, cleared(k.long, k.peak+1)
		for _, o := range offers {
			for n := o.gpus; n <= k.peak; n++ {
				if v := k.long[n-o.gpus].plus(1, o.price); v.compare(k.long[n]) > 0 {
					k.long[n] = v
				}
			}
		}
		return
	}
	k.short, k.long = cleared(k.short, k.peak+1), nil
	for _, o := range offers {
		for n := o.gpus; n <= k.peak; n++ {
			k.short[n] = max(k.short[n], k.short[n-o.gpus]+uint64(o.price))
		}
	}
}

func (k *knapsack) value(gpus int64) *big.Int {
	if k.short != nil {
		return new(big.Int).SetUint64(k.short[gpus])
	}
	return k.long[gpus].big()
}

// cleared returns n zeros, in the memory of xs if that is large enough.
func cleared[T any](xs []T, n int64) []T {
	xs = slices.Grow(xs[:0], int(n))[:n]
	clear(xs)
	return xs
}
