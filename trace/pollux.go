package trace

import (
	"math/big"
	"slices"
	"strconv"
	"strings"

	hare "github.com/hare-sched/hare"
)

// polluxGPUHours are the assumed sizes of jobs, because the workload has none. The Pollux
// paper (OSDI 2021, section 5.1) puts each application into one category of GPU time: small
// with 0–1, medium with 1–10, large with 10–100 and extra-large with 100–1000 GPU-hours. The
// assumed sizes are about the geometric means of the limits of the categories.
var polluxGPUHours = map[string]*big.Rat{
	"cifar10":     big.NewRat(3, 10),
	"ncf":         big.NewRat(3, 10),
	"bert":        big.NewRat(3, 1),
	"deepspeech2": big.NewRat(3, 1),
	"yolov3":      big.NewRat(30, 1),
	"imagenet":    big.NewRat(300, 1),
}

// polluxStep is a measured step at one placement.
type polluxStep struct {
	nodes, localBatch int64
	stepNs, computeNs int64
}

type polluxKey struct {
	application string
	replicas    int64
}

// Pollux reads a Pollux workload (name, time, application, num_replicas, batch_size) and step
// times that were measured on T4s (application, num_nodes, num_replicas, local_batch,
// step_time_s, sync_time_s). The step time of a job is the one measured with the job's number
// of replicas, on the fewest nodes, at the nearest batch per GPU. A batch larger than any
// measured batch is accumulated over several passes. The default cluster is Pollux's, with 16
// nodes of 4 T4s.
func Pollux(workload, steps Source, cfg Config) (*hare.Instance, *Report, error) {
	cfg, err := cfg.resolve("pollux", workload, "gang", "")
	if err != nil {
		return nil, nil, err
	}
	cluster := clusterOf(cfg.GPUs)
	if cfg.GPUs == nil {
		cluster = nodesOf("node", 16, hare.TypeCount{Type: "T4", Count: 4})
	} else if err := requireTypes(cfg.GPUs, []string{"T4"}, "the step times"); err != nil {
		return nil, nil, err
	}
	measured, err := readPolluxSteps(steps)
	if err != nil {
		return nil, nil, err
	}
	t, err := newTable(workload, "name", "time", "application", "num_replicas", "batch_size")
	if err != nil {
		return nil, nil, err
	}
	b := newBuilder("pollux", workload, cfg, cluster)
	for {
		if ok, err := b.next(t); err != nil {
			return nil, nil, err
		} else if !ok {
			break
		}
		if err := b.polluxRow(t, measured); err != nil && !b.aside(err) {
			return nil, nil, err
		}
	}
	b.rep.Measured = "step and synchronisation times on T4s by replicas and batch; the workload's arrivals, " +
		"applications, replicas and batch sizes"
	b.rep.Assumed = []string{
		"sizes: the workload has no step counts; cifar10 and ncf jobs take 0.3 GPU-hours, bert and deepspeech2 3, " +
			"yolov3 30, imagenet 300 (the middles of the paper's categories)",
		"jobs run on the fewest nodes measured and keep their replicas and batch size (Pollux changes both)",
		"weights are 1",
	}
	return b.finish(t)
}

// nodesOf returns n nodes with the same GPUs, named name-0 and so on.
func nodesOf(name string, n int, gpus hare.TypeCount) hare.Cluster {
	var c hare.Cluster
	for i := range n {
		c.Nodes = append(c.Nodes, hare.Node{Name: name + "-" + strconv.Itoa(i), GPUs: []hare.TypeCount{gpus}})
	}
	return c
}

