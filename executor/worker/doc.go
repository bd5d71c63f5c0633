// Package worker runs round jobs: a round has K tasks, each of which computes a gradient on some
// device; the K gradients are summed in the order of the tasks, and one step of the optimiser
// gives the next version of the job's parameters. The tasks are computed by Python processes, one a
// device, that serve many jobs in turn (the package hare-worker, in the folder worker/).
//
// A Node holds the state of its jobs in shared memory and outlives its worker processes: a process
// that dies loses no more than the task that it computed, which is then computed again from the
// last committed version. The parameters after n rounds do not depend on which device
// computed which task, in which order, and how often a process died.
//
// The protocol. This process listens on a Unix socket (mode 0600) in a directory that must be closed to other
// users, and starts python -m hare_worker --socket … --epoch …, with an environment of few variables. Each side
// refuses a process of another user at the other end. A frame is a length of four bytes, the most significant
// first, and so many bytes of JSON, at most 1 MiB; [Message] is what it holds, and [Type] lists the requests with
// their answers. The worker's first message is hello, with the version of the protocol and its process ID. The
// file descriptor of the shared memory comes with the frame of attach. Every message has the epoch of the
// worker's start, and requests are numbered without gaps. A frame that is cut, too long or not a message, an
// unknown name, another epoch, or an answer that nobody waits for ends the connection and the worker.
//
// This process does not wait for the answers to prefetch and evict: they are sent after a task, and the worker
// does them after the task.
package worker
