package trace

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// MiniBatch is the measured variation of the times of training steps: for each step, its
// time over the median time of the same worker. MiniBatch implements sim.Stretch. Draws are
// independent of each other.
//
// The shipped measurements are of 40 workers of 4 jobs in Alibaba's cluster (Weng et al.,
// "MLaaS in the Wild", NSDI 2022; cluster-trace-gpu-v2020, mini-batch-time). Their times are
// published on a scale whose unit is not known, so only ratios are used. Three things are
// assumed and not measured: a profile gives the median of each worker, all steps of all
// workers are equally likely, and slow steps do not follow each other, although measured slow
// steps do.
type MiniBatch struct {
	factors []float64 // in ascending order
}

// MiniBatchTimes returns the measurements that come with the program.
func MiniBatchTimes() (*MiniBatch, error) {
	src, err := Shipped("alibaba_minibatch_workers.csv")
	if err != nil {
		return nil, err
	}
	return ReadMiniBatch(src)
}

// ReadMiniBatch reads step times with the columns job, worker and batch_time_norm, one
// step in each row. The rows of a worker may be anywhere in the text. Errors about the
// text are *RowError. It takes O(n log n).
func ReadMiniBatch(src Source) (*MiniBatch, error) {
	t, err := newTable(src, "job", "worker", "batch_time_norm")
	if err != nil {
		return nil, err
	}
	type worker struct{ job, worker string }
	var order []worker
	times := map[worker][]float64{}
	for {
		ok, err := t.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		us, err := t.float("batch_time_norm")
		if err != nil {
			return nil, err
		}
		if us <= 0 {
			return nil, t.errorAt("batch_time_norm", "must be positive")
		}
		// The memory of the row is reused, so the strings are copied.
		w := worker{string([]byte(t.text("job"))), string([]byte(t.text("worker")))}
		if times[w] == nil {
			order = append(order, w)
		}
		times[w] = append(times[w], us)
	}
	m := &MiniBatch{}
	for _, w := range order {
		v := times[w]
		slices.Sort(v)
		median := (v[(len(v)-1)/2] + v[len(v)/2]) / 2
		for _, x := range v {
			m.factors = append(m.factors, x/median)
		}
	}
	if len(m.factors) == 0 {
		return nil, &RowError{t.file, 1, 1, "no row"}
	}
	slices.Sort(m.factors)
	return m, nil
}

// Draw returns one of the measured factors, each with the same probability.
func (m *MiniBatch) Draw(r *rand.Rand) float64 { return m.factors[r.IntN(len(m.factors))] }

// Quantile returns the least factor that a fraction p (from 0 to 1) of the measured
// factors do not exceed.
func (m *MiniBatch) Quantile(p float64) float64 {
	i := int(p * float64(len(m.factors)))
	return m.factors[min(max(i, 0), len(m.factors)-1)]
}

func (m *MiniBatch) String() string {
	return fmt.Sprintf("%d steps: median %.3g, p95 %.3g, p99 %.3g, most %.3g times the worker's median",
		len(m.factors),
		m.Quantile(.5), m.Quantile(.95), m.Quantile(.99), m.Quantile(1))
}
