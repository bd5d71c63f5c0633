package list

import (
	"math"
	"slices"

	"github.com/hare-sched/hare"
)

// slowdownWindow is how many of the last jobs that ended give the percentile of the slowdown
// under first come, first served, and leastEnded how many it takes.
const (
	slowdownWindow = 512
	leastEnded     = 10
)

// leastSlowdown is the least limit of slowdowns, in millionths: a job that has its GPUs for half
// of the time is never late.
const leastSlowdown = 2e6

// lateShare is the share of the GPU time in service, as 1 / lateShare, that the guard's rounds of
// late jobs may take.
const lateShare = 5

// A job that has waited for overdue / 10 times the time after which it is late gets a ticket.
const overdue = 13

// The weight of a job grows from the limit of slowdowns × 1000 / agedFrom on: half of it for the
// order of hgittins, two thirds for plans.
const (
	orderAgedFrom = 2000
	planAgedFrom  = 1500
)

// shortShare is the share of the jobs as long as a job, as 1 / shortShare, that end first: a job is
// expected to be as short as these.
const shortShare = 10

// limited reports whether slowdowns are limited. Where GPUs of a second type join, the limit for
// GPUs of one type ends for good.
func (l *Scheduler) limited() bool {
	gr := &l.rule.Guard
	return gr.factor > 0 && (!gr.oneType || len(l.types) == 1)
}

// limitArrival notes how long a job would wait under first come, first served.
func (l *Scheduler) limitArrival(j *JobState) {
	if !l.limited() {
		return
	}
	sl := &l.guard.slowdown
	fast, gpus := int64(0), int64(l.GPUs()) // fast counts GPUs of the job's fastest type, in thousandths
	for _, m := range j.modes {
		if d := j.DurationUs(m.Type); d > 0 {
			fast += mulDivUp(int64(l.inService[m.Type])*1000, j.FastestUs(), d)
		}
	}
	if fast == 0 {
		fast = max(1, gpus) * 1000
	}
	j.guarded.clusterUs = mulDivUp(j.guarded.work, 1000, fast)
	if sl.changes*learnEvery/4 >= int64(len(l.jobs)) {
		sl.changes, sl.backlogUs = 0, 0
		for _, o := range l.jobs {
			if o != j {
				sl.backlogUs = add(sl.backlogUs, l.clusterUs(o))
			}
		}
	}
	j.guarded.fifoUs = sl.backlogUs
	sl.backlogUs = add(sl.backlogUs, l.clusterUs(j))
	sl.changes++
}

// clusterUs is how long the whole cluster takes for the rest of a job.
func (l *Scheduler) clusterUs(j *JobState) int64 {
	if j.spec.Sync == hare.Rigid {
		return j.guarded.clusterUs // all rounds count as one
	}
	return SpanUs(l.rule.Guard.belief.RoundsLeft(j), j.guarded.clusterUs)
}

// limitEnd learns from a job that is gone.
func (l *Scheduler) limitEnd(j *JobState) {
	if !l.limited() {
		return
	}
	sl, x := &l.guard.slowdown, &j.guarded
	sl.changes++
	rounds := j.round
	if j.spec.Sync == hare.Rigid {
		rounds = min(rounds, 1)
	}
	if rounds > 0 {
		sl.ended.add(add(1e6, mulDivUp(x.fifoUs, 1e6, SpanUs(rounds, x.roundUs))), slowdownWindow)
	}
}

// slowdownLimit is the slowdown that jobs should not exceed, in millionths; 0 while too few jobs
// have ended.
func (l *Scheduler) slowdownLimit() int64 {
	sorted := l.guard.slowdown.ended.sorted
	if !l.limited() || len(sorted) < leastEnded {
		return 0
	}
	p99 := sorted[len(sorted)-1-len(sorted)/100]
	return min(max(leastSlowdown, mulDivUp(p99, l.rule.Guard.factor, 1e6)), hare.MaxExact)
}

// shortRounds is how many rounds a job has left if it is one of the shortest that it may be.
func (l *Scheduler) shortRounds(j *JobState) int64 {
	sb := l.rule.Guard.belief
	if !sb.curve.Known() || j.spec.Sync == hare.Rigid {
		return 1
	}
	a := sb.attained(j)
	return max(1, (sb.curve.Quantile(a, 1.0/shortShare)-a)/sb.unit(j))
}

