package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hare-sched/hare/wire"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// parseLabels reads texts of the form KEY=VALUE; no text gives nil.
func parseLabels(texts []string) (map[string]string, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	labels := map[string]string{}
	for _, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		_, twice := labels[key]
		switch {
		case !ok || key == "":
			return nil, fmt.Errorf("--label: %.60q: write KEY=VALUE, such as ticket=4711", text)
		case !utf8.ValidString(text):
			return nil, fmt.Errorf("--label: %.60q is not UTF-8", text)
		case utf8.RuneCountInString(key) > wire.MaxLabel || utf8.RuneCountInString(value) > wire.MaxLabel:
			return nil, fmt.Errorf("--label: %.60q: a key and a value have at most %d characters each", text, wire.MaxLabel)
		case twice:
			return nil, fmt.Errorf("--label: %.60q has two values", key)
		}
		labels[key] = value
	}
	if len(labels) > simulatedoc.MaxLabels {
		return nil, fmt.Errorf("--label: there are %d labels: at most %d are allowed", len(labels), simulatedoc.MaxLabels)
	}
	return labels, nil
}
