package verify_test

import (
	"flag"
	"fmt"
	"math/big"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/verify"
)

// TestMain draws more cases than the default of rapid; -rapid.checks overrides the
// number. Tiny instances leave small heaps, whose collections cost much of the time of the
// tests: heaps below a GiB may grow to nine times what lives.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(800)
		debug.SetMemoryLimit(1 << 30)
	}
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("1500"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func rat(x int64) *big.Rat { return new(big.Rat).SetInt64(x) }

// knapsackPhi computes φ of a relaxed or gang job by the primal of docs/inside/design.md,
// section 2.2, in rationals and in units of 1e-15: for each last piece, it takes the
// cheapest rounds first from the lower hulls of the pieces.
func knapsackPhi(job *hare.Job, grid []int64, prices map[string][]int64, path int64) *big.Rat {
	w := rat(1000 * job.WeightMicro)
	a := job.ReleaseUs
	var cuts []int64
	for _, t := range append([]int64{a, path}, grid...) {
		cuts = append(cuts, t)
		for _, p := range job.On {
			cuts = append(cuts, t+p.SyncUs) // more cuts than needed change nothing
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	cuts = cuts[slices.Index(cuts, a):]
	price := func(p hare.Profile, t, next int64) *big.Rat {
		row := prices[p.Type]
		if t >= grid[len(grid)-1] || row == nil {
			return rat(0)
		}
		if job.Sync != hare.Relaxed {
			for g := range row {
				if grid[g] <= t && t < grid[g+1] {
					return new(big.Rat).Mul(rat(job.Tasks), rat(row[g]))
				}
			}
		}
		// least is the minimum of the trailing window at the middle of the piece.
		least := int64(-1)
		for g := range row {
			if 2*grid[g] <= t+next && 2*grid[g+1] > max(t+next-2*p.SyncUs, 2*a) && (least < 0 || row[g] < least) {
				least = row[g]
			}
		}
		return new(big.Rat).Mul(rat(job.Tasks), big.NewRat(p.ComputeUs,
			p.DurationUs()).Mul(big.NewRat(p.ComputeUs, p.DurationUs()), rat(least)))
	}
	type part struct{ slope, rounds *big.Rat } // rounds is nil in an endless piece
	hull := func(i int, extra *big.Rat) []part {
		type point struct{ rate, cost *big.Rat }
		next := cuts[len(cuts)-1] + 2
		var length *big.Rat
		if i+1 < len(cuts) {
			next = cuts[i+1]
			length = rat(next - cuts[i])
		}
		at := point{rat(0), rat(0)}
		var out []part
		for {
			var best point
			var slope *big.Rat
			for _, p := range job.On {
				x := point{big.NewRat(1, p.DurationUs()), new(big.Rat).Add(price(p, cuts[i], next), extra)}
				if x.rate.Cmp(at.rate) <= 0 {
					continue
				}
				s := new(big.Rat).Quo(new(big.Rat).Sub(x.cost, at.cost), new(big.Rat).Sub(x.rate, at.rate))
				if slope == nil || s.Cmp(slope) < 0 || s.Cmp(slope) == 0 && x.rate.Cmp(best.rate) > 0 {
					best, slope = x, s
				}
			}
			if slope == nil {
				return out
			}
			var rounds *big.Rat
			if length != nil {
				rounds = new(big.Rat).Mul(length, new(big.Rat).Sub(best.rate, at.rate))
			}
			out = append(out, part{slope, rounds})
			at = best
		}
	}
	var least *big.Rat
	for L, b := range cuts {
		if b < path {
			continue
		}
		var all []part
		for i := range L {
			all = append(all, hull(i, rat(0))...)
		}
		all = append(all, hull(L, w)...)
		slices.SortStableFunc(all, func(x, y part) int { return x.slope.Cmp(y.slope) })
		left := rat(job.Rounds)
		cost := new(big.Rat).Mul(w, rat(b))
		for _, x := range all {
			n := left
			if x.rounds != nil && x.rounds.Cmp(left) < 0 {
				n = x.rounds
			}
			cost.Add(cost, new(big.Rat).Mul(n, x.slope))
			left = new(big.Rat).Sub(left, n)
		}
		if left.Sign() == 0 && (least == nil || cost.Cmp(least) < 0) {
			least = cost
		}
	}
	return least
}

// The dual that Bound evaluates equals the knapsack exactly.
func TestBoundIsTheKnapsack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(least, most int, what string) int64 { return int64(rapid.IntRange(least, most).Draw(t, what)) }
		inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
		cert := &hare.Certificate{Method: hare.MethodPrice, Path: rapid.Bool().Draw(t, "path"),
			Objective: hare.ObjectiveWeightedJCT, GridUs: []int64{0}}
		scale := rapid.SampledFrom([]int64{1, 1, 7, 1_000_003}).Draw(t, "scale")
		for range n(1, 7, "cells") {
			cert.GridUs = append(cert.GridUs, cert.GridUs[len(cert.GridUs)-1]+n(1, 6, "cell")*scale)
		}
		want, prices := new(big.Rat), map[string][]int64{}
		for _, kind := range []string{"A", "B", "C"} {
			count := n(1, 3, "gpus")
			inst.Cluster.Nodes = append(inst.Cluster.Nodes,
				haretest.Node(kind, kind, int(count)))
			if n(0, 3, "priced") == 0 {
				continue
			}
			p := hare.TypePrices{Type: kind}
			for g := 1; g < len(cert.GridUs); g++ {
				x := n(0, 6, "price") * rapid.SampledFrom([]int64{1, 100, 999_999_937}).Draw(t, "factor")
				p.Nanos = append(p.Nanos, x)
				want.Sub(want, rat(x*count*(cert.GridUs[g]-cert.GridUs[g-1])))
			}
			prices[kind] = p.Nanos
			cert.Prices = append(cert.Prices, p)
		}
		for i := range n(1, 2, "jobs") {
			j := hare.Job{ID: fmt.Sprint(i), WeightMicro: n(0, 4, "weight") * 999_983,
				ReleaseUs: n(0, 20, "release") * scale,
				Rounds:    n(1, 6, "rounds"), Tasks: n(1, 3, "tasks"), Sync: hare.Sync(n(0, 1, "sync"))}
			for _, kind := range []string{"A", "B", "C"} {
				j.On = append(j.On, hare.Profile{Type: kind, ComputeUs: n(1, 5, "p") * scale,
					SyncUs: n(0, 8, "s") * scale})
			}
			inst.Jobs = append(inst.Jobs, j)
			path := j.ReleaseUs
			if cert.Path {
				path += j.Rounds * naiveTau(inst, &j)
			}
			want.Add(want, knapsackPhi(&j, cert.GridUs, prices, path))
			want.Sub(want, rat(j.WeightMicro*1000*j.ReleaseUs))
		}
		want.Quo(want, rat(1e15))
		got, err := verify.Bound(inst, cert)
		if err != nil && strings.Contains(err.Error(), "never run") {
			t.Skip("too wide")
		}
		if err != nil || got.Cmp(want) != 0 {
			t.Fatalf("bound %v %v, want %v (%s)", got, err, want, want.FloatString(18))
		}
	})
}

