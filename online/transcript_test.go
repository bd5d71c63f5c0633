package online_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/transcript"
	"github.com/hare-sched/hare/online"
)

// Each event is given to a policy that was restored from a snapshot. Another one, which adopts the decisions, comes to
// the same state.
func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/hlas.txt", func(t *testing.T) func([]string) string {
		inst := transcript.Instance("")
		var h, adopted *online.HLAS
		return func(words []string) (out string) {
			if transcript.Add(inst, words) {
				return ""
			}
			switch words[0] {
			case "open":
				cfg, err := online.ParseHLASConfig([]byte(strings.Join(words[1:], " ")))
				if err != nil {
					t.Fatal(err)
				}
				h, _ = online.NewHLAS(&inst.Cluster, cfg)
				adopted, _ = online.NewHLAS(&inst.Cluster, cfg)
			case "why":
				j, _ := h.Explain(words[1])
				return fmt.Sprintf("%s in queue %s, waited %d µs, guard at %d: %s", j.State, j.Queue, j.WaitedUs, j.GuardUs, j.Why)
			case "gpus":
				for _, g := range h.Status().GPUs {
					out += fmt.Sprintf("%s: %d held, %d free, %d gathered %s\n", g.Type, g.Held, g.Free, g.Gathered, g.GatheredFor)
				}
			default:
				nowUs, e := transcript.Event(words)
				decisions, err := h.Step(nowUs, []hare.Event{e})
				out = transcript.Decisions(decisions)
				if err == nil {
					err = adopted.Adopt(nowUs, e, decisions)
				}
				snapshot := h.AppendSnapshot(nil)
				if err != nil || !bytes.Equal(adopted.AppendSnapshot(nil), snapshot) {
					t.Fatalf("%s: %v, or adopted gives another state", words, err)
				}
				if h, err = online.RestoreHLAS(snapshot); err != nil || !bytes.Equal(h.AppendSnapshot(nil), snapshot) {
					t.Fatalf("%s: restored: %v", words, err)
				}
			}
			return out
		}
	})
}
