package policies_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/transcript"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/jobgraph"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/online/policytest"
	"github.com/hare-sched/hare/sim"
)

// delayed are three jobs on two nodes: at 4 the free GPUs are on both, and from 6 on a node is free for j3.
const delayed = `nodes a=2A b=2A
jobs j0 rigid 1x1 A:4, j1 rigid 1x1 A:8, j2 rigid 1x1 A:6, j3 rigid 4x2 A:1 at=1`

// networked is an instance with 100 bytes a microsecond inside nodes and 10 between them.
func networked(lines string) *hare.Instance {
	inst := transcript.Instance(lines)
	inst.Cluster.Bandwidths = []hare.LevelBandwidth{{Level: "any", Mbps: 80}, {Level: "node", Mbps: 800}}
	return inst
}

// trained gives job n of an instance a graph, with 1,000 iterations a round. Its profile has the least times.
func trained(t *testing.T, inst *hare.Instance, n int, layers []jobgraph.Layer, c jobgraph.Configuration) (
	map[string]jobgraph.Training, *jobgraph.Network) {
	t.Helper()
	c.Name, c.Model = "c", "m"
	d := &jobgraph.Document{Models: []jobgraph.Model{{Name: "m", Layers: layers}},
		Configurations: []jobgraph.Configuration{c}}
	graphs, net, err := d.Graphs(&inst.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	j := &inst.Jobs[n]
	j.On = []hare.Profile{{Type: "A", ComputeUs: graphs[0].LeastUs("A", net) * 1000}}
	return map[string]jobgraph.Training{j.ID: {Graph: graphs[0], Iterations: 1000}}, net
}

// placed is Config.PlacedUs of jobs with graphs.
func placed(inst *hare.Instance, graphs map[string]jobgraph.Training, net *jobgraph.Network) sim.Config {
	return sim.Config{PlacedUs: func(job int, nodes []int, gpuType string) int64 {
		g, ok := graphs[inst.Jobs[job].ID]
		if !ok {
			return 0
		}
		return g.Graph.IterationUs(gpuType, nodes, net) * g.Iterations
	}}
}

func layerOn(forwardUs, backwardUs int64) []jobgraph.LayerTime {
	return []jobgraph.LayerTime{{Type: "A", ForwardNs: forwardUs * 1000, BackwardNs: backwardUs * 1000}}
}

// A pipeline of two stages of two replicas on two nodes of two GPUs. A replica sends 100,000 B to the next stage,
// which is 1 ms inside a node and 10 ms between two. Heavy-Edge puts a replica of each stage on each node:
// 0.12 + 1 + 0.8 ms for the all-reduce of 8,000 B between nodes. First fit puts the stages on different nodes:
// 0.12 + 10 + 0.08 ms.
func TestASRPTPlacesByHeavyEdge(t *testing.T) {
	for _, c := range []struct {
		cfg  policies.ASRPTConfig
		want int64
	}{{policies.ASRPTConfig{}, 2 * 1_920_000}, {policies.ASRPTConfig{FirstFit: true}, 2 * 10_200_000}} {
		inst := networked("nodes a=2A b=2A\njobs j0 rigid 2x4 A:1")
		graphs, net := trained(t, inst, 0, []jobgraph.Layer{{Parameters: 1000, ActivationBytes: 50_000,
			On: layerOn(10, 20)},
			{Parameters: 4000, On: layerOn(20, 40)}}, jobgraph.Configuration{Samples: 4, Stages: []jobgraph.Stage{
			{Layers: 1, Replicas: 2}, {Layers: 1, Replicas: 2}}})
		c.cfg.Graphs = graphs
		p := newASRPT(t, inst, c.cfg)
		out, err := sim.Run(t.Context(), inst, p, placed(inst, graphs, net))
		if err != nil {
			t.Fatal(err)
		}
		if got := out.Jobs[0].EndUs; got != c.want {
			t.Errorf("first fit %v: ends at %d, want %d", c.cfg.FirstFit, got, c.want)
		}
		if out.Schedule != nil {
			t.Error("a run with other times than the profile's has a schedule")
		}
	}
}

// The job of TestASRPTPlacesByHeavyEdge keeps its placement beside nodes with more free GPUs that it may not use: one
// that it excludes, and one that has CPUs for one of its tasks alone.
func TestASRPTPlacesGraphsOnNodesOfTheJob(t *testing.T) {
	for _, c := range []struct {
		name string
		rule func(*hare.Job, *hare.Node)
	}{
		{"excluded", func(j *hare.Job, n *hare.Node) {
			j.Exclude = []hare.LabelValues{{Label: hare.LabelNode, Values: []string{n.Name}}}
		}},
		{"without CPUs", func(j *hare.Job, n *hare.Node) { j.CPUMilliPerTask, n.CPUMilli = 1000, 500 }},
	} {
		inst := networked("nodes a=2A b=2A c=3A\njobs j0 rigid 2x4 A:1")
		c.rule(&inst.Jobs[0], &inst.Cluster.Nodes[2])
		graphs, net := trained(t, inst, 0, []jobgraph.Layer{{Parameters: 1000, ActivationBytes: 50_000,
			On: layerOn(10, 20)},
			{Parameters: 4000, On: layerOn(20, 40)}}, jobgraph.Configuration{Samples: 4, Stages: []jobgraph.Stage{
			{Layers: 1, Replicas: 2}, {Layers: 1, Replicas: 2}}})
		p := newASRPT(t, inst, policies.ASRPTConfig{Graphs: graphs})
		out, err := sim.Run(t.Context(), inst, p, placed(inst, graphs, net))
		if err != nil {
			t.Fatal(err)
		}
		if got := out.Jobs[0].EndUs; got != 2*1_920_000 {
			t.Errorf("%s: ends at %d, want %d", c.name, got, 2*1_920_000)
		}
	}
}

// A job with a graph does not wait for GPUs that it cannot have together: each node has CPUs for one of the two
// replicas of TestASRPTDelaysJobsWithGraphs, so that α_min is 1.4 ms, too.
func TestASRPTDelaysNoGraphsForNodesOfOthers(t *testing.T) {
	inst := networked(delayed)
	graphs, net := trained(t, inst, 3, []jobgraph.Layer{{Parameters: 5000, On: layerOn(100, 300)}},
		jobgraph.Configuration{Samples: 2, Stages: []jobgraph.Stage{{Layers: 1, Replicas: 2}}})
	inst.Jobs[3].CPUMilliPerTask = 1000
	for i := range inst.Cluster.Nodes {
		inst.Cluster.Nodes[i].CPUMilli = 1500
	}
	p := newASRPT(t, inst, policies.ASRPTConfig{Eager: true, Graphs: graphs})
	out, err := sim.Run(t.Context(), inst, p, placed(inst, graphs, net))
	if err != nil {
		t.Fatal(err)
	}
	if j := &out.Jobs[3]; j.StartUs != 4e6 || j.EndUs != 9_600_000 {
		t.Errorf("runs from %d to %d", j.StartUs, j.EndUs)
	}
}

// Two replicas that compute for 0.4 ms and exchange 10,000 B: 0.5 ms inside a node and 1.4 ms on two, so that
// α_max/α_min is 2.8.
func TestASRPTDelaysJobsWithGraphs(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  policies.ASRPTConfig
		want string
	}{
		{"delay", policies.ASRPTConfig{Eager: true}, "6.0-8.0"},
		{"short delay", policies.ASRPTConfig{Eager: true, DelayUs: 1e6}, "5.0-10.6"},
		{"no delay", policies.ASRPTConfig{Eager: true, DelayUs: -1}, "4.0-9.6"},
		{"far is near", policies.ASRPTConfig{Eager: true, Near: 2.8}, "4.0-9.6"},
		{"not heavy", policies.ASRPTConfig{Eager: true, Heavy: 2.81}, "4.0-9.6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inst := networked(delayed)
			graphs, net := trained(t, inst, 3, []jobgraph.Layer{{Parameters: 5000, On: layerOn(100, 300)}},
				jobgraph.Configuration{Samples: 2, Stages: []jobgraph.Stage{{Layers: 1, Replicas: 2}}})
			c.cfg.Graphs = graphs
			p := newASRPT(t, inst, c.cfg)
			out, err := sim.Run(t.Context(), inst, p, placed(inst, graphs, net))
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%.1f-%.1f", float64(out.Jobs[3].StartUs)/1e6, float64(out.Jobs[3].EndUs)/1e6)
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			var others []string
			for _, j := range out.Jobs[:3] {
				others = append(others, fmt.Sprintf("%d-%d", j.StartUs/1e6, j.EndUs/1e6))
			}
			if s := strings.Join(others, " "); s != "0-4 0-8 0-6" {
				t.Errorf("the others run at %s", s)
			}
		})
	}
}

