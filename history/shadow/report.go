package shadow

import (
	"encoding/json"
	"io"

	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/plot"
)

// DocumentVersion names the form of a Report.
const DocumentVersion = "shadow/v1"

// Report is what Compare found. Times are in seconds. Means and percentiles are over the jobs that
// did not run yet when the window began; a wait counts from the submission, or from the begin of
// the window where the job was submitted before.
type Report struct {
	Hare    string `json:"hare"`
	Version string `json:"version"`
	// Source says what was read, assumed and left out.
	Source *history.Report `json:"source"`
	// OriginUs is the begin of the window, in microseconds since 1970, and WindowS the time from there
	// to the last end of a job.
	OriginUs int64   `json:"origin_us"`
	WindowS  float64 `json:"window_s"`
	Seed     uint64  `json:"seed"`
	// Jobs are the jobs that the figures count.
	Jobs int `json:"jobs"`
	// RunningAtBegin are jobs that no scheduler could move any more: they hold their GPUs and are in no
	// mean. WaitingAtBegin are counted, with waits from the begin of the window. RunningAtEnd are
	// counted as if they had ended with the log. WaitingAtEnd are left out.
	RunningAtBegin int        `json:"running_at_begin"`
	WaitingAtBegin int        `json:"waiting_at_begin"`
	RunningAtEnd   int        `json:"running_at_end"`
	WaitingAtEnd   int        `json:"waiting_at_end"`
	GPUs           []TypeGPUs `json:"gpus"`
	// WeightsOne says that all jobs weigh the same, so that means by weight are plain means.
	WeightsOne bool `json:"weights_one"`

	Happened Row `json:"happened"`
	Slurm    Row `json:"slurm"`
	Online   Row `json:"online"`
	// Coarse says that Hare's policy was told the jobs without estimates and classes, as there are many.
	Coarse    bool `json:"coarse,omitempty"`
	Hindsight Row  `json:"hindsight"`
	// Bound is what no scheduler could have gone below.
	Bound Bound `json:"bound"`
	// Check compares the simulated Slurm with what happened.
	Check Check `json:"check"`
	// Saved is what Hare would have saved against what happened, and SavedSimulated against the
	// simulated Slurm.
	Saved          Saving `json:"saved"`
	SavedSimulated Saving `json:"saved_simulated"`
	// Gain and Pay count the jobs that would have ended over a minute earlier or later than they did.
	Gain   Change   `json:"gain"`
	Pay    Change   `json:"pay"`
	Users  []User   `json:"users"`
	Most   []JobRow `json:"gain_most"`
	Least  []JobRow `json:"pay_most"`
	Losses Losses   `json:"losses"`

	samples []plot.Sample // the completion times of the rows, for the page
	queues  []plot.Curve  // how many jobs wait, over the hours since the window began
}

// TypeGPUs is a number of GPUs of one type.
type TypeGPUs struct {
	Type string `json:"type"`
	GPUs int64  `json:"gpus"`
}

// Row are the figures of one schedule of the jobs.
type Row struct {
	MeanWaitS       float64 `json:"mean_wait_s"`
	P95WaitS        float64 `json:"p95_wait_s"`
	MeanCompletionS float64 `json:"mean_completion_s"`
	P95CompletionS  float64 `json:"p95_completion_s"`
	// WeightedMeanS is the mean completion by weight, which the bound is about.
	WeightedMeanS float64 `json:"weighted_mean_completion_s"`
	// AboveBound is by which fraction WeightedMeanS is above the bound, rounded up; null where the bound
	// is 0.
	AboveBound *float64 `json:"above_bound"`
	MakespanS  float64  `json:"makespan_s"`
	// GPUHours are the hours that jobs held GPUs, by type.
	GPUHours []TypeHours `json:"gpu_hours"`
	// Verified says that the verifier accepts the schedule; Refused says why not.
	Verified bool   `json:"verified"`
	Refused  string `json:"refused,omitempty"`
	// Lost counts tasks that ended because a node left service.
	Lost int `json:"lost_tasks"`
}

// TypeHours are hours of GPUs of one type.
type TypeHours struct {
	Type  string  `json:"type"`
	Hours float64 `json:"hours"`
}

