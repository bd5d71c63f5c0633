package policies

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/transcript"
	"github.com/hare-sched/hare/online/list"
	"github.com/hare-sched/hare/online/market"
)

// ringCluster is a node of four GPUs and one of two, with 25 Gb/s between nodes and 300 inside.
func ringCluster() *hare.Cluster {
	c := transcript.Cluster("a=4A b=2A")
	c.Bandwidths = []hare.LevelBandwidth{{Level: "any", Mbps: 25000}, {Level: "node", Mbps: 300000}}
	return c
}

// The ring of all tasks of a job takes what its synchronisation takes, by package market, and that of two of four
// tasks takes 1/2 over 3/4 of it; on one node it is twelve times as fast.
func TestSamplingRing(t *testing.T) {
	s := &sampling{cfg: SamplingConfig{Ring: true}}
	if err := s.readRing(ringCluster()); err != nil {
		t.Fatal(err)
	}
	if want := (&samplingRing{300e9 / 8, 25e9 / 8, map[string]int{"A": 4}}); !reflect.DeepEqual(s.ring, want) {
		t.Errorf("%+v", s.ring)
	}
	j := &hare.Job{Tasks: 4}
	m := &list.Mode{ComputeUs: 1e6, DurationUs: 4e6}
	p := &market.Problem{Classes: []market.Class{{Workers: 6, PerNode: 1, InsideBps: s.ring.InsideBps,
		BetweenBps: s.ring.BetweenBps}}, Jobs: []market.Job{{Weight: 1, Iterations: 1, Samples: 4, Rate: []float64{1},
		Bytes: s.ring.bytes(j, m)}}}
	for _, c := range []struct {
		perNode, gpus int
		wantS         float64
	}{{1, 4, 1 + 3}, {1, 2, 2 + 2}, {1, 1, 4}, {4, 4, 1 + .25}} {
		p.Classes[0].PerNode = c.perNode
		if got := p.JCT(0, []int{c.gpus}); math.Abs(got-c.wantS) > 1e-9 {
			t.Errorf("%d GPUs, %d a node: %v s, by hand %v", c.gpus, c.perNode, got, c.wantS)
		}
	}
	for name, none := range map[string]float64{
		"a gang":             s.ring.bytes(&hare.Job{Tasks: 4, Sync: hare.Gang}, m),
		"a task":             s.ring.bytes(&hare.Job{Tasks: 1}, m),
		"no synchronisation": s.ring.bytes(j, &list.Mode{ComputeUs: 1, DurationUs: 1}),
		"no ring":            (*samplingRing)(nil).bytes(j, m),
	} {
		if none != 0 {
			t.Errorf("%s exchanges %v bytes", name, none)
		}
	}
}

// A session whose cluster says nothing of bandwidths between nodes is refused, and the ring is in the snapshot.
func TestSamplingRingInSessions(t *testing.T) {
	info, _ := Find("sampling")
	session, _ := info.Session()
	parameters := []byte(`{"ring": true}`)
	for _, c := range []*hare.Cluster{{Nodes: ringCluster().Nodes}, {Nodes: ringCluster().Nodes,
		Bandwidths: []hare.LevelBandwidth{{Level: "node", Mbps: 1}}}} {
		_, err := session.Open(c, parameters)
		var fault *hare.InvalidError
		if !errors.As(err, &fault) || fault.Pointer != "/ring" || !strings.Contains(fault.Detail, "bandwidth_gbps") {
			t.Errorf("%+v: %v", c.Bandwidths, err)
		}
	}
	p, err := session.Open(ringCluster(), parameters)
	if err != nil {
		t.Fatal(err)
	}
	arrive := func(seq int64, id string, syncUs int64) []hare.Event {
		return []hare.Event{{Seq: seq, Type: hare.EventJobArrived, Job: id, Arrived: &hare.Job{ID: id, WeightMicro: 1e6,
			Tasks: 6, On: []hare.Profile{{Type: "A", ComputeUs: 1e6, SyncUs: syncUs}}}}}
	}
	if _, err := p.Step(0, arrive(1, "x", 9e6)); err != nil {
		t.Fatal(err)
	}
	snapshot := p.AppendSnapshot(nil)
	if !strings.Contains(string(snapshot), `"between_bps":3125000000`) {
		t.Fatal(string(snapshot))
	}
	q, err := session.Restore(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	one, err := p.Step(0, arrive(2, "y", 0))
	if err != nil {
		t.Fatal(err)
	}
	other, err := q.Step(0, arrive(2, "y", 0))
	if again := q.AppendSnapshot(nil); err != nil || fmt.Sprint(one) != fmt.Sprint(other) ||
		!strings.Contains(string(again), `"between_bps":3125000000`) {
		t.Errorf("%+v after a restart, %+v without: %v\n%s", other, one, err, q.AppendSnapshot(nil))
	}
	bad := strings.Replace(string(snapshot), `"between_bps":3125000000`, `"between_bps":-125000000`, 1)
	if _, err := session.Restore([]byte(bad)); err == nil {
		t.Error("an altered snapshot was restored")
	}
}
