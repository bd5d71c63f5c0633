package list_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/transcript"
	"github.com/hare-sched/hare/online"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/planner"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/online/policytest"
	"github.com/hare-sched/hare/online/rolling"
	"github.com/hare-sched/hare/sim"
	"github.com/hare-sched/hare/wire"
)

// A guard that acts all the time breaks no promise of policies: snapshots after any event,
// adoption of records, refusals and constraints of the model.
func TestEagerGuardKeepsPromises(t *testing.T) {
	for _, c := range []struct {
		policy, parameters string
		runs               int
	}{
		{"hgittins", `{"kappa": 0.1}`, 40}, {"rolling", `{"kappa": 0.1, "moves": 0}`, 10},
		{"hgittins", `{"fifo_slowdown": 0.1}`, 20}, {"rolling", `{"fifo_slowdown": 0.1, "moves": 0}`, 10},
	} {
		t.Run(c.policy+c.parameters, func(t *testing.T) {
			info, _ := policies.Find(c.policy)
			maker := info.Maker.(policies.FromEvents)
			policytest.Run(t, policytest.Subject{
				Open: func(cluster *hare.Cluster, _ []hare.Job) (online.Policy, error) {
					return maker.Open(cluster, []byte(c.parameters))
				},
				Restore: maker.Restore,
				Runs:    c.runs,
			})
		})
	}
}

// guardedRules are the rules of rolling and hgittins with a guard, without a search, which
// theorems do not need.
func guardedRules(guard list.GuardConfig) map[string]list.Rule {
	return map[string]list.Rule{
		"rolling":  rolling.New(nil, rolling.Config{Guard: guard, Work: planner.Work{Moves: -1}}).Rule(),
		"hgittins": rolling.HGittinsConfig{Guard: guard}.Rule(),
	}
}

// randomStream draws long jobs and short ones that come all the time.
func randomStream(t *rapid.T) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	types := []string{"A", "B", "C"}[:rapid.IntRange(1, 3).Draw(t, "types")]
	counts := map[string]int64{}
	for _, k := range types {
		n := rapid.IntRange(1, 4).Draw(t, "GPUs")
		counts[k] = int64(n)
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, hare.Node{Name: k, GPUs: []hare.TypeCount{{Type: k, Count: n}}})
	}
	add := func(id string, atUs, rounds int64) {
		j := hare.Job{ID: id, WeightMicro: 1e6, ReleaseUs: atUs, Rounds: rounds,
			Sync: rapid.SampledFrom([]hare.Sync{hare.Relaxed, hare.Gang, hare.Gang, hare.Rigid}).Draw(t, "sync")}
		all, widest := int64(0), int64(0)
		for i, k := range types {
			if i == 0 || rapid.Bool().Draw(t, "profile") {
				all, widest = all+counts[k], max(widest, counts[k])
				j.On = append(j.On, hare.Profile{Type: k, ComputeUs: 250_000 * rapid.Int64Range(1, 8).Draw(t, "compute"),
					SyncUs: 250_000 * rapid.Int64Range(0, 2).Draw(t, "sync time")})
			}
		}
		switch {
		case j.Sync == hare.Relaxed:
			widest = 5
		case j.Sync == hare.Gang && rapid.Bool().Draw(t, "mix"):
			j.Mix, widest = true, all
		}
		if j.Tasks = rapid.Int64Range(1, widest).Draw(t, "tasks"); j.Sync == hare.Rigid {
			j.Rounds = 1 + rounds%5
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "long jobs") {
		add(fmt.Sprint("long", i), 250_000*rapid.Int64Range(0, 20).Draw(t, "at"), rapid.Int64Range(10, 30).Draw(t,
			"rounds"))
	}
	at, every := int64(0), rapid.Int64Range(1, 6).Draw(t, "every")
	for i := range rapid.IntRange(1, 40).Draw(t, "short jobs") {
		at += 250_000 * rapid.Int64Range(0, every).Draw(t, "after")
		add(fmt.Sprint("short", i), at, rapid.Int64Range(1, 3).Draw(t, "rounds"))
	}
	return inst
}

