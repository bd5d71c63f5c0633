// Package timeslice tells the operating system which threads of a process wait for
// events and which compute.
package timeslice
