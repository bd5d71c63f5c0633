// Package study simulates the jobs of a trace, an instance or a generator under scheduling policies, and reports what
// each policy achieved.
//
// Its files are in layers. At the bottom are a request (request), the jobs in the form of each engine (input), the
// limits, the report with its tables and files, and the state of a series of runs (series). On these stand a file for
// each engine, which reads its jobs and plays a run (tasks, leases, elastic, shared). Validate, the reader of traces
// (read), the bound and the notes stand beside them, and Simulate (run) is at the top.
package study
