package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
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
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if name == "" || err != nil || !(v > 0 && v <= math.MaxFloat64) {
			return nil, fmt.Errorf("--prices: %.60q: write TYPE=PRICE, with a price above 0", part)
		}
		if prices[name] > 0 {
			return nil, fmt.Errorf("--prices: %.60q has two prices", name)
		}
		prices[name] = v
	}
	return prices, nil
}
