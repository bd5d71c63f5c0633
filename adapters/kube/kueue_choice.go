package kube

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

// workUpdate is a write of a Workload. The resourceVersion makes it fail with a conflict where somebody else
// has changed the Workload since it was read.
func (h *Helper) workUpdate(j *job, was, now, reason string, operations []patchOperation) Update {
	m := &j.work.Metadata
	return Update{Job: m.id(), UID: m.UID, Old: was, New: now, Reason: reason, work: j.work, operations: operations,
		path: kueueGroup + h.kueueVersion + "/namespaces/" + url.PathEscape(m.Namespace) + "/workloads/" +
			url.PathEscape(m.Name)}
}

// choice is the patch that sends the pods of a Workload to a GPU type, or takes back what was chosen
// before where gpuType is "".
func (w *workload) choice(gpuType string) (operations []patchOperation) {
	labels := map[string]string{}
	if gpuType != "" { // admits has found it
		labels = maps.Clone(w.queue.types[gpuType].labels)
	}
	ours := w.selectors()
	for _, i := range w.sets {
		before := w.Spec.PodSets[i].Template.Spec.NodeSelector
		at := []string{"spec", "podSets", fmt.Sprint(i), "template", "spec", "nodeSelector"}
		for _, name := range ours {
			if _, ok := before[name]; ok && labels[name] == "" {
				operations = append(operations, patchOperation{"remove", pointer(append(at, name)...), nil})
			}
		}
		if before == nil && len(labels) > 0 {
			operations = append(operations, patchOperation{"add", pointer(at...), labels})
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(labels)) {
			if before[name] != labels[name] {
				operations = append(operations, patchOperation{"add", pointer(append(at, name)...), labels[name]})
			}
		}
	}
	// What the user has selected is not the helper's to take back.
	var added []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		mine := slices.Contains(ours, name)
		for _, i := range w.sets {
			_, there := w.Spec.PodSets[i].Template.Spec.NodeSelector[name]
			mine = mine || !there
		}
		if mine {
			added = append(added, name)
		}
	}
	values := map[string]string{SelectorAnnotation: strings.Join(added, ","), StartedAnnotation: gpuType}
	return append(operations, w.annotate(values)...)
}

// annotate writes annotations, and removes those whose value is "".
func (w *workload) annotate(values map[string]string) (operations []patchOperation) {
	if w.Metadata.Annotations == nil {
		maps.DeleteFunc(values, func(_, value string) bool { return value == "" })
		return []patchOperation{{"add", "/metadata/annotations", values}}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		_, there := w.Metadata.Annotations[name]
		switch at := pointer("metadata", "annotations", name); {
		case values[name] != "":
			operations = append(operations, patchOperation{"add", at, values[name]})
		case there:
			operations = append(operations, patchOperation{"remove", at, nil})
		}
	}
	return operations
}

// undoChoices takes types back that were chosen for Workloads that do not start: because the plan has
// changed, or because Kueue did not admit them in time.
func (h *Helper) undoChoices(s *state, result *Result) (updates []Update) {
	starting := map[string]bool{}
	for _, t := range result.Waiting {
		starting[t.Job] = t.Why == ""
	}
	for _, j := range s.jobs {
		w := j.work
		if w == nil || !j.Spec.Suspend || w.chosen() == "" || starting[j.Metadata.id()] {
			continue
		}
		delete(h.chosenAt, w.Metadata.UID)
		updates = append(updates, h.workUpdate(j, w.chosen(), "any type", "does not start now", w.choice("")))
	}
	return updates
}

// keepChoices finds the Workloads that keep the type that was chosen for them before, and takes room for
// them: the plan may change its mind while Kueue is about to admit them. Where Kueue has not admitted one
// in time, others go first for a while.
func (h *Helper) keepChoices(s *state) (kept map[string]bool) {
	kept = map[string]bool{}
	for _, j := range s.jobs {
		if j.work == nil || s.waiting[j.Metadata.id()] != j || j.work.chosen() == "" {
			continue
		}
		uid, now := j.Metadata.UID, h.now()
		since, known := h.chosenAt[uid]
		if !known { // by a helper before this one
			since = now
			h.chosenAt[uid] = now
		}
		switch {
		case now.Sub(since) >= admissionWait:
			h.counted.Freed++
			h.refused[uid] = refusal{until: now.Add(firstRefusalWait), wait: firstRefusalWait}
		case j.admits(j.work.chosen()) && h.fitsNow(s, j, j.work.chosen()):
			kept[j.Metadata.id()] = true
		default: // the nodes of the type are taken or gone
			h.counted.Freed++
		}
	}
	return kept
}

// chooseType is the write that sends a Workload to the type of the plan.
func (h *Helper) chooseType(j *job, gpuType, reason string) Update {
	was := cmp.Or(j.work.chosen(), "any type")
	h.chosenAt[j.Metadata.UID] = h.now()
	u := h.workUpdate(j, was, gpuType, reason, j.work.choice(gpuType))
	u.Type = gpuType
	return u
}

// forget drops what was known of Workloads that do not wait any more.
func (h *Helper) forget(s *state) {
	waits := map[string]bool{}
	for _, j := range s.waiting {
		waits[j.Metadata.UID] = true
	}
	maps.DeleteFunc(h.chosenAt, func(uid string, _ time.Time) bool { return !waits[uid] })
}

// releaseWorkloads finds the writes that take back all that the helper has written on waiting Workloads.
func (h *Helper) releaseWorkloads(s *state) (updates []Update) {
	for _, j := range s.jobs {
		w := j.work
		if !j.Spec.Suspend {
			continue
		}
		var operations []patchOperation
		was := ""
		if w.chosen() != "" {
			operations, was = w.choice(""), w.chosen()
		}
		if w.queue != nil && w.queue.noOrder == "" && !w.hasPriorityClass() && w.Spec.Priority < 0 {
			operations = append(operations, patchOperation{"add", "/spec/priority", 0})
			was = strings.TrimSpace(fmt.Sprint(was, " priority ", w.Spec.Priority))
		}
		if operations != nil {
			updates = append(updates, h.workUpdate(j, was, "as without Hare", "release", operations))
		}
	}
	return updates
}