// disturbances draws failures of GPUs and of tasks.
func disturbances(t *rapid.T) sim.Config {
	cfg := sim.Config{Seed: rapid.Uint64Range(0, 1000).Draw(t, "seed")}
	if rapid.Bool().Draw(t, "GPUs fail") {
		cfg.FaultRate = sim.FaultRate{GPUMeanUs: 60e6, GPURepairUs: 5e6}
	}
	if rapid.Bool().Draw(t, "tasks fail") {
		cfg.Failures.Probability = 0.05
	}
	if rapid.Bool().Draw(t, "switches take time") {
		cfg.SwitchUs = 250_000
	}
	return cfg
}

// Theorems 1 and 2 of docs/inside/online.md, "The guard of rolling and hgittins", hold for every wait of random
// streams, with GPUs and tasks that fail. The proofs, with the names of that page:
//
// Lemma 1. When step 2 comes to J, it takes what is not reserved. Suppose a job with a later ticket has a GPU g of
// J's types while J lacks one. It reserved g after J had been served (in the same step or before), since its ticket
// is later. So J had all that it needs then, or it would have taken g; and J never has fewer later. ∎
//
// Lemma 2. Nobody else starts on reserved GPUs, so each is free when the hold on it ends, and stays free. A GPU
// that a rigid job holds may be exchanged once, before that hold ends, for one that no rigid job holds; L covers
// both. ∎
//
// Theorem 1. J gets its ticket within L. Of the p + 1 jobs with tickets up to J's, the first has all that it needs,
// by lemma 1, and starts within L, by lemma 2; a new ticket of it is later than J's. So their number falls in each
// period of L. ∎ With quotas, nobody else takes more of the quotas of the first of these jobs, and what others hold
// ends within L, so it is not held back then. Jobs with later tickets that have reserved GPUs start within another
// L, and these GPUs are free after a third. So each takes 3 L, after the first L for the ticket. ∎ With nodes, if
// the first of these jobs has no reservation, what it lacks is reserved by jobs with later tickets; none of them
// reserves anew, and they start within L by lemma 2. Then everything that running work does not hold is there for
// it, so it has its reservation, and starts within another L. ∎
//
// Theorem 2. Before the last of g such rounds r ≥ g − 1, and m > κ (g − 1). A job with w GPU time in a round adds w
// to W while it is there, so Σ w m ≤ ∫ W dV, where V counts turns, dV/dt ≤ N/W, and the integral is at most ∫ N dt.
// ∎
//
// Corollary. A wait of length t adds at least t / max(T, d) to m, which was at most κ (r + 8) when the job last
// waited and was not due. ∎
//
// Theorem 3. A ticket is given while at most a fifth is spent, and adds one round. At a ticket after r rounds t ≥ B
// (r + q) d − q d ≥ B r d, and the rounds with tickets before have all ended. ∎
func TestGuardTheorems(t *testing.T) {
	for _, name := range []string{"hgittins", "rolling"} {
		t.Run(name, func(t *testing.T) {
			waits, tightest := 0, 0.0
			rapid.Check(t, func(rt *rapid.T) {
				kappa := rapid.SampledFrom([]float64{0.1, 0.3, 1}).Draw(rt, "kappa")
				ga := &guardAudit{kappa: kappa}
				inst := randomStream(rt)
				err := ga.run(t.Context(), inst, guardedRules(list.GuardConfig{Kappa: kappa})[name], disturbances(rt))
				if err != nil {
					rt.Fatal(err)
				}
				waits += ga.waits
				tightest = max(tightest, ga.tightest)
			})
			t.Logf("%d waits of jobs that were due, the longest relative to its bound %.3f", waits, tightest)
			if waits < 100 {
				t.Errorf("%d waits", waits)
			}
		})
	}
}

