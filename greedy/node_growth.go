package greedy

// growth says that the room at a position in the list of pools may grow at a time.
type growth struct {
	time int64
	at   int32
}

// growthHeap is a binary heap of growths by time.
type growthHeap []growth

func (gh growthHeap) init() {
	for i := len(gh)/2 - 1; i >= 0; i-- {
		gh.down(i)
	}
}

func (gh growthHeap) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(gh) {
			return
		}
		if c+1 < len(gh) && gh[c+1].time < gh[c].time {
			c++
		}
		if gh[i].time <= gh[c].time {
			return
		}
		gh[i], gh[c] = gh[c], gh[i]
		i = c
	}
}

func (gh *growthHeap) push(g growth) {
	*gh = append(*gh, g)
	h := *gh
	for i := len(h) - 1; i > 0 && h[i].time < h[(i-1)/2].time; i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
}

func (gh *growthHeap) pop() {
	h := *gh
	last := len(h) - 1
	h[0] = h[last]
	*gh = h[:last]
	gh.down(0)
}
