package verify_test

import (
	"cmp"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/verify"
)

// randomGangs returns a tiny instance of gang and rigid jobs, in which some GPUs may leave and schedules cannot be
// divided.
func randomGangs(r *rand.Rand) *hare.Instance {
	inst := randomRigid(r)
	gangs := 0
	for i := range inst.Jobs {
		if j := &inst.Jobs[i]; r.IntN(3) > 0 {
			j.Sync, j.Rounds = hare.Gang, int64(1+r.IntN(3))
			gangs++
		}
	}
	if gangs == 0 {
		inst.Jobs[0].Sync = hare.Gang
	}
	if n := &inst.Cluster.Nodes[0]; r.IntN(3) == 0 && len(n.Busy) == 0 {
		end := 500_000 * int64(1+r.IntN(6))
		n.Windows = []hare.Window{{EndUs: end}, {StartUs: end + 500_000*int64(1+r.IntN(3)), EndUs: hare.Forever}}
	}
	return inst
}

// randomLeaf returns a certificate of one leaf with prices of jobs.
func randomLeaf(r *rand.Rand, inst *hare.Instance) *hare.Certificate {
	top := randomPriceSet(r, inst, false)
	c := &hare.Certificate{Method: hare.MethodBranch, Objective: inst.Objective, GridUs: top.GridUs, Prices: top.Prices,
		Sizes: top.Sizes, PriceSets: []hare.PriceSet{randomPriceSet(r, inst, true)},
		Tree: []hare.BranchNode{{Prices: 1}}}
	if r.IntN(10) == 0 {
		c.Tree[0].Prices = 0
	}
	return c
}

// leafReading is a reading of docs/inside/bounds.md#branch-prices-of-jobs-and-trees, "One leaf"; each field makes it a
// false one.
type leafReading struct {
	never     bool // jobs with prices of their own do not count
	early     bool // such jobs count only for as long as they take, from their release on
	firstType bool // such jobs count on the first of their types alone
	nextCell  bool // such jobs count from the first cell on that begins at their release or later
	ofSize    bool // the price of its size counts in place of that of the job
	greedy    bool // the dearest job first
	block     bool // a gang runs without a break
	halves    bool // half of a job counts
	relaxedReading
}

// relaxedReading is a reading of "Relaxed jobs in one leaf"; each field makes it a false one.
type relaxedReading struct {
	tightOnly  bool // no loose rounds
	threeTimes bool // loose rounds of one type take three times the compute time
	noMixing   bool // loose rounds are of one type
	onlyBack   bool // loose rounds pay the prices before them alone
	onlySync   bool // loose rounds pay the prices within the synchronisation before them and ahead alone
	tightPrice bool // loose rounds pay the price of tight ones
	noSingles  bool // single GPUs do not count in the dearest set
}

// relaxedModes returns the modes of a relaxed job in a leaf, by the prices of single GPUs and of its own.
func relaxedModes(job *hare.Job, grid []int64, single map[string][]int64, own func(kind string) []int64,
	peak func(string) int64, tau int64, r relaxedReading) (out []naiveRate) {
	for _, p := range job.On {
		m := peak(p.Type)
		if m == 0 {
			continue
		}
		d := p.DurationUs()
		one := naiveRate{p: p.ComputeUs, s: p.SyncUs, d: d, row: single[p.Type], units: float64(job.Tasks)}
		row := own(p.Type)
		if row == nil {
			out = append(out, one)
			continue
		}
		if m >= job.Tasks {
			out = append(out, naiveRate{p: p.ComputeUs, s: p.SyncUs, d: d, row: row, units: 1})
		}
		if job.Tasks == 1 || r.tightOnly && m >= job.Tasks {
			continue
		}
		waves := max(2, (job.Tasks+m-1)/m)
		if r.threeTimes {
			waves = max(3, waves)
		}
		least := waves*p.ComputeUs + p.SyncUs
		for _, o := range job.On {
			if o.Type != p.Type && peak(o.Type) > 0 && !r.noMixing {
				least = min(least, max(d, o.DurationUs()))
			}
		}
		one.d = max(d, tau, least)
		one.s, one.ahead = max(d, one.d-p.ComputeUs), max(p.ComputeUs, one.d-d)
		if r.onlySync {
			one.s = p.SyncUs
		}
		if r.onlyBack {
			one.ahead = 0
		}
		if r.tightPrice {
			one.row, one.units = row, 1
		}
		out = append(out, one)
	}
	return out
}

