package verify_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/verify"
)

// wrongReadings are the wrong readings of docs/reference/model.md that a verifier or a relaxation may fall into. kill
// evaluates the reading, and the right one, of an instance whose optimum brute force finds; +Inf says that a job has
// no bound. Docs/bounds.md names them.
var wrongReadings = []struct {
	name string
	kill func(*testing.T) (wrong, right, optimum float64)
}{
	{"the gang a unit where it may be spread", killOnNodes(11, nodeReading{gangUnit: true})},
	{"F from the mean node", killOnNodes(4, nodeReading{meanNode: true})},
	{"F without singles", killOnNodes(4, nodeReading{noSingles: true})},
	{"F by the dearest first", killByFile("4 dearest_first", nodeReading{dearestFirst: true})},
	{"whole gangs as units of jobs that mix types", killUnitsMixing},
	{"whole rounds as units of relaxed jobs", killOnNodes(5, nodeReading{unitsRelaxed: true})},
	{"a gang must fit one node", killOnNodes(11, nodeReading{gangOnOneNode: true})},
	{"room at time 0 alone", killOnNodes(15, nodeReading{fitAtZero: true})},
	{"CPUs at time 0 alone", killOnNodes(89, nodeReading{cpusAtZero: true})},
	{"the GPUs at the left end of a cell", killOnNodes(134, nodeReading{leftEnd: true})},
	{"the tasks at once of one node", killOnNodes(170, nodeReading{ownByNode: true})},
	{"one class of nodes taken for all", killOnNodes(50, nodeReading{firstClass: true})},
	{"gang units in a pool that lacks some of its nodes", killByFile("13 subset_gang", nodeReading{subsetGang: true})},
	{"the GPUs of the nodes that one job may use", killOnNodes(148, nodeReading{poolOfFirst: true})},
	{"the GPUs without reserved nodes", killMixed(87, nodeReading{reservedGone: true})},

	{"the time of the widest spread", killLevels(71, nodeReading{syncWidest: true})},
	{"room for a gang that mixes type by type", killMixFitByType},
	{"the path of a job that changes its shape by its best one", killByOther("18 path_one_shape", oneShape, 0, 37)},
	{"what it pays by its best shape", killByOther("19 one_shape", oneShape, 0, 56.083)},
	{"counts ignored", killByOther("20 counts_ignored", withoutCounts, 0, 7.748)},

	{"the times of predecessors added", killAt(nodeReading{afterSum: true}, twoBefore, 4, 6)},
	{"moved weight kept by the job too", killMixed(84, nodeReading{keepsWeight: true})},
	{"P less the release for setup and least time", killAt(nodeReading{fromRelease: true},
		fromReadings("23 after_from_release"), 29.891, 34.091)},
	{"the deadline rounded down", killAt(nodeReading{of: reading{deadlineDown: true}}, withoutPrices("24 deadline_down"),
		20, 22)},
	{"the tardiness of the end on one machine", killTardinessOfMachine},
	{"the last cell before T without capacity", killMixed(71, nodeReading{shortCapacity: true})},

	{"running work counts for a quota for ever", killMixed(574, nodeReading{quotaForGood: true})},
	{"a quota of some types counts all", killMixed(370, nodeReading{quotaAllTypes: true})},
	{"a setup in each round", killByOther("29 switch_every_round", switchEachRound, 0, 45)},
	{"the largest setup", killByOther("30 switch_max", largestSwitch, 0, 13.001)},
	// 4 is w (a' − a), which the other instance leaves out.
	{"a setup for a running job", killByOther("31 switch_when_loaded", switchWhenLoaded, 4, 38.82)},
	{"GPUs of running work are gone for good", killMixed(2, nodeReading{busyForGood: true})},
	{"the running round again", killMixed(75, nodeReading{runningAgain: true})},
	{"elapsed_s ignored", killMixed(55, nodeReading{noElapsed: true})},

	{"synchronisation priced under relaxed", killOnNodes(107, nodeReading{of: reading{priceD: true}})},
	{"no idle point", killOnNodes(25, nodeReading{of: reading{noIdle: true}})},
	{"the bound of mean durations", killMeanDurations},
}

// Each of the wrong readings exceeds an optimum, and the right reading does not.
func TestEachWrongReadingDies(t *testing.T) {
	page, err := os.ReadFile("../docs/inside/bounds.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(wrongReadings); n < 37 || !strings.Contains(string(page), fmt.Sprintf("names %d of other rules", n)) {
		t.Errorf("docs/inside/bounds.md does not say that there are %d wrong readings, or there are fewer than 37", n)
	}
	for n, reading := range wrongReadings {
		t.Run(fmt.Sprintf("%d %s", n+1, reading.name), func(t *testing.T) {
			wrong, right, optimum := reading.kill(t)
			if wrong <= optimum+1e-6 || math.IsNaN(wrong) || right > optimum+1e-6 {
				t.Errorf("the wrong reading gives %v, the right one %v, the optimum is %v", wrong, right, optimum)
			}
		})
	}
}

// These instances kill some of the wrong readings as well.
func TestMoreInstancesKillReadings(t *testing.T) {
	for name, kill := range map[string]func(*testing.T) (wrong, right, optimum float64){
		"1, between racks":        killLevels(172, nodeReading{gangUnit: true}),
		"7, within racks":         killLevels(46, nodeReading{gangOnOneNode: true}),
		"12, the last class":      killByFile("12 first_class", nodeReading{lastClass: true}),
		"23, at optimised prices": killMixed(120, nodeReading{fromRelease: true}),
	} {
		if wrong, right, optimum := kill(t); wrong <= optimum+1e-6 || right > optimum+1e-6 {
			t.Errorf("%s: the wrong reading gives %v, the right one %v, the optimum is %v", name, wrong, right, optimum)
		}
	}
}

