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

// withAllFields is a plan on three racks, of which two have the same name in unlike zones. Job g is
// a gang that moves from one rack to two zones, r runs at time 0, and s changes its shape.
func withAllFields(t testing.TB) (*hare.Instance, *hare.Result) {
	t.Helper()
	inst, err := wire.DecodeInstance(strings.NewReader(`{"hare":"instance/v1","cluster":{"topology":["zone","rack"],
	  "nodes":[{"name":"a","gpus":{"A100":1},"labels":{"zone":"e","rack":"r1"}},
	    {"name":"b","gpus":{"A100":1},"labels":{"zone":"w","rack":"r1"}},
	    {"name":"c","gpus":{"A100":2},"labels":{"zone":"e","rack":"r1"}}],
	  "reservations":[{"nodes":{"node":"c"},"from_s":20,"until_s":90,"users":["ops"],"jobs":["s","r"]},
	    {"nodes":{"zone":"w"},"from_s":0,"until_s":5},{"from_s":500,"until_s":600}]},
	  "jobs":[
	    {"id":"g","sync":"gang","rounds":4,"tasks":2,"deadline_s":20,
	      "on":{"A100":{"compute_s":4,"sync_s":{"node":0,"rack":1,"any":2},"switch_s":3}}},
	    {"id":"r","sync":"rigid","on":{"A100":{"compute_s":15}},"progress":{"gpus":["b/0"],"elapsed_s":10}},
	    {"id":"s","sync":"gang","rounds":5,"reshape_s":1,"deadline_s":100,"shapes":[
	      {"tasks":1,"on":{"A100":{"compute_s":2,"switch_s":2}}},
	      {"tasks":1,"gpus_per_task":2,"counts":2,"on":{"A100":{"compute_s":3,"switch_s":2}}}]}]}`), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	// g does rounds 0 and 1 on a and c, and 2 and 3 on a and b, all with a period of 6 s on a.
	return inst, &hare.Result{Schedule: &hare.Schedule{Jobs: []string{"g", "s"}, Lanes: []hare.Lane{
		{GPU: "a/0", Job: []int32{0}, Rounds: []int64{4}, PeriodUs: []int64{6e6}, StartUs: []int64{3e6}},
		{GPU: "b/0", Job: []int32{0}, Round: []int64{2}, Rounds: []int64{2}, PeriodUs: []int64{6e6}, StartUs: []int64{15e6}},
		{GPU: "c/0", Job: []int32{0, 1, 1}, Round: []int64{0, 0, 1}, Rounds: []int64{2, 1, 2},
			PeriodUs: []int64{6e6, 2e6, 3e6}, StartUs: []int64{3e6, 30e6, 33e6}, Shape: []int64{0, 0, 1}},
		{GPU: "c/1", Job: []int32{1}, Round: []int64{1}, Rounds: []int64{2}, PeriodUs: []int64{3e6}, StartUs: []int64{33e6},
			Shape: []int64{1}},
	}}}
}

// Rounds take as long as their spread says, also where one entry has rounds of unlike spread.
func TestHoldsGoBySpread(t *testing.T) {
	inst, res := withAllFields(t)
	s, err := newScene(inst, res, "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range s.lanes {
		for _, sp := range s.lanes[i].spans {
			got = append(got, fmt.Sprintf("%s %s %d+%d from %d to %d, hold %d, sync %d, setup %d, %s", s.lanes[i].gpu,
				inst.Jobs[sp.job].ID, sp.round, sp.rounds, sp.startUs/1e6, sp.lastUs/1e6, sp.holdUs/1e6, sp.syncUs/1e6,
				sp.setupUs/1e6, s.spreadWords(sp.spread)))
		}
	}
	want := []string{
		"a/0 g 0+2 from 3 to 14, hold 5, sync 1, setup 3, one rack",
		"a/0 g 2+2 from 15 to 27, hold 6, sync 2, setup 0, any",
		"c/0 g 0+2 from 3 to 14, hold 5, sync 1, setup 3, one rack",
		"c/0 s 0+1 from 30 to 32, hold 2, sync 0, setup 2, one node",
		"c/0 s 1+2 from 33 to 39, hold 3, sync 0, setup 0, one node",
		"c/1 s 1+2 from 33 to 39, hold 3, sync 0, setup 2, one node",
		"b/0 r 0+1 from 0 to 5, hold 5, sync 0, setup 0, one node",
		"b/0 g 2+2 from 15 to 27, hold 6, sync 2, setup 3, any",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("spans\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := fmt.Sprint(s.nodes); got != "[{a [e r1] 0 0 1 []} {c [e r1] 0 1 2 [0]} {b [w r1] 0 3 1 [1]}]" {
		t.Errorf("nodes %s", got)
	}
	for job, want := range []string{"g: weight 1, 3 s to 27 s, spread: any, late by 7 s",
		"r: weight 1, 0 s to 5 s, spread: one node",
		"s: weight 1, 30 s to 39 s, shape 0 (1 task), shape 1 (1 task of 2 GPUs), spread: one node"} {
		if got := s.jobWords(int32(job)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := s.lateWords(); got != "late: g by 7 s" {
		t.Error(got)
	}
}

func TestAllFieldsAreDrawn(t *testing.T) {
	inst, res := withAllFields(t)
	svg := drawSVG(t, inst, res, Options{})
	wellFormed(t, svg)
	for text, times := range map[string]int{
		`<title>reserved for ops and jobs r, s</title>`: 1, // the third reservation begins after the end
		`<title>reserved, for no job</title>`:           1,
		`>reserved for ops and jobs r, s</text>`:        1,
		`>setup of the GPU</text>`:                      1,
		`>runs at time 0</text>`:                        1,
		`>after the deadline</text>`:                    1,
		`>reserved</text>`:                              1,
		`>late: g by 7 s</text>`:                        1,
		`>r1</text>`:                                    2, // one bracket for each zone
		`>e</text>`:                                     1,
		`url(#running)`:                                 2, // the work, and its sample
	} {
		if n := strings.Count(svg, text); n != times {
			t.Errorf("the picture has %q %d times, want %d", text, n, times)
		}
	}
	s, err := newScene(inst, res, "")
	if err != nil {
		t.Fatal(err)
	}
	opt, _ := Options{}.resolve()
	c := s.layout(opt, maxBars)
	// Job g is late from 20 s of 39 s on, on two GPUs.
	for _, o := range c.overdue {
		if at := (o.rule.x - c.plot.x) / c.plot.w * 39; at < 20-1e-6 || at > 27 {
			t.Errorf("a bar is overdue from %g s on", at)
		}
	}
	if len(c.overdue) == 0 {
		t.Error("no bar is overdue")
	}
	var b bytes.Buffer
	if err := PNG(&b, inst, res, Options{Scale: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(&b); err != nil {
		t.Error(err)
	}
	p := s.page()
	if fmt.Sprint(p.Levels) != "[node rack zone any]" || fmt.Sprint(p.Late) != "[0]" ||
		fmt.Sprint(p.Reserved) != "[[20000000 90000000 reserved for ops and jobs r, s] [0 5000000 reserved, for no job]]" {
		t.Errorf("levels %v, late %v, reserved %v", p.Levels, p.Late, p.Reserved)
	}
}

// A reservation of many names is described by the first ones, and only levels that are there
// group the rows.
func TestNamesOfReservationsAndRacks(t *testing.T) {
	r := &hare.Reservation{Users: []string{"a", "b", "c", "d", "e", "f"}, Jobs: []string{"x"}}
	if got := admitted(r); got != "reserved for a, b, c, d and 2 more and job x" {
		t.Error(got)
	}
	label := func(pairs ...string) (labels []hare.Label) {
		for i := 0; i < len(pairs); i += 2 {
			labels = append(labels, hare.Label{Name: pairs[i], Value: pairs[i+1]})
		}
		return labels
	}
	for want, c := range map[string]hare.Cluster{
		"[[] []]":   {Nodes: []hare.Node{{Name: "a"}, {Name: "b", Labels: label("disk", "nvme")}}},
		"[[r1] []]": {Nodes: []hare.Node{{Name: "a", Labels: label("x.io/rack", "r1")}, {Name: "b"}}},
		"[[eu/z1 r1] [us/z1 r2]]": {Topology: []string{"region", "zone", "rack"}, Nodes: []hare.Node{
			{Name: "a", Labels: label("rack", "r1", "region", "eu", "zone", "z1")},
			{Name: "b", Labels: label("rack", "r2", "region", "us", "zone", "z1")}}},
	} {
		if got := fmt.Sprint(racksOf(&c)); got != want {
			t.Errorf("racks %s, want %s", got, want)
		}
	}
}
