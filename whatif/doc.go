// Package whatif answers how the best plan of an instance changes under
// scenarios: other GPUs, other jobs, other weights. It needs no server.
package whatif
