// Package study plays the jobs of a trace, an instance or a generator to
// scheduling policies in simulation, and reports what each policy achieved.
package study
