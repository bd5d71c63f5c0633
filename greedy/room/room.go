// Package room finds where a round fits. It describes jobs as placers see them, keeps the free GPUs of classes, types
// and nodes over time, and finds the earliest place for the tasks of a round in them. It knows no plans, no orders
// and no searches.
package room
