package policies_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim/elastic"
	"github.com/hare-sched/hare/sim/leases"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/sim/sharing"
)

func TestFindTask(t *testing.T) {
	if _, err := registry.FindTask("tiresas"); err == nil || !strings.Contains(err.Error(), `did you mean "tiresias"?`) {
		t.Error(err)
	}
	names := policies.All()
	if !slices.IsSortedFunc(names, func(a, b policies.Info) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("not sorted")
	}
}

func TestFindNamesTheNearest(t *testing.T) {
	for name, want := range map[string]string{
		"gavel:fifo_pref": `did you mean "gavel:fifo_perf"?`,
		"isolated":        `did you mean "gavel:isolated"?`,
		"qqqqqqqq":        "The policies are antman, asrpt, easy_backfill, fifo, gandiva, gavel:allox, gavel:fifo,",
		"tiresas":         `did you mean "tiresias"?`,
	} {
		if _, err := registry.Find(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	names := registry.Names()
	for i, p := range registry.All() {
		found, err := registry.Find(p.Name)
		if err != nil || found.Text == "" || i > 0 && names[i-1] >= p.Name {
			t.Errorf("%s: %v", p.Name, err)
		}
		if p.Engine == registry.Shared {
			if cfg, err := p.ConfigureShared(sharing.Default(1), []byte(`{"opportunistic": 1}`)); err != nil ||
				cfg.Opportunistic != 1 || p.New(leases.Config{}) != nil {
				t.Errorf("%s: %+v, %v", p.Name, cfg, err)
			}
			continue
		}
		engine := registry.Task
		switch p.New(leases.Config{}).(type) {
		case leases.SharePolicy, leases.HoldPolicy:
			engine = registry.Lease
		case elastic.Policy:
			engine = registry.Elastic
		}
		if _, err := registry.FindTask(p.Name); engine != p.Engine || (engine == registry.Task) != (err == nil) {
			t.Errorf("%s, of engine %s, looks like %s; FindTask: %v", p.Name, p.Engine, engine, err)
		}
	}
}
