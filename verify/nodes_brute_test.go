package verify_test

import (
	"flag"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/verify"
)

// soak makes the test of bounds on nodes as long as it is before a release:
//
//	go test ./verify -run BoundsOnNodes -v -args -hare.soak
var soak = flag.Bool("hare.soak", false, "200,000 instances with rules about nodes")

// randomPools returns a certificate for inst with random prices and pools of all kinds on cells
// of one or two seconds.
func randomPools(r *rand.Rand, inst *hare.Instance, cells int) *hare.Certificate {
	c := &hare.Certificate{Method: hare.MethodPrice, Path: r.IntN(8) > 0, Objective: hare.ObjectiveWeightedJCT}
	if r.IntN(3) == 0 {
		c.StepUs = 500_000
	}
	c.GridUs = []int64{0}
	for g := range cells {
		c.GridUs = append(c.GridUs, c.GridUs[g]+int64(1+r.IntN(2))*1_000_000)
	}
	row := func(scale float64) []int64 {
		out, at := make([]int64, cells), r.Float64()*scale
		for g := range out {
			out[g] = int64(at * float64(cells-g) / float64(cells) * 1e9)
		}
		return out
	}
	kinds := map[string]bool{}
	var types []string
	limited := func(kind string, of func(*hare.Node) int64) bool {
		return !slices.ContainsFunc(inst.Cluster.Nodes, func(n hare.Node) bool {
			return of(&n) == 0 && slices.ContainsFunc(n.GPUs, func(g hare.TypeCount) bool { return g.Type == kind })
		})
	}
	for _, n := range inst.Cluster.Nodes {
		for _, g := range n.GPUs {
			if !kinds[g.Type] {
				kinds[g.Type] = true
				types = append(types, g.Type)
			}
		}
	}
	slices.Sort(types)
	for _, kind := range types {
		c.Prices = append(c.Prices, hare.TypePrices{Type: kind, Nanos: row(0.5)})
		var units []int64 // what may be held together
		for i := range inst.Jobs {
			j := &inst.Jobs[i]
			for x := range j.ShapeCount() {
				s := j.Shape(x)
				units = append(units, s.TaskGPUs(), s.Tasks*s.TaskGPUs())
			}
		}
		slices.Sort(units)
		units = slices.Compact(units)
		for _, s := range units {
			if s > 1 && r.IntN(2) == 0 {
				c.Sizes = append(c.Sizes, hare.SizePrices{Type: kind, Tasks: s, Nanos: row(0.5 * float64(s))})
			}
		}
		for _, per := range []string{hare.PerNode, hare.PerAll} {
			for _, only := range [][]hare.LabelValues{nil, {{Label: "node", Values: []string{"n0"}}},
				{{Label: "disk", Values: []string{"nvme"}}}} {
				if only == nil && per == hare.PerAll || r.IntN(3) == 0 {
					continue
				}
				p := hare.Pool{Type: kind, Per: per, Only: only}
				if r.IntN(2) == 0 {
					p.Nanos = row(0.3)
				}
				for _, s := range units {
					if r.IntN(3) > 0 {
						p.Sizes = append(p.Sizes, hare.PoolSize{GPUs: s, Nanos: row(0.3 * float64(s))})
					}
				}
				c.Pools = append(c.Pools, p)
			}
		}
		if limited(kind, func(n *hare.Node) int64 { return n.CPUMilli }) && r.IntN(3) > 0 {
			c.Pools = append(c.Pools, hare.Pool{Resource: hare.PoolCPUs, Type: kind, Nanos: row(0.5)})
		}
		if limited(kind, func(n *hare.Node) int64 { return n.MemoryMiB }) && r.IntN(3) > 0 {
			c.Pools = append(c.Pools, hare.Pool{Resource: hare.PoolMemory, Type: kind, Nanos: row(0.5)})
		}
	}
	return c
}

