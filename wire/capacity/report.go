package capacity

// DocumentVersion is the version of the report's form.
const DocumentVersion = 1

// Values of Report.Status.
const (
	StatusSucceeded = "succeeded"
	StatusDeadline  = "deadline"
)

// Report says what a cluster should buy. It has a row for each option under each policy, what is certain, and what was
// assumed. Later versions may add fields.
type Report struct {
	// Hare is the version of this form.
	Hare    int    `json:"hare"`
	Version string `json:"version"`
	// Status is deadline where the time limit passed. The report then has the rows of which all weeks had been played.
	Status string `json:"status" enums:"succeeded,deadline"`
	// Source says what the history is.
	Source string `json:"source,omitempty"`
	Seed   uint64 `json:"seed"`

	// Jobs is the number of jobs of the history.
	Jobs int `json:"jobs"`
	// HistoryDays is the number of days of the history.
	HistoryDays int     `json:"history_days"`
	Weeks       int     `json:"weeks"`
	Days        int     `json:"days"`
	Growth      float64 `json:"growth"`
	// Grow are the examples whose jobs grow by factors of their own.
	Grow []Like `json:"grow,omitempty"`
	// WeekJobs is the mean number of jobs of a drawn week that count.
	WeekJobs float64 `json:"week_jobs"`
	// Goal is what a week must reach, in words.
	Goal string `json:"goal,omitempty"`
	// Share is the share of weeks that must reach the goal.
	Share float64 `json:"share,omitempty"`
	// Prices are those of a GPU for an hour, by type.
	Prices map[string]float64 `json:"prices,omitempty"`

	// Decision is what the figures say, in sentences.
	Decision []string `json:"decision"`
	Rows     []Row    `json:"rows"`
	// Mixes has the cheapest mix for each policy, where the request asks for them.
	Mixes []Mix `json:"mixes,omitempty"`
	// Certain is what is proved of all schedulers.
	Certain []Certain `json:"certain,omitempty"`
	// CertainJobs is the number of jobs of the history that certain is about, which are the last ones.
	CertainJobs int `json:"certain_jobs,omitempty"`
	// Assumed is what the figures rest on, in sentences.
	Assumed []string `json:"assumed"`
	// Front are the indices of the rows that no other row beats in cost and mean wait, by cost. Without prices there are
	// none.
	Front []int `json:"front,omitempty"`
} //	@name	CapacityReport

// Like is an example of jobs of the history, and by which factor they grow.
type Like struct {
	Name   string  `json:"name"`
	Factor float64 `json:"factor"`
	// Jobs is how many jobs of the history it names.
	Jobs int `json:"jobs"`
} //	@name	CapacityLike

// Row is an option under a policy. Figures are means over the weeks.
type Row struct {
	Option          string   `json:"option"`
	Policy          string   `json:"policy"`
	MeanWaitS       Estimate `json:"mean_wait_s"`
	P95WaitS        Estimate `json:"p95_wait_s"`
	MeanCompletionS Estimate `json:"mean_completion_s"`
	P95CompletionS  Estimate `json:"p95_completion_s"`
	// SavedS is how much shorter the mean wait is than in the first row, week by week.
	SavedS Estimate `json:"mean_wait_saved_s"`
	// DeadlinesMet is the share of deadlines that are met. It is left out where no job has a deadline.
	DeadlinesMet *Estimate `json:"deadlines_met,omitempty"`
	// GPUHours are those that the jobs of a week hold, by type.
	GPUHours map[string]Estimate `json:"gpu_hours"`
	// Use is the share of the GPUs that is held in the days of a week, by type.
	Use map[string]float64 `json:"use"`
	// CostPerWeek is that of all priced GPUs in seven days. It is null without prices.
	CostPerWeek *float64 `json:"cost_per_week"`
	// AddedCostPerWeek is that of the GPUs that the option adds. It is null without prices.
	AddedCostPerWeek *float64 `json:"added_cost_per_week"`
	// CostPerHourSaved is the added cost for each hour of waiting that is saved. It is null where nothing is saved.
	CostPerHourSaved *float64 `json:"cost_per_hour_saved"`
	// Reached is the share of weeks that reach the goal (interval of Clopper and Pearson, 1934). It is left out without a
	// goal.
	Reached *Share `json:"goal_reached,omitempty"`
	// Marked counts the weeks in which the policy did worse than on a cluster that this one contains, whose figures
	// then stand here.
	Marked int `json:"marked,omitempty"`
	// Why says which parts of the option cannot help, and why.
	Why []string `json:"cannot_help,omitempty"`
	// Queue is how many jobs wait at each hour of a week, a mean over the weeks.
	Queue []float64 `json:"queue"`
} //	@name	CapacityRow

// Estimate is a mean over weeks with half of its 95 % interval.
type Estimate struct {
	Mean float64 `json:"mean"`
	Half float64 `json:"half"`
} //	@name	WeekEstimate

// Share is a share of weeks with its 95 % interval.
type Share struct {
	Share float64 `json:"share"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
} //	@name	WeekShare

// Mix is a number of GPUs to buy of each type.
type Mix struct {
	Policy string `json:"policy"`
	// Add is empty where nothing has to be bought.
	Add []AddedGPUs `json:"add"`
	// CostPerWeek is what the added GPUs cost in seven days.
	CostPerWeek float64 `json:"cost_per_week"`
	// Share is the share of weeks that reach the goal.
	Share float64 `json:"share"`
	// Found says whether any mix reaches the goal; where not, this is the largest.
	Found bool `json:"found"`
	// Next is the dearest mix that costs less, and how far it falls short; left out where there is none.
	Next *Mix `json:"next_cheaper,omitempty"`
	// Missed is the part of the goal that the most weeks miss.
	Missed string `json:"missed,omitempty"`
	// MissedMeanS is the mean of that figure over the weeks.
	MissedMeanS float64 `json:"missed_mean_s,omitempty"`
	// MissedLimitS is its limit.
	MissedLimitS float64 `json:"missed_limit_s,omitempty"`
} //	@name	CapacityMix

// AddedGPUs are GPUs that a mix adds.
type AddedGPUs struct {
	Type  string `json:"type"`
	Count int    `json:"count"`
} //	@name	BoughtGPUs

// Certain is what no scheduler can go beyond, for the jobs of the history, or its last ones, on the cluster of an
// option. It goes by plans that know all jobs beforehand and by proved bounds.
type Certain struct {
	Option string `json:"option"`
	// LeastS is by how much the best plan's mean completion, weighted, gets shorter at least, in seconds. It is null
	// where this is not known.
	LeastS *float64 `json:"least_s"`
	// MostS is by how much it gets shorter at most.
	MostS *float64 `json:"most_s"`
	// Endless says that this is about any number of GPUs of the one type.
	Endless bool `json:"endless,omitempty"`
} //	@name	CapacityProof

// Values of PlanLine.Kind, beside error.
const (
	LineProgress = "progress"
	LineProved   = "proved"
	LineReport   = "report"
)

// PlanLine is one line of the answer as NDJSON. The line has the member that its field line names.
type PlanLine struct {
	Kind     string    `json:"line" enums:"progress,proved,report,error"`
	Progress *Progress `json:"progress,omitempty"`
	// Proved is what is certain of the first option for which it is known.
	Proved *Certain `json:"proved,omitempty"`
	Report *Report  `json:"report,omitempty"`
}

// Progress is how far a plan has come.
type Progress struct {
	// Part is what is computed now.
	Part string `json:"part"`
	// Done is the share of the part that is done.
	Done float64 `json:"done"`
} //	@name	CapacityProgress