// naiveTau lists the ends of tasks on an empty cluster with one node for each type.
func naiveTau(inst *hare.Instance, j *hare.Job) int64 {
	var ends []int64
	for _, p := range j.On {
		count := 0
		for _, n := range inst.Cluster.Nodes {
			if n.Name == p.Type {
				count = n.GPUs[0].Count
			}
		}
		if j.Sync == hare.Gang && int64(count) < j.Tasks {
			continue
		}
		for x := range j.Tasks {
			for range count {
				if j.Sync == hare.Relaxed {
					ends = append(ends, (x+1)*p.ComputeUs+p.SyncUs)
				} else {
					ends = append(ends, p.DurationUs())
				}
			}
		}
	}
	slices.Sort(ends)
	if len(ends) < int(j.Tasks) {
		return 1 << 20
	}
	return ends[j.Tasks-1]
}

// The figures are computed by hand: one GPU, jobs of 1, 2 and 3 s with weights 1, 4 and
// 3.
func TestMachineAndCriticalPath(t *testing.T) {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{haretest.Node("n", "A", 2)}}}
	for i, w := range []int64{1, 4, 3} {
		inst.Jobs = append(inst.Jobs, hare.Job{ID: fmt.Sprint(i), WeightMicro: w * 1e6, Rounds: 1, Tasks: 1,
			On: []hare.Profile{{Type: "A", ComputeUs: int64(i+1) * 1e6, SyncUs: 500000}}})
	}
	for method, want := range map[string]*big.Rat{
		// At speed 2 and w/W = 1, 2, 1, the jobs end at 1.5, 1 and 3 on the machine; then σ is
		// added.
		hare.MethodMachine:      big.NewRat(1*20+4*15+3*35, 10),
		hare.MethodCriticalPath: big.NewRat(1*15+4*25+3*35, 10),
	} {
		got, err := verify.Bound(inst, &hare.Certificate{Method: method, Objective: hare.ObjectiveWeightedJCT})
		if err != nil || got.Cmp(want) != 0 {
			t.Errorf("%s: %v %v, want %v", method, got, err, want)
		}
	}
	// The release preempts the first job, so its B is the mean of two parts.
	inst.Jobs = inst.Jobs[:2]
	inst.Jobs[0].Rounds = 4 // 4 s of work at speed 2: [0, 0.5) and [1.5, 3)
	inst.Jobs[1].ReleaseUs = 500000
	got, err := verify.Bound(inst, &hare.Certificate{Method: hare.MethodMachine, Objective: hare.ObjectiveWeightedJCT})
	// The first job has B = (0.5·0.25 + 1.5·2.25)/2 = 1.75, W/2M = 1 and σ = 0.5. The second
	// job has weight 4, B = 1, W/2M = 0.5, σ = 0.5, and a release of 0.5.
	if exact := big.NewRat(325+600, 100); err != nil || got.Cmp(exact) != 0 {
		t.Errorf("machine with a release: %v %v, want %v", got, err, exact)
	}
}