// Theorems 1 to 3 hold where late jobs get tickets, too.
func TestGuardTheoremsOfLateJobs(t *testing.T) {
	late := int64(0)
	rapid.Check(t, func(rt *rapid.T) {
		cfg := list.GuardConfig{Kappa: rapid.SampledFrom([]float64{0.3, 1, 8}).Draw(rt, "kappa"),
			FIFOSlowdown: list.LeastFIFOSlowdown}
		ga := &guardAudit{kappa: cfg.Kappa}
		inst := randomStream(rt)
		if err := ga.run(t.Context(), inst, guardedRules(cfg)["hgittins"], disturbances(rt)); err != nil {
			rt.Fatal(err)
		}
		late += ga.lateUs
	})
	if late == 0 {
		t.Error("no job was late")
	}
}

// A policy that is restored from a snapshot amid a long stream with late jobs decides as the one
// that goes on.
func TestLateJobsAfterRestore(t *testing.T) {
	for _, name := range []string{"hgittins", "rolling"} {
		rule := guardedRules(list.GuardConfig{FIFOSlowdown: list.LeastFIFOSlowdown})[name]
		scheduler := list.New(sim.Cluster(starving(2)), rule)
		cfg := sim.Config{NoSchedule: true}
		var restored *list.Scheduler
		records, late := 0, false
		cfg.Log = func(r wire.Record) error {
			if records++; restored != nil {
				got, err := restored.Step(r.Event.AtUs, []hare.Event{r.Event})
				if err != nil {
					return err
				}
				if !slices.Equal(got, r.Decisions) {
					return fmt.Errorf("%s, record %d: restored %v, went on %v", name, records, got, r.Decisions)
				}
			}
			late = late || scheduler.LateUs() > 0
			if records%37 > 0 {
				return nil
			}
			var err error
			restored, err = list.Restore(scheduler.AppendSnapshot(nil), func([]byte) (list.Rule, error) {
				return guardedRules(list.GuardConfig{FIFOSlowdown: list.LeastFIFOSlowdown})[name], nil
			})
			return err
		}
		if _, err := sim.Run(t.Context(), starving(2), scheduler, cfg); err != nil {
			t.Fatal(err)
		}
		if name == "hgittins" && !late {
			t.Error("no job was late")
		}
	}
}

// Without the guard an endless stream of short jobs starves a wide gang and a long job, and
// the audit finds it.
func TestAuditFindsStarvation(t *testing.T) {
	for _, name := range []string{"hgittins", "rolling"} {
		for victim, tasks := range map[string]int64{"wide": 2, "long": 1} {
			for _, off := range []bool{false, true} {
				ga := &guardAudit{kappa: 1}
				err := ga.run(t.Context(), starving(tasks), guardedRules(list.GuardConfig{Kappa: 1, Off: off})[name],
					sim.Config{})
				if (err != nil) != off {
					t.Errorf("%s, %s job, guard off %v: %v", name, victim, off, err)
				}
			}
		}
	}
}

// starving are short jobs that keep two GPUs busy for four minutes, and a job that none of
// them should pass for ever.
func starving(tasks int64) *hare.Instance {
	lines := fmt.Sprintf("nodes a=2A\njobs victim gang 20x%d A:1 at=20", tasks)
	for i := range 240 {
		lines += fmt.Sprintf("\njobs short%d gang 2x1 A:1 at=%.2f", i, .99*float64(i))
	}
	return transcript.Instance(lines)
}

// tinyJobs are all kinds of jobs of the exhaustive test that fit on a cluster with gpus of
// types A and B. B is half as fast as A.
func tinyJobs(gpus map[string]int) []hare.Job {
	var all []hare.Job
	for _, sync := range []hare.Sync{hare.Relaxed, hare.Gang, hare.Rigid} {
		for tasks := int64(1); tasks <= 2; tasks++ {
			for _, types := range []string{"A", "AB", "AB mixed"} {
				mix := types == "AB mixed"
				if types != "A" && gpus["B"] == 0 || mix && (sync != hare.Gang || tasks == 1) ||
					sync != hare.Relaxed && !mix && int64(gpus["A"]) < tasks {
					continue
				}
				j := hare.Job{WeightMicro: 1e6, Rounds: 3, Tasks: tasks, Sync: sync, Mix: mix,
					On: []hare.Profile{{Type: "A", ComputeUs: 1e6}}}
				if types != "A" {
					j.On = append(j.On, hare.Profile{Type: "B", ComputeUs: 1.5e6, SyncUs: 500_000})
				}
				all = append(all, j)
			}
		}
	}
	return all
}

