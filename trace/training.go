package trace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Training holds the measurements of one application: the time of a pass by placement and
// batch, and the progress of a step by batch and epoch. ReadElastic makes a Training, which
// does not change afterwards.
type Training struct {
	Application string
	Epochs      int // the number of epochs after which the application is trained
	// InitBatch and MaxBatch are the least and the greatest batch whose progress was measured.
	// MinLocal and MaxLocal are the least and the greatest number of samples of a pass on one
	// GPU.
	InitBatch, MaxBatch, MinLocal, MaxLocal int

	placed  map[string][]passTime // by placement
	points  []passPoint
	cells   []passCell
	batches []int
	epochs  [][]epochRow // by batch, then epoch
	ends    []float64    // the progress at the end of each epoch
}

// passTime is the time of a pass of local samples on each GPU.
type passTime struct {
	local        int
	stepS, syncS float64
}

// passPoint is a pass by numbers of nodes and GPUs; its times are means over placements.
type passPoint struct {
	at           [3]int64 // nodes, GPUs, local batch
	stepS, syncS float64
}

// passCell is a tetrahedron of four points with no other point inside.
type passCell struct {
	corner   [4]int
	low, top [3]int64 // the bounding box of the cell
}

// epochRow is one epoch at one batch; progress and steps are those at its end.
type epochRow struct{ progress, steps, sqr, variance float64 }

// Step returns the time of a pass of local samples on each GPU, and the part of this time in
// which gradients are exchanged. Two placements that differ only in which node is first are
// the same. If a placement was measured, times are interpolated linearly between the measured
// batches, and there are no times for other batches. For other placements, the times of all
// measured placements with the same numbers of nodes and GPUs are averaged, and interpolated
// linearly in each cell of measured points; more nodes than were measured count as the
// greatest number that was measured. The rules are those of Pollux's simulator, commit
// c793c70. Step takes O(log(batches)), or O(cells) if the placement was not measured.
func (tr *Training) Step(placement []int, local int) (stepS, syncS float64, err error) {
	if rows := tr.placed[placementKey(placement)]; rows != nil {
		if local < rows[0].local || local > rows[len(rows)-1].local {
			return 0, 0, fmt.Errorf("%s on %v GPUs was measured with %d to %d samples on each, not %d", tr.Application,
				placement, rows[0].local, rows[len(rows)-1].local, local)
		}
		i, _ := slices.BinarySearchFunc(rows, local, func(r passTime, b int) int { return r.local - b })
		if len(rows) == 1 {
			return rows[0].stepS, rows[0].syncS, nil
		}
		i = max(1, i)
		a, b := rows[i-1], rows[i]
		between := func(x, y float64) float64 {
			return x + float64((y-x)/float64(b.local-a.local)*float64(local-a.local))
		}
		return between(a.stepS, b.stepS), between(a.syncS, b.syncS), nil
	}
	gpus := 0
	for _, n := range placement {
		gpus += n
	}
	q := [3]int64{int64(len(placement)), int64(gpus), int64(local)}
	if n := len(tr.points); n > 0 {
		q[0] = min(q[0], tr.points[n-1].at[0])
	}
	for i := range tr.cells {
		if w, size, in := tr.weights(&tr.cells[i], q); in {
			for k, c := range tr.cells[i].corner {
				share := float64(w[k]) / float64(size)
				stepS += float64(share * tr.points[c].stepS)
				syncS += float64(share * tr.points[c].syncS)
			}
			return stepS, syncS, nil
		}
	}
	return 0, 0, fmt.Errorf("%s on %v GPUs with %d samples on each is outside of what was measured", tr.Application,
		placement, local)
}

