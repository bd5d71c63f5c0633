package online

import (
	"strings"

	"github.com/hare-sched/hare"
)

// Names lists the policies that New and Restore know.
func Names() []string { return []string{"fifo", "hlas"} }

// New starts a session of a named policy; parameters are its JSON, or nothing.
// Errors are *hare.InvalidError.
func New(policy string, cluster *hare.Cluster, parameters []byte) (Durable, error) {
	switch policy {
	case "hlas":
		cfg, err := ParseHLASConfig(parameters)
		if err != nil {
			return nil, err
		}
		return durable(NewHLAS(cluster, cfg))
	case "fifo":
		if err := strict(parameters, &struct{}{}); err != nil {
			return nil, err
		}
		return durable(NewFIFO(cluster))
	}
	return nil, unknownPolicy(policy)
}

// Restore makes the named policy of which snapshot was taken.
func Restore(policy string, snapshot []byte) (Durable, error) {
	switch policy {
	case "hlas":
		return durable(RestoreHLAS(snapshot))
	case "fifo":
		return durable(RestoreFIFO(snapshot))
	}
	return nil, unknownPolicy(policy)
}

// durable keeps a nil pointer from becoming an interface that is not nil.
func durable[P Durable](p P, err error) (Durable, error) {
	if err != nil {
		return nil, err
	}
	return p, nil
}

func unknownPolicy(name string) error {
	return invalid("/policy", "unknown_policy", "%q is not known: use one of %s", name, strings.Join(Names(), ", "))
}