// naiveLeafBound returns what the only leaf of a tree proves by a reading, in weight-seconds.
func naiveLeafBound(inst *hare.Instance, c *hare.Certificate, r leafReading) float64 {
	set := hare.PriceSet{GridUs: c.GridUs, Prices: c.Prices, Sizes: c.Sizes}
	if n := c.Tree[0].Prices; n > 0 {
		set = c.PriceSets[n-1]
	}
	grid := set.GridUs
	n := &naiveTree{inst: inst}
	count := func(kind string, t int64) (m int64) {
		for _, node := range inst.Cluster.Nodes {
			for x := range node.GPUs[0].Count {
				open := len(node.Windows) == 0
				for _, w := range node.Windows {
					open = open || w.StartUs <= t && t < w.EndUs
				}
				for _, b := range node.Busy {
					open = open && (b.GPU != x || b.UntilUs <= t)
				}
				if open && node.GPUs[0].Type == kind {
					m++
				}
			}
		}
		return m
	}
	times := slices.Clone(grid)
	for _, node := range inst.Cluster.Nodes {
		n.kinds = append(n.kinds, node.GPUs[0].Type)
		for _, w := range node.Windows {
			times = append(times, w.StartUs, w.EndUs)
		}
		for _, b := range node.Busy {
			times = append(times, b.UntilUs)
		}
	}
	own := func(i int, kind string) []int64 {
		for _, p := range set.Jobs {
			if p.Job == inst.Jobs[i].ID && p.Type == kind {
				return p.Nanos
			}
		}
		return nil
	}
	peak := func(kind string) (m int64) {
		for _, t := range append(slices.Clone(times), 0) {
			m = max(m, count(kind, t))
		}
		return m
	}
	singles, sizes := map[string][]int64{}, map[string]map[int64][]int64{}
	for _, kind := range n.kinds {
		singles[kind], sizes[kind] = make([]int64, len(grid)-1), map[int64][]int64{}
	}
	for _, p := range set.Prices {
		singles[p.Type] = p.Nanos
	}
	for _, p := range set.Sizes {
		sizes[p.Type][p.Tasks] = p.Nanos
	}
	total := 0.0
	ends := make([]int64, len(inst.Jobs))
	for i := range inst.Jobs {
		job := inst.Jobs[i]
		rows, units := map[string][]int64{}, map[string]int64{}
		for _, kind := range n.kinds {
			rows[kind], units[kind] = singles[kind], job.Tasks
			if row := sizes[kind][job.Tasks]; row != nil {
				rows[kind], units[kind] = row, 1
			}
			if row := own(i, kind); row != nil {
				rows[kind], units[kind] = row, 1
			}
		}
		if r.block {
			job.Sync = hare.Rigid
		}
		round := naiveRound(&job, peak)
		var modes []naiveRate
		if job.Sync == hare.Relaxed {
			modes = relaxedModes(&job, grid, singles, func(kind string) []int64 { return own(i, kind) }, peak, round,
				r.relaxedReading)
		}
		total += naivePhi(&job, grid, rows, units, peak, round, reading{}, modes...) -
			float64(job.WeightMicro)*1e-12*float64(job.ReleaseUs)
		ends[i] = job.ReleaseUs + job.Rounds*round
		times = append(times, job.ReleaseUs, ends[i])
	}
	slices.Sort(times)
	times = slices.Compact(times)
	for x, from := range times[:len(times)-1] {
		if from >= grid[len(grid)-1] {
			break
		}
		cell := 0
		for grid[cell+1] <= from {
			cell++
		}
		for _, kind := range n.kinds {
			goods := map[int64]int64{}
			for size, row := range sizes[kind] {
				goods[size] = row[cell]
			}
			m := count(kind, from)
			var jobs [][2]int64 // tasks and price
			for i := range inst.Jobs {
				job := &inst.Jobs[i]
				row := own(i, kind)
				away := row == nil || job.ReleaseUs > from || r.never || r.early && from >= ends[i] ||
					r.firstType && job.On[0].Type != kind || r.nextCell && job.ReleaseUs > grid[cell]
				if away {
					continue
				}
				price := row[cell]
				if r.ofSize {
					price = job.Tasks * singles[kind][cell]
					if row := sizes[kind][job.Tasks]; row != nil {
						price = row[cell]
					}
				}
				if r.halves {
					price /= 2
				}
				jobs = append(jobs, [2]int64{job.Tasks, price})
			}
			best := int64(0)
			for subset := range 1 << len(jobs) {
				left, sum := m, int64(0)
				for y, j := range jobs {
					if subset>>y&1 > 0 {
						left, sum = left-j[0], sum+j[1]
					}
				}
				if left >= 0 {
					single := singles[kind][cell]
					if r.noSingles {
						single = 0
					}
					best = max(best, sum+naivePattern(left, single, goods, reading{}))
				}
			}
			if r.greedy {
				slices.SortStableFunc(jobs, func(a, b [2]int64) int { return cmp.Compare(b[1], a[1]) })
				best = 0
				for _, j := range jobs {
					if j[0] <= m {
						m, best = m-j[0], best+j[1]
					}
				}
				best += naivePattern(m, singles[kind][cell], goods, reading{})
			}
			total -= float64(best) * 1e-15 * float64(times[x+1]-from)
		}
	}
	return total
}

