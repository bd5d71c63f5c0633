package ledger

import (
	"maps"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// How many jobs wait and run and how many GPUs they have is constant between two records. Usage adds these numbers up,
// each times the microseconds that it held, so that sums divided by time are exact means.

const (
	minuteUs = 60 * 1e6
	// LongestRow is how many minutes a row has at most, of a time in which nothing changed.
	LongestRow = 24 * 60
	// HistoryMinutes is how long the history of a cluster is kept.
	HistoryMinutes = 90 * 24 * 60
)

// Usage is the sums over a minute, or over several minutes in which nothing changed. Fields in microseconds are sums
// over time.
type Usage struct {
	Minute  int64 `json:"minute"`  // the first, since 1970
	Minutes int64 `json:"minutes"` // from 1
	TimeUs  int64 `json:"time_us"` // that the sums cover, less than the minutes where the cluster is younger

	WaitingUs     int64            `json:"waiting_us,omitempty"`      // jobs
	RunningUs     int64            `json:"running_us,omitempty"`      // jobs with an attempt
	WaitingGPUsUs int64            `json:"waiting_gpus_us,omitempty"` // that waiting jobs ask for
	UsedUs        map[string]int64 `json:"used_us,omitempty"`         // GPUs, by type
	InServiceUs   map[string]int64 `json:"in_service_us,omitempty"`   // GPUs, by type

	Started int64 `json:"started,omitempty"` // jobs, for the first time
	Ended   int64 `json:"ended,omitempty"`   // jobs
	WaitUs  int64 `json:"wait_us,omitempty"` // of the jobs that started, from their submission
}

// usage is the numbers of now, and the sums that nobody has taken yet.
type usage struct {
	atUs            int64 // up to which the numbers are added up
	waitingGPUs     int64
	used, inService map[string]int64
	open            Usage   // the minute that goes on
	over            []Usage // minutes that are over
}

func newUsage() usage { return usage{used: map[string]int64{}, inService: map[string]int64{}} }

// Add adds the sums of n of the minutes of y, which are alike.
func (x *Usage) Add(y *Usage, n int64) {
	part := func(sum int64) int64 { return sum / y.Minutes * n }
	x.TimeUs += part(y.TimeUs)
	x.WaitingUs += part(y.WaitingUs)
	x.RunningUs += part(y.RunningUs)
	x.WaitingGPUsUs += part(y.WaitingGPUsUs)
	for gpuType, sum := range y.UsedUs {
		x.UsedUs[gpuType] += part(sum)
	}
	for gpuType, sum := range y.InServiceUs {
		x.InServiceUs[gpuType] += part(sum)
	}
	x.Started, x.Ended, x.WaitUs = x.Started+y.Started, x.Ended+y.Ended, x.WaitUs+y.WaitUs
}

// gpus is how many GPUs a waiting job asks for.
func (j *job) gpus() int64 {
	if j.relaxed != nil {
		return int64(RoundTasks(&j.spec))
	}
	return int64(j.tasks) * int64(j.perTask)
}

// advance adds up the time until a record.
func (l *Ledger) advance(toUs int64) {
	u := &l.usage
	if u.atUs == 0 {
		u.atUs = toUs
		u.open = Usage{Minute: toUs / minuteUs, Minutes: 1}
	}
	for u.atUs < toUs {
		end := (u.open.Minute + 1) * minuteUs
		if n := min(LongestRow, (toUs-u.atUs)/minuteUs); n > 1 && u.atUs == end-minuteUs && u.open.quiet() {
			u.open.Minutes, end = n, u.atUs+n*minuteUs
		}
		step := min(toUs, end) - u.atUs
		l.add(step)
		if u.atUs += step; u.atUs == end {
			if u.over = append(u.over, u.open); len(u.over) > HistoryMinutes {
				u.over = u.over[1:]
			}
			u.open = Usage{Minute: u.atUs / minuteUs, Minutes: 1}
		}
	}
}

// quiet reports whether nothing has happened in a minute.
func (x *Usage) quiet() bool { return x.TimeUs == 0 && x.Started == 0 && x.Ended == 0 }

// add counts the numbers of now for a time.
func (l *Ledger) add(us int64) {
	u, x := &l.usage, &l.usage.open
	x.TimeUs += us
	x.WaitingUs += int64(l.counts[clusterdoc.JobWaiting]) * us
	x.RunningUs += int64(l.counts[clusterdoc.JobStarting]+l.counts[clusterdoc.JobRunning]+
		l.counts[clusterdoc.JobStopping]) * us
	x.WaitingGPUsUs += u.waitingGPUs * us
	addTypes(&x.UsedUs, u.used, us)
	addTypes(&x.InServiceUs, u.inService, us)
}

func addTypes(to *map[string]int64, counts map[string]int64, us int64) {
	if *to == nil && len(counts) > 0 {
		*to = map[string]int64{}
	}
	for gpuType, n := range counts {
		(*to)[gpuType] += n * us
	}
}

// recount counts the devices of an agent again.
func (l *Ledger) recount(a *agent) {
	count := func(counted *bool, is bool, of map[string]int64, gpuType string) {
		if *counted == is {
			return
		}
		if *counted = is; is {
			of[gpuType]++
		} else if of[gpuType]--; of[gpuType] == 0 {
			delete(of, gpuType)
		}
	}
	for i := range a.devices {
		d, gpuType := &a.devices[i], a.Devices[i].Type
		count(&d.used, d.job != nil, l.usage.used, gpuType)
		count(&d.serves, !a.lost && d.fault == "", l.usage.inService, gpuType)
	}
}

// discount counts none of the devices of an agent, which has others from now on.
func (l *Ledger) discount(a *agent) {
	for i := range a.devices {
		for _, x := range []struct {
			counted *bool
			of      map[string]int64
		}{{&a.devices[i].used, l.usage.used}, {&a.devices[i].serves, l.usage.inService}} {
			if *x.counted {
				*x.counted = false
				if gpuType := a.Devices[i].Type; x.of[gpuType] == 1 {
					delete(x.of, gpuType)
				} else {
					x.of[gpuType]--
				}
			}
		}
	}
}

// started counts the first start of a job.
func (l *Ledger) started(j *job) {
	if len(j.attempts) == 1 {
		l.usage.open.Started++
		l.usage.open.WaitUs += max(0, l.nowUs-j.submittedUs)
	}
}

// Usage is the sums of the minutes that are over and that nobody has taken, and of the minutes from then until now.
func (l *Ledger) Usage(nowUs int64) []Usage {
	was := l.usage
	defer func() { l.usage = was }()
	l.usage.over = was.over[:len(was.over):len(was.over)]
	l.usage.open.UsedUs, l.usage.open.InServiceUs = maps.Clone(was.open.UsedUs), maps.Clone(was.open.InServiceUs)
	l.advance(nowUs)
	return append(l.usage.over, l.usage.open)
}

// UsageOver is the sums of the first minutes that are over and that nobody has taken.
func (l *Ledger) UsageOver(most int) []Usage { return l.usage.over[:min(most, len(l.usage.over))] }

// TakeUsage forgets the first n of UsageOver, which are stored.
func (l *Ledger) TakeUsage(n int) { l.usage.over = append([]Usage(nil), l.usage.over[n:]...) }
