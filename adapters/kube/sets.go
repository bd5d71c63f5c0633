package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/hare-sched/hare"
)

// JobSets and PyTorchJobs are suspended like Jobs, by a field of their own, and have several templates of
// pods. The helper lets one go as it lets a Job go: in one patch that writes the node selector of the type
// into each template whose pods ask for GPUs.

var setKinds = []*setKind{
	{"JobSet", "jobset.x-k8s.io/v1alpha2", "jobsets", []string{"spec", "suspend"},
		"jobset.sigs.k8s.io/jobset-controller", readJobSet},
	{"PyTorchJob", "kubeflow.org/v1", "pytorchjobs", []string{"spec", "runPolicy", "suspend"},
		"kubeflow.org/training-operator", readPyTorchJob},
}

// setObject is a JobSet or PyTorchJob as the API server writes it.
type setObject struct {
	partial
	Metadata meta
	Spec     json.RawMessage
	Status   struct {
		StartTime, CompletionTime *time.Time
		Conditions                []condition
	}
}

// add counts the pods of one template. Those without GPUs need no choice.
func (s *podSets) add(of template, pods int64, path ...string) {
	if held(&of.Spec).GPUs == 0 || pods <= 0 {
		return
	}
	s.pods += pods
	if len(s.templates) > 0 && !alike(&s.templates[0].template.Spec, &of.Spec) {
		s.why = "has pods with GPUs that ask for different things"
	}
	s.templates = append(s.templates, setTemplate{path, of})
}

// count reads a number of pods or replicas, of which one is the default.
func count(n *int64) int64 {
	if n == nil {
		return 1
	}
	return max(0, min(*n, hare.MaxGPUs+1))
}

// exclusiveTopology is the annotation of JobSets whose Jobs have racks or blocks of their own.
const exclusiveTopology = "alpha.jobset.sigs.k8s.io/exclusive-topology"

func readJobSet(text json.RawMessage, s *podSets) error {
	var spec struct {
		Suspend        bool
		ManagedBy      string
		ReplicatedJobs []struct {
			Replicas  *int64
			DependsOn []json.RawMessage
			Template  struct {
				Metadata meta
				Spec     struct {
					Parallelism, Completions *int64
					Template                 template
				}
			}
		}
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		return err
	}
	s.suspended, s.managedBy = spec.Suspend, spec.ManagedBy
	for i := range spec.ReplicatedJobs {
		r := &spec.ReplicatedJobs[i]
		of := &r.Template.Spec
		pods := count(of.Parallelism)
		if of.Completions != nil {
			pods = min(pods, count(of.Completions))
		}
		s.add(of.Template, count(r.Replicas)*pods,
			"spec", "replicatedJobs", fmt.Sprint(i), "template", "spec", "template")
		switch {
		case len(r.DependsOn) > 0:
			s.why = "starts its replicated jobs one after another (dependsOn)"
		case of.Completions != nil && *of.Completions > count(of.Parallelism):
			s.why = "runs its pods one after another: completions above parallelism"
		case r.Template.Metadata.Annotations[exclusiveTopology] != "":
			s.why = "places its jobs by the annotation " + exclusiveTopology
		}
	}
	return nil
}

func readPyTorchJob(text json.RawMessage, s *podSets) error {
	var spec struct {
		RunPolicy struct {
			Suspend               bool
			ManagedBy             string
			ActiveDeadlineSeconds int64
		}
		ElasticPolicy       json.RawMessage
		PytorchReplicaSpecs map[string]struct {
			Replicas *int64
			Template template
		}
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		return err
	}
	s.suspended, s.managedBy = spec.RunPolicy.Suspend, spec.RunPolicy.ManagedBy
	s.deadlineS = spec.RunPolicy.ActiveDeadlineSeconds
	for _, name := range slices.Sorted(maps.Keys(spec.PytorchReplicaSpecs)) {
		r := spec.PytorchReplicaSpecs[name]
		s.add(r.Template, count(r.Replicas), "spec", "pytorchReplicaSpecs", name, "template")
	}
	if len(spec.ElasticPolicy) > 0 && string(spec.ElasticPolicy) != "null" {
		s.why = "changes the number of its pods (elasticPolicy)"
	}
	return nil
}

