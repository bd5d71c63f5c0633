package trace_test

import (
	"encoding/csv"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/hare-sched/hare/trace"
)

// The factors are computed by hand: worker 0 has median 4, worker 1 has (10 + 30) / 2.
func TestMiniBatchByHand(t *testing.T) {
	m, err := trace.ReadMiniBatch(trace.Source{Name: "x",
		R: strings.NewReader("job,worker,sample,batch_time_norm\n1,0,1,4\n1,1,1,10\n1,0,2,2\n1,1,2,30\n1,0,3,8\n")})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{0.5, 0.5, 1, 1.5, 2} {
		if got := m.Quantile((float64(i) + 0.5) / 5); got != want {
			t.Errorf("factor %d: %v, want %v", i, got, want)
		}
	}
	counts := map[float64]int{}
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		counts[m.Draw(r)]++
	}
	if len(counts) != 4 || math.Abs(float64(counts[0.5])-4000) > 200 || math.Abs(float64(counts[2])-2000) > 200 {
		t.Errorf("drawn: %v", counts)
	}
}

func TestMiniBatchRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "empty",
		"job,worker\n":                      "batch_time_norm",
		"job,worker,batch_time_norm\n":      "no row",
		"job,worker,batch_time_norm\n1,1,0": "positive",
		"job,worker,batch_time_norm\n1,1,x": "x:2:",
	} {
		_, err := trace.ReadMiniBatch(trace.Source{Name: "x", R: strings.NewReader(text)})
		if _, ok := errors.AsType[*trace.RowError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// The shipped table has as many steps as the source's file. For each worker whose samples are
// all in the file (those of jobs 2 and 3), the quantiles over the median agree with the
// statistics that the source gives.
func TestShippedMiniBatch(t *testing.T) {
	m, err := trace.MiniBatchTimes()
	if err != nil {
		t.Fatal(err)
	}
	if want := "10891 steps: median 1, p95 1.16, p99 1.8, most 2.53 times the worker's median"; m.String() != want {
		t.Errorf("%v, want %s", m, want)
	}
	f, err := os.Open("testdata/alibaba_minibatch_worker_stats.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadFile("data/alibaba_minibatch_workers.csv")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, row := range rows[1:] {
		samples, _ := strconv.Atoi(row[3])
		var one strings.Builder
		one.WriteString("job,worker,gpu_percent,sample,batch_time_norm\n")
		n := 0
		for line := range strings.Lines(string(all)) {
			if strings.HasPrefix(line, row[0]+","+row[1]+",") {
				one.WriteString(line)
				n++
			}
		}
		if n != samples {
			continue
		}
		checked++
		m, err := trace.ReadMiniBatch(trace.Source{R: strings.NewReader(one.String())})
		if err != nil {
			t.Fatal(err)
		}
		p50, _ := strconv.ParseFloat(row[5], 64)
		p95, _ := strconv.ParseFloat(row[6], 64)
		if math.Abs(m.Quantile(.95)-p95/p50) > 0.02 {
			t.Errorf("job %s worker %s: p95 %v of the median, want %v", row[0], row[1], m.Quantile(.95), p95/p50)
		}
	}
	if checked < 20 {
		t.Errorf("%d workers checked", checked)
	}
}
