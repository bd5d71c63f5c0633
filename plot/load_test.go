package plot

import (
	"bytes"
	"compress/gzip"
	"container/heap"
	"encoding/xml"
	"io"
	"os"
	"strings"
	"testing"

	hare "github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/wire"
)

func load(t testing.TB, instance, result string) (*hare.Instance, *hare.Result) {
	t.Helper()
	return loadFrom(t, "../testdata/examples/", instance, result)
}

func loadFrom(t testing.TB, folder, instance, result string) (*hare.Instance, *hare.Result) {
	t.Helper()
	inst := loadInstance(t, folder+instance)
	f, err := os.ReadFile(folder + result)
	if err != nil {
		t.Fatal(err)
	}
	res, err := wire.DecodeResult(bytes.NewReader(f), wire.Limits{})
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
	inst, err := wire.DecodeInstance(r, wire.Limits{})
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

func (rq *ready) Len() int { return len(rq.at) }
func (rq *ready) Less(a, b int) bool {
	return rq.at[a] < rq.at[b] || rq.at[a] == rq.at[b] && rq.job[a] < rq.job[b]
}
func (rq *ready) Swap(a, b int) {
	rq.at[a], rq.at[b] = rq.at[b], rq.at[a]
	rq.job[a], rq.job[b] = rq.job[b], rq.job[a]
}
func (rq *ready) Push(any) {}
func (rq *ready) Pop() any {
	n := len(rq.at) - 1
	x := [2]int64{rq.at[n], int64(rq.job[n])}
	rq.at, rq.job = rq.at[:n], rq.job[:n]
	return x
}

// listSchedule returns a plain list schedule of relaxed jobs, task by task on the GPU
// that ends the task first, as a large schedule to draw.
func listSchedule(inst *hare.Instance) *hare.Result {
	m := model.New(inst)
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
	next := make([]int, len(m.Types)) // a rotating index: the GPUs of a type become free about in turn
	for q.Len() > 0 {
		x := heap.Pop(q).([2]int64)
		at, j := x[0], int(x[1])
		job := &m.Jobs[j]
		var end int64
		for range job.Tasks {
			best, bestEnd, bestMode := -1, int64(0), model.Mode{}
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

func drawSVG(t testing.TB, inst *hare.Instance, res *hare.Result, opt Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := SVG(&b, inst, res, opt); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// wellFormed reads XML to its end.
func wellFormed(t testing.TB, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
