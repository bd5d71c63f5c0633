package elastic

import (
	"math"
	"math/rand/v2"
	"slices"
)

// mutate returns the mutated rows of two lists of cells, where the jobs of the second come after
// those of the first. Rows go back to what the job holds, or lose cells. Then cells of nodes with
// free GPUs grow to a random number: of each node, one of all jobs in the mean and one of the
// jobs that are on it. The result is valid until the next call; it may use more GPUs than there
// are. mutate takes O(jobs + cells + nodes).
func (se *search) mutate(rng *rand.Rand, first, second []cell) []cell {
	rows := se.mutated[:0]
	clear(se.used)
	clear(se.present)
	for k := range se.jobs {
		n := 0
		from := &first
		if len(first) == 0 || int(first[0].job) != k {
			from = &second
		}
		for n < len(*from) && int((*from)[n].job) == k {
			n++
		}
		row := (*from)[:n]
		*from = (*from)[n:]
		chance := rng.Uint64()
		if chance>>32 < (1<<32)/resetOdds {
			row = se.jobs[k].base
		}
		clears := chance&(1<<32-1) < (1<<32)/clearOdds
		for _, c := range row {
			if !clears || rng.IntN(clearOdds) > 0 {
				rows = append(rows, c)
				se.used[c.node] += int(c.gpus)
				se.present[c.node]++
			}
		}
	}
	se.mutated = rows
	se.open = se.open[:0]
	for n, gpus := range se.nodes {
		if se.used[n] < gpus {
			se.open = append(se.open, uint16(n))
		}
	}
	if len(se.open) == 0 {
		return rows
	}
	return se.grow(rng, rows)
}

// grow adds to the rows the cells that grow, which lie before len(rows) until now.
func (se *search) grow(rng *rand.Rand, rows []cell) []cell {
	// Cells grow by 1/jobs each. In the order of jobs and open nodes, the distance to the next one
	// that grows is geometric.
	chance := 1 / float64(len(se.jobs))
	count := len(se.jobs) * len(se.open)
	scale := 0.
	if chance < 1 {
		scale = -1 / math.Log1p(-chance)
	}
	skip := func() int {
		if chance >= 1 {
			return 0
		}
		return int(math.Min(rng.ExpFloat64()*scale, float64(count)))
	}
	amount := func(n uint16, from int) uint16 {
		return uint16(from + rng.IntN(se.nodes[n]-from+1))
	}
	end := len(rows)
	out := rows // the new rows are appended behind the old ones
	next := skip()
	for i := 0; i < end || next < count; {
		var grown cell
		if next < count {
			grown = cell{job: uint16(next / len(se.open)), node: se.open[next%len(se.open)]}
		}
		if i < end && (next >= count || cellLess(out[i], grown)) {
			c := out[i]
			i++
			if n := c.node; se.used[n] < se.nodes[n] && rng.Float64()*float64(se.present[n]) < 1 {
				c.gpus = amount(n, int(c.gpus))
			}
			out = append(out, c)
			continue
		}
		next += 1 + skip()
		if i < end && out[i].job == grown.job && out[i].node == grown.node {
			grown.gpus = out[i].gpus
			i++
		}
		if grown.gpus = amount(grown.node, int(grown.gpus)); grown.gpus > 0 {
			out = append(out, grown)
		}
	}
	se.mutated = out
	return out[end:]
}

func cellLess(a, b cell) bool { return a.job < b.job || a.job == b.job && a.node < b.node }

// repaired returns the cells that are possible: on each node, the cells up to the second job that
// spans nodes; for each job, cells of random nodes up to its limits; and for each node, the cells
// of the first jobs up to its GPUs. repaired takes O(cells + nodes).
func (se *search) repaired(rng *rand.Rand, cells []cell) []cell {
	out := se.buffer()
	clear(se.used)
	clear(se.spanning)
	for len(cells) > 0 {
		n, start := 1, len(out)
		for n < len(cells) && cells[n].job == cells[0].job {
			n++
		}
		gpus := 0
		for _, c := range cells[:n] {
			if !se.cfg.Crowded {
				if n > 1 {
					se.spanning[c.node]++
				}
				if se.spanning[c.node] > 1 {
					continue
				}
			}
			gpus += int(c.gpus)
			out = append(out, c)
		}
		j := &se.jobs[cells[0].job]
		cells = cells[n:]
		if row := out[start:]; gpus > j.maxGPUs || len(row) > j.maxNodes {
			out = out[:start+cut(rng, row, j)]
		}
		row := out[start:]
		out = out[:start]
		for _, c := range row {
			if c.gpus = min(c.gpus, uint16(se.nodes[c.node]-se.used[c.node])); c.gpus > 0 {
				se.used[c.node] += int(c.gpus)
				out = append(out, c)
			}
		}
	}
	return out
}

// cut takes cells of a row in random order up to the limits of the job, and returns how many
// are left.
func cut(rng *rand.Rand, row []cell, j *searchJob) int {
	rng.Shuffle(len(row), func(a, b int) { row[a], row[b] = row[b], row[a] })
	left, n := j.maxGPUs, 0
	for _, c := range row {
		if left == 0 || n == j.maxNodes {
			break
		}
		c.gpus = uint16(min(int(c.gpus), left))
		left -= int(c.gpus)
		row[n] = c
		n++
	}
	slices.SortFunc(row[:n], func(a, b cell) int { return int(a.node) - int(b.node) })
	return n
}