// judgeLeaves fails t if a leaf that draw passes to judge proves more than the optimum of its random tiny instance, or
// not what the text of the documentation says, or if no leaf proves the optimum or gains by prices of jobs.
func judgeLeaves(t *testing.T, r *rand.Rand, instances int, random func(*rand.Rand) *hare.Instance,
	draw func(inst *hare.Instance, judge func(*hare.Certificate) float64)) {
	t.Helper()
	if *soak {
		instances = 100_000
	}
	tried, tight, above := 0, 0, 0
	for i := range instances {
		inst := random(r)
		opt, ok, done := brute.Optimum(inst, 100_000)
		if !ok || !done {
			continue
		}
		tried++
		limit, most, plain := big.NewRat(opt, 1e12), 0.0, 0.0
		draw(inst, func(cert *hare.Certificate) float64 {
			low, err := verify.Bound(inst, cert)
			if err != nil {
				t.Fatalf("instance %d: %v: %+v %+v", i, err, inst, cert)
			}
			if low.Cmp(limit) > 0 {
				t.Fatalf("instance %d: %v proved, the optimum is %v: %+v %+v", i, low, limit, inst, cert)
			}
			if want := naiveLeafBound(inst, cert, leafReading{}); math.Abs(want-ratFloat(low)) > 1e-6 {
				t.Fatalf("instance %d: bound %v, naive %v: %+v %+v", i, ratFloat(low), want, inst, cert)
			}
			most = max(most, ratFloat(low))
			alone := *cert
			alone.Method, alone.Tree, alone.PriceSets = hare.MethodPrice, nil, nil
			set := cert.PriceSets[0]
			alone.GridUs, alone.Prices, alone.Sizes = set.GridUs, set.Prices, set.Sizes
			if b, err := verify.Bound(inst, &alone); err == nil {
				plain = max(plain, ratFloat(b))
			}
			return ratFloat(low)
		})
		if most > ratFloat(limit)-1e-9 {
			tight++
		}
		if most > plain+1e-9 {
			above++
		}
	}
	t.Logf("%d instances, %d bounds equal to the optimum, %d above those without prices of jobs", tried, tight, above)
	if tried < instances/2 || tight == 0 || above == 0 {
		t.Errorf("%d instances of %d, %d bounds equal to the optimum, %d above those without prices of jobs", tried,
			instances, tight, above)
	}
}

