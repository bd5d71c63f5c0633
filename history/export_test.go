package history_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/wire"
)

// memoryFile keeps what an export writes.
type memoryFile struct{ bytes.Buffer }

func (*memoryFile) Close() error { return nil }

// drawRun draws jobs that ran on nodes of two types, first come, first served, in whole seconds.
func drawRun(rng *rand.Rand) (*hare.Instance, *hare.Result) {
	inst := &hare.Instance{Name: "week", Objective: hare.ObjectiveWeightedJCT}
	types := []string{"t4", "v100"}
	for n := range 3 {
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, hare.Node{Name: fmt.Sprint("n", n),
			GPUs: []hare.TypeCount{{Type: types[n%2], Count: 4}}})
	}
	free := [3][4]int64{}
	s := &hare.Schedule{}
	res := &hare.Result{Schedule: s}
	lanes := map[string]*hare.Lane{}
	at := int64(0)
	for i := range 15 {
		at += rng.Int64N(40)
		gpus := 1 + rng.IntN(4)
		n := rng.IntN(3)
		start := at
		for g := range gpus {
			start = max(start, free[n][g])
		}
		times := []int64{20 + rng.Int64N(80), 10 + rng.Int64N(50)}
		user := fmt.Sprint("u", rng.IntN(3))
		j := hare.Job{ID: fmt.Sprintf("%s/j%d", user, i), WeightMicro: 1e6, Rounds: 1, Tasks: 1, Sync: hare.Rigid,
			GPUsPerTask: int64(gpus), ReleaseUs: at * 1e6, Users: []string{user}}
		if gpus == 1 {
			j.GPUsPerTask = 0
		}
		for x, name := range types {
			j.On = append(j.On, hare.Profile{Type: name, ComputeUs: times[x] * 1e6})
		}
		inst.Jobs = append(inst.Jobs, j)
		end := start + times[n%2]
		s.Jobs = append(s.Jobs, j.ID)
		res.Jobs = append(res.Jobs, hare.JobResult{ID: j.ID, StartUs: start * 1e6, EndUs: end * 1e6})
		for g := range gpus {
			free[n][g] = end
			name := fmt.Sprintf("n%d/%d", n, g)
			if lanes[name] == nil {
				lanes[name] = &hare.Lane{GPU: name}
			}
			lanes[name].Job = append(lanes[name].Job, int32(i))
			lanes[name].StartUs = append(lanes[name].StartUs, start*1e6)
		}
	}
	for n := range 3 {
		for g := range 4 {
			if l := lanes[fmt.Sprintf("n%d/%d", n, g)]; l != nil {
				s.Lanes = append(s.Lanes, *l)
			}
		}
	}
	return inst, res
}

// placeJobs gives nodes and jobs CPUs and memory, and lets some jobs name nodes that they must have or
// must not have.
func placeJobs(inst *hare.Instance, res *hare.Result) {
	ran := make([]string, len(inst.Jobs))
	for _, l := range res.Schedule.Lanes {
		for _, j := range l.Job {
			ran[j], _, _ = strings.Cut(l.GPU, "/")
		}
	}
	for i := range inst.Cluster.Nodes {
		inst.Cluster.Nodes[i].CPUMilli, inst.Cluster.Nodes[i].MemoryMiB = 32000, 64<<10
	}
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		j.CPUMilliPerTask, j.MemoryMiBPerTask = 2000, 1000
		other := fmt.Sprint("n", (ran[i][1]-'0'+1)%3)
		switch i % 4 {
		case 0:
			j.Only = []hare.LabelValues{{Label: hare.LabelNode, Values: []string{ran[i]}}}
		case 1:
			j.Exclude = []hare.LabelValues{{Label: hare.LabelNode, Values: []string{other}}}
		}
	}
}

// TestRoundTrip exports what jobs did in each form and reads the texts back: the instance is the same, but
// for what the form does not tell, and the verifier accepts what happened.
func TestRoundTrip(t *testing.T) {
	const originUs = 1_767_571_200 * 1_000_000
	for _, source := range append(history.Sources, "slurm --json") {
		for seed := range uint64(8) {
			inst, res := drawRun(rand.New(rand.NewPCG(seed, 8)))
			source, asJSON := strings.CutSuffix(source, " --json")
			if asJSON { // in which names of jobs are numbers
				for i := range inst.Jobs {
					inst.Jobs[i].ID = fmt.Sprint(i + 100)
					res.Jobs[i].ID, res.Schedule.Jobs[i] = inst.Jobs[i].ID, inst.Jobs[i].ID
				}
			}
			if source == "slurm" { // which tells nodes that jobs name, and CPUs and memory
				placeJobs(inst, res)
			}
			if source == "ray" { // Ray has no tasks of several GPUs
				for i := range inst.Jobs {
					inst.Jobs[i].Tasks, inst.Jobs[i].GPUsPerTask = max(1, inst.Jobs[i].GPUsPerTask), 0
				}
			}
			var texts []trace.Source
			files := map[string]*memoryFile{}
			rep, err := history.Export(source, inst, res, history.ExportConfig{JSON: asJSON,
				Create: func(name string) (io.WriteCloser, error) {
					files[name] = &memoryFile{}
					return files[name], nil
				}})
			if err != nil {
				t.Fatalf("%s, seed %d: %v", source, seed, err)
			}
			if len(rep.LeftOut)+len(rep.Doubtful) > 0 {
				t.Errorf("%s, seed %d: %s", source, seed, rep)
			}
			for _, f := range rep.Files {
				texts = append(texts, trace.Source{Name: f.Name, R: &files[f.Name].Buffer})
			}
			log, err := history.Read(source, texts, history.ReadConfig{})
			if err != nil {
				t.Fatalf("%s, seed %d: %v", source, seed, err)
			}
			built := build(t, log, history.Config{FromUs: originUs, Name: "week"})
			if got, want := byID(t, built.Instance), byID(t, inst); got != want {
				t.Fatalf("%s, seed %d gives\n%s, not\n%s", source, seed, got, want)
			}
		}
	}
}

// byID encodes an instance with its jobs in order of their names.
func byID(t *testing.T, inst *hare.Instance) string {
	t.Helper()
	var text bytes.Buffer
	if err := wire.EncodeInstance(&text, inst); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], ",]}")
	}
	jobs := lines[len(lines)-len(inst.Jobs)-1:]
	slices.Sort(jobs)
	return strings.Join(lines, "\n")
}

// TestExportRefuses checks that a run that no cluster could tell as one job is refused by its name.
func TestExportRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(inst *hare.Instance, res *hare.Result)
		want   string
	}{
		{"form", func(*hare.Instance, *hare.Result) {}, "unknown form"},
		{"no lanes", func(_ *hare.Instance, res *hare.Result) { res.Schedule = nil }, "no lanes"},
		{"GPU", func(_ *hare.Instance, res *hare.Result) { res.Schedule.Lanes[0].GPU = "n9/0" }, "does not have"},
		{"relaxed", func(inst *hare.Instance, _ *hare.Result) { inst.Jobs[0].Sync = hare.Relaxed }, "is not rigid"},
		{"early", func(inst *hare.Instance, _ *hare.Result) { inst.Jobs[0].ReleaseUs = hare.MaxExact }, "from its release"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inst, res := drawRun(rand.New(rand.NewPCG(1, 8)))
			c.change(inst, res)
			source := map[bool]string{true: "lsf", false: "slurm"}[c.name == "form"]
			_, err := history.Export(source, inst, res, history.ExportConfig{
				Create: func(string) (io.WriteCloser, error) { return &memoryFile{}, nil }})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, not %s", err, c.want)
			}
		})
	}
}
