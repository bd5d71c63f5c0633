package plot

import (
	"bytes"
	"fmt"
	"image/png"
	"strings"
	"testing"

	hare "github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// onNodes is a plan on two racks of A100s and a node of two types: a gang of two tasks of
// 4 GPUs, and a job of single GPUs.
func onNodes(t testing.TB) (*hare.Instance, *hare.Result) {
	t.Helper()
	inst, err := wire.DecodeInstance(strings.NewReader(`{"hare":"instance/v1","cluster":{"nodes":[
	  {"name":"a","gpus":{"A100":4},"labels":{"rack":"r2"}},
	  {"name":"b","gpus":{"A100":4},"labels":{"topology.kubernetes.io/rack":"r1"}},
	  {"name":"c","gpus":{"A100":2,"T4":1},"labels":{"rack":"r2"}}]},
	  "jobs":[{"id":"wide","sync":"gang","tasks":2,"gpus_per_task":4,"on":{"A100":{"compute_s":8,"sync_s":2}}},
	    {"id":"one","sync":"rigid","tasks":2,"on":{"A100":{"compute_s":10}}}]}`), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	res := &hare.Result{Schedule: &hare.Schedule{Jobs: []string{"wide", "one"}}}
	for gpu, job := range map[string]int32{"a/0": 0, "a/1": 0, "a/2": 0, "a/3": 0, "b/0": 0, "b/1": 0, "b/2": 0, "b/3": 0,
		"c/0": 1, "c/1": 1} {
		res.Schedule.Lanes = append(res.Schedule.Lanes, hare.Lane{GPU: gpu, Job: []int32{job}, StartUs: []int64{0}})
	}
	return inst, res
}

func TestNodesAreGrouped(t *testing.T) {
	inst, res := onNodes(t)
	s, err := newScene(inst, res, "")
	if err != nil {
		t.Fatal(err)
	}
	// Racks are in the order of their first nodes, and nodes of a rack are together.
	want := "[{a [r2] 0 0 4 []} {c [r2] 0 4 2 []} {b [r1] 0 6 4 []} {c [r2] 1 10 1 []}]"
	if got := fmt.Sprint(s.nodes); got != want {
		t.Errorf("nodes %s, want %s", got, want)
	}
	opt, _ := Options{}.resolve()
	c := s.layout(opt, maxBars)
	var blocks []string
	for i := range c.rows {
		for _, b := range c.rows[i].bars {
			if b.rows != inBlock {
				_, h := c.block(i, &b)
				blocks = append(blocks, fmt.Sprint(i, " ", inst.Jobs[b.job].ID, " ", b.tone == syncTone, " ", h))
			}
		}
	}
	// A row is 22 pixels high, and a bar 18. A task of four GPUs is one block.
	want = "0 wide false 84|0 wide true 84|4 one false 18|5 one false 18|6 wide false 84|6 wide true 84"
	if got := strings.Join(blocks, "|"); got != want {
		t.Errorf("blocks %s, want %s", got, want)
	}
	var names []string
	for _, b := range c.brackets {
		names = append(names, fmt.Sprintf("%s %g", b.label.s, b.h))
	}
	want = "r2 134|r1 88|r2 22|a 88|c 44|b 88|c 22"
	if got := strings.Join(names, "|"); got != want {
		t.Errorf("brackets %s, want %s", got, want)
	}
	svg := drawSVG(t, inst, res, Options{})
	if n := strings.Count(svg, ">wide</text>"); n != 3 {
		t.Errorf("the name of the gang is %d times in the picture, want once for each block and once in the legend", n)
	}
	var b bytes.Buffer
	if err := PNG(&b, inst, res, Options{Scale: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(&b); err != nil {
		t.Error(err)
	}
	p := s.page()
	if got := fmt.Sprint(p.Nodes); got != "[[a [r2] 4 []] [c [r2] 2 []] [b [r1] 4 []] [c [r2] 1 []]]" {
		t.Errorf("the page has the nodes %s", got)
	}
	if got := fmt.Sprint(p.Jobs[0]); got != "[wide 1 gang 1 2 0 0 10000000 {4 0 [] <nil> }]" {
		t.Errorf("the page has the job %s", got)
	}
}

// Of a large cluster, whole nodes are drawn.
func TestNodesAreSampled(t *testing.T) {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT, Jobs: []hare.Job{{ID: "j", WeightMicro: 1e6, Rounds: 1,
		Tasks: 1, GPUsPerTask: 8, On: []hare.Profile{{Type: "V100", ComputeUs: 1e6}}}}}
	for n := range 100 {
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, hare.Node{Name: fmt.Sprint("n-", n),
			GPUs: []hare.TypeCount{{Type: "V100", Count: 8}}})
	}
	res := &hare.Result{Schedule: &hare.Schedule{Jobs: []string{"j"}}}
	s, err := newScene(inst, res, "")
	if err != nil {
		t.Fatal(err)
	}
	opt, _ := Options{}.resolve()
	c := s.layout(opt, maxBars)
	if len(c.rows) != 400 || !strings.HasSuffix(c.size, "one node in 2 is drawn") {
		t.Errorf("%d rows, %q", len(c.rows), c.size)
	}
}