// Leaves of random prices are sound for random tiny instances of gang and rigid jobs.
func TestBoundsByOneLeaf(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 6))
	judgeLeaves(t, r, 500, randomGangs, func(inst *hare.Instance, judge func(*hare.Certificate) float64) {
		for range 6 {
			judge(randomLeaf(r, inst))
		}
	})
}

// Each false reading of docs/inside/bounds.md#branch-prices-of-jobs-and-trees, "One leaf", proves more than the
// optimum of some instance.
func TestFalseReadingsOfOneLeafAreKilled(t *testing.T) {
	readings := map[string]leafReading{
		"jobs that do not count":                      {never: true},
		"jobs that count for as long as they take":    {early: true},
		"jobs that count on their first type":         {firstType: true},
		"jobs that count from the next cell on":       {nextCell: true},
		"the price of the size in place of the job's": {ofSize: true},
		"the dearest job first":                       {greedy: true},
		"a gang as a block":                           {block: true},
		"half of a job":                               {halves: true},
	}
	r := rand.New(rand.NewPCG(19, 7))
	killed := map[string]int{}
	try := func(inst *hare.Instance, cert *hare.Certificate, limit float64) {
		for name, m := range readings {
			if v := naiveLeafBound(inst, cert, m); v > limit+1e-6 {
				killed[name]++
			}
		}
	}
	try(interruptedGang())
	dear := hare.PriceSet{GridUs: []int64{0, 100e6}, Jobs: []hare.JobPrices{{Job: "0", Type: "A", Nanos: []int64{5e9}},
		{Job: "1", Type: "A", Nanos: []int64{5e9}}}}
	try(small(nodes("A", 1), brief(hare.Gang, 1), brief(hare.Gang, 1)), &hare.Certificate{GridUs: []int64{0, 1},
		PriceSets: []hare.PriceSet{dear}, Tree: []hare.BranchNode{{Prices: 1}}}, 3)
	for range 1_000 {
		inst := randomGangs(r)
		opt, ok, done := brute.Optimum(inst, 20_000)
		if !ok || !done {
			continue
		}
		for range 4 {
			try(inst, randomLeaf(r, inst), float64(opt)/1e12)
		}
	}
	for name := range readings {
		if killed[name] == 0 {
			t.Errorf("%s: no instance shows it", name)
		}
	}
	t.Logf("killed %v times", killed)
}

// interruptedGang returns a gang whose second round waits for a job of more weight, the prices that prove this plan
// optimal, and its value.
func interruptedGang() (*hare.Instance, *hare.Certificate, float64) {
	inst := small(nodes("A", 1), brief(hare.Gang, 1), brief(hare.Rigid, 1))
	inst.Jobs[0].Rounds, inst.Jobs[1].WeightMicro, inst.Jobs[1].ReleaseUs = 2, 10e6, 1e6
	set := hare.PriceSet{GridUs: []int64{0, 1e6, 2e6, 3e6, 4e6}, Jobs: []hare.JobPrices{
		{Job: "0", Type: "A", Nanos: []int64{0, 2e9, 0, 0}}, {Job: "1", Type: "A", Nanos: []int64{0, 2e9, 0, 0}}}}
	return inst, &hare.Certificate{Method: hare.MethodBranch, Objective: inst.Objective, GridUs: []int64{0, 1},
		PriceSets: []hare.PriceSet{set}, Tree: []hare.BranchNode{{Prices: 1}}}, 13
}

func TestLeafOfInterruptedGang(t *testing.T) {
	inst, cert, optimum := interruptedGang()
	wantBound(t, inst, cert, new(big.Rat).SetFloat64(optimum))
}

