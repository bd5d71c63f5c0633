package list

// priorityQueue is a binary heap of waiting jobs by priority, then arrival. A
// Scheduler fills the heap again each time and seldom empties it, so that the cost of
// init matters most.
type priorityQueue []*JobState

func (j *JobState) before(o *JobState) bool {
	return j.priority < o.priority || j.priority == o.priority && j.serial < o.serial
}

func (pq priorityQueue) init() {
	for i := len(pq)/2 - 1; i >= 0; i-- {
		pq.down(i)
	}
}

// pop takes the first job off.
func (pq *priorityQueue) pop() *JobState {
	s := *pq
	x, last := s[0], len(s)-1
	s[0] = s[last]
	*pq = s[:last]
	if last > 0 {
		(*pq).down(0)
	}
	return x
}

func (pq priorityQueue) down(i int) {
	x := pq[i]
	for {
		next := 2*i + 1
		if next >= len(pq) {
			break
		}
		if next+1 < len(pq) && pq[next+1].before(pq[next]) {
			next++
		}
		if !pq[next].before(x) {
			break
		}
		pq[i] = pq[next]
		i = next
	}
	pq[i] = x
}
