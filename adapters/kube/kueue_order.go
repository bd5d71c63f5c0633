package kube

import (
	"cmp"
	"fmt"
	"slices"
)

// Priorities that the helper gives lie between these, and begin prioritySpace apart.
const (
	leastPriority = -1 << 30
	prioritySpace = 1 << 10
)

// order finds the changes of priorities that put the Workloads of each queue into the order of the plan, as
// few as can be. Priorities are at or below 0, so that they are never above that of others.
func (h *Helper) order(s *state, result *Result) (updates []Update) {
	lines := map[*clusterQueue][]*job{}
	var queues []*clusterQueue
	// Those that start now come before all others.
	order := slices.Clone(result.Waiting)
	slices.SortStableFunc(order, func(a, b Waiting) int { return cmp.Compare(min(1, len(a.Why)), min(1, len(b.Why))) })
	for _, t := range order {
		j := s.waiting[t.Job]
		if j == nil || j.work == nil {
			continue
		}
		q := j.work.queue
		if q.noOrder != "" {
			if _, told := s.unordered[q]; !told {
				s.unordered[q] = true
				result.Unordered = append(result.Unordered, fmt.Sprintf("ClusterQueue %s %s", q.Metadata.Name, q.noOrder))
			}
			continue
		}
		if j.work.hasPriorityClass() {
			continue
		}
		if lines[q] == nil {
			queues = append(queues, q)
		}
		lines[q] = append(lines[q], j)
	}
	for _, q := range queues {
		line := lines[q]
		before := make([]int64, len(line))
		for i, j := range line {
			before[i] = j.work.Spec.Priority
		}
		for i, priority := range falling(before) {
			if priority != before[i] {
				updates = append(updates, h.workUpdate(line[i], fmt.Sprint("priority ", before[i]),
					fmt.Sprint("priority ", priority), fmt.Sprintf("place %d of %d in ClusterQueue %s", i+1, len(line),
						q.Metadata.Name), []patchOperation{{"add", "/spec/priority", priority}}))
			}
		}
	}
	return updates
}

// falling returns strictly falling numbers at or below 0 that differ from the given ones in as few places
// as there is room for. It takes O(n log n).
func falling(before []int64) []int64 {
	n := len(before)
	// The longest strictly falling subsequence of numbers that may stay; a number stays only where the places
	// since the one that stayed before find numbers between.
	tail, at, from := []int64{}, []int{}, make([]int, n)
	for i, p := range before {
		from[i] = -1
		if p > 0 || p < leastPriority {
			continue
		}
		key := -p - int64(i) // rising numbers with a place for each between: −p must rise by 1 a place
		k, _ := slices.BinarySearch(tail, key+1)
		if key < 0 {
			continue // fewer numbers from 0 down than places before
		}
		if k > 0 {
			from[i] = at[k-1]
		}
		if k == len(tail) {
			tail, at = append(tail, key), append(at, i)
		} else {
			tail[k], at[k] = key, i
		}
	}
	out := make([]int64, n)
	stays := make([]bool, n)
	if len(at) > 0 {
		for i := at[len(at)-1]; i >= 0; i = from[i] {
			out[i], stays[i] = before[i], true
		}
	}
	last, lastAt := int64(1), -1
	for i := 0; i <= n; i++ {
		if i < n && !stays[i] {
			continue
		}
		places := int64(i - lastAt)
		step := int64(prioritySpace)
		if i < n {
			step = max(1, (last-out[i])/places)
		}
		for k := lastAt + 1; k < i; k++ {
			last -= step
			if lastAt < 0 && k == 0 && step > 1 {
				last = 0
			}
			out[k] = last
		}
		if i < n {
			last, lastAt = out[i], i
		}
	}
	if n > 0 && out[n-1] < leastPriority {
		for i := range out {
			out[i] = -int64(i) * min(prioritySpace, -leastPriority/int64(n))
		}
	}
	return out
}
