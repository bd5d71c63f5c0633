package whatif

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// Limits of one request.
const (
	MaxScenarios       = 1000
	MaxPatchOperations = 1000 // of one scenario
)

// Decode reads {base, scenarios, options, prune, ordered}, strictly, every fault
// with a pointer into the whole document. Options that the document leaves out are
// those of defaults.
func Decode(r io.Reader, lim wire.Limits, defaults hare.Options) (*Request, error) {
	doc := &requestDoc{Request: &Request{Options: defaults}}
	if err := requestTable.Decode(wire.NewReader(r, lim), doc); err != nil {
		return nil, err
	}
	return doc.Request, nil
}

// Form is what the specification says of requests.
var Form wire.Form = requestTable

// requestDoc is a request that is read.
type requestDoc struct {
	*Request
	own [][]byte // options by scenario, read when the batch's are known
}

var requestTable = wire.NewTable("WhatIfRequest", "WhatIfRequest asks what would change.",
	wire.NewField("base", wire.RefTo(baseTable),
		func(r *wire.Reader, doc *requestDoc) error { return baseTable.Read(r, &doc.Base) }, nil).
		Required(`give {"instance": {…}} or {"solve_id": "…"}`),
	wire.NewField("scenarios", wire.ListOf(wire.RefTo(scenarioTable)), readScenarios, nil).
		Required(`give an array, e.g. [{"id": "more", "add_gpus": {"type": "V100", "count": 8}}]`).
		About("scenarios, at most 1,000."),
	wire.NewField("options", wire.RefTo(wire.OptionsDocument),
		func(r *wire.Reader, doc *requestDoc) error { return r.Options(&doc.Options, new(bool)) }, nil),
	wire.NewField("prune", wire.RefTo(pruneTable),
		func(r *wire.Reader, doc *requestDoc) error { return pruneTable.Read(r, doc.Request) }, nil),
	wire.Bool("ordered", func(doc *requestDoc) *bool { return &doc.Ordered }).
		About("ordered asks for the scenarios in their order, not as they finish."),
).Check(func(doc *requestDoc, _ wire.Members, found *hare.InvalidErrors) {
	noDetail("/options", &doc.Options, found)
	ids := make(map[string]int, len(doc.Scenarios))
	for i := range doc.Scenarios {
		s := &doc.Scenarios[i]
		if first, twice := ids[s.ID]; twice {
			found.Add(s.at+"/id", "duplicate_id", "id %q stands twice, first at /scenarios/%d: ids must differ",
				hare.Clip(s.ID), first)
		} else {
			ids[s.ID] = i
		}
		doc.ownOptions(i, found)
	}
})

// ownOptions reads a scenario's options over those of the batch.
func (doc *requestDoc) ownOptions(i int, found *hare.InvalidErrors) {
	s := &doc.Scenarios[i]
	s.Options = doc.Options
	s.Options.TimeLimit = 0
	if doc.own[i] == nil {
		return
	}
	r := wire.NewPartReader(doc.own[i], s.at+"/options")
	var faults hare.InvalidErrors
	if errors.As(r.Finish(r.Options(&s.Options, new(bool))), &faults) {
		*found = append(*found, faults...)
	}
	if doc.Options.Detail == "" {
		noDetail(s.at+"/options", &s.Options, found)
	}
}

func noDetail(at string, o *hare.Options, found *hare.InvalidErrors) {
	if o.Detail != "" {
		found.Add(at+"/detail", "not_allowed", "what-if answers have no schedules: leave detail out")
	}
}

var baseTable = wire.NewTable("WhatIfBase",
	"WhatIfBase is what scenarios are compared with: an instance, with its result or to be solved, or a stored solve.",
	wire.NewField("instance", wire.RefTo(wire.InstanceDocument), readBaseInstance, nil),
	wire.Result("result", func(b *Base) **hare.Result { return &b.Result }),
	wire.String("solve_id", func(b *Base) *string { return &b.SolveID }).About("solve_id names a stored solve."),
).Check(func(b *Base, _ wire.Members, found *hare.InvalidErrors) {
	switch {
	case b.SolveID != "" && b.Text != nil:
		found.Add("", "not_allowed", "give instance or solve_id, not both")
	case b.SolveID != "" && b.Result != nil:
		found.Add("", "not_allowed", "a stored solve has its result: leave result out")
	case b.SolveID == "" && b.Text == nil:
		found.Add("", "missing_field", `give "instance", or "solve_id" of a stored solve`)
	}
})

// readBaseInstance keeps the document beside the instance, for patches.
func readBaseInstance(r *wire.Reader, b *Base) error {
	at := r.Pointer()
	text, err := r.Raw()
	if err != nil {
		return err
	}
	b.Text = text
	var faults hare.InvalidErrors
	if b.Instance, err = wire.DecodeInstanceValue(jsontext.Value(text), at); errors.As(err, &faults) {
		return r.AddFaults(faults)
	}
	return err
}

