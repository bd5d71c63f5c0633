package capacity_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim/capacity"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
)

// history is a week of jobs on two nodes: each of five users submits a job every few hours of working days.
func history(jobs int) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveJCTAndTardiness, Cluster: hare.Cluster{
		Topology: []string{"rack"}, Nodes: []hare.Node{
			{Name: "a", GPUs: []hare.TypeCount{{Type: "A", Count: 4}}, Labels: []hare.Label{{Name: "rack", Value: "r1"}}},
			{Name: "b", GPUs: []hare.TypeCount{{Type: "B", Count: 4}}, Labels: []hare.Label{{Name: "rack", Value: "r2"}}}}}}
	for i := range jobs {
		day, user := int64(i%7), i%5
		tasks := int64(1 + i%3)
		inst.Jobs = append(inst.Jobs, hare.Job{ID: fmt.Sprintf("j%d", i), WeightMicro: 1e6, Rounds: 1, Tasks: tasks,
			Sync: hare.Rigid, Users: []string{fmt.Sprintf("u%d", user)},
			ReleaseUs: (day*86400 + int64(i*977%80000)) * 1e6, DeadlineUs: (day*86400 + 200000) * 1e6,
			On: []hare.Profile{{Type: "A", ComputeUs: int64(3600+600*(i%11)) * 1e6},
				{Type: "B", ComputeUs: int64(7200+900*(i%11)) * 1e6}}})
	}
	return inst
}

// counts are counts of GPUs by type.
func counts(of ...any) (out []hare.TypeCount) {
	for i := 0; i < len(of); i += 2 {
		out = append(out, hare.TypeCount{Type: of[i].(string), Count: of[i+1].(int)})
	}
	return out
}

func seed(n int64) *int64 { return &n }

// monday is a Monday.
var monday = time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC)

