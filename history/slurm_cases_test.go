package history_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/verify"
)

// readCase reads texts of testdata/cases.
func readCase(t *testing.T, zone, folder string, names ...string) (*history.Log, error) {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	var texts []trace.Source
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join("testdata/cases", folder, name))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, trace.Source{Name: name, R: bytes.NewReader(text)})
	}
	return history.Read("slurm", texts, history.ReadConfig{Zone: loc})
}

// holds says of each job of an instance how many tasks of how many GPUs it has, its seconds on each type, and which
// GPUs it holds.
func holds(inst *hare.Instance) string {
	var lines []string
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		line := fmt.Sprintf("%s: %dx%d", j.ID, j.Tasks, j.TaskGPUs())
		for _, p := range j.On {
			line += fmt.Sprintf(" %s=%d", p.Type, p.ComputeUs/1e6)
		}
		if j.Mix {
			line += " mixed"
		}
		if j.Progress != nil {
			line += " on " + strings.Join(j.Progress.GPUs, ",")
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

// TestSlurmCases reads small texts of what real clusters write, each of which was read wrongly once.
func TestSlurmCases(t *testing.T) {
	tasks := func(from, to, step int, rest string) string {
		var list []string
		for n := from; n <= to; n += step {
			list = append(list, fmt.Sprint("90_", n))
		}
		slices.Sort(list)
		return strings.Join(list, rest+"; ") + rest
	}
	const notKept = "ran on a node that its features, partition or labels exclude by what the node has today"
	const two = "71: 1x1 a100=3600; 72: 1x1 a100=3600"
	const ofArray = ": 1x4 a100=60; 53_"
	const sizes = "each size of a job that changed its size"
	for _, c := range []struct{ folder, texts, zone, want, says string }{
		{"array-stride", "jobs.txt nodes.txt", "", "91: 1x1 a100=7200", "left out 16: had not started"},
		{"array-stride", "now squeue.json nodes.txt", "", tasks(0, 30, 2, ": 1x1 a100=3600"),
			"the limit of an array's tasks"},
		{"gpus-per-socket", "now squeue.json nodes.txt", "",
			"301: 1x4 a100=3600 on g1/0,g1/1,g1/2,g1/3; 302: 8x1 a100=3600", ""},
		{"features-of-unlisted-nodes", "jobs.txt", "", two, notKept},
		{"features-of-unlisted-nodes", "jobs.txt nodes.txt", "", two, notKept},
		{"features-of-unlisted-nodes", "jobs.txt nodes-renamed.txt", "", two, "doubtful 2: " + notKept},
		{"features-of-unlisted-nodes", "jobs-plain.txt nodes.txt", "", two, notKept},
		{"features-of-unlisted-nodes", "jobs-plain.txt nodes-moved.txt", "", two, "doubtful 1: " + notKept},
		{"dst-fall-back", "jobs.txt nodes.txt", "Europe/Berlin",
			"403: 1x4 a100=1800; 402: 1x4 a100=7200; 401: 1x4 a100=1200; 404: 1x4 a100=3600",
			"doubtful 1: a local time stands twice"},
		{"dst-fall-back", "jobs-spring.txt nodes.txt", "", "411: 1x4 a100=3600", "by a change of summer time"},
		{"dst-fall-back", "jobs-spring.txt nodes.txt", "Europe/Berlin", "411: 1x4 a100=3600", ""},
		{"state-expediting", "jobs.txt nodes.txt", "", "601: 1x1 a100=3600; 602: 1x1 a100=3600", `jobs.txt:3: "EXPEDITING"`},
		{"gpus-not-in-accounting", "jobs.txt nodes.txt", "", "801: 1x2 a100=3600; 802: 2x1 a100=3600; 803: 4x1 a100=1200",
			"set AccountingStorageTRES=gres/gpu in slurm.conf"},
		{"gpus-not-in-accounting", "squeue.json nodes.txt", "", "804: 1x2 a100=590", ""},
		{"gpus-not-in-accounting", "squeue.json sacct.json nodes.txt", "", "804: 1x2 a100=2000", ""},
		{"gpus-not-in-accounting", "sacct.json squeue.json nodes.txt", "", "804: 1x2 a100=2000", ""},
		{"one-id-two-jobs", "jobs-clusters.txt nodes.txt", "",
			"jobs-clusters.txt:2: the texts are of several clusters, west and " +
				"east: choose one by sacct -M west", ""},
		{"one-id-two-jobs", "jobs-recycled.txt nodes.txt", "", "901: 1x4 a100=3600; 901#2: 1x4 a100=3600",
			"another job of the same number"},
		{"shards-and-mig", "jobs.txt nodes.txt", "",
			"1001: 1x2 a100=3600; 1002: 1x1 a100=3600; 1003: 1x1 a100_1g.5gb=3600; " +
				"1004: 1x1 a100_1g.5gb=3600", "has parts of GPUs (shards or MPS)"},
		{"slurm-26.05-exclusive", "now sacct.json nodes.txt", "", "1301: 1x4 a100=3600", ""},
		{"slurm-26.05-exclusive", "now squeue.json nodes.txt", "", "1301: 1x1 a100=3600",
			"does not tell which jobs want whole nodes"},
		{"typed-request-lost", "jobs.txt nodes.txt", "", "1: 1x2 a100=6; 2: 1x1 v100=6; 6: 2x1 v100=6", ""},
		{"sacct-json-array-bitmask", "sacct.json nodes.txt", "", "46: 1x1 v100=3", "left out 6: had not started"},
		{"sacct-json-array-bitmask", "now sacct.json nodes.txt", "", "53_0" + ofArray + "1" + ofArray + "2" + ofArray + "3" +
			ofArray + "4" + ofArray + "5: 1x4 a100=60", ""},
		{"sacct-json-requeued", "sacct.json nodes.txt", "", "45: 1x2 a100=2; 45#2: 1x2 a100=20; 46: 1x1 v100=3", ""},
		{"sacct-json-requeued", "now sacct.json nodes.txt", "",
			"give squeue --json or a later text: no job that runs or waits has GPUs",
			""},
		{"alloctres-typed-untyped", "jobs-24.11.txt nodes.txt", "", "38: 2x3 gpu=4 v100=4 mixed", ""},
		{"alloctres-typed-untyped", "jobs-26.05.txt nodes.txt", "", "60: 2x3 gpu=4 v100=4 mixed", ""},
		{"limit-of-365-days", "now squeue.json nodes.txt", "",
			"76: 1x2 a100=3600 on m1/0,m1/1; 77: 1x2 a100=3600 on m1/2,m1/3; " +
				"78: 1x4 a100=3600", "a limit of 365 days"},
		{"waiting-job-may-mix-types", "now squeue.json nodes.txt", "",
			"10: 2x1 a100=31 v100=60; 26: 3x4 a100=60 gpu=60 v100=60 mixed",
			"may mix types"},
		{"speeds-by-part-of-a-name", "jobs.txt nodes.txt", "",
			"2001: 1x1 a100=3600 a800=3600 quadro_p1000=3600 rtx_a1000=3600",
			"no speed of rtx_a1000 is known"},
		{"nodes-of-two-types", "jobs.txt nodes.txt", "", "24: 1x2 t4=2; 52: 1x1 t4=2", ""},
		{"nodes-of-two-types", "now squeue.json nodes.txt", "",
			"21: 1x1 v100=300; 22_0: 2x1 v100=300; 22_1: 2x1 v100=300; 23_0: 1x1 t4=300 v100=106; " +
				"23_1: 1x1 t4=300 v100=106; 23_3: 1x1 t4=300 v100=106; 25: 1x3 t4=300 v100=106; 26: 1x2 t4=300; " +
				"27: 3x1 t4=300 v100=106 mixed; 28: 3x1 t4=300 v100=106 mixed; 29: 4x1 t4=300 v100=106 mixed",
			"has room only on nodes of several GPU types"},
		{"slurm-shapes", "jobs.txt nodes.txt", "",
			"60: 1x1 t4=5 v100=2; 7: 1x3 t4=5 v100=2; 12: 3x1 t4=5 v100=2; 14: 2x1 t4=8 v100=3; " +
				"15: 2x1 t4=3 v100=3 mixed; 16_0: 1x1 t4=8 v100=3; 19: 1x1 t4=2 v100=0; 22+0: 1x1 v100=2; " +
				"22+1: 1x2 t4=2; 31: 1x2 t4=3 v100=1; 32: 1x1 t4=6 v100=2; 33: 1x4 t4=5 v100=2; 35: 2x1 t4=3; " +
				"35#2: 1x1 t4=9; 31#2: 1x2 t4=11 v100=4; 33#2: 1x4 t4=11 v100=4", sizes},
		{"slurm-shapes", "sacct-24.11.json nodes.txt", "",
			"31: 1x2 t4=3 v100=1; 35: 2x1 t4=3; 35#2: 1x1 t4=9; 31#2: 1x2 t4=11 v100=4", sizes},
		{"slurm-shapes", "sacct.json nodes.txt", "",
			"7: 1x3 t4=5 v100=2; 19: 1x1 t4=2 v100=0; 31: 1x2 t4=3 v100=1; 32: 1x1 t4=6 v100=2; 35: 2x1 t4=3; " +
				"35#2: 1x1 t4=9; 31#2: 1x2 t4=11 v100=4", sizes},
		{"slurm-shapes", "sacct.json ended.json nodes.txt", "",
			"7: 3x1 t4=5 v100=2; 19: 1x1 t4=2 v100=0; 31: 1x2 t4=3 v100=1; 32: 1x1 t4=6 v100=2; 35: 2x1 t4=3; " +
				"35#2: 1x1 t4=9; 31#2: 1x2 t4=11 v100=4", sizes},
		{"slurm-shapes", "ended.json sacct.json nodes.txt", "",
			"7: 3x1 t4=5 v100=2; 19: 1x1 t4=2 v100=0; 31: 1x2 t4=3 v100=1; 32: 1x1 t4=6 v100=2; 35: 2x1 t4=3; " +
				"35#2: 1x1 t4=9; 31#2: 1x2 t4=11 v100=4", sizes},
		{"slurm-shapes", "ended.json jobs.txt nodes.txt", "",
			"60: 1x1 t4=5 v100=2; 7: 1x3 t4=5 v100=2; 12: 3x1 t4=5 v100=2; 14: 2x1 t4=8 v100=3; " +
				"15: 2x1 t4=3 v100=3 mixed; 16_0: 1x1 t4=8 v100=3; 19: 1x1 t4=2 v100=0; 22+0: 1x1 v100=2; " +
				"22+1: 1x2 t4=2; 31: 1x2 t4=3 v100=1; 32: 1x1 t4=6 v100=2; 33: 1x4 t4=5 v100=2; 35: 2x1 t4=3; " +
				"35#2: 1x1 t4=9; 31#2: 1x2 t4=11 v100=4; 33#2: 1x4 t4=11 v100=4", sizes},
		{"slurm-shapes", "uncounted.txt nodes.txt", "",
			"7: 1x3 t4=2 v100=0; 11: 1x2 t4=5 v100=2; 14: 2x1 t4=5 v100=2; 15: 1x1 t4=2 v100=0; " +
				"12: 3x1 t4=5 v100=2; 18: 1x4 t4=2 v100=0; 22+0: 1x1 v100=2; 22+1: 1x2 t4=2; 35: 2x1 t4=3; " +
				"35#2: 1x1 t4=9",
			"set AccountingStorageTRES=gres/gpu in slurm.conf"},
		{"slurm-shapes", "uncounted.txt uncounted.json nodes.txt", "",
			"7: 1x3 t4=2 v100=0; 11: 1x2 t4=5 v100=2; 14: 2x1 t4=5 v100=2; 15: 1x1 t4=2 v100=0; " +
				"12: 3x1 t4=5 v100=2; 18: 1x4 t4=2 v100=0; 22+0: 1x1 v100=2; 22+1: 1x2 t4=2; 35: 2x1 t4=3; " +
				"35#2: 1x1 t4=9", "command line"},
		{"slurm-shapes", "now waiting.json nodes.txt", "",
			"11: 1x2 t4=300 v100=106; 14: 2x1 t4=300 v100=106; 16_0: 1x1 t4=300 v100=106; " +
				"16_2: 1x1 t4=300 v100=106; 16_4: 1x1 t4=300 v100=106; 16_6: 1x1 t4=300 v100=106; 18: 1x4 t4=300; " +
				"19: 1x1 t4=300; 22+0: 1x1 v100=300; 22+1: 1x2 t4=300; 7: 1x3 t4=300 v100=106; 9: 2x2 t4=300 v100=106",
			"a component of a heterogeneous job"},
	} {
		t.Run(c.folder+" "+c.texts, func(t *testing.T) {
			texts, now := strings.CutPrefix(c.texts, "now ")
			var built *history.Built
			log, err := readCase(t, c.zone, c.folder, strings.Fields(texts)...)
			if err == nil && now {
				built, err = log.BuildNow(history.Config{})
			} else if err == nil {
				built, err = log.Build(history.Config{})
			}
			if err != nil {
				if err.Error() != c.want {
					t.Error(err)
				}
				return
			}
			if got := holds(built.Instance); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if !strings.Contains(built.Report.String(), c.says) {
				t.Errorf("the report does not say %q:\n%s", c.says, built.Report)
			}
			if built.Happened != nil {
				if rep := verify.Check(built.Instance, built.Happened); !rep.OK {
					t.Errorf("what happened is refused: %s", rep)
				}
			}
		})
	}
	for _, name := range []string{"jobs-truncated.txt", "squeue-truncated.json"} {
		log, err := readCase(t, "", "array-stride", name)
		if err != nil {
			t.Fatal(err)
		}
		last := log.Jobs[len(log.Jobs)-1].ID
		if whole := slices.ContainsFunc(log.Jobs, func(j history.Job) bool { return j.ID == "90_68" }); !whole ||
			last == "90_7" ||
			!strings.Contains(log.Report.String(), "left out 1: the waiting tasks of an array are not all told") {
			t.Errorf("%s: the last task is %s\n%s", name, last, log.Report)
		}
	}
}

// property reads a text before and after one of its values was replaced: all other jobs and nodes are as before, and
// the report has one line more.
func property(t *testing.T, was, text, place, value string) {
	t.Helper()
	read := func(text string) *history.Log {
		log, err := history.Read("slurm", []trace.Source{{Name: "f", R: strings.NewReader(text)}}, history.ReadConfig{})
		if err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		return log
	}
	before, after := read(was), read(text)
	for i := range before.Jobs {
		j := &before.Jobs[i]
		if j.Place.String() == place {
			continue
		}
		at := slices.IndexFunc(after.Jobs, func(k history.Job) bool { return k.ID == j.ID })
		if at < 0 || !reflect.DeepEqual(*j, after.Jobs[at]) {
			t.Errorf("%s: job %s has changed", value, j.ID)
		}
	}
	for i, n := range before.Nodes {
		if fmt.Sprint("f#/nodes/", i) == place || fmt.Sprint("f:", i+1) == place {
			continue
		}
		at := slices.IndexFunc(after.Nodes, func(o history.Node) bool { return o.Name == n.Name })
		if at < 0 || !reflect.DeepEqual(n, after.Nodes[at]) {
			t.Errorf("%s: node %s has changed", value, n.Name)
		}
	}
	lines := func(l *history.Log) int { return strings.Count(l.Report.String(), "\n") }
	if lines(after) > lines(before)+1 {
		t.Errorf("%s: the report has more than one line more:\n%s", value, after.Report)
	}
	if got, want := after.Report.Unread(), before.Report.Unread()+1; got != want {
		t.Errorf("%s: %d values are set aside, not %d:\n%s", value, got, want, after.Report)
	}
}

// TestOneUnreadableValue puts a value that cannot be read into a random place of texts of sacct, squeue and scontrol.
func TestOneUnreadableValue(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	var sacct [][]string
	sacct = append(sacct, strings.Split(
		"JobID|User|State|Submit|Eligible|Start|End|ElapsedRaw|TimelimitRaw|NNodes|ReqTRES|AllocTRES|"+
			"NodeList|Suspended|SubmitLine", "|"))
	for i := range 6 {
		sacct = append(sacct, []string{fmt.Sprint(100 + i), "ann", "COMPLETED", "2026-11-16T08:00:00", "2026-11-16T08:00:00",
			"2026-11-16T08:10:00", "2026-11-16T09:10:00", "3600", "60", "1", "cpu=2,gres/gpu=1,node=1",
			"cpu=2,gres/gpu=1,node=1",
			"g1", "00:00:00", "sbatch -x g2 job.sh"})
	}
	join := func(rows [][]string) string {
		var lines []string
		for _, row := range rows {
			lines = append(lines, strings.Join(row, "|"))
		}
		return strings.Join(lines, "\n") + "\n"
	}
	whole := join(sacct)
	bad := map[string][]string{"JobID": {"???", "garbage"}, "SubmitLine": {"sbatch -x g[1- job.sh"}, "NodeList": {"g[1-",
		"g1]", "g[a]"},
		"ReqTRES": {"gres/gpu=x", "??", "cpu=-2"}, "AllocTRES": {"gres/gpu=1e99", "gres/gpu:a100=many"}}
	for column := range sacct[0] {
		if name := sacct[0][column]; name == "User" {
			continue
		}
		for _, value := range slices.Concat(bad[sacct[0][column]], []string{"???", "∞", "2026-13-45T99:00:00"}) {
			name := sacct[0][column]
			if (name == "SubmitLine" || name == "NodeList") && !strings.ContainsAny(value, "[]") {
				continue // which can be read
			}
			row := 1 + rng.IntN(len(sacct)-1)
			was := sacct[row][column]
			sacct[row][column] = value
			property(t, whole, join(sacct), fmt.Sprint("f:", row+1), "sacct -P: "+name+"="+value)
			sacct[row][column] = was
		}
	}

	nodes := []string{"NodeName=g0", "NodeName=g1", "NodeName=g2"}
	for i := range nodes {
		nodes[i] += " CPUTot=32 RealMemory=256000 Gres=gpu:a100:4 Partitions=gpu State=IDLE Reason=Gres=gpu:x NodeName=y"
	}
	for _, change := range [][2]string{{"CPUTot=32", "CPUTot=many"}, {"RealMemory=256000", "RealMemory=-1"},
		{"gpu:a100:4", "gpu:a100:x"}, {"gpu:a100:4", "gpu:a100:99999999"}, {"State=IDLE", "State=ASLEEP"}} {
		i := rng.IntN(len(nodes))
		was := strings.Join(nodes, "\n")
		changed := slices.Clone(nodes)
		changed[i] = strings.Replace(nodes[i], change[0], change[1], 1)
		property(t, was, strings.Join(changed, "\n"), fmt.Sprint("f:", i+1), "scontrol show node: "+change[1])
	}

	for _, name := range []string{"squeue-v0.0.44.json", "sacct-v0.0.44.json", "nodes-v0.0.44.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		list, keys := "jobs", []string{"job_state", "submit_time", "time_limit", "tres_req_str", "name", "array_task_id",
			"nodes",
			"gres_detail", "node_count", "excluded_nodes", "comment", "exclusive"}
		switch {
		case strings.HasPrefix(name, "sacct"):
			keys = []string{"state", "time", "tres", "nodes", "name", "submit_line", "user"}
		case strings.HasPrefix(name, "nodes"):
			list, keys = "nodes", []string{"gres", "cpus", "real_memory", "features", "partitions", "state"}
		}
		for _, key := range keys {
			for _, value := range []string{`{"nonsense":[1]}`, `17.5e40`, `[[1]]`, `"x[1-="`} {
				var document map[string]json.RawMessage
				var rows []map[string]json.RawMessage
				if err := json.Unmarshal(text, &document); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(document[list], &rows); err != nil {
					t.Fatal(err)
				}
				row := rng.IntN(len(rows))
				if _, ok := rows[row][key]; !ok || readable(key, value) {
					continue
				}
				rows[row][key] = json.RawMessage(value)
				document[list], err = json.Marshal(rows)
				if err != nil {
					t.Fatal(err)
				}
				changed, err := json.Marshal(document)
				if err != nil {
					t.Fatal(err)
				}
				property(t, string(text), string(changed), fmt.Sprintf("f#/%s/%d", list, row),
					fmt.Sprintf("%s: %s of row %d is %s", name, key, row, value))
			}
		}
	}
}

// readable reports whether a member of a job or a node may have a value that the property test puts there.
func readable(key, value string) bool {
	switch value {
	case `{"nonsense":[1]}`:
		return key == "tres" || key == "comment"
	case `"x[1-="`:
		return slices.Contains([]string{"name", "user", "submit_line", "comment", "tres_req_str", "exclusive", "features",
			"partitions", "gres"}, key)
	}
	return false
}

// TestDelimiters reads rows between whose fields another delimiter stands. One in a name is part of the name where no
// other reading of the row is valid; a comma may have cut a list, and sets the row aside.
func TestDelimiters(t *testing.T) {
	const rows = "JobID|JobName|State|Submit|Start|End|AllocTRES|NodeList\n" +
		"7|a|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T00:01:00|gres/gpu:v100=2|n1\n" +
		"8|b|c|FAILED|2026-01-01T00:00:20|2026-01-01T00:00:30|2026-01-01T00:02:00|gres/gpu:v100=4|n2\n"
	read := func(text string) (*history.Log, error) {
		return history.Read("slurm", []trace.Source{{Name: "f", R: strings.NewReader(text)}}, history.ReadConfig{})
	}
	for _, delimiter := range []string{"|", "\x1f", "\t", ";", ","} {
		log, err := read(strings.ReplaceAll(rows, "|", delimiter))
		if err != nil {
			t.Errorf("%q: %v", delimiter, err)
			continue
		}
		names, gpus, ran := []string{}, int64(0), int64(0)
		for i := range log.Jobs {
			j := &log.Jobs[i]
			names, gpus, ran = append(names, j.Name), gpus+j.GPUs, ran+j.EndUs-j.StartUs
		}
		want, wantGPUs, wantRan := []string{"a", "b" + delimiter + "c"}, int64(6), int64(140e6)
		if delimiter == "," {
			want, wantGPUs, wantRan = want[:1], 2, 50e6
		}
		if !slices.Equal(names, want) || gpus != wantGPUs || ran != wantRan {
			t.Errorf("%q: %q, %d GPUs, %d µs", delimiter, names, gpus, ran)
		}
		if got := log.Report.String(); strings.Contains(got, "has the delimiter , or") != (delimiter == ",") {
			t.Errorf("%q: %s", delimiter, got)
		}
	}
	_, err := read("JobID,State,Submit,Start,End,AllocTRES,NodeList\n" +
		"7,COMPLETED,2026-01-01T00:00:00,2026-01-01T00:00:10,2026-01-01T00:01:00,cpu=4,gres/gpu=2,n1\n")
	if err == nil || err.Error() != `f:2: commas cut the lists of resources: write the file with --delimiter=$'\x1f'` {
		t.Error(err)
	}
}
