package whatif

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

// ScenarioInstance returns the instance of scenario i of a request, whose base must
// have its instance. Errors have pointers into the request.
func ScenarioInstance(req *whatifdoc.Request, i int) (*hare.Instance, error) {
	sc := &req.Scenarios[i]
	inst := req.Base.Instance
	if len(sc.Patch) > 0 {
		text := req.Base.Text
		if text == nil {
			var b bytes.Buffer
			if err := wire.EncodeInstance(&b, inst); err != nil {
				return nil, err
			}
			text = b.Bytes()
		}
		var err error
		if inst, err = patched(text, sc); err != nil {
			return nil, err
		}
		if inst.Objective != req.Base.Instance.Objective {
			return nil, &hare.InvalidError{Pointer: sc.At() + "/patch", Code: "not_supported", Detail: "the patch changes " +
				"the objective, so that the values could not be compared: leave the objective out"}
		}
	}
	return sc.Apply(inst)
}

// patchCopies limits, in bytes, how much the copy operations of one patch may add.
const patchCopies = 16 << 20

// patched applies the scenario's patch to the base's document and decodes the
// patched document strictly. Errors point to the operation that caused them, where
// one operation did.
func patched(text []byte, sc *whatifdoc.Scenario) (inst *hare.Instance, err error) {
	at := sc.At() + "/patch"
	defer func() {
		// The document is a client's, and the code that patches the document is a
		// library's.
		if p := recover(); p != nil {
			inst, err = nil, &hare.InvalidError{Pointer: at, Code: "patch_failed",
				Detail: "this patch cannot be applied: take simpler operations"}
		}
	}()
	out, k, err := applyPatch(text, sc.Patch)
	if err != nil {
		code := "patch_failed"
		if errors.Is(err, jsonpatch.ErrTestFailed) {
			code = "test_failed"
		}
		if k < 0 {
			return nil, &hare.InvalidError{Pointer: at, Code: "too_large",
				Detail: fmt.Sprintf("its copy operations add more "+
					"than %d MiB: send the instance by itself", patchCopies>>20)}
		}
		return nil, &hare.InvalidError{Pointer: at + "/" + strconv.Itoa(k), Code: code,
			Detail: fmt.Sprintf("%s %.200q: %.200s", sc.Patch[k].Op, sc.Patch[k].Path, patchReason(err))}
	}
	inst, err = wire.DecodeInstanceValue(jsontext.Value(out), "")
	var faults hare.InvalidErrors
	if errors.As(err, &faults) {
		for _, f := range faults {
			f.Detail = "the patched instance at " + cmp.Or(f.Pointer, "its top") + ": " + f.Detail
			f.Pointer = at + operationAt(sc.Patch, f.Pointer)
			f.Line = 0
		}
	}
	return inst, err
}

// applyPatch applies all operations at once. On a failure failed is the index of
// the operation that failed, or -1 where the operations copy too much.
func applyPatch(text []byte, ops []whatifdoc.PatchOperation) (out []byte, failed int, err error) {
	options := jsonpatch.NewApplyOptions()
	options.SupportNegativeIndices = false
	options.AccumulatedCopySizeLimit = patchCopies
	options.EscapeHTML = false
	list := []byte{'['}
	for i := range ops {
		if i > 0 {
			list = append(list, ',')
		}
		list = appendOperation(list, &ops[i])
	}
	patch, err := jsonpatch.DecodePatch(append(list, ']'))
	if err != nil {
		return nil, 0, err
	}
	if out, err = patch.ApplyWithOptions(text, options); err == nil {
		return out, 0, nil
	}
	var copied *jsonpatch.AccumulatedCopySizeError
	if errors.As(err, &copied) {
		return nil, -1, err
	}
	// Bisection finds the shortest prefix of the operations that fails.
	low, high := 0, len(ops) // a prefix of low operations works, a prefix of high operations fails
	for low+1 < high {
		mid := (low + high) / 2
		if _, e := patch[:mid].ApplyWithOptions(text, options); e != nil {
			high, err = mid, e
		} else {
			low = mid
		}
	}
	return nil, high - 1, err
}

