package trace

import (
	"errors"
	"math"
	"strings"
	"testing"
)

const (
	// Application "a" has placements 1, 2 and 1-1, and points on 1 to 3 nodes.
	elasticSteps = "application,source,num_nodes,num_replicas,placement,local_batch,step_time_s,sync_time_s\n" +
		"a,placements,1,1,1,10,1,0\n" + "a,placements,1,1,1,20,1.5,0\n" + "a,placements,1,1,1,40,3.5,0\n" +
		"a,placements,2,4,1-3,10,2,1\n" + "a,placements,2,4,2-2,10,4,2\n" +
		"a,scalability,3,4,,10,5,3\n" + "a,scalability,3,8,,10,9,5\n" + "a,scalability,3,4,,20,6,3\n"
	// The points by number are 0–2 (1, 1, ·), 3 (2, 4, 10), 4 (3, 4, 10), 5 (3, 4, 20), 6
	// (3, 8, 10).
	elasticCells  = "application,a,b,c,d\na,3,4,5,6\n"
	elasticEpochs = "application,batch_size,epoch,progress,steps,grad_sqr,grad_var\n" +
		"a,10,0,100,100,1,3\n" + "a,10,1,200,200,2,2\n" + "a,30,0,90,40,1,5\n" + "a,30,1,210,90,2,4\n"
	elasticWork = "name,time,application,num_replicas,batch_size\nx,60,a,2,20\ny,5,a,1,10\n"
)

func readElastic(work, steps, cells, epochs string) (*Elastic, error) {
	src := func(name, text string) Source { return Source{name, strings.NewReader(text)} }
	return ReadElastic(src("w", work), ElasticTables{src("s", steps), src("c", cells), src("e", epochs)})
}

func TestElasticJobs(t *testing.T) {
	e, err := readElastic(elasticWork, elasticSteps, elasticCells, elasticEpochs)
	if err != nil {
		t.Fatal(err)
	}
	a := e.Trainings[0]
	if a.Epochs != 2 || a.InitBatch != 10 || a.MaxBatch != 30 || a.MinLocal != 10 || a.MaxLocal != 40 {
		t.Errorf("training %+v", a)
	}
	want := []ElasticJob{{"y", 5, 1, 1, 10, false, a}, {"x", 60, 2, 2, 20, false, a}}
	if len(e.Jobs) != 2 || e.Jobs[0] != want[0] || e.Jobs[1] != want[1] {
		t.Errorf("jobs %+v", e.Jobs)
	}
}

// The times are computed by hand. On a measured placement, times are linear between two
// batches: 25 is a quarter of the way from 20 to 40. The placement 3-1 is a rotation of 1-3,
// which was measured with 10 samples but not with 12. For a placement that was not measured,
// the cell around (nodes, GPUs, local) counts: 1-1-2 is point 4, 2-3-1 lies halfway between
// points 4 and 6, and 1-1-1-1 counts as three nodes. Point 3 is the mean of 1-3 and 2-2.
func TestElasticStep(t *testing.T) {
	e, err := readElastic(elasticWork, elasticSteps, elasticCells, elasticEpochs)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		placement   []int
		local       int
		step, sync  float64
		notMeasured bool
	}{
		{[]int{1}, 10, 1, 0, false},
		{[]int{1}, 25, 2, 0, false},
		{[]int{1}, 40, 3.5, 0, false},
		{[]int{1}, 41, 0, 0, true},
		{[]int{1}, 9, 0, 0, true},
		{[]int{3, 1}, 10, 2, 1, false},
		{[]int{3, 1}, 12, 0, 0, true},
		{[]int{1, 1, 2}, 10, 5, 3, false},
		{[]int{2, 3, 1}, 10, 7, 4, false},
		{[]int{1, 1, 1, 1}, 10, 5, 3, false},
		{[]int{2, 2, 2}, 15, 7.5, 4, false}, // the mean of points 5 and 6
		{[]int{4, 4, 4}, 10, 0, 0, true},
		{[]int{2}, 10, 0, 0, true},
	} {
		step, sync, err := e.Trainings[0].Step(c.placement, c.local)
		if (err != nil) != c.notMeasured || math.Abs(step-c.step) > 1e-12 || math.Abs(sync-c.sync) > 1e-12 {
			t.Errorf("%v with %d: %v, %v, %v; by hand %v, %v", c.placement, c.local, step, sync, err, c.step, c.sync)
		}
	}
}

// A step of 20 is twice the initial batch. Halfway between 10 and 30 the square is 1 and the
// variance is 4, so the step makes the progress of (4 + 1) / (4/2 + 1) steps of the initial
// batch. An epoch ends at the least progress of all batches.
func TestElasticEpoch(t *testing.T) {
	e, err := readElastic(elasticWork, elasticSteps, elasticCells, elasticEpochs)
	if err != nil {
		t.Fatal(err)
	}
	a := e.Trainings[0]
	for _, c := range []struct {
		batch, epoch     int
		gain, end, steps float64
	}{{10, 0, 1, 90, 100}, {20, 0, 5. / 3, 90, 70}, {30, 1, 6 / (4./3 + 2), 200, 90}} {
		gain, end, steps, err := a.Epoch(c.batch, c.epoch)
		if err != nil || math.Abs(gain-c.gain) > 1e-12 || end != c.end || steps != c.steps {
			t.Errorf("batch %d, epoch %d: %v, %v, %v, %v; by hand %v, %v, %v", c.batch, c.epoch, gain, end, steps,
				err, c.gain,
				c.end, c.steps)
		}
	}
	for _, c := range [][2]int{{9, 0}, {31, 0}, {10, 2}, {10, -1}} {
		if _, _, _, err := a.Epoch(c[0], c[1]); err == nil {
			t.Errorf("batch %d, epoch %d: no error", c[0], c[1])
		}
	}
}