// weights returns the weights of a cell's corners at q and their sum. in says that q is in
// the cell, which holds if no two weights have different signs. Coordinates are integers
// below 2^17, so the weights are exact.
func (tr *Training) weights(c *passCell, q [3]int64) (w [4]int64, size int64, in bool) {
	for k := range q {
		if q[k] < c.low[k] || q[k] > c.top[k] {
			return w, 0, false
		}
	}
	size = tr.signedVolume(c.corner, -1, q)
	for k := range w {
		if w[k] = tr.signedVolume(c.corner, k, q); size < 0 && w[k] > 0 || size > 0 && w[k] < 0 {
			return w, size, false
		}
	}
	return w, size, size != 0
}

// signedVolume returns six times the signed volume of the cell after its corner number but
// has been moved to q. With −1, no corner is moved.
func (tr *Training) signedVolume(corner [4]int, but int, q [3]int64) int64 {
	var p [4][3]int64
	for k, c := range corner {
		if p[k] = tr.points[c].at; k == but {
			p[k] = q
		}
	}
	var d [3][3]int64
	for r := range d {
		for k := range d[r] {
			d[r][k] = p[r+1][k] - p[0][k]
		}
	}
	return d[0][0]*(d[1][1]*d[2][2]-d[1][2]*d[2][1]) - d[0][1]*(d[1][0]*d[2][2]-d[1][2]*d[2][0]) +
		d[0][2]*(d[1][0]*d[2][1]-d[1][1]*d[2][0])
}

// placementKey names a placement: of the rotations of its nodes, it uses the
// lexicographically least.
func placementKey(placement []int) string {
	best := placement
	for i := range placement {
		if rotated := slices.Concat(placement[i:], placement[:i]); slices.Compare(rotated, best) < 0 {
			best = rotated
		}
	}
	parts := make([]string, len(best))
	for i, n := range best {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, "-")
}

// Epoch returns three figures of steps of a batch in an epoch, which counts from 0. gain is
// the progress of one step, in units of a step of InitBatch:
//
//	(v + s) / (v/k + s)
//
// for k = batch / InitBatch and the square s and the variance v of the gradients. endProgress
// is the progress at which the epoch ends, which is the least over the measured batches.
// endSteps is the number of steps of this batch from the start of training to the end of the
// epoch. Gradients and steps are interpolated linearly between the measured batches; there
// are none for other batches. The rules are those of Pollux (OSDI 2021) and its simulator.
// Epoch takes O(batches).
func (tr *Training) Epoch(batch, epoch int) (gain, endProgress, endSteps float64, err error) {
	at, err := tr.epochRow(batch, epoch)
	if err != nil {
		return 0, 0, 0, err
	}
	scale := float64(batch) / float64(tr.InitBatch)
	return (at.variance + at.sqr) / (at.variance/scale + at.sqr), tr.ends[epoch], at.steps, nil
}

// Gradients returns the square and the variance of the gradients of steps of a batch in an
// epoch, interpolated as for Epoch.
func (tr *Training) Gradients(batch, epoch int) (sqr, variance float64, err error) {
	at, err := tr.epochRow(batch, epoch)
	return at.sqr, at.variance, err
}

// epochRow interpolates the rows of an epoch.
func (tr *Training) epochRow(batch, epoch int) (epochRow, error) {
	if epoch < 0 || epoch >= tr.Epochs {
		return epochRow{}, fmt.Errorf("%s has %d epochs, numbered from 0, and no %d", tr.Application, tr.Epochs, epoch)
	}
	if batch < tr.InitBatch || batch > tr.MaxBatch {
		return epochRow{}, fmt.Errorf("%s was trained with batches of %d to %d, not %d", tr.Application, tr.InitBatch,
			tr.MaxBatch, batch)
	}
	i, same := slices.BinarySearch(tr.batches, batch)
	at := tr.epochs[i][epoch]
	if !same {
		low, top := tr.batches[i-1], tr.batches[i]
		below := tr.epochs[i-1][epoch]
		between := func(a, b float64) float64 {
			return (float64(float64(batch-low)*b) + float64(float64(top-batch)*a)) / float64(top-low)
		}
		at.steps, at.sqr, at.variance = between(below.steps, at.steps), between(below.sqr, at.sqr),
			between(below.variance, at.variance)
	}
	return at, nil
}
