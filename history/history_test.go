package history_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// read reads texts of testdata.
func read(t *testing.T, source string, names ...string) *history.Log {
	t.Helper()
	var texts []trace.Source
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, trace.Source{Name: name, R: bytes.NewReader(text)})
	}
	log, err := history.Read(source, texts, history.ReadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// build makes the instance, with what the log itself shows of speeds, and checks what happened.
func build(t *testing.T, log *history.Log, cfg history.Config) *history.Built {
	t.Helper()
	cfg.Speeds = history.ShippedSpeeds()
	cfg.Speeds.Learned = log.Learn()
	built, err := log.Build(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if rep := verify.Check(built.Instance, built.Happened); !rep.OK {
		t.Errorf("what happened is refused: %s", rep)
	}
	return built
}

// TestSlurmTextAndJSONAgree reads what a real Slurm 22.05.8 wrote about 39 rows of jobs: arrays,
// heterogeneous jobs, a requeue, a failed node, a drained node, a name with the delimiter in it. Text
// and JSON give the same instance, the one in testdata, but for job 15: the JSON of this version does not
// have its command line, --gpus-per-task=1 -n2.
func TestSlurmTextAndJSONAgree(t *testing.T) {
	text := build(t, read(t, "slurm", "sacct.txt", "nodes.txt", "events.txt"), history.Config{})
	asJSON := build(t, read(t, "slurm", "events.txt", "sinfo.json", "sacct.json"), history.Config{})
	for i := range asJSON.Instance.Jobs {
		j := &asJSON.Instance.Jobs[i]
		if j.ID == "15" && j.Tasks == 1 && j.GPUsPerTask == 2 {
			j.Tasks, j.GPUsPerTask, j.CPUMilliPerTask, j.MemoryMiBPerTask = 2, 0, 1000, 64
		}
	}
	var want, got bytes.Buffer
	for _, one := range []struct {
		to    *bytes.Buffer
		built *history.Built
	}{{&want, text}, {&got, asJSON}} {
		if err := wire.EncodeInstance(one.to, one.built.Instance); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(want.Bytes(), got.Bytes()) {
		t.Errorf("text gives\n%s\nJSON gives\n%s", want.Bytes(), got.Bytes())
	}
	golden(t, "slurm.instance.json", want.String())
	golden(t, "slurm.report.txt", text.Report.String())
	golden(t, "slurm-json.report.txt", asJSON.Report.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s differs:\n%s", name, got)
	}
}

// TestTextsMayTellTheSameJobs reads sacct and squeue together: a job counts once, by its later state.
func TestTextsMayTellTheSameJobs(t *testing.T) {
	both := build(t, read(t, "slurm", "squeue.json", "sacct.txt", "nodes.txt", "events.txt"), history.Config{})
	if n := len(both.Instance.Jobs); n != 17 {
		t.Errorf("%d jobs, not the 17 of sacct", n)
	}
}

// TestWindow cuts a window out: jobs that run at its begin are running work.
func TestWindow(t *testing.T) {
	log := read(t, "slurm", "sacct.txt", "nodes.txt", "events.txt")
	whole := build(t, log, history.Config{})
	built := build(t, log, history.Config{FromUs: whole.OriginUs + 9e6})
	running := 0
	for i := range built.Instance.Jobs {
		if j := &built.Instance.Jobs[i]; j.Running() {
			running++
			if j.ReleaseUs != 0 || j.Progress.ElapsedUs <= 0 {
				t.Errorf("%+v", j)
			}
		}
	}
	if running == 0 || len(built.Instance.Jobs) >= len(whole.Instance.Jobs) || built.Happened.Constant == nil {
		t.Errorf("%d of %d jobs run at the begin of the window", running, len(built.Instance.Jobs))
	}
}

// TestBadTexts checks that each fault is named with its place.
func TestBadTexts(t *testing.T) {
	const header = "JobID|JobName|State|Submit|Start|End|AllocTRES|NodeList\n"
	const row = "7|a|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:01|2026-01-01T00:00:09|gres/gpu=1|n1\n"
	for _, c := range []struct{ name, source, text, want string }{
		{"empty", "slurm", "", "f:1: the text is empty"},
		{"other text", "slurm", "hello\nworld\n", "f:1: \"hello\" begins none of the texts that Hare reads"},
		{"no times", "slurm", "JobID|State\n1|COMPLETED\n", "f:1: there is no column submit: write the file by sacct -P"},
		{"no GPUs", "slurm", "JobID|State|Submit|Start|End\n", "f:1: there is no column AllocTRES"},
		{"twice", "slurm", "JobID|JobID|State\n", "f:1: column \"jobid\" is named twice"},
		{"fields of rows", "slurm", header + "1|2\n3|4\n", "f:2: no row has as many fields as the first row: 8"},
		{"long row", "slurm", header + strings.Repeat("|", 1<<21), "f:2: no row has as many fields"},
		{"cut JSON", "slurm", `{"jobs":[{"job_id":1,`, "f#/jobs/0: byte 9: the JSON ends or breaks off here"},
		{"many arrays", "slurm", header + strings.Repeat("7_[0-99]|a|PENDING|2026-01-01T00:00:00|||gres/gpu=1|\n", 11),
			"f:12: the texts have more than 1000 jobs"},
		{"nodes of jobs", "slurm", header + strings.Repeat(strings.ReplaceAll(row, "n1", "n[0-99]"), 41),
			"f:42: the jobs of the texts were on more than 4000 nodes together"},
		{"JSON without an ID", "slurm", `{"jobs":[{"name":"x"}]}`, "f#/jobs: no row can be read: f#/jobs/0: \"x\": job_id"},
		{"JSON number", "slurm", `{"jobs":[{"job_id":"seven"}]}`,
			"f#/jobs: no row can be read: f#/jobs/0/job_id: \"seven\""},
		{"no time at all", "slurm", header + strings.ReplaceAll(row, "2026", "soon"), "f:2: no row can be read: f:2: "},
		{"JSON of something else", "slurm", `{"a":1}`, "f#: has no list of jobs or nodes"},
		{"no header", "history", "", "f:1: the text is empty: the first row names the columns id,user,account"},
		{"no submit", "history", "id,gpus\n1,2\n", "f:1: there is no column submit: a table of jobs needs id, submit, gpus"},
		{"long row of a table", "history", strings.Repeat(",", 1<<21), "f:1: the line has more than 1048576 bytes"},
		{"fields", "history", "id,submit,gpus\n1,2\n", "f:1: no row can be read: a row with another number of fields"},
		{"quotes", "history", "id,submit,gpus\n\"1,2,3\n", "f:1: no row can be read: a row with another number of fields"},
		{"gpus", "history", "id,submit,gpus\n1,2,many\n",
			"f:1: no row can be read: gpus: how many GPUs the job had is not known: it is left out (f:2: \"many\")"},
		{"source", "lsf", "", "history: unknown source \"lsf\": it must be one of slurm"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := history.Read(c.source, []trace.Source{{Name: "f", R: strings.NewReader(c.text)}},
				history.ReadConfig{MaxJobs: 1000})
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %s…", err, c.want)
			}
		})
	}
}

// TestUnknownSplits reads a job with GPUs on two nodes, of which sacct does not tell how many on each, beside
// one that starts in the same second: the first gets what the second leaves.
func TestUnknownSplits(t *testing.T) {
	const jobs = "JobID|State|Submit|Start|End|AllocTRES|NodeList|SubmitLine\n" +
		"1|COMPLETED|2026-01-01T00:00:01|2026-01-01T00:00:01|2026-01-01T00:00:09|gres/gpu=3|n[1-2]|sbatch --gpus=3 a\n" +
		"2|COMPLETED|2026-01-01T00:00:01|2026-01-01T00:00:01|2026-01-01T00:00:09|gres/gpu=1|n1|sbatch --gpus=1 a\n"
	const nodes = "NodeName=n1 Gres=gpu:v100:2\nNodeName=n2 Gres=gpu:v100:2\n"
	log, err := history.Read("slurm", []trace.Source{{Name: "f", R: strings.NewReader(jobs)},
		{Name: "g", R: strings.NewReader(nodes)}}, history.ReadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if built := build(t, log, history.Config{}); len(built.Report.Doubtful) > 0 {
		t.Error(built.Report)
	}
}

// TestRequestedType reads tables with the type on which jobs ran and the type that they asked for.
func TestRequestedType(t *testing.T) {
	const with = "id,submit,start,end,gpus,nodes,type,requested_type\n" +
		"a,1,1,9,1,n/0,v100,v100\nb,1,1,9,1,m/0,t4,\nc,1,9,12,1,m/0,t4,t4\n"
	const without = "id,submit,start,end,gpus,nodes,type\na,1,1,9,1,n/0,v100\nb,1,1,9,1,m/0,t4\nc,1,9,12,1,m/0,t4\n"
	for _, c := range []struct {
		text string
		free int // the types on which job b may run
	}{{with, 2}, {without, 1}} {
		log, err := history.Read("history", []trace.Source{{Name: "f", R: strings.NewReader(c.text)}}, history.ReadConfig{})
		if err != nil {
			t.Fatal(err)
		}
		built := build(t, log, history.Config{})
		want := map[string]int{"a": 1, "b": c.free, "c": 1}
		for i := range built.Instance.Jobs {
			if j := &built.Instance.Jobs[i]; len(j.On) != want[j.ID] {
				t.Errorf("job %s may run on %+v", j.ID, j.On)
			}
		}
		if says := strings.Contains(built.Report.String(), "without a column requested_type"); says != (c.free == 1) {
			t.Error(built.Report)
		}
	}
}

// TestGPUsOfNamedNodes counts the GPUs of nodes that only jobs name: the most held at once, and at least as many
// as their numbers need.
func TestGPUsOfNamedNodes(t *testing.T) {
	for _, c := range []struct {
		name, rows string
		want       int
	}{
		{"at once", "a,1,1,9,1,n/0,v\nb,1,1,9,1,n/1,v\nc,9,9,12,1,n/1,v\n", 2},
		{"highest number", "a,1,1,9,1,n/3,v\nb,1,1,9,1,n/1,v\n", 4},
		{"without numbers", "a,1,1,9,2,n,v\nb,1,1,9,1,n,v\n", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "id,submit,start,end,gpus,nodes,type\n" + c.rows
			log, err := history.Read("history", []trace.Source{{Name: "f", R: strings.NewReader(text)}}, history.ReadConfig{})
			if err != nil {
				t.Fatal(err)
			}
			built := build(t, log, history.Config{})
			if nodes := built.Instance.Cluster.Nodes; len(nodes) != 1 || nodes[0].GPUs[0].Count != c.want {
				t.Errorf("nodes %+v, want %d GPUs", nodes, c.want)
			}
		})
	}
}

// TestDoubtfulLogs checks what becomes of logs that no cluster can have made: what happened is refused
// by the verifier, and the report says why.
func TestDoubtfulLogs(t *testing.T) {
	const head = "JobID|State|Submit|Start|End|AllocTRES|NodeList\n"
	row := func(id, submit, start, end, gpus int) string {
		at := func(s int) string { return fmt.Sprintf("2026-01-01T00:00:%02d", s) }
		return fmt.Sprintf("%d|COMPLETED|%s|%s|%s|gres/gpu=%d|n\n", id, at(submit), at(start), at(end), gpus)
	}
	const nodes = "NodeName=n Gres=gpu:v100:2\n"
	for _, c := range []struct{ name, source, text, nodes, note, fault string }{
		{"overlap", "slurm", head + row(1, 1, 1, 10, 2) + row(2, 2, 5, 12, 1), nodes, "a GPU that another job still held",
			"overlap"},
		{"too many GPUs", "slurm", head + row(1, 1, 1, 10, 3), nodes, "a GPU that the node does not have", ""},
		{"clock", "slurm", head + row(1, 5, 4, 10, 1), nodes, "started before it was submitted", ""},
		{"no nodes", "slurm", head + row(1, 1, 1, 10, 2), "", "a node that the lists of nodes do not have", ""},
		{"a GPU twice", "history", "id,submit,start,end,gpus,nodes,type\na,1,1,10,1,n/0,v100\nb,2,5,12,1,n/0,v100\n", "",
			"another number than the log says", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			texts := []trace.Source{{Name: "f", R: strings.NewReader(c.text)}}
			if c.nodes != "" {
				texts = append(texts, trace.Source{Name: "g", R: strings.NewReader(c.nodes)})
			}
			log, err := history.Read(c.source, texts, history.ReadConfig{})
			if err != nil {
				t.Fatal(err)
			}
			built, err := log.Build(history.Config{})
			if err != nil {
				t.Fatal(err)
			}
			rep := verify.Check(built.Instance, built.Happened)
			if (c.fault == "") != rep.OK || !strings.Contains(fmt.Sprint(rep), c.fault) {
				t.Errorf("verify says %s", rep)
			}
			if !strings.Contains(built.Report.String(), c.note) {
				t.Errorf("the report does not say %q:\n%s", c.note, built.Report)
			}
		})
	}
}

