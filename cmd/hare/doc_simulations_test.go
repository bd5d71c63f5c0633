package main

import "testing"

func TestSimulationsPage(t *testing.T) {
	checkPage(t, "../../docs/use/simulations.md", changing, 15, "grep", "diff")
}