// priceRows returns all rows of prices of a certificate.
func priceRows(c *hare.Certificate) [][]int64 {
	var rows [][]int64
	for i := range c.Prices {
		rows = append(rows, c.Prices[i].Nanos)
	}
	for i := range c.Sizes {
		rows = append(rows, c.Sizes[i].Nanos)
	}
	for i := range c.Pools {
		if c.Pools[i].Nanos != nil {
			rows = append(rows, c.Pools[i].Nanos)
		}
		for x := range c.Pools[i].Sizes {
			rows = append(rows, c.Pools[i].Sizes[x].Nanos)
		}
	}
	return rows
}

// ascend raises value, a bound at the prices of c, by random changes of a row or of some of its
// cells, and returns the greatest value.
func ascend(r *rand.Rand, c *hare.Certificate, steps int, value func() float64) float64 {
	rows := priceRows(c)
	best := value()
	step := 1.0
	for range steps {
		row := rows[r.IntN(len(rows))]
		before := slices.Clone(row)
		from, to := 0, len(row)
		if r.IntN(3) > 0 {
			from = r.IntN(len(row))
			to = from + 1 + r.IntN(len(row)-from)
		}
		factor, add := math.Exp(step*r.NormFloat64()), step*r.NormFloat64()*1e8
		if r.IntN(8) == 0 {
			factor = 0
		}
		for g := from; g < to; g++ {
			row[g] = max(0, int64(float64(row[g])*factor+add))
		}
		if v := value(); v > best {
			best = v
			step = min(1, step*1.3)
		} else {
			copy(row, before)
			step = max(1e-3, step*0.97)
		}
	}
	return best
}

// For random tiny instances with all rules about nodes mixed, no certificate whose prices are
// optimised proves more than the optimum, and the optimal schedule is accepted with its
// value.
func TestBoundsOnNodes(t *testing.T) {
	instances, steps := 400, 60
	if testing.Short() {
		instances = 60
	}
	if *soak {
		instances = 200_000
	}
	r := rand.New(rand.NewPCG(15, 1))
	tried, tight, gaps := 0, 0, 0.0
	for i := range instances {
		inst := brute.RandomOnNodes(r)
		opt, plan, done := brute.OptimumOnNodes(inst, 20_000)
		if !done || plan == nil {
			continue
		}
		tried++
		optimum := hare.Product(1, opt)
		value, _, faults := verify.ScheduleValue(inst, plan)
		if len(faults) > 0 || value.Cmp(optimum) != 0 {
			t.Fatalf("instance %d: the optimal schedule of value %v has value %v, faults %v", i, optimum, value, faults)
		}
		limit := new(big.Rat).SetFrac(optimum.Big(), big.NewInt(1e12))
		for _, method := range []string{hare.MethodCriticalPath, hare.MethodMachine} {
			low, err := verify.Bound(inst, &hare.Certificate{Method: method, Objective: hare.ObjectiveWeightedJCT})
			if err != nil || low.Cmp(limit) > 0 {
				t.Fatalf("instance %d: %s proves %v, %v, optimum %v", i, method, low, err, optimum)
			}
		}
		cert := randomPools(r, inst, 6)
		best := ascend(r, cert, steps, func() float64 {
			low, err := verify.Bound(inst, cert)
			if err != nil {
				t.Fatalf("instance %d: %v", i, err)
			}
			if low.Cmp(limit) > 0 {
				t.Fatalf("instance %d: prices prove %v, optimum %v: %+v %+v", i, low.FloatString(9), optimum, inst, cert)
			}
			if want := naiveOnNodes(inst, cert, nodeReading{}); math.Abs(want-ratFloat(low)) > 1e-6 {
				t.Fatalf("instance %d: bound %v, naive %v: %+v %+v", i, low.FloatString(9), want, inst, cert)
			}
			return ratFloat(low)
		})
		gaps += 1 - best/optimum.Float()
		if best > optimum.Float()*0.999999 {
			tight++
		}
	}
	t.Logf("%d instances, %d bounds equal to the optimum, mean gap %.3f", tried, tight, gaps/float64(tried))
}

func ratFloat(x *big.Rat) float64 {
	f, _ := x.Float64()
	return f
}
