package online

// item is a job in a heap. The least key comes first; equal keys go by the least tie.
type item struct {
	key, tie uint64
	job      int32
}

func (it *item) before(b *item) bool {
	return it.key < b.key || it.key == b.key && it.tie < b.tie
}

// jobHeap is a 4-ary heap of jobs from which any job can be removed: at[job] is the
// index of the job in the heap, or −1. Heaps may share one table at where no job is
// in two of them.
type jobHeap []item

func (jh *jobHeap) push(x item, at []int32) {
	*jh = append(*jh, x)
	jh.up(len(*jh)-1, at)
}

// remove takes out the entry at index i.
func (jh *jobHeap) remove(i int, at []int32) {
	s := *jh
	at[s[i].job] = -1
	last := len(s) - 1
	x := s[last]
	*jh = s[:last]
	if i == last {
		return
	}
	s[i] = x
	at[x.job] = int32(i)
	jh.fix(i, at)
}

// fix restores the order after the entry at index i has changed.
func (jh *jobHeap) fix(i int, at []int32) {
	if !jh.up(i, at) {
		jh.down(i, at)
	}
}

func (jh *jobHeap) up(i int, at []int32) bool {
	s := *jh
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

func (jh *jobHeap) down(i int, at []int32) {
	s := *jh
	x := s[i]
	for {
		next := 4*i + 1
		least := next
		if next+4 <= len(s) {
			four := (*[4]item)(s[next:]) // without checks of indices
			a, b := 0, 2
			if four[1].before(&four[0]) {
				a = 1
			}
			if four[3].before(&four[2]) {
				b = 3
			}
			if four[b&3].before(&four[a&3]) {
				a = b
			}
			least += a
		} else if next < len(s) {
			for child := next + 1; child < len(s); child++ {
				if s[child].before(&s[least]) {
					least = child
				}
			}
		} else {
			break
		}
		if !s[least].before(&x) {
			break
		}
		s[i] = s[least]
		at[s[i].job] = int32(i)
		i = least
	}
	s[i] = x
	at[x.job] = int32(i)
}
