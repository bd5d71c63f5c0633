// Package study simulates the jobs of a trace, an instance or a generator under
// scheduling policies, and reports what each policy achieved.
package study
