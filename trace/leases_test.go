package trace_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/trace"
)

const ratedHeader = "job_id,arrival_s,job_type,total_steps,scale_factor,priority_weight\n"

const ratedTable = `job_type,scale_factor,gpu_type,other_job_type,steps_per_second,other_steps_per_second
LM,1,k80,,1.25,
LM,1,v100,,10.12345678901234,
LM,2,v100,,18,
GAN,1,v100,,,
GAN,1,k80,,2,
GAN,1,k80,LM,0.5,0.75
`

func readRated(jobs, table string) (*trace.RatedTrace, error) {
	return trace.ReadRated(trace.Source{Name: "jobs.csv", R: strings.NewReader(jobs)},
		trace.Source{Name: "rates.csv", R: strings.NewReader(table)},
		[]hare.TypeCount{{Type: "V100", Count: 2}, {Type: "K80", Count: 1}})
}

func TestReadRated(t *testing.T) {
	r, err := readRated(ratedHeader+"b,7.5,LM,100,1,5.0\na,0.25,GAN,9,1,1.0\nc,7.5,LM,3,2,1\n", ratedTable)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(r.Types, r.GPUs,
		r.Jobs); got != "[K80 V100] [1 2] [{a GAN 0.25 1 1 9 [2 0] 0 <nil> []} {b LM 7.5 5 1 100 [1.25 10.12345678901234] "+
		"0 <nil> []} {c LM 7.5 1 2 3 [0 18] 0 <nil> []}]" {
		t.Error(got)
	}
	if a, b := r.PairRates("LM", "GAN", 1, 0); a != 0.75 || b != 0.5 {
		t.Error(a, b)
	}
	if a, b := r.PairRates("LM", "GAN", 1, 1); a != 0 || b != 0 || !r.HasPairs() {
		t.Error(a, b)
	}
}

func TestEntitiesAndDeadlines(t *testing.T) {
	header := "job_id,arrival_s,job_type,total_steps,scale_factor,priority_weight," +
		"slo,entity,entity_weight,entity_policy\n"
	r, err := readRated(header+"a,0,LM,100,1,1,1.5,x,3,fifo\nb,1,LM,100,1,1,,x,3,fifo\nc,2,LM,100,1,1,-1,y,,\n"+
		"d,3,LM,100,1,1,,,,\n", ratedTable)
	if err != nil {
		t.Fatal(err)
	}
	j := r.Jobs
	if j[0].SLO != 1.5 || j[1].SLO != 0 || j[2].SLO != 0 || j[0].Entity != j[1].Entity ||
		*j[0].Entity != (trace.Entity{Name: "x", Weight: 3, FIFO: true}) ||
		*j[2].Entity != (trace.Entity{Name: "y", Weight: 1}) || j[3].Entity != nil {
		t.Error(j)
	}
	for row, want := range map[string]string{
		"b,1,LM,100,1,1,,x,2,fifo\n": `entity: "x" has another weight or policy in an earlier row`,
		"b,1,LM,100,1,1,,z,0,\n":     "entity_weight: 0 is not positive",
		"b,1,LM,100,1,1,,z,1,rob\n":  `entity_policy: "rob" is neither fairness nor fifo`,
		"b,1,LM,100,1,1,soon,,,\n":   `slo: "soon" is not a number`,
	} {
		if _, err := readRated(header+"a,0,LM,100,1,1,,x,3,fifo\n"+row, ratedTable); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", row, err)
		}
	}
}

func TestReadRatedNamesTheLine(t *testing.T) {
	for _, f := range []struct{ jobs, table, want string }{
		{"a,0,GPT-9,1,1,1\n", ratedTable, `jobs.csv:2:5: job_type: unknown model "GPT-9"`},
		{"a,0,LM,1,1,1\nb,0,LM,1,8,1\n", ratedTable, "jobs.csv:3:10: scale_factor: LM was not measured on 8 GPUs"},
		{"a,0,LM,0,1,1\n", ratedTable, "jobs.csv:2:8: total_steps: 0 is less than 1"},
		{"a,-3,LM,1,1,1\n", ratedTable, `jobs.csv:2:3: arrival_s: "-3" is not a number`},
		{"a,nan,LM,1,1,1\n", ratedTable, `arrival_s: "nan" is not a number`},
		{"a,0,LM,1,1,0\n", ratedTable, "priority_weight: 0 is not positive"},
		{"a,0,LM,1,1,1\na,0,LM,1,1,1\n", ratedTable, `jobs.csv:3:1: job_id: "a" appears twice`},
		{"a,0,LM,1,1,1\n", strings.Replace(ratedTable, "k80,,1.25", "k80,,fast", 1),
			`rates.csv:2:11: steps_per_second: "fast"`},
		{"a,0,LM,1,1,1\n", strings.ReplaceAll(ratedTable, "v100", "p100"), `unknown GPU type "V100"`},
		{"", ratedTable, "no row of this text gives a job"},
		{"a,0,GAN,1,1,1\n", strings.ReplaceAll(ratedTable, "GAN,1,k80,,2", "GAN,1,k80,,0"),
			"GAN cannot run on 1 GPUs of one type"},
	} {
		if _, err := readRated(ratedHeader+f.jobs, f.table); err == nil || !strings.Contains(err.Error(), f.want) {
			t.Errorf("%q: %v, want %s", f.jobs, err, f.want)
		}
	}
}

