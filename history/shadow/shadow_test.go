package shadow_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/history/shadow"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/verify"
)

// realSlurm reads the 200 jobs of a real Slurm in testdata. All types are equally fast.
func realSlurm(t testing.TB) *history.Built {
	t.Helper()
	var texts []trace.Source
	for _, name := range []string{"jobs.txt", "nodes.txt"} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, trace.Source{Name: name, R: bytes.NewReader(text)})
	}
	log, err := history.Read("slurm", texts, history.ReadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	speeds := history.ShippedSpeeds()
	if speeds.Table, err = history.ParseSpeeds("v100=1,t4=1,k80=1"); err != nil {
		t.Fatal(err)
	}
	built, err := log.Build(history.Config{Speeds: speeds})
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// TestRealSlurm holds the simulated Slurm to what a real one did with the same 200 jobs, within 5 %
// of the mean wait, and all schedules to the verifier.
func TestRealSlurm(t *testing.T) {
	built := realSlurm(t)
	for _, anyType := range []bool{false, true} {
		rep, schedules, err := shadow.Compare(t.Context(), built, shadow.Config{
			Slurm:  shadow.SlurmConfig{BackfillUs: 2e6, AnyType: anyType},
			Online: shadow.OnlineConfig{LatencyUs: 2e6}, WorkLimit: 200})
		if err != nil {
			t.Fatal(err)
		}
		if off := *rep.Check.MeanWait; off < -0.05 || off > 0.05 {
			t.Errorf("any type %t: the mean wait is %+.1f %% off", anyType, 100*off)
		}
		rows := []*shadow.Row{&rep.Happened, &rep.Slurm, &rep.Online, &rep.Hindsight}
		for i, row := range rows {
			if !row.Verified {
				t.Errorf("row %d: %s", i, row.Refused)
			}
			if row.WeightedMeanS < rep.Bound.WeightedMeanS || row.P95CompletionS < rep.Bound.P95CompletionS {
				t.Errorf("row %d is below the bound: %v, %v", i, *row, rep.Bound)
			}
			if got, want := rep.QueueS()[i], row.MeanWaitS*float64(rep.Jobs); math.Abs(got-want) > 1e-6*want {
				t.Errorf("row %d: jobs of the picture wait for %g s, those of the table for %g s", i, got, want)
			}
		}
		if check := verify.Check(schedules.Instance, schedules.Hindsight); !check.OK {
			t.Errorf("hindsight: %s", check)
		}
		if rep.Gain.Jobs+rep.Pay.Jobs > rep.Jobs || rep.Jobs != 200 {
			t.Errorf("%d jobs gain and %d pay, of %d", rep.Gain.Jobs, rep.Pay.Jobs, rep.Jobs)
		}
	}
}

// table reads a table of jobs.
func table(t testing.TB, text string, cfg history.Config) *history.Built {
	t.Helper()
	log, err := history.Read("history", []trace.Source{{Name: "jobs.csv", R: strings.NewReader(text)}},
		history.ReadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	built, err := log.Build(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// TestWindowEdges checks how jobs count that ran or waited at the edges of the window.
func TestWindowEdges(t *testing.T) {
	// b ran when the window began at 1100 s, c waited then, and e still ran when the log ended.
	built := table(t, `id,submit,start,end,gpus,nodes,limit,state
a,1000,1000,1050,1,n/0,60,completed
b,1000,1000,1150,1,n/0,200,completed
c,1050,1150,1250,1,n/0,200,completed
d,1120,1250,1300,1,n/0,60,completed
e,1200,1300,,1,n/0,900,running
f,1301,,,1,,900,pending
g,1310,,,1,,900,pending
`, history.Config{FromUs: 1100e6 + 1}) // a table is a microsecond late
	rep, schedules, err := shadow.Compare(t.Context(), built, shadow.Config{WorkLimit: 100, Splits: true})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Jobs != 3 || rep.RunningAtBegin != 1 || rep.WaitingAtBegin != 1 || rep.RunningAtEnd != 1 ||
		rep.WaitingAtEnd != 2 {
		t.Errorf("%d counted, %d ran and %d waited at first, %d ran and %d waited at last", rep.Jobs, rep.RunningAtBegin,
			rep.WaitingAtBegin, rep.RunningAtEnd, rep.WaitingAtEnd)
	}
	// The running job leaves its GPU 50 s after the begin of the window in every schedule.
	for i, row := range []*shadow.Row{&rep.Happened, &rep.Slurm, &rep.Online, &rep.Hindsight} {
		if !row.Verified || math.Abs(row.GPUHours[0].Hours*3600-210) > 0.001 {
			t.Errorf("row %d: verified %t %s, %v", i, row.Verified, row.Refused, row.GPUHours)
		}
	}
	b := slices.IndexFunc(built.Jobs, func(j *history.Job) bool { return j.ID == "b" })
	if end := schedules.Hare.Jobs[b].EndUs; end != 50e6 {
		t.Errorf("the running job ends at %d µs", end)
	}
	if rep.Happened.MeanWaitS != 280./3 {
		t.Errorf("the mean wait is %v", rep.Happened.MeanWaitS)
	}
	if len(rep.Losses.Steps) != 5 {
		t.Errorf("steps %v", rep.Losses.Steps)
	}
}

// TestSlurmBackfill checks the rule that is simulated on jobs whose starts are known.
func TestSlurmBackfill(t *testing.T) {
	// wide waits for both GPUs until long ends by its limit at 100 s. fits ends before by its limit, and
	// late does not, although it would in truth.
	built := table(t, `id,submit,start,end,gpus,nodes,limit
long,1000,1000,1090,1,n/0,100
wide,1001,1090,1190,2,n/0 n/1,100
late,1002,1190,1200,1,n/1,200
fits,1003,1200,1220,1,n/1,30
`, history.Config{})
	_, schedules, err := shadow.Compare(t.Context(), built, shadow.Config{WorkLimit: 100,
		Slurm: shadow.SlurmConfig{BackfillUs: 10e6}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"long": 0, "wide": 90, "fits": 10, "late": 190}
	for _, j := range schedules.Slurm.Jobs {
		if j.StartUs != want[j.ID]*1e6 {
			t.Errorf("%s starts at %d µs, and not at %d s", j.ID, j.StartUs, want[j.ID])
		}
	}
}

// TestBaseline checks that the report compares Hare with the better of what happened and of the simulated Slurm, and
// says so where both are far apart.
func TestBaseline(t *testing.T) {
	for _, c := range []struct{ name, rows, text, page string }{
		{"a job was held", "a,0,3600,3660,1,n/0,60\n", "compare Hare with the simulated Slurm",
			"better read against the simulated Slurm"},
		// b ran before a, which was submitted first and has no such priority in the simulation.
		{"a job was let past", "x,0,0,60,1,n/0,60\na,1,160,4000,1,n/0,4000\nb,2,60,160,1,n/0,200\n",
			"compare Hare with what happened", "read against it, as above"},
		{"as Slurm does", "a,0,0,3660,1,n/0,4000\n", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			built := table(t, "id,submit,start,end,gpus,nodes,limit\n"+c.rows, history.Config{})
			rep, _, err := shadow.Compare(t.Context(), built, shadow.Config{WorkLimit: 50})
			if err != nil {
				t.Fatal(err)
			}
			var text, page bytes.Buffer
			if err := errors.Join(rep.Text(&text), rep.Page(&page)); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(text.String(), c.text) || !strings.Contains(page.String(), c.page) {
				t.Errorf("%q or %q is missing:\n%s", c.text, c.page, &text)
			}
			if c.text == "" && (strings.Contains(text.String(), "so compare") ||
				strings.Contains(page.String(), "misses something")) {
				t.Errorf("a fair simulation is doubted:\n%s", &text)
			}
		})
	}
}

// TestIntervals checks that days drawn again give an interval around the figure, and the same twice.
func TestIntervals(t *testing.T) {
	var text strings.Builder
	text.WriteString("id,submit,start,end,gpus,nodes,limit\n")
	for day := range 5 {
		at := day * 86400
		// Slurm let the long one go first, on a GPU for which a short one came at the same time.
		fmt.Fprintf(&text, "long%d,%d,%d,%d,1,n/0,7200\nshort%d,%d,%d,%d,1,n/0,60\n", day, at, at, at+7200, day, at,
			at+7200, at+7260+10*day)
	}
	built := table(t, text.String(), history.Config{})
	var pages [2]bytes.Buffer
	for i := range pages {
		rep, _, err := shadow.Compare(t.Context(), built, shadow.Config{WorkLimit: 50, Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		c := rep.Saved.Completion
		if c.Days != 5 || c.Value == nil || c.Low == nil || c.High == nil || *c.Low > *c.Value || *c.High < *c.Value {
			t.Errorf("the interval is %+v", c)
		}
		if err := rep.Page(&pages[i]); err != nil {
			t.Fatal(err)
		}
		if err := rep.JSON(&pages[i]); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(pages[0].Bytes(), pages[1].Bytes()) {
		t.Error("the same input gives two pages")
	}
	if page := pages[0].String(); strings.Contains(page, "http://www") && strings.Contains(page, "src=") {
		t.Error("the page loads something")
	}
}
