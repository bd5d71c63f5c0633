package service_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/wire"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
)

// FuzzCapacity checks that a plan of capacity answers or refuses every request without a panic, and that its report
// can be written in every form.
func FuzzCapacity(f *testing.F) {
	const inst = `{"instance":{"hare":"instance/v1","cluster":{"topology":["rack"],"nodes":[` +
		`{"name":"a","gpus":{"V100":2},"labels":{"rack":"r1"}},` +
		`{"name":"b","gpus":{"T4":2},"labels":{"rack":"r2"},"in_service_s":[[0,900000]]}]},"jobs":[` +
		`{"id":"x","sync":"gang","rounds":9,"on":{"V100":{"compute_s":900},"T4":{"compute_s":1800}}},` +
		`{"id":"y","release_s":90000,"tasks":2,"deadline_s":99000,"on":{"V100":{"compute_s":60}}},` +
		`{"id":"z","release_s":100000,"sync":"rigid","after":["y"],"on":{"T4":{"compute_s":600}}}]},` +
		`"weeks":2,"days":1,`
	for _, s := range []string{
		`"options":["V100=2,T4=1","drop r1 from 2h to 6h","H100=3"],"policies":["now","hgittins"],"growth":1.5}`,
		`"goal":"p95 wait <= 1h and deadlines >= 50%","buy":{"V100":4,"T4":2},"prices":{"V100":2,"T4":0.5},"share":0.5}`,
		`"begins":"2026-11-16","options":["drop a from 0h to wed 12:00"],"policies":["rolling","srtf"],"seed":9}`,
	} {
		f.Add(inst + s)
	}
	svc := service.New(service.Config{Running: 1})
	f.Fuzz(func(t *testing.T, text string) {
		req, err := capacitydoc.Decode(strings.NewReader(text), wire.Limits{MaxBytes: 1 << 16})
		if err != nil || req.Instance == nil {
			return
		}
		_, size, err := svc.CapacityFootprint(req)
		if err != nil {
			return
		}
		req.TimeLimit = 50 * time.Millisecond
		rep, err := svc.PlanCapacity(t.Context(), req, size, nil, nil)
		if err != nil {
			if strings.Contains(err.Error(), "panicked") {
				t.Fatal(err)
			}
			return
		}
		if _, err := json.Marshal(rep); err != nil {
			t.Fatal(err)
		}
		for _, write := range []func(io.Writer) error{rep.Text, rep.CSV, rep.Page} {
			if err := write(io.Discard); err != nil {
				t.Fatal(err)
			}
		}
	})
}