// Under hostile events every choice of asrpt makes feasible decisions, and a restored policy makes those of one
// that was never interrupted.
func TestASRPTSurvivesHostileEvents(t *testing.T) {
	info, _ := policies.Find("asrpt")
	session, _ := info.Session()
	for _, parameters := range []string{`{"predict": "forest", "backfill": true}`,
		`{"predict": "none", "delay_s": 2}`, `{"pass": true, "eager": true}`, `{"backfill": true, "eager": true}`} {
		t.Run(parameters, func(t *testing.T) {
			policytest.Run(t, policytest.Subject{Runs: 6, Restore: session.Restore,
				Open: func(c *hare.Cluster, _ []hare.Job) (online.Policy, error) {
					return session.Open(c, []byte(parameters))
				}})
		})
	}
}

// Jobs of user ann have 10 rounds and those of bob 2, and none of them comes before another has ended but the last
// two: bob's starts first where the forest knows him, and where all jobs have the median, which is 10, ann's does,
// who came first.
func TestASRPTPredictsByForest(t *testing.T) {
	for _, c := range []struct{ predict, want string }{{"forest", "bob"}, {"none", "ann"}, {"belief", "bob"}} {
		inst := transcript.Instance("nodes a=1A")
		add := func(releaseS int64, user string) {
			j := transcript.Job(strings.Fields(fmt.Sprintf("j%d rigid %dx1 A:1 at=%d", len(inst.Jobs),
				map[string]int64{"ann": 10, "bob": 2, "own": 5}[user], releaseS)))
			j.Hints = &hare.JobHints{Class: []hare.ClassLabel{{Name: "user", Value: user}}}
			inst.Jobs = append(inst.Jobs, j)
		}
		for i := range int64(60) {
			add(20*i, []string{"ann", "ann", "bob"}[i%3])
		}
		add(1200, "own") // keeps the GPU while the two wait
		add(1201, "ann")
		add(1202, "bob")
		p, err := info(t, "asrpt").Open(&inst.Cluster, []byte(`{"predict": "`+c.predict+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		out, err := sim.Run(t.Context(), inst, p, sim.Config{})
		if err != nil {
			t.Fatal(err)
		}
		got := "ann"
		if out.Jobs[62].StartUs < out.Jobs[61].StartUs {
			got = "bob"
		}
		if got != c.want {
			t.Errorf("%s: %s starts first, want %s", c.predict, got, c.want)
		}
	}
}

func info(t *testing.T, name string) policies.Session {
	t.Helper()
	i, _ := policies.Find(name)
	s, ok := i.Session()
	if !ok {
		t.Fatalf("%s has no sessions", name)
	}
	return s
}

// restored restores its policy from a snapshot after each step.
type restored struct {
	t       *testing.T
	policy  online.Durable
	restore func([]byte) (online.Durable, error)
}

// Step is online.Policy.Step.
func (r *restored) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	ds, err := r.policy.Step(nowUs, events)
	ds = slices.Clone(ds)
	state := r.policy.AppendSnapshot(nil)
	again, bad := r.restore(state)
	if bad != nil {
		r.t.Fatal(bad)
	}
	if !bytes.Equal(again.AppendSnapshot(nil), state) {
		r.t.Fatalf("at %d: the restored policy has another state", nowUs)
	}
	r.policy = again
	return ds, err
}

// WakeUs is online.Waker.WakeUs.
func (r *restored) WakeUs() int64 { return r.policy.(online.Waker).WakeUs() }

// A session has graphs by the classes of its jobs: the delays of TestASRPTDelaysJobsWithGraphs come about there, too,
// and a policy that is restored after each event makes the same decisions.
func TestASRPTGraphsInSessions(t *testing.T) {
	document := jobgraph.Document{Models: []jobgraph.Model{{Name: "m", Layers: []jobgraph.Layer{{Parameters: 5000,
		On: layerOn(100, 300)}}}}, Configurations: []jobgraph.Configuration{{Name: "two", Model: "m", Samples: 2,
		Stages: []jobgraph.Stage{{Layers: 1, Replicas: 2}}}}}
	for _, c := range []struct{ parameters, want string }{
		{`"trust": true`, "6.0-8.0"}, {`"trust": true, "delay_s": 1`, "5.0-10.6"},
		{`"trust": true, "delay_s": 0`, "4.0-9.6"},
	} {
		for _, again := range []bool{false, true} {
			inst := networked(delayed)
			for i, s := range []int64{4, 8, 6, 2} {
				inst.Jobs[i].Hints = &hare.JobHints{EstimateUs: s * 1e6}
			}
			inst.Jobs[3].On = []hare.Profile{{Type: "A", ComputeUs: 4e5, SyncUs: 1e5}} // 1,000 iterations
			inst.Jobs[3].Hints.Class = []hare.ClassLabel{{Name: "graph", Value: "two"}}
			s := info(t, "asrpt")
			p, err := s.Open(&inst.Cluster, []byte(`{"eager": true, `+c.parameters+`, "graphs": `+
				string(document.Append(nil))+`}`))
			if err != nil {
				t.Fatal(err)
			}
			graphs, net, err := document.Graphs(&inst.Cluster)
			if err != nil {
				t.Fatal(err)
			}
			rules := placed(inst, map[string]jobgraph.Training{"j3": {Graph: graphs[0], Iterations: 1000}}, net)
			var policy online.Policy = p
			if again {
				policy = &restored{t, p, s.Restore}
			}
			out, err := sim.Run(t.Context(), inst, policy, rules)
			if err != nil {
				t.Fatal(err)
			}
			j := &out.Jobs[3]
			if got := fmt.Sprintf("%.1f-%.1f", float64(j.StartUs)/1e6, float64(j.EndUs)/1e6); got != c.want {
				t.Errorf("%s, restored %v: %s, want %s", c.parameters, again, got, c.want)
			}
		}
	}
}

// What is wrong with graphs is refused when the session is opened, with a pointer into the parameters.
func TestASRPTRefusesGraphs(t *testing.T) {
	const good = `{"hare": "job-graphs/v1", "models": [{"name": "m", "layers": [{"parameters": 9000000000, "on": {"A": ` +
		`{"forward_us": 1, "backward_us": 2}}}]}], "configurations": [{"name": "c", "model": "m", "samples": 4, ` +
		`"stages": [{"layers": 1, "tensor": 2}]}]}`
	small := networked("nodes a=2A").Cluster
	small.GPUTypes = []hare.GPUType{{Type: "A", MemoryMilliGiB: 16_000}}
	for _, c := range []struct {
		cluster      *hare.Cluster
		graphs, want string
	}{
		{&networked("nodes a=2A").Cluster, good, ""},
		{transcript.Cluster("a=2A"), good, "/graphs: job graphs need the bandwidth"},
		{&small, good, "/graphs/configurations/0/stages/0: a GPU of the stage needs 67.056 GiB, and the largest has 16"},
		{&networked("nodes a=2A").Cluster, strings.Replace(good, `"samples"`, `"sample"`, 1),
			"/graphs/configurations/0/sample"},
		{&networked("nodes a=2A").Cluster, `7`, "/graphs"},
	} {
		_, err := info(t, "asrpt").Open(c.cluster, []byte(`{"graphs": `+c.graphs+`}`))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}
