package trace_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/wire"
)

var update = flag.Bool("update", false, "rewrite golden files")

// The shipped example is the output of the command in examples/README.md.
func TestShippedExample(t *testing.T) {
	gpus, err := trace.ParseGPUs("V100=12,P100=12,K80=12")
	if err != nil {
		t.Fatal(err)
	}
	inst, _, err := trace.Import("gavel", trace.ImportConfig{Config: trace.Config{GPUs: gpus},
		Trace: trace.Source{Name: "max_min_fairness"}})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := wire.EncodeInstance(&b, inst); err != nil {
		t.Fatal(err)
	}
	const file = "../examples/gavel-demo.json"
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%s differs from what is imported: run with -update and review", file)
	}
}

func ExampleGavel() {
	jobs := trace.Source{Name: "jobs.csv", R: strings.NewReader(
		"job_id,arrival_s,job_type,total_steps,scale_factor,priority_weight\n" +
			"7,30.5,ResNet-18 (batch size 128),925982,4,2\n")}
	rates, err := trace.Shipped("gavel_throughputs.csv")
	if err != nil {
		panic(err)
	}
	inst, report, err := trace.Gavel(jobs, rates, trace.Config{})
	if err != nil {
		panic(err)
	}
	job := inst.Jobs[0]
	fmt.Println(job.ID, job.Rounds, "rounds of", job.Tasks, "tasks")
	for _, p := range job.On {
		fmt.Printf("%s: %d + %d µs\n", p.Type, p.ComputeUs, p.SyncUs)
	}
	fmt.Printf("%d steps, %d more in the last round\n", report.Steps, report.ExtraSteps)
	// Output:
	// 7-resnet-18 221 rounds of 4 tasks
	// K80: 580671232 + 20328525 µs
	// P100: 89846259 + 2677038 µs
	// V100: 58294275 + 1690985 µs
	// 231496 steps, 333 more in the last round
}

func ExampleGavel_fault() {
	jobs := trace.Source{Name: "jobs.csv",
		R: strings.NewReader("job_id,arrival_s,job_type,total_steps,scale_factor,priority_weight\n0,0,GPT-9,100,1,1\n")}
	rates, err := trace.Shipped("gavel_throughputs.csv")
	if err != nil {
		panic(err)
	}
	_, _, err = trace.Gavel(jobs, rates, trace.Config{})
	fmt.Println(err)
	// Output: jobs.csv:2:5: job_type: unknown model "GPT-9": the throughputs have no such job type
}

func ExampleGenerate() {
	inst, err := trace.Generate(trace.GenerateConfig{Jobs: 3, Seed: 1, Arrivals: "poisson:0.1"})
	if err != nil {
		panic(err)
	}
	for _, j := range inst.Jobs {
		fmt.Println(j.ID, j.Rounds, j.Tasks)
	}
	// Output:
	// bert-0 13 8
	// inceptionv3-1 8 8
	// deepspeech-2 64 2
}
