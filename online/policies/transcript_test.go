package policies_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hare-sched/hare/internal/testing/transcript"
	"github.com/hare-sched/hare/online/policies"
)

// "run" in a transcript simulates a policy, with settings, on the instance above it, and says when each job starts and
// ends, in seconds.
func TestTranscripts(t *testing.T) {
	paths, _ := filepath.Glob("testdata/*.txt")
	for _, path := range paths {
		transcript.Run(t, path, func(t *testing.T) func([]string) string {
			inst := transcript.Instance("")
			return func(words []string) string {
				if transcript.Add(inst, words) {
					return ""
				}
				verb, name, settings := words[0], words[1], []byte(strings.Join(words[2:], " "))
				var cfg policies.Config
				var themis policies.ThemisConfig
				to := map[string]any{"asrpt": &cfg.ASRPT, "sampling": &cfg.Sampling, "themis": &themis}[name]
				if to == nil {
					to = &cfg
				}
				if err := json.Unmarshal(settings, to); err != nil && len(settings) > 0 || verb != "run" {
					t.Fatalf("%s: %v", words, err)
				}
				if name == "themis" {
					return times(t, must(t)(policies.NewThemis(&inst.Cluster, policies.SizesOf(inst), themis)), inst)
				}
				info, ok := policies.Find(name)
				if !ok {
					t.Fatal(name)
				}
				return times(t, fresh(t, info, inst, cfg), inst)
			}
		})
	}
}
