package admission_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/hare-sched/hare/serve/admission"
)

// TestMemory checks what claims of a budget of 1024 bytes are granted: 256 bytes for claims of at most 4 bytes, and
// 768 for larger ones.
func TestMemory(t *testing.T) {
	type step struct {
		owner string
		bytes int64 // negative to end the owner's first claim
		want  string
	}
	for _, c := range []struct {
		name   string
		shared bool
		steps  []step
	}{
		{"up to the budget", false, []step{{"", 400, ""}, {"", 368, ""}, {"", 5, "busy"}, {"", -1, ""}, {"", 400, ""}}},
		{"a small claim beside large ones", false, []step{{"", 768, ""}, {"", 4, ""}, {"", 5, "busy"}}},
		{"one alone may be larger", false, []step{{"", 3072, ""}, {"", 5, "busy"}, {"", 4, ""}}},
		{"not beside another", false, []step{{"", 5, ""}, {"", 3072, "busy"}}},
		{"larger than ever", false, []step{{"", 3073, "never"}}},
		{"half for an owner", true, []step{{"a", 300, ""}, {"a", 85, "quota"}, {"a", 84, ""}, {"b", 384, ""},
			{"c", 5, "busy"}}},
		{"one alone keeps no other owner out", true, []step{{"a", 3072, ""}, {"a", 5, "quota"}, {"b", 384, ""},
			{"b", 5, "quota"}, {"c", 5, "busy"}, {"a", -1, ""}, {"c", 384, ""}}},
		{"a claim that large needs to be alone", true, []step{{"b", 5, ""}, {"a", 764, "busy"}, {"a", 763, ""}}},
	} {
		m := admission.NewMemory(1024, c.shared)
		claims := map[string][]*admission.Claim{}
		for i, s := range c.steps {
			if s.bytes < 0 {
				claims[s.owner][0].Release()
				claims[s.owner] = claims[s.owner][1:]
				continue
			}
			claim, before := m.Claim(s.owner), m.Used()
			err := claim.Grow(s.bytes)
			var quota *admission.QuotaError
			var memory *admission.MemoryError
			got := ""
			switch {
			case errors.As(err, &quota) && quota.Code == "quota_memory" && quota.After > 0:
				got = "quota"
			case errors.As(err, &memory) && memory.Never() && !errors.Is(err, admission.ErrBusy):
				got = "never"
			case errors.As(err, &memory) && errors.Is(err, admission.ErrBusy):
				got = "busy"
			case err != nil:
				got = err.Error()
			}
			if got != s.want || err != nil && m.Used() != before {
				t.Errorf("%s, %d: %q and %d bytes used, not %q", c.name, i, got, m.Used(), s.want)
			}
			if err == nil {
				claims[s.owner] = append(claims[s.owner], claim)
			}
		}
		for _, all := range claims {
			for _, claim := range all {
				claim.Release()
				claim.Release()
				if err := claim.Grow(1); err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
			}
		}
		if m.Used() != 0 {
			t.Errorf("%s: %d bytes are left", c.name, m.Used())
		}
	}
}

// TestMemoryOfManyCalls checks that claims which change at the same time neither exceed the budget nor leave anything.
func TestMemoryOfManyCalls(t *testing.T) {
	const total = 1 << 20
	m := admission.NewMemory(total, true)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 2000 {
				c := m.Claim(string(rune('a' + i%4)))
				_ = c.Grow(total / 8) // refused now and then
				_ = c.Resize(int64(k))
				if used := m.Used(); used > total {
					t.Errorf("%d bytes used", used)
				}
				c.Release()
			}
		})
	}
	wg.Wait()
	if m.Used() != 0 {
		t.Errorf("%d bytes are left", m.Used())
	}
}
