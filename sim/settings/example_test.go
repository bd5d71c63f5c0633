package settings_test

import (
	"fmt"

	"github.com/hare-sched/hare/sim/settings"
)

// A policy's settings are a struct, of which each setting fills a field.
func Example() {
	type config struct {
		beam int
		rule string
	}
	known := []settings.Setting[config]{
		settings.Integer("beam", 4, 1, 100, "partial solutions that are kept", func(c *config, v int) { c.beam = v }),
		settings.Choice("rule", []string{"first", "best"}, "which node a job takes",
			func(c *config) *string { return &c.rule }),
	}
	c := config{beam: 4, rule: "first"}
	fmt.Println(settings.Read("mine", known, &c, []byte(`{"beam": 8}`)))
	fmt.Println(c)
	fmt.Println(settings.Read("mine", known, &c, []byte(`{"bean": 8}`)))
	fmt.Println(settings.Read("mine", known, &c, []byte(`{"beam": 0}`)))
	fmt.Println(settings.Read("mine", known, &c, []byte(`{"rule": "worst"}`)))
	// Output:
	// <nil>
	// {8 first}
	// /bean: mine has no parameter "bean": did you mean "beam"? it has beam, rule (unknown_member)
	// /beam: beam of mine is a whole number from 1 to 100 (out_of_range)
	// /rule: rule of mine is one of "first", "best" (out_of_range)
}
