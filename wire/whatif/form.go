package whatif

import (
	"encoding/json"
	"errors"
	"math"
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

// Form is what the specification says of requests.
var Form wire.Form = requestTable

// requestTable has every field of the document; the fields stand here and in the types of
// requests, and nowhere else.
var requestTable = wire.NewTable("WhatIfRequest", "WhatIfRequest asks what would change.",
	append(requestFields, wire.TagFields(func(q *Request) *wire.Tags { return &q.Tags })...)...,
).Check(func(q *Request, _ wire.Members, found *hare.InvalidErrors) {
	noDetail("/options", &q.Options, found)
	ids := make(map[string]int, len(q.Scenarios))
	for i := range q.Scenarios {
		s := &q.Scenarios[i]
		if first, twice := ids[s.ID]; twice {
			found.Add(s.at+"/id", "duplicate_id", "id %q appears twice, first at /scenarios/%d: ids must differ",
				hare.Clip(s.ID), first)
		} else {
			ids[s.ID] = i
		}
		if q.Options.Detail == "" {
			noDetail(s.at+"/options", &s.Options, found)
		}
	}
})

var requestFields = []wire.Field[Request]{
	wire.NewField("base", wire.RefTo(baseTable),
		func(r *wire.Reader, q *Request) error { return baseTable.Read(r, &q.Base) },
		func(b []byte, q *Request) []byte { return baseTable.Append(b, &q.Base) }).
		Required(`give {"instance": {…}} or {"solve_id": "…"}`),
	wire.NewField("scenarios", wire.ListOf(wire.RefTo(scenarioTable)), readScenarios, writeScenarios).
		Required(`give an array, e.g. [{"id": "more", "add_gpus": {"type": "V100", "count": 8}}]`).
		About("scenarios, at most 1,000."),
	wire.OptionsField("options", func(q *Request) *wire.Options { return &q.Options }),
	wire.NewField("prune", wire.RefTo(pruneTable),
		func(r *wire.Reader, q *Request) error { return pruneTable.Read(r, q) }, writePrune),
	wire.Bool("ordered", func(q *Request) *bool { return &q.Ordered }).
		About("ordered asks for the scenarios in their order, not as they finish."),
}

func noDetail(at string, o *wire.Options, found *hare.InvalidErrors) {
	if o.Detail != "" {
		found.Add(at+"/detail", "not_allowed", "what-if answers have no schedules: leave detail out")
	}
}

var baseTable = wire.NewTable("WhatIfBase",
	"WhatIfBase is what scenarios are compared with: an instance, with its result or to be solved, or a stored solve.",
	wire.NewField("instance", wire.RefTo(wire.InstanceDocument), readBaseInstance, writeBaseInstance),
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

func writeBaseInstance(b []byte, base *Base) []byte {
	switch {
	case base.Text != nil:
		return append(b, base.Text...)
	case base.Instance != nil:
		return wire.AppendInstance(b, base.Instance)
	}
	return b
}

var pruneTable = wire.NewTable("Prune", "Prune answers from the bound alone where that says enough.",
	wire.NewField("below_s", wire.Schema{"type": "number", "format": "double", "minimum": 0}, readBelow, writeBelow).
		Needed().
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

func writeBelow(b []byte, q *Request) []byte { return append(b, q.PruneBelow.String()...) }

func writePrune(b []byte, q *Request) []byte {
	if q.PruneBelow == nil {
		return b
	}
	return pruneTable.Append(b, q)
}

func readScenarios(r *wire.Reader, q *Request) error {
	return r.Array(func(i int) error {
		if i >= MaxScenarios {
			if err := r.Skip(); err != nil || i > MaxScenarios {
				return err
			}
			return r.Fault("too_many", "there are more than %d scenarios: split them over several requests",
				MaxScenarios)
		}
		s := Scenario{at: "/scenarios/" + strconv.Itoa(i)}
		err := scenarioTable.Read(r, &s)
		if s.ID == "" {
			s.ID = strconv.Itoa(i)
		}
		q.Scenarios = append(q.Scenarios, s)
		return err
	})
}

func writeScenarios(b []byte, q *Request) []byte {
	return appendArray(b, q.Scenarios, scenarioTable.Append)
}

// appendArray appends an array of the JSON forms of items, also where there are none.
func appendArray[T any](b []byte, items []T, item func([]byte, *T) []byte) []byte {
	b = append(b, '[')
	for i := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = item(b, &items[i])
	}
	return append(b, ']')
}

var scenarioTable = wire.NewTable("Scenario",
	"Scenario is one change of the base. Its parts apply in the order of the fields here.",
	wire.String("id", func(s *Scenario) *string { return &s.ID }).
		About("id is unique in the request; left out: the place of the scenario."),
	wire.NewField("patch", wire.ListOf(wire.RefTo(patchTable)), readPatch, writePatch).
		About("patch (RFC 6902) applies to the instance's document as it was sent, or for a stored solve as Hare "+
			"writes it."),
	wire.Strings("remove_jobs", func(s *Scenario) *[]string { return &s.RemoveJobs }, math.MaxInt, "jobs").
		About("remove_jobs are the ids of jobs that are left out; jobs that wait for them no longer do."),
	wire.NewField("scale_weights", wire.Schema{"type": []string{"object", "number"},
		"additionalProperties": wire.Schema{"type": "number", "format": "double"}},
		func(r *wire.Reader, s *Scenario) error { return readFactors(r, &s.ScaleWeights, 0) },
		func(b []byte, s *Scenario) []byte { return writeFactors(b, s.ScaleWeights) }).
		About("scale_weights is a factor for all jobs, or an object of factors by job id. The new weights must "+
			"have at most six decimals: nothing is rounded."),
	wire.NewField("scale_durations", wire.Schema{"type": []string{"object", "number"},
		"additionalProperties": wire.Schema{"type": "number", "format": "double"}},
		func(r *wire.Reader, s *Scenario) error { return readFactors(r, &s.ScaleDurations, 1) },
		func(b []byte, s *Scenario) []byte { return writeFactors(b, s.ScaleDurations) }).
		About("scale_durations is a factor for the compute and synchronisation times of all jobs, or an object of "+
			"factors by job id. The new times are rounded up to a microsecond."),
	oneOrMore("drop_after", func(s *Scenario) *[]DroppedAfter { return &s.DropAfter }, dropTable),
	wire.NewField("add_jobs", wire.ListOf(wire.RefTo(wire.JobDocument)), readAddedJobs, writeAddedJobs).
		About("add_jobs are jobs as in an instance."),
	wire.NewField("set_quota", wire.ListOf(wire.RefTo(wire.QuotaDocument)), readQuotas,
		func(b []byte, s *Scenario) []byte { return wire.AppendQuota(b, s.SetQuota) }).
		About("set_quota are quotas as in an instance. Each takes the place of the quota with the same user and types, "+
			"or is a new one."),
	oneOrMore("remove_gpus", func(s *Scenario) *[]RemovedGPUs { return &s.RemoveGPUs }, removeTable),
	oneOrMore("drain", func(s *Scenario) *[]DrainedNode { return &s.Drain }, drainTable),
	oneOrMore("add_gpus", func(s *Scenario) *[]AddedGPUs { return &s.AddGPUs }, addTable),
	wire.NewField("add_nodes", wire.ListOf(wire.RefTo(wire.NodeDocument)), readAddedNodes, writeAddedNodes).
		About("add_nodes are nodes as in an instance, with count, cpus, memory_mib and labels."),
	wire.OptionsField("options", func(s *Scenario) *wire.Options { return &s.Options }),
).Check(func(s *Scenario, _ wire.Members, found *hare.InvalidErrors) {
	if len(s.ID) > 200 {
		found.Add("/id", "too_large", "an id has at most 200 bytes")
	}
})

// oneOrMore makes a field whose value is an object or an array of objects, and which is written as
// an array. Objects with faults are not kept.
func oneOrMore[U any](name string, of func(*Scenario) *[]U, t *wire.Table[U]) wire.Field[Scenario] {
	return wire.NewField(name, wire.ListOf(wire.RefTo(t)),
		func(r *wire.Reader, s *Scenario) error {
			one := func(int) error {
				var x U
				before := r.Faults()
				err := t.Read(r, &x)
				if to := of(s); err == nil && r.Faults() == before {
					*to = append(*to, x)
				}
				return err
			}
			if r.Is('[') {
				return r.Array(one)
			}
			s.single = append(s.single, name)
			return one(0)
		},
		func(b []byte, s *Scenario) []byte {
			if xs := *of(s); len(xs) > 0 {
				return appendArray(b, xs, t.Append)
			}
			return b
		}).
		With("type", []string{"array", "object"}).About(name + " is an object or an array of them.")
}

var removeTable = wire.NewTable("RemoveGPUs",
	"RemoveGPUs takes GPUs of one node away, those of the highest index first. What follows them is counted again; "+
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

func readQuotas(r *wire.Reader, s *Scenario) error {
	return r.Array(func(int) error {
		before := r.Faults()
		quota, err := r.Quota()
		if err == nil && r.Faults() == before {
			s.SetQuota = append(s.SetQuota, quota)
		}
		return err
	})
}

func readAddedNodes(r *wire.Reader, s *Scenario) error {
	return r.Array(func(k int) error {
		before := r.Faults()
		nodes, err := r.Nodes()
		if err == nil && r.Faults() == before {
			for _, n := range nodes {
				s.AddNodes, s.nodesOf = append(s.AddNodes, n), append(s.nodesOf, k)
			}
		}
		return err
	})
}

func writeAddedNodes(b []byte, s *Scenario) []byte {
	if len(s.AddNodes) == 0 {
		return b
	}
	return wire.AppendNodes(b, s.AddNodes)
}

func readAddedJobs(r *wire.Reader, s *Scenario) error {
	return r.Array(func(int) error {
		job, err := r.Job()
		if err == nil {
			s.AddJobs = append(s.AddJobs, job)
		}
		return err
	})
}

func writeAddedJobs(b []byte, s *Scenario) []byte {
	if len(s.AddJobs) == 0 {
		return b
	}
	return wire.AppendJobs(b, s.AddJobs)
}

// readFactors reads a factor for all jobs, or factors by job, of at least so many millionths.
func readFactors(r *wire.Reader, to *[]Factor, least int64) error {
	one := func(job string) error {
		f := Factor{Job: job}
		err := r.Micros(&f.Micro, least)
		*to = append(*to, f)
		return err
	}
	if r.Is('0') {
		return one("")
	}
	return r.Object(nil, func(job string) (bool, error) {
		if job == "" {
			if err := r.Skip(); err != nil {
				return true, err
			}
			return true, r.Fault("missing_field", "a job has an id")
		}
		return true, one(job)
	})
}

func writeFactors(b []byte, factors []Factor) []byte {
	if len(factors) == 1 && factors[0].Job == "" {
		return hare.AppendMicros(b, factors[0].Micro)
	}
	return wire.AppendMap(b, factors,
		func(f *Factor) string { return f.Job },
		func(b []byte, f *Factor) []byte { return hare.AppendMicros(b, f.Micro) })
}

func readPatch(r *wire.Reader, s *Scenario) error {
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
		s.Patch = append(s.Patch, p)
		return err
	})
}

func writePatch(b []byte, s *Scenario) []byte {
	if len(s.Patch) == 0 {
		return b
	}
	return appendArray(b, s.Patch, patchTable.Append)
}

var patchTable = wire.NewTable("PatchOperation", "PatchOperation is one operation of RFC 6902.",
	wire.String("op", func(p *PatchOperation) *string { return &p.Op }).Needed().
		With("enum", []string{"add", "remove", "replace", "move", "copy", "test"}),
	wire.String("path", func(p *PatchOperation) *string { return &p.Path }).Needed().
		Reading(func(r *wire.Reader, p *PatchOperation) error { return readPointer(r, &p.Path) }),
	wire.String("from", func(p *PatchOperation) *string { return &p.From }).
		Reading(func(r *wire.Reader, p *PatchOperation) error { return readPointer(r, &p.From) }).
		Writing(writeFrom).
		About("from is needed by move and copy."),
	wire.NewField("value", wire.Schema{"type": []string{"object", "array", "string", "number", "boolean", "null"},
		"items": wire.Schema{}},
		func(r *wire.Reader, p *PatchOperation) error {
			text, err := r.Raw()
			p.Value = json.RawMessage(text)
			return err
		},
		func(b []byte, p *PatchOperation) []byte { return append(b, p.Value...) }).
		About("value is needed by add, replace and test."),
).Check(func(p *PatchOperation, has wire.Members, found *hare.InvalidErrors) {
	p.check(has.Has("path"), has.Has("from"), found)
})

// writeFrom writes from where the operation needs one, also that of the whole document, which is "".
func writeFrom(b []byte, p *PatchOperation) []byte {
	if p.Op != "move" && p.Op != "copy" {
		return b
	}
	return wire.AppendString(b, p.From)
}

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
		return r.Fault("bad_path", "%q is not a JSON pointer: e.g. /jobs/0/weight, ~1 for a slash in a name and ~0 "+
			"for a tilde", hare.Clip(p))
	}
	return nil
}
