package solver

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// warmStart reads the prices of a certificate for the types of m; types without prices
// are free. It returns nil if there are no such prices. The truth of the bound does not
// depend on these prices.
func warmStart(m *model.Model, c *hare.Certificate) *hare.Relaxation {
	if c == nil || len(c.GridUs) < 2 || c.GridUs[0] != 0 {
		return nil
	}
	cells := len(c.GridUs) - 1
	for g := range cells {
		if c.GridUs[g+1] <= c.GridUs[g] || c.GridUs[g+1] > hare.MaxExact {
			return nil
		}
	}
	rel := &hare.Relaxation{GridUs: c.GridUs, Prices: make([][]float64, len(m.Types))}
	for k := range m.Types {
		rel.Prices[k] = make([]float64, cells)
		for _, p := range c.Prices {
			if p.Type != m.Types[k] || len(p.Nanos) != cells {
				continue
			}
			for g, x := range p.Nanos {
				rel.Prices[k][g] = float64(max(0, x)) * 1e-9
			}
		}
	}
	return rel
}