var pruneTable = wire.NewTable("Prune", "Prune answers from the bound alone where that says enough.",
	wire.NewField("below_s", wire.Schema{"type": "number", "format": "double", "minimum": 0}, readBelow, nil).Needed().
		About("below_s: scenarios whose value is proved not to fall by more than this below the base's, in "+
			"weight-seconds, are not solved."),
).Check(func(q *Request, has wire.Members, found *hare.InvalidErrors) {
	if has.Sound && q.PruneBelow == nil {
		found.Add("", "missing_field",
			`"below_s" is missing: how far the value may fall, in weight-seconds, `+
				`for a scenario to be answered from its bound`)
	}
})

func readBelow(r *wire.Reader, q *Request) error {
	text, ok, err := r.Number()
	if !ok {
		return err
	}
	a, bad := hare.ParseAmount(text)
	switch {
	case bad != nil:
		return r.Fault("bad_amount", "%s %v", hare.Clip(text), bad)
	case a.Sign() < 0:
		return r.Fault("out_of_range", "%s must not be negative: it is how far the value may fall", hare.Clip(text))
	}
	q.PruneBelow = &a
	return nil
}

func readScenarios(r *wire.Reader, doc *requestDoc) error {
	return r.Array(func(i int) error {
		if i >= MaxScenarios {
			if err := r.Skip(); err != nil || i > MaxScenarios {
				return err
			}
			return r.Fault("too_many", "there are more than %d scenarios: split them over several requests",
				MaxScenarios)
		}
		s := scenarioDoc{Scenario: Scenario{at: "/scenarios/" + strconv.Itoa(i)}, index: i}
		err := scenarioTable.Read(r, &s)
		if s.ID == "" {
			s.ID = strconv.Itoa(i)
		}
		doc.Scenarios = append(doc.Scenarios, s.Scenario)
		doc.own = append(doc.own, s.own)
		return err
	})
}

// scenarioDoc is a scenario that is read.
type scenarioDoc struct {
	Scenario
	index int
	own   []byte // options
}

var scenarioTable = wire.NewTable("Scenario",
	"Scenario is one change of the base. Its parts apply in the order of the fields here.",
	wire.String("id", func(v *scenarioDoc) *string { return &v.ID }).
		About("id is unique in the request; left out: the place of the scenario."),
	wire.NewField("patch", wire.ListOf(wire.RefTo(patchTable)), readPatch, nil).
		About("patch (RFC 6902) applies to the instance's document as it was sent, or for a stored solve as Hare "+
			"writes it."),
	wire.NewField("remove_jobs", wire.ListOf(wire.Schema{"type": "string"}), readRemovedJobs, nil),
	wire.NewField("scale_weights", wire.Schema{"type": []string{"object", "number"},
		"additionalProperties": wire.Schema{"type": "number", "format": "double"}}, readScales, nil).
		About("scale_weights is a factor for all jobs, or an object of factors by job id. The new weights must "+
			"have at most six decimals: nothing is rounded."),
	wire.NewField("scale_durations", wire.Schema{"type": []string{"object", "number"},
		"additionalProperties": wire.Schema{"type": "number", "format": "double"}}, readDurations, nil).
		About("scale_durations is a factor for the compute and synchronisation times of all jobs, or an object of "+
			"factors by job id. The new times are rounded up to a microsecond."),
	oneOrMore("drop_after", dropTable, func(v *scenarioDoc, x DroppedAfter, at string) {
		x.at = at
		v.DropAfter = append(v.DropAfter, x)
	}),
	wire.NewField("add_jobs", wire.ListOf(wire.RefTo(wire.JobDocument)), readAddedJobs, nil),
	wire.NewField("set_quota", wire.ListOf(wire.RefTo(wire.QuotaDocument)), readQuotas, nil).
		About("set_quota are quotas as in an instance. Each takes the place of the quota with the same user and types, "+
			"or is a new one."),
	oneOrMore("remove_gpus", removeTable, func(v *scenarioDoc, x RemovedGPUs, at string) {
		x.at = at
		v.RemoveGPUs = append(v.RemoveGPUs, x)
	}),
	oneOrMore("drain", drainTable, func(v *scenarioDoc, x DrainedNode, at string) {
		x.at = at
		v.Drain = append(v.Drain, x)
	}),
	oneOrMore("add_gpus", addTable, func(v *scenarioDoc, x AddedGPUs, at string) {
		x.at = at
		v.AddGPUs = append(v.AddGPUs, x)
	}),
	wire.NewField("add_nodes", wire.ListOf(wire.RefTo(wire.NodeDocument)), readAddedNodes, nil).
		About("add_nodes are nodes as in an instance, with count, cpus, memory_mib and labels."),
	wire.NewField("options", wire.RefTo(wire.OptionsDocument),
		func(r *wire.Reader, v *scenarioDoc) (err error) {
			v.own, err = r.Raw()
			return err
		}, nil),
).Check(func(v *scenarioDoc, _ wire.Members, found *hare.InvalidErrors) {
	if len(v.ID) > 200 {
		found.Add("/id", "too_large", "an id has at most 200 bytes")
	}
})

