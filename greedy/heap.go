package greedy

// timed is something that happens to at, a class or a GPU, at a time.
type timed struct {
	time int64
	at   int32
}

// timeline is a heap of what happens, the earliest first, for container/heap.
type timeline []timed

func (h timeline) Len() int { return len(h) }
func (h timeline) Less(a, b int) bool {
	return h[a].time < h[b].time || h[a].time == h[b].time && h[a].at < h[b].at
}
func (h timeline) Swap(a, b int) { h[a], h[b] = h[b], h[a] }
func (h *timeline) Push(x any)   { *h = append(*h, x.(timed)) }
func (h *timeline) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
