package task

// priorityQueue is a binary heap of waiting jobs by priority, then arrival. A
// ListScheduler makes it anew each time and seldom empties it, so that the cost of
// init counts most.
type priorityQueue []*JobState

func (j *JobState) before(o *JobState) bool {
	return j.priority < o.priority || j.priority == o.priority && j.serial < o.serial
}

func (q priorityQueue) init() {
	for i := len(q)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
}

// pop takes the first job off.
func (q *priorityQueue) pop() *JobState {
	s := *q
	x, last := s[0], len(s)-1
	s[0] = s[last]
	*q = s[:last]
	if last > 0 {
		(*q).down(0)
	}
	return x
}

func (q priorityQueue) down(i int) {
	x := q[i]
	for {
		next := 2*i + 1
		if next >= len(q) {
			break
		}
		if next+1 < len(q) && q[next+1].before(q[next]) {
			next++
		}
		if !q[next].before(x) {
			break
		}
		q[i] = q[next]
		i = next
	}
	q[i] = x
}
