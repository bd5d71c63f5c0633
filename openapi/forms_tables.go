package openapi

// The documents below are written down in the tables that read and write them; the
// specification takes their forms from there. The types only name them.

// SimulationRequest is simulation.Form.
type SimulationRequest struct{} //	@name	SimulationRequest