// oneOrMore reads an object, or an array of them. Objects with faults are not kept.
func oneOrMore[U any](name string, t *wire.Table[U],
	keep func(v *scenarioDoc, x U, at string)) wire.Field[scenarioDoc] {
	return wire.NewField(name, wire.ListOf(wire.RefTo(t)),
		func(r *wire.Reader, v *scenarioDoc) error {
			one := func(at string) error {
				var x U
				before := r.Faults()
				err := t.Read(r, &x)
				if err == nil && r.Faults() == before {
					keep(v, x, at)
				}
				return err
			}
			at := v.at + "/" + name
			if !r.Is('[') {
				return one(at)
			}
			return r.Array(func(i int) error { return one(at + "/" + strconv.Itoa(i)) })
		}, nil).
		With("type", []string{"array", "object"}).About(name + " is an object or an array of them.")
}

var removeTable = wire.NewTable("RemoveGPUs",
	"RemoveGPUs takes GPUs of one node away, those of the highest index first. What follows them is counted anew; "+
		"a busy time goes with its GPU. A node without GPUs goes.",
	wire.String("node", func(x *RemovedGPUs) *string { return &x.Node }).Required("").
		About("node is a name; copies of a node with count are named name-0 and so on."),
	wire.String("type", func(x *RemovedGPUs) *string { return &x.Type }).About(
		"type is needed where the node has several."),
	wire.Integer("count", func(x *RemovedGPUs) *int64 { return &x.Count }, 1, hare.MaxGPUs).Required(""),
)

var drainTable = wire.NewTable("Drain",
	"Drain ends the service of a node. A node that would never be in service goes.",
	wire.String("node", func(x *DrainedNode) *string { return &x.Node }).Required(""),
	wire.Micros("at_s", func(x *DrainedNode) *int64 { return &x.AtUs }, 0).Required(""),
)

var addTable = wire.NewTable("AddGPUs", "AddGPUs adds a node that is always in service.",
	wire.String("type", func(x *AddedGPUs) *string { return &x.Type }).Required(""),
	wire.Integer("count", func(x *AddedGPUs) *int64 { return &x.Count }, 1, hare.MaxGPUs).Required(""),
	wire.String("name", func(x *AddedGPUs) *string { return &x.Name }).
		About("name of the new node; left out: the first free one of added-0, added-1 and so on."),
)

var dropTable = wire.NewTable("DropAfter", "DropAfter lets a job no longer wait for another one.",
	wire.String("job", func(x *DroppedAfter) *string { return &x.Job }).Required("").
		About("job is the id of the job that waits."),
	wire.String("after", func(x *DroppedAfter) *string { return &x.After }).
		About("after is the id of the job for which it waits; left out: all."),
)

func readQuotas(r *wire.Reader, v *scenarioDoc) error {
	return r.Array(func(k int) error {
		before := r.Faults()
		quota, err := r.Quota()
		if err == nil && r.Faults() == before {
			v.SetQuota = append(v.SetQuota, ChangedQuota{Quota: quota, at: v.at + "/set_quota/" + strconv.Itoa(k)})
		}
		return err
	})
}

func readRemovedJobs(r *wire.Reader, v *scenarioDoc) error {
	return r.Array(func(k int) error {
		x := JobRef{at: v.at + "/remove_jobs/" + strconv.Itoa(k)}
		err := r.String(&x.ID)
		v.RemoveJobs = append(v.RemoveJobs, x)
		return err
	})
}

func readAddedNodes(r *wire.Reader, v *scenarioDoc) error {
	return r.Array(func(k int) error {
		before := r.Faults()
		nodes, err := r.Nodes()
		if err == nil && r.Faults() == before {
			v.AddNodes = append(v.AddNodes, AddedNodes{Nodes: nodes, at: v.at + "/add_nodes/" + strconv.Itoa(k)})
		}
		return err
	})
}

func readAddedJobs(r *wire.Reader, v *scenarioDoc) error {
	return r.Array(func(k int) error {
		job, err := r.Job()
		if err == nil {
			v.AddJobs = append(v.AddJobs, AddedJob{Job: job, at: v.at + "/add_jobs/" + strconv.Itoa(k)})
		}
		return err
	})
}

