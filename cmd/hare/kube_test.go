package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestKube checks the command beside an API server that pretends: a dry run of one Job, and bad flags.
func TestKube(t *testing.T) {
	dry := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPatch:
			if r.URL.Query().Get("dryRun") != "All" {
				t.Error("a dry run writes")
			}
			dry++
			_, _ = w.Write([]byte(`{}`))
		case strings.HasSuffix(r.URL.Path, "/nodes"):
			_, _ = w.Write([]byte(`{"items": [{"metadata": {"name": "a", "labels": {"nvidia.com/gpu.product": "T4"}},
				"status": {"allocatable": {"nvidia.com/gpu": "4"}}}]}`))
		case strings.HasSuffix(r.URL.Path, "/jobs"):
			_, _ = w.Write([]byte(`{"items": [{"metadata": {"name": "bert", "namespace": "lab",
				"uid": "1", "resourceVersion": "7",
				"annotations": {"hare.dev/managed": "true", "hare.dev/seconds": "{\"T4\": 60}"}},
				"spec": {"suspend": true, "parallelism": 2, "template": {"spec": {"containers": [{"resources": {"limits":
				{"nvidia.com/gpu": "2"}}}]}}}}]}`))
		default:
			_, _ = w.Write([]byte(`{"items": []}`))
		}
	}))
	defer server.Close()
	out, errs, code := runHare(t, "", "kube", "--api", server.URL, "--once")
	if code != 0 || dry != 1 || !strings.Contains(out, "would let go (--write does) 1 of 1") ||
		!strings.Contains(out, "lab/bert") {
		t.Errorf("%d, %d patches: %s%s", code, dry, out, errs)
	}
	out, errs, code = runHare(t, "", "kube", "release", "--api", server.URL, "--json")
	if code != 0 || dry != 2 || !strings.Contains(out, `"job":"lab/bert"`) {
		t.Errorf("release: %d, %d patches: %s%s", code, dry, out, errs)
	}
	for _, bad := range []struct {
		args []string
		want string
	}{
		{[]string{"--write"}, "--write needs --dir"},
		{[]string{"--write", "--dry-run"}, "not both"},
		{[]string{"--api", "localhost:8001"}, "give an address such as http"},
		{[]string{"--lease", "hare"}, "give NAMESPACE/NAME"},
		{[]string{"--lease", "a/b", "--lease-time", "1s"}, "at least one and a half intervals"},
		{[]string{"--interval", "10ms"}, "at least 1s"},
		{[]string{"--max-updates", "0"}, "must be positive"},
		{[]string{"--session", "x"}, "--session needs --server"},
		{[]string{"--speeds", "T4"}, "--speeds"},
	} {
		_, errs, code := runHare(t, "", append([]string{"kube", "--once"}, bad.args...)...)
		if code != 2 || !strings.Contains(errs, bad.want) {
			t.Errorf("%v: %d, %s", bad.args, code, errs)
		}
	}
}

// TestKubeLease checks that helpers outside of pods agree by a Lease, too, and that one whose user may
// not have it is told of --lease.
func TestKubeLease(t *testing.T) {
	status, asked := http.StatusOK, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/apis/coordination.k8s.io/v1/namespaces/default/leases/hare-kube" {
			asked++
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"metadata": {"resourceVersion": "7"}, "spec": {"holderIdentity": "another",
				"leaseDurationSeconds": 60}}`))
			return
		}
		_, _ = w.Write([]byte(`{"items": []}`))
	}))
	defer server.Close()
	run := []string{"kube", "--api", server.URL, "--once", "--write", "--dir", t.TempDir()}
	if out, errs, code := runHare(t, "", run...); code != 0 || !strings.Contains(out, "another helper holds the lease") {
		t.Errorf("%d: %s%s", code, out, errs)
	}
	status = http.StatusForbidden
	if out, errs, code := runHare(t, "", run...); code != 3 || !strings.Contains(errs, "--lease names another, or none") {
		t.Errorf("%d: %s%s", code, out, errs)
	}
	before := asked
	if out, errs, _ := runHare(t, "", append(run, "--lease", "none")...); asked != before ||
		!strings.Contains(errs, "no node with GPUs") {
		t.Errorf("%s%s", out, errs)
	}
}
