package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
)

// Under Kueue every job of any kind has a Workload, which Kueue starts where quota is left. The helper
// reads and writes Workloads alone: a change of a suspended Job's node selector would be fatal, since
// Kueue would not see it before it has chosen a flavor.

// admissionWait is how long a Workload keeps the type that the helper chose while Kueue does not admit it.
const admissionWait = 15 * time.Second

// quotas are those that plans keep: of the types of which one flavor says how many GPUs there are.
func (q *clusterQueue) quotas() (quotas []hare.Quota) {
	for _, gpuType := range slices.Sorted(maps.Keys(q.types)) {
		if f := q.types[gpuType]; f.gpus >= 0 && !f.several {
			quotas = append(quotas, hare.Quota{User: q.queueUser(), Types: []string{gpuType}, GPUs: min(f.gpus, hare.MaxGPUs)})
		}
	}
	return quotas
}

type localQueue struct {
	Metadata meta
	Spec     struct{ ClusterQueue string }
}

type resourceFlavor struct {
	Metadata meta
	Spec     struct{ NodeLabels map[string]string }
}

// kueueGroup and kueueVersions are where Kueue's objects are.
const kueueGroup = "/apis/kueue.x-k8s.io/"

var kueueVersions = []string{"v1beta2", "v1beta1"}

// errNoKueue says that a cluster has no Kueue.
var errNoKueue = errors.New("the cluster has no Workloads of Kueue: leave --kueue out, or install Kueue")

// readWorkloads reads Kueue's objects, and returns the Workloads as jobs.
func (h *Helper) readWorkloads(ctx context.Context, nodes []node, jobs []job) ([]job, error) {
	var works []workload
	err, version := errNoKueue, ""
	for _, v := range kueueVersions {
		works, version, err = list[workload](ctx, h.api, kueueGroup+v+"/workloads", h.report)
		if statusOf(err) != http.StatusNotFound {
			h.kueueVersion = v
			break
		}
		err = errNoKueue
	}
	if err != nil {
		return nil, err
	}
	root := kueueGroup + h.kueueVersion
	h.versions[root+"/workloads"] = version
	flavors, _, err := list[resourceFlavor](ctx, h.api, root+"/resourceflavors", h.report)
	if err != nil {
		return nil, err
	}
	clusterQueues, _, err := list[clusterQueue](ctx, h.api, root+"/clusterqueues", h.report)
	if err != nil {
		return nil, err
	}
	localQueues, _, err := list[localQueue](ctx, h.api, root+"/localqueues", h.report)
	if err != nil {
		return nil, err
	}
	types := h.flavorTypes(nodes, flavors)
	queues := map[string]*clusterQueue{} // by namespace/name of the LocalQueue
	managed := map[string]bool{}
	byName := map[string]*clusterQueue{}
	for i := range clusterQueues {
		q := &clusterQueues[i]
		q.noOrder = q.whyNoOrder()
		q.offer(types, flavors)
		byName[q.Metadata.Name] = q
	}
	for i := range localQueues {
		l := &localQueues[i]
		q := byName[l.Spec.ClusterQueue]
		queues[l.Metadata.id()] = q
		managed[l.Metadata.id()] = l.Metadata.Annotations[ManagedAnnotation] == "true" ||
			q != nil && q.Metadata.Annotations[ManagedAnnotation] == "true"
	}
	owners := map[string]*job{}
	for i := range jobs {
		owners[jobs[i].Metadata.UID] = &jobs[i]
	}
	out := make([]job, 0, len(works))
	for i := range works {
		w := &works[i]
		id := w.Metadata.Namespace + "/" + w.Spec.QueueName
		w.queue, w.managed = queues[id], managed[id]
		out = append(out, w.job(owners[w.rootUID()]))
	}
	return out, nil
}

// flavorTypes maps the flavors whose nodes with GPUs all have one GPU type to this type.
func (h *Helper) flavorTypes(nodes []node, flavors []resourceFlavor) map[string]string {
	types := map[string]string{}
	for i := range flavors {
		f := &flavors[i]
		if len(f.Spec.NodeLabels) == 0 {
			continue // no selector leads to this flavor alone
		}
		one, several := "", false
		for n := range nodes {
			labels := nodes[n].Metadata.Labels
			has := func(name, value string) bool { return labels[name] == value }
			match := true
			for name, value := range f.Spec.NodeLabels {
				match = match && has(name, value)
			}
			if gpuType := labels[h.cfg.TypeLabel]; match && gpuType != "" {
				several = several || one != "" && one != gpuType
				one = gpuType
			}
		}
		if one != "" && !several {
			types[f.Metadata.Name] = one
		}
	}
	return types
}