// readPolluxSteps keeps, for each application and number of replicas, the rows with the
// fewest nodes, and of these the quickest of each batch, sorted by batch.
func readPolluxSteps(src Source) (map[polluxKey][]polluxStep, error) {
	t, err := newTable(src, "application", "num_nodes", "num_replicas", "local_batch", "step_time_s", "sync_time_s")
	if err != nil {
		return nil, err
	}
	out := map[polluxKey][]polluxStep{}
	for {
		if ok, err := t.next(); err != nil {
			return nil, err
		} else if !ok {
			break
		}
		key := polluxKey{application: strings.Clone(t.text("application"))}
		if polluxGPUHours[key.application] == nil {
			return nil,
				t.errorAt("application", "unknown model %q; known are bert, cifar10, deepspeech2, imagenet, ncf "+
					"and yolov3",
					truncate(key.application))
		}
		var s polluxStep
		var syncNs int64
		for _, f := range []struct {
			column string
			to     *int64
			digits int
		}{
			{"num_replicas", &key.replicas, 0}, {"num_nodes", &s.nodes, 0}, {"local_batch", &s.localBatch, 0},
			{"step_time_s", &s.stepNs, 9}, {"sync_time_s", &syncNs, 9},
		} {
			if *f.to, err = t.decimal(f.column, f.digits); err != nil {
				return nil, err
			}
			if *f.to == 0 && f.column != "sync_time_s" {
				return nil, t.errorAt(f.column, "must be positive")
			}
		}
		if s.computeNs = s.stepNs - syncNs; s.computeNs <= 0 {
			return nil, t.errorAt("sync_time_s", "leaves no compute time in a step of %s s", t.text("step_time_s"))
		}
		out[key] = keepStep(out[key], s)
	}
	for _, steps := range out {
		slices.SortFunc(steps, func(a, b polluxStep) int { return int(a.localBatch - b.localBatch) })
	}
	return out, nil
}

func keepStep(steps []polluxStep, s polluxStep) []polluxStep {
	if len(steps) > 0 && steps[0].nodes < s.nodes {
		return steps
	}
	if len(steps) > 0 && steps[0].nodes > s.nodes {
		steps = steps[:0]
	}
	for i := range steps {
		if steps[i].localBatch == s.localBatch {
			if s.stepNs < steps[i].stepNs {
				steps[i] = s
			}
			return steps
		}
	}
	return append(steps, s)
}

func (b *builder) polluxRow(t *table, measured map[polluxKey][]polluxStep) error {
	application := strings.Clone(t.text("application"))
	hours := polluxGPUHours[application]
	if hours == nil {
		return t.errorAt("application", "unknown model %q; known are bert, cifar10, deepspeech2, imagenet, ncf and "+
			"yolov3",
			truncate(application))
	}
	replicas, err := t.count("num_replicas", 1)
	if err != nil {
		return err
	}
	batch, err := t.count("batch_size", 1)
	if err != nil {
		return err
	}
	release, err := t.decimal("time", 6)
	if err != nil {
		return err
	}
	steps := measured[polluxKey{application, replicas}]
	if len(steps) == 0 {
		return t.errorAt("num_replicas", "%s was not measured on %d GPUs", application, replicas)
	}
	local := (batch + replicas - 1) / replicas
	largest := steps[len(steps)-1].localBatch
	passes := (local + largest - 1) / largest
	s := nearestBatch(steps, (local+passes-1)/passes)
	one := step{gpu: "T4", compute: new(big.Rat).SetFrac(product(passes, s.computeNs), big.NewInt(1000))}
	one.d = new(big.Rat).Add(one.compute, big.NewRat(s.stepNs-s.computeNs, 1000))
	// need is the number of steps in the assumed GPU time, at least one.
	need := new(big.Rat).Mul(hours, big.NewRat(3600e6, replicas))
	need.Quo(need, one.d)
	n, _ := roundHalfUp(need)
	id, err := b.identify(t, "name")
	if err != nil {
		return err
	}
	job := hare.Job{ID: id, WeightMicro: 1e6, ReleaseUs: release, Tasks: replicas, Sync: b.cfg.syncRule()}
	if reason := mergeSteps(&job, max(1, n), []step{one}, b.cfg.Quantum.Microseconds(), &b.row); reason != "" {
		return t.errorAt("application", "%s", reason)
	}
	b.add(t, job)
	return nil
}

// nearestBatch returns the step whose batch is nearest to local by ratio; ties go to the
// larger batch.
func nearestBatch(steps []polluxStep, local int64) polluxStep {
	i, _ := slices.BinarySearchFunc(steps, local, func(s polluxStep, b int64) int { return int(s.localBatch - b) })
	if i == len(steps) {
		return steps[i-1]
	}
	// The batch above is as near or nearer if above/local ≤ local/below.
	if i > 0 && product(steps[i].localBatch, steps[i-1].localBatch).Cmp(product(local, local)) > 0 {
		return steps[i-1]
	}
	return steps[i]
}

func product(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }
