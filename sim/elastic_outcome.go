package sim

import "slices"

// ElasticOutcome is what came of a run of RunElastic. Means are over the jobs of
// the window; 0 without any.
type ElasticOutcome struct {
	Counted          int
	MeanJCTS         float64 // mean of end − arrival
	WeightedJCTS     float64 // the same, weighted
	P50S, P90S, P99S float64 // of end − arrival, nearest rank
	MeanWaitS        float64 // first GPUs − arrival
	// MakespanS is the last end of a job of the window, TotalS the end of the
	// interval in which it was.
	MakespanS, TotalS float64
	// Utilization is GPU-seconds held by jobs that had not ended over those there
	// were up to TotalS, restarts included.
	Utilization float64
	Intervals   int64 // in which the policy was asked
	// Starts are grants of GPUs that a job did not hold just so before; each costs
	// a restart. Preemptions are jobs that held GPUs and lost or changed them.
	Starts, Preemptions int64
	LostS               float64 // GPU-seconds held in restarts
	Jobs                []ElasticRecord
}

// ElasticRecord is one job of a run, by number. EndS is below 0 where the job
// had not ended when the run did, StartS where it had held nothing.
type ElasticRecord struct {
	ID                     string
	ArrivalS, StartS, EndS float64
	Epochs                 int   // that it finished
	Restarts               int64 // grants of other GPUs, after the first
	Preemptions            int64
}

func (e *elasticEngine) outcome() *ElasticOutcome {
	o := &ElasticOutcome{
		Counted: e.counted, TotalS: float64(e.nowS), Intervals: e.intervals,
		Starts: e.moves, Preemptions: e.stops, LostS: e.lostS,
	}
	var jcts []float64
	var sum, weighted, weights, waits float64
	for i := range e.jobs[:e.arrived] {
		j, spec := &e.jobs[i], &e.specs[i]
		o.Jobs = append(o.Jobs, ElasticRecord{spec.ID, spec.ArrivalS, float64(j.startS), float64(j.endS), j.epoch, j.restarts, j.preemptions})
		if i < e.cfg.First || i > e.cfg.Last {
			continue
		}
		jct := float64(j.endS) - spec.ArrivalS
		jcts = append(jcts, jct)
		sum += jct
		weighted += spec.Weight * jct
		weights += spec.Weight
		waits += float64(j.startS) - spec.ArrivalS
		o.MakespanS = max(o.MakespanS, float64(j.endS))
	}
	if n := float64(len(jcts)); n > 0 {
		o.MeanJCTS, o.WeightedJCTS, o.MeanWaitS = sum/n, weighted/weights, waits/n
	}
	slices.Sort(jcts)
	o.P50S, o.P90S, o.P99S = percentile(jcts, .5), percentile(jcts, .9), percentile(jcts, .99)
	gpus := 0
	for _, n := range e.cluster.Nodes {
		gpus += n
	}
	o.Utilization = e.busyS / o.TotalS / float64(gpus)
	return o
}
