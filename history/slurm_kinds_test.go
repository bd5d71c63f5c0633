package history_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/verify"
)

// readTexts reads texts of Slurm, which are named a, b and so on.
func readTexts(t *testing.T, zone string, texts ...string) *history.Log {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	var sources []trace.Source
	for i, text := range texts {
		sources = append(sources, trace.Source{Name: string(rune('a' + i)), R: strings.NewReader(text)})
	}
	log, err := history.Read("slurm", sources, history.ReadConfig{Zone: loc})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

const twoNodes = "NodeName=g1 CPUTot=32 RealMemory=256000 Gres=gpu:a100:4 Partitions=gpu State=IDLE\n" +
	"NodeName=g2 CPUTot=32 RealMemory=256000 Gres=gpu:v100:4 Partitions=gpu State=IDLE\n"

// TestTimesOfTexts reads times with zones, times that stand twice or never, and what suspended jobs held.
func TestTimesOfTexts(t *testing.T) {
	const head = "JobID|State|Submit|Start|End|ElapsedRaw|Suspended|ReqTRES|AllocTRES|NodeList\n"
	for _, c := range []struct {
		name, zone, start, end, elapsed, suspended string
		want                                       string // seconds from start to end, and the start in UTC
		says                                       string
	}{
		{"plain", "UTC", "2026-11-16T08:00:00", "2026-11-16T09:00:00", "3600", "", "3600 from 08:00", ""},
		{"zones", "Europe/Berlin", "2026-11-16T08:00:00+0100", "2026-11-16 08:00:00Z", "", "", "3600 from 07:00", ""},
		{"colon", "Asia/Tokyo", "2026-11-16T08:00:00+01:00", "2026-11-16T09:00:00 +0100", "", "", "3600 from 07:00", ""},
		{"short zone", "UTC", "2026-11-16T08:00:00+01", "2026-11-16 08:00:00 UTC", "", "", "3600 from 07:00", ""},
		{"half an hour", "Asia/Kolkata", "2026-11-16T08:00:00", "2026-11-16T09:00:00", "3600", "", "3600 from 02:30", ""},
		{"twice", "America/New_York", "2026-11-01T01:30:00", "2026-11-01T01:10:00", "2400", "", "2400 from 05:30", ""},
		{"twice and the later", "America/New_York", "2026-11-01T01:30:00", "2026-11-01T02:30:00", "3600", "",
			"3600 from 06:30", ""},
		{"twice and the earlier", "America/New_York", "2026-11-01T01:30:00", "2026-11-01T02:30:00", "7200", "",
			"7200 from 05:30", ""},
		{"twice and not told", "America/New_York", "2026-11-01T01:30:00", "2026-11-01T02:30:00", "", "", "7200 from 05:30",
			"doubtful 1: a local time stands twice"},
		{"never", "Europe/Berlin", "2026-03-29T02:30:00", "2026-03-29T04:30:00", "", "", "3600 from 01:30",
			"doubtful 1: a local time that the time zone leaves out"},
		{"no zone in autumn", "UTC", "2026-10-25T02:50:00", "2026-10-25T02:10:00", "1200", "", "1200 from 02:50",
			"a change of summer time"},
		{"no zone in spring", "UTC", "2026-03-29T01:30:00", "2026-03-29T03:30:00", "3600", "", "3600 from 01:30",
			"a change of summer time"},
		{"suspended", "UTC", "2026-11-16T08:00:00", "2026-11-16T09:00:00", "3000", "00:10:00", "3600 from 08:00",
			"assumed 1: was suspended for some of its time, in which it kept its GPUs"},
		{"suspended in autumn", "Europe/Berlin", "2026-10-25T02:50:00", "2026-10-25T02:10:00", "600", "00:10:00",
			"1200 from 00:50", ""},
		{"no start", "UTC", "soon", "2026-11-16T09:00:00", "3600", "", "3600 from 08:00", `a:2: "soon"`},
		{"no end", "UTC", "2026-11-16T08:00:00", "later", "3600", "", "3600 from 08:00", `a:2: "later"`},
		{"unlike", "UTC", "2026-11-16T08:00:00", "2026-11-16T09:00:00", "1000", "", "3600 from 08:00",
			"differ from the elapsed seconds"},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := readTexts(t, c.zone, head+"1|COMPLETED|"+strings.Join([]string{c.start, c.start, c.end, c.elapsed,
				c.suspended},
				"|")+"|gres/gpu=1|gres/gpu=1|g1\n", twoNodes)
			if len(log.Jobs) != 1 {
				t.Fatal(log.Report)
			}
			j := log.Jobs[0]
			got := fmt.Sprintf("%d from %s", (j.EndUs-j.StartUs)/1e6, time.UnixMicro(j.StartUs).UTC().Format("15:04"))
			if got != c.want || !strings.Contains(log.Report.String(), c.says) ||
				c.says == "" && strings.Contains(log.Report.String(), "doubtful") {
				t.Errorf("%s, not %s\n%s", got, c.want, log.Report)
			}
		})
	}
}

