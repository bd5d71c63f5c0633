// Package worker runs round jobs: a round has K tasks, each of which computes a gradient on some
// device; the K gradients are summed in the order of the tasks, and one step of the optimiser
// gives the next version of the job's parameters. The tasks are computed by Python processes, one a
// device, that serve many jobs in turn (the package hare-worker, in the folder worker/).
//
// A Node holds the state of its jobs in shared memory and outlives its worker processes: a process
// that dies loses no more than the task that it computed, which is then computed again from the
// last committed version. The parameters after n rounds do not depend on which device
// computed which task, in which order, and how often a process died.
package worker
