package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	simulatedoc "github.com/hare-sched/hare/wire/simulate"
)

// parsePrices parses TYPE=PRICE,…; an empty text gives nil.
func parsePrices(text string) ([]simulatedoc.TypePrice, error) {
	if text == "" {
		return nil, nil
	}
	var prices []simulatedoc.TypePrice
	for _, part := range strings.Split(text, ",") {
		name, number, _ := strings.Cut(part, "=")
		name = strings.ToUpper(strings.TrimSpace(name))
		// The parser is exact, so that a server gets the same price.
		micro, err := hare.ParseMicros(strings.TrimSpace(number))
		if name == "" || err != nil || micro <= 0 || micro > hare.MaxExact {
			return nil, fmt.Errorf("--prices: %.60q: write TYPE=PRICE, with a price above 0 and at most six decimals", part)
		}
		if slices.ContainsFunc(prices, func(p simulatedoc.TypePrice) bool { return p.Type == name }) {
			return nil, fmt.Errorf("--prices: %.60q has two prices", name)
		}
		prices = append(prices, simulatedoc.TypePrice{Type: name, Micro: micro})
	}
	slices.SortFunc(prices, func(a, b simulatedoc.TypePrice) int { return strings.Compare(a.Type, b.Type) })
	return prices, nil
}