// TestRandomTables draws what a cluster could have done, writes it down as a table and reads it back:
// the verifier accepts it, and each job has its GPUs, its times and its length.
func TestRandomTables(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var rows strings.Builder
		rows.WriteString("id,user,submit,start,end,gpus,nodes,type\n")
		free := map[string][]int64{} // by node, when each GPU is free
		kinds := []string{"v100", "t4"}
		for n := range 2 + rng.IntN(3) {
			free[fmt.Sprint("n", n)] = make([]int64, 1+rng.IntN(4))
		}
		jobs := 1 + rng.IntN(20)
		var total int64
		for i := range jobs {
			n := rng.IntN(len(free))
			name := fmt.Sprint("n", n)
			gpus := free[name]
			want := 1 + rng.IntN(len(gpus))
			submit := 1000 + rng.Int64N(50)
			start := submit
			for _, at := range gpus {
				start = max(start, at)
			}
			end := start + 1 + rng.Int64N(30)
			for g := range want {
				gpus[g] = end
			}
			total += end - submit
			fmt.Fprintf(&rows, "%d,u%d,%d,%d,%d,%d,%s,%s\n", i, rng.IntN(3), submit, start, end, want, name, kinds[n%2])
		}
		log, err := history.Read("history", []trace.Source{{Name: "f", R: strings.NewReader(rows.String())}},
			history.ReadConfig{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		built, err := log.Build(history.Config{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if rep := verify.Check(built.Instance, built.Happened); !rep.OK {
			t.Fatalf("seed %d: %s\n%s", seed, rep, rows.String())
		}
		if got := built.Happened.Value.String(); got != fmt.Sprint(total) || len(built.Instance.Jobs) != jobs {
			t.Errorf("seed %d: %d jobs wait and run for %s s, not %d for %d s", seed, len(built.Instance.Jobs), got, jobs,
				total)
		}
	}
}

// FuzzRead checks that no text makes the readers panic, and that an instance that they make is valid.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"sacct.txt", "nodes.txt", "events.txt", "sacct.json", "sinfo.json", "squeue-now.json",
		"sacct-v0.0.43.json", "nodes-v0.0.43.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(true, text[:min(len(text), 8000)])
	}
	f.Add(true, []byte("ReservationName=r StartTime=2026-01-01T00:00:00 EndTime=2026-01-02T00:00:00 "+
		"Nodes=n[1-2] Users=u\n"))
	f.Add(true, []byte("JobID|JobName|State|Submit|Start|End|AllocTRES|NodeList|SubmitLine\n7_3|a|COMPLETED|"+
		"2026-01-01T00:00:00|2026-01-01T00:00:01|2026-01-01T00:00:09|gres/gpu=2|n[1-2]|"+
		"sbatch -x n3 -w n[1-2] --gpus-per-task=1 a"))
	f.Add(false, []byte("id,submit,start,end,gpus,nodes,type,limit\na,1,2,3,2,n[1-2],v100,1-00:00:00\nb,1,,,1,,,\n"))
	f.Fuzz(func(_ *testing.T, slurm bool, text []byte) {
		source := "history"
		if slurm {
			source = "slurm"
		}
		readAnything(source, text)
	})
}

// readAnything reads a text that a fuzzer made, and checks nothing but that it ends.
func readAnything(source string, text []byte) {
	log, err := history.Read(source, []trace.Source{{Name: "f", R: bytes.NewReader(text)}}, history.ReadConfig{})
	if err != nil {
		return
	}
	if built, err := log.Build(history.Config{}); err == nil {
		verify.Check(built.Instance, built.Happened)
	}
	_, _ = log.BuildNow(history.Config{})
}