// whyNoOrder says why priorities must not be changed in a queue; "" where they may.
func (q *clusterQueue) whyNoOrder() string {
	never := func(policy string) bool { return policy == "" || policy == "Never" }
	there := func(text json.RawMessage) bool { return len(text) > 0 && string(text) != "null" }
	p := &q.Spec.Preemption
	switch {
	case !never(p.WithinClusterQueue), !never(p.ReclaimWithinCohort), !never(p.BorrowWithinCohort.Policy):
		return "preempts"
	case there(q.Spec.FairSharing) && q.Spec.CohortName+q.Spec.Cohort != "":
		return "shares fairly"
	case there(q.Spec.AdmissionScope):
		return "admits by usage"
	case q.Metadata.Annotations[ManagedAnnotation] != "true":
		return "has not opted in by the annotation " + ManagedAnnotation
	}
	return ""
}

// offer finds the GPU types of a queue; of several flavors of a type the one with the largest quota.
func (q *clusterQueue) offer(types map[string]string, flavors []resourceFlavor) {
	q.types = map[string]queueFlavor{}
	for _, group := range q.Spec.ResourceGroups {
		for _, f := range group.Flavors {
			gpuType := types[f.Name]
			at := slices.IndexFunc(flavors, func(x resourceFlavor) bool { return x.Metadata.Name == f.Name })
			if gpuType == "" || at < 0 {
				continue
			}
			offer := queueFlavor{labels: flavors[at].Spec.NodeLabels}
			for _, r := range f.Resources {
				if history.IsGPU(r.Name) {
					offer.gpus += r.NominalQuota.Whole()
				}
			}
			if q.Spec.CohortName+q.Spec.Cohort != "" {
				offer.gpus = -1
			}
			before, ok := q.types[gpuType]
			if !ok || offer.gpus > before.gpus && before.gpus >= 0 {
				before = offer
			}
			before.several = ok
			q.types[gpuType] = before
		}
	}
}

// job is a Workload as the helper knows jobs. owner is the Job that it was made for; nil for others.
func (w *workload) job(owner *job) job {
	j := job{partial: w.partial, Metadata: w.Metadata, work: w}
	j.Metadata.Annotations = maps.Clone(w.Metadata.Annotations)
	if owner != nil {
		if j.Metadata.Annotations == nil {
			j.Metadata.Annotations = map[string]string{}
		}
		for _, name := range []string{ManagedAnnotation, HoldAnnotation, history.SecondsAnnotation} {
			if value, ok := owner.Metadata.Annotations[name]; ok {
				j.Metadata.Annotations[name] = value
			}
		}
	}
	pods := int64(0)
	first := -1
	for i := range w.Spec.PodSets {
		set := &w.Spec.PodSets[i]
		if held(&set.Template.Spec).GPUs == 0 || set.Count <= 0 {
			continue
		}
		w.sets = append(w.sets, i)
		pods += set.Count
		if first < 0 {
			first, j.Spec.Template = i, set.Template
			continue
		}
		if a, b := &w.Spec.PodSets[first].Template.Spec, &set.Template.Spec; !alike(a, b) {
			w.unlike = "has pods with GPUs that ask for different things"
		}
	}
	if ours := w.selectors(); ours != nil && !is(w.Status.Conditions, "QuotaReserved") {
		// The plan may choose again: what the helper chose before does not bind it.
		spec := &j.Spec.Template.Spec
		spec.NodeSelector = maps.Clone(spec.NodeSelector)
		maps.DeleteFunc(spec.NodeSelector, func(name, _ string) bool { return slices.Contains(ours, name) })
	}
	j.Spec.Parallelism = &pods
	j.Spec.Suspend = !is(w.Status.Conditions, "QuotaReserved")
	j.Spec.ActiveDeadlineSeconds = w.Spec.MaximumExecutionTimeSeconds
	for _, c := range w.Status.Conditions {
		at := c.LastTransitionTime
		switch {
		case c.Status != "True":
		case c.Type == "Admitted":
			j.Status.StartTime = &at
		case c.Type == "Finished":
			j.Status.CompletionTime = &at
			kind := "Complete"
			if strings.Contains(c.Reason, "Fail") || strings.Contains(c.Reason, "OutOfSync") {
				kind = "Failed"
			}
			j.Status.Conditions = append(j.Status.Conditions, condition{Type: kind, Status: "True"})
		}
	}
	return j
}

// alike reports whether pods of two kinds may be on the same nodes and ask for the same.
func alike(a, b *podSpec) bool {
	return held(a) == held(b) && maps.Equal(a.NodeSelector, b.NodeSelector) &&
		slices.Equal(a.Tolerations, b.Tolerations) && a.unclear == b.unclear &&
		fmt.Sprint(a.Affinity) == fmt.Sprint(b.Affinity)
}

// admits reports whether Kueue could ever admit the job on a GPU type.
func (j *job) admits(gpuType string) bool {
	if j.work == nil {
		return true
	}
	if j.work.queue == nil {
		return false
	}
	f, ok := j.work.queue.types[gpuType]
	return ok && (f.gpus < 0 || f.gpus >= j.pods()*held(&j.Spec.Template.Spec).GPUs)
}
