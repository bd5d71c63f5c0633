// Package executor is the agent of a node of a managed cluster: it registers the node's devices, obeys the orders of
// the server, and says what became of them. Each task has a runner process of its own (package runner), so that an
// agent may be killed and started again while its tasks go on. A task ends at the latest when the agent's lease runs
// out: a server that has heard nothing for that time may give the task to another node. What a task does to its
// runner does not change that: the agent ends what the runner does not, and so does the runner that waits for the
// next task.
package executor
