package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	registry "github.com/hare-sched/hare/sim/policies"
)

// TestHelp checks that every visible command has a description and an example.
func TestHelp(t *testing.T) {
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.Hidden || sub.Name() == "completion" || sub.Name() == "help" {
				continue
			}
			if sub.Short == "" || sub.Long == "" || !strings.Contains(sub.Example, sub.CommandPath()) {
				t.Errorf("%s lacks a summary, an explanation or an example of itself", sub.CommandPath())
			}
			for line := range strings.SplitSeq(sub.Short+"\n"+sub.Long, "\n") {
				if strings.HasSuffix(line, " ") {
					t.Errorf("%s: %q ends with a space", sub.CommandPath(), line)
				}
			}
			check(sub)
		}
	}
	check(newRoot())
}

// TestReadmePolicies checks the number of policies that the front page states.
func TestReadmePolicies(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d policies are built in", len(registry.Names())); !strings.Contains(string(text), want) {
		t.Errorf("README.md does not say %q", want)
	}
}
