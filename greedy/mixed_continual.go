package greedy

const (
	// firstCandidate is the work of the first candidate of a continual search, for each job. It begins where
	// leastCandidate of it is left, since list schedules alone are far worse.
	firstCandidate = 8
	leastCandidate = 3
)

// searchContinually makes one candidate after another, each with twice the work of the one before, and after each
// candidate spends as much work on filling the best one better, unless the places of surrogates serve. A candidate
// begins where both fit into the limit.
func (ms *mixedSearch) searchContinually(peek func()) {
	left, whole := ms.cfg.Moves, ms.cfg
	work := firstCandidate * int64(len(ms.m.Jobs))
	least := 2 * leastCandidate * int64(len(ms.m.Jobs))
	for n := 0; whole.StopAt == 0 || ms.best == nil || ms.value.Float() > whole.StopAt; n++ {
		if left < least || ms.ctx.Err() != nil {
			break
		}
		part := *whole
		part.Moves = work
		ms.cfg, ms.left = &part, work
		ms.candidate(n, 1)
		left -= work - ms.left
		if ms.best != nil && ms.progress != nil && !ms.placesServe {
			ms.left = work
			ms.fill(ms.best, ms.best, ms.fillerRelaxation(ms.progress), ms.part(0.95))
			left -= work - ms.left
		}
		peek()
		work *= 2
		least = 2 * work
	}
	ms.cfg, ms.left = whole, left
}
