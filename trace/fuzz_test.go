package trace

import (
	"strings"
	"testing"

	hare "github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// fuzzReader checks that a reader neither panics nor returns an instance that does not
// decode.
func fuzzReader(f *testing.F, read func(text string) (*hare.Instance, *Report, error), seeds ...string) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		inst, rep, err := read(text)
		if err != nil {
			return
		}
		if rep == nil || rep.Jobs != len(inst.Jobs) || rep.Jobs == 0 {
			t.Fatalf("report %v of %d jobs", rep, len(inst.Jobs))
		}
		var b strings.Builder
		if err := wire.EncodeInstance(&b, inst); err != nil {
			t.Fatal(err)
		}
		if _, err := wire.DecodeInstance(strings.NewReader(b.String()), wire.Limits{}); err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
	})
}

const (
	fuzzRates = "job_type,scale_factor,gpu_type,placement,steps_per_second\nA,1,v100,consolidated,2.5\n" +
		"A,2,v100,consolidated,4\nA,1,k80,consolidated,0.000001\n"
	fuzzJobs  = "job_id,arrival_s,job_type,total_steps,scale_factor,priority_weight\n0,1.5,A,1000,2,1\n1,0,A,7,1,0\n"
	fuzzNodes = "node,gpu_type,gpus\nn,T4,2\nm,P100,1\n"
)

func FuzzGavel(f *testing.F) {
	fuzzReader(f, func(text string) (*hare.Instance, *Report, error) {
		return Gavel(Source{"f", strings.NewReader(text)}, Source{"r", strings.NewReader(fuzzRates)},
			Config{GPUs: []hare.TypeCount{{Type: "V100", Count: 4}}})
	}, fuzzJobs, "", "\ufeff"+fuzzJobs, strings.ReplaceAll(fuzzJobs, "\n", "\r\n"),
		"a\tpython \"x\"\td\t-n\t1\t9\t1\t1\t-1.000000\t0\n", "\t\t\t\t\t\t\t\t\t\n", "a\tb\n")
}

func FuzzThroughputs(f *testing.F) {
	fuzzReader(f, func(text string) (*hare.Instance, *Report, error) {
		return Gavel(Source{"f", strings.NewReader(fuzzJobs)}, Source{"r", strings.NewReader(text)},
			Config{GPUs: []hare.TypeCount{{Type: "V100", Count: 4}}})
	}, fuzzRates)
}

func FuzzPhilly(f *testing.F) {
	fuzzReader(f, func(text string) (*hare.Instance, *Report, error) {
		return Philly(Source{"f", strings.NewReader(text)}, Config{Sync: "gang"})
	}, "arrival_s,duration_s,num_gpus,vc\n115,108,1,x\n715,74.5,2,x\n")
}

func FuzzOpenb(f *testing.F) {
	fuzzReader(f, func(text string) (*hare.Instance, *Report, error) {
		return Openb(Source{"f", strings.NewReader(text)}, Source{"n", strings.NewReader(fuzzNodes)},
			Config{Shared: "whole"})
	}, "pod,arrival_s,num_gpu,gpu_milli,gpu_spec,run_s\na,0,1,1000,,5\nb,1,2,1000,T4|P100,60\nc,1,1,460,P100,\n")
}

func FuzzOpenbNodes(f *testing.F) {
	fuzzReader(f, func(text string) (*hare.Instance, *Report, error) {
		return Openb(Source{"f", strings.NewReader("pod,arrival_s,num_gpu,gpu_milli,gpu_spec,run_s\na,0,1,1000,,5\n")},
			Source{"n", strings.NewReader(text)}, Config{})
	}, fuzzNodes)
}

func FuzzPollux(f *testing.F) {
	const steps = "application,num_nodes,num_replicas,local_batch,step_time_s,sync_time_s\n" +
		"bert,1,1,4,0.455324,0.0137386\nbert,1,2,12,0.9,0.5\n"
	fuzzReader(f, func(text string) (*hare.Instance, *Report, error) {
		work, table, _ := strings.Cut(text, "|")
		return Pollux(Source{"f", strings.NewReader(work)}, Source{"s", strings.NewReader(table)}, Config{})
	}, "name,time,application,num_replicas,batch_size\na,0,bert,1,4\nb,3.5,bert,2,384\n|"+steps)
}
