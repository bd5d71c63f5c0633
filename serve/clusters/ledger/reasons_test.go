package ledger

import (
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

var secondsInText = regexp.MustCompile(`(\d+(?:\.\d+)?) ?s\b`)

// TestReasons checks what all jobs of random journals say of why they wait, or how they ended: a code that the
// documents name, at most six words, and a line in which no time above two minutes is in seconds.
func TestReasons(t *testing.T) {
	field, _ := reflect.TypeFor[clusterdoc.Job]().FieldByName("ReasonCode")
	codes := strings.Split(field.Tag.Get("enums"), ",")
	seen := map[string]bool{}
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 17))
		l := New()
		for _, r := range randomJournal(t, rng, 500) {
			if err := l.Apply(&r); err != nil {
				t.Fatal(err)
			}
			if len(l.byTime) == 0 {
				continue
			}
			job := l.Job(jobID(1+rng.IntN(len(l.byTime))), true)
			ask := l.Explain(job, true)
			waits := job.State == clusterdoc.JobWaiting && !ask || slices.Contains([]clusterdoc.JobState{
				clusterdoc.JobStopping, clusterdoc.JobFailed, clusterdoc.JobCancelled}, job.State)
			if (job.ReasonCode != "") != waits || waits && !slices.Contains(codes, job.ReasonCode) {
				t.Errorf("job %s is %s, of code %q", job.ID, job.State, job.ReasonCode)
			}
			if n := len(strings.Fields(job.ReasonShort)); n > 6 || waits && n == 0 {
				t.Errorf("job %s is %s: %q", job.ID, job.State, job.ReasonShort)
			}
			if waits && job.Reason == "" {
				t.Errorf("job %s is %s without a reason", job.ID, job.State)
			}
			for _, m := range secondsInText.FindAllStringSubmatch(job.Reason+" "+job.ReasonShort, -1) {
				if s, _ := strconv.ParseFloat(m[1], 64); s > 120 {
					t.Errorf("job %s: %s", job.ID, job.Reason)
				}
			}
			seen[job.ReasonCode] = true
		}
	}
	for _, code := range []string{"no_service", "arriving", "checkpoint", "stopping", "failed", "cancelled"} {
		if !seen[code] {
			t.Errorf("the random journals have no job of code %s", code)
		}
	}
}
