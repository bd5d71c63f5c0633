package whatif_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/brute"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/whatif"
	"github.com/hare-sched/hare/wire"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

// request returns a request as a client would send it.
func request(t testing.TB, base string, scenarios []string, rest string) *whatifdoc.Request {
	t.Helper()
	req, err := decodeWhatIf(base, scenarios, rest)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func decodeWhatIf(base string, scenarios []string, rest string) (*whatifdoc.Request, error) {
	text := `{"base":` + base + `,"scenarios":[` + strings.Join(scenarios, ",") + `]` + rest + `}`
	return whatifdoc.Decode(strings.NewReader(text), wire.Limits{})
}

func document(t testing.TB, inst *hare.Instance) string {
	t.Helper()
	var b bytes.Buffer
	if err := wire.EncodeInstance(&b, inst); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// answers runs a what-if to its end and returns the base, the scenarios by index, and the
// summary.
func answers(t testing.TB, engine whatif.Engine,
	req *whatifdoc.Request) (base whatif.Line, lines []whatif.Line, summary whatif.Line) {
	t.Helper()
	if err := whatif.Check(req, nil); err != nil {
		t.Fatal(err)
	}
	lines = make([]whatif.Line, len(req.Scenarios))
	seen := 0
	err := whatif.Run(t.Context(), req, engine, func(l *whatif.Line) error {
		switch l.Line {
		case "base":
			if seen != 0 {
				t.Error("the base is not the first line")
			}
			base = *l
		case "scenario":
			if lines[*l.Index].Line != "" {
				t.Errorf("scenario %d is answered twice", *l.Index)
			}
			lines[*l.Index] = *l
		default:
			if seen != len(lines)+1 {
				t.Errorf("the summary is line %d of %d scenarios", seen, len(lines))
			}
			summary = *l
		}
		seen++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen != len(lines)+2 {
		t.Errorf("%d lines for %d scenarios", seen, len(lines))
	}
	return base, lines, summary
}

// randomScenario returns a change of a tiny instance, so small that brute force can solve the
// changed instance.
func randomScenario(r *rand.Rand, inst *hare.Instance, id int) string {
	node := inst.Cluster.Nodes[r.IntN(len(inst.Cluster.Nodes))]
	job := inst.Jobs[r.IntN(len(inst.Jobs))]
	var change string
	switch r.IntN(8) {
	case 0:
		change = fmt.Sprintf(`"add_gpus":{"type":%q,"count":1}`, []string{"A", "B", "C"}[r.IntN(3)])
	case 1:
		change = fmt.Sprintf(`"remove_gpus":{"node":%q,"count":1}`, node.Name)
	case 2:
		change = fmt.Sprintf(`"drain":{"node":%q,"at_s":%d}`, node.Name, r.IntN(8))
	case 3:
		change = fmt.Sprintf(`"remove_jobs":[%q]`, job.ID)
	case 4:
		change = `"add_jobs":[{"id":"new","weight":2,"tasks":1,"on":{"A":{"compute_s":1,"sync_s":0.5},"C":{"compute_s":2}}}]`
	case 5:
		change = fmt.Sprintf(`"scale_weights":%s`, []string{"0", "0.5", "2", "3"}[r.IntN(4)])
	case 6:
		change = fmt.Sprintf(`"scale_weights":{%q:4}`, job.ID)
	default:
		change = fmt.Sprintf(`"patch":[{"op":"replace","path":"/jobs/%d/on","value":{"A":{"compute_s":%d,"sync_s":1}}},`+
			`{"op":"add","path":"/jobs/0/release_s","value":1}]`, r.IntN(len(inst.Jobs)), 1+r.IntN(3))
	}
	return fmt.Sprintf(`{"id":"s%d",%s}`, id, change)
}

// The difference of the optima lies in the interval, the bounds are true, and pruning
// never leaves out a scenario whose value falls further.
func TestIntervalsContainTheDifferenceOfTheOptima(t *testing.T) {
	engine := whatif.Local{Solver: solver.Config{Workers: 1}, Parallel: 2}
	seeds, judged, pruned, kinds := 250, 0, 0, map[string]int{}
	if testing.Short() {
		seeds = 25
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(uint64(seed), 77))
		inst := brute.Random(r)
		optB, found, done := brute.Optimum(inst, 100_000)
		if !found || !done {
			continue
		}
		var scenarios []string
		for i := range 4 {
			scenarios = append(scenarios, randomScenario(r, inst, i))
		}
		below := []string{"0", "1", "5", "1000"}[r.IntN(4)]
		rest := `,"options":{"work_limit":200}`
		if r.IntN(3) > 0 {
			rest += `,"prune":{"below_s":` + below + `}`
		}
		req := request(t, `{"instance":`+document(t, inst)+`}`, scenarios, rest)
		base, lines, _ := answers(t, engine, req)
		if base.Value == nil {
			t.Fatalf("seed %d: no base value", seed)
		}
		for i, l := range lines {
			fail := func(what string) {
				t.Errorf("seed %d, %s: %s: %+v", seed, scenarios[i], what, l)
			}
			if l.Status != "succeeded" {
				kinds[l.Status]++
				continue
			}
			changed, err := changed(inst, req, i)
			if err != nil {
				fail(err.Error())
				continue
			}
			if sha := wire.SHA256(changed); sha != l.InstanceSHA256 {
				fail("it is another instance")
			}
			optS, found, done := brute.Optimum(changed, 100_000)
			if !done {
				continue
			}
			if !found {
				if l.Value != nil {
					fail("a value where no schedule exists")
				}
				kinds[l.Termination]++
				continue
			}
			judged++
			opt, diff := hare.Product(1, optS), hare.Product(1, optS-optB)
			if l.Bound != nil && l.Bound.Cmp(opt) > 0 || l.Value != nil && l.Value.Cmp(opt) < 0 {
				fail(fmt.Sprintf("optimum %v", opt))
			}
			low, high := l.OptimumChange[0], l.OptimumChange[1]
			if low != nil && low.Cmp(diff) > 0 || high != nil && high.Cmp(diff) < 0 {
				fail(fmt.Sprintf("difference %v", diff))
			}
			if l.Termination == "infeasible" {
				fail("called infeasible")
			}
			if *l.Pruned {
				pruned++
				if opt.Cmp(base.Value.Sub(*req.PruneBelow)) < 0 {
					fail("pruned, but it can fall further")
				}
			} else if low == nil || high == nil {
				kinds["open"]++
			}
		}
	}
	t.Logf("%d judged, %d of them pruned, others: %v", judged, pruned, kinds)
	if judged < 2*seeds || pruned < judged/20 || kinds["failed"] == 0 && !testing.Short() ||
		kinds["open"] > judged/10 {
		t.Errorf("too few to tell: %d judged, %d pruned, %v", judged, pruned, kinds)
	}
}

// changed returns the instance of scenario i with its patch applied by hand.
func changed(inst *hare.Instance, req *whatifdoc.Request, i int) (*hare.Instance, error) {
	sc := &req.Scenarios[i]
	out := *inst
	out.Jobs = append([]hare.Job(nil), inst.Jobs...)
	for _, p := range sc.Patch {
		var n int
		if _, err := fmt.Sscanf(p.Path, "/jobs/%d/", &n); err != nil {
			return nil, err
		}
		switch {
		case strings.HasSuffix(p.Path, "/on"):
			var on map[string]struct {
				C int64 `json:"compute_s"`
			}
			if err := json.Unmarshal(p.Value, &on); err != nil {
				return nil, err
			}
			out.Jobs[n].On = []hare.Profile{{Type: "A", ComputeUs: on["A"].C * 1e6, SyncUs: 1e6}}
		default:
			out.Jobs[n].ReleaseUs = 1e6
		}
	}
	return sc.Apply(&out)
}

// A base whose result is for another objective is refused, also where it comes from a store.
func TestBaseOfAnotherObjective(t *testing.T) {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT,
		Cluster: hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 1}}}}}}
	for _, solve := range []string{"", "s1"} {
		req := &whatifdoc.Request{Base: whatifdoc.Base{Instance: inst, SolveID: solve,
			Result: &hare.Result{Objective: hare.ObjectiveMakespan}}}
		var bad *hare.InvalidError
		if err := whatif.Check(req, nil); !errors.As(err, &bad) || bad.Code != "not_supported" || bad.Pointer != "/base" {
			t.Errorf("solve %q: %v", solve, err)
		}
	}
}
