package wire

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hare-sched/hare"
)

var (
	whatIfFields   = []string{"base", "scenarios", "options", "prune", "ordered"}
	baseFields     = []string{"instance", "result", "solve_id"}
	pruneFields    = []string{"below_s"}
	scenarioFields = []string{"id", "patch", "remove_jobs", "scale_weights", "add_jobs", "remove_gpus", "drain", "add_gpus", "options"}
	patchFields    = []string{"op", "path", "from", "value"}
	removeFields   = []string{"node", "type", "count"}
	drainFields    = []string{"node", "at_s"}
	addFields      = []string{"type", "count", "name"}
)

// Limits of one what-if request.
const (
	MaxScenarios       = 1000
	MaxPatchOperations = 1000 // of one scenario
)

// DecodeWhatIf reads {base, scenarios, options, prune, ordered}, strictly,
// every fault with a pointer into the whole document. Options that the
// document leaves out are those of defaults.
func DecodeWhatIf(r io.Reader, lim Limits, defaults hare.Options) (*WhatIf, error) {
	d := &whatIfReader{Reader: NewReader(r, lim), req: &WhatIf{Options: defaults}}
	if err := d.Finish(d.read()); err != nil {
		return nil, err
	}
	return d.req, nil
}

type whatIfReader struct {
	*Reader
	req     *WhatIf
	options [][]byte // by scenario, read when the batch's are known
}

