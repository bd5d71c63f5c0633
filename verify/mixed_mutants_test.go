package verify_test

import (
	"cmp"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/verify"
)

// killMixed is killOnNodes for the instances of brute.RandomMixed.
func killMixed(seed uint64, wrong nodeReading) func(*testing.T) (float64, float64, float64) {
	return func(t *testing.T) (float64, float64, float64) {
		r := rand.New(rand.NewPCG(seed, 36))
		inst := brute.RandomMixed(r)
		optimum := optimumOf(t, inst)
		cert := randomMixed(r, inst, int64(math.Round(optimum*1e6)))
		if inst.Objective == hare.ObjectiveMakespan {
			optimum = 0 // no prices prove that a schedule cannot end by the end of an optimal one
		}
		return ascendWrong(r, inst, cert, wrong, optimum)
	}
}

// killAt evaluates a reading on an instance without prices, or at those of a certificate.
func killAt(wrong nodeReading, example readingExample, rightIs, wrongIs float64) func(*testing.T) (float64, float64,
	float64) {
	return func(t *testing.T) (float64, float64, float64) {
		instance, certificate := example(t)
		inst := nodeInstance(t, instance)
		if certificate == nil {
			certificate = []byte(`{"hare":"certificate/v1","method":"price","path":true,"objective":"` + inst.Objective +
				`","bound":"0.000000","grid_us":[0,2000000],"step_us":2000000}`)
		}
		cert := nodeCertificate(t, certificate)
		low, err := verify.Bound(inst, cert)
		got := naiveOnNodes(inst, cert, wrong)
		if err != nil || math.Abs(ratFloat(low)-rightIs) > 1e-6 || math.Abs(got-wrongIs) > 1e-6 {
			t.Errorf("the bound is %v, %v, want %v; the wrong reading gives %v, want %v", low, err, rightIs, got, wrongIs)
		}
		return got, ratFloat(low), optimumOf(t, inst)
	}
}

// readingExample returns an instance and a certificate, nil without one.
type readingExample func(*testing.T) (instance, certificate []byte)

// fromReadings is the example of a name in testdata/real/wrong-readings.json.
func fromReadings(name string) readingExample {
	return func(t *testing.T) (instance, certificate []byte) {
		text, err := os.ReadFile("testdata/real/wrong-readings.json")
		if err != nil {
			t.Fatal(err)
		}
		var all map[string]struct{ Instance, Certificate json.RawMessage }
		if err := json.Unmarshal(text, &all); err != nil {
			t.Fatal(err)
		}
		return all[name].Instance, all[name].Certificate
	}
}

// twoBefore is an instance in which a job waits for two others.
func twoBefore(*testing.T) (instance, certificate []byte) {
	return []byte(`{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"A":2}}]},"jobs":[` +
		`{"id":"x","weight":0,"on":{"A":{"compute_s":2}}},{"id":"y","weight":0,"on":{"A":{"compute_s":2}}},` +
		`{"id":"z","on":{"A":{"compute_s":2}},"after":["x","y"]}]}`), nil
}

// killTardinessOfMachine: the tardiness of a job in the bound machine is that of P, and not that of
// the end of the job on the one machine. A job of weight 0 ends there after all others.
func killTardinessOfMachine(t *testing.T) (wrong, right, optimum float64) {
	inst := nodeInstance(t, []byte(`{"hare":"instance/v1","objective":"jct_and_tardiness",`+
		`"cluster":{"nodes":[{"name":"n0","gpus":{"A":2}},{"name":"n1","gpus":{"A":1}}]},"jobs":[`+
		`{"id":"j0","weight":3,"rounds":3,"tasks":3,"sync":"rigid","on":{"A":{"compute_s":1,"sync_s":2}}},`+
		`{"id":"j1","weight":0,"rounds":2,"tasks":2,"on":{"A":{"compute_s":2,"sync_s":2}},`+
		`"deadline_s":4,"late_weight":4}]}`))
	low, err := verify.Bound(inst, &hare.Certificate{Method: hare.MethodMachine, Objective: inst.Objective})
	if right = naiveMachine(inst, false); err != nil || ratFloat(low) != right || right != 43 {
		t.Errorf("the bound is %v, %v, naive %v, want 43", low, err, right)
	}
	if wrong = naiveMachine(inst, true); math.Abs(wrong-(65+2.0/3)) > 1e-6 {
		t.Errorf("the wrong reading gives %v, want 65.667", wrong)
	}
	return wrong, right, optimumOf(t, inst)
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
