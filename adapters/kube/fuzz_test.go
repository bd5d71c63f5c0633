package kube

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/adapters/advice"
)

// oneObject answers one list with an object, and the others as its cluster does.
type oneObject struct {
	API
	path, object string
}

func (o *oneObject) Do(ctx context.Context, method, path, contentType string, body []byte) (int, []byte, error) {
	if at, _, _ := strings.Cut(path, "?"); method == http.MethodGet && at == o.path {
		return http.StatusOK, []byte(`{"items":[` + o.object + `]}`), nil
	}
	return o.API.Do(ctx, method, path, contentType, body)
}

// FuzzObjects checks that no object of a cluster stops the helper: it is read or set aside, and what the session gets
// is whole.
func FuzzObjects(f *testing.F) {
	paths := []string{nodesPath, podsPath, jobsPath, setKinds[0].listPath(), setKinds[1].listPath()}
	for _, kind := range []string{"workloads", "clusterqueues", "localqueues", "resourceflavors"} {
		paths = append(paths, kueueGroup+"v1beta1/"+kind)
	}
	const pods = `{"metadata":{"annotations":{"hare.dev/seconds":"{\"V100\":4}"}},"spec":{"nodeSelector":{"a":"b"},` +
		`"containers":[{"resources":{"limits":{"nvidia.com/gpu":2,"cpu":"500m"}}}],"tolerations":[{"operator":"Exists"}]}}`
	const meta = `"metadata":{"name":"x","namespace":"default","uid":"u","resourceVersion":"7",` +
		`"creationTimestamp":"2026-01-01T00:00:00Z","labels":{"nvidia.com/gpu.product":"V100"},` +
		`"annotations":{"hare.dev/managed":"true","hare.dev/freed":"V100=1764328000,=,T4"}}`
	for i, object := range []string{
		`{` + meta + `,"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]},"status":{"allocatable":{` +
			`"nvidia.com/gpu":"4","cpu":"8","memory":"64Gi","pods":"110"},"conditions":[{"type":"Ready","status":"True"}]}}`,
		`{` + meta + `,` + pods[len(`{"metadata":{"annotations":{"hare.dev/seconds":"{\"V100\":4}"}},`):len(pods)-1] +
			`,"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable"}]}}`,
		`{` + meta + `,"spec":{"suspend":true,"parallelism":2,"completions":9,"activeDeadlineSeconds":600,"template":` +
			pods + `},"status":{"startTime":null,"conditions":[]}}`,
		`{` + meta + `,"spec":{"suspend":true,"replicatedJobs":[{"replicas":2,"template":{"spec":{"parallelism":2,` +
			`"template":` + pods + `}}}]}}`,
		`{` + meta + `,"spec":{"runPolicy":{"suspend":true},"pytorchReplicaSpecs":{"Worker":{"replicas":3,"template":` +
			pods + `}}}}`,
		`{` + meta + `,"spec":{"queueName":"gpus","active":true,"priority":-5,"podSets":[{"name":"s","count":2,"template":` +
			pods + `}]},"status":{"conditions":[{"type":"QuotaReserved","status":"False"}]}}`,
		`{` + meta + `,"spec":{"resourceGroups":[{"flavors":[{"name":"v100","resources":[{"name":"nvidia.com/gpu",` +
			`"nominalQuota":"8"}]}]}],"preemption":{"withinClusterQueue":"Never"}}}`,
		`{` + meta + `,"spec":{"clusterQueue":"gpus"}}`,
		`{` + meta + `,"spec":{"nodeLabels":{"nvidia.com/gpu.product":"V100"}}}`,
	} {
		f.Add(uint8(i), object)
		f.Add(uint8(i), strings.ReplaceAll(object, "2", "9e99"))
	}
	f.Fuzz(func(t *testing.T, at uint8, object string) {
		if len(object) > 1<<14 || !json.Valid([]byte(object)) {
			return
		}
		path := paths[int(at)%len(paths)]
		kueue := strings.HasPrefix(path, kueueGroup)
		var cluster API
		if kueue {
			k := newFakeKueue()
			k.submitWork(2)
			cluster = k
		} else {
			k := newFakeKube()
			k.submit(2, 1, 4, 8, 2)
			cluster = k
		}
		h, err := New(Config{Kueue: kueue, Logger: slog.New(slog.DiscardHandler)}, &oneObject{cluster, path, object},
			&advice.InProcess{}, &Journal{})
		if err != nil {
			t.Fatal(err)
		}
		h.now = func() time.Time { return time.Unix(1_800_000_000, 0) }
		s, err := h.read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := h.free(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		for _, j := range h.forSession(s).Jobs {
			if j.State == advice.Waiting && (j.Spec == nil || len(j.Spec.On) == 0 || j.Spec.Tasks < 1) {
				t.Errorf("a waiting job that cannot run: %+v", j.Spec)
			}
		}
		if kueue {
			h.releaseWorkloads(s)
		}
		for _, j := range s.waiting {
			for _, gpuType := range s.types() {
				if j.admits(gpuType) {
					h.fitsNow(s, j, gpuType)
				}
			}
		}
	})
}
