package place

import (
	"context"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/trace"
)

// countdown is a context that ends after a number of checks.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// If a pass is interrupted at any point, the ends that the plan states are those of its blocks.
func TestJustifyMayBeCutAnywhere(t *testing.T) {
	inst, err := trace.Generate(trace.GenerateConfig{Jobs: 30, GPUs: []hare.TypeCount{{Type: "V100", Count: 5},
		{Type: "K80", Count: 3}}, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	m := model.New(inst)
	start, err := Assign(t.Context(), m, Order(m, nil, "wspt"), Insertion)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range 61 {
		b := NewRunResidual(m, make([]bool, len(m.Jobs)))
		p := start.FromUnits(1)
		for i := range p.Jobs {
			for x := range p.Jobs[i] {
				b.Reserve(&p.Jobs[i][x])
			}
		}
		b.Justify(&countdown{t.Context(), cut}, p)
		for i := range p.Jobs {
			if end := b.endOf(&m.Jobs[i], p.Jobs[i]); end != p.EndUs[i] {
				t.Fatalf("cut after %d looks: job %d ends at %d, the plan says %d", cut, i, end, p.EndUs[i])
			}
			if p.EndUs[i] > start.EndUs[i] {
				t.Fatalf("cut after %d looks: job %d ends later than before", cut, i)
			}
		}
	}
}
