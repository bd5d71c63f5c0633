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

// CodeReplan is the code for a statement of a replan object that is not true.
const CodeReplan = "replan"

// Previous is the result from which a plan for the rest of an earlier plan started.
type Previous struct {
	Result *hare.Result
	// Instance is the instance of Result; nil means the present instance.
	Instance *hare.Instance
}

// checkReplan checks a result with a replan object. own is inst with its own objective, if the caller named another.
func checkReplan(inst, own *hare.Instance, sha string, res *hare.Result, prev *Previous, proof *Proof) *Report {
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
	before, past := c.past(own, prev)
	if len(r.Faults) > 0 {
		return r
	}
	left, err := remainderOf(inst, before, past, c.says.AtUs)
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

// replanCheck compares a replan object with the remainder that the verifier derives.
type replanCheck struct {
	*Report
	inst *hare.Instance
	res  *hare.Result
	says *hare.Replan
}

func (rc *replanCheck) refuse(code, detail string, a ...any) {
	if len(a) > 0 {
		detail = fmt.Sprintf(detail, a...)
	}
	rc.fault(Fault{Constraint: code, Detail: detail})
}

// given reports whether a field is in the document. An object that a program built has all
// fields.
func (rc *replanCheck) given(field func(*hare.StatedReplan) bool) bool {
	return rc.says.Stated == nil || field(rc.says.Stated)
}

// past returns the schedule that says what had started, and its instance.
func (rc *replanCheck) past(own *hare.Instance, prev *Previous) (*hare.Instance, *hare.Schedule) {
	feasible := func(inst *hare.Instance, s *hare.Schedule, name string) {
		_, _, faults := ScheduleValue(inst, s)
		for _, f := range faults {
			f.Detail = name + ": " + f.Detail
			rc.fault(f)
		}
	}
	if rc.says.Whole != nil {
		feasible(rc.inst, rc.says.Whole, "replan.schedule")
	}
	if prev == nil || prev.Result == nil {
		if rc.says.Whole == nil {
			rc.refuse(CodeReplan, "nothing says what had started: give the previous result, --previous")
		}
		return rc.inst, rc.says.Whole
	}
	before := own
	if prev.Instance != nil {
		before = prev.Instance
	}
	before = asNamed(before, prev.Result)
	sha := wire.SHA256(before)
	s, last := prev.Result.Schedule, prev.Result.Replan
	switch at := prev.Result.InstanceSHA256; {
	case last != nil && last.InstanceSHA256 == sha:
		s = last.Whole // also where the rest, on its own clock, is the same instance
	case at == sha, at == "":
	default:
		rc.refuse(CodeInstance, "the previous result belongs to another instance: "+
			"give the one that it was for, --previous-instance")
		return nil, nil
	}
	if s == nil {
		rc.refuse(CodeReplan, "the previous result has no schedule of its instance, so nothing says what had started")
		return nil, nil
	}
	feasible(before, s, "previous schedule")
	return before, s
}

// compare compares the statements of the replan object with the remainder.
func (rc *replanCheck) compare(left *remainder, previous bool) {
	says, stated := rc.says, rc.says.Stated
	if stated == nil {
		stated = &hare.StatedReplan{
			At: true, Constant: true, Started: true, Lost: true, Added: true, Removed: true, Renamed: true,
		}
	}
	sha := wire.SHA256(left.rest)
	if rc.res.InstanceSHA256 != sha {
		rc.refuse(CodeInstance, "instance_sha256 is not that of what is left at replan.at_s")
	}
	if says.Rest != nil && wire.SHA256(says.Rest) != sha {
		rc.refuse(CodeInstance, "replan.instance is not what is left at replan.at_s")
	}
	switch {
	case !stated.Constant:
		rc.refuse(CodeReplan, "replan.constant is missing")
	case says.Constant.Big().Cmp(left.constant) != 0:
		rc.refuse(CodeValue, "replan.constant is %s, not %s", inSeconds(left.constant), says.Constant)
	}
	rc.sum("whole_value", stated.WholeValue, rc.res.Value, left)
	if stated.WholeBound != nil && (switches(left.rest) ||
		slices.ContainsFunc(left.rest.Jobs, func(j hare.Job) bool { return j.Reshape })) {
		rc.refuse(CodeValue, "replan.whole_bound is stated, and plans of the whole may save setups, or keep a shape")
	}
	rc.sum("whole_bound", stated.WholeBound, rc.res.Bound, left)
	if kept, gain := says.KeptValue, stated.Gain; gain != nil &&
		(kept == nil || rc.res.Value == nil || !isSum(kept, rc.res.Value, gain.Big())) {
		rc.refuse(CodeValue, "replan.gain is not kept_value less value")
	}
	if stated.Started && !slices.Equal(says.Started, left.started) {
		rc.refuse(CodeReplan, "replan.started is not what has started and stays")
	}
	if stated.Renamed && !sameNames(says.Renamed, left.renamed) {
		rc.refuse(CodeReplan, "replan.gpus does not name the GPUs of the nodes that are split")
	}
	if !previous {
		return
	}
	if stated.Added && !slices.Equal(says.Added, left.added) {
		rc.refuse(CodeReplan, "replan.added is not the jobs that the previous instance lacks")
	}
	if stated.Removed && !slices.Equal(says.Removed, left.removed) {
		rc.refuse(CodeReplan, "replan.removed is not the jobs that this instance lacks")
	}
	if stated.Lost && !slices.EqualFunc(says.Lost, left.lost, func(a hare.LostWork, b lostJob) bool {
		return a.Job == b.job && a.Round == b.round && slices.Contains(b.gpus, a.GPU)
	}) {
		rc.refuse(CodeReplan, "replan.lost is not the started work that the instance has no GPU for")
	}
}

// sum checks that a field of the replan object is what the whole costs: one of the result's
// fields plus the constant. A makespan is at least the end of all work that had started.
func (rc *replanCheck) sum(name string, stated, part *hare.Amount, left *remainder) {
	if stated == nil {
		return
	}
	if part != nil {
		whole := new(big.Int).Add(part.Big(), left.constant)
		if left.rest.Objective == hare.ObjectiveMakespan {
			for _, w := range left.started {
				if end := new(big.Int).Mul(big.NewInt(1e6), big.NewInt(w.UntilUs)); end.Cmp(whole) > 0 {
					whole = end
				}
			}
		}
		if whole.Cmp(stated.Big()) == 0 {
			return
		}
	}
	rc.refuse(CodeValue, "replan.%s is not %s plus replan.constant", name, strings.TrimPrefix(name, "whole_"))
}

// isSum reports whether sum is a + b, where b is in 1e-12.
func isSum(sum, a *hare.Amount, b *big.Int) bool {
	return new(big.Int).Add(a.Big(), b).Cmp(sum.Big()) == 0
}

func inSeconds(x *big.Int) string { return new(big.Rat).SetFrac(x, big.NewInt(1e12)).FloatString(12) }

// sameNames reports whether both name the same GPUs, in any order.
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

// sameSchedule refuses a schedule of the whole that is not what the previous schedule
// had done and started, followed by the schedule of the rest.
func (rc *replanCheck) sameSchedule(left *remainder) {
	index := indexOf(rc.inst)
	whole := make(map[string]string, len(left.renamed))
	for _, x := range left.renamed {
		whole[x.Rest] = x.Whole
	}
	var past, future, planned []laneEntry
	eachEntry(rc.says.Whole, func(gpu, job string, e hare.Entry) {
		s := laneEntry{gpu: gpu, job: index[job], Entry: e}
		u := shapesOf(&rc.inst.Jobs[s.job])[e.Shape].Counts
		s.counts = u
		units := left.done[s.job] - e.Round
		if n := (units + u - 1) / u; units > 0 && n >= e.Rounds {
			past = append(past, s)
		} else if units <= 0 {
			future = append(future, s)
		} else {
			a, b := s, s
			a.Rounds, b.Rounds = n, e.Rounds-n
			b.Round, b.StartUs = e.Round+n*u, e.StartUs+n*e.PeriodUs
			past, future = append(past, a), append(future, b)
		}
	})
	eachEntry(rc.res.Schedule, func(gpu, job string, e hare.Entry) {
		if name, ok := whole[gpu]; ok {
			gpu = name
		}
		i := index[job]
		e.Round += left.shift[i]
		e.StartUs += left.at
		if only := left.shape[i]; only >= 0 {
			e.Shape = only
		}
		planned = append(planned, laneEntry{gpu: gpu, job: i, counts: shapesOf(&rc.inst.Jobs[i])[e.Shape].Counts, Entry: e})
	})
	if s := differs(past, left.kept); s != nil {
		rc.fault(rc.at(s, "replan.schedule does not keep what had run or started by replan.at_s"))
	}
	if s := differs(future, planned); s != nil {
		rc.fault(rc.at(s, "replan.schedule does not go on as the result's schedule does"))
	}
}

func (rc *replanCheck) at(s *laneEntry, detail string) Fault {
	return Fault{Constraint: CodeReplan, Job: rc.inst.Jobs[s.job].ID, Round: &s.Round, GPU: s.gpu, Detail: detail}
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

// differs returns an entry at which two schedules differ in meaning, or nil. Entries of
// one GPU must not overlap. It takes O(entries log entries).
func differs(a, b []laneEntry) *laneEntry {
	a, b = canonical(a), canonical(b)
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

// precedes reports whether the round after the rounds of le is the first round of next, on the
// same GPU and with the same number of tasks.
func (le *laneEntry) precedes(next *laneEntry) bool {
	return le.gpu == next.gpu && le.job == next.job && le.Tasks == next.Tasks && le.Shape == next.Shape &&
		le.Round+le.Rounds*le.counts == next.Round
}

// canonical writes a schedule with the longest possible entries, the earlier entries of
// a GPU first, so that all schedules of the same meaning become equal.
func canonical(all []laneEntry) []laneEntry {
	slices.SortFunc(all, func(a, b laneEntry) int {
		return cmp.Or(strings.Compare(a.gpu, b.gpu), cmp.Compare(a.StartUs, b.StartUs))
	})
	out := make([]laneEntry, 0, len(all))
	for _, s := range all {
		s.Entry.Job, s.kind, s.node = 0, "", 0
		if s.Rounds == 1 {
			s.PeriodUs = 0
		}
		if n := len(out); n > 0 && out[n-1].precedes(&s) {
			last := &out[n-1]
			period := s.StartUs - last.StartUs // from the first round of s to the round before it
			if last.Rounds > 1 {
				period = last.PeriodUs
			}
			if s.StartUs == last.StartUs+last.Rounds*period {
				last.PeriodUs = period
				if s.Rounds == 1 || s.PeriodUs == period {
					last.Rounds += s.Rounds
					continue
				}
				// The first round of s continues the rounds before it, the others do not.
				last.Rounds++
				s.Round, s.Rounds, s.StartUs = s.Round+s.counts, s.Rounds-1, s.StartUs+s.PeriodUs
				if s.Rounds == 1 {
					s.PeriodUs = 0
				}
			}
		}
		out = append(out, s)
	}
	return out
}