// A certificate of an accepted result is refused after every change that makes it false.
func TestCertificateMutations(t *testing.T) {
	for name, change := range map[string]func(*hare.Result){
		"bound raised by 1e-6":       func(r *hare.Result) { r.Certificate.Bound = raised(r.Certificate.Bound) },
		"bound with five decimals":   func(r *hare.Result) { r.Certificate.Bound = "1.00000" },
		"bound in hexadecimal":       func(r *hare.Result) { r.Certificate.Bound = "0x1.000000" },
		"bound missing":              func(r *hare.Result) { r.Certificate.Bound = "" },
		"result's bound raised":      func(r *hare.Result) { b := r.Bound.Add(hare.Product(1, 1)); r.Bound = &b },
		"no certificate":             func(r *hare.Result) { r.Certificate = nil },
		"unknown method":             func(r *hare.Result) { r.Certificate.Method = "oracle" },
		"method changed":             func(r *hare.Result) { r.Certificate.Method = hare.MethodMachine },
		"another objective":          func(r *hare.Result) { r.Certificate.Objective = "makespan" },
		"hash of another instance":   func(r *hare.Result) { r.Certificate.InstanceSHA256 = strings.Repeat("0", 64) },
		"result of another instance": func(r *hare.Result) { r.InstanceSHA256 = strings.Repeat("0", 64) },
		"grid that starts late":      func(r *hare.Result) { r.Certificate.GridUs[0] = 1 },
		"grid out of order":          func(r *hare.Result) { r.Certificate.GridUs[2] = r.Certificate.GridUs[1] },
		"grid cut short":             func(r *hare.Result) { r.Certificate.GridUs = r.Certificate.GridUs[:3] },
		"no grid":                    func(r *hare.Result) { r.Certificate.GridUs = nil },
		"negative price":             func(r *hare.Result) { r.Certificate.Prices[0].Nanos[1] = -1 },
		"unknown type":               func(r *hare.Result) { r.Certificate.Prices[0].Type = "H100" },
		"type twice":                 func(r *hare.Result) { r.Certificate.Prices[0].Type = r.Certificate.Prices[1].Type },
		"prices cut short":           func(r *hare.Result) { p := &r.Certificate.Prices[0]; p.Nanos = p.Nanos[1:] },
		"value lowered by 1e-12":     func(r *hare.Result) { v := r.Value.Sub(hare.Product(1, 1)); r.Value = &v },
		"no value":                   func(r *hare.Result) { r.Value = nil },
		"said to be optimal":         func(r *hare.Result) { r.Termination = hare.TerminationOptimal },
		"objective of the result":    func(r *hare.Result) { r.Objective = "" },
		"end of a job":               func(r *hare.Result) { r.Jobs[0].EndUs++ },
		"start of a job":             func(r *hare.Result) { r.Jobs[0].StartUs = 123 },
		"a job listed twice":         func(r *hare.Result) { r.Jobs[1] = r.Jobs[0] },
		"a job not listed":           func(r *hare.Result) { r.Jobs = r.Jobs[1:] },
		"no schedule":                func(r *hare.Result) { r.Schedule = nil },
		"gpu renamed":                func(r *hare.Result) { r.Schedule.Lanes[0].GPU += "0" },
		"gpu with a leading zero": func(r *hare.Result) {
			g := &r.Schedule.Lanes[0].GPU
			*g = strings.Replace(*g, "/",
				"/0", 1)
		},
		"gpu twice":       func(r *hare.Result) { r.Schedule.Lanes[1].GPU = r.Schedule.Lanes[0].GPU },
		"a lane less":     func(r *hare.Result) { r.Schedule.Lanes = r.Schedule.Lanes[1:] },
		"columns unequal": func(r *hare.Result) { l := &r.Schedule.Lanes[0]; l.StartUs = l.StartUs[1:] },
	} {
		for _, file := range []string{"three-jobs", "windows", "traps"} {
			inst, res := example(t, file)
			if rep := verify.Check(inst, res); !rep.OK {
				t.Fatal(rep)
			}
			change(res)
			rep := verify.Check(inst, res)
			if rep.OK || len(rep.Faults) == 0 {
				t.Errorf("%s: %s is accepted: %v", file, name, rep)
			}
		}
	}
}

