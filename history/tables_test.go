package history_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/verify"
)

// tableSources reads texts of tables by the names of files, or as they stand.
func tableSources(t *testing.T, texts ...string) (out []trace.Source) {
	t.Helper()
	for i, text := range texts {
		name := fmt.Sprint(i)
		if !strings.Contains(text, "\n") {
			file, err := os.ReadFile(filepath.Join("testdata", "tables", text))
			if err != nil {
				t.Fatal(err)
			}
			name, text = text, string(file)
		}
		out = append(out, trace.Source{Name: name, R: strings.NewReader(text)})
	}
	return out
}

// describe says what became of a log: its jobs with user, GPUs, tasks, times and nodes.
func describe(log *history.Log, built *history.Built) (lines []string) {
	for i, j := range built.Jobs {
		job := &built.Instance.Jobs[i]
		var on []string
		for _, h := range j.On {
			on = append(on, fmt.Sprintf("%s:%d", h.Node, h.GPUs))
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %d GPUs in %d tasks %s %d-%d on %s", j.ID, strings.Join(job.Users, ","),
			j.Name, j.GPUs, job.Tasks, j.State, (j.StartUs-built.OriginUs)/1e6, (j.EndUs-built.OriginUs)/1e6,
			strings.Join(on, " ")))
	}
	for _, n := range built.Instance.Cluster.Nodes {
		lines = append(lines, fmt.Sprintf("%s %s=%d", n.Name, n.GPUs[0].Type, n.GPUs[0].Count))
	}
	return lines
}

