package openapi

import "github.com/hare-sched/hare/study/simulation"

// SimulationLine is one line of the answer as NDJSON: it has the member that line names.
type SimulationLine struct {
	simulation.Line
	// Error is why no more runs come; there is no summary then.
	Error Problem `json:"error,omitempty"`
} //	@name	SimulationLine
