package bench

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/wire"
)

var updateGapSet = flag.Bool("update", false, "write the hashes of the set into gap_set.txt")

// TestSixtyAreFrozen makes every instance of the set and compares its hash.
func TestSixtyAreFrozen(t *testing.T) {
	cases, err := GapSet(GapSixty, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) != 60 {
		t.Errorf("%d instances", len(cases))
	}
	var text strings.Builder
	seen := map[string]bool{}
	var paused, busy, fewest, most int
	for _, c := range cases {
		inst, err := c.Make()
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		if err := inst.Validate(); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		sha := wire.SHA256(inst)
		if seen[sha] || seen[c.Name] {
			t.Errorf("%s is there twice", c.Name)
		}
		seen[sha], seen[c.Name] = true, true
		fmt.Fprintf(&text, "%s %s\n", sha, c.Name)
		if GapSetHash(c.Name) != sha && !*updateGapSet {
			t.Errorf("%s: %s, frozen as %q", c.Name, sha, GapSetHash(c.Name))
		}
		gpus := len(model.New(inst).GPUs)
		if fewest == 0 || gpus < fewest {
			fewest = gpus
		}
		most = max(most, gpus)
		for _, n := range inst.Cluster.Nodes {
			paused += len(n.Windows)
			busy += len(n.Busy)
		}
	}
	if fewest != 3 || most != 1600 || paused == 0 || busy == 0 {
		t.Errorf("%d to %d GPUs, %d windows, %d busy", fewest, most, paused, busy)
	}
	if *updateGapSet {
		if err := os.WriteFile("gap_set.txt", []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFiguresAreMade(t *testing.T) {
	cases, err := GapSet(GapFigures, frozenDir, []uint64{1})
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]int{}
	for _, c := range cases {
		if GapSetHash(c.Name) != "" {
			t.Errorf("%s is a name of the other set too", c.Name)
		}
		if len(c.Limits) == 0 {
			t.Errorf("%s has no limit", c.Name)
		}
		if strings.Contains(c.Name, "000") && testing.Short() {
			continue
		}
		inst, err := c.Make()
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		if err := inst.Validate(); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		if strings.HasPrefix(c.Name, "standard-200-mixed") {
			for _, j := range inst.Jobs {
				rules[j.Sync.String()]++
				if j.Sync != hare.Relaxed && j.On[0].SyncUs != 0 {
					t.Errorf("%s: %s synchronises", c.Name, j.ID)
				}
			}
		}
	}
	if rules["rigid"] != 2*rules["gang"] || rules["gang"] != rules["relaxed"] || rules["gang"] == 0 {
		t.Errorf("mixed is %v", rules)
	}
}
