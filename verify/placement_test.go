package verify_test

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

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

// plainPlaces implements the three rules of docs/nodes.md task by task. spanOf returns from
// when to when the entry of a task holds its GPU. plainPlaces returns the first condition that
// fails, or "".
func plainPlaces(inst *hare.Instance, s *hare.Schedule, tasks []plainTask,
	spanOf func(plainTask) (from, to int64), run *naiveWork) string {
	nodeOf := func(gpu string) *hare.Node {
		name := gpu[:strings.LastIndexByte(gpu, '/')]
		at := slices.IndexFunc(inst.Cluster.Nodes, func(n hare.Node) bool { return n.Name == name })
		return &inst.Cluster.Nodes[at]
	}
	matches := func(selector []hare.LabelValues, n *hare.Node) (count int) {
		for _, lv := range selector {
			values := map[string]string{"node": n.Name}
			for _, l := range n.Labels {
				values[l.Name] = l.Value
			}
			if v, ok := values[lv.Label]; ok && slices.Contains(lv.Values, v) {
				count++
			}
		}
		return count
	}
	lane := map[string]*hare.Lane{}
	for i := range s.Lanes {
		lane[s.Lanes[i].GPU] = &s.Lanes[i]
	}
	equal, crowd := map[string]int64{}, map[string]map[string]bool{}
	cpus, memory := map[string]int64{}, map[string]int64{} // by node and time, in parts of g
	var times []int64
	for _, t := range tasks {
		from, _ := spanOf(t)
		times = append(times, from)
	}
	slices.Sort(times)
	times = slices.Compact(times)
	counted := map[string]bool{}
	for _, t := range tasks {
		j, n := &inst.Jobs[t.job], nodeOf(t.gpu)
		if matches(j.Only, n) != len(j.Only) || matches(j.Exclude, n) > 0 {
			return "node"
		}
		if j.DistinctNodes {
			key := fmt.Sprint(t.job, " ", t.round, " ", n.Name)
			if crowd[key] == nil {
				crowd[key] = map[string]bool{}
			}
			crowd[key][t.gpu] = true
			if int64(len(crowd[key])) > t.shape.TaskGPUs() {
				return "distinct"
			}
		}
		id := fmt.Sprint(t.gpu, " ", t.entry)
		if counted[id] {
			continue
		}
		counted[id] = true
		equal[fmt.Sprint(n.Name, " ", t.kind, " ", lane[t.gpu].Entry(t.entry))]++
		from, to := spanOf(t)
		for _, at := range times {
			if from <= at && at < to {
				// A task holds CPUs once. 6 is a multiple of every g of the tests.
				cpus[fmt.Sprint(n.Name, " ", at)] += j.CPUMilliPerTask * 6 / t.shape.TaskGPUs()
				memory[fmt.Sprint(n.Name, " ", at)] += j.MemoryMiBPerTask * 6 / t.shape.TaskGPUs()
			}
		}
	}
	for i := range inst.Cluster.Nodes {
		for _, at := range times {
			key := fmt.Sprint(inst.Cluster.Nodes[i].Name, " ", at)
			cpus[key] += 6 * run.tasks(inst, i, at, func(j *hare.Job) int64 { return j.CPUMilliPerTask })
			memory[key] += 6 * run.tasks(inst, i, at, func(j *hare.Job) int64 { return j.MemoryMiBPerTask })
		}
	}
	for _, t := range tasks {
		n := nodeOf(t.gpu)
		if equal[fmt.Sprint(n.Name, " ", t.kind, " ", lane[t.gpu].Entry(t.entry))]%t.shape.TaskGPUs() > 0 {
			return "task"
		}
		for _, at := range times {
			if n.CPUMilli > 0 && cpus[fmt.Sprint(n.Name, " ", at)] > 6*n.CPUMilli {
				return "cpus"
			}
			if n.MemoryMiB > 0 && memory[fmt.Sprint(n.Name, " ", at)] > 6*n.MemoryMiB {
				return "memory"
			}
		}
	}
	return ""
}

