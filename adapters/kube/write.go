package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Waits after a refusal; each further one doubles the wait.
const (
	firstRefusalWait = time.Minute
	lastRefusalWait  = time.Hour
)

// let lets one Job go, or has the API server check that it could. A write is in the journal before
// it is made. An error means that the API server does not answer, or that this helper may no longer
// write.
func (h *Helper) let(ctx context.Context, u *Update) (done bool, err error) {
	path := u.path + "?" + fieldManager
	if !h.cfg.Write {
		path += "&dryRun=All"
	} else {
		if h.cfg.Lease != nil && !h.cfg.Lease.Held() {
			return false, errors.New("the lease ran out before the writes were made: the next loop goes on")
		}
		if err := h.journal.record("write", u, nil, h.now()); err != nil {
			return false, fmt.Errorf("nothing is written: %w", err)
		}
	}
	patch, kind := u.patch, "application/merge-patch+json"
	var after struct {
		Metadata struct{ ResourceVersion string }
	}
	switch {
	case u.work != nil:
		patch, kind = u.jsonPatch(), "application/json-patch+json"
	case u.of.sets != nil:
		kind = "application/json-patch+json"
	}
	err = call(ctx, h.api, http.MethodPatch, path, kind, patch, &after)
	switch status := statusOf(err); {
	case err == nil:
		delete(h.refused, u.UID)
		if h.cfg.Write {
			h.counted.Updates++
			h.cfg.Logger.Info("written", "job", u.Job, "old", u.Old, "new", u.New, "reason", u.Reason)
			switch {
			case u.frees:
				h.event(ctx, u, "HareFreed", "Suspend", "Hare took the "+u.of.kind()+" back from "+u.Type+", "+u.Reason)
			case u.work == nil:
				h.event(ctx, u, "HareStarted", "Unsuspend", "Hare let the "+u.of.kind()+" go on "+u.Type+": "+u.Reason)
			case u.Type != "":
				h.event(ctx, u, "HareChose", "ChooseType", "Hare chose "+u.Type+" for the Workload: "+u.Reason)
			}
			if u.work != nil && after.Metadata.ResourceVersion != "" {
				u.work.Metadata.ResourceVersion = after.Metadata.ResourceVersion
			}
		}
		return true, nil
	case status == 0, status == http.StatusTooManyRequests, status >= 500:
		h.counted.WriteFailures++
		return false, fmt.Errorf("PATCH %s: %w", u.path, err)
	case status == http.StatusConflict, status == http.StatusNotFound:
		h.counted.Conflicts++ // somebody else has changed or deleted the Job: the next loop sees how
		h.note("conflict", u, err)
		return false, nil
	default:
		h.counted.Refused++
		r := h.refused[u.UID]
		r.wait = min(max(2*r.wait, firstRefusalWait), lastRefusalWait)
		r.until = h.now().Add(r.wait)
		h.refused[u.UID] = r
		h.note("refused", u, err)
		return false, nil
	}
}

// note says in log and journal that a write had no effect.
func (h *Helper) note(event string, u *Update, err error) {
	h.cfg.Logger.Warn("the API server did not take a write", "job", u.Job, "error", err.Error())
	if h.cfg.Write {
		if err := h.journal.record(event, u, err, h.now()); err != nil {
			h.cfg.Logger.Warn("the journal cannot be written", "error", err.Error())
		}
	}
}

// event tells a Job's user something by an Event. Nothing depends on it.
func (h *Helper) event(ctx context.Context, u *Update, reason, action, note string) {
	if !h.cfg.Events {
		return
	}
	namespace, name, _ := strings.Cut(u.Job, "/")
	apiVersion, kind := "batch/v1", "Job"
	switch {
	case h.cfg.Kueue:
		apiVersion, kind = "kueue.x-k8s.io/"+h.kueueVersion, "Workload"
	case u.of != nil && u.of.sets != nil:
		namespace, apiVersion, kind = u.of.Metadata.Namespace, u.of.sets.kind.version, u.of.sets.kind.kind
	}
	at := h.now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")
	text, _ := json.Marshal(map[string]any{
		"apiVersion": "events.k8s.io/v1", "kind": "Event",
		"metadata":            map[string]any{"generateName": "hare-", "namespace": namespace},
		"eventTime":           at,
		"type":                "Normal",
		"reason":              reason,
		"action":              action,
		"note":                note,
		"reportingController": "hare.dev/kube",
		"reportingInstance":   "hare",
		"regarding": map[string]any{"apiVersion": apiVersion, "kind": kind, "namespace": namespace, "name": name,
			"uid": u.UID},
	})
	path := "/apis/events.k8s.io/v1/namespaces/" + url.PathEscape(namespace) + "/events?" + fieldManager
	if err := call(ctx, h.api, http.MethodPost, path, "application/json", text, nil); err != nil {
		h.cfg.Logger.Warn("an Event could not be written", "job", u.Job, "error", err.Error())
	}
}