// appendOperation appends the JSON form of one operation.
func appendOperation(b []byte, p *whatifdoc.PatchOperation) []byte {
	text := func(s string) { b, _ = jsontext.AppendQuote(b, s) }
	op := p.Op
	if op == "add" && p.Path == "" {
		op = "replace" // the library does not know an add of the whole document, which is the same
	}
	b = append(b, `{"op":`...)
	text(op)
	b = append(b, `,"path":`...)
	text(p.Path)
	switch p.Op {
	case "move", "copy":
		b = append(b, `,"from":`...)
		text(p.From)
	case "add", "replace", "test":
		b = append(append(b, `,"value":`...), p.Value...)
	}
	return append(b, '}')
}

// patchReason is the reason of an error, without the library's preamble.
func patchReason(err error) string {
	switch {
	case errors.Is(err, jsonpatch.ErrTestFailed):
		return "the value is another one"
	case errors.Is(err, jsonpatch.ErrMissing):
		return "there is nothing at this path"
	}
	return strings.TrimSuffix(err.Error(), ": %!w(<nil>)")
}

// operationAt returns the pointer, relative to the patch, of the last operation
// that wrote the value at pointer; "" where no operation did.
func operationAt(ops []whatifdoc.PatchOperation, pointer string) string {
	for k, p := range slices.Backward(ops) {
		rest, ok := strings.CutPrefix(pointer, p.Path)
		if !ok || rest != "" && rest[0] != '/' || p.Op == "test" || p.Op == "remove" {
			continue
		}
		if p.Op == "add" || p.Op == "replace" {
			return "/" + strconv.Itoa(k) + "/value" + rest
		}
		return "/" + strconv.Itoa(k)
	}
	return ""
}

// costOfBasePlan returns what the base's plan costs in the scenario, and whether
// the base's plan is a plan of the scenario, where all work starts as it does in the base:
// jobs may differ in times, weight and release, or be gone. The verifier decides.
func (w *whatIf) costOfBasePlan(inst *hare.Instance) (hare.Amount, bool) {
	if w.result.Schedule == nil || w.result.Value == nil {
		return hare.Amount{}, false
	}
	stays, times := make(map[string]bool, len(inst.Jobs)), false
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		at, ok := w.index[j.ID]
		if !ok {
			return hare.Amount{}, false
		}
		b := &w.base.Jobs[at]
		if j.Rounds != b.Rounds || j.Sync != b.Sync || j.Mix != b.Mix || j.ShapeCount() != b.ShapeCount() {
			return hare.Amount{}, false
		}
		for s := range j.ShapeCount() {
			now, was := j.Shape(s), b.Shape(s)
			if now.Tasks != was.Tasks || now.Counts != was.Counts ||
				!slices.EqualFunc(now.On, was.On, func(p, q hare.Profile) bool { return p.Type == q.Type }) {
				return hare.Amount{}, false
			}
			times = times || !slices.EqualFunc(now.On, was.On, hare.Profile.Equal)
		}
		stays[j.ID] = true
	}
	plan := w.result.Schedule
	if len(stays) < len(w.base.Jobs) {
		plan = onlyJobs(plan, stays)
	}
	if times {
		plan = withTimes(plan, inst)
	}
	rep := verify.Check(inst, &hare.Result{Objective: inst.Objective, Schedule: plan})
	if rep.Value == nil {
		return hare.Amount{}, false
	}
	return *rep.Value, true
}

// withTimes returns a schedule of jobs that have other times in inst, with the same starts
// except that the rounds of rigid jobs, which follow each other at once, have their times in
// inst.
func withTimes(s *hare.Schedule, inst *hare.Instance) *hare.Schedule {
	jobs := make(map[string]*hare.Job, len(inst.Jobs))
	for i := range inst.Jobs {
		jobs[inst.Jobs[i].ID] = &inst.Jobs[i]
	}
	type place struct {
		kind string
		node int
	}
	places := map[string]place{} // by GPU
	for i := range inst.Cluster.Nodes {
		n, at := &inst.Cluster.Nodes[i], 0
		for _, g := range n.GPUs {
			for range g.Count {
				places[n.Name+"/"+strconv.Itoa(at)] = place{g.Type, i}
				at++
			}
		}
	}
	// A rigid job is on the same nodes throughout.
	levels, first, spreads := hare.NewLevels(&inst.Cluster), map[int32]int{}, map[int32]int{}
	for i := range s.Lanes {
		at, there := places[s.Lanes[i].GPU]
		for _, j := range s.Lanes[i].Job {
			if _, seen := first[j]; !seen {
				first[j] = at.node
			}
			if there {
				spreads[j] = levels.Join(spreads[j], first[j], at.node)
			}
		}
	}
	out := &hare.Schedule{Jobs: s.Jobs, Lanes: slices.Clone(s.Lanes)}
	for i := range out.Lanes {
		l := &out.Lanes[i]
		if l.PeriodUs == nil {
			continue
		}
		l.PeriodUs = slices.Clone(l.PeriodUs)
		for x := range l.Job {
			j, e := jobs[s.Jobs[l.Job[x]]], l.Entry(x)
			if j == nil || j.Sync != hare.Rigid || e.Rounds == 1 || int(e.Shape) >= j.ShapeCount() {
				continue
			}
			for _, p := range j.Shape(int(e.Shape)).On {
				if p.Type == places[l.GPU].kind {
					l.PeriodUs[x] = p.ComputeUs + levels.SyncUs(&p, spreads[l.Job[x]])
				}
			}
		}
	}
	return out
}

