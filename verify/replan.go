package verify

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// CodeReplan is the code of what a replan object states and what is not so.
const CodeReplan = "replan"

// Previous is what a plan for the rest of an earlier one went on from.
type Previous struct {
	Result *hare.Result
	// Instance is the one that Result is for; nil means the instance at hand.
	Instance *hare.Instance
}

// CheckReplan is Check for the rest of an earlier plan: what had started before
// the planning instant is taken from prev where that is given, else from the
// schedule of the whole instance that the result carries. A nil prev, or one
// without a result, has nothing. The rest, and what it leaves out of the value,
// are derived from inst and that schedule; nothing that the result says of them
// is believed.
func CheckReplan(inst *hare.Instance, res *hare.Result, prev *Previous) *Report {
	return check(inst, res, prev, nil)
}

// checkReplan checks a result whose replan object counts.
func checkReplan(inst *hare.Instance, sha string, res *hare.Result, prev *Previous, proof *Proof) *Report {
	r := &Report{}
	c := &replanCheck{Report: r, inst: inst, res: res, says: res.Replan}
	if c.says.InstanceSHA256 != sha {
		c.refuse(CodeInstance, "the result belongs to another instance: "+
			"neither instance_sha256 nor replan.instance_sha256 is this one's")
		return r
	}
	if !c.given(func(s *hare.StatedReplan) bool { return s.At }) || c.says.AtUs < 0 || c.says.AtUs > hare.MaxExact {
		c.refuse(CodeReplan, "replan.at_s is missing")
		return r
	}
	before, past := c.past(sha, prev)
	if len(r.Faults) > 0 {
		return r
	}
	left, err := remains(inst, before, past, c.says.AtUs)
	if err != nil {
		c.refuse(CodeReplan, err.Error())
		return r
	}
	if c.compare(left, prev != nil && prev.Result != nil); len(r.Faults) > 0 {
		return r
	}
	plain := checkPlain(left.rest, res, res.InstanceSHA256, proof)
	if !plain.OK {
		return plain
	}
	if c.says.Whole != nil {
		c.sameSchedule(left)
	}
	if len(r.Faults) > 0 {
		return r
	}
	plain.Constant = &c.says.Constant
	plain.Note = fmt.Sprintf("this is the rest at %s s, and the whole instance costs %s more",
		hare.FormatMicros(c.says.AtUs), c.says.Constant)
	if prev == nil || prev.Result == nil {
		plain.Note += "; what had started is as replan.schedule says"
	}
	return plain
}

// replanCheck compares a replan object with what is derived.
type replanCheck struct {
	*Report
	inst *hare.Instance
	res  *hare.Result
	says *hare.Replan
}

func (c *replanCheck) refuse(code, detail string, a ...any) {
	if len(a) > 0 {
		detail = fmt.Sprintf(detail, a...)
	}
	c.fault(Fault{Constraint: code, Detail: detail})
}

// given says whether a field stands in the document; what a program built has
// all of them.
func (c *replanCheck) given(field func(*hare.StatedReplan) bool) bool {
	return c.says.Stated == nil || field(c.says.Stated)
}

// past finds the schedule that says what had started, and its instance.
func (c *replanCheck) past(sha string, prev *Previous) (*hare.Instance, *hare.Schedule) {
	feasible := func(inst *hare.Instance, s *hare.Schedule, name string) {
		_, _, faults := ScheduleValue(inst, s)
		for _, f := range faults {
			f.Detail = name + ": " + f.Detail
			c.fault(f)
		}
	}
	if c.says.Whole != nil {
		feasible(c.inst, c.says.Whole, "replan.schedule")
	}
	if prev == nil || prev.Result == nil {
		if c.says.Whole == nil {
			c.refuse(CodeReplan, "nothing says what had started: give the previous result, --previous")
		}
		return c.inst, c.says.Whole
	}
	before := c.inst
	if prev.Instance != nil {
		before = prev.Instance
		sha = wire.SHA256(before)
	}
	s, last := prev.Result.Schedule, prev.Result.Replan
	switch at := prev.Result.InstanceSHA256; {
	case at == sha, at == "":
	case last != nil && last.InstanceSHA256 == sha:
		s = last.Whole
	default:
		c.refuse(CodeInstance, "the previous result belongs to another instance: "+
			"give the one that it was for, --previous-instance")
		return nil, nil
	}
	if s == nil {
		c.refuse(CodeReplan, "the previous result has no schedule of its instance, so nothing says what had started")
		return nil, nil
	}
	feasible(before, s, "previous schedule")
	return before, s
}

