package verify_test

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// TestFalseReadingsAreKilled evaluates the examples by each false reading of the bound. A
// figure is taken from testdata/examples/README.md if the reading there is exactly this one;
// "" stands for the right figure and "none" for no value. A reading that can be taken in
// several ways, or is not in the README, has "?" instead of figures. Each reading must give a
// false figure for some example.
func TestFalseReadingsAreKilled(t *testing.T) {
	names := []string{"three-jobs", "windows", "traps"}
	right := []string{"57.084473", "37.614500", "42.120522"}
	for _, m := range []struct {
		name string
		r    reading
		want [3]string
	}{
		{"right", reading{}, [3]string{}},
		{"release up", reading{releaseUp: true}, [3]string{"57.989273", "40.115500", "42.674665"}},
		{"end of interval", reading{endOfInterval: true}, [3]string{"59.762000", "39.969500", "?"}},
		{"one type", reading{oneType: true}, [3]string{"59.395942", "37.615500", "42.606045"}},
		{"no idle", reading{noIdle: true}, [3]string{"?", "?", "?"}},
		{"d under relaxed", reading{priceD: true}, [3]string{"57.352029", "", "45.214120"}},
		{"capacity at the left", reading{leftCapacity: true}, [3]string{"", "", "41.968022"}},
		{"narrow types dropped", reading{dropNarrow: true}, [3]string{"62.109207", "", ""}},
		{"no trailing minimum", reading{noTrailing: true}, [3]string{"57.091136", "", "42.148590"}},
		{"one cell", reading{oneCell: true}, [3]string{"56.858062", "", "41.444928"}},
		{"no tail", reading{noTail: true}, [3]string{"", "", "none"}},
		{"τ at time 0", reading{tauAtZero: true}, [3]string{"", "?", "?"}},
	} {
		killed := false
		for i, name := range names {
			inst, res := example(t, name)
			got := fmt.Sprintf("%.6f", naive(inst, res.Certificate, m.r))
			if math.IsInf(naive(inst, res.Certificate, m.r), 1) {
				got = "none"
			}
			killed = killed || got != right[i]
			want := m.want[i]
			if want == "" {
				want = right[i]
			}
			if want != "?" && got != want {
				t.Errorf("%s on %s: %s, want %s", m.name, name, got, want)
			}
		}
		if m.r != (reading{}) && !killed {
			t.Errorf("%s: no example shows it", m.name)
		}
	}
}

// A type that is left out of the prices is free, not infinitely dear.
func TestAbsentTypeIsFree(t *testing.T) {
	for _, name := range []string{"three-jobs", "windows", "traps"} {
		for drop := range 2 {
			inst, res := example(t, name)
			c := res.Certificate
			c.Prices = slices.Delete(c.Prices, drop, drop+1)
			bound, err := verify.Bound(inst, c)
			if err != nil {
				t.Fatal(err)
			}
			exact, _ := bound.Float64()
			if right := naive(inst, c, reading{}); math.Abs(right-exact) > 1e-9 {
				t.Errorf("%s without type %d: bound %v, the naive one %v", name, drop, exact, right)
			}
			if dear := naive(inst, c, reading{absentDear: true}); dear < exact+1e-6 {
				t.Errorf("%s without type %d: taken as dear it gives %v, no more than %v", name, drop, dear, exact)
			}
		}
	}
}

// The verifier gives the right figures for the examples that tell false readings apart.
func TestVerifierIsNoMutant(t *testing.T) {
	for _, name := range []string{"three-jobs", "windows", "traps"} {
		inst, res := example(t, name)
		for _, path := range []bool{true, false} {
			res.Certificate.Path = path
			bound, err := verify.Bound(inst, res.Certificate)
			if err != nil {
				t.Fatal(err)
			}
			exact, _ := bound.Float64()
			if right := naive(inst, res.Certificate, reading{noPath: !path}); math.Abs(right-exact) > 1e-9 {
				t.Errorf("%s, path %v: bound %v, the naive one %v", name, path, exact, right)
			}
		}
	}
}

