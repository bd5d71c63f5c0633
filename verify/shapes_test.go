package verify_test

import (
	"encoding/json"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/verify"
)

// Each rule of docs/reference/model.md is tested on schedules that keep it and on schedules that do not. A
// row of a schedule is as in TestRulesOfNodes, with the shape after the period.
func TestRulesOfShapes(t *testing.T) {
	const cluster = `{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"A":3},"in_service_s":[[0,40]]},` +
		`{"name":"b","gpus":{"A":2}}],"reservations":[{"nodes":{"node":"b"},"from_s":10,"until_s":20}]},"jobs":[`
	setup := func(fields string) string {
		return `{"id":"x",` + fields + `,"on":{"A":{"compute_s":2,"sync_s":1,"switch_s":3}}}`
	}
	const other = `,{"id":"y","weight":0,"sync":"rigid","on":{"A":{"compute_s":2}}}`
	shaped := func(fields string) string {
		return `{"id":"x",` + fields + `,"shapes":[{"on":{"A":{"compute_s":2}}},` +
			`{"tasks":2,"counts":2,"on":{"A":{"compute_s":3}}},{"gpus_per_task":3,"counts":3,"on":{"A":{"compute_s":1}}}]}`
	}
	const runs = `"progress":{"gpus":["a/0","a/1"],"shape":1,"elapsed_s":1}`
	for _, c := range []struct {
		name, jobs string
		rows       []string
		want       string
	}{
		{"a setup before the first start", setup(`"sync":"gang"`), []string{"a/0 x 3"}, ""},
		{"no setup", setup(`"sync":"gang"`), []string{"a/0 x 2"}, verify.CodeRelease},
		{"a setup before the release", setup(`"sync":"gang","release_s":1`), []string{"a/0 x 3"}, verify.CodeRelease},
		{"a setup after another job", setup(`"sync":"gang"`) + other, []string{"a/0 y 0, x 5"}, ""},
		{"too early after another job", setup(`"sync":"gang"`) + other, []string{"a/0 y 0, x 4"}, verify.CodeOverlap},
		{"no setup after the job itself", setup(`"sync":"gang","rounds":2`), []string{"a/0 x 3, x 6 1"}, ""},
		{"another job in between", setup(`"sync":"gang","rounds":2`) + other, []string{"a/0 x 3, y 6, x 11 1"}, ""},
		{"another job in between, no setup", setup(`"sync":"gang","rounds":2`) + other,
			[]string{"a/0 x 3, y 6, x 10 1"}, verify.CodeOverlap},
		{"another GPU for the next round", setup(`"sync":"gang","rounds":2`), []string{"a/0 x 3", "a/1 x 6 1"}, ""},
		{"a setup on each GPU of a gang", setup(`"sync":"gang","tasks":2`) + other, []string{"a/0 y 0, x 5", "a/1 x 5"}, ""},
		{"a gang holds its GPU until the setup of the next",
			`{"id":"z","sync":"gang","tasks":2,"mix":true,"on":{"A":{"compute_s":2}}},` + setup(`"sync":"gang"`),
			[]string{"a/0 z 0, x 5", "a/1 z 0"}, ""},
		{"a setup lies in the window of its block", setup(`"sync":"gang"`), []string{"b/0 x 23"}, ""},
		{"a setup while the node is reserved", setup(`"sync":"gang"`), []string{"b/0 x 22"}, verify.CodeReserved},
		{"a setup before a reservation, and the block after it", setup(`"sync":"gang"`), []string{"b/0 x 20"},
			verify.CodeReserved},
		{"a setup and the block before a reservation", setup(`"sync":"gang"`), []string{"b/0 x 7"}, ""},
		{"a setup starts before a predecessor ends", setup(`"after":["y"]`) + other, []string{"a/0 y 0", "a/1 x 4"},
			verify.CodeAfter},
		{"a setup after a predecessor", setup(`"after":["y"]`) + other, []string{"a/0 y 0", "a/1 x 5"}, ""},
		{"no setup where the job runs at 0", setup(`"sync":"gang","rounds":2,"progress":{"gpus":["a/0"]}`),
			[]string{"a/0 x 3 1"}, ""},
		{"a setup on another GPU while the job runs", setup(`"sync":"gang","rounds":2,"progress":{"gpus":["a/0"]}`),
			[]string{"a/1 x 3 1"}, ""},
		{"a setup after another job that runs at 0", setup(`"sync":"gang"`) +
			`,{"id":"y","sync":"rigid","progress":{"gpus":["a/0"]},"on":{"A":{"compute_s":2}}}`,
			[]string{"a/0 x 4"}, verify.CodeService},

		{"one shape for all rounds", shaped(`"sync":"gang","rounds":3`), []string{"a/0 x 0 0 2 1 3 1", "a/1 x 0 0 2 1 3 1"},
			""},
		{"rounds are missing", shaped(`"sync":"gang","rounds":3`), []string{"a/0 x 0 0 1 1 0 1", "a/1 x 0 0 1 1 0 1"},
			verify.CodeRounds},
		{"rounds too many", shaped(`"sync":"gang","rounds":3`), []string{"a/0 x 0 0 3 1 3 1", "a/1 x 0 0 2 1 3 1"},
			verify.CodeRounds},
		{"an unknown shape", shaped(`"rounds":3`), []string{"a/0 x 0 0 3 1 3 3"}, verify.CodeForm},
		{"a shape of a job without shapes", setup(`"sync":"gang"`), []string{"a/0 x 3 0 1 1 0 1"}, verify.CodeForm},
		{"two entries of two units each", shaped(`"sync":"gang","rounds":4`),
			[]string{"a/0 x 0 0 1 1 0 1, x 3 2 1 1 0 1", "a/1 x 0 0 2 1 3 1"}, ""},
		{"rounds overlap in units", shaped(`"sync":"gang","rounds":4`),
			[]string{"a/0 x 0 0 1 1 0 1, x 3 1 2 1 3 1", "a/1 x 0 0 2 1 3 1"}, verify.CodeShape},
		{"the shape changes without reshape_s", shaped(`"sync":"gang","rounds":3`),
			[]string{"a/0 x 0 0 1 1 0 1, x 3 2", "a/1 x 0 0 1 1 0 1"}, verify.CodeShape},
		{"the shape changes", shaped(`"sync":"gang","rounds":3,"reshape_s":1`),
			[]string{"a/0 x 0 0 1 1 0 1, x 4 2", "a/1 x 0 0 1 1 0 1"}, ""},
		{"the shape changes too early", shaped(`"sync":"gang","rounds":3,"reshape_s":1`),
			[]string{"a/0 x 0 0 1 1 0 1, x 3.5 2", "a/1 x 0 0 1 1 0 1"}, verify.CodePrecedence},
		{"the shape changes at no cost", shaped(`"sync":"gang","rounds":3,"reshape_s":0`),
			[]string{"a/0 x 0 0 1 1 0 1, x 3 2", "a/1 x 0 0 1 1 0 1"}, ""},
		{"two shapes in one round", shaped(`"sync":"gang","rounds":3,"reshape_s":0`),
			[]string{"a/0 x 0 0 2 1 3 1", "a/1 x 0 0 3 1 2"}, verify.CodeShape},
		{"a round of another shape before the end", shaped(`"sync":"gang","rounds":3,"reshape_s":0`),
			[]string{"a/0 x 0 0 1 1 0 1", "a/1 x 0 0 1 1 0 1", "a/2 x 2 2"}, verify.CodePrecedence},
		{"a task of three GPUs, then of one", shaped(`"sync":"gang","rounds":4,"reshape_s":0`),
			[]string{"a/0 x 0 0 1 1 0 2, x 1 3", "a/1 x 0 0 1 1 0 2", "a/2 x 0 0 1 1 0 2"}, ""},
		{"a task of three GPUs on two", shaped(`"sync":"gang","rounds":4,"reshape_s":0`),
			[]string{"a/0 x 0 0 1 1 0 2, x 1 3", "a/1 x 0 0 1 1 0 2"}, verify.CodeRounds},
		{"rigid in one shape, the last round does more than is left", shaped(`"sync":"rigid","rounds":5`),
			[]string{"a/0 x 0 0 3 1 3 1", "a/1 x 0 0 1 1 3 1, x 3 2 2 1 3 1"}, ""},
		{"rigid, not back to back", shaped(`"sync":"rigid","rounds":5`),
			[]string{"a/0 x 0 0 3 1 4 1", "a/1 x 0 0 3 1 4 1"}, verify.CodeRigid},
		{"relaxed, tasks one after another", shaped(`"rounds":3`), []string{"a/0 x 0 0 2 2 6 1"}, ""},
		{"goes on in the shape in which it runs", shaped(`"sync":"gang","rounds":4,` + runs),
			[]string{"a/0 x 2 2 1 1 0 1", "a/1 x 2 2 1 1 0 1"}, ""},
		{"does not go on in that shape", shaped(`"sync":"gang","rounds":4,` + runs), []string{"a/0 x 2 2 2 1 2"},
			verify.CodeShape},
		{"changes the shape in which it runs", shaped(`"sync":"gang","rounds":4,"reshape_s":1,` + runs),
			[]string{"a/0 x 3 2 2 1 2"}, ""},
		{"changes it too early", shaped(`"sync":"gang","rounds":4,"reshape_s":1,` + runs), []string{"a/0 x 2 2 2 1 2"},
			verify.CodePrecedence},
	} {
		inst := nodeInstance(t, []byte(cluster+c.jobs+`]}`))
		_, _, faults := verify.ScheduleValue(inst, scheduleOf(t, inst, c.rows))
		if c.want == "" && len(faults) > 0 || c.want != "" && (len(faults) != 1 || faults[0].Constraint != c.want) {
			t.Errorf("%s: %v, want %q", c.name, faults, c.want)
		}
	}
}

