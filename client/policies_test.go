package client_test

import (
	"slices"
	"testing"

	"github.com/hare-sched/hare/client"
)

// A client learns which policies sessions take, and what their parameters are.
func TestPolicies(t *testing.T) {
	all, err := connect(t, client.Config{URL: live(t, "")}).Policies(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(p client.Policy) bool { return p.Name == "rolling" })
	if i < 0 || !all[i].Default || !all[i].Plans || !all[i].Hints || all[i].Sizes != "estimates" {
		t.Fatalf("%+v", all)
	}
	at := slices.IndexFunc(all[i].Parameters, func(x client.PolicyParameter) bool { return x.Name == "max_age_s" })
	if at < 0 || all[i].Parameters[at].Unit != "s" || string(all[i].Parameters[at].Default) != "60" {
		t.Errorf("%+v", all[i].Parameters)
	}
}
