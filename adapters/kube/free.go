package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Job is let go where all of its pods have room. Until they are bound, the nodes of its type may be taken by
// others, cordoned or removed, or a rule that the helper does not know of may keep the pods from them; the node
// selector then keeps them from all other nodes. Such a Job is freed: as long as none of its pods is on a
// node, it is suspended, loses the selector, and takes part again, on other types for a while.

const (
	// unboundWait is how long pods may wait for a node before their Job is freed, where nodes have room for them
	// but for what else is there.
	unboundWait = time.Minute
	// freeWait is how long a Job that was freed of a type is kept off it.
	freeWait = 10 * time.Minute
)

// freedOf reads FreedAnnotation; what cannot be read is left out.
func (j *job) freedOf() map[string]int64 {
	out := map[string]int64{}
	for part := range strings.SplitSeq(j.Metadata.Annotations[FreedAnnotation], ",") {
		at := strings.LastIndexByte(part, '=')
		if at <= 0 {
			continue
		}
		if s, err := strconv.ParseInt(part[at+1:], 10, 64); err == nil {
			out[part[:at]] = s
		}
	}
	return out
}

// keptOff reports whether a Job was freed of a GPU type a while ago.
func (j *job) keptOff(gpuType string, now time.Time) bool {
	s, ok := j.freedOf()[gpuType]
	return ok && now.Before(time.Unix(s, 0).Add(freeWait))
}

// stuck says why a Job that was let go cannot start where the helper sent it; "" where it can, or where it has not
// waited for long. bound says that some of its pods are on nodes, so that suspending the Job would stop them.
func (h *Helper) stuck(s *state, j *job) (why string, bound bool) {
	if j.Spec.Suspend || !j.ours(h.cfg.TypeLabel) || j.Metadata.DeletionTimestamp != nil || s.done[j.podsUID()] > 0 {
		return "", false
	}
	var since time.Time
	var waiting *pod
	for _, p := range s.pods[j.podsUID()] {
		if p.Spec.NodeName != "" {
			bound = true
			continue
		}
		for _, c := range p.Status.Conditions {
			if c.Type == "PodScheduled" && c.Status == "False" && c.Reason == "Unschedulable" &&
				(waiting == nil || c.LastTransitionTime.Before(since)) {
				waiting, since = p, c.LastTransitionTime
			}
		}
	}
	if waiting == nil {
		return "", bound
	}
	rules, need := waiting.Spec.rules(h.cfg.TypeLabel), held(&waiting.Spec)
	switch {
	case !slices.ContainsFunc(s.nodes, func(r *room) bool { return r.allowed(rules) && r.roomy(need) }):
		return "no node in service satisfies the rules of its pods and the type together", bound
	case h.now().Sub(since) >= unboundWait:
		return fmt.Sprintf("its pods have found no node since %s", since.UTC().Format(time.RFC3339)), bound
	}
	return "", bound
}

// free suspends the Jobs that are stuck, and takes the selectors of those back that an earlier loop has suspended.
// changed says that Jobs are not as they were read. An error means that the API server does not answer, or that
// this helper may no longer write.
func (h *Helper) free(ctx context.Context, s *state) (updates []Update, changed bool, err error) {
	h.counted.Stuck = 0
	for _, j := range s.jobs {
		if j.work != nil {
			continue
		}
		if j.Spec.Suspend { // by an earlier loop
			if j.ours(h.cfg.TypeLabel) && j.Metadata.Annotations[StartedAnnotation] == "" {
				done, err := h.unselect(ctx, j)
				if err != nil {
					return updates, changed, err
				}
				changed = changed || done && h.cfg.Write
			}
			continue
		}
		why, bound := h.stuck(s, j)
		if why == "" {
			continue
		}
		if len(updates) >= h.cfg.MaxUpdates {
			break
		}
		if bound {
			h.counted.Stuck++ // its other pods work perhaps: whoever knows decides
			continue
		}
		gpuType := j.Metadata.Annotations[StartedAnnotation]
		u := Update{Job: j.id(), UID: j.Metadata.UID, Type: gpuType, Old: h.cfg.TypeLabel + "=" + gpuType, New: "suspended",
			Reason: "freed: " + why, path: j.path(), of: j, patch: j.suspendPatch(h.now()), frees: true}
		done, err := h.let(ctx, &u)
		if err != nil {
			return updates, changed, err
		}
		if !done {
			continue
		}
		updates = append(updates, u)
		if !h.cfg.Write {
			continue
		}
		changed = true
		h.counted.Freed++
		h.cfg.Logger.Warn("freed", "job", u.Job, "type", gpuType, "reason", why)
		// The Job controller has to see the suspension before the API server lets the selector be changed: that is
		// for the next loop, which the change of the Job begins.
	}
	return updates, changed, nil
}