// The shipped table with all digits, rounded to six digits, equals the shipped table with six
// digits.
func TestColocatedTableIsTheOtherOne(t *testing.T) {
	read := func(table string) *trace.RatedTrace {
		jobs, err := trace.Shipped("gavel_trace_generated500_multi.csv")
		if err != nil {
			t.Fatal(err)
		}
		rates, err := trace.Shipped(table)
		if err != nil {
			t.Fatal(err)
		}
		r, err := trace.ReadRated(jobs, rates, []hare.TypeCount{{Type: "V100", Count: 12}, {Type: "P100", Count: 12},
			{Type: "K80", Count: 12}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	exact, rounded := read("gavel_throughputs_colocated.csv"), read("gavel_throughputs.csv")
	if len(exact.Jobs) != 500 || rounded.HasPairs() {
		t.Fatal(len(exact.Jobs))
	}
	for i, j := range exact.Jobs {
		for k, rate := range j.Rate {
			if math.Abs(rate-rounded.Jobs[i].Rate[k]) > 5.1e-7 {
				t.Fatalf("%s on %s: %v and %v", j.Kind, exact.Types[k], rate, rounded.Jobs[i].Rate[k])
			}
		}
	}
}

func FuzzReadRated(f *testing.F) {
	f.Add(ratedHeader+"b,7.5,LM,100,1,5.0\n", ratedTable)
	f.Add(ratedHeader, "")
	f.Fuzz(func(t *testing.T, jobs, table string) {
		r, err := readRated(jobs, table)
		if err != nil {
			return
		}
		for i, j := range r.Jobs {
			if j.Steps < 1 || j.GPUs < 1 || !(j.Weight > 0) || !(j.ArrivalS >= 0) || len(j.Rate) != 2 || i > 0 &&
				j.ArrivalS < r.Jobs[i-1].ArrivalS {
				t.Fatalf("%+v", j)
			}
		}
	})
}

// Gavel's own form gives the same jobs as the CSV text.
func TestNativeTrace(t *testing.T) {
	line := func(kind, steps, gpus, weight, slo, arrival string) string {
		return kind + "\tpython3 \"train.py\" --dir %s/data\tdir\t-n\t1\t" + steps + "\t" + gpus + "\t" + weight +
			"\t" +
			slo + "\t" + arrival + "\n"
	}
	text := line("LM", "100", "1", "5", "-1.000000", "7.5") + line("GAN", "9", "1", "1", "1.200000", "0.25") +
		line("LM", "3", "2", "1", "-1", "7.5")
	native, err := readRated(text, ratedTable)
	if err != nil {
		t.Fatal(err)
	}
	named, err := readRated(strings.TrimSpace(ratedHeader)+",slo\n0,7.5,LM,100,1,5.0,\n1,0.25,GAN,9,1,1.0,1.2\n"+
		"2,7.5,LM,3,2,1,\n", ratedTable)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := fmt.Sprint(native.Jobs), fmt.Sprint(named.Jobs); a != b {
		t.Errorf("%s, want %s", a, b)
	}
	for _, f := range []struct{ jobs, want string }{
		{"LM\tx\ty\n", "jobs.csv:1:1: 3 fields between tabs; a trace of Gavel has 10 (older ones"},
		{text + line("LM", "ten", "1", "1", "-1", "8"), `jobs.csv:4:46: total_steps: "ten" is not a number`},
		{text + "LM\n", "jobs.csv:4:1: wrong number of fields"},
		{line("LM", "1", "1", "1", "-1", "-5"), "jobs.csv:1:55: arrival_s"},
	} {
		if _, err := readRated(f.jobs, ratedTable); err == nil || !strings.Contains(err.Error(), f.want) {
			t.Errorf("%q: %v, want %s", f.jobs, err, f.want)
		}
	}
}

// A table with the column placement gives rates on several servers, too; those that it lacks are 0.
func TestReadRatedOnSeveralServers(t *testing.T) {
	r, err := readRated(ratedHeader+"a,0,LM,100,1,1\nb,1,LM,100,2,1\n",
		"job_type,scale_factor,gpu_type,placement,steps_per_second\nLM,2,v100,consolidated,18\n"+
			"LM,2,v100,unconsolidated,11\nLM,1,k80,consolidated,2\nLM,1,v100,,3\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(r.Jobs[0].Rate, r.Jobs[0].SpreadRate, r.Jobs[1].Rate,
		r.Jobs[1].SpreadRate); got != "[2 3] [0 0] [0 18] [0 11]" {
		t.Error(got)
	}
}