func readScales(r *wire.Reader, v *scenarioDoc) error {
	return readFactors(r, v.at+"/scale_weights", 0, func(id string, micro int64, at string) {
		v.Scales = append(v.Scales, WeightScale{id, micro, at})
	})
}

func readDurations(r *wire.Reader, v *scenarioDoc) error {
	return readFactors(r, v.at+"/scale_durations", 1, func(id string, micro int64, at string) {
		v.Durations = append(v.Durations, DurationScale{id, micro, at})
	})
}

// readFactors reads a factor for all jobs, or factors by job, of at least so many millionths.
func readFactors(r *wire.Reader, at string, least int64, keep func(id string, micro int64, at string)) error {
	one := func(id, at string) error {
		micro := int64(0)
		err := r.Micros(&micro, least)
		keep(id, micro, at)
		return err
	}
	if r.Is('0') {
		return one("", at)
	}
	return r.Object(nil, func(id string) (bool, error) {
		if id == "" {
			if err := r.Skip(); err != nil {
				return true, err
			}
			return true, r.Fault("missing_field", "a job has an id")
		}
		return true, one(id, at+"/"+hare.EscapePointer(id))
	})
}

func readPatch(r *wire.Reader, v *scenarioDoc) error {
	return r.Array(func(i int) error {
		if i >= MaxPatchOperations {
			if err := r.Skip(); err != nil || i > MaxPatchOperations {
				return err
			}
			return r.Fault("too_many",
				"a patch has at most %d operations: split the scenario, or send its instance by itself",
				MaxPatchOperations)
		}
		var p PatchOperation
		err := patchTable.Read(r, &p)
		v.Patch = append(v.Patch, p)
		return err
	})
}

var patchTable = wire.NewTable("PatchOperation", "PatchOperation is one operation of RFC 6902.",
	wire.String("op", func(p *PatchOperation) *string { return &p.Op }).Needed().
		With("enum", []string{"add", "remove", "replace", "move", "copy", "test"}),
	wire.String("path", func(p *PatchOperation) *string { return &p.Path }).Needed().
		Reading(func(r *wire.Reader, p *PatchOperation) error { return readPointer(r, &p.Path) }),
	wire.String("from", func(p *PatchOperation) *string { return &p.From }).
		Reading(func(r *wire.Reader, p *PatchOperation) error { return readPointer(r, &p.From) }).
		About("from is needed by move and copy."),
	wire.NewField("value", wire.Schema{"type": []string{"object", "array", "string", "number", "boolean", "null"},
		"items": wire.Schema{}},
		func(r *wire.Reader, p *PatchOperation) error {
			text, err := r.Raw()
			p.Value = json.RawMessage(text)
			return err
		}, nil).
		About("value is needed by add, replace and test."),
).Check(func(p *PatchOperation, has wire.Members, found *hare.InvalidErrors) {
	p.check(has.Has("path"), has.Has("from"), found)
})

// check finds what an operation lacks; RFC 6902 says what each needs.
func (p *PatchOperation) check(hasPath, hasFrom bool, found *hare.InvalidErrors) {
	needs := func(ok bool, field string) {
		if !ok {
			found.Add("", "missing_field", "%s needs %q", hare.Clip(p.Op), field)
		}
	}
	needs(hasPath || p.Op == "", "path")
	switch p.Op {
	case "add", "replace", "test":
		needs(p.Value != nil, "value")
		if p.Op != "test" && p.Path == "" && hasPath && p.Value != nil && p.Value[0] != '{' {
			found.Add("/value", "wrong_type", "the whole document must be an object: an instance")
		}
	case "move", "copy":
		needs(hasFrom, "from")
		if p.Op == "move" && strings.HasPrefix(p.Path, p.From+"/") {
			found.Add("/path", "bad_path", "%s lies inside %s: a value cannot be moved into itself",
				hare.Clip(p.Path), hare.Clip(p.From))
		}
	case "remove":
		if p.Path == "" && hasPath {
			found.Add("/path", "bad_path", "the whole document cannot be removed: give the path of a part of it")
		}
	default:
		found.Add("/op", "unknown_value", "op %q: must be add, remove, replace, move, copy or test", hare.Clip(p.Op))
	}
}

// readPointer reads a JSON pointer (RFC 6901).
func readPointer(r *wire.Reader, to *string) error {
	if err := r.String(to); err != nil {
		return err
	}
	p := *to
	bad := p != "" && p[0] != '/'
	for i := 0; i < len(p) && !bad; i++ {
		bad = p[i] == '~' && (i+1 == len(p) || p[i+1] != '0' && p[i+1] != '1')
	}
	if bad {
		return r.Fault("bad_path", "%q is no JSON pointer: e.g. /jobs/0/weight, ~1 for a slash in a name and ~0 "+
			"for a tilde", hare.Clip(p))
	}
	return nil
}
