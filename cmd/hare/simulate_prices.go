package main

import (
	"fmt"
	"strings"

	"github.com/hare-sched/hare"
)

// parsePrices reads TYPE=PRICE,…; nothing is nil.
func parsePrices(text string) (map[string]float64, error) {
	if text == "" {
		return nil, nil
	}
	prices := map[string]float64{}
	for _, part := range strings.Split(text, ",") {
		name, number, _ := strings.Cut(part, "=")
		name = strings.ToUpper(strings.TrimSpace(name))
		// Exact, so that a server is told the same price.
		micro, err := hare.ParseMicros(strings.TrimSpace(number))
		if name == "" || err != nil || micro <= 0 || micro > hare.MaxExact {
			return nil, fmt.Errorf("--prices: %.60q: write TYPE=PRICE, with a price above 0 and at most six decimals", part)
		}
		if prices[name] > 0 {
			return nil, fmt.Errorf("--prices: %.60q has two prices", name)
		}
		prices[name] = float64(micro) / 1e6
	}
	return prices, nil
}
