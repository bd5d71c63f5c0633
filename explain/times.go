package explain

import (
	"math"
	"math/big"
	"slices"
	"strconv"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/verify"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

func jobTimes(inst *hare.Instance, empty *emptyCluster, at int, startUs, endUs int64,
	value hare.Amount) *explaindoc.Times {
	j := &inst.Jobs[at]
	m := &empty.model.Jobs[at]
	t := &explaindoc.Times{
		Weight: hare.Seconds(j.WeightMicro), ReleaseS: hare.Seconds(j.ReleaseUs), StartS: hare.Seconds(startUs),
		EndS:  hare.Seconds(endUs),
		WaitS: hare.Seconds(startUs - j.ReleaseUs), JCTS: hare.Seconds(endUs - j.ReleaseUs),
		LeastS: hare.Seconds(m.RunsUntilUs), Cost: hare.Product(j.WeightMicro, endUs-j.ReleaseUs),
	}
	if m.Rounds > 0 {
		left := *j
		if left.After = nil; m.FirstRound > 0 {
			left.Progress = &hare.Progress{RoundsDone: m.FirstRound}
		}
		if m.RunsUntilUs > 0 {
			left = goesOn(left, m)
		}
		t.LeastS += hare.Seconds(pathTime(empty.of(at), left))
	}
	if j.DeadlineUs > 0 {
		deadline, late := hare.Seconds(j.DeadlineUs), hare.Seconds(max(0, endUs-j.DeadlineUs))
		t.DeadlineS, t.LateS = &deadline, &late
		t.Cost = t.Cost.Add(hare.Product(m.LateWeightMicro, int64(late)))
	}
	if t.LeastS > 0 {
		t.Stretch = sixDecimals(float64(t.JCTS) / float64(t.LeastS))
	}
	if value.Sign() > 0 && m.Rounds > 0 && inst.Objective != hare.ObjectiveMakespan {
		t.Share = sixDecimals(t.Cost.Float() / value.Float())
	}
	return t
}

// goesOn returns a job that runs at time 0 as a job that does what is left where it runs: without setups, and in
// the shape in which it runs unless this may change.
func goesOn(j hare.Job, m *model.Job) hare.Job {
	still := func(on []hare.Profile) []hare.Profile {
		on = slices.Clone(on)
		for i := range on {
			on[i].SwitchUs = 0
		}
		return on
	}
	j.On = still(j.On)
	if j.Shapes == nil {
		return j
	}
	j.Shapes = slices.Clone(j.Shapes)
	for i := range j.Shapes {
		j.Shapes[i].On = still(j.Shapes[i].On)
	}
	if !j.Reshape {
		j.Shapes = j.Shapes[m.RunsShape : m.RunsShape+1]
		j.NormaliseShapes()
	}
	return j
}

// pathTime is R τ of a job (docs/inside/design.md, section 2), as the verifier computes
// this time: no plan completes the job sooner after its release. pathTime is 0
// where the job can never run.
func pathTime(empty *hare.Instance, job hare.Job) int64 {
	job.WeightMicro = 1e6
	alone := withJobs(empty, job)
	alone.Objective = hare.ObjectiveWeightedJCT
	bound, err := verify.Bound(alone,
		&hare.Certificate{Method: hare.MethodCriticalPath, Objective: hare.ObjectiveWeightedJCT})
	if err != nil {
		return 0
	}
	us := new(big.Rat).Mul(bound, big.NewRat(1e6, 1)) // a whole number of microseconds
	return us.Num().Int64()
}

// emptyCluster makes instances without jobs on which R τ of a job is the same as on the
// cluster of the model, and faster to compute.
type emptyCluster struct {
	model *model.Model
	types *hare.Instance // nil where nodes matter
}

// newEmptyCluster returns clusters that have one node a type, with as many GPUs as are ever
// available at once, or of each kind of nodes as many as a job can use.
func newEmptyCluster(m *model.Model) *emptyCluster {
	if m.Placed {
		return &emptyCluster{model: m}
	}
	inst := *m.Instance
	inst.Jobs, inst.Cluster.Nodes = nil, nil
	for k, kind := range m.Types {
		if n := peakOf(m, k); n > 0 {
			inst.Cluster.Nodes = append(inst.Cluster.Nodes,
				hare.Node{Name: strconv.Itoa(k), GPUs: []hare.TypeCount{{Type: kind, Count: int(n)}}})
		}
	}
	return &emptyCluster{model: m, types: &inst}
}

// of returns the cluster for a job. K nodes of a kind are enough for a job of K tasks: where
// any of them has room for a task, all have room for K.
func (ec *emptyCluster) of(job int) *hare.Instance {
	if ec.types != nil {
		return ec.types
	}
	inst := *ec.model.Instance
	inst.Jobs, inst.Cluster.Nodes = nil, nil
	tasks := ec.model.Jobs[job].Tasks
	for i := range ec.model.Jobs[job].Shapes {
		tasks = max(tasks, ec.model.Jobs[job].Shapes[i].Tasks)
	}
	for i := range ec.model.Kinds {
		nodes := ec.model.Kinds[i].Nodes
		for _, n := range nodes[:min(int64(len(nodes)), tasks)] {
			inst.Cluster.Nodes = append(inst.Cluster.Nodes, ec.model.Instance.Cluster.Nodes[n])
		}
	}
	return &inst
}

// peakOf is how many GPUs of a type are ever available at once.
func peakOf(m *model.Model, kind int) (n int64) {
	for _, s := range m.Capacity(kind) {
		n = max(n, s.Count)
	}
	return n
}

// sixDecimals keeps six decimals of a figure for people.
func sixDecimals(x float64) float64 { return math.Round(x*1e6) / 1e6 }