// A bound that is summed in floats can be above the true bound. The true bound here is
// 1000 − 10^-15, which is 1000 as a float, so the float rounded down to six decimals is a
// millionth too large.
func TestFloatsWouldLie(t *testing.T) {
	inst := &hare.Instance{
		Objective: hare.ObjectiveWeightedJCT,
		Cluster:   hare.Cluster{Nodes: []hare.Node{haretest.Node("n", "A", 2)}},
		Jobs: []hare.Job{{ID: "x", WeightMicro: 1e6, Rounds: 1, Tasks: 1, Sync: hare.Rigid,
			On: []hare.Profile{{Type: "A", ComputeUs: 1e9}}}},
	}
	cert := &hare.Certificate{
		Method: hare.MethodPrice, Path: true, InstanceSHA256: wire.SHA256(inst), Objective: hare.ObjectiveWeightedJCT,
		GridUs: []int64{0, 1}, Prices: []hare.TypePrices{{Type: "A", Nanos: []int64{1}}},
	}
	if x := naive(inst, cert, reading{}); math.Floor(x*1e6)/1e6 != 1000 {
		t.Fatalf("in floats the bound is %.9f: this instance shows nothing", x)
	}
	bound, err := verify.Bound(inst, cert)
	if want := new(big.Rat).Sub(big.NewRat(1000, 1), big.NewRat(1, 1e15)); err != nil || bound.Cmp(want) != 0 {
		t.Fatalf("bound %v %v, want %v", bound, err, want)
	}
	value := hare.Product(1e6, 1e9)
	for stated, ok := range map[string]bool{"999.999999": true, "1000.000000": false} {
		cert.Bound = stated
		b, err := hare.ParseAmount(stated)
		if err != nil {
			t.Fatal(err)
		}
		res := &hare.Result{
			InstanceSHA256: wire.SHA256(inst), Objective: hare.ObjectiveWeightedJCT, Value: &value, Bound: &b,
			Certificate: cert,
			Schedule: &hare.Schedule{Jobs: []string{"x"},
				Lanes: []hare.Lane{{GPU: "n/0", Job: []int32{0}, Round: []int64{0},
					Rounds: []int64{1}, Tasks: []int64{1}, PeriodUs: []int64{0}, StartUs: []int64{0}}}},
		}
		if rep := verify.Check(inst, res); rep.OK != ok {
			t.Errorf("bound %s: %s", stated, rep)
		}
	}
}