// readSets reads the JobSets and PyTorchJobs of a cluster, and takes the Jobs that JobSets have made out
// of jobs. roots maps the UID of each of these Jobs to that of its JobSet. A kind that the cluster does
// not have, or that this account may not list, counts as having no objects.
func (h *Helper) readSets(ctx context.Context, jobs []job, roots map[string]string) ([]job, error) {
	known := map[string]bool{}
	var sets []job
	for _, k := range setKinds {
		objects, version, err := list[setObject](ctx, h.api, k.listPath(), h.report)
		switch status := statusOf(err); {
		case status == http.StatusNotFound && !h.setsSeen[k], status == http.StatusForbidden && !h.setsSeen[k]:
			if status == http.StatusForbidden && !h.warned[k.plural] {
				h.warned[k.plural] = true
				h.cfg.Logger.Warn("this account may not list "+k.plural+": they are left alone", "error", err.Error())
			}
			continue
		case err != nil:
			return nil, err
		}
		h.setsSeen[k] = true
		h.versions[k.listPath()] = version
		for i := range objects {
			j, err := objects[i].job(k)
			if err != nil { // one user's object must not stop the others'; its pods count by themselves
				h.counted.Unread++
				if m := &objects[i].Metadata; !h.warned[m.UID] {
					h.warned[m.UID] = true
					h.cfg.Logger.Warn("a "+k.kind+" cannot be read, and is left alone", "name", m.id(), "error", err.Error())
				}
				continue
			}
			known[j.Metadata.UID] = true
			sets = append(sets, j)
		}
	}
	jobs = slices.DeleteFunc(jobs, func(j job) bool {
		for _, r := range j.Metadata.OwnerReferences {
			if r.Controller && known[r.UID] {
				roots[j.Metadata.UID] = r.UID
				return true
			}
		}
		return false
	})
	return append(jobs, sets...), nil
}

// job is the object as the helper knows jobs.
func (o *setObject) job(k *setKind) (job, error) {
	s := &podSets{kind: k}
	if len(o.Spec) > 0 {
		err := k.read(o.Spec, s)
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
			err = fmt.Errorf("spec.%s: must not be a %s", wrong.Field, wrong.Value)
		}
		if err != nil {
			return job{}, err
		}
	}
	j := job{partial: o.partial, Metadata: o.Metadata, sets: s}
	j.Spec.Suspend, j.Spec.Parallelism, j.Spec.ActiveDeadlineSeconds = s.suspended, &s.pods, s.deadlineS
	if s.managedBy != k.controller {
		j.Spec.ManagedBy = s.managedBy
	}
	if len(s.templates) > 0 {
		j.Spec.Template = s.templates[0].template
	}
	if o.Metadata.Annotations[exclusiveTopology] != "" {
		s.why = "places its jobs by the annotation " + exclusiveTopology
	}
	j.Status.StartTime, j.Status.CompletionTime = o.Status.StartTime, o.Status.CompletionTime
	for _, c := range o.Status.Conditions {
		ended := map[string]string{"Completed": "Complete", "Succeeded": "Complete", "Failed": "Failed"}[c.Type]
		if c.Status != "True" || ended == "" {
			continue
		}
		j.Status.Conditions = append(j.Status.Conditions, condition{Type: ended, Status: "True"})
		if at := c.LastTransitionTime; j.Status.CompletionTime == nil {
			j.Status.CompletionTime = &at
		}
	}
	return j, nil
}

// goPatch lets a JobSet or PyTorchJob go, on a GPU type where label is not "". It is a JSON patch, since a
// merge patch would replace the whole list of templates. The resourceVersion that it writes makes the API
// server refuse it where somebody else has changed the object since it was read.
func (j *job) goPatch(label, gpuType string) []byte {
	operations := []patchOperation{{"replace", "/metadata/resourceVersion", j.Metadata.ResourceVersion}}
	if label != "" {
		annotations := map[string]string{StartedAnnotation: gpuType}
		if j.choosesOpen(label) {
			annotations[SelectorAnnotation] = label
		}
		if j.Metadata.Annotations == nil {
			operations = append(operations, patchOperation{"add", "/metadata/annotations", annotations})
		} else {
			for _, name := range slices.Sorted(maps.Keys(annotations)) {
				operations = append(operations, patchOperation{"add", pointer("metadata", "annotations", name),
					annotations[name]})
			}
		}
		for _, t := range j.sets.templates {
			at := append(slices.Clone(t.path), "spec", "nodeSelector")
			if t.template.Spec.NodeSelector == nil {
				operations = append(operations, patchOperation{"add", pointer(at...), map[string]string{label: gpuType}})
			} else {
				operations = append(operations, patchOperation{"add", pointer(append(at, label)...), gpuType})
			}
		}
	}
	operations = append(operations, patchOperation{"replace", pointer(j.sets.kind.suspend...), false})
	text, _ := json.Marshal(operations) // strings, booleans and maps of strings are always JSON
	return text
}
