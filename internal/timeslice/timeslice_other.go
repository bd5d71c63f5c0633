//go:build !linux

package timeslice

// Short does nothing: only Linux has time slices of single threads.
func Short() {}

// Ordinary does nothing.
func Ordinary() {}
