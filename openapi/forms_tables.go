package openapi

// The documents below are written down in the tables that read and write them; the
// specification takes their forms from there. The types only name them.

type (
	// Instance and the types below are of package wire.
	Instance       struct{} //	@name	Instance
	Cluster        struct{} //	@name	Cluster
	Job            struct{} //	@name	Job
	Result         struct{} //	@name	Result
	Reason         struct{} //	@name	Reason
	JobResult      struct{} //	@name	JobResult
	Task           struct{} //	@name	Task
	Schedule       struct{} //	@name	Schedule
	Certificate    struct{} //	@name	Certificate
	Options        struct{} //	@name	Options
	SolveRequest   struct{} //	@name	SolveRequest
	BoundRequest   struct{} //	@name	BoundRequest
	VerifyRequest  struct{} //	@name	VerifyRequest
	SessionRequest struct{} //	@name	SessionRequest
	Event          struct{} //	@name	Event
	ArrivingJob    struct{} //	@name	ArrivingJob
	Decision       struct{} //	@name	Decision
	Record         struct{} //	@name	Record
	SessionPlan    struct{} //	@name	SessionPlan
	Answer         struct{} //	@name	Answer
	EventError     struct{} //	@name	EventError

	// WhatIfRequest is whatifdoc.Form.
	WhatIfRequest struct{} //	@name	WhatIfRequest

	// SimulationRequest is simulatedoc.Form.
	SimulationRequest struct{} //	@name	SimulationRequest

	// CapacityRequest is capacitydoc.Form.
	CapacityRequest struct{} //	@name	CapacityRequest
)
