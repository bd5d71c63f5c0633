package trace

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	hare "github.com/hare-sched/hare"
)

// ElasticJob is a job of a Pollux workload, whose GPUs may change.
type ElasticJob struct {
	ID       string
	ArrivalS float64
	GPUs     int // the GPUs that the job asked for
	MaxGPUs  int // the greatest number of GPUs over which its batch can be divided
	Batch    int // the samples of a step, over all GPUs
	// FixedBatch says that policies that choose batches keep Batch.
	FixedBatch bool
	Training   *Training
}

// Elastic is a Pollux workload with the measurements of its applications.
type Elastic struct {
	Jobs      []ElasticJob
	Trainings []*Training // by application
}

// ElasticTables are the texts of the measurements.
type ElasticTables struct {
	// Steps has the columns application, placement (the GPUs of each node, as 2-2, or
	// empty), num_nodes, num_replicas, local_batch, step_time_s and sync_time_s.
	Steps Source
	// Cells has the columns application and a, b, c, d: four points of Steps. The points of
	// an application are numbered from 0 by nodes, GPUs and local batch. Where faces of
	// cells cross, the first cell of the text counts.
	Cells Source
	// Epochs has the columns application, batch_size, epoch, progress, steps, grad_sqr and
	// grad_var. Every batch of an application has the same epochs.
	Epochs Source
}

// These are the shipped tables; the table of steps is also that of the format.
const (
	polluxSteps  = "pollux_t4_step_sync.csv"
	polluxCells  = "pollux_t4_cells.csv"
	polluxEpochs = "pollux_epochs.csv"
)

// ShippedElasticTables returns the tables of Pollux's artifact, which were measured on
// T4s. Each may be read once.
func ShippedElasticTables() (t ElasticTables, err error) {
	if t.Steps, err = Shipped(polluxSteps); err != nil {
		return t, err
	}
	if t.Cells, err = Shipped(polluxCells); err != nil {
		return t, err
	}
	t.Epochs, err = Shipped(polluxEpochs)
	return t, err
}

// Two facts are in the code of Pollux's simulator and not in its tables: passes of
// yolov3 have at most 8 samples, though larger ones were measured, and ncf never gets
// more than one GPU, as it needs less; its batch is fixed, too.
const (
	polluxYoloLocal = 8
	polluxNCFGPUs   = 1
)