func (d *whatIfReader) read() error {
	hasBase, hasScenarios := false, false
	req := d.req
	before := len(d.faults)
	err := d.Object(whatIfFields, func(name string) (bool, error) {
		switch name {
		case "base":
			hasBase = true
			return true, d.base()
		case "scenarios":
			hasScenarios = true
			return true, d.scenarios()
		case "options":
			return true, d.Options(&req.Options, new(bool))
		case "prune":
			return true, d.prune()
		case "ordered":
			return true, d.Bool(&req.Ordered)
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	var found hare.InvalidErrors
	if !hasBase {
		found.Add("", "missing_field", `"base" is missing: give {"instance": {…}} or {"solve_id": "…"}`)
	}
	if !hasScenarios {
		found.Add("", "missing_field", `"scenarios" is missing: give an array, e.g. [{"id": "more", "add_gpus": {"type": "V100", "count": 8}}]`)
	}
	noDetail("/options", &req.Options, &found)
	ids := make(map[string]int, len(req.Scenarios))
	for i := range req.Scenarios {
		s := &req.Scenarios[i]
		if first, twice := ids[s.ID]; twice {
			found.Add(s.at+"/id", "duplicate_id", "id %q stands twice, first at /scenarios/%d: ids must differ", hare.Clip(s.ID), first)
		} else {
			ids[s.ID] = i
		}
		if err := d.ownOptions(i, &found); err != nil {
			return err
		}
	}
	return d.Report(before, found)
}

// ownOptions reads a scenario's options over those of the batch.
func (d *whatIfReader) ownOptions(i int, found *hare.InvalidErrors) error {
	s := &d.req.Scenarios[i]
	o := d.req.Options
	o.TimeLimit = 0
	if d.options[i] != nil {
		sub := newLineReader(d.options[i])
		sub.prefix = s.at + "/options"
		var faults hare.InvalidErrors
		if err := sub.Finish(sub.Options(&o, new(bool))); errors.As(err, &faults) {
			*found = append(*found, faults...)
		} else if err != nil {
			return err
		}
		if d.req.Options.Detail == "" {
			noDetail(s.at+"/options", &o, found)
		}
	}
	s.Options = o
	return nil
}

func noDetail(at string, o *hare.Options, found *hare.InvalidErrors) {
	if o.Detail != "" {
		found.Add(at+"/detail", "not_allowed", "what-if answers have no schedules: leave detail out")
	}
}

func (d *whatIfReader) base() error {
	b := &d.req.Base
	before := len(d.faults)
	err := d.Object(baseFields, func(name string) (bool, error) {
		switch name {
		case "instance":
			return true, d.baseInstance()
		case "result":
			r := &resultReader{Reader: d.Reader, root: "/base/result", res: &hare.Result{}}
			b.Result = r.res
			err := r.result()
			if err == nil {
				err = r.indices()
			}
			return true, err
		case "solve_id":
			return true, d.String(&b.SolveID)
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	var found hare.InvalidErrors
	switch {
	case b.SolveID != "" && b.Text != nil:
		found.Add("/base", "not_allowed", "give instance or solve_id, not both")
	case b.SolveID != "" && b.Result != nil:
		found.Add("/base", "not_allowed", "a stored solve has its result: leave result out")
	case b.SolveID == "" && b.Text == nil:
		found.Add("/base", "missing_field", `give "instance", or "solve_id" of a stored solve`)
	}
	return d.Report(before, found)
}

// baseInstance keeps the document beside the instance, for patches.
func (d *whatIfReader) baseInstance() error {
	text, err := d.raw()
	if err != nil {
		return err
	}
	b := &d.req.Base
	b.Text = text
	var faults hare.InvalidErrors
	if b.Instance, err = DecodeInstanceValue(jsontext.Value(text), "/base/instance"); errors.As(err, &faults) {
		d.faults = append(d.faults, faults...)
		if len(d.faults) >= hare.MaxFaults {
			return errStop
		}
		return nil
	}
	return err
}

// raw copies a value as it stands.
func (d *whatIfReader) raw() ([]byte, error) {
	v, err := d.d.ReadValue()
	if err != nil {
		return nil, d.broken(err)
	}
	return []byte(v.Clone()), nil
}

func (d *whatIfReader) prune() error {
	before, isObject := len(d.faults), d.Is('{')
	err := d.Object(pruneFields, func(name string) (bool, error) {
		if name != "below_s" {
			return false, nil
		}
		text, ok, err := d.Number()
		if !ok {
			return true, err
		}
		a, bad := hare.ParseAmount(text)
		switch {
		case bad != nil:
			return true, d.Fault("bad_amount", "%s %v", hare.Clip(text), bad)
		case a.Sign() < 0:
			return true, d.Fault("out_of_range", "%s must not be negative: it is how far the value may fall", hare.Clip(text))
		}
		d.req.PruneBelow = &a
		return true, nil
	})
	if err == nil && isObject && d.req.PruneBelow == nil && len(d.faults) == before {
		err = d.Fault("missing_field", `"below_s" is missing: how far the value may fall, in weight-seconds, for a scenario to be answered from its bound`)
	}
	return err
}

func (d *whatIfReader) scenarios() error {
	return d.Array(func(i int) error {
		if i == MaxScenarios {
			if err := d.Skip(); err != nil {
				return err
			}
			return d.Fault("too_many", "there are more than %d scenarios: split them over several requests", MaxScenarios)
		}
		if i > MaxScenarios {
			return d.Skip()
		}
		return d.scenario(i)
	})
}

func (d *whatIfReader) scenario(i int) error {
	s := Scenario{at: "/scenarios/" + strconv.Itoa(i)}
	var own []byte
	before := len(d.faults)
	err := d.Object(scenarioFields, func(name string) (bool, error) {
		at := s.at + "/" + name
		switch name {
		case "id":
			return true, d.String(&s.ID)
		case "patch":
			return true, d.patch(&s)
		case "remove_jobs":
			return true, d.Array(func(k int) error {
				r := JobRef{at: at + "/" + strconv.Itoa(k)}
				err := d.String(&r.ID)
				s.RemoveJobs = append(s.RemoveJobs, r)
				return err
			})
		case "scale_weights":
			return true, d.scales(&s, at)
		case "add_jobs":
			return true, d.Array(func(k int) error {
				jobs := newInstanceReader(d.Reader, "")
				a := AddedJob{at: at + "/" + strconv.Itoa(k)}
				err := jobs.job()
				if err == nil {
					a.Job = jobs.inst.Jobs[0]
					s.AddJobs = append(s.AddJobs, a)
				}
				return err
			})
		case "remove_gpus":
			return true, d.oneOrMore(at, func(at string) error { return d.removed(&s, at) })
		case "drain":
			return true, d.oneOrMore(at, func(at string) error { return d.drained(&s, at) })
		case "add_gpus":
			return true, d.oneOrMore(at, func(at string) error { return d.added(&s, at) })
		case "options":
			var err error
			own, err = d.raw()
			return true, err
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	if s.ID == "" {
		s.ID = strconv.Itoa(i)
	}
	d.req.Scenarios = append(d.req.Scenarios, s)
	d.options = append(d.options, own)
	var found hare.InvalidErrors
	if len(s.ID) > 200 {
		found.Add(s.at+"/id", "too_large", "an id has at most 200 bytes")
	}
	return d.Report(before, found)
}

// oneOrMore reads an object, or an array of them.
func (d *whatIfReader) oneOrMore(at string, item func(at string) error) error {
	if !d.Is('[') {
		return item(at)
	}
	return d.Array(func(i int) error { return item(at + "/" + strconv.Itoa(i)) })
}

// scales reads a factor for all jobs, or factors by job.
func (d *whatIfReader) scales(s *Scenario, at string) error {
	if d.Is('0') {
		x := WeightScale{at: at}
		err := d.Micros(&x.FactorMicro, 0)
		s.Scales = append(s.Scales, x)
		return err
	}
	return d.Object(nil, func(id string) (bool, error) {
		x := WeightScale{ID: id, at: at + "/" + hare.EscapePointer(id)}
		if id == "" {
			if err := d.Skip(); err != nil {
				return true, err
			}
			return true, d.Fault("missing_field", "a job has an id")
		}
		err := d.Micros(&x.FactorMicro, 0)
		s.Scales = append(s.Scales, x)
		return true, err
	})
}

func (d *whatIfReader) removed(s *Scenario, at string) error {
	r := RemovedGPUs{at: at}
	return d.change(at, removeFields, []string{"node", "count"}, func(name string) error {
		switch name {
		case "node":
			return d.String(&r.Node)
		case "type":
			return d.String(&r.Type)
		}
		return d.Integer(&r.Count, 1, hare.MaxGPUs)
	}, func() { s.RemoveGPUs = append(s.RemoveGPUs, r) })
}

func (d *whatIfReader) drained(s *Scenario, at string) error {
	x := DrainedNode{at: at}
	return d.change(at, drainFields, drainFields, func(name string) error {
		if name == "node" {
			return d.String(&x.Node)
		}
		return d.Micros(&x.AtUs, 0)
	}, func() { s.Drain = append(s.Drain, x) })
}

func (d *whatIfReader) added(s *Scenario, at string) error {
	a := AddedGPUs{at: at}
	return d.change(at, addFields, []string{"type", "count"}, func(name string) error {
		switch name {
		case "type":
			return d.String(&a.Type)
		case "name":
			return d.String(&a.Name)
		}
		return d.Integer(&a.Count, 1, hare.MaxGPUs)
	}, func() { s.AddGPUs = append(s.AddGPUs, a) })
}

// change reads an object of the known fields, of which some are needed.
func (d *whatIfReader) change(at string, known, needed []string, field func(string) error, keep func()) error {
	have := make(map[string]bool, len(known))
	before := len(d.faults)
	isObject := d.Is('{')
	err := d.Object(known, func(name string) (bool, error) {
		for _, k := range known {
			if k == name {
				have[name] = true
				return true, field(name)
			}
		}
		return false, nil
	})
	if err != nil || !isObject {
		return err
	}
	var found hare.InvalidErrors
	for _, n := range needed {
		if !have[n] {
			found.Add(at, "missing_field", "%q is missing", n)
		}
	}
	if err := d.Report(before, found); err != nil {
		return err
	}
	if len(d.faults) == before {
		keep()
	}
	return nil
}

func (d *whatIfReader) patch(s *Scenario) error {
	at := s.at + "/patch"
	return d.Array(func(i int) error {
		if i >= MaxPatchOperations {
			if err := d.Skip(); err != nil || i > MaxPatchOperations {
				return err
			}
			return d.Fault("too_many", "a patch has at most %d operations: split the scenario, or send its instance by itself", MaxPatchOperations)
		}
		var p PatchOperation
		var found hare.InvalidErrors
		here := at + "/" + strconv.Itoa(i)
		before, hasPath, hasFrom := len(d.faults), false, false
		err := d.Object(patchFields, func(name string) (bool, error) {
			switch name {
			case "op":
				return true, d.String(&p.Op)
			case "path":
				hasPath = true
				return true, d.pointerText(&p.Path)
			case "from":
				hasFrom = true
				return true, d.pointerText(&p.From)
			case "value":
				v, err := d.raw()
				p.Value = json.RawMessage(v)
				return true, err
			}
			return false, nil
		})
		if err != nil {
			return err
		}
		p.check(here, hasPath, hasFrom, &found)
		s.Patch = append(s.Patch, p)
		return d.Report(before, found)
	})
}

// check finds what an operation lacks; RFC 6902 says what each needs.
func (p *PatchOperation) check(at string, hasPath, hasFrom bool, found *hare.InvalidErrors) {
	needs := func(ok bool, field string) {
		if !ok {
			found.Add(at, "missing_field", "%s needs %q", hare.Clip(p.Op), field)
		}
	}
	needs(hasPath || p.Op == "", "path")
	switch p.Op {
	case "add", "replace", "test":
		needs(p.Value != nil, "value")
		if p.Op != "test" && p.Path == "" && hasPath && p.Value != nil && p.Value[0] != '{' {
			found.Add(at+"/value", "wrong_type", "the whole document must be an object: an instance")
		}
	case "move", "copy":
		needs(hasFrom, "from")
		if p.Op == "move" && strings.HasPrefix(p.Path, p.From+"/") {
			found.Add(at+"/path", "bad_path", "%s lies inside %s: a value cannot be moved into itself", hare.Clip(p.Path), hare.Clip(p.From))
		}
	case "remove":
		if p.Path == "" && hasPath {
			found.Add(at+"/path", "bad_path", "the whole document cannot be removed: give the path of a part of it")
		}
	default:
		found.Add(at+"/op", "unknown_value", "op %q: must be add, remove, replace, move, copy or test", hare.Clip(p.Op))
	}
}

// pointerText reads a JSON pointer (RFC 6901).
func (d *whatIfReader) pointerText(to *string) error {
	if err := d.String(to); err != nil {
		return err
	}
	p := *to
	bad := p != "" && p[0] != '/'
	for i := 0; i < len(p) && !bad; i++ {
		bad = p[i] == '~' && (i+1 == len(p) || p[i+1] != '0' && p[i+1] != '1')
	}
	if bad {
		return d.Fault("bad_path", "%q is no JSON pointer: e.g. /jobs/0/weight, ~1 for a slash in a name and ~0 for a tilde", hare.Clip(p))
	}
	return nil
}
