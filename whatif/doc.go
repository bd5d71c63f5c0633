// Package whatif answers how the best plan of an instance changes under scenarios: other GPUs, other jobs, other
// weights. It needs no server.
//
// Its files are in layers: when one instance relaxes another (relaxation, with rules and relaxation_nodes), and what
// that says of the optima (relation); a batch and its lines (batch); the instance of a scenario and what the plan of
// the base costs in it (scenario), bounds and solves (solve), and comparisons of all scenarios (refine); and Check and
// Run (whatif).
package whatif
