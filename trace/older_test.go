package trace_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/trace"
)

// TestOlderForms reads the lines without a header of older Gavels and of Shockwave: the same job comes out of each.
func TestOlderForms(t *testing.T) {
	for text, want := range map[string]string{
		"LM (batch size 5)\tc\t-n\t1\t9000\t7.5\t2":                      "gavel",
		"LM (batch size 5)\tc\t-n\t1\t9000\t2\t1\t-1.0\t7.5":             "gavel",
		"LM (batch size 5)\tc\td\t-n\t1\t9000\t2\t1\t-1.0\t7.5":          "gavel",
		"LM (batch size 5)\tc\td\t-n\t1\t9000\t2\tgns\t1\t-1.0\t7.5":     "shockwave",
		"LM (batch size 5)\tc\td\t-n\t1\t9000\t2\tgns\t1\t-1.0\t14\t7.5": "shockwave",
	} {
		format, err := trace.DetectFormat(trace.Source{R: strings.NewReader(text)})
		if err != nil || format != want {
			t.Errorf("%q: %q, %v", text, format, err)
			continue
		}
		inst, _, err := trace.Import(format, trace.ImportConfig{Trace: trace.Source{Name: "t",
			R: strings.NewReader(text + "\n")}})
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if j := inst.Jobs[0]; j.ID != "0-lm" || j.ReleaseUs != 7.5e6 || j.Tasks != 2 || j.WeightMicro != 1e6 {
			t.Errorf("%q gives %+v", text, j)
		}
	}
}

// TestPublicOpenb reads openb in the columns of the public files: as in Hare's own, with run times from when pods were
// scheduled and deleted.
func TestPublicOpenb(t *testing.T) {
	const pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time," +
		"scheduled_time\na,1,1,1,1000,,LS,Running,100,190,110\nb,1,1,0,0,,LS,Running,100,190,110\n" +
		"c,1,1,2,1000,T4|P100,BE,Pending,120,190,\nd,1,1,2,1000,T4|P100,BE,Failed,130,190,130.5\n"
	const nodes = "sn,cpu_milli,memory_mib,gpu,model\nn,1,1,2,T4\nm,1,1,0,\no,1,1,2,P100\n"
	inst, rep, err := trace.Import("openb", trace.ImportConfig{Trace: trace.Source{Name: "p", R: strings.NewReader(pods)},
		Table: trace.Source{Name: "n", R: strings.NewReader(nodes)}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range inst.Jobs {
		got = append(got, fmt.Sprintf("%s at %d: %d GPUs for %d", j.ID, j.ReleaseUs, j.Tasks, j.On[0].ComputeUs))
	}
	if want := []string{"a at 0: 1 GPUs for 80000000", "d at 30000000: 2 GPUs for 59500000"}; !slices.Equal(got, want) ||
		len(inst.Cluster.Nodes) != 2 || len(rep.Skipped) != 2 {
		t.Errorf("got %q, %v nodes\n%s", got, len(inst.Cluster.Nodes), rep)
	}
}

// TestOneUnreadableValue puts a value that cannot be read at a random place of a trace: with SetAside all other jobs
// come out as they were and the report has one line more, and without it the trace is refused.
func TestOneUnreadableValue(t *testing.T) {
	for _, c := range []struct {
		format, text, table, sep string
		columns                  []int
	}{
		{"philly", "arrival_s,duration_s,num_gpus\n1,2,1\n2,4,1\n3,8,2\n", "", ",", []int{0, 1, 2}},
		{"gavel", "LM (batch size 5)\tc\td\t-n\t1\t9000\t2\t1\t-1.0\t7.5\nLM (batch size " +
			"5)\tc\td\t-n\t1\t90\t1\t1\t-1.0\t8\n",
			"", "\t", []int{0, 5, 6, 7, 9}},
		{"openb", "pod,arrival_s,num_gpu,gpu_milli,gpu_spec,run_s\na,0,1,1000,,5\nb,1,2,1000,T4|P100,60\nc,1,1,1000," +
			"P100,9\n",
			"", ",", []int{1, 2, 3, 4, 5}},
	} {
		lines := strings.Split(strings.TrimSuffix(c.text, "\n"), "\n")
		read := func(lines []string, aside bool) (*hare.Instance, *trace.Report, error) {
			return trace.Import(c.format, trace.ImportConfig{Config: trace.Config{SetAside: aside},
				Trace: trace.Source{Name: "t", R: strings.NewReader(strings.Join(lines, "\n") + "\n")}})
		}
		whole, _, err := read(lines, true)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(3, 4))
		for range 30 {
			row := len(lines) - len(whole.Jobs) + rng.IntN(len(whole.Jobs))
			changed := slices.Clone(lines)
			fields := strings.Split(lines[row], c.sep)
			fields[c.columns[rng.IntN(len(c.columns))]] = []string{"?!", "1e3", "-x"}[rng.IntN(3)]
			changed[row] = strings.Join(fields, c.sep)
			if _, _, err := read(changed, false); err == nil {
				t.Errorf("%s: %q is not refused", c.format, changed[row])
			}
			inst, rep, err := read(changed, true)
			if err != nil {
				t.Errorf("%s: %q: %v", c.format, changed[row], err)
				continue
			}
			gone := row - len(lines) + len(whole.Jobs)
			want := slices.Delete(slices.Clone(whole.Jobs), gone, gone+1)
			if fmt.Sprintf("%+v", inst.Jobs) != fmt.Sprintf("%+v", want) || len(rep.Skipped) != 1 {
				t.Errorf("%s: %q leaves\n%+v\nand not\n%+v\n%s", c.format, changed[row], inst.Jobs, want, rep)
			}
		}
	}
}