// compare compares what the replan object states with what is left.
func (c *replanCheck) compare(left *remainder, previous bool) {
	says, stated := c.says, c.says.Stated
	if stated == nil {
		stated = &hare.StatedReplan{
			At: true, Constant: true, Started: true, Lost: true, Added: true, Removed: true, Renamed: true,
		}
	}
	sha := wire.SHA256(left.rest)
	if c.res.InstanceSHA256 != sha {
		c.refuse(CodeInstance, "instance_sha256 is not that of what is left at replan.at_s")
	}
	if says.Rest != nil && wire.SHA256(says.Rest) != sha {
		c.refuse(CodeInstance, "replan.instance is not what is left at replan.at_s")
	}
	switch {
	case !stated.Constant:
		c.refuse(CodeReplan, "replan.constant is missing")
	case says.Constant.Big().Cmp(left.constant) != 0:
		c.refuse(CodeValue, "replan.constant is %s, not %s", inSeconds(left.constant), says.Constant)
	}
	c.sum("whole_value", stated.WholeValue, c.res.Value, left.constant)
	c.sum("whole_bound", stated.WholeBound, c.res.Bound, left.constant)
	if kept, gain := says.KeptValue, stated.Gain; gain != nil &&
		(kept == nil || c.res.Value == nil || !isSum(kept, c.res.Value, gain.Big())) {
		c.refuse(CodeValue, "replan.gain is not kept_value less value")
	}
	if stated.Started && !slices.Equal(says.Started, left.started) {
		c.refuse(CodeReplan, "replan.started is not what has started and stays")
	}
	if stated.Renamed && !sameNames(says.Renamed, left.renamed) {
		c.refuse(CodeReplan, "replan.gpus does not name the GPUs of the nodes that are split")
	}
	if !previous {
		return
	}
	if stated.Added && !slices.Equal(says.Added, left.added) {
		c.refuse(CodeReplan, "replan.added is not the jobs that the previous instance lacks")
	}
	if stated.Removed && !slices.Equal(says.Removed, left.removed) {
		c.refuse(CodeReplan, "replan.removed is not the jobs that this instance lacks")
	}
	if stated.Lost && !slices.EqualFunc(says.Lost, left.lost, func(a hare.LostWork, b lostJob) bool {
		return a.Job == b.job && a.Round == b.round && slices.Contains(b.gpus, a.GPU)
	}) {
		c.refuse(CodeReplan, "replan.lost is not the started work that the instance has no GPU for")
	}
}

// sum checks that a field of the replan object is one of the result's plus the
// constant.
func (c *replanCheck) sum(name string, stated, part *hare.Amount, constant *big.Int) {
	if stated != nil && (part == nil || !isSum(stated, part, constant)) {
		c.refuse(CodeValue, "replan.%s is not %s plus replan.constant", name, strings.TrimPrefix(name, "whole_"))
	}
}

// isSum says whether sum is a + b, where b is in 1e-12.
func isSum(sum, a *hare.Amount, b *big.Int) bool {
	return new(big.Int).Add(a.Big(), b).Cmp(sum.Big()) == 0
}

func inSeconds(x *big.Int) string { return new(big.Rat).SetFrac(x, big.NewInt(1e12)).FloatString(12) }

// sameNames says whether both name the same GPUs, in any order.
func sameNames(a, b []hare.RenamedGPU) bool {
	if len(a) != len(b) {
		return false
	}
	names := func(list []hare.RenamedGPU) map[string]string {
		m := make(map[string]string, len(list))
		for _, x := range list {
			m[x.Rest] = x.Whole
		}
		return m
	}
	return maps.Equal(names(a), names(b))
}

