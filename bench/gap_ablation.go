package bench

import (
	"fmt"
	"strings"

	"github.com/hare-sched/hare/solver"
)

// ablationPart is one part of Hare that can be turned off.
type ablationPart struct {
	name string
	out  func(*solver.Ablation)
}

// parts are the parts of a solve, and each search and part of a search.
var parts = append([]ablationPart{
	{"sizes", func(w *solver.Ablation) { w.Sizes = true }},
	{"steps", func(w *solver.Ablation) { w.Steps = true }},
	{"fine-grid", func(w *solver.Ablation) { w.FineGrid = true }},
	{"worth", func(w *solver.Ablation) { w.MinGain = true }},
	{"plan", func(w *solver.Ablation) { w.PlanPrices = true }},
	{"warm", func(w *solver.Ablation) { w.PlanWarmStart = true }},
	{"prices", func(w *solver.Ablation) { w.SearchPrices = true }},
	{"search", func(w *solver.Ablation) { w.Search = true }},
	{"branch", func(w *solver.Ablation) { w.Branch = true }},
}, searchParts()...)

func searchParts() (parts []ablationPart) {
	for _, name := range solver.SearchParts() {
		parts = append(parts, ablationPart{name, func(w *solver.Ablation) { w.WithoutSearchPart(name) }})
	}
	return parts
}

// Parts returns the names of the parts that can be turned off.
func Parts() (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

// ParseAblation reads the names of parts that are turned off.
func ParseAblation(names []string) (w solver.Ablation, err error) {
	for _, name := range names {
		found := false
		for _, p := range parts {
			if p.name == name {
				p.out(&w)
				found = true
			}
		}
		if !found {
			return w, fmt.Errorf("%s: no such part; known: %s", name, strings.Join(Parts(), ", "))
		}
	}
	return w, nil
}