// TestFalseReadingsOfSizesAndSteps evaluates a certificate by each false reading, on an
// instance with a schedule of the given value. The comment of each case describes the
// schedule. The figure of the false reading is above the value; the right figure is not.
func TestFalseReadingsOfSizesAndSteps(t *testing.T) {
	second := []int64{0, 1e6}
	gang := func(tasks int64) hare.Job { return brief(hare.Gang, tasks) }
	mixing := gang(4)
	mixing.Mix = true
	mixing.On = append(slices.Clone(mixing.On), hare.Profile{Type: "B", ComputeUs: 1e6})
	twice := brief(hare.Relaxed, 2)
	twice.Rounds = 2
	pair := hare.Job{WeightMicro: 1e6, Rounds: 1, Tasks: 2, On: []hare.Profile{{Type: "A", ComputeUs: 2e6},
		{Type: "B", ComputeUs: 2e6}}}
	early := hare.Job{WeightMicro: 10e6, Rounds: 1, Tasks: 1, On: []hare.Profile{{Type: "B", ComputeUs: 1e6}}}
	onA := func(release int64) hare.Job {
		return hare.Job{WeightMicro: 10e6, Rounds: 1, Tasks: 1, On: []hare.Profile{{Type: "A", ComputeUs: 1e6}},
			ReleaseUs: release}
	}
	slowThird := pair
	slowThird.On = append(slices.Clone(pair.On), hare.Profile{Type: "C", ComputeUs: 1e13})
	slow := pair
	slow.On = []hare.Profile{{Type: "A", ComputeUs: 1e6}, {Type: "B", ComputeUs: 2e6}}
	stepped := func(c *hare.Certificate) *hare.Certificate {
		c.StepUs = 1e6
		return c
	}
	with := func(c *hare.Certificate, kind string, nanos ...int64) *hare.Certificate {
		c.Prices = append(c.Prices, hare.TypePrices{Type: kind, Nanos: nanos})
		return c
	}
	between := brief(hare.Relaxed, 2)
	between.ReleaseUs = 5e5
	joins := hare.Window{StartUs: 1e6, EndUs: hare.Forever}
	for _, m := range []struct {
		name  string
		inst  *hare.Instance
		cert  *hare.Certificate
		r     reading
		value float64
		right *big.Rat
	}{
		// The jobs run one after the other, which costs 1 + 2. The bound is 2 + 2 − 6/6.
		{"F without singles", small(nodes("A", 6), brief(hare.Relaxed, 6), brief(hare.Relaxed, 6)),
			sized(priced(second, "A", 166666667), "A", 4, 0), reading{noSingles: true}, 3, big.NewRat(3, 1)},
		// Two gangs of four run on three A and one B, which costs 1 + 2. There are never four
		// GPUs of a type, which would have a price.
		{"sizes for mixing gangs", small(append(nodes("A", 3), nodes("B", 1)...), mixing, mixing),
			sized(sized(priced(second, "A", 0), "A", 4, 1e9), "B", 4,
				1e9), reading{sizesMixing: true}, 3, big.NewRat(2, 1)},
		// Three GPUs are in service from 0 and three from 1 s on. The gangs end at 2 and 3 s.
		{"the first M of a cell", small(append(nodes("A", 3), nodes("A", 3, joins)...), gang(4), gang(4)),
			sized(priced([]int64{0, 2e6}, "A", 0), "A", 4, 2e9), reading{leftCapacity: true}, 5, big.NewRat(4, 1)},
		// One GPU is in service from 0 and one from 1 s on. The rounds run in [0, 2) or [1, 2),
		// and in [2, 3).
		{"own GPUs at time 0", small(append(nodes("A", 1), nodes("A", 1, joins)...), twice),
			stepped(priced([]int64{0, 4e6}, "A", 0)), reading{ownAtZero: true}, 3, big.NewRat(2, 1)},
		// Both tasks run on B in [0, 4), while other jobs hold A until 5.
		{"no last level", small(append(nodes("A", 1), nodes("B", 1)...), slow, onA(0), onA(1e6), onA(2e6), onA(3e6),
			onA(4e6)),
			stepped(priced([]int64{0, 5e6}, "A", 9e9)), reading{noLast: true}, 4 + 5*10, big.NewRat(54, 1)},
		// The pair runs on A in [0, 2) and on B in [1, 3), when no other job holds them, and ends
		// at 3.
		{"slots of a level within its own length",
			small(append(nodes("A", 1), nodes("B", 1)...), pair, early, onA(2e6)),
			stepped(with(priced([]int64{0, 1e6, 2e6, 3e6}, "A", 0, 0, 2e9), "B", 2e9, 0,
				0)), reading{levelWindow: true},
			3 + 10 + 10, big.NewRat(23, 1)},
		// The same where a third type is so slow that rounds have the lengths of levels alone.
		{"slots of a level within its own length, of few lengths",
			small(append(append(nodes("A", 1), nodes("B", 1)...), nodes("C", 1)...), slowThird, early, onA(2e6)),
			stepped(with(priced([]int64{0, 1e6, 2e6, 3e6}, "A", 0, 0, 2e9), "B", 2e9, 0,
				0)), reading{levelWindow: true},
			3 + 10 + 10, big.NewRat(22, 1)},
		// One task runs on each type in [0, 2).
		{"no sharing", small(append(nodes("A", 1), nodes("B", 1)...), pair),
			stepped(priced([]int64{0, 4e6}, "A", 0)), reading{noSharing: true}, 2, big.NewRat(2, 1)},
		// The tasks run on B in [0, 2) and on A in [1, 2). Other jobs hold A in [0, 1) and [2, 4).
		{"no sharing where A holds all", small(append(nodes("A", 1), nodes("B", 1)...), slow, onA(0), onA(2e6),
			onA(3e6)),
			stepped(priced([]int64{0, 1e6, 2e6, 4e6}, "A", 2e9, 1e9, 2e9)), reading{wholeAlone: true}, 2 + 3*10,
			big.NewRat(32, 1)},
		// Two tasks run in [0.5, 2.5) on one GPU. A job that is released at 1 would end at 3.
		{"release up to the step", small(nodes("A", 1), between),
			stepped(priced([]int64{0, 4e6}, "A", 0)), reading{stepUp: true}, 2, big.NewRat(2, 1)},
		// Two gangs of three run at once, and then a gang of four, which costs 1 + 1 + 2.
		{"the dearest good first", small(nodes("A", 6), gang(3), gang(3), gang(4)),
			sized(sized(priced(second, "A", 0), "A", 3, 7e8), "A", 4,
				1e9), reading{greedyPattern: true}, 4, big.NewRat(4, 1)},
		// Four tasks on three GPUs take 2 s. There are never four GPUs, which would have a price.
		{"sizes for relaxed jobs", small(nodes("A", 3), brief(hare.Relaxed, 4)),
			stepped(sized(priced([]int64{0, 4e6}, "A", 0), "A", 4,
				1e9)), reading{sizesRelaxed: true}, 2, big.NewRat(2, 1)},
	} {
		t.Run(m.name, func(t *testing.T) {
			got, err := verify.Bound(m.inst, m.cert)
			if err != nil {
				t.Fatal(err)
			}
			exact, _ := got.Float64()
			if right := naive(m.inst, m.cert, reading{}); math.Abs(exact-right) > 1e-9 {
				t.Errorf("bound %v, the naive one %v", exact, right)
			}
			if wrong := naive(m.inst, m.cert, m.r); exact > m.value || wrong < m.value+1e-3 {
				t.Errorf("bound %v, read falsely %v: nothing shown on a schedule of value %v", exact, wrong, m.value)
			}
			if want, _ := m.right.Float64(); math.Abs(exact-want) > 1e-6 {
				t.Errorf("bound %v, want %v", exact, want)
			}
		})
	}
}
