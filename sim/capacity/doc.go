// Package capacity answers what a cluster should buy, or which policy it should queue by: it draws weeks from a
// history of jobs, plays each of them under every policy on every cluster that could be had, and says what that
// costs, how long jobs wait, and in what share of the weeks a goal is reached. What is proved of all schedulers
// stands beside it. The package is pure: it has no clock, no input and no output but its documents.
//
// Its files are in layers: faults of requests (faults), what a week comes to, and goals (figures, goal), the weeks
// (weeks), the options (option), a request that has been read (read), one run (play), the grid of runs (grid), the
// cheapest mix that reaches a goal (mix), what is certain (certain), the size of a plan (size), and the report
// (report, text, page). Plan is at the top.
package capacity