// sameSchedule refuses a schedule of the whole that is not what the schedule
// before had done and started, followed by that of the rest.
func (c *replanCheck) sameSchedule(left *remainder) {
	index := make(map[string]int, len(c.inst.Jobs))
	for i := range c.inst.Jobs {
		index[c.inst.Jobs[i].ID] = i
	}
	whole := make(map[string]string, len(left.renamed))
	for _, x := range left.renamed {
		whole[x.Rest] = x.Whole
	}
	var past, future, planned []stint
	eachEntry(c.says.Whole, func(gpu, job string, e hare.Entry) {
		s := stint{gpu: gpu, job: index[job], Entry: e}
		if n := left.done[s.job] - e.Round; n >= e.Rounds {
			past = append(past, s)
		} else if n <= 0 {
			future = append(future, s)
		} else {
			a, b := s, s
			a.Rounds, b.Rounds = n, e.Rounds-n
			b.Round, b.StartUs = e.Round+n, e.StartUs+n*e.PeriodUs
			past, future = append(past, a), append(future, b)
		}
	})
	eachEntry(c.res.Schedule, func(gpu, job string, e hare.Entry) {
		if name, ok := whole[gpu]; ok {
			gpu = name
		}
		i := index[job]
		e.Round += left.done[i]
		e.StartUs += left.at
		planned = append(planned, stint{gpu: gpu, job: i, Entry: e})
	})
	if s := differs(past, left.kept); s != nil {
		c.fault(c.at(s, "replan.schedule does not keep what had run or started by replan.at_s"))
	}
	if s := differs(future, planned); s != nil {
		c.fault(c.at(s, "replan.schedule does not go on as the result's schedule does"))
	}
}

func (c *replanCheck) at(s *stint, detail string) Fault {
	return Fault{Constraint: CodeReplan, Job: c.inst.Jobs[s.job].ID, Round: &s.Round, GPU: s.gpu, Detail: detail}
}

func eachEntry(s *hare.Schedule, do func(gpu, job string, e hare.Entry)) {
	for i := range s.Lanes {
		l := &s.Lanes[i]
		for x := range l.Job {
			e := l.Entry(x)
			do(l.GPU, s.Jobs[e.Job], e)
		}
	}
}

// differs returns an entry at which two schedules do not mean the same, or nil.
// Entries of one GPU must not overlap. O(entries log entries).
func differs(a, b []stint) *stint {
	a, b = longest(a), longest(b)
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return &a[i]
		}
	}
	switch {
	case len(a) > len(b):
		return &a[len(b)]
	case len(b) > len(a):
		return &b[len(a)]
	}
	return nil
}

// precedes says whether the round after those of s is the first of next, with as
// many tasks on the same GPU.
func (s *stint) precedes(next *stint) bool {
	return s.gpu == next.gpu && s.job == next.job && s.Tasks == next.Tasks && s.Round+s.Rounds == next.Round
}

// longest writes a schedule with the longest entries there are, the earlier ones
// of a GPU first, so that all that mean the same become equal.
func longest(all []stint) []stint {
	slices.SortFunc(all, func(a, b stint) int {
		return cmp.Or(strings.Compare(a.gpu, b.gpu), cmp.Compare(a.StartUs, b.StartUs))
	})
	out := make([]stint, 0, len(all))
	for _, s := range all {
		s.Entry.Job, s.kind = 0, ""
		if s.Rounds == 1 {
			s.PeriodUs = 0
		}
		if n := len(out); n > 0 && out[n-1].precedes(&s) {
			last := &out[n-1]
			period := s.StartUs - last.StartUs // from the first round of s to the one before it
			if last.Rounds > 1 {
				period = last.PeriodUs
			}
			if s.StartUs == last.StartUs+last.Rounds*period {
				last.PeriodUs = period
				if s.Rounds == 1 || s.PeriodUs == period {
					last.Rounds += s.Rounds
					continue
				}
				// The first round of s goes on as those before it, the others do not.
				last.Rounds++
				s.Round, s.Rounds, s.StartUs = s.Round+1, s.Rounds-1, s.StartUs+s.PeriodUs
				if s.Rounds == 1 {
					s.PeriodUs = 0
				}
			}
		}
		out = append(out, s)
	}
	return out
}
