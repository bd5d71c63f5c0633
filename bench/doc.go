// Package bench holds the instance sets, benchmarks and comparisons that the
// figures of the documentation come from, and the tests that need everything.
package bench
