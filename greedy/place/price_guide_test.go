package place

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// The tables are exact if a cell is a microsecond, a level is a round and rounds have no
// synchronisation. Otherwise the price of a round is spread over its synchronisation, too.
func TestGuideValues(t *testing.T) {
	const horizon = tableCells
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 9))
		j := hare.Job{ID: "j", WeightMicro: r.Int64N(3_000_000), Rounds: 1 + r.Int64N(6), Tasks: 1 + r.Int64N(5)}
		for _, k := range []string{"A", "B"} {
			j.On = append(j.On, hare.Profile{Type: k, ComputeUs: 1 + r.Int64N(9)})
		}
		gpus := []hare.TypeCount{{Type: "A", Count: 2}, {Type: "B", Count: 2}}
		m := model.New(&hare.Instance{Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: gpus}}},
			Jobs: []hare.Job{j}})
		rel := &hare.Relaxation{GridUs: []int64{0, 20, 21, 90}}
		for range m.Types {
			rel.Prices = append(rel.Prices, []float64{3 * r.Float64(), 5 * r.Float64(), r.Float64()})
		}
		price := func(k int, from, to int64) (sum float64) {
			for u := from; u < to; u++ {
				for x := range 3 {
					if rel.GridUs[x] <= u && u < rel.GridUs[x+1] {
						sum += rel.Prices[k][x] / 1e6
					}
				}
			}
			return sum
		}
		g := NewPriceGuide(m, 1, rel, []bool{false}, horizon, 1)
		// Prices are 0 from 90 µs on, so no job waits beyond.
		fast := min(m.Jobs[0].Modes[0].DurationUs(), m.Jobs[0].Modes[1].DurationUs())
		w := float64(j.WeightMicro) / 1e12
		plain := func(left, u int64) float64 { return w * float64(u+left*fast) }
		for left := int64(0); left <= j.Rounds; left++ {
			before := plain
			memo := map[int64]float64{}
			for u := int64(100); u >= 0; u-- {
				best := w * float64(u)
				if left > 0 {
					best = math.Inf(1)
					for _, md := range m.Jobs[0].Modes {
						best = min(best, float64(j.Tasks)*price(int(md.Type), u, u+md.ComputeUs)+before(left-1,
							u+md.DurationUs()))
					}
					if u < 100 {
						best = min(best, memo[u+1])
					}
				}
				memo[u] = best
				if got := g.costToGo(0, left, u); u < 95 && math.Abs(got-best) > 1e-6*math.Abs(best)+1e-15 {
					t.Fatalf("seed %d: %d rounds left at %d: %g, want %g", seed, left, u, got, best)
				}
			}
			plain = func(left, u int64) float64 {
				if v, ok := memo[u]; ok {
					return v
				}
				return w * float64(u+left*fast)
			}
		}
	}
}