// TestPublicTables reads tables of public traces: jobs, GPUs, times and users are those of the rows, and what no row
// tells is placed on the nodes that are given and counts as assumed.
func TestPublicTables(t *testing.T) {
	for _, c := range []struct {
		name, source string
		texts        []string
		cfg          history.ReadConfig
		want         []string
		report       string
	}{
		{name: "acme", source: "acme", texts: []string{"acme.csv", "nodes.csv"}, want: []string{
			"a1 u1 Pretrain 8 GPUs in 1 tasks completed 10-3610 on n1:8",
			"a4 u2 SFT 8 GPUs in 1 tasks node_fail 1210-3610 on n2:8",
			"a5 u3 SFT 16 GPUs in 2 tasks completed 3610-7210 on n1:8 n2:8",
			"n1 A100=8", "n2 A100=8"},
			report: "assumed 3: the table does not say on which nodes jobs ran: they are placed on the nodes that are given"},
		{name: "acme as history on GPUs", source: "history", texts: []string{"acme.csv"},
			cfg: history.ReadConfig{GPUs: []hare.TypeCount{{Type: "A100", Count: 16}}}, want: []string{
				"a1 u1 Pretrain 8 GPUs in 1 tasks completed 10-3610 on a100:8",
				"a4 u2 SFT 8 GPUs in 1 tasks node_fail 1210-3610 on a100:8",
				"a5 u3 SFT 16 GPUs in 1 tasks completed 3610-7210 on a100:16",
				"a100 A100=16"}},
		{name: "helios", source: "helios", texts: []string{"helios.csv",
			"node,type,gpus\nn[1-2],V100,8\nn3,V100,8\nn4,V100,8\n"},
			want: []string{
				"14 uXBbc,vcJkd  1 GPUs in 1 tasks completed 0-36848 on n3:1",
				"15 uVMrF,vchbv  4 GPUs in 1 tasks failed 26-275 on n3:4",
				"16 uzqls,vcpDC  16 GPUs in 2 tasks timeout 27-2060 on n4:8 n[1-2]:8"}},
		{name: "too small a cluster", source: "helios", texts: []string{"helios.csv", "node,gpus\na,4\n"}, want: []string{
			"14 uXBbc,vcJkd  1 GPUs in 1 tasks completed 0-36848 on a:1",
			"15 uVMrF,vchbv  4 GPUs in 1 tasks failed 26-275 on a:4", "a gpu=4"},
			report: "left out 1: had more GPUs than the nodes that are given have together"},
		{name: "swf", source: "swf", texts: []string{"small.swf"}, want: []string{
			"1 group-1,user-3 program-7 4 GPUs in 4 tasks completed 10-110 on swf-0:4",
			"3 group-1,user-4 program-8 16 GPUs in 16 tasks failed 200-250 on swf-0:4 swf-1:4 swf-2:4 swf-3:4",
			"5 group-2,user-4  2 GPUs in 2 tasks completed 311-331 on swf-0:2",
			"swf-0 gpu=4", "swf-1 gpu=4", "swf-2 gpu=4", "swf-3 gpu=4"},
			report: "left out 1: parts of jobs that were stopped and went on"},
		{name: "swf with 8 processors a GPU", source: "swf", texts: []string{"small.swf"},
			cfg: history.ReadConfig{ProcessorsPerGPU: 8}, want: []string{
				"1 group-1,user-3 program-7 1 GPUs in 1 tasks completed 10-110 on swf:1",
				"3 group-1,user-4 program-8 2 GPUs in 2 tasks failed 200-250 on swf:2",
				"5 group-2,user-4  1 GPUs in 1 tasks completed 311-331 on swf:1", "swf gpu=2"}},
		{name: "pai", source: "pai", texts: []string{"pai_task_table.csv", "pai_job_table.csv", "pai_instance_table.csv",
			"pai_machine_spec.csv"}, want: []string{
			"j1 ann  2 GPUs in 2 tasks completed 20-110 on m1:1 m2:1",
			"j2 ben  2 GPUs in 2 tasks failed 30-60 on m3:2",
			"j3   2 GPUs in 2 tasks running 40--90 on m4:2",
			"m1 V100=2", "m2 V100=2", "m3 T4=2", "m4 MISC=2"},
			report: "instances with a part of a GPU: the parts of a job add up, and the sum is rounded up to GPUs"},
		{name: "a table of nodes", source: "history", texts: []string{"node,type,gpus\nn1,V100,4\nn2,V100,4\nn3,T4,2\n",
			"id,submit,start,end,gpus,type\na,0,0,90,2,V100\nb,10,90,120,6,V100\nc,10,10,70,1,T4\nd,20,,,1,T4\n"},
			want: []string{
				"a   2 GPUs in 2 tasks completed 0-90 on n1:2", "c   1 GPUs in 1 tasks completed 10-70 on n3:1",
				"b   6 GPUs in 6 tasks completed 90-120 on n1:2 n2:4", "n1 V100=4", "n2 V100=4", "n3 T4=2"}},
		{name: "pools", source: "history", texts: []string{"id,submit,start,end,gpus,type\na,0,0,90,2,V100\nc,10,10," +
			"70,1,T4\n"},
			want: []string{"a   2 GPUs in 2 tasks completed 0-90 on pool-v100:2",
				"c   1 GPUs in 1 tasks completed 10-70 on pool-t4:1", "pool-v100 V100=2", "pool-t4 T4=1"},
			report: "the table has no column nodes"},
		{name: "semicolons of a spreadsheet", source: "history", texts: []string{"\ufeffid;user;name;submit;start;end;" +
			"gpus;nodes;type\r\na;ann;\"x; y\";16.11.2026 08:00;16.11.2026 08:00;2026-11-16 08:01:30,0;2,0;n1;V100\r\n" +
			";;;;;;;;\r\nb;ben;;16.11.2026 08:00;16.11.2026 08:01:30;16.11.2026 08:02;2;n1/0,n1/1;V100\r\n" +
			"c;ben;;16.11.2026 08:00;16.11.2026 08:01:30;16.11.2026 08:02;0,5;n1;V100\r\nSumme;;;;;;4;;\r\n"},
			want: []string{"a ann x; y 2 GPUs in 1 tasks completed 0-90 on n1:2",
				"b ben  2 GPUs in 1 tasks completed 90-120 on n1:2", "n1 V100=2"},
			report: "gpus: a table does not tell who shares a GPU: the job is left out (first: 0:5: \"0,5\")"},
		{name: "tabs", source: "history", texts: []string{"id\tsubmit\tstart\tend\tgpus\tnodes\na\t0\t0\t90\t2\tn1,n2\n"},
			want: []string{"a   2 GPUs in 2 tasks completed 0-90 on n1:1 n2:1", "n1 gpu=1", "n2 gpu=1"}},
		{name: "pai with a number of instances that cannot be read", source: "pai", texts: []string{"job_name,task_name," +
			"inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n" +
			"j,w,x,Failed,1.0,3.0,600.0,1.0,800.0,V100\n"},
			want: []string{"j   8 GPUs in 8 tasks failed 0-2 on pool-v100:8", "pool-v100 V100=8"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			log, err := history.Read(c.source, tableSources(t, c.texts...), c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			built, err := log.Build(history.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if rep := verify.Check(built.Instance, built.Happened); rep.OK != (len(built.Report.Doubtful) == 0) {
				t.Errorf("%s\n%s", rep, built.Report)
			}
			got := describe(log, built)
			if c.name == "helios" {
				got = got[:3]
			}
			if !slices.Equal(got, c.want) || !strings.Contains(built.Report.String(), c.report) {
				t.Errorf("got\n%s\nwant\n%s\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"), built.Report)
			}
		})
	}
	if _, err := history.Read("history", tableSources(t, "nodes.csv"), history.ReadConfig{
		GPUs: []hare.TypeCount{{Type: "T4", Count: 1}}}); err == nil || !strings.Contains(err.Error(), "--gpus") {
		t.Errorf("nodes twice: %v", err)
	}
}

// TestTablesOfOthers reads tables of jobs as other programs write them: the refusal, or the report, says in one short
// line which form or column is needed, with its place.
func TestTablesOfOthers(t *testing.T) {
	const at, mark = "2026-11-16T08:00:00", "\ufeff"
	for _, c := range []struct{ name, source, text, want string }{
		{"dates of a spreadsheet", "history", mark + "id,submit,start,end,gpus\na,11/16/2026 8:00 AM,11/16/2026 8:00 AM," +
			"11/16/2026 9:00 AM,2\n", "submit: the job has no time and is left out: write times as 2026-11-22T22:53:01 or " +
			"seconds since 1970 (f:2: \"11/16/2026 8:00 AM\")"},
		{"a duration", "history", "id,submit,gpus,duration\na," + at + ",2,3600\n",
			"add the columns start and end, which no duration tells: no job had GPUs; most often (1): had not started, as " +
				"the table has no column start (f:2)"},
		{"a duration and a state", "history", "id,submit,gpus,duration,state\na," + at + ",2,3600,completed\n",
			"add the columns start and end"},
		{"a start and a duration", "history", "id,submit,start,gpus,duration\na,7,8,2,3600\n",
			"assumed 1: still ran when the log ended, as the table has no column end: counts as if it had ended then (first: " +
				"f:2)"},
		{"other names", "history", "job_id,submit_time,num_gpus,gpu_type\n", "f:1: there is no column id: a table of jobs " +
			"needs id, submit, gpus (rename job_id, submit_time, num_gpus, gpu_type to id, submit, gpus, type)"},
		{"another name", "history", mark + "\"id\",submit,start,end,gpus,gpu_type\na,7,8,9,2,V100\n",
			"warning: f:1: columns of other names are not read: rename gpu_type to type"},
		{"UTF-16", "history", "\xff\xfei\x00d\x00,\x00", "f:1: the text is in UTF-16: save it as UTF-8"},
		{"an end before the start", "history", "id,submit,start,end,gpus,state\na,7,8,9,2,completed\nb,7,8,6,2,failed\n",
			"doubtful 1: has ended, and nothing says when: left out (first: f:3)"},
		{"more GPUs than there are", "swf", "; MaxProcs: 8\n" + strings.ReplaceAll("1 0 1 9 16 X X 16 9 X 1 1 1 X 1 X X X\n"+
			"2 0 1 9 8 X X 8 9 X 1 1 1 X 1 X X X\n", "X", "-1"),
			"\n  left out 1: had more GPUs than the nodes that are given have together (first: f:2)\n"},
		{"a byte order mark", "history", mark + "id,submit,start,end,gpus\na,7,8,9,2\n", "columns used: id, submit"},
		{"a byte order mark of PAI", "pai", mark + "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu," +
			"plan_mem,plan_gpu,gpu_type\nj,w,1,Failed,1.0,3.0,600.0,1.0,800.0,V100\n", "pai: 1 job"},
		{"a byte order mark of JSON", "slurm", mark + "{\"jobs\":[\n{\"job_id\":1},\n7,", "breaks off here: EOF (line 3)"},
		{"a table for Slurm", "slurm", "id,submit,gpus\na,7,2\n",
			"f:1: \"id,submit,gpus\" begins none of the texts of Slurm: hare import history reads it"},
		{"a table of other names for Slurm", "slurm", mark + "job_id;submit_time;num_gpus\n",
			"hare import history reads it"},
		{"a public table for Slurm", "slurm", "job_id,gpu_num,submit_time,start_time,end_time,vc\n",
			"hare import helios reads it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			log, err := history.Read(c.source, []trace.Source{{Name: "f", R: strings.NewReader(c.text)}}, history.ReadConfig{})
			var built *history.Built
			if err == nil {
				built, err = log.Build(history.Config{})
			}
			if err != nil {
				if got := err.Error(); !strings.Contains(got, c.want) || len(got) > 194 || strings.Contains(got, mark) {
					t.Errorf("%d bytes: %s", len(got), got)
				}
				return
			}
			if got := built.Report.String(); !strings.Contains(got, c.want) || strings.Contains(got, mark) {
				t.Error(got)
			}
		})
	}
	if forms, lacking := history.Near([]string{"job_id", "Submit_Time", "num_gpus", "gpu_type"}); lacking != 0 ||
		!slices.Equal(forms, []string{"history (rename job_id, submit_time, num_gpus to id, submit, gpus)"}) {
		t.Errorf("nearest are %q, which lack %d columns", forms, lacking)
	}
}

