package place

// event is something that happens at a time to at, which is a class or a GPU.
type event struct {
	time int64
	at   int32
}

func (ev event) before(y event) bool { return ev.time < y.time || ev.time == y.time && ev.at < y.at }

// eventHeap is a heap of events, the earliest first. It does not use container/heap,
// which would box each element at as much cost as the rest of a colouring.
type eventHeap []event

func (eh *eventHeap) push(x event) {
	s := append(*eh, x)
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !x.before(s[up]) {
			break
		}
		s[i], i = s[up], up
	}
	s[i] = x
	*eh = s
}

// pop removes the earliest event of a heap that is not empty.
func (eh *eventHeap) pop() event {
	s := *eh
	first, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	if len(s) > 0 {
		s.replace(last)
	}
	*eh = s
	return first
}

// replace puts x in the place of the earliest event.
func (eh eventHeap) replace(x event) {
	i := 0
	for {
		c := 2*i + 1
		if c >= len(eh) {
			break
		}
		if c+1 < len(eh) && eh[c+1].before(eh[c]) {
			c++
		}
		if !eh[c].before(x) {
			break
		}
		eh[i], i = eh[c], c
	}
	eh[i] = x
}
