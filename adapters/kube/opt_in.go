package kube

import (
	"slices"
)

// whyNot says why the helper does not let a suspended Job go; "" where it may.
func (h *Helper) whyNot(s *state, j *job) string {
	if j.work != nil {
		return h.whyNotWorkload(s, j)
	}
	m := &j.Metadata
	switch {
	case m.DeletionTimestamp != nil:
		return "is being deleted"
	case j.unread:
		return unreadValue
	case m.Labels[kueueQueueLabel] != "":
		return "is in a queue of Kueue, which starts it"
	case j.Spec.ManagedBy != "" && j.Spec.ManagedBy != "kubernetes.io/job-controller":
		return "is managed by " + j.Spec.ManagedBy
	case m.controller() != "" && m.controller() != "CronJob":
		return "belongs to a " + m.controller() + ", which starts it"
	case m.Annotations[StartedAnnotation] != "":
		return "was let go before, and somebody has suspended it: without the annotation " + StartedAnnotation +
			" it takes part again"
	case m.Annotations[HoldAnnotation] != "":
		return "is held by the annotation " + HoldAnnotation
	case len(s.pods[j.podsUID()]) > 0:
		return "has been suspended, and its pods are still there"
	case len(j.Spec.Template.Spec.SchedulingGates) > 0:
		return "has scheduling gates"
	case j.sets != nil && j.sets.why != "":
		return j.sets.why
	case j.pods() < 1:
		return "has a parallelism of 0"
	}
	if j.Spec.Completions != nil && j.Spec.Parallelism != nil && *j.Spec.Completions > *j.Spec.Parallelism {
		return "runs its pods one after another: completions above parallelism"
	}
	return h.unclear(j)
}

// unclear says which rule of a job's pods the helper does not understand; "" for none.
func (h *Helper) unclear(j *job) string {
	if x := j.Spec.Template.Spec.selects(h.cfg.TypeLabel).unclear; x != "" {
		return unclearRule + x
	}
	if x := j.Spec.Template.Spec.unclear; x != "" {
		return unclearRule + x
	}
	return ""
}

// unreadValue is why a Job is left alone of which the helper does not know all.
const unreadValue = "has a value that cannot be read"

// unclearRule begins the reasons of which the helper cannot tell whether a Job fits.
const unclearRule = "has "

// takesPart reports whether a Job's user or the operator opted in.
func (h *Helper) takesPart(j *job) bool {
	return j.Metadata.Annotations[ManagedAnnotation] == "true" ||
		j.work != nil && j.work.managed || slices.Contains(h.cfg.Namespaces, j.Metadata.Namespace)
}

// whyNotWorkload says why the helper does not choose the type of a Workload; "" where it may.
func (h *Helper) whyNotWorkload(s *state, j *job) string {
	w := j.work
	switch {
	case w.Metadata.DeletionTimestamp != nil:
		return "is being deleted"
	case w.Spec.Active != nil && !*w.Spec.Active:
		return "is not active"
	case w.unread:
		return unreadValue
	case w.queue == nil:
		return "has no ClusterQueue"
	case w.queue.unread:
		return "is in a ClusterQueue with a value that cannot be read"
	case len(w.queue.types) == 0:
		return "is in a ClusterQueue whose flavors do not tell GPU types apart"
	case j.Metadata.Annotations[HoldAnnotation] != "":
		return "is held by the annotation " + HoldAnnotation
	case len(s.pods[j.podsUID()]) > 0:
		return "has lost its quota, and its pods are still there"
	case len(j.Spec.Template.Spec.SchedulingGates) > 0:
		return "has scheduling gates"
	case w.unlike != "":
		return w.unlike
	}
	return h.unclear(j)
}
