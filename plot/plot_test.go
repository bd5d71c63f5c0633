package plot

import (
	"bytes"
	"compress/gzip"
	"container/heap"
	"io"
	"os"
	"strings"
	"testing"

	hare "github.com/hare-sched/hare"
)

func load(t testing.TB, instance, result string) (*hare.Instance, *hare.Result) {
	t.Helper()
	inst := loadInstance(t, "../testdata/examples/"+instance)
	f, err := os.ReadFile("../testdata/examples/" + result)
	if err != nil {
		t.Fatal(err)
	}
	res, err := hare.DecodeResult(bytes.NewReader(f), hare.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return inst, res
}

func loadInstance(t testing.TB, file string) *hare.Instance {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(file, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	inst, err := hare.DecodeInstance(r, hare.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return inst
}

// ready is a queue of jobs whose next round may start.
type ready struct {
	at  []int64
	job []int
}

func (q *ready) Len() int { return len(q.at) }
func (q *ready) Less(a, b int) bool {
	return q.at[a] < q.at[b] || q.at[a] == q.at[b] && q.job[a] < q.job[b]
}
func (q *ready) Swap(a, b int) {
	q.at[a], q.at[b] = q.at[b], q.at[a]
	q.job[a], q.job[b] = q.job[b], q.job[a]
}
func (q *ready) Push(any) {}
func (q *ready) Pop() any {
	n := len(q.at) - 1
	x := [2]int64{q.at[n], int64(q.job[n])}
	q.at, q.job = q.at[:n], q.job[:n]
	return x
}

// listSchedule is a plain schedule of relaxed jobs, task by task on the GPU
// that ends it first, to have something large to draw.
func listSchedule(inst *hare.Instance) *hare.Result {
	m := hare.NewModel(inst)
	free := make([]int64, len(m.GPUs))
	byType := make([][]int, len(m.Types))
	for i, g := range m.GPUs {
		byType[g.Type] = append(byType[g.Type], i)
	}
	lanes := make([]hare.Lane, len(m.GPUs))
	for i, g := range m.GPUs {
		lanes[i].GPU = g.ID
	}
	q := &ready{}
	round := make([]int64, len(m.Jobs))
	for j := range m.Jobs {
		q.at, q.job = append(q.at, m.Jobs[j].ReleaseUs), append(q.job, j)
	}
	heap.Init(q)
	ids := make([]string, len(m.Jobs))
	for i := range ids {
		ids[i] = inst.Jobs[i].ID
	}
	next := make([]int, len(m.Types)) // rotating pointer: GPUs of a type free up about in turn
	for q.Len() > 0 {
		x := heap.Pop(q).([2]int64)
		at, j := x[0], int(x[1])
		job := &m.Jobs[j]
		var end int64
		for range job.Tasks {
			best, bestEnd, bestMode := -1, int64(0), hare.Mode{}
			for _, mode := range job.Modes {
				list := byType[mode.Type]
				for k := range min(8, len(list)) {
					g := list[(next[mode.Type]+k)%len(list)]
					if e := max(at, free[g]) + mode.DurationUs(); best < 0 || e < bestEnd {
						best, bestEnd, bestMode = g, e, mode
					}
				}
			}
			l := &lanes[best]
			l.Job = append(l.Job, int32(j))
			l.Round = append(l.Round, round[j])
			l.StartUs = append(l.StartUs, bestEnd-bestMode.DurationUs())
			free[best] = bestEnd - bestMode.SyncUs
			next[bestMode.Type]++
			end = max(end, bestEnd)
		}
		if round[j]++; round[j] < job.Rounds {
			q.at, q.job = append(q.at, end), append(q.job, j)
			heap.Fix(q, q.Len()-1)
		}
	}
	return &hare.Result{Schedule: &hare.Schedule{Jobs: ids, Lanes: lanes}}
}
