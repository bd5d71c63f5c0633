package advice_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/adapters/advice"
	"github.com/hare-sched/hare/history"
)

// A long job and two short ones wait for two GPUs of unlike types.
func Example() {
	speeds := history.ShippedSpeeds()
	types := []string{"T4", "V100"}
	now := &advice.State{
		NowUs: 1_800_000_000e6,
		Nodes: []advice.Node{
			{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 1}}},
			{Name: "b", GPUs: []hare.TypeCount{{Type: "T4", Count: 1}}},
		},
	}
	for _, j := range []struct {
		id       string
		v100, t4 int64 // seconds
	}{{"long", 900, 1800}, {"short", 10, 60}, {"medium", 30, 40}} {
		job := &history.Job{ID: j.id, GPUs: 1, Seconds: []history.TypeSeconds{{Type: "T4", Us: j.t4 * 1e6},
			{Type: "V100", Us: j.v100 * 1e6}}}
		now.Jobs = append(now.Jobs, advice.Job{Spec: advice.Spec(job, types, speeds)})
	}
	session := &advice.Session{Advisor: &advice.InProcess{}, Logger: slog.New(slog.DiscardHandler)}
	plan, err := session.Plan(context.Background(), now)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range session.Order(plan) {
		fmt.Println(p.Place, p.ID, p.Types, p.StartS, p.Now)
	}
	// Output:
	// 1 short [V100] 0 true
	// 2 medium [T4] 0 true
	// 3 long [V100] 10 false
}