// TestOneUnreadableValueOfATable puts a value that cannot be read at a random place of a table: all other jobs
// come out as they were, and the report has one line more.
func TestOneUnreadableValueOfATable(t *testing.T) {
	var history1 strings.Builder
	history1.WriteString("id,user,name,submit,start,end,gpus,nodes,type,limit,state,gpus_per_task\n")
	for i := range 8 {
		fmt.Fprintf(&history1, "j%d,u%d,m,%d,%d,%d,2,n%d,V100,1-00:00:00,completed,1\n", i, i%3, 100+i, 110+20*i,
			120+20*i, i)
	}
	for _, c := range []struct {
		source, text string
		skip         int    // rows before the first job
		columns      []int  // whose values can be unreadable; the first is the name of the job
		sep          string // of fields
	}{
		{"history", history1.String(), 1, []int{0, 3, 4, 5, 6, 9, 10, 11}, ","},
		{"history", history1.String(), 1, []int{0, 7}, ","},
		{"acme", "acme.csv", 1, []int{0, 2, 3, 4, 6, 7, 8, 9}, ","},
		{"helios", "helios.csv", 1, []int{0, 3, 4, 5, 6, 7, 8, 9}, ","},
		{"swf", "small.swf", 6, []int{0, 1, 2, 3, 4, 7, 8, 10}, " "},
		{"pai", "pai_task_table.csv", 1, []int{0, 2, 4, 5, 8}, ","},
	} {
		source := tableSources(t, c.text)[0]
		var text bytes.Buffer
		if _, err := text.ReadFrom(source.R); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
		jobs := func(lines []string) (map[string]string, int) {
			log, err := history.Read(c.source, []trace.Source{{Name: "f", R: strings.NewReader(strings.Join(lines, "\n"))}},
				history.ReadConfig{})
			if err != nil {
				t.Fatalf("%s: %v\n%s", c.source, err, strings.Join(lines, "\n"))
			}
			out := map[string]string{}
			for _, j := range log.Jobs {
				for i := range j.On {
					if strings.HasPrefix(j.On[i].Node, "swf-") {
						j.On = nil // another job may have had these
						break
					}
				}
				out[j.ID] = fmt.Sprintf("%+v", j)
			}
			return out, len(log.Report.SetAside)
		}
		want, _ := jobs(lines)
		rng := rand.New(rand.NewPCG(1, 2))
		for range 60 {
			row := c.skip + rng.IntN(len(lines)-c.skip)
			column := c.columns[rng.IntN(len(c.columns))]
			fields := strings.Split(lines[row], c.sep)
			name := fields[0]
			bad := []string{"?!x", "12x", "[1-", `"a`, "-9e99999", "9999999999999999999999"}[rng.IntN(6)]
			if len(c.columns) == 2 { // a name of a node may be anything
				bad = []string{"n[1-", `"a`, "n/x", "a]"}[rng.IntN(4)]
			}
			if column == 0 {
				bad = `"a`
				if c.source == "swf" {
					bad = "x"
				}
			}
			fields[column] = bad
			changed := slices.Clone(lines)
			changed[row] = strings.Join(fields, c.sep)
			got, aside := jobs(changed)
			for id, job := range want {
				if id != name && got[id] != job {
					t.Errorf("%s: %q in column %d of %s changes %s:\n%s\nwas\n%s", c.source, bad, column, name, id, got[id], job)
				}
			}
			if aside != 1 && (c.source != "pai" || aside > 1) {
				t.Errorf("%s: %q in column %d of row %q: %d lines of values set aside", c.source, bad, column, lines[row], aside)
			}
		}
	}
}