// Wrong readings of the model have other optima on examples, and verify refuses schedules that are
// better than the optimum by the right reading.
func TestWrongReadingsOfTheModel(t *testing.T) {
	none := func(*hare.Job) {}
	withoutSetups := func(j *hare.Job) { eachProfile(j, func(p *hare.Profile) { p.SwitchUs = 0 }) }
	withoutRunning := func(j *hare.Job) {
		if j.Running() {
			j.Users = nil
		}
	}
	for _, c := range []struct {
		name, example  string
		reading        brute.Reading
		change         func(*hare.Job)
		optimum, wrong float64
	}{
		{"the GPUs of a task on several nodes", "nodes/nodes", brute.Reading{}, func(j *hare.Job) {
			j.Tasks, j.CPUMilliPerTask, j.GPUsPerTask = j.Tasks*j.TaskGPUs(), j.CPUMilliPerTask/j.TaskGPUs(), 0
		}, 22, 19},
		{"within of each task", "real/spread", brute.Reading{WithinOfTasks: true}, none, 27, 23},
		{"racks of one name as one", "real/spread", brute.Reading{RacksByName: true}, none, 27, 23},
		{"no setups", "real/switch", brute.Reading{}, withoutSetups, 40, 27},
		{"no setups", "real/return", brute.Reading{}, withoutSetups, 21, 20},
		{"a setup at the first start of a job alone", "real/return", brute.Reading{FirstSetups: true}, none, 21, 20},
		{"a successor after the start", "real/after", brute.Reading{AfterStarts: true}, none, 65, 48},
		{"quotas without running work", "real/quota", brute.Reading{}, withoutRunning, 26, 21},
		{"quotas without running work", "real/together", brute.Reading{}, withoutRunning, 27, 22},
		{"CPUs for each GPU", "real/together", brute.Reading{}, func(j *hare.Job) { j.CPUMilliPerTask *= j.TaskGPUs() },
			27, 35},
	} {
		t.Run(c.name+" of "+c.example, func(t *testing.T) {
			_, inst, _ := readNodeExample(t, c.example)
			other := brute.Clone(inst)
			for i := range other.Jobs {
				c.change(&other.Jobs[i])
			}
			opt, plan, done := c.reading.Optimum(other, 2_000_000)
			if got := hare.Product(1, opt).Float(); !done || plan == nil || got != c.wrong {
				t.Fatalf("the wrong reading has the optimum %v, want %v", got, c.wrong)
			}
			if _, _, faults := verify.ScheduleValue(inst, plan); (len(faults) > 0) != (c.wrong < c.optimum) {
				t.Errorf("the schedule of the wrong reading has the faults %v", faults)
			}
		})
	}
}

// optimumOf finds the optimum of an instance by brute force.
func optimumOf(t *testing.T, inst *hare.Instance) float64 {
	t.Helper()
	opt, plan, done := brute.OptimumOnNodes(inst, 200_000)
	if !done || plan == nil {
		t.Fatalf("brute force finds no schedule: %v", done)
	}
	return hare.Product(1, opt).Float()
}

// ascendWrong optimises prices for a wrong reading, and returns what the reading and the right one
// make of them.
func ascendWrong(r *rand.Rand, inst *hare.Instance, cert *hare.Certificate, wrong nodeReading,
	optimum float64) (float64, float64, float64) {
	best := ascend(r, cert, 150, func() float64 {
		if v := naiveOnNodes(inst, cert, wrong); !math.IsNaN(v) {
			return v
		}
		return math.Inf(-1)
	})
	return best, naiveOnNodes(inst, cert, nodeReading{}), optimum
}

// killByFile evaluates a reading at the prices of testdata/nodes/wrong-readings.json.
func killByFile(name string, wrong nodeReading) func(*testing.T) (float64, float64, float64) {
	return func(t *testing.T) (float64, float64, float64) {
		x := nodeReadings(t)[name]
		inst, cert := nodeInstance(t, x.Instance), nodeCertificate(t, x.Certificate)
		return naiveOnNodes(inst, cert, wrong), naiveOnNodes(inst, cert, nodeReading{}), optimumOf(t, inst)
	}
}

// withoutPrices is the instance of an example, without its certificate.
func withoutPrices(name string) readingExample {
	return func(t *testing.T) (instance, certificate []byte) {
		instance, _ = fromReadings(name)(t)
		return instance, nil
	}
}

// killMeanDurations: the bound of the mean durations of two jobs, of which one is short when the
// other is long, is above the mean of the optima. TestExpectedBoundOfExample in relax tests that
// `hare bound --expected` is not.
func killMeanDurations(t *testing.T) (wrong, right, optimum float64) {
	instance, _ := fromReadings("37 mean_durations")(t)
	scaled := func(x, y int64) *hare.Instance {
		inst := nodeInstance(t, instance)
		for i, half := range []int64{x, y} {
			j := &inst.Jobs[i]
			for p := range j.On {
				j.On[p].ComputeUs = j.On[p].ComputeUs * half / 2
			}
			j.Durations = nil
		}
		return inst
	}
	optimum = (optimumOf(t, scaled(1, 3)) + optimumOf(t, scaled(3, 1))) / 2
	bound := func(inst *hare.Instance) float64 {
		low, err := verify.Bound(inst, &hare.Certificate{Method: hare.MethodMachine, Objective: inst.Objective})
		if err != nil {
			t.Fatal(err)
		}
		return ratFloat(low)
	}
	if optimum != 15 {
		t.Errorf("the mean of the optima is %v, want 15", optimum)
	}
	return bound(scaled(2, 2)), (bound(scaled(1, 3)) + bound(scaled(3, 1))) / 2, optimum
}