// The certificates of wrong readings of docs/reference/model.md prove what they prove by the right one.
func TestReadingsOfShapes(t *testing.T) {
	text, err := os.ReadFile("testdata/real/wrong-readings.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]struct {
		Optimum, Right        json.Number
		Instance, Certificate json.RawMessage
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for name, x := range all {
		if number, _, _ := strings.Cut(name, " "); !strings.Contains(" 18 19 20 29 30 31 ", " "+number+" ") {
			continue
		}
		inst := nodeInstance(t, x.Instance)
		optimum, _ := x.Optimum.Float64()
		for _, method := range []string{hare.MethodCriticalPath, hare.MethodMachine} {
			low, err := verify.Bound(inst, &hare.Certificate{Method: method, Objective: inst.Objective})
			if err != nil || ratFloat(low) > optimum {
				t.Errorf("%s: %s proves %v, %v, above the optimum %v", name, method, low, err, optimum)
			}
		}
		if x.Certificate == nil {
			continue
		}
		low, err := verify.Bound(inst, nodeCertificate(t, x.Certificate))
		if right, _ := x.Right.Float64(); err != nil || math.Abs(ratFloat(low)-right) > 0.0006 {
			t.Errorf("%s: %v %v, want %s", name, ratFloat(low), err, x.Right)
		}
	}
}

// For random tiny instances with setups and shapes, the optimal schedule is accepted with its
// value, and no certificate whose prices are optimised proves more than the optimum.
func TestBoundsWithShapes(t *testing.T) {
	instances, steps := 600, 25
	if testing.Short() {
		instances = 100
	}
	if *soak {
		instances = 100_000
	}
	r := rand.New(rand.NewPCG(15, 5))
	tried, tight, changes := 0, 0, 0
	for i := range instances {
		inst := brute.RandomWithShapes(r)
		opt, plan, done := brute.OptimumOnNodes(inst, 20_000)
		if !done || plan == nil {
			continue
		}
		tried++
		if slices.ContainsFunc(inst.Jobs, func(j hare.Job) bool { return changesShape(plan, j.ID) }) {
			changes++
		}
		optimum := hare.Product(1, opt)
		res := &hare.Result{Objective: inst.Objective, Value: &optimum, Schedule: plan}
		if hasFixed(inst) {
			constant := hare.Product(1, brute.Fixed(inst))
			res.Constant = &constant
		}
		if rep := verify.Check(inst, res); !rep.OK {
			t.Fatalf("instance %d: the optimal schedule of value %v: %s: %+v %+v", i, optimum, rep, inst, plan)
		}
		limit := new(big.Rat).SetFrac(optimum.Big(), big.NewInt(1e12))
		for _, method := range []string{hare.MethodCriticalPath, hare.MethodMachine} {
			if inst.Objective == hare.ObjectiveMakespan && method == hare.MethodMachine {
				continue
			}
			low, err := verify.Bound(inst, &hare.Certificate{Method: method, Objective: inst.Objective})
			if err != nil || low.Cmp(limit) > 0 {
				t.Fatalf("instance %d: %s proves %v, %v, optimum %v: %+v", i, method, low, err, optimum, inst)
			}
		}
		last := opt / 1e6
		cert := randomMixed(r, inst, last)
		best := ascend(r, cert, steps, func() float64 {
			low, err := verify.Bound(inst, cert)
			if inst.Objective == hare.ObjectiveMakespan {
				if err == nil {
					t.Fatalf("instance %d: prices prove a makespan above the optimum %v: %+v %+v", i, optimum, inst, cert)
				}
				return 0
			}
			if err != nil || low.Cmp(limit) > 0 {
				t.Fatalf("instance %d: prices prove %v, %v, optimum %v: %+v %+v", i, low, err, optimum, inst, cert)
			}
			return ratFloat(low)
		})
		if best > optimum.Float()*0.999999 {
			tight++
		}
	}
	t.Logf("%d instances, %d bounds equal to the optimum, %d plans in which a shape changes", tried, tight, changes)
	if tried < instances/4 || changes == 0 && !testing.Short() {
		t.Errorf("only %d instances, %d with changes of shape", tried, changes)
	}
}

// changesShape reports whether a job has entries of two shapes.
func changesShape(s *hare.Schedule, id string) bool {
	shape := int64(-1)
	for i := range s.Lanes {
		for x, j := range s.Lanes[i].Job {
			if s.Jobs[j] != id {
				continue
			}
			if shape >= 0 && shape != s.Lanes[i].Shape[x] {
				return true
			}
			shape = s.Lanes[i].Shape[x]
		}
	}
	return false
}

// eachProfile changes the profiles of a job in all of its shapes.
func eachProfile(j *hare.Job, change func(*hare.Profile)) {
	for i := range j.ShapeCount() {
		on := j.Shape(i).On
		for x := range on {
			change(&on[x])
		}
	}
}

// killByOther is for a wrong reading that is the right reading of another instance, into which change
// turns that of testdata. It exceeds the optimum by the longest path, or at the prices there. adds is
// what the other instance leaves out of the value.
func killByOther(name string, change func(*hare.Instance, *hare.Job), adds, want float64) func(*testing.T) (float64,
	float64, float64) {
	return func(t *testing.T) (float64, float64, float64) {
		instance, certificate := fromReadings(name)(t)
		inst := nodeInstance(t, instance)
		optimum := optimumOf(t, inst)
		cert := &hare.Certificate{Method: hare.MethodCriticalPath, Objective: inst.Objective}
		if certificate != nil {
			cert = nodeCertificate(t, certificate)
		}
		right, err := verify.Bound(inst, cert)
		if err != nil {
			t.Fatal(err)
		}
		for i := range inst.Jobs {
			change(inst, &inst.Jobs[i])
		}
		low, err := verify.Bound(inst, cert)
		if err != nil {
			t.Fatal(err)
		}
		got := ratFloat(low) + adds
		if math.Abs(got-want) > 0.0006 {
			t.Errorf("the wrong reading gives %v, want %v", got, want)
		}
		return got, ratFloat(right), optimum
	}
}

func oneShape(_ *hare.Instance, j *hare.Job) { j.Reshape, j.ReshapeUs = false, 0 }

func withoutCounts(_ *hare.Instance, j *hare.Job) {
	for i := range j.Shapes {
		j.Shapes[i].Counts = 1
	}
}

func switchEachRound(_ *hare.Instance, j *hare.Job) {
	eachProfile(j, func(p *hare.Profile) { p.SyncUs, p.SwitchUs = p.SyncUs+p.SwitchUs, 0 })
}

func largestSwitch(_ *hare.Instance, j *hare.Job) {
	most := int64(0)
	eachProfile(j, func(p *hare.Profile) { most = max(most, p.SwitchUs) })
	eachProfile(j, func(p *hare.Profile) { p.SwitchUs = most })
}

// switchWhenLoaded makes of a running job its rest, as if its setup were a release. Its GPUs are busy
// until its work ends.
func switchWhenLoaded(inst *hare.Instance, j *hare.Job) {
	if j.Progress == nil {
		return
	}
	j.Rounds -= j.Progress.RoundsDone + 1
	j.ReleaseUs = j.On[0].DurationUs() - j.Progress.ElapsedUs + j.On[0].SwitchUs
	for n := range inst.Cluster.Nodes {
		node := &inst.Cluster.Nodes[n]
		for g := range int(node.GPUCount()) {
			if slices.Contains(j.Progress.GPUs, node.Name+"/"+strconv.Itoa(g)) {
				node.Busy = append(node.Busy, hare.Busy{GPU: g, UntilUs: j.ReleaseUs - j.On[0].SwitchUs})
			}
		}
	}
	j.On[0].SwitchUs, j.Progress = 0, nil
}