func plan(t *testing.T, req capacitydoc.Request, cfg capacity.Config) *capacity.Report {
	t.Helper()
	rep, err := capacity.Plan(t.Context(), &req, cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// TestPlan checks that the report is the same for any number of workers, that more GPUs and shorter outages are never
// worse in any column, that hours and money follow from the jobs, and that savings stay within what is proved.
func TestPlan(t *testing.T) {
	req := capacitydoc.Request{Instance: history(150), Begins: monday, Weeks: 6, Seed: seed(3),
		Goal:     "p95 wait <= 30m and deadlines >= 90%",
		Options:  []string{"A=2", "A=8", "A=8,B=4", "C=4", "drop r1 from thu to fri", "drop r1 from wed 12:00 to sat"},
		Policies: []string{capacitydoc.Now, "rolling"}, Prices: map[string]float64{"A": 2, "B": 0.5},
		Buy: counts("A", 16, "B", 16)}
	held := map[string]float64{}
	rep := plan(t, req, capacity.Config{Parallel: 2, Week: func(option, policy string, week int, w *capacity.Week) error {
		for i := range w.Jobs {
			j := &w.Jobs[i]
			sum := int64(0)
			for k, us := range j.HeldUs {
				held[option+"/"+policy+"/"+k] += float64(us) / 3600e6
				sum += us
			}
			if one := (j.EndS - j.StartS) * float64(j.GPUs); !strings.Contains(option, "drop") &&
				math.Abs(float64(sum)/1e6-one) > 1e-3 {
				t.Errorf("%s, %s: job %s holds %v GPU-seconds from %v to %v on %d GPUs", option, policy, j.ID,
					float64(sum)/1e6, j.StartS, j.EndS, j.GPUs)
			}
		}
		return nil
	}})
	again := plan(t, req, capacity.Config{Parallel: 1})
	a, _ := json.Marshal(rep)
	if b, _ := json.Marshal(again); string(a) != string(b) {
		t.Error("another number of workers gives another report")
	}
	rows := map[string]*capacitydoc.Row{}
	for i := range rep.Rows {
		r := &rep.Rows[i]
		rows[r.Option+"/"+r.Policy] = r
		for k, h := range r.GPUHours {
			if want := held[r.Option+"/"+r.Policy+"/"+k] / 6; math.Abs(h.Mean-want) > 1e-6 {
				t.Errorf("%s, %s: %v hours of %s, and the jobs held %v", r.Option, r.Policy, h.Mean, k, want)
			}
			if r.Use[k] < 0 || r.Use[k] > 1+1e-9 {
				t.Errorf("%s: use of %s is %v", r.Option, k, r.Use[k])
			}
		}
	}
	if got := *rows["A=8,B=4/rolling"].AddedCostPerWeek; got != (8*2+4*0.5)*168 {
		t.Errorf("eight A and four B cost %v a week", got)
	}
	for _, x := range [][2]string{{"as it is", "A=2"}, {"A=2", "A=8"}, {"A=8", "A=8,B=4"}, {"as it is", "C=4"},
		{"drop r1 from thu to fri", "as it is"}, {"drop r1 from wed 12:00 to sat", "drop r1 from thu to fri"}} {
		for _, policy := range []string{"now (slurm)", "rolling"} {
			less, more := rows[x[0]+"/"+policy], rows[x[1]+"/"+policy]
			if more.MeanWaitS.Mean > less.MeanWaitS.Mean || more.P95WaitS.Mean > less.P95WaitS.Mean ||
				more.MeanCompletionS.Mean > less.MeanCompletionS.Mean || more.P95CompletionS.Mean > less.P95CompletionS.Mean ||
				more.DeadlinesMet.Mean < less.DeadlinesMet.Mean || more.Reached.Share < less.Reached.Share {
				t.Errorf("%s is worse than %s under %s: %+v, %+v", x[1], x[0], policy, more, less)
			}
		}
	}
	if why := rows["C=4/rolling"].Why; len(why) != 1 || !strings.Contains(why[0], "no job can use the added C") {
		t.Errorf("C=4: %q", why)
	}
	for _, c := range rep.Certain {
		if c.MostS == nil || c.LeastS != nil && *c.LeastS > *c.MostS {
			t.Errorf("proved of %s: %+v", c.Option, c)
		}
	}
	if len(rep.Mixes) != 2 || !rep.Mixes[0].Found || rep.Mixes[0].Share < 0.9 {
		t.Fatalf("mixes: %+v", rep.Mixes)
	}
	t.Run("cheapest", func(t *testing.T) { testCheapest(t, req, rep) })
	var page, text, table strings.Builder
	if err := errors.Join(rep.Page(&page), rep.Text(&text), rep.CSV(&table)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(page.String(), "Cost against waiting") ||
		strings.Count(table.String(), "\n") != len(rep.Rows)+1 {
		t.Error("the page has no costs, or the table not all rows")
	}
}

// testCheapest plays every cheaper mix and finds none that reaches the goal.
func testCheapest(t *testing.T, req capacitydoc.Request, rep *capacity.Report) {
	best := rep.Mixes[0]
	req.Buy, req.Policies, req.Options = nil, []string{capacitydoc.Now}, nil
	for a := 0; a <= 16; a += 4 {
		for b := 0; b <= 16; b += 4 {
			if cost := (float64(a)*2 + float64(b)*0.5) * 168; cost >= best.CostPerWeek || a+b == 0 {
				continue
			}
			var parts []string
			if a > 0 {
				parts = append(parts, fmt.Sprintf("A=%d", a))
			}
			if b > 0 {
				parts = append(parts, fmt.Sprintf("B=%d", b))
			}
			req.Options = append(req.Options, strings.Join(parts, ","))
		}
	}
	for _, r := range plan(t, req, capacity.Config{Parallel: 2}).Rows {
		if r.Reached.Share >= 0.9 {
			t.Errorf("%s reaches the goal in %v of weeks for %v, and the cheapest mix is said to be %+v", r.Option,
				r.Reached.Share, *r.AddedCostPerWeek, best)
		}
	}
}

// TestSparse checks that growth holds where users submit on few days, that weeks may be empty, and what is missed and
// saved then.
func TestSparse(t *testing.T) {
	inst := history(0)
	for day := range int64(14) {
		for i := range int64(10) {
			inst.Jobs = append(inst.Jobs, hare.Job{ID: fmt.Sprintf("%d-%d", day, i), WeightMicro: 1e6, Rounds: 1, Tasks: 1,
				Sync: hare.Rigid, Users: []string{fmt.Sprintf("u%d", day)}, ReleaseUs: (day*86400 + i) * 1e6,
				On: []hare.Profile{{Type: "A", ComputeUs: 60e6}}})
		}
	}
	rep := plan(t, capacitydoc.Request{Instance: inst, Weeks: 20, Growth: 2.5}, capacity.Config{Parallel: 2})
	if math.Abs(rep.WeekJobs-175) > 10 {
		t.Errorf("weeks have %v jobs, want about 175", rep.WeekJobs)
	}
	inst.Jobs = append(inst.Jobs[:1], inst.Jobs[139])
	rep = plan(t, capacitydoc.Request{Instance: inst, Weeks: 3, Days: 1, Goal: "p95 wait <= 1h"}, capacity.Config{})
	if rep.WeekJobs > 1 || rep.Rows[0].Reached.Share != 1 {
		t.Errorf("%+v", rep.Rows[0])
	}
}

// TestRefusals checks that each bad input gives one line that names the field and what to do.
func TestRefusals(t *testing.T) {
	one := func(change func(*capacitydoc.Request)) *capacitydoc.Request {
		r := &capacitydoc.Request{Instance: history(40), Begins: monday, Weeks: 1}
		change(r)
		return r
	}
	for want, req := range map[string]*capacitydoc.Request{
		"/prices/H200: H200 is neither in the cluster nor in an option: there are A, B": one(func(r *capacitydoc.Request) {
			r.Prices = map[string]float64{"H200": 3}
		}),
		"/prices/A: A costs -1": one(func(r *capacitydoc.Request) {
			r.Prices = map[string]float64{"A": -1}
		}),
		"/goal: \"p95 wait\": give mean, median": one(func(r *capacitydoc.Request) { r.Goal = "p95 wait" }),
		"/goal: \"p95 wait <= soon\": \"soon\" is not a time": one(func(r *capacitydoc.Request) {
			r.Goal = "p95 wait <= soon"
		}),
		"/goal: \"deadlines >= 101%\"": one(func(r *capacitydoc.Request) { r.Goal = "deadlines >= 101%" }),
		"/options/0: \"drop a from 2020-01-01\": 2020-01-01 is in the past: drawn weeks begin on Mon 2026-11-23": one(
			func(r *capacitydoc.Request) { r.Options = []string{"drop a from 2020-01-01"} }),
		"/options/0: \"drop a from sat to fri\" ends before it begins": one(func(r *capacitydoc.Request) {
			r.Options = []string{"drop a from sat to fri"}
		}),
		"/options/0: \"drop c\": there is no node c": one(func(r *capacitydoc.Request) {
			r.Options = []string{"drop c"}
		}),
		"/options/0: \"A=4,A=8\" adds A twice": one(func(r *capacitydoc.Request) { r.Options = []string{"A=4,A=8"} }),
		"/options/0: \"A=-4\" adds -4 GPUs":    one(func(r *capacitydoc.Request) { r.Options = []string{"A=-4"} }),
		"/options/0: \"a=4\": there is no a: write A=4": one(func(r *capacitydoc.Request) {
			r.Options = []string{"a=4"}
		}),
		"/options/1: \"A=4\" is given twice": one(func(r *capacitydoc.Request) {
			r.Options = []string{"A=4", "A=4"}
		}),
		"/options/0: \"more\": \"more\" is neither": one(func(r *capacitydoc.Request) { r.Options = []string{"more"} }),
		"/options/0: \"drop a,drop b\" under now (slurm): sim: jobs wait forever": one(func(r *capacitydoc.Request) {
			r.Options = []string{"drop a,drop b"}
		}),
		"/goal: no job of the history has a deadline": one(func(r *capacitydoc.Request) {
			r.Goal = "deadlines >= 9%"
			for i := range r.Instance.Jobs {
				r.Instance.Jobs[i].DeadlineUs = 0
			}
		}),
		"/buy: there are over 10000 mixes": one(func(r *capacitydoc.Request) {
			r.Buy, r.Goal = counts("A", 100000, "B", 8), "p95 wait <= 1h"
			r.Prices = map[string]float64{"A": 1, "B": 1}
		}),
		"/prices/A: A costs 1e+300": one(func(r *capacitydoc.Request) { r.Prices = map[string]float64{"A": 1e300} }),
		"/options/0: \"drop r1,drop a from 24h\": r1 and a drop": one(func(r *capacitydoc.Request) {
			r.Options = []string{"drop r1,drop a from 24h"}
		}),
		"/options/0: \"drop a,drop a\": a and a drop a node twice": one(func(r *capacitydoc.Request) {
			r.Options = []string{"drop a,drop a"}
		}),
		"/days: the history has jobs of 7 days, and weeks of 14 days": one(func(r *capacitydoc.Request) { r.Days = 14 }),
		"/growth: -1: give a factor above 0":                          one(func(r *capacitydoc.Request) { r.Growth = -1 }),
		"/weeks: -1":                                                  one(func(r *capacitydoc.Request) { r.Weeks = -1 }),
		"/share: 2":                                                   one(func(r *capacitydoc.Request) { r.Share = 2 }),
		"/policies/0: unknown policy": one(func(r *capacitydoc.Request) {
			r.Policies = []string{"slrm"}
		}),
		"/goal: the cheapest mix needs a goal": one(func(r *capacitydoc.Request) {
			r.Buy, r.Prices = counts("A", 8), map[string]float64{"A": 1}
		}),
		"/prices: the cheapest mix needs a price of A": one(func(r *capacitydoc.Request) {
			r.Buy, r.Goal = counts("A", 8), "p95 wait <= 1h"
		}),
		"/instance/jobs: no job is submitted in it": one(func(r *capacitydoc.Request) { r.Instance.Jobs = nil }),
	} {
		_, err := capacity.Plan(context.Background(), req, capacity.Config{}, nil)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %s", err, want)
		}
	}
	// Without dates nobody knows which day Friday is.
	_, err := capacity.Plan(t.Context(), one(func(r *capacitydoc.Request) {
		r.Begins, r.Options = time.Time{}, []string{"drop a from fri to sat"}
	}), capacity.Config{}, nil)
	if err == nil || !strings.Contains(err.Error(), "--begins") {
		t.Error(err)
	}
}