// suspendPatch suspends a Job that was let go, and notes of which type it was freed.
func (j *job) suspendPatch(now time.Time) []byte {
	freed := j.freedOf()
	freed[j.Metadata.Annotations[StartedAnnotation]] = now.Unix()
	var list []string
	for _, gpuType := range slices.Sorted(maps.Keys(freed)) {
		if s := freed[gpuType]; now.Before(time.Unix(s, 0).Add(freeWait)) {
			list = append(list, gpuType+"="+strconv.FormatInt(s, 10))
		}
	}
	note := strings.Join(list, ",")
	if j.sets == nil {
		text, _ := json.Marshal(map[string]any{
			"metadata": map[string]any{"resourceVersion": j.Metadata.ResourceVersion,
				"annotations": map[string]any{FreedAnnotation: note, StartedAnnotation: nil}},
			"spec": map[string]any{"suspend": true}})
		return text
	}
	text, _ := json.Marshal([]patchOperation{{"replace", "/metadata/resourceVersion", j.Metadata.ResourceVersion},
		{"add", pointer("metadata", "annotations", FreedAnnotation), note},
		{"remove", pointer("metadata", "annotations", StartedAnnotation), nil},
		{"replace", pointer(j.sets.kind.suspend...), true}})
	return text
}

// unselect takes the node selector of the type out of a Job that was suspended to be freed. The API server lets the
// selectors of a Job be changed while it is suspended and has no start time, which Kueue takes away for the same
// reason. Where it refuses, the next loop tries again.
func (h *Helper) unselect(ctx context.Context, j *job) (done bool, err error) {
	label, kind := h.cfg.TypeLabel, "application/merge-patch+json"
	if h.cfg.Write {
		if h.cfg.Lease != nil && !h.cfg.Lease.Held() {
			return false, errors.New("the lease ran out before the writes were made: the next loop goes on")
		}
		u := &Update{Job: j.id(), UID: j.Metadata.UID, Old: label, New: "any type", Reason: "freed"}
		if err := h.journal.record("write", u, nil, h.now()); err != nil {
			return false, fmt.Errorf("nothing is written: %w", err)
		}
	}
	var patch []byte
	if j.sets == nil {
		if h.cfg.Write && j.Status.StartTime != nil {
			none := []byte(`{"status":{"startTime":null}}`)
			err := call(ctx, h.api, http.MethodPatch, j.path()+"/status?"+fieldManager, kind, none, nil)
			if done, err := h.unselected(j, err); err != nil || !done {
				return false, err
			}
		}
		patch, _ = json.Marshal(map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{SelectorAnnotation: nil}},
			"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
				"nodeSelector": map[string]any{label: nil}}}}})
	} else {
		kind = "application/json-patch+json"
		operations := []patchOperation{{"replace", "/metadata/resourceVersion", j.Metadata.ResourceVersion},
			{"remove", pointer("metadata", "annotations", SelectorAnnotation), nil}}
		for _, t := range j.sets.templates {
			if _, set := t.template.Spec.NodeSelector[label]; set {
				operations = append(operations, patchOperation{"remove",
					pointer(append(slices.Clone(t.path), "spec", "nodeSelector", label)...), nil})
			}
		}
		patch, _ = json.Marshal(operations)
	}
	path := j.path() + "?" + fieldManager
	if !h.cfg.Write {
		path += "&dryRun=All"
	}
	var after struct {
		Metadata struct{ ResourceVersion string }
	}
	done, err = h.unselected(j, call(ctx, h.api, http.MethodPatch, path, kind, patch, &after))
	if done && after.Metadata.ResourceVersion != "" {
		j.Metadata.ResourceVersion = after.Metadata.ResourceVersion
	}
	return done, err
}

// unselected says what an answer means: an error only where the API server does not answer.
func (h *Helper) unselected(j *job, err error) (done bool, _ error) {
	switch status := statusOf(err); {
	case err == nil:
		return true, nil
	case status == 0, status == http.StatusTooManyRequests, status >= 500:
		h.counted.WriteFailures++
		return false, fmt.Errorf("PATCH %s: %w", j.path(), err)
	case status == http.StatusConflict, status == http.StatusNotFound:
		h.counted.Conflicts++
	default:
		h.counted.Refused++
	}
	h.cfg.Logger.Warn("the API server did not take the node selector back: the next loop tries again", "job", j.id(),
		"error", err.Error())
	return false, nil
}
