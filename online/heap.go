package online

// item is a job in a heap; least key first, then least tie.
type item struct {
	key, tie uint64
	job      int32
}

func (a *item) before(b *item) bool {
	return a.key < b.key || a.key == b.key && a.tie < b.tie
}

// jobHeap is a 4-ary heap of jobs that knows where each job is, so that any
// may be taken out: at[job] is its index here, or −1. Heaps that no job is in
// twice share one such table.
type jobHeap []item

func (h *jobHeap) push(x item, at []int32) {
	*h = append(*h, x)
	h.up(len(*h)-1, at)
}

// remove takes out the entry at index i.
func (h *jobHeap) remove(i int, at []int32) {
	s := *h
	at[s[i].job] = -1
	last := len(s) - 1
	x := s[last]
	*h = s[:last]
	if i == last {
		return
	}
	s[i] = x
	at[x.job] = int32(i)
	h.fix(i, at)
}

// fix restores the order after the entry at index i has changed.
func (h *jobHeap) fix(i int, at []int32) {
	if !h.up(i, at) {
		h.down(i, at)
	}
}

func (h *jobHeap) up(i int, at []int32) bool {
	s := *h
	x := s[i]
	from := i
	for i > 0 {
		parent := (i - 1) / 4
		if !x.before(&s[parent]) {
			break
		}
		s[i] = s[parent]
		at[s[i].job] = int32(i)
		i = parent
	}
	s[i] = x
	at[x.job] = int32(i)
	return i != from
}

func (h *jobHeap) down(i int, at []int32) {
	s := *h
	x := s[i]
	for {
		least := -1
		for child := 4*i + 1; child <= 4*i+4 && child < len(s); child++ {
			if least < 0 || s[child].before(&s[least]) {
				least = child
			}
		}
		if least < 0 || !s[least].before(&x) {
			break
		}
		s[i] = s[least]
		at[s[i].job] = int32(i)
		i = least
	}
	s[i] = x
	at[x.job] = int32(i)
}
