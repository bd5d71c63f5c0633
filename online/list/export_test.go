package list

// What the tests of package list_test look at, which play the rules of rolling and hgittins.

const (
	LateShare         = lateShare
	LeastSlowdown     = leastSlowdown
	LeastKappa        = leastKappa
	LeastFIFOSlowdown = leastFIFOSlowdown
)

type Promise = promise

func (l *Scheduler) Rule() Rule                             { return l.rule }
func (l *Scheduler) Limited() bool                          { return l.limited() }
func (l *Scheduler) LateUs() int64                          { return l.guard.slowdown.spentUs }
func (l *Scheduler) Due() []*JobState                       { return l.guard.due }
func (l *Scheduler) HeldBack() int                          { return l.guard.back }
func (l *Scheduler) Unsettle()                              { l.guard.settled = false }
func (l *Scheduler) GPUIndex(name string) int               { return l.gpuOf[name] }
func (l *Scheduler) KeptPromise(j *JobState, mix bool) bool { return l.kept(j, mix) != nil }

func (j *JobState) Promise() *Promise  { return j.promise }
func (j *JobState) Ticket() int64      { return j.guarded.ticket }
func (j *JobState) GuardedWork() int64 { return j.guarded.work }

func (gr *GuardRule) Tickets() bool                      { return gr.tickets }
func (gr *GuardRule) Size() func(*JobState) int64        { return gr.size }
func (gr *GuardRule) SetSize(size func(*JobState) int64) { gr.size = size }
