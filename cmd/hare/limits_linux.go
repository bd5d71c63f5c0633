//go:build cgo

// limits_linux.c checks the limits of the process before Go's runtime starts.

package main

import "C"