// lateUs is from when on a job is late: if it is as short as shortRounds has it, and does not wait
// any more, its slowdown will then be the limit. math.MaxInt64 says that there is no limit yet.
func (l *Scheduler) lateUs(j *JobState) int64 {
	limit := l.slowdownLimit()
	if limit == 0 {
		return math.MaxInt64
	}
	x, short := &j.guarded, l.shortRounds(j)
	rounds := add(j.round, short)
	if j.spec.Sync == hare.Rigid {
		rounds = 1
	}
	may := mulDivUp(times(rounds, x.roundUs), limit, 1e6)
	return add(j.arrivedUs, max(0, may-times(short, x.roundUs)))
}

// unlimitedRounds is for how many of its rounds a job is not looked at while there is no limit.
const unlimitedRounds = 8

// noteLate enters a job that waits, to be looked at from a time on.
func (l *Scheduler) noteLate(j *JobState, atUs int64) {
	if l.limited() && l.rule.Guard.tickets {
		j.guarded.lookUs = atUs
		l.guard.slowdown.late.push(dueRound{at: atUs, wait: j.guarded.wait, job: j})
	}
}

// lateJobs looks at the jobs whose time has come. It updates their weights, and appends those that
// are late for long, as far as the share of late jobs allows more.
func (l *Scheduler) lateJobs(due []*JobState) []*JobState {
	sl := &l.guard.slowdown
	for len(sl.late) > 0 && sl.late[0].at <= l.nowUs {
		x := sl.late.pop()
		if !l.current(&x) || x.job.guarded.ticket > 0 || x.job.guarded.back {
			continue
		}
		if w := l.agedWeight(x.job, orderAgedFrom); w != max(x.job.guarded.aged, x.job.spec.WeightMicro) {
			x.job.guarded.aged = w
			l.touch(x.job)
		}
		owed := times(sl.spentUs, lateShare) - l.inServiceUs()
		switch at := l.lateUs(x.job); {
		case at == math.MaxInt64:
			l.noteLate(x.job, add(l.nowUs, times(unlimitedRounds, x.job.guarded.roundUs)))
		case at > l.nowUs: // the limit may fall meanwhile
			l.noteLate(x.job, l.nowUs+(at-l.nowUs+1)/2)
		case l.nowUs-x.job.arrivedUs < times(at-x.job.arrivedUs, overdue)/10:
			l.noteLate(x.job, l.nowUs+1+(l.nowUs-x.job.arrivedUs)/10) // until then its weight grows
		case owed > 0:
			l.noteLate(x.job, add(l.nowUs, 1+owed/int64(max(1, l.GPUs()))))
		case !slices.Contains(due, x.job):
			sl.spentUs = add(sl.spentUs, x.job.guarded.work)
			due = append(due, x.job)
		}
	}
	return due
}

// agedWeight is the weight of a job in the order or in a plan. From the limit of slowdowns × 1000 /
// from on it grows with the square of the slowdown, up to a thousand times.
func (l *Scheduler) agedWeight(j *JobState, from int64) int64 {
	limit := l.slowdownLimit()
	if limit == 0 {
		return j.spec.WeightMicro
	}
	x, short := &j.guarded, l.shortRounds(j)
	rounds := add(j.round, short)
	if j.spec.Sync == hare.Rigid {
		rounds = 1
	}
	lasts := add(l.nowUs-j.arrivedUs, times(short, x.roundUs))
	// ratio is in thousandths.
	ratio := mulDivUp(lasts, from, max(1, mulDivUp(times(rounds, x.roundUs), limit, 1e6)))
	ratio = min(max(1000, ratio), 31_623)
	return max(j.spec.WeightMicro, min(mulDivUp(j.spec.WeightMicro, ratio*ratio, 1e6), hare.MaxExact/1000))
}

// AgedInOrder is the weight of a job in the order of hgittins as of the last look, 0 where there is none.
func (l *Scheduler) AgedInOrder(j *JobState) int64 {
	if !l.limited() {
		return 0
	}
	return j.guarded.aged
}

// AgedInPlans is the weight of a job in a plan.
func (l *Scheduler) AgedInPlans(j *JobState) int64 { return l.agedWeight(j, planAgedFrom) }
