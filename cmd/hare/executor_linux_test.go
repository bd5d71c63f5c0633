package main

import (
	"regexp"
	"testing"
)

// changingJobs matches what differs from run to run in what hare jobs and hare agents print.
var changingJobs = regexp.MustCompile(`\b\d+s\b|20\d\d-\d\d-\d\d \d\d:\d\d:\d\d| +`)

func TestExecutorPage(t *testing.T) {
	checkPage(t, "../../docs/use/run-jobs.md", changingJobs, 30, "python3")
}
