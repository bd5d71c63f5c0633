package sim_test

import (
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim"
)

// Two jobs on a V100 and two K80. a runs from 0 to 10 s, b waits 2 s and ends at 20 s after twice its time alone.
func TestNewMetricsByHand(t *testing.T) {
	m := sim.NewMetrics([]sim.JobTimes{
		{ID: "a", Weight: 1, StartS: 0, EndS: 10, AloneS: 10, WorkS: 10, Counts: true},
		{ID: "b", Weight: 3, ArrivalS: 2, StartS: 4, EndS: 20, AloneS: 9, WorkS: 18, Counts: true},
		{ID: "c", Weight: 9, ArrivalS: 3, StartS: 3, EndS: 5, AloneS: 2, WorkS: 2},
	}, []float64{10, 10}, []hare.TypeCount{{Type: "K80", Count: 2}, {Type: "V100", Count: 1}})
	if m.Jobs != 2 || m.MeanJCTS != 14 || m.WeightedMeanJCTS != 16 || m.MakespanS != 20 || m.TotalS != 20 ||
		m.MeanSlowdown != 1.5 || m.MeanWaitS != 1 || m.Use[0].Use != .25 || m.Use[1].Use != .5 ||
		m.Utilization != 20./60 || len(m.Each) != 3 || m.Each[2].JCTS != 2 {
		t.Errorf("%+v", m)
	}
}
