package policies_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hare-sched/hare/internal/testing/transcript"
	"github.com/hare-sched/hare/online/market"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
)

// Settings change how jobs are placed, and each setting gives runs that end.
func TestSamplingSettings(t *testing.T) {
	inst := transcript.Instance("nodes a=2A b=4B")
	for i := range 12 {
		transcript.Add(inst, strings.Fields(fmt.Sprintf("jobs j%d relaxed %dx%d A:%d B:%d at=%.1f", i, 2+i%5, 2+i%4, 1+i%3,
			2+i%5, .7*float64(i))))
	}
	info, _ := policies.Find("sampling")
	for _, cfg := range []policies.SamplingConfig{
		{}, {OnlyPlaced: true}, {WholeRounds: true}, {Market: market.Config{Drawing: market.Uniform, Draws: 3}},
		{Market: market.Config{Valuation: market.Throughput, Skip: -1}},
	} {
		p := fresh(t, info, inst, policies.Config{Sampling: cfg})
		if _, err := sim.Run(t.Context(), inst, p, sim.Config{}); err != nil {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	session, _ := info.Session()
	for _, c := range []struct{ parameters, want string }{
		{`{"draws": 8, "skip": 0, "drawing": "uniform", "valuation": "throughput", "only_placed": true}`, ""},
		{`{"draws": 0}`, "/draws: sampling: draws is 0"},
		{`{"skip": 1}`, "/skip: sampling: skip is 1"},
		{`{"drawing": "far"}`, `/drawing: sampling: drawing is "far"`},
		{`{"valuation": "x"}`, `/valuation: sampling: valuation is "x"`},
		{`{"n": 1}`, "/n"},
	} {
		_, err := session.Open(&inst.Cluster, []byte(c.parameters))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.parameters, err, c.want)
		}
	}
}