// The theorems hold for all streams of three jobs on two or three GPUs, with and without a
// GPU that fails, for all syncs, widths and types, and three patterns of arrival.
func TestGuardTheoremsOnAllTinyStreams(t *testing.T) {
	for _, c := range []struct {
		policy string
		gpus   map[string]int
	}{
		{"hgittins", map[string]int{"A": 2}}, {"hgittins", map[string]int{"A": 1, "B": 1}},
		{"hgittins", map[string]int{"A": 2, "B": 1}},
		{"rolling", map[string]int{"A": 2}}, {"rolling", map[string]int{"A": 1, "B": 1}},
	} {
		if testing.Short() && c.policy == "rolling" {
			continue
		}
		streams, waits := 0, 0
		inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Jobs: make([]hare.Job, 3)}
		for _, k := range []string{"A", "B"} {
			if n := c.gpus[k]; n > 0 {
				inst.Cluster.Nodes = append(inst.Cluster.Nodes, hare.Node{Name: k, GPUs: []hare.TypeCount{{Type: k, Count: n}}})
			}
		}
		kinds := tinyJobs(c.gpus)
		for n := range len(kinds) * len(kinds) * len(kinds) {
			for _, at := range [][3]int64{{0, 0, 0}, {0, 500_000, 1e6}, {0, 1e6, 1e6}} {
				for i, kind := range []int{n % len(kinds), n / len(kinds) % len(kinds), n / len(kinds) / len(kinds)} {
					inst.Jobs[i] = kinds[kind]
					inst.Jobs[i].ID, inst.Jobs[i].ReleaseUs = string(rune('x'+i)), at[i]
				}
				for _, faults := range [][]sim.Fault{nil, {{GPU: "A/0", FromUs: 1.5e6, UntilUs: 4e6}}} {
					ga := &guardAudit{kappa: list.LeastKappa}
					rule := guardedRules(list.GuardConfig{Kappa: list.LeastKappa})[c.policy]
					if err := ga.run(t.Context(), inst, rule, sim.Config{Faults: faults}); err != nil {
						t.Fatalf("%s on %v, faults %v, jobs %+v: %v", c.policy, c.gpus, faults, inst.Jobs, err)
					}
					streams++
					waits += ga.waits
				}
			}
		}
		t.Logf("%s on %v: %d streams, %d waits of jobs that were due", c.policy, c.gpus, streams, waits)
		if waits < streams/4 {
			t.Errorf("%s on %v: %d waits in %d streams", c.policy, c.gpus, waits, streams)
		}
	}
}

// Without a parameter slowdowns are limited as long as all GPUs are of one type.
func TestLimitIsForOneType(t *testing.T) {
	for _, x := range []struct {
		fifoSlowdown float64
		types        string
		limited      bool
	}{{0, "a=2T4", true}, {0, "a=2T4 b=2V100", false}, {-1, "a=2T4", false}, {2, "a=2T4 b=2V100", true}} {
		cluster := transcript.Cluster(x.types)
		guard := list.GuardConfig{FIFOSlowdown: x.fifoSlowdown}
		for _, l := range []*list.Scheduler{
			rolling.NewHGittins(cluster, rolling.HGittinsConfig{Guard: guard}),
			rolling.New(cluster, rolling.Config{Guard: guard}).Scheduler,
		} {
			if l.Limited() != x.limited {
				t.Errorf("fifo_slowdown %v on %v: limited %v", x.fifoSlowdown, x.types, !x.limited)
			}
			join := hare.Event{Seq: 1, Type: hare.EventGPUJoined, GPU: "new/0", GPUType: "A100"}
			if _, err := l.Step(0, []hare.Event{join}); err != nil {
				t.Fatal(err)
			}
			if l.Limited() != (x.fifoSlowdown > 0) {
				t.Errorf("fifo_slowdown %v on %v and an A100: limited %v", x.fifoSlowdown, x.types, l.Limited())
			}
		}
	}
}