// tinyPlaced draws an instance with rules about nodes, and a schedule of it in runs of rounds
// that keeps the rules of time and often also those of nodes.
func tinyPlaced(t *rapid.T) (*hare.Instance, *hare.Schedule) {
	n := func(least, most int, what string) int64 { return int64(rapid.IntRange(least, most).Draw(t, what)) }
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	disks := []string{"hdd", "nvme"}
	type device struct {
		node, kind string
		free       int64
		lane       hare.Lane
	}
	var gpus []*device
	for i := range n(1, 3, "nodes") {
		node := hare.Node{Name: fmt.Sprint("n", i), CPUMilli: 1000 * n(0, 4, "cpus"), MemoryMiB: n(0, 4, "memory"),
			Labels: []hare.Label{{Name: "disk", Value: disks[n(0, 1, "disk")]}},
			GPUs:   []hare.TypeCount{{Type: "A", Count: int(n(1, 4, "gpus"))}}}
		if n(0, 2, "more") == 0 {
			node.GPUs = append(node.GPUs, hare.TypeCount{Type: "B", Count: int(n(1, 2, "gpus"))})
		}
		for _, g := range node.GPUs {
			for range g.Count {
				d := &device{node: node.Name, kind: g.Type}
				d.lane.GPU = fmt.Sprintf("%s/%d", node.Name, len(gpus))
				gpus = append(gpus, d)
			}
		}
		first := len(gpus) - int(node.GPUCount())
		for x, d := range gpus[first:] {
			d.lane.GPU = fmt.Sprintf("%s/%d", node.Name, x)
		}
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, node)
	}
	s := &hare.Schedule{}
	for i := range n(1, 4, "jobs") {
		j := hare.Job{ID: fmt.Sprint("j", i), WeightMicro: n(0, 3, "weight"), Rounds: n(1, 5, "rounds"),
			Tasks: n(1, 3, "tasks"), Sync: hare.Sync(n(0, 2, "sync")), GPUsPerTask: n(1, 3, "g"),
			CPUMilliPerTask: 1000 * n(0, 3, "cpus per task"), MemoryMiBPerTask: n(0, 3, "memory per task")}
		j.Mix = j.Sync == hare.Gang && rapid.Bool().Draw(t, "mix")
		j.DistinctNodes = j.Sync != hare.Relaxed && rapid.Bool().Draw(t, "distinct")
		switch n(0, 5, "selector") {
		case 0:
			j.Only = []hare.LabelValues{{Label: "disk", Values: []string{"nvme"}}}
		case 1:
			j.Exclude = []hare.LabelValues{{Label: "node", Values: []string{"n0", "n7"}}}
		}
		for _, kind := range []string{"A", "B"} {
			j.On = append(j.On, hare.Profile{Type: kind, ComputeUs: n(1, 4, "compute"), SyncUs: n(0, 3, "sync_us")})
		}
		inst.Jobs = append(inst.Jobs, j)
		s.Jobs = append(s.Jobs, j.ID)
		ready := int64(0)
		var on [][]*device // by task
		for done := int64(0); done < j.Rounds; {
			rounds := n(1, int(j.Rounds-done), "run")
			if j.Sync == hare.Rigid {
				rounds = j.Rounds
			}
			if on == nil || j.Sync != hare.Rigid {
				on = nil
				left := rapid.Permutation(gpus).Draw(t, "gpus of the run")
				for int64(len(on)) < j.Tasks && len(left) > 0 {
					d := left[0]
					var task, rest []*device
					for _, o := range left {
						if o.node == d.node && o.kind == d.kind && int64(len(task)) < j.GPUsPerTask {
							task = append(task, o)
						} else {
							rest = append(rest, o)
						}
					}
					left = rest
					if int64(len(task)) == j.GPUsPerTask &&
						(j.Sync == hare.Relaxed || j.Mix || len(on) == 0 || d.kind == on[0][0].kind) {
						on = append(on, task)
					}
				}
			}
			counts := make([]int64, len(on))
			for x := range j.Tasks {
				if j.Sync != hare.Relaxed && x < int64(len(on)) {
					counts[x] = 1
				} else if j.Sync == hare.Relaxed && len(on) > 0 {
					counts[n(0, len(on)-1, "group of the task")]++
				}
			}
			start, period := ready, int64(0)
			for x, task := range on {
				p := j.On[slices.IndexFunc(j.On, func(p hare.Profile) bool { return p.Type == task[0].kind })]
				period = max(period, counts[x]*p.ComputeUs+p.SyncUs)
				for _, d := range task {
					start = max(start, d.free)
				}
			}
			if j.Sync != hare.Rigid {
				period += n(0, 1, "slack")
			}
			start += n(0, 2, "later")
			for x, task := range on {
				for _, d := range task {
					if counts[x] == 0 {
						continue
					}
					d.lane.Job = append(d.lane.Job, int32(i))
					d.lane.Round = append(d.lane.Round, done)
					d.lane.Rounds = append(d.lane.Rounds, rounds)
					d.lane.Tasks = append(d.lane.Tasks, counts[x])
					d.lane.PeriodUs = append(d.lane.PeriodUs, period)
					d.lane.StartUs = append(d.lane.StartUs, start)
					d.free = start + rounds*period
				}
			}
			ready = start + rounds*period
			done += rounds
		}
	}
	for _, d := range gpus {
		s.Lanes = append(s.Lanes, d.lane)
	}
	return inst, s
}

// The check on runs agrees with the check task by task where nodes matter.
func TestPlacedScheduleAgreesWithPlainCheck(t *testing.T) {
	ok, refused := 0, map[string]int{}
	judge := func(t *rapid.T) {
		inst, s := tinyPlaced(t)
		for range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "mutations") {
			mutate(t, s)
		}
		why, want := plainCheck(inst, s)
		value, _, faults := verify.ScheduleValue(inst, s)
		if (why == "") != (len(faults) == 0) {
			t.Fatalf("task by task: %q, on runs: %v", why, faults)
		}
		if why != "" {
			refused[why]++
			return
		}
		ok++
		if value.Cmp(want) != 0 {
			t.Fatalf("value %v, want %v", value, want)
		}
	}
	for range 5 { // the checks are cheap
		rapid.Check(t, judge)
	}
	t.Logf("%d accepted, refused %v", ok, refused)
	for _, why := range []string{"task", "node", "distinct", "cpus", "memory"} {
		if refused[why] == 0 {
			t.Errorf("no schedule was refused for %q: %v", why, refused)
		}
	}
	if ok < 20 {
		t.Errorf("only %d schedules were accepted", ok)
	}
}
