package study_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim/study"
)

// Each field of an instance by which simulations do not go is refused with its place in the
// request and the remedy, under policies of all engines and before anything is simulated.
func TestRulesAreRefusedWithTheRemedy(t *testing.T) {
	const bare = `"id":"x","sync":"gang"`
	on := func(more string) string { return `"on":{"A":{"compute_s":1` + more + `}}` }
	for _, c := range []struct{ policy, cluster, rest, job, pointer, remedy string }{
		{"hlas", "", "", on("") + `,"after":["y"]`, "/instance/jobs/0/after", `give the job a "release_s"`},
		{"gavel:max_min_fairness", "", "", on("") + `,"after":["y"]`, "/instance/jobs/0/after", `"release_s"`},
		{"hlas", `,"reservations":[{"until_s":5}]`, "", on(""), "/instance/cluster/reservations", `"in_service_s"`},
		{"gavel:max_min_fairness", `,"reservations":[{"until_s":5}]`, "", on(""), "/instance/cluster/reservations",
			`"in_service_s"`},
		{"rolling", "", "", on(`,"switch_s":2`), "/instance/jobs/0/on/A/switch_s", "leave it out; hare solve"},
		{"gavel:allox", "", "", `"shapes":[{` + on("") + `},{"tasks":2,` + on("") + `}]`, "/instance/jobs/0/shapes",
			"give the job one of them"},
		{"fifo", "", "", on("") + `,"durations":[{"p":0.5,"factor":2},{"p":0.5,"factor":3}]`,
			"/instance/jobs/0/durations", "hare bound --expected"},
		{"fifo", "", `"objective":"makespan",`, on(""), "/instance/objective", "use weighted_jct"},
		{"hare_offline", "", `"quota":[{"user":"u","gpus":2}],`, on("") + `,"user":"u"`, "/instance/quota",
			"use a policy that supports it, such as rolling"},
		{"tiresias", "", "", on("") + `,"gpus_per_task":2`, "", ""},
		{"gavel:max_min_fairness", "", "", on("") + `,"within":"node"`, "/instance/jobs/0/within", "such as rolling"},
	} {
		req := requestOf(t, `{"policies":["`+c.policy+`"],"instance":{"hare":"instance/v1",`+c.rest+
			`"cluster":{"nodes":[{"name":"a","gpus":{"A":4}}]`+c.cluster+`},"jobs":[{`+bare+`,`+c.job+`},{"id":"y",`+
			on("")+`}]}}`)
		err := study.Validate(req)
		var fault *hare.InvalidError
		if c.pointer == "" && err == nil {
			continue
		}
		if !errors.As(err, &fault) || fault.Pointer != c.pointer || fault.Code != "not_supported" ||
			!strings.Contains(fault.Detail, c.remedy) {
			t.Errorf("%s: %v, want %s with %q", c.policy, err, c.pointer, c.remedy)
		}
	}
	req := requestOf(t, `{"policies":["fifo"],"generate":{"jobs":2},"cluster":{"nodes":[{"name":"a","gpus":{"V100":4}}],`+
		`"reservations":[{"until_s":5}]}}`)
	var fault *hare.InvalidError
	if err := study.Validate(req); !errors.As(err, &fault) || fault.Pointer != "/cluster/reservations" {
		t.Errorf("reservations of the cluster of a request: %v", err)
	}
}
