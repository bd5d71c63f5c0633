package estimate_test

import (
	"fmt"

	"github.com/hare-sched/hare/online/estimate"
)

// A job is predicted from the past jobs of its class, also where its user is new.
func ExampleForecast() {
	past := func(arrivalS, durationS float64, user, name string) estimate.PastJob {
		return estimate.PastJob{ArrivalS: arrivalS, DurationS: durationS,
			Labels: []estimate.Label{{Name: "name", Value: name}, {Name: "user", Value: user}}}
	}
	f, err := estimate.NewForecast([]estimate.PastJob{
		past(0, 3600, "ann", "bert"), past(600, 3500, "ann", "bert"), past(900, 240, "bob", "vgg"),
		past(4000, 300, "bob", "vgg"), past(4200, 280, "cat", "vgg"), past(9000, 3300, "ann", "bert"),
	}, "classes", estimate.ForestConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, labels := range [][]estimate.Label{
		{{Name: "name", Value: "bert"}, {Name: "user", Value: "ann"}},
		{{Name: "name", Value: "vgg"}, {Name: "user", Value: "eve"}},
		nil,
	} {
		s, known := f.DurationS(labels, 0)
		fmt.Printf("%v: %.0f s, %t\n", labels, s, known)
	}
	// Output:
	// [{name bert} {user ann}]: 3189 s, true
	// [{name vgg} {user eve}]: 372 s, true
	// []: 300 s, false
}

// Every rule predicts jobs of any labels, and an unknown rule is refused.
func ExampleRules() {
	past := []estimate.PastJob{{DurationS: 8}, {ArrivalS: 10, DurationS: 8}}
	for _, r := range estimate.Rules() {
		f, err := estimate.NewForecast(past, r.Name, estimate.ForestConfig{Trees: 3})
		if err != nil {
			fmt.Println(err)
			continue
		}
		s, _ := f.DurationS(nil, 0)
		fmt.Printf("%-7s %.1f s\n", r.Name, s)
	}
	_, err := estimate.NewForecast(past, "oracle", estimate.ForestConfig{})
	fmt.Println(err)
	// Output:
	// median  8.0 s
	// last-2  8.0 s
	// last-5  8.0 s
	// last-50 8.0 s
	// user-2  8.0 s
	// classes 8.0 s
	// forest  8.0 s
	// estimate: there is no rule "oracle"
}
