// Package regret compares what an online session achieved with the best that
// hindsight allows.
package regret