func TestElasticFaults(t *testing.T) {
	for _, c := range []struct{ name, text, add, want string }{
		{"w", "", "x,70,a,1,10\n", `w:4:1: name: "x" is empty or appears twice`},
		{"w", "", "z,70,b,1,10\n", `w:4:6: application: unknown model "b"; step times are of a`},
		{"w", "", "z,70,a,1,40\n", `w:4:10: batch_size: a was trained with batches of 10 to 30`},
		{"w", "", "z,-1,a,1,10\n", `w:4:3: time: "-1" is not a number`},
		{"w", "", "z,1,a,0,10\n", `w:4:7: num_replicas: 0 is less than 1`},
		{"w", "name,time,application,num_replicas,batch_size\n", "", "w:1:1: no row of this text gives a job"},
		{"s", "", "a,placements,2,3,2-2,10,1,0\n", "s:10:18: placement: 2-2 is not 3 GPUs on 2 nodes"},
		{"s", "", "a,placements,2,4,3-1,10,1,0\n", "s:10:22: local_batch: 10 on 3-1 was measured twice"},
		{"s", "", "a,placements,1,1,x,10,1,0\n", `s:10:18: placement: "x" is not numbers of GPUs`},
		{"s", "", "a,placements,1,2,2,10,1,1\n", "s:10:25: sync_time_s: leaves no compute time"},
		{"s", "", "b,scalability,1,2,,10,1,0\n", "s:1:1: no row of b has a placement"},
		{"c", "", "a,0,1,2,3\n", "c:3:3: a: the cell is flat"},
		{"c", "", "a,0,1,2,7\n", "c:3:9: d: 7: a has 7 points, numbered from 0"},
		{"e", "", "a,10,3,300,300,1,1\n", "e:6:6: epoch: 3: the next one of batch 10 is 2"},
		{"e", "", "a,10,2,150,300,1,1\n", "e:6:8: progress: must rise"},
		{"e", "", "a,10,2,300,150,1,1\n", "e:6:12: steps: must rise"},
		{"e", "", "a,10,2,300,300,0,0\n", "e:6:16: grad_sqr: both are 0"},
		{"e", "", "a,10,2,300,300,1,1\n", "e:1:1: a: batches 10 and 30 differ in their number of epochs"},
	} {
		text := map[string]string{"w": elasticWork, "s": elasticSteps, "c": elasticCells, "e": elasticEpochs}
		if c.text != "" {
			text[c.name] = c.text
		}
		text[c.name] += c.add
		_, err := readElastic(text["w"], text["s"], text["c"], text["e"])
		var row *RowError
		if !errors.As(err, &row) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s %q: %v, want %s", c.name, c.add, err, c.want)
		}
	}
}

// The shipped tables are complete: they give what Pollux's simulator (commit c793c70)
// gives for some placements, measured or not, and some batches.
func TestShippedElastic(t *testing.T) {
	tables, err := ShippedElasticTables()
	if err != nil {
		t.Fatal(err)
	}
	work, err := Shipped("pollux_workload_6.csv")
	if err != nil {
		t.Fatal(err)
	}
	e, err := ReadElastic(work, tables)
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Jobs) != 160 || len(e.Trainings) != 6 {
		t.Fatalf("%d jobs, %d applications", len(e.Jobs), len(e.Trainings))
	}
	cifar := e.Trainings[1]
	for _, c := range []struct {
		placement  []int
		local      int
		step, sync float64
	}{
		{[]int{4, 4, 4}, 341, 0.28443271259091935, 0.02274213804568884},
		{[]int{3, 3, 4, 2}, 341, 0.2949225835080417, 0.008916001499823804},
		{[]int{4, 4, 2, 2, 4}, 256, 0.22946795368194584, 0.022130909154891965},
	} {
		step, sync, err := cifar.Step(c.placement, c.local)
		if err != nil || math.Abs(step-c.step) > 1e-14 || math.Abs(sync-c.sync) > 1e-14 {
			t.Errorf("%v: %v, %v, %v", c.placement, step, sync, err)
		}
	}
	gain, end, _, err := cifar.Epoch(4092, 50)
	const sqr, variance, scale = 0.023417350412360715, 3.4928982585753046, 4092. / 128
	if want := (variance + sqr) / (variance/scale + sqr); err != nil || math.Abs(gain-want) > 1e-12 || end != 19922 {
		t.Errorf("epoch 50: %v, %v, %v", gain, end, err)
	}
}

func FuzzReadElastic(f *testing.F) {
	f.Add(elasticWork, elasticSteps, elasticCells, elasticEpochs)
	f.Fuzz(func(t *testing.T, work, steps, cells, epochs string) {
		e, err := readElastic(work, steps, cells, epochs)
		if err != nil {
			return
		}
		for _, j := range e.Jobs {
			if gain, end, _, err := j.Training.Epoch(j.Batch, 0); err != nil || !(gain > 0) || end <= 0 {
				t.Errorf("job %q: %v, %v, %v", j.ID, gain, end, err)
			}
			if _, _, err := j.Training.Step([]int{j.GPUs}, j.Batch); err == nil && j.Batch < 1 {
				t.Error("no batch")
			}
		}
	})
}
