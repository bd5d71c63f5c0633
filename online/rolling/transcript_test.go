package rolling_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/transcript"
	"github.com/hare-sched/hare/online"
)

// Each line of the transcripts is given to a policy that was restored from a snapshot.
func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/plans.txt", func(t *testing.T) func([]string) string {
		inst, questions := transcript.Instance(""), map[string]online.PlanQuestion{}
		var s session
		return func(words []string) string {
			if transcript.Add(inst, words) {
				return ""
			}
			if words[0] == "open" {
				s = openAside(t, strings.Join(words[1:], " "), inst.Cluster.Nodes[0].GPUs...)
				return ""
			}
			defer func() { s.Planned = restore(t, s) }()
			switch words[0] {
			case "ask":
				if questions[words[1]] = s.Ask(); questions[words[1]] == nil {
					return "no plan is due"
				}
			case "take":
				plan, err := questions[words[1]].Answer(t.Context())
				if err != nil {
					return err.Error()
				}
				s.take(string(plan))
			case "status":
				return statusText(s.Plan())
			default:
				nowUs, e := transcript.Event(words)
				decisions, err := s.Step(nowUs, []hare.Event{e})
				if err != nil {
					return err.Error()
				}
				return transcript.Decisions(decisions)
			}
			return ""
		}
	})
}

func statusText(s online.PlanStatus) string {
	b := fmt.Sprintf("made at %s, due %t, fallback %q, value %s, bound %.4g\n", seconds(s.MadeUs), s.Due, s.Fallback,
		s.Value, s.Bound.Float())
	for _, j := range s.Jobs {
		b += fmt.Sprintf("%s running %t, %d rounds on %v from %s to %s, at the earliest %s. %s\n", j.Job, j.Running,
			j.Rounds, j.Types, seconds(j.StartUs), seconds(j.EndUs), seconds(j.EarliestEndUs), j.Reason.Text)
	}
	return b
}

func seconds(us int64) string {
	if us < 0 {
		return "?"
	}
	return hare.FormatMicros(us)
}
