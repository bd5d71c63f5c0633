package main

import (
	"encoding/json"

	"github.com/hare-sched/hare/wire"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

const parametersUsage = `JSON file with parameters of policies, as hare simulate policies lists them, by the ` +
	`policy's name: {"rolling": {"fifo_slowdown": 1}}`

// readParameters reads a file with the parameters of policies by name; no name gives nil.
func readParameters(name string) (map[string]json.RawMessage, error) {
	if name == "" {
		return nil, nil
	}
	file, err := openIn(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	all, err := simulatedoc.DecodeParameters(file, wire.Limits{MaxBytes: maxFileBytes})
	if err != nil {
		return nil, inputError(name, err)
	}
	return all, nil
}
