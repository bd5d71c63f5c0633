package verify_test

import (
	"cmp"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/bench/brute"
	"github.com/hare-sched/hare/verify"
)

// The wrong readings of docs/running.md and docs/dependencies.md are evaluated at prices that are
// optimised for them, on random tiny instances. Each reading exceeds the optimum of the instance
// of its seed, or leaves a job without any bound.
func TestOptimisedPricesKillReadingsOfRules(t *testing.T) {
	for _, c := range mixedReadings {
		if !killedMixed(c.seed, c.wrong) {
			t.Errorf("%s: the instance of seed %d does not kill the reading", c.name, c.seed)
		}
	}
}

var mixedReadings = []struct {
	name  string
	seed  uint64
	wrong nodeReading
}{
	{"15 reserved_gone", 87, nodeReading{reservedGone: true}},
	{"22 after_keeps_weight", 84, nodeReading{keepsWeight: true}},
	{"23 after_from_release", 120, nodeReading{fromRelease: true}},
	{"26 short_capacity", 71, nodeReading{shortCapacity: true}},
	{"27 quota_for_good", 574, nodeReading{quotaForGood: true}},
	{"28 quota_all_types", 370, nodeReading{quotaAllTypes: true}},
	{"32 busy_for_good", 2, nodeReading{busyForGood: true}},
	{"33 running_round_again", 75, nodeReading{runningAgain: true}},
	{"34 elapsed_ignored", 55, nodeReading{noElapsed: true}},
}

// killedMixed says whether a reading exceeds the optimum of the instance of a seed, while the
// right reading does not.
func killedMixed(seed uint64, wrong nodeReading) bool {
	r := rand.New(rand.NewPCG(seed, 36))
	inst := brute.RandomMixed(r)
	opt, plan, done := brute.OptimumOnNodes(inst, 20_000)
	if !done || plan == nil {
		return false
	}
	// No prices prove that a schedule cannot end by the end of an optimal one.
	limit := 0.0
	if inst.Objective != hare.ObjectiveMakespan {
		limit = hare.Product(1, opt).Float()
	}
	cert := randomMixed(r, inst, opt/1e6)
	best := ascend(r, cert, 150, func() float64 {
		v := naiveOnNodes(inst, cert, wrong)
		if math.IsNaN(v) {
			return math.Inf(-1)
		}
		return v
	})
	return best > limit+1e-6 && naiveOnNodes(inst, cert, nodeReading{}) <= limit+1e-6
}

