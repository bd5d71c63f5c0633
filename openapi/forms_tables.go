package openapi

// The documents below are written down in the tables that read and write them; the
// specification takes their forms from there. The types only name them.

type (
	// Instance is of package wire, as the next two are.
	Instance struct{} //	@name	Instance
	Cluster  struct{} //	@name	Cluster
	Job      struct{} //	@name	Job

	// SimulationRequest is simulation.Form.
	SimulationRequest struct{} //	@name	SimulationRequest
)
