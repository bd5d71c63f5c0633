package settings_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim/settings"
)

// FuzzRead reads parameters: what is taken is a JSON object whose values are in range and read the same again, and
// what is not is an error that says so in one line.
func FuzzRead(f *testing.F) {
	type config struct {
		Share float64 `json:"share"`
		Beam  int     `json:"beam"`
		Rule  string  `json:"rule"`
		Early bool    `json:"early"`
	}
	known := []settings.Setting[config]{
		settings.Number("share", "s", 0, 0, .99, "a part", func(c *config, v float64) { c.Share = v }),
		settings.Integer("beam", 4, 1, 100, "solutions", func(c *config, v int) { c.Beam = v }),
		settings.Choice("rule", []string{"first", "best"}, "a word", func(c *config) *string { return &c.Rule }),
		settings.Flag("early", "a flag", func(c *config) *bool { return &c.Early }),
	}
	for _, text := range []string{`{}`, `{"share":0.5,"beam":8,"rule":"best","early":true}`, `{"share":1e400}`,
		`{"beam":1.5}`, `{"beam":1,"beam":2}`, `{"early":null}`, `[]`, `{"beam":1}x`, `{"b\n":1}`, "{\"\xff\":1}", ``} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, given []byte) {
		c := config{Beam: 4, Rule: "first"}
		if err := settings.Read("mine", known, &c, given); err != nil {
			var invalid *hare.InvalidError
			if !errors.As(err, &invalid) || strings.ContainsAny(invalid.Detail, "\n\r") {
				t.Fatalf("%q: %q", given, err)
			}
			return
		}
		if !json.Valid(given) || !(c.Share >= 0 && c.Share <= .99) ||
			c.Beam < 1 || c.Beam > 100 || c.Rule != "first" && c.Rule != "best" {
			t.Fatalf("%q: %+v", given, c)
		}
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var again config
		if err := settings.Read("mine", known, &again, text); err != nil || again != c {
			t.Fatalf("%s: %+v, then %+v: %v", text, c, again, err)
		}
	})
}
