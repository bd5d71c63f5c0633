package openapi

import (
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// SimulationLine is one line of the answer as NDJSON. The line has the member that its field line names.
type SimulationLine struct {
	simulatedoc.Line
	// Error says why no more runs come. The answer has no summary then.
	Error Problem `json:"error,omitempty"`
} //	@name	SimulationLine

// CapacityLine is one line of the answer as NDJSON. The line has the member that its field line names.
type CapacityLine struct {
	capacitydoc.PlanLine
	// Error says why no report comes.
	Error Problem `json:"error,omitempty"`
} //	@name	CapacityLine
