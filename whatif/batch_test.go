package whatif_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/whatif"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

const wideBase = `{"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"A":3}},{"name":"b",` +
	`"gpus":{"B":2}}]},"jobs":[
 {"id":"p","weight":3,"rounds":20,"tasks":3,"on":{"A":{"compute_s":1,"sync_s":0.5},"B":{"compute_s":2}}},
 {"id":"q","weight":1,"rounds":30,"tasks":2,"sync":"gang","on":{"A":{"compute_s":2,"sync_s":0.1},"B":{"compute_s":1}}},
 {"id":"r","weight":2,"release_s":4,"rounds":9,"tasks":2,"on":{"A":{"compute_s":3}}},
 {"id":"s","rounds":5,"tasks":2,"sync":"rigid","on":{"B":{"compute_s":4,"sync_s":1}}}]}}`

// twenty returns twenty scenarios of all kinds.
func twenty() (out []string) {
	for i := range 4 {
		out = append(out,
			fmt.Sprintf(`{"add_gpus":{"type":"A","count":%d}}`, i+1),
			fmt.Sprintf(`{"drain":{"node":"a","at_s":%d}}`, 150+i),
			fmt.Sprintf(`{"scale_weights":%d}`, i+2),
			fmt.Sprintf(`{"patch":[{"op":"add","path":"/jobs/3/release_s","value":%d}]}`, i),
			fmt.Sprintf(`{"remove_jobs":[%q]}`, []string{"p", "q", "r", "s"}[i]))
	}
	return out
}

// The lines are the same for any number of concurrent scenarios and cores.
func TestDoesNotDependOnConcurrency(t *testing.T) {
	var first []string
	for _, running := range []int{1, 3} {
		engine := whatif.Local{Solver: solver.Config{Workers: running}, Parallel: running}
		req := request(t, wideBase, twenty(), `,"options":{"work_limit":300},"prune":{"below_s":20},"ordered":true`)
		if err := whatif.Check(req, nil); err != nil {
			t.Fatal(err)
		}
		var lines []string
		err := whatif.Run(t.Context(), req, engine, func(l *whatif.Line) error {
			l.Timing = whatifdoc.Timing{}
			text, err := json.Marshal(l)
			lines = append(lines, string(text))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = lines
			if all := strings.Join(lines, "\n"); !strings.Contains(all, `"pruned":true`) ||
				!strings.Contains(all, `"plan":"search"`) {
				t.Errorf("not of all kinds: %s", all)
			}
		} else if a, b := strings.Join(first, "\n"), strings.Join(lines, "\n"); a != b {
			t.Errorf("one at a time:\n%s\nthree:\n%s", a, b)
		}
	}
}

// Bounds and values equal those of the independent verifier, and a scenario that only
// adds capacity costs no more than the base.
func TestLinesHold(t *testing.T) {
	if testing.Short() {
		t.Skip("the batch is that of TestDoesNotDependOnConcurrency")
	}
	engine := whatif.Local{Parallel: 2}
	req := request(t, wideBase, twenty(), `,"options":{"work_limit":300}`)
	base, lines, summary := answers(t, engine, req)
	for i, l := range lines {
		if l.Value == nil || l.Bound == nil || l.Bound.Cmp(*l.Value) > 0 || l.Jobs == nil {
			t.Errorf("%d: %+v", i, l)
			continue
		}
		if i%5 == 0 && (l.ValueChange.Sign() > 0 || l.Plan == whatifdoc.PlanBase && l.ValueChange.Sign() != 0) {
			t.Errorf("more GPUs cost more: %+v", l)
		}
		sum := l.Value.Sub(*base.Value)
		if sum.Cmp(*l.ValueChange) != 0 {
			t.Errorf("%d: change %v, not %v", i, l.ValueChange, sum)
		}
		// All jobs of both plans are listed, so their changes add up.
		if i%5 != 4 {
			for _, j := range l.Jobs.ByWeightedChange {
				sum = sum.Sub(j.WeightedChange)
			}
			if sum.Sign() != 0 {
				t.Errorf("%d: changes of jobs miss %v of the value's", i, sum)
			}
		}
		// If all weights change by a factor, the bound changes by the same factor, apart from
		// rounding.
		if i%5 == 2 {
			factor := float64(i/5 + 2)
			if got := l.Bound.Float() / base.Bound.Float(); got < factor*(1-1e-6) {
				t.Errorf("weights times %g: bound times %g", factor, got)
			}
		}
	}
	if c := summary.Counts; c.Solved != 20 || c.Scenarios != 20 {
		t.Errorf("%+v", c)
	}
}

// If the base has no plan, scenarios are solved but neither compared nor pruned.
func TestOfAnInfeasibleBase(t *testing.T) {
	const wide = `{"instance":{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"A":1}}]},` +
		`"jobs":[{"id":"x","tasks":2,"sync":"gang","on":{"A":{"compute_s":5}}}]}}`
	req := request(t, wide, []string{`{"add_gpus":{"type":"A","count":1}}`, `{"drain":{"node":"a","at_s":9}}`},
		`,"prune":{"below_s":1000},"options":{"work_limit":50}`)
	base, lines, summary := answers(t, whatif.Local{}, req)
	if base.Value != nil || base.Termination != hare.TerminationInfeasible || len(base.Reasons) == 0 {
		t.Errorf("base %+v", base)
	}
	if l := lines[0]; l.Value == nil || l.Value.String() != "5" || l.ValueChange != nil || l.OptimumChange[0] != nil ||
		l.OptimumChange[1] != nil {
		t.Errorf("with one more: %+v", l)
	}
	if l := lines[1]; l.Termination != hare.TerminationInfeasible || len(l.Reasons) == 0 || *l.Pruned ||
		summary.Counts.Solved != 2 {
		t.Errorf("drained: %+v", l)
	}
}

// A deadline covers the batch: scenarios that are not solved in time are answered from
// their bounds.
func TestDeadline(t *testing.T) {
	engine := whatif.Local{Parallel: 2}
	req := request(t, wideBase, twenty(), `,"options":{"time_limit_s":0.4,"gap":0}`)
	began := time.Now()
	_, lines, _ := answers(t, engine, req)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	for i, l := range lines {
		if l.Bound == nil || l.OptimumChange[0] == nil {
			t.Errorf("%d has no bound: %+v", i, l)
		}
	}
	req = request(t, wideBase, twenty()[:2], `,"options":{"time_limit_s":0.000001}`)
	_, lines, summary := answers(t, engine, req)
	if summary.Counts.Bounded != 2 || lines[0].Termination != hare.TerminationDeadline ||
		lines[0].OptimumChange[1] == nil {
		t.Errorf("%+v %+v", summary.Counts, lines)
	}
}
