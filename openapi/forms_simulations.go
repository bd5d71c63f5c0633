package openapi

import "github.com/hare-sched/hare/study/simulation"

// SimulationLine is one line of the answer as NDJSON. The line has the member that its field line names.
type SimulationLine struct {
	simulation.Line
	// Error says why no more runs come. The answer has no summary then.
	Error Problem `json:"error,omitempty"`
} //	@name	SimulationLine
