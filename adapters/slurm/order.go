package slurm

import "slices"

// place is a job in the order that is wanted, with its priority in parts.
type place struct {
	base   int64 // the priority without what the helper added
	offset int64 // what the helper added
	low    int64 // the least and the greatest offset that may be written
	high   int64
}

// spacing is the distance between the priorities of neighbours that are written again, so that a
// job that comes later finds room between them.
const spacing = 16

// offsets returns offsets so that the priorities base + offset fall strictly along the order, where
// the limits allow this, and changes few of them: the longest subsequence of places whose
// priorities fall already keeps its offsets, and the others are put between. Where they find no
// room, all are made again, as small as they can be. It takes O(n log n).
func offsets(order []place) []int64 {
	out := make([]int64, len(order))
	kept := longestFalling(order)
	above, haveAbove := int64(0), false
	for i := 0; i < len(order); {
		if kept[i] {
			out[i], above, haveAbove = order[i].offset, order[i].base+order[i].offset, true
			i++
			continue
		}
		end := i
		for end < len(order) && !kept[end] {
			end++
		}
		below, haveBelow := int64(0), end < len(order)
		if haveBelow {
			below = order[end].base + order[end].offset
		}
		if !fill(order[i:end], out[i:end], above, below, haveAbove, haveBelow) {
			return fresh(order)
		}
		i = end
	}
	return out
}

// fill puts places between two priorities; false where there is no room.
func fill(order []place, out []int64, above, below int64, haveAbove, haveBelow bool) bool {
	n := int64(len(order))
	switch {
	case haveAbove && haveBelow:
		if above-below <= n {
			return false
		}
	case haveBelow:
		above = below + (n+1)*spacing
	case haveAbove:
		below = max(0, above-(n+1)*spacing)
		if above-below <= n {
			return false
		}
	default:
		return false
	}
	step := (above - below) / (n + 1)
	for i := range order {
		out[i] = above - int64(i+1)*step - order[i].base
		if out[i] < order[i].low || out[i] > order[i].high {
			return false
		}
	}
	return true
}

// fresh makes all offsets again. Where offsets may be positive, the last place gets its least
// offset and each place before it the least one that puts it above the next; otherwise the first
// place gets its greatest.
func fresh(order []place) []int64 {
	out := make([]int64, len(order))
	if len(order) > 0 && order[0].high <= 0 {
		next := int64(0)
		for i, p := range order {
			priority := p.base + p.high
			if i > 0 {
				priority = min(priority, next-spacing)
			}
			out[i] = clamp(priority-p.base, p.low, p.high)
			next = p.base + out[i]
		}
		return out
	}
	next := int64(0)
	for i := len(order) - 1; i >= 0; i-- {
		p := order[i]
		priority := p.base + max(0, p.low)
		if i < len(order)-1 {
			priority = max(priority, next+spacing)
		}
		out[i] = clamp(priority-p.base, p.low, p.high)
		next = p.base + out[i]
	}
	return out
}

func clamp(v, low, high int64) int64 { return min(max(v, low), high) }

// longestFalling marks a longest subsequence of places with strictly falling priorities and
// offsets within their limits, by patience sorting.
func longestFalling(order []place) []bool {
	tails := []int{} // tails[k] is the end of the best falling subsequence of length k+1
	before := make([]int, len(order))
	priority := func(i int) int64 { return order[i].base + order[i].offset }
	for i, p := range order {
		before[i] = -1
		if p.offset < p.low || p.offset > p.high {
			continue
		}
		k, _ := slices.BinarySearchFunc(tails, priority(i), func(tail int, v int64) int {
			if priority(tail) > v {
				return -1
			}
			return 1
		})
		if k > 0 {
			before[i] = tails[k-1]
		}
		if k == len(tails) {
			tails = append(tails, i)
		} else {
			tails[k] = i
		}
	}
	kept := make([]bool, len(order))
	if len(tails) > 0 {
		for i := tails[len(tails)-1]; i >= 0; i = before[i] {
			kept[i] = true
		}
	}
	return kept
}

// inversions counts the neighbours in the order whose priorities do not fall.
func inversions(order []place, offsets []int64) (n int) {
	for i := 1; i < len(order); i++ {
		if order[i-1].base+offsets[i-1] <= order[i].base+offsets[i] {
			n++
		}
	}
	return n
}
