package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// All lists the experiments.
func All() []Info {
	return []Info{
		weightedJCT, algorithm1, cdf, gpuSweep, jobSweep, heterogeneity, mix, syncs, placements,
		streams, hintedStreams, hgittinsRules, guards, kappas, slowdowns, planLatency, planEvery, disturbedStreams,
		clairvoyance, thresholds, starvation, switchCost, profileErrors, stragglers, faults, hadars, hadarEs,
	}
}

// Names lists the names of the experiments and the measurements.
func Names() []string {
	var names []string
	for _, x := range All() {
		names = append(names, x.Name)
	}
	for _, m := range Measurements() {
		names = append(names, m.Name)
	}
	return names
}

// Find returns the named experiment, or an error that suggests the nearest name.
func Find(name string) (Info, error) {
	for _, x := range All() {
		if x.Name == name {
			return x, nil
		}
	}
	return Info{}, unknown(name)
}

// Measurements lists the measurements.
func Measurements() []Measurement {
	return []Measurement{everything, asrptMeasurement, polluxMeasurement, antmanMeasurement}
}

// FindMeasurement returns the named measurement; ok is false where there is none.
func FindMeasurement(name string) (m Measurement, ok bool) {
	i := slices.IndexFunc(Measurements(), func(m Measurement) bool { return m.Name == name })
	if i < 0 {
		return Measurement{}, false
	}
	return Measurements()[i], true
}

// unknown is the error of a name that no experiment has.
func unknown(name string) error {
	return fmt.Errorf("unknown experiment %.60q%s The experiments are %s", name,
		cmp.Or(hare.Guess(name, Names()), "."), strings.Join(Names(), ", "))
}
