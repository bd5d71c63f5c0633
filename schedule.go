package hare

// Schedule gives every task a GPU and a start, as runs of rounds in lanes.
type Schedule struct {
	Jobs  []string // the IDs to which Lane.Job refers
	Lanes []Lane
}

// Lane is what one GPU does, as a table with columns of equal length and one row for each
// entry. Entries are in order of time. Entry i stands for Rounds[i] consecutive rounds of job
// Jobs[Job[i]], from round Round[i] on. In each round the GPU runs Tasks[i] tasks back to
// back, and round Round[i]+n starts at StartUs[i] + n·PeriodUs[i]. A nil column has the same
// value in every row: 0 for Round, 1 for Rounds, 1 for Tasks, 0 for PeriodUs and 0 for Shape.
//
// In a job with Shapes, Round counts units, and round n of the entry, in shape number Shape[i],
// does the Counts units from Round[i] + n·Counts on.
type Lane struct {
	GPU      string
	Job      []int32
	Round    []int64
	Rounds   []int64
	Tasks    []int64
	PeriodUs []int64
	StartUs  []int64
	Shape    []int64
}

// Entry is one row of a lane.
type Entry struct {
	Job                                     int32
	Round, Rounds, Tasks, PeriodUs, StartUs int64
	Shape                                   int64
}

// Entry returns row i with defaults filled in.
func (l *Lane) Entry(i int) Entry {
	e := Entry{Job: l.Job[i], Rounds: 1, Tasks: 1, StartUs: l.StartUs[i]}
	if l.Round != nil {
		e.Round = l.Round[i]
	}
	if l.Rounds != nil {
		e.Rounds = l.Rounds[i]
	}
	if l.Tasks != nil {
		e.Tasks = l.Tasks[i]
	}
	if l.PeriodUs != nil {
		e.PeriodUs = l.PeriodUs[i]
	}
	if l.Shape != nil {
		e.Shape = l.Shape[i]
	}
	return e
}
