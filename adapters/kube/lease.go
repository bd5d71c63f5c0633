package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Lease is a Lease of the API server by which several helpers agree who writes. The holder renews it in
// each loop; another helper takes it when it has not changed for its duration, by the clock of that
// helper. A holder writes only while its own clock says that nobody else can have taken the lease.
type Lease struct {
	Namespace, Name string
	// Holder tells helpers apart, such as the name of the pod.
	Holder string
	// Duration is how long a lease lasts that is not renewed; at least a second.
	Duration time.Duration
	// Now is a clock that never goes back; nil means time.Now.
	Now func() time.Time

	renewed  time.Time // when the request was sent that renewed the lease
	seen     string    // the resourceVersion that another holder's lease had
	seenSent time.Time // when it was first seen
}

type leaseObject struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Metadata   map[string]any `json:"metadata"`
	Spec       struct {
		HolderIdentity       string `json:"holderIdentity"`
		LeaseDurationSeconds int64  `json:"leaseDurationSeconds"`
		AcquireTime          string `json:"acquireTime,omitempty"`
		RenewTime            string `json:"renewTime"`
		LeaseTransitions     int64  `json:"leaseTransitions"`
	} `json:"spec"`
}

func (l *Lease) now() time.Time {
	if l.Now != nil {
		return l.Now()
	}
	return time.Now()
}

// Held reports whether nobody else can have the lease now. A fifth of the duration is left for requests
// that are under way.
func (l *Lease) Held() bool {
	return !l.renewed.IsZero() && l.now().Sub(l.renewed) < l.Duration*4/5
}

func microTime(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000000Z07:00") }

// Hold takes or renews the lease, and reports whether this helper has it.
func (l *Lease) Hold(ctx context.Context, api API) (bool, error) {
	base := "/apis/coordination.k8s.io/v1/namespaces/" + url.PathEscape(l.Namespace) + "/leases"
	sent := l.now()
	var o leaseObject
	err := call(ctx, api, http.MethodGet, base+"/"+url.PathEscape(l.Name), "", nil, &o)
	method, path := http.MethodPut, base+"/"+url.PathEscape(l.Name)
	switch {
	case statusOf(err) == http.StatusNotFound:
		o = leaseObject{APIVersion: "coordination.k8s.io/v1", Kind: "Lease",
			Metadata: map[string]any{"name": l.Name, "namespace": l.Namespace}}
		method, path = http.MethodPost, base
	case err != nil:
		return false, err
	case o.Spec.HolderIdentity != "" && o.Spec.HolderIdentity != l.Holder:
		l.renewed = time.Time{}
		version := fmt.Sprint(o.Metadata["resourceVersion"])
		if version != l.seen {
			l.seen, l.seenSent = version, sent
		}
		lasts := max(l.Duration, time.Duration(min(o.Spec.LeaseDurationSeconds, 3600))*time.Second)
		if sent.Sub(l.seenSent) <= lasts {
			return false, nil
		}
	}
	if o.Spec.HolderIdentity != l.Holder {
		o.Spec.AcquireTime = microTime(time.Now())
		o.Spec.LeaseTransitions++
	}
	o.Spec.HolderIdentity, o.Spec.RenewTime = l.Holder, microTime(time.Now())
	o.Spec.LeaseDurationSeconds = max(1, int64(l.Duration/time.Second))
	text, err := json.Marshal(&o)
	if err != nil {
		return false, err
	}
	sent = l.now()
	err = call(ctx, api, method, path+"?"+fieldManager, "application/json", text, nil)
	switch status := statusOf(err); {
	case status == http.StatusConflict: // another helper was faster
		l.renewed = time.Time{}
		return false, nil
	case err != nil:
		return false, err
	}
	l.renewed, l.seen = sent, ""
	return true, nil
}

// GiveUp lets other helpers take the lease at once.
func (l *Lease) GiveUp(ctx context.Context, api API) error {
	if l.renewed.IsZero() {
		return nil
	}
	l.renewed = time.Time{}
	path := "/apis/coordination.k8s.io/v1/namespaces/" + url.PathEscape(l.Namespace) + "/leases/" + url.PathEscape(l.Name)
	var o leaseObject
	if err := call(ctx, api, http.MethodGet, path, "", nil, &o); err != nil || o.Spec.HolderIdentity != l.Holder {
		return err
	}
	o.Spec.HolderIdentity = ""
	text, err := json.Marshal(&o)
	if err != nil {
		return err
	}
	return call(ctx, api, http.MethodPut, path+"?"+fieldManager, "application/json", text, nil)
}
