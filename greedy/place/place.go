// Package place makes plans of orders. A list placer takes the rounds of jobs one after another and gives each one an
// early place beside those before: on the free GPUs of classes, in time grids where times are coarse, as runs where
// there are very many rounds, or on single nodes. The package has plans as well, what turns them into schedules and
// back, and the proofs that a job can never run.
package place
