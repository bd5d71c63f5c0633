package elastic

import (
	"math"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim"
)

// Outcome is the result of Run; Metrics has its figures of jobs.
type Outcome struct {
	Counted  int
	MeanJCTS float64 // mean of end − arrival over the jobs of the window
	// MakespanS is the last end of a job of the window, TotalS the end of the
	// interval that contains MakespanS.
	MakespanS, TotalS float64
	// Utilization is the GPU-seconds that jobs held before they ended, restarts
	// included, over the GPU-seconds of the cluster up to TotalS.
	Utilization float64
	Intervals   int64 // intervals in which the policy was asked
	// Starts counts allocations that differ from what the job held before; each costs a
	// restart. Preemptions counts how often a job that held GPUs lost or changed them.
	Starts, Preemptions int64
	LostS               float64 // GPU-seconds held in restarts
	Jobs                []Record

	first, last int // first and last number of the jobs that count
}

// Record is one job of a run. EndS is below 0 where the job had not ended when
// the run ended, StartS where the job had never held a GPU.
type Record struct {
	ID                     string
	ArrivalS, StartS, EndS float64
	Epochs                 int   // epochs that the job finished
	Restarts               int64 // changes of GPUs after the first allocation
	Preemptions            int64
}

func (ee *elasticEngine) outcome() *Outcome {
	o := &Outcome{
		Counted: ee.counted, TotalS: float64(ee.nowS), Intervals: ee.intervals,
		Starts: ee.moves, Preemptions: ee.stops, LostS: ee.lostS, first: ee.cfg.First, last: ee.cfg.Last,
	}
	for i := range ee.jobs[:ee.arrived] {
		j, spec := &ee.jobs[i], &ee.specs[i]
		o.Jobs = append(o.Jobs, Record{spec.ID, spec.ArrivalS, float64(j.startS), float64(j.endS), j.epoch,
			j.restarts, j.preemptions})
		if i >= ee.cfg.First && i <= ee.cfg.Last {
			o.MeanJCTS += (float64(j.endS) - spec.ArrivalS)
			o.MakespanS = max(o.MakespanS, float64(j.endS))
		}
	}
	o.MeanJCTS /= float64(o.Counted)
	gpus := 0
	for _, n := range ee.cluster.Nodes {
		gpus += n
	}
	o.Utilization = ee.busyS / o.TotalS / float64(gpus)
	return o
}

// Metrics computes the figures of a run of jobs on c. A job's least time is its time
// at the best width up to the greater of MaxGPUs and GPUs, on as few nodes as
// possible; its work is the least GPU-seconds of any width. Both leave restarts out.
// Widths that were not measured are skipped. The cost is O(jobs log jobs), and for each
// training and batch O(GPUs × epochs) and the look-up of step times.
func (eo *Outcome) Metrics(c Cluster, jobs []Job) *sim.Metrics {
	x := &sim.Metrics{
		TotalS: eo.TotalS, Utilization: eo.Utilization, Switches: eo.Starts, SwitchS: eo.LostS, Preemptions: eo.Preemptions,
		Use: []hare.TypeUse{{Type: c.GPUType, Use: eo.Utilization}},
	}
	type key struct {
		training    Training
		batch, gpus int
	}
	known := map[key][2]float64{}
	gpus, perNode := 0, 0
	for _, n := range c.Nodes {
		gpus += n
		perNode = max(perNode, n)
	}
	for i := range eo.Jobs {
		j, spec := &eo.Jobs[i], &jobs[i]
		f := sim.JobFigures{
			ID: j.ID, Weight: spec.Weight, ArrivalS: j.ArrivalS, StartS: j.StartS, EndS: j.EndS,
			Preemptions: j.Preemptions, Counts: i >= eo.first && i <= eo.last, FromS: j.ArrivalS, UntilS: eo.TotalS,
		}
		if j.EndS >= 0 {
			f.UntilS, f.JCTS = j.EndS, j.EndS-j.ArrivalS
		}
		if j.StartS >= 0 {
			f.WaitS = j.StartS - j.ArrivalS
		}
		k := key{spec.Training, spec.Batch, min(gpus, max(spec.MaxGPUs, spec.GPUs))}
		least, ok := known[k]
		if !ok {
			least = leastTimes(spec, k.gpus, perNode)
			known[k] = least
		}
		f.AloneS, f.WorkS = least[0], least[1]
		x.Each = append(x.Each, f)
	}
	x.Fill(float64(gpus))
	return x
}

// leastTimes returns a job's least time and least GPU-seconds on up to gpus GPUs.
func leastTimes(j *Job, gpus, perNode int) [2]float64 {
	least := [2]float64{math.Inf(1), math.Inf(1)}
	for n := 1; n <= gpus; n++ {
		local, passes := j.Split(n)
		var placement []int
		for left := n; left > 0; left -= perNode {
			placement = append(placement, min(left, perNode))
		}
		stepS, syncS, err := j.Training.Step(placement, local)
		if err != nil {
			continue
		}
		stepS += (stepS - syncS) * float64(passes-1)
		steps, at := 0.0, 0.0
		for epoch := range j.Epochs {
			gain, end, _, err := j.Training.Epoch(n*local*passes, epoch)
			if err != nil {
				steps = math.Inf(1)
				break
			}
			steps += (end - at) / gain
			at = end
		}
		least[0] = min(least[0], steps*stepS)
		least[1] = min(least[1], steps*stepS*float64(n))
	}
	return least
}
