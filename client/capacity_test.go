package client_test

import (
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/wire"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
)

// TestCapacity checks that the answer line by line, the answer as one document and what the server keeps of it are
// equal, and that faults come back with their pointers.
func TestCapacity(t *testing.T) {
	if testing.Short() {
		t.Skip("under the race detector, what is proved takes a minute")
	}
	c := connect(t, client.Config{URL: live(t, "")})
	ask := &capacitydoc.Request{Instance: instance(t), Weeks: 2, Days: 1, Options: []string{"V100=2"},
		TimeLimit: 20 * time.Second, Tags: wire.Tags{Name: "night", Labels: map[string]string{"team": "vision"}}}
	got, err := c.Capacity(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != capacitydoc.StatusSucceeded || len(got.Rows) != 2 || len(got.Decision) == 0 {
		t.Fatalf("%+v", got)
	}
	var kinds []string
	for l, err := range c.FollowCapacity(t.Context(), ask) {
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, l.Kind)
		if l.Kind == capacitydoc.LineReport {
			if diff := cmp.Diff(got, l.Report); diff != "" {
				t.Error(diff)
			}
		}
	}
	if len(kinds) < 3 || kinds[0] != capacitydoc.LineProgress || kinds[len(kinds)-1] != capacitydoc.LineReport {
		t.Error(kinds)
	}
	for range c.FollowCapacity(t.Context(), ask) {
		break
	}
	var ids []string
	for r, err := range c.CapacityPlans(t.Context(), url.Values{"label": {"team=vision"}, "q": {"night"}}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	if len(ids) < 2 {
		t.Fatal(ids)
	}
	kept, err := c.KeptCapacity(t.Context(), ids[len(ids)-1])
	if diff := cmp.Diff(got, kept); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if err := c.DeleteCapacity(t.Context(), ids[0]); err != nil {
		t.Error(err)
	}
	if _, err := c.KeptCapacity(t.Context(), ids[0]); !isProblem(err, http.StatusGone, "gone") {
		t.Error(err)
	}
	var p *client.Problem
	ask.Options = []string{"V100=2", "more"}
	if _, err := c.Capacity(t.Context(), ask); !errors.As(err, &p) || p.Status != http.StatusUnprocessableEntity ||
		p.Faults[0].Pointer != "/options/1" {
		t.Error(err)
	}
	ask.Instance = nil
	if _, err := c.Capacity(t.Context(), ask); err == nil {
		t.Error("no instance")
	}
}
