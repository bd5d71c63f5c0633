package wire

import (
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hare-sched/hare"
)

// Forms name the versions of the JSON documents.
const (
	InstanceForm    = "instance/v1"
	ResultForm      = "result/v1"
	CertificateForm = "certificate/v1"
)

var (
	instanceFields = []string{"hare", "name", "objective", "cluster", "jobs"}
	clusterFields  = []string{"nodes"}
	nodeFields     = []string{"name", "count", "gpus", "in_service_s", "busy"}
	busyFields     = []string{"gpu", "until_s"}
	jobFields      = []string{"id", "weight", "release_s", "rounds", "tasks", "sync", "mix", "on"}
	profileFields  = []string{"compute_s", "sync_s"}
)

// DecodeInstance reads an instance/v1 document: one JSON object, or NDJSON with
// everything but the jobs on the first line and then a job a line. The error
// is InvalidErrors with every fault of one pass, or the reader's own.
func DecodeInstance(r io.Reader, lim Limits) (*hare.Instance, error) {
	rd := NewReader(r, lim)
	d := newInstanceReader(rd, "")
	err := d.instance()
	if err == nil && !d.hasJobs {
		err = d.jobLines()
	}
	rd.prefix = ""
	if err == nil {
		err = d.sums()
	}
	if err := rd.Finish(err); err != nil {
		return nil, err
	}
	return d.inst, nil
}

// DecodeInstanceValue reads an instance that is part of a larger document, at
// the given pointer.
func DecodeInstanceValue(text jsontext.Value, pointer string) (*hare.Instance, error) {
	inst, err := DecodeInstance(strings.NewReader(string(text)), Limits{MaxBytes: int64(len(text)) + 1})
	var all hare.InvalidErrors
	if errors.As(err, &all) {
		for _, f := range all {
			f.Pointer = pointer + f.Pointer
		}
	}
	return inst, err
}

type instanceReader struct {
	*Reader
	root    string // pointer of the instance in its document
	inst    *hare.Instance
	ids     map[string]int // job id to index
	nodes   map[string]int // node name to index in the document
	gpus    int64
	full    bool // more than MaxGPUs, and said so
	scratch []hare.Profile
	hasJobs bool
}

func newInstanceReader(rd *Reader, root string) *instanceReader {
	return &instanceReader{Reader: rd, root: root, inst: &hare.Instance{}, ids: map[string]int{}, nodes: map[string]int{}}
}

