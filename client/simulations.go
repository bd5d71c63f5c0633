package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"

	"github.com/hare-sched/hare/study/simulation"
)

// Simulation is the report of a simulation.
type Simulation struct {
	// Status is succeeded, or deadline where the time limit passed. Runs are the runs
	// that have ended.
	Status string          `json:"status"`
	Asked  int64           `json:"asked"` // runs that were asked for
	Runs   []SimulationRun `json:"runs"`  // by policy as asked for, then seed
	simulation.Summary
}

// SimulationRun holds the figures of one policy with one seed. Times are in seconds;
// docs/simulations.md defines each figure.
type SimulationRun struct {
	Policy            string             `json:"policy"`
	Engine            string             `json:"engine"` // task, lease or elastic
	Knows             string             `json:"knows"`
	Seed              int64              `json:"seed"`
	Jobs              int64              `json:"jobs"`
	Dropped           int64              `json:"dropped"`
	MeanJCTS          float64            `json:"mean_jct_s"`
	WeightedMeanJCTS  float64            `json:"weighted_mean_jct_s"`
	WeightedJCTS      float64            `json:"weighted_jct_s"`
	P50JCTS           float64            `json:"p50_jct_s"`
	P90JCTS           float64            `json:"p90_jct_s"`
	P99JCTS           float64            `json:"p99_jct_s"`
	MeanWaitS         float64            `json:"mean_wait_s"`
	P99WaitS          float64            `json:"p99_wait_s"`
	MeanSlowdown      float64            `json:"mean_slowdown"`
	P99Slowdown       float64            `json:"p99_slowdown"`
	MeanRho           float64            `json:"mean_rho"`
	WorstRho          float64            `json:"worst_rho"`
	Jain              float64            `json:"jain"`
	TotalS            float64            `json:"total_duration_s"`
	MakespanS         float64            `json:"makespan_s"`
	Utilization       float64            `json:"utilization"`
	UtilizationByType map[string]float64 `json:"utilization_by_type"`
	Switches          int64              `json:"switches"`
	SwitchS           float64            `json:"switch_gpu_s"` // of restarts too
	Preemptions       int64              `json:"preemptions"`
	Failures          int64              `json:"failures"` // of tasks
	DownS             float64            `json:"down_gpu_s"`
	LostTasks         int64              `json:"lost_tasks"`
	LostS             float64            `json:"lost_gpu_s"`
	Rounds            int64              `json:"rounds"` // of leases
	Leases            int64              `json:"leases"`
	Events            int64              `json:"events"` // of tasks
	Tasks             int64              `json:"tasks"`
	// Verified says that the run's schedule passes the verifier. All runs of the task
	// engine without stragglers do; leases have no schedule.
	Verified bool           `json:"verified"`
	LP       string         `json:"lp"`   // engine of linear programs
	CDF      *SimulationCDF `json:"cdf"`  // where it was asked for
	Each     []SimulatedJob `json:"each"` // where Detail is jobs
}

// SimulationCDF is a distribution of completion times: Share[i] of the jobs took
// at most JCTS[i] seconds.
type SimulationCDF struct {
	JCTS  []float64 `json:"jct_s"`
	Share []float64 `json:"share"`
}

// SimulatedJob is one job of a run. Figures that the job does not have are nil.
type SimulatedJob struct {
	ID          string   `json:"id"`
	Weight      float64  `json:"weight"`
	ArrivalS    float64  `json:"arrival_s"`
	StartS      *float64 `json:"start_s"`
	EndS        *float64 `json:"end_s"`
	JCTS        *float64 `json:"jct_s"`
	WaitS       *float64 `json:"wait_s"`
	Slowdown    *float64 `json:"slowdown"`
	Rho         *float64 `json:"rho"`
	Preemptions int64    `json:"preemptions"`
	State       string   `json:"state"`   // ended, dropped or unfinished
	Counted     bool     `json:"counted"` // it is among the jobs that figures are of
}

// SimulationLine is one line of the answer to FollowSimulation. The member that Line
// names is not nil.
type SimulationLine struct {
	Line     string              `json:"line"` // progress, run or summary
	Progress *SimulationProgress `json:"progress"`
	Run      *SimulationRun      `json:"run"`
	Summary  *SimulationSummary  `json:"summary"`
	Data     json.RawMessage     `json:"-"` // the whole line
}

// SimulationProgress is the progress of all runs together. Only the simulated time
// is that of one run, the run that reports.
type SimulationProgress struct {
	Policy   string  `json:"policy"`
	Seed     int64   `json:"seed"`
	NowS     float64 `json:"now_s"`
	Runs     int64   `json:"runs"`
	RunsDone int64   `json:"runs_done"`
	Jobs     int64   `json:"jobs"`
	JobsDone int64   `json:"jobs_done"`
	Events   int64   `json:"events"`
}

// SimulationSummary is the last line.
type SimulationSummary struct {
	Status string `json:"status"`
	Asked  int64  `json:"asked"`
	Runs   int64  `json:"runs"`
	simulation.Summary
}

// Simulate simulates jobs under policies, and returns when all runs have ended or
// the time limit has passed. The simulation ends with ctx.
func (c *Client) Simulate(ctx context.Context, s *simulation.Request) (*Simulation, error) {
	text, err := simulationBody(s)
	if err != nil {
		return nil, err
	}
	return fetch[Simulation](ctx, c, call{method: http.MethodPost, path: "/v1/simulations", body: text, repeatable: true})
}

// FollowSimulation is Simulate line by line: each run as it ends, lines of progress,
// and a summary last. A run that fails ends the sequence with a *Problem. The call is
// retried until the first line has come; a stream that breaks later is an error.
func (c *Client) FollowSimulation(ctx context.Context, s *simulation.Request) iter.Seq2[SimulationLine, error] {
	return func(yield func(SimulationLine, error) bool) {
		text, err := simulationBody(s)
		if err != nil {
			yield(SimulationLine{}, err)
			return
		}
		whole := false
		var failed *Problem // a failure after the first line, which is not retried
		err = c.lines(ctx, "/v1/simulations", text, func(line []byte) error {
			var l struct {
				SimulationLine
				Error *Problem `json:"error"`
			}
			if err := json.Unmarshal(line, &l); err != nil {
				return strangeLine(err)
			}
			if l.Error != nil {
				failed = l.Error
				return errStopped
			}
			whole = l.Line == "summary"
			l.Data = bytes.Clone(line)
			if !yield(l.SimulationLine, nil) {
				return errStopped
			}
			return nil
		})
		if failed != nil {
			yield(SimulationLine{}, failed)
			return
		}
		if err == nil && !whole {
			err = errors.New("client: the answer ends before its summary")
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(SimulationLine{}, err)
		}
	}
}

func simulationBody(s *simulation.Request) ([]byte, error) {
	var b bytes.Buffer
	err := s.EncodeJSON(&b)
	return b.Bytes(), err
}