// Bound is a certified bound: no schedule of these jobs on these GPUs that starts no job before its
// release has a smaller mean, if the times by type are right.
type Bound struct {
	Method string `json:"method"`
	// Total is the bound on the sum of weight times completion.
	Total string `json:"total"`
	// WeightedMeanS is the bound on the mean completion by weight, rounded down.
	WeightedMeanS float64 `json:"weighted_mean_completion_s"`
	// MeanCompletionS is the same where all weights are one, and null elsewhere.
	MeanCompletionS *float64 `json:"mean_completion_s"`
	// LeastS is the part of WeightedMeanS that each job takes alone on its fastest type, and QueueS the
	// rest: the waiting, or the slower types, that no scheduler can avoid.
	LeastS float64 `json:"least_s"`
	QueueS float64 `json:"queue_s"`
	// P95CompletionS bounds the 95th percentile: the 95th percentile of the least times of the jobs.
	P95CompletionS float64 `json:"p95_completion_s"`
}

// Check says how far the simulated Slurm is from what happened, as fractions of what happened; null
// where that is 0.
type Check struct {
	MeanWait       *float64 `json:"mean_wait"`
	P95Wait        *float64 `json:"p95_wait"`
	MeanCompletion *float64 `json:"mean_completion"`
	// WithinMinute is the share of jobs that start within a minute of when they did.
	WithinMinute float64 `json:"within_minute"`
	// AnyType says that jobs that named no type could start on any, with the assumed times; otherwise
	// each job kept to the types where it ran.
	AnyType bool `json:"any_type"`
}

// Saving is the fraction of a mean that would have been saved, with its interval.
type Saving struct {
	Completion Interval `json:"completion"`
	Wait       Interval `json:"wait"`
}

// Interval is a figure with the 95 % interval of drawing the days again; Low and High are null where
// the window has fewer than three days with jobs, and Value is null where it has no meaning.
type Interval struct {
	Value *float64 `json:"value"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
	Days  int      `json:"days"`
}

// Change counts jobs, and the hours by which their completions change together.
type Change struct {
	Jobs  int     `json:"jobs"`
	Hours float64 `json:"hours"`
}

// User is what would have changed for the jobs of one user.
type User struct {
	User      string  `json:"user"`
	Jobs      int     `json:"jobs"`
	HappenedS float64 `json:"happened_mean_completion_s"`
	OnlineS   float64 `json:"online_mean_completion_s"`
	Gain      int     `json:"gain"`
	Pay       int     `json:"pay"`
	// Hours is by how much the completions of the user's jobs get shorter together.
	Hours float64 `json:"hours_saved"`
}

// JobRow is what would have changed for one job. Starts and ends count from the begin of the window.
type JobRow struct {
	ID            string  `json:"id"`
	User          string  `json:"user"`
	Name          string  `json:"name"`
	GPUs          int64   `json:"gpus"`
	ReleaseS      float64 `json:"release_s"`
	HappenedS     float64 `json:"happened_start_s"`
	HappenedEndS  float64 `json:"happened_end_s"`
	HappenedTypes string  `json:"happened_types"`
	OnlineS       float64 `json:"online_start_s"`
	OnlineEndS    float64 `json:"online_end_s"`
	OnlineTypes   string  `json:"online_types"`
}

// Losses say where completion times and GPU time go.
type Losses struct {
	// Steps take one limit away after the other; each has the mean completion by weight that is left.
	Steps    []Step `json:"steps,omitempty"`
	Happened []Idle `json:"happened"`
	Online   []Idle `json:"online"`
}

// Step is a mean completion by weight without some limit.
type Step struct {
	Code  string  `json:"code"`
	Text  string  `json:"text"`
	MeanS float64 `json:"weighted_mean_completion_s"`
}

// Idle says for a GPU type what its GPU time was used for until the last job had been submitted, as
// shares of the time in service, measured at instants that are evenly spread.
type Idle struct {
	Type string `json:"type"`
	// Held is the share that jobs held. Slower is the part of Held that was more than the job would have
	// needed on its fastest type.
	Held   float64 `json:"held"`
	Slower float64 `json:"slower"`
	// NoJob is idle while no waiting job could use the type. Order is idle although a waiting job had
	// room. Fragmented is idle while a waiting job found enough GPUs, but not on the nodes where it needs
	// them or not with the CPUs and memory. Narrow is idle while waiting jobs needed more GPUs than were
	// free.
	NoJob      float64 `json:"no_job"`
	Order      float64 `json:"order"`
	Fragmented float64 `json:"fragmented"`
	Narrow     float64 `json:"narrow"`
}

// JSON writes the report, indented.
func (r *Report) JSON(w io.Writer) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// leastDays is how many days with submissions an interval needs.
const leastDays = 3

// listed is how many jobs the lists of those that gain and pay most have.
const listed = 10
