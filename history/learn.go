package history

import (
	"cmp"
	"math"
	"slices"
)

// Learn returns how long jobs of the same user, name and number of GPUs took on several GPU types:
// the ratio of the median times of jobs that completed, with an interval that covers the ratio with
// probability 0.95 or more. The interval is from the intervals of both medians by order statistics,
// each with probability 0.975 (Bonferroni); with fewer than six jobs on a type it goes from the least
// time to the greatest and covers less. Learn takes O(n log n) for n jobs.
func (l *Log) Learn() []Learned {
	times, groups := l.completed()
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(a.user, b.user), cmp.Compare(a.name, b.name), cmp.Compare(a.gpus, b.gpus))
	})
	var out []Learned
	for _, g := range groups {
		kinds := make([]string, 0, len(times[g]))
		for kind := range times[g] {
			slices.Sort(times[g][kind])
			kinds = append(kinds, kind)
		}
		// The type with the most jobs is the base, so that the ratios are as sure as they can be.
		slices.SortFunc(kinds, func(a, b string) int {
			return cmp.Or(cmp.Compare(len(times[g][b]), len(times[g][a])), cmp.Compare(a, b))
		})
		for _, kind := range kinds[1:] {
			base, on := times[g][kinds[0]], times[g][kind]
			lowBase, highBase := medianInterval(base)
			low, high := medianInterval(on)
			out = append(out, Learned{User: g.user, Name: g.name, GPUs: g.gpus, Type: kind, Base: kinds[0],
				Ratio: ratio6(median(on), median(base)), Low: ratio6(float64(low), float64(highBase)),
				High: ratio6(float64(high), float64(lowBase)), Jobs: len(on), BaseJobs: len(base)})
		}
	}
	return out
}

// completed returns the times of completed jobs by group and GPU type, and the groups.
func (l *Log) completed() (times map[group]map[string][]int64, groups []group) {
	times = map[group]map[string][]int64{}
	for i := range l.Jobs {
		j := &l.Jobs[i]
		kind := l.typeOf(j)
		if j.State != Completed || j.GPUs == 0 || j.EndUs <= j.StartUs || kind == "" || j.Name == "" {
			continue
		}
		g := group{j.User, j.Name, j.GPUs}
		if times[g] == nil {
			times[g] = map[string][]int64{}
			groups = append(groups, g)
		}
		times[g][kind] = append(times[g][kind], j.EndUs-j.StartUs)
	}
	return times, groups
}

// typeOf returns the one GPU type on which a job ran; "" if it is not known or there were several.
func (l *Log) typeOf(j *Job) string {
	kind := ""
	for _, h := range j.On {
		t := h.Type
		if t == "" {
			i, found := slices.BinarySearchFunc(l.Nodes, h.Node, func(n Node, name string) int {
				return cmp.Compare(n.Name, name)
			})
			if !found || len(l.Nodes[i].GPUs) != 1 {
				return ""
			}
			t = l.Nodes[i].GPUs[0].Type
		}
		if kind != "" && kind != t {
			return ""
		}
		kind = t
	}
	return kind
}

func median(sorted []int64) float64 {
	n := len(sorted)
	return (float64(sorted[(n-1)/2]) + float64(sorted[n/2])) / 2
}

// medianInterval returns the order statistics between which the median lies with probability 0.975
// or more, the least and the greatest where there are too few.
func medianInterval(sorted []int64) (low, high int64) {
	n := len(sorted)
	// The median is below the k-th least value with the probability that fewer than k of n fair
	// coins show heads.
	k, below := 0, math.Exp2(-float64(n))
	term := below
	for k < n/2 && below <= 0.0125 {
		k++
		term *= float64(n-k+1) / float64(k)
		below += term
	}
	k = max(k, 1)
	return sorted[k-1], sorted[n-k]
}

func ratio6(a, b float64) float64 { return math.Round(a/b*1e6) / 1e6 }