// ReadElastic reads a Pollux workload (name, time, application, num_replicas,
// batch_size) and tables. Applications without step times are ignored. Errors about a
// text are *RowError. Jobs are sorted by arrival; jobs of equal arrival keep their
// order. Times and rates are read as the nearest float64. Time and memory are linear in
// the texts, apart from sorting.
func ReadElastic(workload Source, tables ElasticTables) (*Elastic, error) {
	e := &Elastic{}
	for _, read := range []struct {
		src Source
		f   func(Source) error
	}{{tables.Steps, e.readSteps}, {tables.Cells, e.readCells}, {tables.Epochs, e.readEpochs}, {workload,
		e.readJobs}} {
		if err := read.f(read.src); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// find returns the application of the row, or nil.
func (e *Elastic) find(t *table) *Training {
	name := t.text("application")
	i := slices.IndexFunc(e.Trainings, func(a *Training) bool { return a.Application == name })
	if i < 0 {
		return nil
	}
	return e.Trainings[i]
}

// training returns the application of the row, or an error.
func (e *Elastic) training(t *table) (*Training, error) {
	if a := e.find(t); a != nil {
		return a, nil
	}
	known := make([]string, len(e.Trainings))
	for i, a := range e.Trainings {
		known[i] = a.Application
	}
	return nil, t.errorAt("application", "unknown model %q; step times are of %s", truncate(t.text("application")),
		strings.Join(known, ", "))
}

// size reads an integer of at most 2^17.
func (t *table) size(column string) (int, error) {
	v, err := t.count(column, 1)
	if err == nil && v > 1<<17 {
		err = t.errorAt(column, "%d is more than %d", v, 1<<17)
	}
	return int(v), err
}

// each calls f for each row.
func (t *table) each(f func() error) error {
	for {
		if ok, err := t.next(); err != nil || !ok {
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
}

// pointSum is the sum of the measurements of one point.
type pointSum struct {
	passPoint
	n float64
}

func (e *Elastic) readSteps(src Source) error {
	t, err := newTable(src, "application", "placement", "num_nodes", "num_replicas", "local_batch", "step_time_s",
		"sync_time_s")
	if err != nil {
		return err
	}
	sums := map[*Training]map[[3]int64]*pointSum{}
	err = t.each(func() error {
		a := e.find(t)
		if a == nil {
			a = &Training{Application: strings.Clone(t.text("application")), placed: map[string][]passTime{}}
			if a.Application == "" {
				return t.errorAt("application", "empty")
			}
			e.Trainings = append(e.Trainings, a)
			sums[a] = map[[3]int64]*pointSum{}
		}
		nodes, err := t.size("num_nodes")
		if err != nil {
			return err
		}
		gpus, err := t.size("num_replicas")
		if err != nil {
			return err
		}
		var r passTime
		if r.local, err = t.size("local_batch"); err != nil {
			return err
		}
		if r.stepS, err = t.float("step_time_s"); err != nil {
			return err
		}
		if r.syncS, err = t.float("sync_time_s"); err != nil {
			return err
		}
		if r.syncS >= r.stepS {
			return t.errorAt("sync_time_s", "leaves no compute time in a step of %s s", t.text("step_time_s"))
		}
		if p := t.text("placement"); p != "" {
			key, err := t.placement(p, nodes, gpus)
			if err != nil {
				return err
			}
			at, twice := slices.BinarySearchFunc(a.placed[key], r.local,
				func(x passTime, b int) int { return x.local - b })
			if twice {
				return t.errorAt("local_batch", "%d on %s was measured twice", r.local, p)
			}
			a.placed[key] = slices.Insert(a.placed[key], at, r)
			if a.MinLocal == 0 || r.local < a.MinLocal {
				a.MinLocal = r.local
			}
			a.MaxLocal = max(a.MaxLocal, r.local)
		}
		at := [3]int64{int64(nodes), int64(gpus), int64(r.local)}
		if sums[a][at] == nil {
			sums[a][at] = &pointSum{passPoint: passPoint{at: at}}
		}
		sum := sums[a][at]
		sum.stepS, sum.syncS, sum.n = sum.stepS+r.stepS, sum.syncS+r.syncS, sum.n+1
		return nil
	})
	if err != nil {
		return err
	}
	for _, a := range e.Trainings {
		if a.MinLocal == 0 {
			return &RowError{t.file, 1, 1, "no row of " + truncate(a.Application) + " has a placement"}
		}
		for _, sum := range sums[a] {
			a.points = append(a.points, passPoint{sum.at, sum.stepS / sum.n, sum.syncS / sum.n})
		}
		slices.SortFunc(a.points, func(x, y passPoint) int { return slices.Compare(x.at[:], y.at[:]) })
		if a.Application == "yolov3" {
			a.MaxLocal = min(a.MaxLocal, polluxYoloLocal)
		}
	}
	slices.SortFunc(e.Trainings, func(a, b *Training) int { return strings.Compare(a.Application, b.Application) })
	return nil
}

// placement reads the GPUs of each node, such as 2-2.
func (t *table) placement(text string, nodes, gpus int) (string, error) {
	var p []int
	sum := 0
	for part := range strings.SplitSeq(text, "-") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 {
			return "", t.errorAt("placement", "%q is not numbers of GPUs on nodes, such as 2-2", truncate(text))
		}
		p, sum = append(p, n), sum+n
	}
	if len(p) != nodes || sum != gpus {
		return "", t.errorAt("placement", "%s is not %d GPUs on %d nodes", truncate(text), gpus, nodes)
	}
	return placementKey(p), nil
}

func (e *Elastic) readCells(src Source) error {
	t, err := newTable(src, "application", "a", "b", "c", "d")
	if err != nil {
		return err
	}
	return t.each(func() error {
		a := e.find(t)
		if a == nil {
			return nil
		}
		var c passCell
		for k, column := range []string{"a", "b", "c", "d"} {
			v, err := t.count(column, 0)
			if err != nil {
				return err
			}
			if v >= int64(len(a.points)) {
				return t.errorAt(column, "%d: %s has %d points, numbered from 0", v, a.Application, len(a.points))
			}
			c.corner[k] = int(v)
		}
		c.low, c.top = a.points[c.corner[0]].at, a.points[c.corner[0]].at
		for _, i := range c.corner[1:] {
			for k, x := range a.points[i].at {
				c.low[k], c.top[k] = min(c.low[k], x), max(c.top[k], x)
			}
		}
		if a.signedVolume(c.corner, -1, [3]int64{}) == 0 {
			return t.errorAt("a", "the cell is flat")
		}
		a.cells = append(a.cells, c)
		return nil
	})
}

func (e *Elastic) readEpochs(src Source) error {
	t, err := newTable(src, "application", "batch_size", "epoch", "progress", "steps", "grad_sqr", "grad_var")
	if err != nil {
		return err
	}
	err = t.each(func() error {
		a := e.find(t)
		if a == nil {
			return nil
		}
		batch, err := t.size("batch_size")
		if err != nil {
			return err
		}
		epoch, err := t.count("epoch", 0)
		if err != nil {
			return err
		}
		at, known := slices.BinarySearch(a.batches, batch)
		if !known {
			a.batches = slices.Insert(a.batches, at, batch)
			a.epochs = slices.Insert(a.epochs, at, nil)
		}
		rows := a.epochs[at]
		if epoch != int64(len(rows)) {
			return t.errorAt("epoch", "%d: the next one of batch %d is %d", epoch, batch, len(rows))
		}
		var r epochRow
		for _, f := range []struct {
			column string
			to     *float64
		}{{"progress", &r.progress}, {"steps", &r.steps}, {"grad_sqr", &r.sqr}, {"grad_var", &r.variance}} {
			if *f.to, err = t.float(f.column); err != nil {
				return err
			}
		}
		last := epochRow{}
		if epoch > 0 {
			last = rows[epoch-1]
		}
		switch {
		case r.progress <= last.progress:
			return t.errorAt("progress", "must rise from epoch to epoch")
		case r.steps <= last.steps:
			return t.errorAt("steps", "must rise from epoch to epoch")
		case r.sqr+r.variance == 0:
			return t.errorAt("grad_sqr", "both are 0")
		}
		a.epochs[at] = append(rows, r)
		return nil
	})
	if err != nil {
		return err
	}
	for _, a := range e.Trainings {
		for i, rows := range a.epochs {
			if len(rows) != len(a.epochs[0]) {
				return &RowError{t.file, 1, 1, truncate(a.Application) + ": batches " + strconv.Itoa(a.batches[0]) +
					" and " +
					strconv.Itoa(a.batches[i]) + " differ in their number of epochs"}
			}
			for k, r := range rows {
				if i == 0 {
					a.ends = append(a.ends, r.progress)
				}
				a.ends[k] = min(a.ends[k], r.progress)
			}
		}
		if a.Epochs = len(a.ends); a.Epochs > 0 {
			a.InitBatch, a.MaxBatch = a.batches[0], a.batches[len(a.batches)-1]
		}
	}
	return nil
}

func (e *Elastic) readJobs(src Source) error {
	t, err := newTable(src, "name", "time", "application", "num_replicas", "batch_size")
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	err = t.each(func() error {
		j := ElasticJob{ID: strings.Clone(t.text("name"))}
		if j.ID == "" || seen[j.ID] {
			return t.errorAt("name", "%q is empty or appears twice", truncate(j.ID))
		}
		seen[j.ID] = true
		var err error
		if j.Training, err = e.training(t); err != nil {
			return err
		}
		if j.ArrivalS, err = t.float("time"); err != nil {
			return err
		}
		if j.GPUs, err = t.size("num_replicas"); err != nil {
			return err
		}
		if j.GPUs > hare.MaxGPUs {
			return t.errorAt("num_replicas", "%d is more than %d", j.GPUs, hare.MaxGPUs)
		}
		if j.Batch, err = t.size("batch_size"); err != nil {
			return err
		}
		a := j.Training
		if a.Epochs == 0 {
			return t.errorAt("application", "%s has no epochs", a.Application)
		}
		if j.Batch < a.InitBatch || j.Batch > a.MaxBatch {
			return t.errorAt("batch_size", "%s was trained with batches of %d to %d", a.Application, a.InitBatch,
				a.MaxBatch)
		}
		j.MaxGPUs = max(1, j.Batch/a.MinLocal)
		if a.Application == "ncf" {
			j.MaxGPUs, j.FixedBatch = polluxNCFGPUs, true
		}
		e.Jobs = append(e.Jobs, j)
		return nil
	})
	if err == nil && len(e.Jobs) == 0 {
		err = &RowError{t.file, 1, 1, "no row of this text gives a job"}
	}
	slices.SortStableFunc(e.Jobs, func(a, b ElasticJob) int { return cmp.Compare(a.ArrivalS, b.ArrivalS) })
	return err
}
