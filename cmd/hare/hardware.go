package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// addHardware gives a cluster the bandwidths of --bandwidth and the memory of --gpu-memory.
func addHardware(c *hare.Cluster, bandwidth, memory string) error {
	err := eachThousandth("--bandwidth", "LEVEL=GBPS,…, e.g. node=300,any=25", bandwidth, func(level string, n int64) {
		c.Bandwidths = append(c.Bandwidths, hare.LevelBandwidth{Level: level, Mbps: n})
	})
	if err != nil {
		return err
	}
	err = eachThousandth("--gpu-memory", "TYPE=GIB,…, e.g. V100=16", memory, func(kind string, n int64) {
		c.GPUTypes = append(c.GPUTypes, hare.GPUType{Type: kind, MemoryMilliGiB: n})
	})
	if err != nil {
		return err
	}
	slices.SortFunc(c.Bandwidths, func(a, b hare.LevelBandwidth) int { return strings.Compare(a.Level, b.Level) })
	slices.SortFunc(c.GPUTypes, func(a, b hare.GPUType) int { return strings.Compare(a.Type, b.Type) })
	var found hare.InvalidErrors
	if found.CheckHardware("", c); len(found) > 0 {
		return fmt.Errorf("--bandwidth or --gpu-memory: %w", found)
	}
	return nil
}

// eachThousandth reads NAME=NUMBER,… with numbers of at most three decimals, and hands on thousandths.
func eachThousandth(flag, form, text string, do func(name string, n int64)) error {
	if text == "" {
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, number, ok := strings.Cut(part, "=")
		n, err := hare.ParseDecimal(number, 3)
		if !ok || name == "" || err != nil || n < 1 || n > hare.MaxPerTask {
			return fmt.Errorf("%s %q: give %s, each number positive and with at most three decimals", flag,
				hare.Clip(part), form)
		}
		do(name, n)
	}
	return nil
}
