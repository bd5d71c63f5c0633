package executor

import "time"

// SetPoolIdle says how long the pool stays that has nothing to do, and returns what undoes that. No agent may run.
func SetPoolIdle(d time.Duration) (undo func()) {
	was := poolIdle
	poolIdle = d
	return func() { poolIdle = was }
}

// SetPoolObeys says how long the pool may take to answer, and returns what undoes that. No agent may run.
func SetPoolObeys(d time.Duration) (undo func()) {
	was := poolObeys
	poolObeys = d
	return func() { poolObeys = was }
}

// SetLookEvery says how often devices and the pool are looked at, and returns what undoes that. No agent may run.
func SetLookEvery(d time.Duration) (undo func()) {
	was := lookEvery
	lookEvery = d
	return func() { lookEvery = was }
}

// SetRunnerObeys says how long a runner may take to end its task, and returns what undoes that. No agent may run.
func SetRunnerObeys(d time.Duration) (undo func()) {
	was := runnerObeys
	runnerObeys = d
	return func() { runnerObeys = was }
}