// TestRunaways leaves out jobs that have ended although accounting believes that they run.
func TestRunaways(t *testing.T) {
	const head = "JobID|State|Submit|Start|End|TimelimitRaw|ReqTRES|AllocTRES|NodeList\n"
	row := func(id, state, start, end, limit string, gpus int) string {
		return fmt.Sprintf("%s|%s|%s|%s|%s|%s|gres/gpu=%d|gres/gpu=%d|g1\n", id, state, start, start, end, limit, gpus, gpus)
	}
	text := head + row("1", "RUNNING", "2026-01-01T08:00:00", "Unknown", "60", 1) + // past its limit
		row("2", "RUNNING", "2026-11-01T08:00:00", "Unknown", "", 2) + // others have had its GPUs
		row("3", "SUSPENDED", "2026-11-10T08:00:00", "Unknown", "60", 1) + // whose limit stands still
		row("4", "COMPLETED", "2026-11-16T08:00:00", "2026-11-16T09:00:00", "60", 3) +
		row("5", "RUNNING", "2026-11-16T09:30:00", "Unknown", "60", 1)
	log := readTexts(t, "UTC", text, twoNodes)
	built, err := log.Build(history.Config{})
	if err != nil {
		t.Fatal(err)
	}
	now, err := log.BuildNow(history.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []*history.Built{built, now} {
		var ids []string
		for i := range b.Instance.Jobs {
			ids = append(ids, b.Instance.Jobs[i].ID)
		}
		want := map[bool]string{true: "3 4 5", false: "3 5"}[b == built]
		if got := strings.Join(ids, " "); got != want || !strings.Contains(b.Report.String(),
			"doubtful 2: accounting believes") {
			t.Errorf("jobs %s, not %s\n%s", got, want, b.Report)
		}
	}
}

// TestPartsOfGPUs adds up shards and MPS: jobs whose parts fit on one GPU hold one GPU together.
func TestPartsOfGPUs(t *testing.T) {
	const nodes = "NodeName=g1 Gres=gpu:a100:2(S:0-1),shard:a100:8(S:0-1) State=MIXED\nNodeName=g2 " +
		"Gres=gpu:t4:1,mps:t4:100 State=IDLE\n"
	const head = "JobID|State|Submit|Start|End|ReqTRES|AllocTRES|NodeList\n"
	row := func(id int, what, node string) string {
		return fmt.Sprintf("%d|COMPLETED|2026-11-16T08:00:00|2026-11-16T08:00:00|2026-11-16T09:00:00|%s|%s|%s\n", id, what,
			what, node)
	}
	text := head
	for id := 1; id <= 4; id++ {
		text += row(id, "gres/shard=1", "g1")
	}
	text += row(5, "gres/gpu=1", "g1") + row(6, "gres/mps=50", "g2") + row(7, "gres/mps:t4=50,gres/mps=50", "g2")
	built, err := readTexts(t, "UTC", text, nodes).Build(history.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if rep := verify.Check(built.Instance, built.Happened); !rep.OK {
		t.Errorf("what happened is refused: %s", rep)
	}
	if got := holds(built.Instance); strings.Count(got, "3600") < 3 || len(built.Instance.Jobs) != 3 ||
		!strings.Contains(built.Report.String(), "assumed 4: held a part of a GPU whose other parts others held") {
		t.Errorf("%s\n%s", got, built.Report)
	}
	whole, err := readTexts(t, "UTC", head+row(1, "gres/shard=6", "g1"), nodes).Build(history.Config{})
	if err != nil || whole.Instance.Jobs[0].Tasks*whole.Instance.Jobs[0].TaskGPUs() != 2 {
		t.Errorf("six of four shards a GPU: %v, %v", whole, err)
	}
}

// TestLogWithoutRequests keeps jobs of a log without ReqTRES to the types on which they ran, and says so; without
// limits it says that the simulated Slurm is at a loss. Fields that Hare asks for are all used, and the reasons why
// jobs are left out are the same in all forms.
func TestLogWithoutRequests(t *testing.T) {
	fields := strings.Split(history.SacctFields, ",")
	values := map[string]string{"User": "ann", "Partition": "gpu", "Submit": "2026-11-16T08:00:00",
		"Eligible": "2026-11-16T08:00:00",
		"NNodes":   "1", "ReqTRES": "cpu=1,gres/gpu=1,node=1", "TimelimitRaw": "90", "Cluster": "lab",
		"Suspended": "00:00:00"}
	jobs := []map[string]string{
		{"JobID": "1", "State": "COMPLETED", "Start": "2026-11-16T08:00:00", "End": "2026-11-16T09:00:00", "NodeList": "g1",
			"AllocTRES": "cpu=1,gres/gpu=1,node=1", "ElapsedRaw": "3600"},
		{"JobID": "2", "State": "CANCELLED by 7", "Start": "2026-11-16T08:30:00", "End": "2026-11-16T08:30:00",
			"NodeList": "None assigned", "ElapsedRaw": "0"},
		{"JobID": "3", "State": "CANCELLED by 7", "Start": "None", "End": "2026-11-16T08:30:00",
			"NodeList": "None assigned"},
		{"JobID": "4", "State": "PENDING", "Start": "Unknown", "End": "Unknown", "NodeList": "None assigned"},
	}
	write := func(fields []string) string {
		text := strings.Join(fields, "|") + "\n"
		for _, j := range jobs {
			var row []string
			for _, f := range fields {
				v, ok := j[f]
				if !ok {
					v = values[f]
				}
				row = append(row, v)
			}
			text += strings.Join(row, "|") + "\n"
		}
		return text
	}
	build := func(fields []string) *history.Built {
		built, err := readTexts(t, "UTC", write(fields), twoNodes).Build(history.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return built
	}
	whole := build(fields)
	short := build(strings.Split("JobID|User|State|Submit|Start|End|AllocTRES|NodeList", "|"))
	if got := typesByJob(whole.Instance)["1"]; got != "a100 v100" {
		t.Errorf("a job that names no type may use %s", got)
	}
	if got := typesByJob(short.Instance)["1"]; got != "a100" || !strings.Contains(short.Report.String(), "no ReqTRES") ||
		!strings.Contains(strings.Join(short.Report.Warnings, "\n"), "no job has a time limit") {
		t.Errorf("without requests the job may use %s\n%s", got, short.Report)
	}
	if text := whole.Report.String(); strings.Contains(text, "ignored") || strings.Contains(text,
		"no job has a time limit") {
		t.Error(text)
	}
	for _, b := range []*history.Built{whole, short} {
		text := b.Report.String()
		for _, want := range []string{"left out 2: never started (cancelled)",
			"left out 1: had not started when the log ended"} {
			if !strings.Contains(text, want) || strings.Count(text, "left out") != 2 {
				t.Errorf("the report does not say %q:\n%s", want, text)
			}
		}
	}
}

// TestNothingFound says in a line what to do where a log gives no instance.
func TestNothingFound(t *testing.T) {
	const head = "JobID|State|Submit|Start|End|ReqTRES|AllocTRES|NodeList\n"
	const row = "7|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:01|2026-01-01T00:00:09|gres/gpu=1|gres/gpu=1|n1\n"
	for _, c := range []struct {
		text, want string
		cfg        history.Config
	}{
		{head, "give a text with jobs that ran: no job had GPUs", history.Config{}},
		{head + row, "set --since earlier: no job had GPUs; most often (1): ended before the window (a:2)",
			history.Config{FromUs: 1_800_000_000e6}},
		{head + strings.Repeat(strings.ReplaceAll(row, "gres/gpu=1", "cpu=1"), 3),
			"set AccountingStorageTRES=gres/gpu in slurm.conf: ",
			history.Config{}},
		{head + strings.ReplaceAll(row, "n1\n", "None assigned\n"),
			"give a text with jobs that ran: no job had GPUs; most often (1): " +
				"never started", history.Config{}},
	} {
		_, err := readTexts(t, "UTC", c.text).Build(c.cfg)
		var nothing *history.NothingError
		if !errors.As(err, &nothing) || !strings.HasPrefix(err.Error(), c.want) || len(err.Error()) > 200 {
			t.Errorf("got %q, want %q…", err, c.want)
		}
	}
}

// TestTextsAroundTexts reads tables with what shells and commands write before them, and tools that have nothing to
// tell.
func TestTextsAroundTexts(t *testing.T) {
	const jobs = "JobID|State|Submit|Start|End|ReqTRES|AllocTRES|NodeList\n" +
		"7|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:01|2026-01-01T00:00:09|gres/gpu=1|gres/gpu=1|n1\n"
	log := readTexts(t, "UTC", "Welcome to the cluster\nsacct: warning: be patient\n"+jobs, "",
		"No reservations in the system\n",
		`{"jobs": null, "meta": {}}`, `{"jobs": [], "nodes": [], "errors": [], "warnings": []}`, jobs+strings.Repeat("x",
			2<<20)+"\n")
	if len(log.Jobs) != 1 || log.Jobs[0].Place.Line != 4 || log.Report.Unread() != 2 ||
		!strings.Contains(log.Report.String(), "left out 1: the row has another number of fields") {
		t.Errorf("%+v\n%s", log.Jobs, log.Report)
	}
}

// TestLaterRecords merges what several texts tell of an attempt, in any order: GPUs by number of squeue, the end of
// sacct.
func TestLaterRecords(t *testing.T) {
	const queue = `{"jobs":[{"job_id":7,"user_name":"ann","job_state":["RUNNING"],"submit_time":1794816000,
		"start_time":1794816010,"node_count":1,"nodes":"g1",
		"tres_per_node":"gres/gpu:a100:2","gres_detail":["gpu:a100:2(IDX:2-3)"],"features":"big",
		"time_limit":60}],"last_update":1794816100}`
	const jobs = "JobID|State|Submit|Start|End|ReqTRES|AllocTRES|NodeList\n" +
		"7|COMPLETED|1794816000|1794816010|1794818010|cpu=1,node=1|%s|g1\n"
	for _, alloc := range []string{"cpu=1,node=1", "cpu=1,gres/gpu=2,node=1"} {
		for _, texts := range [][]string{{queue, fmt.Sprintf(jobs, alloc), twoNodes}, {fmt.Sprintf(jobs, alloc), queue,
			twoNodes}} {
			log := readTexts(t, "UTC", texts...)
			j := log.Jobs[0]
			got := strings.TrimSpace(fmt.Sprintln(j.State, j.GPUs, j.Type, j.On, j.Features, j.LimitUs/60e6,
				(j.EndUs-j.StartUs)/1e6))
			if want := "completed 2 a100 [{g1 a100 2 false [2 3]}] big 60 2000"; len(log.Jobs) != 1 || got != want {
				t.Errorf("%s: %s, not %s", alloc, got, want)
			}
		}
	}
}

// TestWordsOfCards tells cards by whole names.
func TestWordsOfCards(t *testing.T) {
	for name, want := range map[string]string{
		"a100": "a100", "NVIDIA-A100-SXM4-80GB": "a100", "a100x": "a100", "Tesla-V100-SXM2-16GB": "v100", "v100s": "v100",
		"tesla_t4": "t4", "l40s": "l40s", "nvidia_l40s": "l40s", "h100_nvl": "h100", "rtx6000": "rtx6000", "a10": "a10",
		"rtx_a1000": "", "quadro_p1000": "", "a1000": "", "p4000": "", "t400": "", "t1000": "", "a800": "", "l400": "",
		"a5500":       "",
		"a100_1g.5gb": "", "1g.5gb": "", "mig-3g.40gb": "", "nvidia_h100_80gb_hbm3_1g.10gb": "",
		"NVIDIA-H100-80GB-HBM3-MIG-1g.10gb": "",
		"a100-sxm4-40gb-mig-1c.3g.20gb":     "", "Tesla-T4-SHARED": "", "NVIDIA-A100-SXM4-40GB-MIG-2g.10gb-SHARED": "",
		"GRID-V100-8Q": "", "A100-4C": "", "rtx6000ada": "", "rtx_6000_ada": "", "gpu": "",
	} {
		if got := history.TypeWord(name); got != want {
			t.Errorf("%s counts as %q, not %q", name, got, want)
		}
	}
}

// TestWideArrays reads the tasks of an array that waits from a bit mask of more than 64 bits, as sacct --json writes
// --array=1,200, and resources whose counts are -2, which Slurm writes for what it does not know.
func TestWideArrays(t *testing.T) {
	mask := "0x1" + strings.Repeat("0", 49) + "2" // bits 200 and 1
	const resources = `[{"type":"cpu","count":1},{"type":"energy","count":-2},{"type":"fs","name":"disk","count":-2},
		{"type":"gres","name":"gpu","count":3}]`
	log := readTexts(t, "UTC", twoNodes, `{"jobs":[{"job_id":7,"user":"ann","state":{"current":["PENDING"]},
		"time":{"submission":1794816000,"limit":{"set":true,"number":1}},"nodes":"None assigned",
		"array":{"job_id":7,"task_id":{"set":false},"task":"`+mask+`"},"tres":{"requested":`+resources+`}},
		{"job_id":8,"user":"ann","state":{"current":["COMPLETED"]},"nodes":"g1","tres":{"requested":`+resources+`,
		"allocated":`+resources+`},"time":{"submission":1794816000,"start":1794816010,"end":1794816020}}]}`)
	var got []string
	for i := range log.Jobs {
		got = append(got, fmt.Sprint(log.Jobs[i].ID, " has ", log.Jobs[i].GPUs))
	}
	if want := "7_1 has 3, 7_200 has 3, 8 has 3"; strings.Join(got, ", ") != want || log.Report.Unread() > 0 {
		t.Errorf("got %q, want %s\n%s", got, want, log.Report)
	}
}

// TestFutureNodes leaves out nodes that Slurm only knows by a definition, and keeps those that it starts for jobs.
func TestFutureNodes(t *testing.T) {
	nodes := twoNodes + "NodeName=f1 CPUTot=1 Gres=gpu:h100:4 State=FUTURE\n" +
		"NodeName=c1 CPUTot=1 Gres=gpu:h100:1 State=IDLE+CLOUD+POWERED_DOWN\n" +
		"NodeName=f2 CPUTot=1 Gres=gpu:h100:2 State=FUTURE\n"
	log := readTexts(t, "UTC", nodes, "JobID|Partition|State|Submit|Start|End|AllocTRES|NodeList\n"+
		"1|gpu|COMPLETED|2026-11-16T08:00:00|2026-11-16T08:00:00|2026-11-16T09:00:00|gres/gpu=1|f2\n"+
		"2|gpu|COMPLETED|2026-11-16T08:00:00|2026-11-16T08:00:00|2026-11-16T09:00:00|gres/gpu=1|last\n")
	built, err := log.Build(history.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range built.Instance.Cluster.Nodes {
		got = append(got, built.Instance.Cluster.Nodes[i].Name)
	}
	if want := "[c1 f2 g1 g2 last]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s\n%s", got, want, built.Report)
	}
	if rep := verify.Check(built.Instance, built.Happened); !rep.OK {
		t.Error(rep)
	}
}

// TestOtherAccelerators counts accelerators that sites name in GRES as GPUs, by their own types: those of the job, and
// where it names none, those that nodes have under the name.
func TestOtherAccelerators(t *testing.T) {
	const nodes = "NodeName=g1 Gres=gpu:a100:4 State=IDLE\nNodeName=h1 Gres=gaudi:8(S:0-1) State=IDLE\n" +
		"NodeName=h2 Gres=hpu:gaudi2:8 State=IDLE\nNodeName=t1 Gres=gres/dcu:2,ssd:1 State=IDLE\n"
	text := "JobID|State|Submit|Start|End|ReqTRES|AllocTRES|NodeList\n"
	for i, job := range [][2]string{{"gres/gaudi=4", "h1"}, {"gres/hpu=8", "h2"}, {"gres/hpu=2,gres/hpu:gaudi2=2", "h2"},
		{"gres/dcu=1", "t1"}, {"gres/gpu=1", "g1"}} {
		text += fmt.Sprintf("%d|COMPLETED|2026-11-16T0%d:00:00|2026-11-16T0%[2]d:00:00|2026-11-16T0%[2]d:30:00|%s|%[3]s|"+
			"%s\n", i+1, i, job[0], job[1])
	}
	l := readTexts(t, "UTC", text, nodes)
	var got []string
	for _, j := range l.Jobs {
		got = append(got, fmt.Sprintf("%s=%d×%s on %s", j.ID, j.GPUs, j.Type, j.On[0].Type))
	}
	want := "1=4×gaudi on gaudi 2=8×gaudi2 on gaudi2 3=2×gaudi2 on gaudi2 4=1×dcu on dcu 5=1× on "
	if strings.Join(got, " ") != want {
		t.Errorf("%q, not %q", strings.Join(got, " "), want)
	}
	built, err := l.Build(history.Config{})
	if err != nil || len(built.Instance.Jobs) != 5 || !verify.Check(built.Instance, built.Happened).OK {
		t.Errorf("%v\n%s", err, l.Report)
	}
	if !strings.Contains(l.Report.String(), "assumed 1: GRES of the node names accelerators hpu: they count as GPUs") {
		t.Error(l.Report)
	}
}

// TestWholeNodesOfAType gives a job that waits for whole nodes with GPUs of a type all GPUs of such nodes, though
// others have more.
func TestWholeNodesOfAType(t *testing.T) {
	for types, want := range map[string]string{
		"Gres=gpu:a100:4 and Gres=gpu:v100:8":            "2x4 a100=600",
		"Gres=gpu:v100:8 and Gres=gpu:a100:4":            "2x4 a100=600",
		"Gres=gpu:a100:2,gpu:t4:2 and Gres=gpu:v100:8":   "8x1 a100=600 t4=600 mixed",
		"Gres=gpu:a100:2,gpu:a100:2 and Gres=gpu:v100:4": "2x4 a100=600",
	} {
		nodes := ""
		for i, gres := range strings.Split(types, " and ") {
			for k := range 2 {
				nodes += fmt.Sprintf("NodeName=n%d%d CPUTot=8 %s State=IDLE\n", i, k, gres)
			}
		}
		log := readTexts(t, "UTC", `{"jobs":[{"job_id":1,"job_state":"PENDING","submit_time":1795924023,"node_count":2,
			"time_limit":10,"user_name":"ann","shared":"none","tres_per_node":"gres:gpu:a100:1",
			"tres_req_str":"cpu=2,node=2,gres/gpu=2"}]}`, nodes)
		built, err := log.BuildNow(history.Config{Speeds: &history.Speeds{}})
		if err != nil {
			t.Fatal(err)
		}
		if got := holds(built.Instance); got != "1: "+want {
			t.Errorf("%s: %s, not %s", types, got, want)
		}
		for _, n := range built.Instance.Cluster.Nodes {
			if strings.Contains(nodes, "NodeName="+n.Name+" CPUTot=8 Gres=gpu:v100") && strings.Contains(want, "mixed") &&
				built.Instance.Jobs[0].AllowsNode(&n) {
				t.Errorf("%s: may have %s, which has no a100", types, n.Name)
			}
		}
	}
}

// TestStatesOfTheQueue reads what jobs hold while they are set up, while they end, and after they were requeued.
func TestStatesOfTheQueue(t *testing.T) {
	const nodes = "NodeName=g1 CPUTot=64 RealMemory=256000 Gres=gpu:A100:8 State=IDLE\n"
	for _, c := range []struct{ state, want string }{
		{`["RUNNING"]`, "1: 1x2 A100=600 on g1/0,g1/3"}, {`["RUNNING","CONFIGURING"]`, "1: 1x2 A100=600 on g1/0,g1/3"},
		{`["CONFIGURING"]`, "1: 1x2 A100=600 on g1/0,g1/3"}, {`"CONFIGURING"`, "1: 1x2 A100=600 on g1/0,g1/3"},
		{`["POWER_UP_NODE"]`, "1: 1x2 A100=600 on g1/0,g1/3"}, {`["PENDING"]`, "1: 1x2 A100=600"},
		{`"COMPLETING"`, ""}, {`["COMPLETED","COMPLETING"]`, ""}, {`["PENDING","REQUEUE_HOLD"]`, ""},
		{`["PENDING","SPECIAL_EXIT"]`, ""}, {`"REQUEUE_HOLD"`, ""},
	} {
		for _, detail := range []string{"gpu:a100:2(IDX:0,3)", "gpu:(null):2(IDX:0,3)", "gpu:2(IDX:0,3)"} {
			log := readTexts(t, "UTC", `{"jobs":[{"job_id":1,"job_state":`+c.state+`,"submit_time":1795000000,
				"start_time":1795000000,"end_time":1795000300,"time_limit":10,"node_count":1,"nodes":"g1",
				"gres_detail":["`+detail+`"],"tres_req_str":"gres/gpu=2","tres_alloc_str":"gres/gpu=2"},
				{"job_id":2,"job_state":"PENDING","submit_time":1795000000,"time_limit":10,"tres_req_str":"gres/gpu=1"}],
				"last_update":1795000400}`, nodes)
			built, err := log.BuildNow(history.Config{})
			if err != nil {
				t.Fatal(err)
			}
			want := strings.TrimPrefix(c.want+"; 2: 1x1 A100=600", "; ")
			if got := holds(built.Instance); got != want {
				t.Errorf("%s %s: %s, not %s", c.state, detail, got, want)
			}
		}
	}
}

// TestSeveralOutputs reads texts that hold what a tool wrote several times, and what it writes for unset numbers.
func TestSeveralOutputs(t *testing.T) {
	const head, row = "JobID|State|Submit|Start|End|ElapsedRaw|AllocTRES|NodeList\n",
		"|COMPLETED|2026-11-16T08:00:00|2026-11-16T08:00:00|2026-11-16T09:00:00|3600|gres/gpu:A100=1,gres/gpu=1|g1\n"
	job := func(id int, energy string) string {
		return fmt.Sprintf(`{"jobs":[{"job_id":%d,"state":{"current":["COMPLETED"]},"time":{"submission":1795000000,
			"start":1795000000,"end":1795000600},"nodes":"g1","tres":{"allocated":[{"type":"energy","count":%s},
			{"type":"gres","name":"gpu:a100","count":1}]}}]}`, id, energy)
	}
	for _, c := range []struct{ name, text, want, says string }{
		{"sacct", head + "1" + row + head + "2" + row, "1: 1x1 a100=3600; 2: 1x1 a100=3600",
			"left out 1: the names of the columns again"},
		{"not ended", head + "1" + row + "2|NODE_FAIL|2026-11-16T08:00:00|2026-11-16T08:00:00|Unknown|600|gres/gpu=1|g1\n",
			"1: 1x1 a100=3600; 2: 1x1 a100=600", ""},
		{"never ended", head + "1" + row + "2|NODE_FAIL|2026-11-16T08:00:00|2026-11-16T08:00:00|Unknown||gres/gpu=1|g1\n",
			"1: 1x1 a100=3600", "doubtful 1: has ended, and nothing says when: left out"},
		{"JSON", job(1, "18446744073709551614") + "\n" + job(2, "7"), "1: 1x1 a100=600; 2: 1x1 a100=600", ""},
		{"JSON, others and JSON", job(1, "0") + "\n{}\n" + `{"note":1}` + job(2, "0"),
			"1: 1x1 a100=600; 2: 1x1 a100=600", "set aside, not read 2: text after a document of JSON"},
		{"JSON and words", job(1, "0") + "\nslurm: error", "1: 1x1 a100=600", "text after a document of JSON"},
	} {
		log := readTexts(t, "UTC", c.text, twoNodes)
		built, err := log.Build(history.Config{Speeds: &history.Speeds{}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range built.Instance.Jobs {
			built.Instance.Jobs[i].On = slices.DeleteFunc(built.Instance.Jobs[i].On, func(p hare.Profile) bool {
				return p.Type != "a100"
			})
		}
		if got := holds(built.Instance); got != c.want {
			t.Errorf("%s: %s, not %s", c.name, got, c.want)
		}
		if report := built.Report.String(); !strings.Contains(report, c.says) || strings.Contains(report, "count has") {
			t.Errorf("%s: the report does not say %q:\n%s", c.name, c.says, report)
		}
	}
	log := readTexts(t, "UTC", `{"jobs":[],"errors":[{"error":"Unable to connect to database"}]}`, twoNodes)
	if _, err := log.Build(history.Config{}); err == nil || !strings.Contains(err.Error(), "Unable to connect") {
		t.Error(err)
	}
}