// onlyJobs returns the part of a schedule that belongs to the jobs that stay.
func onlyJobs(s *hare.Schedule, stays map[string]bool) *hare.Schedule {
	out := &hare.Schedule{}
	place := make([]int32, len(s.Jobs))
	for i, id := range s.Jobs {
		place[i] = -1
		if stays[id] {
			place[i] = int32(len(out.Jobs))
			out.Jobs = append(out.Jobs, id)
		}
	}
	for i := range s.Lanes {
		l := &s.Lanes[i]
		n := hare.Lane{GPU: l.GPU}
		for e := range l.Job {
			if x := place[l.Job[e]]; x >= 0 {
				n.Job = append(n.Job, x)
				entry := l.Entry(e)
				n.Round, n.Rounds, n.Tasks = append(n.Round, entry.Round), append(n.Rounds, entry.Rounds),
					append(n.Tasks, entry.Tasks)
				n.PeriodUs, n.StartUs = append(n.PeriodUs, entry.PeriodUs), append(n.StartUs, entry.StartUs)
				n.Shape = append(n.Shape, entry.Shape)
			}
		}
		if !slices.ContainsFunc(n.Shape, func(s int64) bool { return s > 0 }) {
			n.Shape = nil
		}
		if len(n.Job) > 0 {
			out.Lanes = append(out.Lanes, n)
		}
	}
	return out
}

// changes compares the ends of jobs with those in the base's plan. Ties keep the
// order of the instance.
func (w *whatIf) changes(inst *hare.Instance, ends []hare.JobResult) *whatifdoc.JobChanges {
	end := make(map[string]int64, len(ends))
	for _, e := range ends {
		end[e.ID] = e.EndUs
	}
	c := &whatifdoc.JobChanges{ByWeightedChange: []whatifdoc.JobChange{}, ByEndChange: []whatifdoc.JobChange{}}
	var all []whatifdoc.JobChange
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		before, both := w.ends[j.ID]
		now, ok := end[j.ID]
		if !both || !ok {
			continue
		}
		b := &w.base.Jobs[w.index[j.ID]]
		x := whatifdoc.JobChange{ID: j.ID, BaseEndS: hare.Seconds(before.EndUs), EndS: hare.Seconds(now),
			EndChangeS: hare.Seconds(now - before.EndUs)}
		x.WeightedChange = hare.Product(j.WeightMicro,
			now-j.ReleaseUs).Sub(hare.Product(b.WeightMicro, before.EndUs-b.ReleaseUs))
		switch {
		case now < before.EndUs:
			c.Gain++
		case now > before.EndUs:
			c.Lose++
		}
		all = append(all, x)
	}
	abs := func(a hare.Amount) hare.Amount {
		if a.Sign() < 0 {
			return a.Neg()
		}
		return a
	}
	slices.SortStableFunc(all, func(x, y whatifdoc.JobChange) int {
		return abs(y.WeightedChange).Cmp(abs(x.WeightedChange))
	})
	for _, x := range all[:min(whatifdoc.MaxChangedJobs, len(all))] {
		if x.WeightedChange.Sign() != 0 {
			c.ByWeightedChange = append(c.ByWeightedChange, x)
		}
	}
	slices.SortStableFunc(all, func(x, y whatifdoc.JobChange) int {
		return cmp.Compare(max(y.EndChangeS, -y.EndChangeS), max(x.EndChangeS, -x.EndChangeS))
	})
	for _, x := range all[:min(whatifdoc.MaxChangedJobs, len(all))] {
		if x.EndChangeS != 0 {
			c.ByEndChange = append(c.ByEndChange, x)
		}
	}
	return c
}
