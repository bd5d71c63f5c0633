package explain_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/explain"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// A wait names setups of its own and of other jobs, the time that a change of the shape takes, and the shapes in
// which a round could have started.
func TestExplainSetupsAndShapes(t *testing.T) {
	inst, err := wire.DecodeInstance(strings.NewReader(`{"hare":"instance/v1",
		"cluster":{"nodes":[{"name":"a","gpus":{"A":2}}]},
		"jobs":[
			{"id":"r","sync":"rigid","on":{"A":{"compute_s":20}},"progress":{"gpus":["a/0"]}},
			{"id":"x","sync":"gang","rounds":9,"reshape_s":4,"shapes":[
				{"tasks":1,"on":{"A":{"compute_s":2,"switch_s":6}}},
				{"tasks":2,"counts":2,"on":{"A":{"compute_s":3,"switch_s":6}}}]},
			{"id":"y","sync":"rigid","on":{"A":{"compute_s":4,"switch_s":5}}}]}`), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	const s = int64(1e6)
	sched := &hare.Schedule{Jobs: []string{"r", "x", "y"}, Lanes: []hare.Lane{
		{GPU: "a/0", Job: []int32{1, 2}, Round: []int64{2, 0}, Rounds: []int64{4, 1}, PeriodUs: []int64{3 * s, 0},
			StartUs: []int64{26 * s, 43 * s}, Shape: []int64{1, 0}},
		{GPU: "a/1", Job: []int32{1, 1}, Round: []int64{0, 2}, Rounds: []int64{2, 4}, PeriodUs: []int64{2 * s, 3 * s},
			StartUs: []int64{6 * s, 26 * s}, Shape: []int64{0, 1}}}}
	value, _, faults := verify.ScheduleValue(inst, sched)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	res := &hare.Result{Objective: inst.Objective, Schedule: sched, Value: &value}
	for job, want := range map[string]string{
		"x": `[{"state":"waiting","from_s":0,"to_s":6,"round":0,"waits":[` +
			`{"type":"A","cause":"setup","shape":0,"from_s":0,"to_s":6,"for_s":6,` +
			`"need":1,"need_s":2,"setup_s":6,"free":1}]},` +
			`{"state":"running","from_s":6,"to_s":10,"round":0,"rounds":2,"gpus":{"A":1},"shapes":[{"shape":0,"rounds":2}]},` +
			`{"state":"waiting","from_s":10,"to_s":14,"round":2,"waits":[{"type":"","cause":"reshape","from_s":10,"to_s":14,` +
			`"for_s":4,"need":0,"need_s":0,"free":0,"until_s":14},` +
			`{"type":"A","cause":"shape","shape":0,"from_s":10,"to_s":14,"for_s":4,` +
			`"need":1,"need_s":2,"setup_s":6,"free":1}]},` +
			`{"state":"waiting","from_s":14,"to_s":26,"round":2,"waits":[` +
			`{"type":"A","cause":"held","shape":1,"from_s":14,"to_s":20,"for_s":6,"need":2,"need_s":3,"setup_s":6,"free":1,` +
			`"jobs":[{"job":"r","gpus":1,"until_s":20}]},` +
			`{"type":"A","cause":"setup","shape":1,"from_s":20,"to_s":26,"for_s":6,` +
			`"need":2,"need_s":3,"setup_s":6,"free":2},` +
			`{"type":"A","cause":"shape","shape":0,"from_s":14,"to_s":26,"for_s":12,` +
			`"need":1,"need_s":2,"setup_s":6,"free":2}]},` +
			`{"state":"running","from_s":26,"to_s":38,"round":2,"rounds":4,"gpus":{"A":2},"shapes":[{"shape":1,"rounds":4}]}]`,
		// On a/1, work of y could start after its own setup, and must end early enough for one of x.
		"y": `[{"state":"waiting","from_s":0,"to_s":43,"round":0,"waits":[` +
			`{"type":"A","cause":"held","from_s":0,"to_s":38,"for_s":22,"need":1,"need_s":4,"setup_s":5,"free":0,` +
			`"jobs":[{"job":"x","gpus":2,"until_s":38},{"job":"r","gpus":1,"until_s":20}]},` +
			`{"type":"A","cause":"setup","from_s":10,"to_s":43,"for_s":10,"need":1,"need_s":4,"setup_s":5,"free":2},` +
			`{"type":"A","cause":"choice","from_s":15,"to_s":16.000001,"for_s":1.000001,"need":1,"need_s":4,"setup_s":5,` +
			`"free":1},` +
			`{"type":"A","cause":"too_short","from_s":16.000001,"to_s":26,"for_s":9.999999,"need":1,"need_s":4,"setup_s":5,` +
			`"free":1}]},` +
			`{"state":"running","from_s":43,"to_s":47,"round":0,"rounds":1,"gpus":{"A":1}}]`,
	} {
		a, err := explain.Static(inst, res, explain.Request{Job: job})
		if err != nil {
			t.Errorf("%s: %v", job, err)
			continue
		}
		if text, err := json.Marshal(a.Timeline); err != nil || string(text) != want {
			t.Errorf("%s: %s\nwant %s", job, text, want)
		}
	}
	a, err := explain.Static(inst, res, explain.Request{Job: "r"})
	if err != nil || a.LeastS != hare.Seconds(20*s) {
		t.Errorf("r: %+v, %v", a, err)
	}
}

// A job with shapes waits and runs as a job that has the shape alone in which it runs.
func TestExplainOneOfSeveralShapes(t *testing.T) {
	checked := 0
	for seed := range uint64(40) {
		inst := nodesInstance(seed)
		if inst.Validate() != nil {
			continue
		}
		rng := rand.New(rand.NewPCG(seed, 13))
		for i := range inst.Jobs {
			j := &inst.Jobs[i]
			if j.Mix || rng.IntN(2) == 0 {
				continue
			}
			other := slices.Clone(j.On)
			for k := range other {
				other[k].ComputeUs += second * int64(rng.IntN(3))
			}
			j.Shapes = []hare.Shape{{Tasks: j.Tasks, GPUsPerTask: j.GPUsPerTask, Counts: 1, On: j.On},
				{Tasks: j.Tasks + 1, GPUsPerTask: j.GPUsPerTask, Counts: 1 + int64(rng.IntN(2)), On: other}}
			j.Tasks, j.GPUsPerTask, j.On = 0, 0, nil
		}
		res, err := direct(context.Background(), inst, hare.Options{WorkLimit: 50})
		if err != nil || res.Schedule == nil || len(res.Schedule.Lanes) == 0 {
			continue // infeasible
		}
		plain, plan := *res, *res.Schedule
		plain.Schedule, plain.Certificate = &plan, nil
		one := *inst
		one.Jobs = slices.Clone(inst.Jobs)
		shapeOf := map[string]int64{}
		plan.Lanes = slices.Clone(plan.Lanes)
		for l := range plan.Lanes {
			lane := &plan.Lanes[l]
			lane.Round = slices.Clone(lane.Round)
			for e := range lane.Job {
				x := lane.Entry(e)
				id := plan.Jobs[x.Job]
				shapeOf[id] = x.Shape
				at := slices.IndexFunc(inst.Jobs, func(j hare.Job) bool { return j.ID == id })
				if lane.Round != nil {
					lane.Round[e] /= inst.Jobs[at].Shape(int(x.Shape)).Counts
				}
			}
			lane.Shape = nil
		}
		for i := range one.Jobs {
			if j := &one.Jobs[i]; j.Shapes != nil {
				s := j.Shapes[shapeOf[j.ID]]
				j.Tasks, j.GPUsPerTask, j.On, j.Shapes = s.Tasks, s.GPUsPerTask, s.On, nil
				j.Rounds = (j.Rounds + s.Counts - 1) / s.Counts
			}
		}
		for i := range inst.Jobs {
			id := inst.Jobs[i].ID
			got, err := explain.Static(inst, res, explain.Request{Job: id})
			if err != nil {
				t.Fatalf("seed %d, %s: %v", seed, id, err)
			}
			want, err := explain.Static(&one, &plain, explain.Request{Job: id})
			if err != nil {
				t.Fatalf("seed %d, %s: %v", seed, id, err)
			}
			units := int64(1)
			if inst.Jobs[i].Shapes != nil {
				units = inst.Jobs[i].Shapes[shapeOf[id]].Counts
				checked++
			}
			for k := range want.Timeline {
				want.Timeline[k].Round *= units
			}
			for k := range got.Timeline {
				x := &got.Timeline[k]
				x.Shapes, x.Pays = nil, nil
				x.Waits = slices.DeleteFunc(x.Waits, func(w explaindoc.Wait) bool { return w.Cause == "shape" })
				for w := range x.Waits {
					x.Waits[w].Shape = nil
				}
			}
			a, _ := json.Marshal(got.Timeline)
			b, _ := json.Marshal(want.Timeline)
			if string(a) != strings.ReplaceAll(string(b), `"waits":[],`, "") {
				t.Errorf("seed %d, %s:\n%s\nwant\n%s", seed, id, a, b)
			}
		}
	}
	if checked < 20 {
		t.Errorf("%d jobs with shapes were explained", checked)
	}
}