// What a tree of one leaf must have, and what it must not.
func TestForgedLeaves(t *testing.T) {
	change := func(f func(inst *hare.Instance, c *hare.Certificate)) (*hare.Instance, *hare.Certificate) {
		inst := small(nodes("A", 6), brief(hare.Gang, 4), brief(hare.Rigid, 4))
		c := &hare.Certificate{Method: hare.MethodBranch, Objective: inst.Objective, GridUs: []int64{0, 1},
			PriceSets: []hare.PriceSet{{GridUs: []int64{0, 1e6}, Jobs: []hare.JobPrices{{Job: "0", Type: "A",
				Nanos: []int64{1e9}}, {Job: "1", Type: "A", Nanos: []int64{1e9}}}}},
			Tree: []hare.BranchNode{{Prices: 1}}}
		f(inst, c)
		return inst, c
	}
	inst, sound := change(func(*hare.Instance, *hare.Certificate) {})
	wantBound(t, inst, sound, big.NewRat(3, 1))
	for name, f := range map[string]func(inst *hare.Instance, c *hare.Certificate){
		"prices that lack": func(_ *hare.Instance, c *hare.Certificate) { c.Tree[0].Prices = 2 },
		"negative prices":  func(_ *hare.Instance, c *hare.Certificate) { c.Tree[0].Prices = -1 },
		"two nodes": func(_ *hare.Instance, c *hare.Certificate) {
			c.Tree = []hare.BranchNode{{Job: "0", StartUs: 1}, {}, {}}
		},
		"two sets": func(_ *hare.Instance, c *hare.Certificate) {
			c.PriceSets = append(c.PriceSets, c.PriceSets[0])
		},
		"no cells":        func(_ *hare.Instance, c *hare.Certificate) { c.PriceSets[0].Jobs[0].Nanos = nil },
		"an unknown job":  func(_ *hare.Instance, c *hare.Certificate) { c.PriceSets[0].Jobs[0].Job = "2" },
		"an unknown type": func(_ *hare.Instance, c *hare.Certificate) { c.PriceSets[0].Jobs[0].Type = "B" },
		"a job twice":     func(_ *hare.Instance, c *hare.Certificate) { c.PriceSets[0].Jobs[1].Job = "0" },
		"enormous prices": func(_ *hare.Instance, c *hare.Certificate) {
			c.PriceSets[0].Jobs[0].Nanos[0] = hare.MaxExact << 8
		},
		"a step":           func(_ *hare.Instance, c *hare.Certificate) { c.StepUs = 1 },
		"a job that mixes": func(inst *hare.Instance, _ *hare.Certificate) { inst.Jobs[0].Mix = true },
		"a relaxed job in a tree of several nodes": func(inst *hare.Instance, c *hare.Certificate) {
			inst.Jobs[0].Sync = hare.Relaxed
			c.Tree = []hare.BranchNode{{Job: "1", StartUs: 1}, {}, {}}
		},
		"a relaxed job that mixes": func(inst *hare.Instance, _ *hare.Certificate) {
			inst.Jobs[0].Sync, inst.Jobs[0].Mix = hare.Relaxed, true
		},
		"a job never runs": func(inst *hare.Instance, _ *hare.Certificate) { inst.Jobs[0].Tasks = 7 },
		"moved weight": func(_ *hare.Instance, c *hare.Certificate) {
			c.After = []hare.AfterWeight{{Job: "1", Before: "0"}}
		},
		"another objective": func(inst *hare.Instance, c *hare.Certificate) {
			inst.Objective, c.Objective = hare.ObjectiveMakespan, hare.ObjectiveMakespan
		},
		"a switch": func(inst *hare.Instance, _ *hare.Certificate) {
			inst.Jobs[0].On = []hare.Profile{{Type: "A", ComputeUs: 1e6, SwitchUs: 1}}
		},
	} {
		if b, err := verify.Bound(change(f)); err == nil {
			t.Errorf("%s: accepted with %v", name, b)
		}
	}
}
