// Package bench holds the instance sets, benchmarks and comparisons behind the figures
// of the documentation, and the tests that need all packages.
package bench