// These wrong readings exceed the optimum of an instance without prices, or at those of a file.
func TestWrongReadingsOfRules(t *testing.T) {
	text, err := os.ReadFile("testdata/real/wrong-readings.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]struct{ Instance, Certificate json.RawMessage }
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	const free = `{"hare":"certificate/v1","method":"price","path":true,"objective":"OBJECTIVE","bound":"0.000000",` +
		`"grid_us":[0,2000000],"step_us":2000000}`
	const pair = `{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"A":2}}]},"jobs":[` +
		`{"id":"x","weight":0,"on":{"A":{"compute_s":2}}},{"id":"y","weight":0,"on":{"A":{"compute_s":2}}},` +
		`{"id":"z","on":{"A":{"compute_s":2}},"after":["x","y"]}]}`
	for _, c := range []struct {
		name        string
		wrong       nodeReading
		instance    []byte
		certificate []byte
		right       float64
		want        float64
	}{
		{"21 after_sum", nodeReading{afterSum: true}, []byte(pair), nil, 4, 6},
		{"23 after_from_release", nodeReading{fromRelease: true}, all["23 after_from_release"].Instance,
			all["23 after_from_release"].Certificate, 29.891, 34.091},
		{"24 deadline_down", nodeReading{of: reading{deadlineDown: true}}, all["24 deadline_down"].Instance, nil,
			20, 22},
	} {
		inst := nodeInstance(t, c.instance)
		if c.certificate == nil {
			c.certificate = []byte(strings.Replace(free, "OBJECTIVE", inst.Objective, 1))
		}
		cert := nodeCertificate(t, c.certificate)
		opt, plan, done := brute.OptimumOnNodes(inst, 200_000)
		optimum := hare.Product(1, opt).Float()
		low, err := verify.Bound(inst, cert)
		if err != nil || math.Abs(ratFloat(low)-c.right) > 1e-6 || !done || plan == nil {
			t.Errorf("%s: the bound is %v, %v, want %v", c.name, low, err, c.right)
		}
		if got := naiveOnNodes(inst, cert, c.wrong); math.Abs(got-c.want) > 1e-6 || got <= optimum {
			t.Errorf("%s: %v, want %v, above the optimum %v", c.name, got, c.want, optimum)
		}
	}
}

// Reading 25: the tardiness of a job in the bound machine is that of P, and not that of the end
// of the job on the one machine. A job of weight 0 ends there after all others.
func TestTardinessOfMachine(t *testing.T) {
	inst := nodeInstance(t, []byte(`{"hare":"instance/v1","objective":"jct_and_tardiness",`+
		`"cluster":{"nodes":[{"name":"n0","gpus":{"A":2}},{"name":"n1","gpus":{"A":1}}]},"jobs":[`+
		`{"id":"j0","weight":3,"rounds":3,"tasks":3,"sync":"rigid","on":{"A":{"compute_s":1,"sync_s":2}}},`+
		`{"id":"j1","weight":0,"rounds":2,"tasks":2,"on":{"A":{"compute_s":2,"sync_s":2}},`+
		`"deadline_s":4,"late_weight":4}]}`))
	opt, _, _ := brute.OptimumOnNodes(inst, 200_000)
	low, err := verify.Bound(inst, &hare.Certificate{Method: hare.MethodMachine, Objective: inst.Objective})
	if right := naiveMachine(inst, false); err != nil || ratFloat(low) != right || right != 43 {
		t.Errorf("the bound is %v, %v, naive %v, want 43", low, err, right)
	}
	if wrong := naiveMachine(inst, true); math.Abs(wrong-(65+2.0/3)) > 1e-6 || wrong <= hare.Product(1, opt).Float() {
		t.Errorf("the wrong reading gives %v, want 65.667, above the optimum %d", wrong, opt)
	}
}

// naiveMachine evaluates the bound machine of jobs of one type that are all released at 0.
func naiveMachine(inst *hare.Instance, ownEnd bool) (sum float64) {
	gpus := 0.0
	for _, n := range inst.Cluster.Nodes {
		gpus += float64(n.GPUs[0].Count)
	}
	work := func(j *hare.Job) float64 {
		p := j.On[0].ComputeUs
		if j.Sync != hare.Relaxed {
			p = j.On[0].DurationUs()
		}
		return float64(j.Tasks*j.TaskGPUs()*j.Rounds*p) / 1e6 / gpus
	}
	jobs := slices.Clone(inst.Jobs)
	slices.SortFunc(jobs, func(a, b hare.Job) int {
		return cmp.Compare(float64(b.WeightMicro)/work(&b), float64(a.WeightMicro)/work(&a))
	})
	now := 0.0
	for i := range jobs {
		j := &jobs[i]
		wait := 0.0
		if j.Sync == hare.Relaxed {
			wait = float64(j.On[0].SyncUs) / 1e6
		}
		now += work(j)
		end := float64(j.Rounds*naiveRound(j, func(string) int64 { return int64(gpus) })) / 1e6 // P
		if ownEnd {
			end = now + wait
		}
		// The mean busy time and a half of the work are the end of the work.
		sum += float64(j.WeightMicro)/1e6*(now+wait) +
			float64(j.LateWeightMicro)/1e6*max(0, end-float64(j.DeadlineUs)/1e6)
	}
	return sum
}
