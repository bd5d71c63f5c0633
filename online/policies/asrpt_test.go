package policies_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/jobgraph"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
)

// lone is a cluster of so many GPUs of type A with rigid jobs, each with its release in seconds, tasks
// and rounds of one second.
func lone(gpus int, jobs ...[3]int64) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Cluster: hare.Cluster{Nodes: []hare.Node{
		{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: gpus}}}}}}
	for i, j := range jobs {
		inst.Jobs = append(inst.Jobs, hare.Job{ID: fmt.Sprint("j", i), WeightMicro: 1e6, ReleaseUs: j[0] * 1e6,
			Tasks: j[1], Rounds: j[2], Sync: hare.Rigid, On: []hare.Profile{{Type: "A", ComputeUs: 1e6}}})
	}
	return inst
}

func newASRPT(t *testing.T, inst *hare.Instance, cfg policies.ASRPTConfig) online.Policy {
	t.Helper()
	p, err := policies.NewASRPT(&inst.Cluster, policies.SizesOf(inst), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// apart is a cluster of two nodes of two GPUs with jobs whose rounds take 1 s on one node and 3 s on two.
func apart(jobs ...[3]int64) *hare.Instance {
	inst := lone(2, jobs...)
	inst.Cluster.Nodes = append(inst.Cluster.Nodes, hare.Node{Name: "b", GPUs: inst.Cluster.Nodes[0].GPUs})
	for i := range inst.Jobs {
		inst.Jobs[i].On = []hare.Profile{{Type: "A", ComputeUs: 5e5, SyncUs: 25e5,
			SyncAt: []hare.LevelSync{{Level: "any", SyncUs: 25e5}, {Level: "node", SyncUs: 5e5}}}}
	}
	return inst
}

// inOneRound puts the rounds of the first n jobs into one each.
func inOneRound(inst *hare.Instance, n int) *hare.Instance {
	for i := range inst.Jobs[:n] {
		j := &inst.Jobs[i]
		j.On, j.Rounds = []hare.Profile{{Type: "A", ComputeUs: 1e6 * j.Rounds}}, 1
	}
	return inst
}

// shared is a cluster on which GPUs become free on different nodes.
func shared() *hare.Instance {
	return apart([3]int64{0, 1, 4}, [3]int64{0, 1, 8}, [3]int64{0, 1, 6}, [3]int64{1, 2, 2})
}

// synchronising is a cluster of two GPUs on which a relaxed job computes for 4 s and synchronises for 8 s, beside
// a job of 8 s.
func synchronising() *hare.Instance {
	inst := inOneRound(lone(2, [3]int64{0, 1, 4}, [3]int64{0, 1, 8}), 2)
	inst.Jobs[0].Sync, inst.Jobs[0].On[0].SyncUs = hare.Relaxed, 8e6
	return inst
}

// behindAQuota is shared with a job at the head of the queue, whose user has the quota of the job that runs until 8.
func behindAQuota() *hare.Instance {
	inst := inOneRound(shared(), 3)
	inst.Quota = []hare.Quota{{User: "ann", GPUs: 1}}
	inst.Jobs = append(inst.Jobs, inst.Jobs[0])
	inst.Jobs[4].ID, inst.Jobs[4].ReleaseUs, inst.Jobs[4].On = "j4", 1e6, []hare.Profile{{Type: "A", ComputeUs: 1e6}}
	inst.Jobs[1].Users, inst.Jobs[4].Users = []string{"ann"}, []string{"ann"}
	return inst
}

// behindAReservation is a cluster of three nodes of two GPUs. j0, j1 and j2 hold one GPU of each for 30 s, and j3 the
// other one of node c until 4. j4 needs all other GPUs for a second, and j5 two of them, for 3 s on one node and 9 s
// on two.
func behindAReservation() *hare.Instance {
	inst := apart([3]int64{0, 1, 30}, [3]int64{0, 1, 30}, [3]int64{0, 1, 30}, [3]int64{0, 1, 4}, [3]int64{1, 3, 1},
		[3]int64{1, 2, 3})
	inst.Cluster.Nodes = append(inst.Cluster.Nodes, hare.Node{Name: "c", GPUs: inst.Cluster.Nodes[0].GPUs})
	for i, node := range []string{"a", "b", "c", "c"} {
		inst.Jobs[i].Only = []hare.LabelValues{{Label: hare.LabelNode, Values: []string{node}}}
	}
	return inOneRound(inst, 5)
}

// The runs are worked by hand. They say when each job starts and ends.
func TestASRPTByHand(t *testing.T) {
	for _, c := range []struct {
		name string
		inst *hare.Instance
		cfg  policies.ASRPTConfig
		want string
	}{
		// j0 starts on the idle cluster. j1 and j2 follow by SRPT: the virtual machine interrupts j1 for j2.
		{"one GPU", lone(1, [3]int64{0, 1, 4}, [3]int64{1, 1, 3}, [3]int64{2, 1, 1}), policies.ASRPTConfig{},
			"j0 0-4 j1 5-8 j2 4-5"},
		// Four GPUs. j0 takes two of them at once. The virtual machine does the 4 GPU-seconds of j2 by 1
		// and the 8 of j1 by 3. The other two GPUs idle until 1.
		{"a wait for the virtual machine", lone(4, [3]int64{0, 2, 9}, [3]int64{0, 2, 4}, [3]int64{0, 2, 2}),
			policies.ASRPTConfig{}, "j0 0-9 j1 3-7 j2 1-3"},
		{"eager", lone(4, [3]int64{0, 2, 9}, [3]int64{0, 2, 4}, [3]int64{0, 2, 2}),
			policies.ASRPTConfig{Eager: true}, "j0 0-9 j1 0-4 j2 4-6"},
		// j1 needs all GPUs and completes virtually at 2, and j2 at 3. j2 passes j1 only where jobs pass.
		{"a wide job blocks", lone(4, [3]int64{0, 1, 5}, [3]int64{0, 4, 2}, [3]int64{0, 2, 4}),
			policies.ASRPTConfig{}, "j0 0-5 j1 5-7 j2 7-11"},
		{"a wide job is passed", lone(4, [3]int64{0, 1, 5}, [3]int64{0, 4, 2}, [3]int64{0, 2, 4}),
			policies.ASRPTConfig{Pass: true}, "j0 0-5 j1 8-10 j2 4-8"},
		// The virtual machine completes j1, which needs all GPUs, at 1, j3 at 2.5 and j2 at 4.75. j3 ends at 4.5, before
		// j0 does, and passes j1. j2 would delay j1.
		{"backfill", lone(4, [3]int64{0, 1, 5}, [3]int64{0, 4, 1}, [3]int64{0, 3, 3}, [3]int64{0, 3, 2}),
			policies.ASRPTConfig{Backfill: true}, "j0 0-5 j1 5-6 j2 6-9 j3 2-4"},
		{"no backfill", lone(4, [3]int64{0, 1, 5}, [3]int64{0, 4, 1}, [3]int64{0, 3, 3}, [3]int64{0, 3, 2}),
			policies.ASRPTConfig{}, "j0 0-5 j1 5-6 j2 8-11 j3 6-8"},
		// j0 and j1 have a node, j2 half of the other. At 4 the GPUs of j3 lie on two nodes, where a round takes
		// 3 s. At 6 j2 ends, and j3 has a node for itself. j3 has completed virtually at 2.
		{"a delay", shared(), policies.ASRPTConfig{Eager: true}, "j0 0-4 j1 0-8 j2 0-6 j3 6-8"},
		{"a short delay", shared(), policies.ASRPTConfig{Eager: true, DelayUs: 1e6}, "j0 0-4 j1 0-8 j2 0-6 j3 5-11"},
		// Nothing happens at 5, when the delay of j3 ends, but the tick for which the policy asks.
		{"a delay ends alone", inOneRound(shared(), 3), policies.ASRPTConfig{Eager: true, DelayUs: 1e6},
			"j0 0-4 j1 0-8 j2 0-6 j3 5-11"},
		// The virtual machine completes j1 at 4, while j0 has one round.
		{"a virtual completion alone", inOneRound(lone(2, [3]int64{0, 1, 12}, [3]int64{0, 1, 8}), 2),
			policies.ASRPTConfig{},
			"j0 0-12 j1 4-12"},
		// The virtual machine completes j1 at 4, when the compute of j0 ends, which frees no GPU.
		{"a virtual completion with another event", synchronising(), policies.ASRPTConfig{}, "j0 0-12 j1 4-12"},
		// j4 is the first in the queue and waits for its quota until 8, and does not keep the delay of j3 from ending at 5.
		{"a delay behind a quota", behindAQuota(), policies.ASRPTConfig{Eager: true, DelayUs: 1e6},
			"j0 0-4 j1 0-8 j2 0-6 j3 5-11 j4 8-9"},
		// Until 4 the GPUs of a and b are reserved for j4. j5 could start on them from 5 on, when j4 has ended, and waits
		// until 7.
		{"a delay behind a reservation", behindAReservation(),
			policies.ASRPTConfig{Eager: true, Backfill: true, DelayUs: 2e6},
			"j0 0-30 j1 0-30 j2 0-30 j3 0-4 j4 4-5 j5 7-16"},
		{"no delay", shared(), policies.ASRPTConfig{Eager: true, DelayUs: -1}, "j0 0-4 j1 0-8 j2 0-6 j3 4-10"},
		{"far is near", shared(), policies.ASRPTConfig{Eager: true, Near: 3}, "j0 0-4 j1 0-8 j2 0-6 j3 4-10"},
		{"not heavy", shared(), policies.ASRPTConfig{Eager: true, Heavy: 3.1}, "j0 0-4 j1 0-8 j2 0-6 j3 4-10"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			out, err := sim.Run(t.Context(), c.inst, newASRPT(t, c.inst, c.cfg), sim.Config{})
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range out.Jobs {
				got = append(got, fmt.Sprintf("%s %d-%d", j.ID, j.StartUs/1e6, j.EndUs/1e6))
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("got  %s\nwant %s", s, c.want)
			}
		})
	}
}

// Parameters are read as documented, and those that cannot be are refused with pointers.
func TestASRPTParameters(t *testing.T) {
	info, _ := policies.Find("asrpt")
	session, _ := info.Session()
	for _, c := range []struct{ parameters, want string }{
		{`{"delay_s": 0.5, "heavy": 2, "near": 1, "pass": true, "eager": true, "trust": true}`, ""},
		{`{"delay_s": 0, "backfill": true, "predict": "forest"}`, ""},
		{`{"predict": "oracle"}`, "/predict: asrpt: predict is \"oracle\": use belief, forest or none"},
		{`{"delay_s": -1}`, "/delay_s: asrpt: delay_s is -1"},
		{`{"heavy": 0.9}`, "/heavy: asrpt: heavy is 0.9"},
		{`{"near": 1e9}`, "/near: asrpt: near is 1e+09"},
		{`{"tau": 1}`, "/tau"},
	} {
		_, err := session.Open(&lone(2).Cluster, []byte(c.parameters))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.parameters, err, c.want)
		}
	}
}

