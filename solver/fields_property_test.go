package solver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// solvedBytes solves an instance with a work limit and encodes its result without times.
func solvedBytes(t *testing.T, inst *hare.Instance) (*hare.Result, string) {
	t.Helper()
	res, err := solver.Solve(context.Background(), inst, hare.Options{Gap: 1e-9, WorkLimit: 100, Seed: 1},
		solver.Config{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	res.Timing = hare.Timing{}
	var text bytes.Buffer
	if err := wire.EncodeResult(&text, res); err != nil {
		t.Fatal(err)
	}
	return res, text.String()
}

// defaults are the values of fields that may be left out, by the kind of the object in which they
// stand. {} and [] are "none".
var defaults = map[string]map[string]string{
	"instance":    {"objective": `"weighted_jct"`, "quota": `[]`},
	"cluster":     {"topology": `[]`, "reservations": `[]`},
	"node":        {"labels": `{}`, "busy": `[]`, "in_service_s": `[[0,null]]`},
	"reservation": {"from_s": `0`, "nodes": `{}`, "users": `[]`, "jobs": `[]`},
	"job": {"gpus_per_task": `1`, "cpus_per_task": `0`, "memory_mib_per_task": `0`, "distinct_nodes": `false`,
		"only": `{}`, "exclude": `{}`, "user": `[]`, "after": `[]`, "late_weight": `0`, "progress": `{}`,
		"tasks": `1`, "release_s": `0`, "sync": `"relaxed"`},
	"shape":    {"tasks": `1`, "gpus_per_task": `1`, "counts": `1`},
	"profile":  {"sync_s": `0`, "switch_s": `0`},
	"progress": {"rounds_done": `0`, "gpus": `[]`, "elapsed_s": `0`, "shape": `0`},
	"after":    {"lag_s": `0`},
}

// inner says of which kind the objects below a field are, by the kind of the object and the field.
var inner = map[string]string{"instance cluster": "cluster", "instance jobs": "job", "cluster nodes": "node",
	"cluster reservations": "reservation", "job shapes": "shape", "job on": "profiles", "shape on": "profiles",
	"job progress": "progress", "job after": "after"}

// addDefaults adds all fields that are left out to an object of a kind, and to those below, and
// leaves out those that are given at their defaults.
func addDefaults(kind string, value any, added map[string]int) {
	switch x := value.(type) {
	case []any:
		for i, v := range x {
			if id, short := v.(string); short && kind == "after" {
				x[i] = map[string]any{"job": id, "lag_s": 0}
				added["after lag_s"]++
				continue
			}
			addDefaults(kind, v, added)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(x)) {
			if kind == "profiles" {
				addDefaults("profile", x[name], added)
			} else if below := inner[kind+" "+name]; below != "" {
				addDefaults(below, x[name], added)
			}
		}
		for name, text := range defaults[kind] {
			shaped := kind == "job" && x["shapes"] != nil && (name == "tasks" || name == "gpus_per_task")
			value, given := x[name]
			if is, err := json.Marshal(value); given && err == nil && string(is) == text {
				delete(x, name)
				added[kind+" "+name]++
			}
			if !given && !shaped {
				x[name] = json.RawMessage(text)
				added[kind+" "+name]++
			}
		}
	}
}

// A field at its default changes no byte: not the canonical form of an instance, and not its result.
func TestDefaultsChangeNoByte(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: the race detector has nothing to find, and the test runs without it")
	}
	n := uint64(160)
	added := map[string]int{}
	for seed := range n {
		inst, _ := brute.RandomFields(rand.New(rand.NewPCG(seed, 61)))
		var text bytes.Buffer
		if err := wire.EncodeInstance(&text, inst); err != nil {
			t.Fatal(err)
		}
		read := func(doc []byte) *hare.Instance {
			inst, err := wire.DecodeInstance(bytes.NewReader(doc), wire.Limits{})
			if err != nil {
				t.Fatalf("seed %d: %v: %s", seed, err, doc)
			}
			return inst
		}
		var tree any
		d := json.NewDecoder(bytes.NewReader(text.Bytes()))
		d.UseNumber()
		if err := d.Decode(&tree); err != nil {
			t.Fatal(err)
		}
		addDefaults("instance", tree, added)
		longer, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		plain, given := read(text.Bytes()), read(longer)
		if a, b := wire.Canonical(plain), wire.Canonical(given); !bytes.Equal(a, b) {
			t.Fatalf("seed %d: the canonical form is\n%s\nand with defaults\n%s", seed, a, b)
		}
		_, a := solvedBytes(t, plain)
		if _, b := solvedBytes(t, given); a != b {
			t.Fatalf("seed %d: the result is\n%s\nand with defaults\n%s", seed, a, b)
		}
	}
	for kind, fields := range defaults {
		for name := range fields {
			if added[kind+" "+name] == 0 {
				t.Errorf("%s of a %s was never added or left out", name, kind)
			}
		}
	}
}

// tightenings make schedules infeasible or longer, and none feasible or shorter.
var tightenings = map[string]func(r *rand.Rand, inst *hare.Instance, n *hare.Node, j *hare.Job){
	"distinct_nodes": func(_ *rand.Rand, _ *hare.Instance, _ *hare.Node, j *hare.Job) {
		j.DistinctNodes = j.Sync != hare.Relaxed
	},
	"cpus_per_task": func(r *rand.Rand, _ *hare.Instance, _ *hare.Node, j *hare.Job) {
		j.CPUMilliPerTask += 1 + r.Int64N(2000)
	},
	"memory_mib_per_task": func(r *rand.Rand, _ *hare.Instance, _ *hare.Node, j *hare.Job) {
		j.MemoryMiBPerTask += 1 + r.Int64N(3)
	},
	"cpus": func(_ *rand.Rand, _ *hare.Instance, n *hare.Node, _ *hare.Job) {
		if n.CPUMilli == 0 || n.CPUMilli > 1500 {
			n.CPUMilli = 1500
		}
	},
	"memory_mib": func(_ *rand.Rand, _ *hare.Instance, n *hare.Node, _ *hare.Job) {
		if n.MemoryMiB == 0 || n.MemoryMiB > 2 {
			n.MemoryMiB = 2
		}
	},
	"exclude": func(_ *rand.Rand, _ *hare.Instance, n *hare.Node, j *hare.Job) {
		if len(j.Exclude) == 0 {
			j.Exclude = []hare.LabelValues{{Label: hare.LabelNode, Values: []string{n.Name}}}
		}
	},
	"only": func(_ *rand.Rand, _ *hare.Instance, n *hare.Node, j *hare.Job) {
		if len(j.Only) == 0 {
			j.Only = []hare.LabelValues{{Label: hare.LabelNode, Values: []string{n.Name}}}
		}
	},
	"busy": func(r *rand.Rand, _ *hare.Instance, n *hare.Node, _ *hare.Job) {
		if len(n.Busy) == 0 {
			n.Busy = []hare.Busy{{GPU: r.IntN(int(n.GPUCount())), UntilUs: 2_000_000}}
		}
	},
	"in_service_s": func(_ *rand.Rand, _ *hare.Instance, n *hare.Node, _ *hare.Job) {
		if n.Windows == nil {
			n.Windows = []hare.Window{{StartUs: 0, EndUs: 4_000_000}, {StartUs: 5_000_000, EndUs: hare.Forever}}
		}
	},
	"gpus": func(_ *rand.Rand, _ *hare.Instance, n *hare.Node, _ *hare.Job) { n.GPUs[len(n.GPUs)-1].Count-- },
	"reservations": func(r *rand.Rand, inst *hare.Instance, n *hare.Node, _ *hare.Job) {
		from := r.Int64N(6) * 500_000
		inst.Cluster.Reservations = append(inst.Cluster.Reservations, hare.Reservation{FromUs: from,
			UntilUs: from + 1_500_000, Nodes: []hare.LabelValues{{Label: hare.LabelNode, Values: []string{n.Name}}}})
	},
	"quota": func(r *rand.Rand, inst *hare.Instance, _ *hare.Node, j *hare.Job) {
		if len(j.Users) > 0 {
			inst.Quota = append(inst.Quota, hare.Quota{User: j.Users[0], GPUs: 1 + r.Int64N(3)})
		}
	},
	"within": func(_ *rand.Rand, inst *hare.Instance, _ *hare.Node, j *hare.Job) {
		if j.Within == "" && j.Sync != hare.Relaxed {
			j.Within = brute.LevelNames(inst)[len(inst.Cluster.Topology)]
		}
	},
	"compute_s": func(_ *rand.Rand, _ *hare.Instance, _ *hare.Node, j *hare.Job) {
		eachProfile(j, func(p *hare.Profile) { p.ComputeUs += 500_000 })
	},
	"sync_s": func(_ *rand.Rand, _ *hare.Instance, _ *hare.Node, j *hare.Job) {
		eachProfile(j, func(p *hare.Profile) {
			p.SyncUs += 500_000
			for i := range p.SyncAt {
				p.SyncAt[i].SyncUs += 500_000
			}
		})
	},
	"switch_s": func(_ *rand.Rand, _ *hare.Instance, _ *hare.Node, j *hare.Job) {
		eachProfile(j, func(p *hare.Profile) { p.SwitchUs += 500_000 })
	},
	"on": func(_ *rand.Rand, _ *hare.Instance, _ *hare.Node, j *hare.Job) {
		if len(j.On) > 1 {
			j.On = j.On[1:]
		}
	},
	"shapes": func(_ *rand.Rand, _ *hare.Instance, _ *hare.Node, j *hare.Job) {
		if len(j.Shapes) > 1 && !j.Running() {
			j.Shapes = j.Shapes[1:]
			j.NormaliseShapes()
		}
	},
	"reshape_s": func(r *rand.Rand, _ *hare.Instance, _ *hare.Node, j *hare.Job) {
		if j.Reshape {
			j.ReshapeUs += 1_000_000
			if r.IntN(2) == 0 {
				j.Reshape, j.ReshapeUs = false, 0
			}
		}
	},
	"rounds": func(_ *rand.Rand, _ *hare.Instance, _ *hare.Node, j *hare.Job) { j.Rounds++ },
	"tasks": func(_ *rand.Rand, _ *hare.Instance, _ *hare.Node, j *hare.Job) {
		if j.Shapes == nil {
			j.Tasks++
		}
	},
	"gpus_per_task": func(_ *rand.Rand, _ *hare.Instance, _ *hare.Node, j *hare.Job) {
		if j.Shapes == nil {
			j.GPUsPerTask = j.TaskGPUs() + 1
		}
	},
	"mix": func(_ *rand.Rand, _ *hare.Instance, _ *hare.Node, j *hare.Job) { j.Mix = false },
	"after": func(_ *rand.Rand, inst *hare.Instance, _ *hare.Node, j *hare.Job) {
		if len(j.After) > 0 {
			j.After[0].LagUs += 1_000_000
		} else if j.ID != inst.Jobs[0].ID {
			j.After = []hare.Predecessor{{Job: inst.Jobs[0].ID}}
		}
	},
	"deadline_s": func(_ *rand.Rand, _ *hare.Instance, _ *hare.Node, j *hare.Job) {
		if j.DeadlineUs > 500_000 {
			j.DeadlineUs -= 500_000
		}
	},
	"late_weight": func(_ *rand.Rand, _ *hare.Instance, _ *hare.Node, j *hare.Job) {
		if j.DeadlineUs > 0 {
			j.LateWeightMicro += 1_000_000
		}
	},
	"weight": func(_ *rand.Rand, _ *hare.Instance, _ *hare.Node, j *hare.Job) { j.WeightMicro += 1_000_000 },
	"elapsed_s": func(_ *rand.Rand, _ *hare.Instance, _ *hare.Node, j *hare.Job) {
		if j.Running() {
			j.Progress.ElapsedUs = 0
		}
	},
	"rounds_done": func(_ *rand.Rand, _ *hare.Instance, _ *hare.Node, j *hare.Job) {
		if j.Progress != nil {
			j.Progress.RoundsDone = 0
		}
	},
}

func eachProfile(j *hare.Job, change func(*hare.Profile)) {
	for i := range j.ShapeCount() {
		on := j.Shape(i).On
		for x := range on {
			change(&on[x])
		}
	}
}

// withFixed says which jobs end with the work that runs at time 0; their costs are left out.
func withFixed(inst *hare.Instance) (fixed []bool) {
	for _, j := range model.New(inst).Jobs {
		fixed = append(fixed, j.Rounds == 0)
	}
	return fixed
}

// gridPrices returns a certificate with prices and sizes of all nodes, and no other pools.
func gridPrices(r *rand.Rand, inst *hare.Instance) *hare.Certificate {
	c := &hare.Certificate{Method: hare.MethodPrice, Path: r.IntN(4) > 0, Objective: inst.Objective, GridUs: []int64{0}}
	for range 6 {
		c.GridUs = append(c.GridUs, c.GridUs[len(c.GridUs)-1]+(1+r.Int64N(3))*1_000_000)
	}
	row := func(scale int64) (out []int64) {
		at := r.Int64N(800_000_000) * scale
		for g := range 6 {
			out = append(out, at*int64(6-g)/6)
		}
		return out
	}
	for _, kind := range model.New(inst).Types {
		c.Prices = append(c.Prices, hare.TypePrices{Type: kind, Nanos: row(1)})
		for s := int64(2); s < 5; s++ {
			if r.IntN(2) == 0 {
				c.Sizes = append(c.Sizes, hare.SizePrices{Type: kind, Tasks: s, Nanos: row(s)})
			}
		}
	}
	return c
}

// Tightening a field never lowers the optimum, and no bound at the same prices.
func TestTighterFieldsNeverLowerOptimumOrBound(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: the race detector has nothing to find, and the test runs without it")
	}
	// Whether a gang pays as a unit goes by its size and by mix, so that other prices count then.
	others := []string{"tasks", "gpus_per_task", "mix", "shapes"}
	n := 25
	for _, name := range slices.Sorted(maps.Keys(tightenings)) {
		t.Run(name, func(t *testing.T) {
			compared, raised := 0, 0
			for seed := uint64(0); compared < n && seed < 4000; seed++ {
				r := rand.New(rand.NewPCG(seed, 62))
				inst, _ := brute.RandomFields(r)
				if slices.ContainsFunc(brute.Fields, func(f brute.Field) bool { return f.Name == name }) {
					inst = brute.RandomWith(r, name)
				}
				tight := brute.Clone(inst)
				tightenings[name](r, tight, &tight.Cluster.Nodes[r.IntN(len(tight.Cluster.Nodes))],
					&tight.Jobs[r.IntN(len(tight.Jobs))])
				if bytes.Equal(wire.Canonical(tight), wire.Canonical(inst)) || tight.Validate() != nil ||
					inst.Objective != hare.ObjectiveMakespan && !slices.Equal(withFixed(inst), withFixed(tight)) {
					continue
				}
				before, plan, done := brute.OptimumOnNodes(inst, 20_000)
				after, tightPlan, tightDone := brute.OptimumOnNodes(tight, 20_000)
				if !done || !tightDone {
					continue
				}
				compared++
				what := func() string {
					return fmt.Sprintf("seed %d: %s\n%s", seed, wire.Canonical(inst), wire.Canonical(tight))
				}
				if tightPlan != nil && (plan == nil || after < before) {
					t.Fatalf("the optimum falls from %d to %d: %s", before, after, what())
				}
				if tightPlan == nil || after > before {
					raised++
				}
				for _, c := range []*hare.Certificate{{Method: hare.MethodCriticalPath, Objective: inst.Objective},
					{Method: hare.MethodMachine, Objective: inst.Objective}, gridPrices(r, inst)} {
					if c.Method == hare.MethodPrice && slices.Contains(others, name) {
						continue
					}
					low, err := verify.Bound(inst, c)
					if err != nil {
						continue // a makespan, or a job without room
					}
					if high, err := verify.Bound(tight, c); err == nil && high.Cmp(low) < 0 {
						t.Fatalf("%s: the bound falls from %s to %s: %s", c.Method, low.FloatString(9), high.FloatString(9), what())
					}
				}
			}
			if compared < n || raised == 0 {
				t.Errorf("%d instances, of which the optimum of %d was raised", compared, raised)
			}
		})
	}
}
