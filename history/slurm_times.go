package history

import (
	"fmt"
	"slices"
	"strings"
)

// jobTimes are the times of a job as a row tells them: submission, from when it could start, start and end.
type jobTimes struct {
	at                     [4]clock
	elapsedUs, suspendedUs int64 // elapsedUs is -1 where it is not told
	endUnread              bool
}

// keptSuspended is what is assumed of a job that was suspended.
const keptSuspended = "was suspended for some of its time, in which it kept its GPUs, as Slurm does"

// shiftsUs are what clocks are put forward and back by.
var shiftsUs = []int64{3600e6, -3600e6, 1800e6, -1800e6}

// settleTimes sets the times of a job. Of local times that stand twice those count that agree with the elapsed
// seconds, then those in the order of a job's life, then the earlier ones. It says whether start and end are known as
// far as the job has them: where one of them could not be read, the other and the elapsed seconds tell it.
func (l *slurmReader) settleTimes(j *Job, known *jobTimes, place Place) bool {
	at := [4]int64{known.at[0].us, known.at[1].us, known.at[2].us, known.at[3].us}
	if twice := slices.ContainsFunc(known.at[:], func(c clock) bool { return c.later > 0 }); twice {
		var sure bool
		if at, sure = known.readings(); !sure {
			l.Report.doubt("a local time stands twice (end of summer time), and the elapsed seconds do not decide: the "+
				"earlier one counts", place)
		}
	}
	if slices.ContainsFunc(known.at[:], func(c clock) bool { return c.skipped }) {
		l.Report.doubt("a local time that the time zone leaves out (begin of summer time): is --zone right?", place)
	}
	start, end := &at[2], &at[3]
	held := known.elapsedUs + known.suspendedUs
	switch told := known.elapsedUs >= 0; {
	case told && *start == 0 && *end > 0 && known.elapsedUs > 0:
		*start = *end - held
	case told && *start > 0 && known.endUnread:
		*end = *start + held
	case told && *start > 0 && *end > 0:
		switch off := *end - *start - held; {
		case off == 0 || off == -known.suspendedUs:
		case slices.Contains(shiftsUs, off):
			l.Report.doubt("start and end differ from the elapsed seconds by a change of summer time: the elapsed seconds "+
				"count (--zone says where the times are from)", place)
			*end = *start + held
		case off > 60e6 || off < -60e6:
			l.Report.doubt("start and end differ from the elapsed seconds: start and end count", place)
		}
	}
	if j.suspended = known.suspendedUs > 0; j.suspended {
		l.Report.assume(keptSuspended, place)
	}
	if at[0] == 0 {
		at[0] = at[1]
	}
	if at[0] == 0 {
		at[0] = at[2]
	}
	j.SubmitUs, j.EligibleUs, j.StartUs, j.EndUs = at[0], at[1], at[2], at[3]
	return j.StartUs > 0 && j.EndUs > 0
}

// readings chooses among the readings of times that stand twice. sure says that no other choice of start and end is
// as good, by the elapsed seconds.
func (k *jobTimes) readings() (best [4]int64, sure bool) {
	most := -1
	for mask := range 16 {
		var at [4]int64
		possible := true
		for i, c := range k.at {
			if at[i] = c.us; mask&(1<<i) != 0 {
				at[i] = c.later
				possible = possible && c.later > 0
			}
		}
		if !possible {
			continue
		}
		score := 0
		length := at[3] - at[2]
		if k.elapsedUs >= 0 && at[2] > 0 && at[3] > 0 &&
			(length == k.elapsedUs+k.suspendedUs || length == k.elapsedUs) {
			score += 4
		}
		for i := range 3 {
			if at[i] == 0 || at[i+1] == 0 || at[i] <= at[i+1] {
				score++
			}
		}
		switch {
		case score > most:
			most, best, sure = score, at, score >= 4
		case score == most && (at[2] != best[2] || at[3] != best[3]):
			sure = false
		}
	}
	return best, sure
}

// countCluster counts a row of a cluster. A name that Slurm gives no cluster is set aside.
func (l *slurmReader) countCluster(name string, place Place) {
	if name == "" {
		return
	}
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("_-.", r)
	}
	if strings.TrimFunc(name, plain) != "" {
		l.Report.setAside("cluster cannot be read: the job counts as one of the cluster of the others", place, name)
		return
	}
	name = strings.ToLower(name)
	c := l.clusters[name]
	if c == nil {
		if l.clusters == nil {
			l.clusters = map[string]*clusterRows{}
		}
		c = &clusterRows{first: place}
		l.clusters[strings.Clone(name)] = c
	}
	c.rows++
}

// manyRows is from how many rows of one cluster on a single row of another counts as one that was told wrongly.
const manyRows = 5

// oneCluster refuses texts of several clusters, whose jobs and nodes may be called alike. A single row of another
// cluster is left out.
func (l *slurmReader) oneCluster() error {
	if len(l.clusters) < 2 {
		return nil
	}
	names := sortedStrings(l.clusters)
	slices.SortStableFunc(names, func(a, b string) int { return l.clusters[b].rows - l.clusters[a].rows })
	most, other := l.clusters[names[0]], l.clusters[names[1]]
	if len(names) > 2 || other.rows > 1 || most.rows < manyRows {
		return &RowError{other.first, fmt.Sprintf(
			"the texts are of several clusters, %.40s and %.40s: choose one by sacct -M %.40s",
			names[0], names[1], names[0])}
	}
	l.Report.setAside("cluster is another than that of all other rows: the job is left out", other.first, names[1])
	l.Jobs = slices.DeleteFunc(l.Jobs, func(j Job) bool { return j.Place == other.first })
	return nil
}
