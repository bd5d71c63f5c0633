package verify_test

import (
	"encoding/json"
	"math/big"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// nodeExample is an example of testdata/nodes or testdata/real.
type nodeExample struct {
	Optimum      json.Number
	Constant     json.Number            // 0 without one
	Completions  map[string]json.Number `json:"completions_s"`
	Instance     json.RawMessage
	Schedule     json.RawMessage
	Certificate  json.RawMessage
	CriticalPath json.Number `json:"critical_path"`
	Machine      string
	Price        string
}

// nodeInstance reads an instance with rules about nodes.
func nodeInstance(t testing.TB, text []byte) *hare.Instance {
	t.Helper()
	inst, err := wire.DecodeInstance(strings.NewReader(string(text)), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

func readNodeExample(t testing.TB, name string) (*nodeExample, *hare.Instance, *hare.Result) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	x := &nodeExample{}
	if err := json.Unmarshal(text, x); err != nil {
		t.Fatal(err)
	}
	inst := nodeInstance(t, x.Instance)
	doc := `{"hare":"result/v1","objective":"` + inst.Objective + `","value":` + string(x.Optimum) + `,"schedule":` +
		string(x.Schedule)
	if x.Constant != "" && x.Constant != "0" {
		doc += `,"constant":` + string(x.Constant)
	}
	doc += `}`
	res, err := wire.DecodeResult(strings.NewReader(doc), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return x, inst, res
}

func TestExamplesOnNodes(t *testing.T) {
	for _, name := range []string{"nodes", "distinct"} {
		x, inst, res := readNodeExample(t, "nodes/"+name)
		if r := verify.Check(inst, res); !r.OK {
			t.Errorf("%s: %s", name, r)
		}
		for _, method := range []struct{ name, want string }{
			{hare.MethodCriticalPath, x.CriticalPath.String() + ".000000"}, {hare.MethodMachine, x.Machine},
		} {
			cert := &hare.Certificate{Method: method.name, Objective: hare.ObjectiveWeightedJCT}
			if low, err := verify.Bound(inst, cert); err != nil || low.FloatString(6) != method.want {
				t.Errorf("%s: %s proves %v, %v, want %s", name, method.name, low, err, method.want)
			}
		}
		if low, err := verify.Bound(inst, nodeCertificate(t, x.Certificate)); err != nil || low.FloatString(6) != x.Price {
			t.Errorf("%s: the prices prove %v, %v, want %s", name, low, err, x.Price)
		}
		_, ends, _ := verify.ScheduleValue(inst, res.Schedule)
		for i, end := range ends {
			if want := x.Completions[inst.Jobs[i].ID].String(); hare.FormatMicros(end) != want {
				t.Errorf("%s: job %s ends at %s, want %s", name, inst.Jobs[i].ID, hare.FormatMicros(end), want)
			}
		}
	}
}

// nodeCertificate reads a certificate.
func nodeCertificate(t testing.TB, text []byte) *hare.Certificate {
	t.Helper()
	c, err := wire.DecodeCertificate(strings.NewReader(string(text)), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The certificates of wrong readings prove what they prove by the right reading.
func TestReadingsOnNodes(t *testing.T) {
	text, err := os.ReadFile("testdata/nodes/wrong-readings.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]struct {
		Optimum, Right json.Number
		Instance       json.RawMessage
		Certificate    json.RawMessage
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for name, x := range all {
		if x.Certificate == nil {
			continue
		}
		right, ok := new(big.Rat).SetString(x.Right.String())
		if !ok {
			t.Fatal(x.Right)
		}
		low, err := verify.Bound(nodeInstance(t, x.Instance), nodeCertificate(t, x.Certificate))
		if err != nil || low.Cmp(right) != 0 {
			t.Errorf("%s: %v %v, want %s", name, low, err, x.Right)
		}
	}
}

// Each rule about nodes is tested on schedules that keep it and on schedules that do not. A
// row of a schedule is the GPU, then entries "job start[ round rounds tasks period]".
func TestRulesOfNodes(t *testing.T) {
	const cluster = `{"hare":"instance/v1","cluster":{"nodes":[` +
		`{"name":"a","gpus":{"A":2,"B":2},"cpus":4,"memory_mib":10,"labels":{"disk":"nvme"}},` +
		`{"name":"b","gpus":{"A":3},"cpus":2.5,"labels":{"disk":"ssd"}}]},"jobs":[`
	job := func(fields string) string { return `{"id":"x",` + fields + `,"on":{"A":{"compute_s":2,"sync_s":1}}}` }
	for _, c := range []struct {
		name, jobs string
		rows       []string
		want       string
	}{
		{"a task of two GPUs", job(`"gpus_per_task":2`), []string{"a/0 x 0", "a/1 x 0"}, ""},
		{"one of its GPUs is missing", job(`"gpus_per_task":2`), []string{"a/0 x 0"}, verify.CodeRounds},
		{"its GPUs are on two nodes", job(`"gpus_per_task":2`), []string{"a/0 x 0", "b/0 x 0"}, verify.CodeTask},
		{"its GPUs do not start together", job(`"gpus_per_task":2`), []string{"a/0 x 0", "a/1 x 1"}, verify.CodeTask},
		{"its GPUs are of two types", `{"id":"x","gpus_per_task":2,"on":{"A":{"compute_s":2},"B":{"compute_s":2}}}`,
			[]string{"a/0 x 0", "a/2 x 0"}, verify.CodeTask},
		{"two tasks of two GPUs, one after another", job(`"gpus_per_task":2,"tasks":2`),
			[]string{"a/0 x 0 0 1 2", "a/1 x 0 0 1 2"}, ""},
		{"tasks in another number", job(`"gpus_per_task":2,"tasks":3`),
			[]string{"a/0 x 0 0 1 2, x 5", "a/1 x 0, x 5 0 1 2"}, verify.CodeTask},
		{"entries of a task are cut apart", job(`"gpus_per_task":2,"rounds":2`),
			[]string{"a/0 x 0 0 2 1 3", "a/1 x 0, x 3 1"}, verify.CodeTask},
		{"a gang of two tasks of one GPU", job(`"tasks":2,"sync":"gang","distinct_nodes":true`),
			[]string{"a/0 x 0", "b/0 x 0"}, ""},
		{"two of its tasks on a node", job(`"tasks":2,"sync":"gang","distinct_nodes":true`),
			[]string{"b/1 x 0", "b/0 x 0"}, verify.CodeDistinct},
		{"two rounds of one task on a node", job(`"rounds":2,"sync":"gang","distinct_nodes":true`),
			[]string{"b/1 x 0", "b/0 x 3 1"}, ""},
		{"two of its tasks on a node, of two types",
			`{"id":"x","tasks":2,"sync":"gang","mix":true,"distinct_nodes":true,` +
				`"on":{"A":{"compute_s":2},"B":{"compute_s":2}}}`,
			[]string{"a/1 x 0", "a/2 x 0"}, verify.CodeDistinct},
		{"rigid, two tasks of two GPUs", job(`"tasks":2,"sync":"rigid","gpus_per_task":2`),
			[]string{"a/0 x 0", "a/1 x 0", "b/0 x 0", "b/2 x 0"}, ""},
		{"rigid on too few GPUs", job(`"tasks":2,"sync":"rigid","gpus_per_task":2`),
			[]string{"a/0 x 0", "a/1 x 0"}, verify.CodeRigid},
		{"only nvme", job(`"only":{"disk":"nvme"}`), []string{"a/1 x 0"}, ""},
		{"only nvme, on ssd", job(`"only":{"disk":"nvme"}`), []string{"b/1 x 0"}, verify.CodeNode},
		{"only nvme or ssd", job(`"only":{"disk":["nvme","ssd"]}`), []string{"b/1 x 0"}, ""},
		{"only a rack that no node has", job(`"only":{"rack":"r"}`), []string{"b/1 x 0"}, verify.CodeNode},
		{"only nvme and b", job(`"only":{"disk":"nvme","node":"b"}`), []string{"b/1 x 0"}, verify.CodeNode},
		{"without ssd", job(`"exclude":{"disk":"ssd"}`), []string{"b/1 x 0"}, verify.CodeNode},
		{"without the rack r", job(`"exclude":{"rack":"r"}`), []string{"b/1 x 0"}, ""},
		{"without b and hdd", job(`"exclude":{"node":"b","disk":"hdd"}`), []string{"b/1 x 0"}, verify.CodeNode},
		{"four CPUs of four", job(`"tasks":2,"cpus_per_task":2`), []string{"a/0 x 0", "a/1 x 0"}, ""},
		{"CPUs of a task are not of a GPU", job(`"gpus_per_task":2,"cpus_per_task":4`),
			[]string{"a/0 x 0", "a/1 x 0"}, ""},
		{"more CPUs than the node has", job(`"tasks":2,"cpus_per_task":2.001`), []string{"a/0 x 0", "a/1 x 0"},
			verify.CodeCPUs},
		{"CPUs are free when compute ends", job(`"tasks":2,"cpus_per_task":4`), []string{"a/0 x 0", "a/1 x 2"}, ""},
		{"CPUs are not free before", job(`"tasks":2,"cpus_per_task":4`), []string{"a/0 x 0", "a/1 x 1.999999"},
			verify.CodeCPUs},
		{"memory", job(`"tasks":2,"memory_mib_per_task":6`), []string{"a/0 x 0", "b/0 x 0"}, ""},
		{"more memory than the node has", job(`"tasks":2,"memory_mib_per_task":6`), []string{"a/0 x 0", "a/1 x 0"},
			verify.CodeMemory},
		{"a gang holds CPUs until it has synchronised",
			`{"id":"y","weight":0,"cpus_per_task":1,"on":{"A":{"compute_s":1}}},` +
				job(`"sync":"gang","cpus_per_task":4`), []string{"a/0 x 0", "a/1 y 2"}, verify.CodeCPUs},
		{"and no longer", `{"id":"y","weight":0,"cpus_per_task":1,"on":{"A":{"compute_s":1}}},` +
			job(`"sync":"gang","cpus_per_task":4`), []string{"a/0 x 0", "a/1 y 3"}, ""},
		{"a mixing gang holds CPUs until its slowest task has synchronised",
			`{"id":"y","weight":0,"cpus_per_task":1,"on":{"A":{"compute_s":1}}},` +
				`{"id":"x","tasks":2,"sync":"gang","mix":true,"cpus_per_task":2,` +
				`"on":{"A":{"compute_s":2},"B":{"compute_s":3}}}`,
			[]string{"a/0 x 0", "a/2 x 0", "a/1 y 2"}, verify.CodeCPUs},
		{"an entry holds CPUs between its rounds", `{"id":"y","weight":0,"cpus_per_task":1,"on":{"A":{"compute_s":1}}},` +
			job(`"rounds":2,"cpus_per_task":4`), []string{"a/0 x 0 0 2 1 5", "a/1 y 3"}, verify.CodeCPUs},
		{"two entries do not", `{"id":"y","weight":0,"cpus_per_task":1,"on":{"A":{"compute_s":1}}},` +
			job(`"rounds":2,"cpus_per_task":4`), []string{"a/0 x 0, x 5 1", "a/1 y 3"}, ""},
	} {
		inst := nodeInstance(t, []byte(cluster+c.jobs+`]}`))
		s := scheduleOf(t, inst, c.rows)
		_, _, faults := verify.ScheduleValue(inst, s)
		if c.want == "" && len(faults) > 0 || c.want != "" && (len(faults) != 1 || faults[0].Constraint != c.want) {
			t.Errorf("%s: %v, want %q", c.name, faults, c.want)
		}
		if why, _ := plainCheck(inst, s); (why == "") != (c.want == "") {
			t.Errorf("%s: task by task %q, want %q", c.name, why, c.want)
		}
	}
}

// scheduleOf makes a schedule of rows.
func scheduleOf(t *testing.T, inst *hare.Instance, rows []string) *hare.Schedule {
	t.Helper()
	s := &hare.Schedule{}
	for i := range inst.Jobs {
		s.Jobs = append(s.Jobs, inst.Jobs[i].ID)
	}
	for _, row := range rows {
		gpu, entries, _ := strings.Cut(row, " ")
		lane := hare.Lane{GPU: gpu}
		for entry := range strings.SplitSeq(entries, ", ") {
			addEntry(t, &lane, s.Jobs, strings.Fields(entry))
		}
		s.Lanes = append(s.Lanes, lane)
	}
	return s
}

// addEntry appends the entry of the job fields[0] that starts at fields[1] seconds. The rest of
// fields are the columns round, rounds, tasks, the period in seconds and the shape.
func addEntry(t *testing.T, l *hare.Lane, jobs, fields []string) {
	t.Helper()
	columns := []int64{0, 1, 1, 0, 0}
	for i, text := range fields[2:] {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		columns[i] = n
	}
	start, err := strconv.ParseFloat(fields[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	l.Job = append(l.Job, int32(slices.Index(jobs, fields[0])))
	l.StartUs = append(l.StartUs, int64(start*1e6+0.5))
	l.Round = append(l.Round, columns[0])
	l.Rounds = append(l.Rounds, columns[1])
	l.Tasks = append(l.Tasks, columns[2])
	l.PeriodUs = append(l.PeriodUs, columns[3]*1e6)
	l.Shape = append(l.Shape, columns[4])
}