func (d *instanceReader) instance() error {
	if !d.Is('{') {
		_, err := d.Want('{')
		d.hasJobs = true // there are no lines of jobs either
		return err
	}
	form, objective := "", hare.ObjectiveWeightedJCT
	hasCluster := false
	before := len(d.faults)
	err := d.Object(instanceFields, func(name string) (bool, error) {
		switch name {
		case "hare":
			return true, d.String(&form)
		case "name":
			return true, d.String(&d.inst.Name)
		case "objective":
			return true, d.String(&objective)
		case "cluster":
			hasCluster = true
			return true, d.cluster()
		case "jobs":
			d.hasJobs = true
			return true, d.Array(func(i int) error { return d.job(d.root + "/jobs/" + strconv.Itoa(i)) })
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	d.inst.Objective = objective
	var found hare.InvalidErrors
	if form != InstanceForm {
		found.Add(d.root+"/hare", "unknown_form", "must be %q", InstanceForm)
	}
	if objective != hare.ObjectiveWeightedJCT {
		found.Add(d.root+"/objective", "not_supported", "objective %q is not supported by this version: use %q or leave it out", hare.Clip(objective), hare.ObjectiveWeightedJCT)
	}
	if !hasCluster {
		found.Add(d.root, "missing_field", `"cluster" is missing: give {"nodes": [{"name": "a", "gpus": {"V100": 4}}]}`)
	}
	return d.Report(before, found)
}

// jobLines reads the jobs of the NDJSON form.
func (d *instanceReader) jobLines() error {
	n := 0
	for ; ; n++ {
		if d.d.PeekKind() == 0 {
			if _, err := d.d.ReadToken(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return d.broken(err)
			}
		}
		d.prefix = "/jobs/" + strconv.Itoa(n)
		if err := d.job(""); err != nil {
			return err
		}
	}
	d.prefix = ""
	if n == 0 {
		return d.noJobs()
	}
	return nil
}

func (d *instanceReader) noJobs() error {
	return d.FaultAt(d.root, "missing_field", `"jobs" is missing: give an array of jobs, which may be empty`)
}

func (d *instanceReader) job(at string) error {
	j := hare.Job{WeightMicro: 1e6, Rounds: 1, Tasks: 1}
	mix, hasMix, knowsSync, hasOn := false, false, true, false
	before := len(d.faults)
	if !d.Is('{') {
		d.inst.Jobs = append(d.inst.Jobs, hare.Job{})
		_, err := d.Want('{')
		return err
	}
	err := d.Object(jobFields, func(name string) (bool, error) {
		switch name {
		case "id":
			return true, d.String(&j.ID)
		case "weight":
			return true, d.Micros(&j.WeightMicro, 0)
		case "release_s":
			return true, d.Micros(&j.ReleaseUs, 0)
		case "rounds":
			return true, d.Integer(&j.Rounds, 1, hare.MaxExact)
		case "tasks":
			return true, d.Integer(&j.Tasks, 1, hare.MaxTasks(hare.Relaxed))
		case "sync":
			return true, d.sync(&j.Sync, &knowsSync)
		case "mix":
			hasMix = true
			return true, d.Bool(&mix)
		case "on":
			hasOn = true
			return true, d.profiles(&j)
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	var found hare.InvalidErrors
	// A relaxed job always may mix, a rigid one never: saying so is allowed,
	// only the contrary is an error.
	switch {
	case !hasMix || !knowsSync:
	case j.Sync == hare.Relaxed && !mix:
		found.Add(at+"/mix", "not_allowed", "relaxed jobs always may mix types: leave mix out, or use sync gang")
	case j.Sync == hare.Rigid && mix:
		found.Add(at+"/mix", "not_allowed", "rigid jobs never mix types: leave mix out, or use sync gang")
	}
	j.Mix = mix && j.Sync == hare.Gang
	if !hasOn {
		found.Add(at, "missing_field", `"on" is missing: give the times on each GPU type, e.g. {"V100": {"compute_s": 1.2}}`)
		j.On = []hare.Profile{{Type: "-", ComputeUs: 1}}
	}
	found.CheckJob(at, &j)
	if first, twice := d.ids[j.ID]; twice && j.ID != "" {
		found.Add(at+"/id", "duplicate_id", "id %q stands twice, first at %s/jobs/%d: ids must differ", hare.Clip(j.ID), d.root, first)
	} else {
		d.ids[j.ID] = len(d.inst.Jobs)
	}
	// Faulty jobs are kept, without rounds, so that the index of a job is its
	// place in the document.
	if len(d.faults) > before || len(found) > 0 {
		j.Rounds = 0
	}
	d.inst.Jobs = append(d.inst.Jobs, j)
	return d.Report(before, found)
}

// sums checks what only the whole instance shows.
func (d *instanceReader) sums() error {
	var found hare.InvalidErrors
	found.CheckHorizon(d.root, d.inst)
	return d.Report(len(d.faults), found)
}

func (d *instanceReader) sync(to *hare.Sync, known *bool) error {
	*known = false
	text := ""
	if !d.Is('"') {
		return d.String(&text)
	}
	if err := d.String(&text); err != nil {
		return err
	}
	for _, s := range []hare.Sync{hare.Relaxed, hare.Gang, hare.Rigid} {
		if text == s.String() {
			*to, *known = s, true
			return nil
		}
	}
	return d.Fault("unknown_value", "sync %q: must be relaxed, gang or rigid", hare.Clip(text))
}

func (d *instanceReader) profiles(j *hare.Job) error {
	d.scratch = d.scratch[:0]
	err := d.Object(nil, func(kind string) (bool, error) {
		p := hare.Profile{Type: kind, ComputeUs: 1} // replaced, or a fault
		missing, _, err := d.profile(&p)
		if err == nil && missing {
			err = d.Fault("missing_field", `"compute_s" is missing: the seconds of compute of one task on %s`, hare.Clip(kind))
		}
		d.scratch = append(d.scratch, p)
		return true, err
	})
	if len(d.scratch) > 0 {
		j.On = slices.Clone(d.scratch)
		slices.SortFunc(j.On, func(a, b hare.Profile) int { return strings.Compare(a.Type, b.Type) })
	}
	return err
}

// profile reads the times of one type. missing says that they lack compute_s,
// empty that they lack everything.
func (d *instanceReader) profile(p *hare.Profile) (missing, empty bool, err error) {
	missing, empty = d.Is('{'), true
	err = d.Object(profileFields, func(name string) (bool, error) {
		empty = false
		switch name {
		case "compute_s":
			missing = false
			return true, d.Micros(&p.ComputeUs, 1)
		case "sync_s":
			if d.Is('{') {
				if err := d.Skip(); err != nil {
					return true, err
				}
				return true, d.Fault("not_supported", "sync_s as an object is not supported by this version: give seconds")
			}
			return true, d.Micros(&p.SyncUs, 0)
		}
		return false, nil
	})
	return missing, empty, err
}
