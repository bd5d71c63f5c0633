package verify

import (
	"math/big"
	"slices"
)

// capacity is what all GPUs in service cost: for each type ∫ M π, or ∫ F where
// several GPUs held together have prices of their own.
func (m *market) capacity() *big.Int {
	total := new(big.Int)
	for _, p := range m.cert.Prices {
		if len(m.sizes[p.Type]) == 0 {
			total.Add(total, m.supply[p.Type].cost(m.cert.GridUs, p.Nanos))
		}
	}
	for kind, sizes := range m.sizes {
		total.Add(total, m.patterns(kind, sizes))
	}
	return total
}

// patterns is ∫ F over the grid. A table gives F for every M of a cell, and
// stands until prices change. O(cells · GPUs · sizes).
func (m *market) patterns(kind string, sizes []int64) *big.Int {
	s := m.supply[kind]
	k := knapsack{peak: s.peak()}
	total := new(big.Int)
	known := -1 // the cell of the table
	s.walk(m.cert.GridUs, func(cell int, level, length int64) {
		if cell != known {
			known = cell
			var offers []offer
			if t := m.tariffs[good{kind, 1}]; t != nil {
				offers = append(offers, offer{1, t.prices[cell]})
			}
			for _, gpus := range sizes {
				offers = append(offers, offer{gpus, m.tariffs[good{kind, gpus}].prices[cell]})
			}
			k.fill(offers)
		}
		v := k.value(level)
		total.Add(total, v.Mul(v, big.NewInt(length)))
	})
	return total
}

// offer is so many GPUs at a price, as often as wanted.
type offer struct{ gpus, price int64 }

// knapsack gives the greatest price of a pattern that n GPUs hold, n up to peak:
// max Σ count·price subject to Σ count·gpus ≤ n, counts whole and ≥ 0.
type knapsack struct {
	peak   int64
	offers []offer
	short  []uint64 // by n, where all values fit
	long   []sum128 // by n, elsewhere
}

func (k *knapsack) fill(offers []offer) {
	if k.offers != nil && slices.Equal(offers, k.offers) {
		return
	}
	k.offers = offers
	dear := int64(0)
	for _, o := range offers {
		dear = max(dear, o.price)
	}
	// No pattern costs more than peak times the dearest.
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

// cleared is n zeros, in the room of xs where there is enough.
func cleared[T any](xs []T, n int64) []T {
	xs = slices.Grow(xs[:0], int(n))[:n]
	clear(xs)
	return xs
}