// FuzzTables checks that no table makes a reader panic.
func FuzzTables(f *testing.F) {
	sources := []string{"history", "acme", "helios", "swf", "pai"}
	for _, name := range []string{"acme.csv", "helios.csv", "small.swf", "pai_task_table.csv", "pai_job_table.csv",
		"pai_instance_table.csv", "pai_machine_spec.csv"} {
		text, err := os.ReadFile(filepath.Join("testdata", "tables", name))
		if err != nil {
			f.Fatal(err)
		}
		for i, source := range sources {
			if strings.HasPrefix(name, source) || i == 3 && strings.HasSuffix(name, ".swf") {
				f.Add(uint8(i), text)
			}
		}
	}
	f.Add(uint8(0), []byte("id,submit,start,end,gpus\na,1,2,3,\"2\nb,1,2,3,1\n"))
	f.Add(uint8(3), []byte("; MaxProcs: 99999999999\n1 2 3 4 5 6 7 8 9 10 1 1 1 1 1 1 1 1\n"))
	f.Fuzz(func(_ *testing.T, source uint8, text []byte) {
		log, err := history.Read(sources[int(source)%len(sources)], []trace.Source{{Name: "f", R: bytes.NewReader(text)}},
			history.ReadConfig{MaxJobs: 2000})
		if err != nil {
			return
		}
		for i := range log.Jobs {
			if log.Jobs[i].GPUs > 1<<14 {
				return // a large schedule says nothing new
			}
		}
		if built, err := log.Build(history.Config{}); err == nil {
			verify.Check(built.Instance, built.Happened)
		}
		_, _ = log.BuildNow(history.Config{})
	})
}
