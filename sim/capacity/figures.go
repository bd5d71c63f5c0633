package capacity

// Week is what became of one drawn week under a policy on the cluster of an option.
type Week struct {
	Jobs []Job // those that count, by submission

	// HeldUs is the GPU time that the jobs held, by type, in microseconds.
	HeldUs map[string]int64
	// UsedUs is the GPU time that any job held in the days of the week, by type, in microseconds.
	UsedUs map[string]int64
	// Deadlines counts the jobs with a deadline, Met those that ended by it.
	Deadlines, Met int

	WaitsS, CompletionsS []float64 // sorted
	Queue                []int     // how many jobs wait at each hour
}

// Job is what became of a job of a drawn week. Times are from the beginning of the week.
type Job struct {
	ID, User              string
	GPUs                  int64
	SubmitS, StartS, EndS float64
	DeadlineS             float64          // 0 is none
	HeldUs                map[string]int64 // by type, the GPU time held, in microseconds
}

// figures are those of the table.
func (w *Week) figures() Figures {
	at := func(what string, share float64) float64 { return w.figure(bar{what: what, share: share}) }
	f := Figures{MeanWaitS: at("wait", -1), P95WaitS: at("wait", 0.95), MeanCompletionS: at("completion", -1),
		P95CompletionS: at("completion", 0.95), DeadlinesMet: 1}
	if w.Deadlines > 0 {
		f.DeadlinesMet = float64(w.Met) / float64(w.Deadlines)
	}
	return f
}

// Figures are those of a week.
type Figures struct {
	MeanWaitS, P95WaitS, MeanCompletionS, P95CompletionS float64
	DeadlinesMet                                         float64 // the share; 1 without deadlines
	Reached                                              bool    // whether the week reaches the goal
	Jobs                                                 int
	// HeldH are the GPU hours that the jobs held, UsedH those that any job held in the days of the week, by type.
	HeldH, UsedH map[string]float64
	Queue        []int // how many jobs wait at each hour
}