// What goes by bandwidths is refused on clusters that have none.
func TestBandwidthsAreNeeded(t *testing.T) {
	inst := lone(2, [3]int64{0, 1, 1})
	named := &jobgraph.Document{}
	for pointer, err := range map[string]error{
		"/cluster/bandwidth_gbps": madeWith(inst, policies.Config{ASRPT: policies.ASRPTConfig{
			Graphs: map[string]jobgraph.Training{"j0": {}}}}, "asrpt"),
		"/graphs": madeWith(inst, policies.Config{ASRPT: policies.ASRPTConfig{Named: named}}, "asrpt"),
		"/ring":   madeWith(inst, policies.Config{Sampling: policies.SamplingConfig{Ring: true}}, "sampling"),
	} {
		var fault *hare.InvalidError
		if !errors.As(err, &fault) || fault.Pointer != pointer {
			t.Errorf("got %v, want %s", err, pointer)
		}
	}
	cfg := policies.Config{ASRPT: policies.ASRPTConfig{Named: named}, Sampling: policies.SamplingConfig{Ring: true}}
	for _, name := range []string{"asrpt", "sampling"} {
		if err := madeWith(networked(inst), cfg, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func madeWith(inst *hare.Instance, cfg policies.Config, name string) error {
	info, _ := policies.Find(name)
	_, err := info.New(context.Background(), inst, cfg)
	return err
}
