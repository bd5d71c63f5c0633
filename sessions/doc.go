// Package sessions runs online sessions over a store: an actor for each session
// in memory, answers that are durable before they are given, and recovery.
package sessions