// raised returns a printed bound with one unit more in its last place.
func raised(bound string) string {
	x, _ := new(big.Rat).SetString(bound)
	return x.Add(x, big.NewRat(1, 1e6)).FloatString(6)
}

// Random changes to prices and grids never give a bound above the value of a feasible
// schedule.
func TestAnyPricesBoundAnySchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inst, s := tiny(t)
		value, _, faults := verify.ScheduleValue(inst, s)
		if len(faults) > 0 {
			t.Skip("no schedule")
		}
		cert := &hare.Certificate{Method: rapid.SampledFrom([]string{hare.MethodPrice, hare.MethodPrice,
			hare.MethodPrice,
			hare.MethodMachine, hare.MethodCriticalPath}).Draw(t, "method"), Objective: hare.ObjectiveWeightedJCT}
		if cert.Method == hare.MethodPrice {
			cert.Path = rapid.Bool().Draw(t, "path")
			cert.GridUs = []int64{0}
			for range rapid.IntRange(1, 12).Draw(t, "cells") {
				cert.GridUs = append(cert.GridUs, cert.GridUs[len(cert.GridUs)-1]+rapid.Int64Range(1, 4).Draw(t,
					"cell"))
			}
			for _, kind := range []string{"A", "B"} {
				p := hare.TypePrices{Type: kind}
				for range len(cert.GridUs) - 1 {
					p.Nanos = append(p.Nanos, rapid.Int64Range(0, 2000).Draw(t, "price"))
				}
				if slices.ContainsFunc(inst.Cluster.Nodes, func(n hare.Node) bool {
					return slices.ContainsFunc(n.GPUs, func(g hare.TypeCount) bool { return g.Type == kind })
				}) {
					cert.Prices = append(cert.Prices, p)
				}
			}
		}
		bound, err := verify.Bound(inst, cert)
		if err != nil {
			t.Fatal(err)
		}
		if v := new(big.Rat).SetFrac(value.Big(), big.NewInt(1e12)); bound.Cmp(v) > 0 {
			t.Fatalf("%s bound %v above the value %v", cert.Method, bound, v)
		}
	})
}
