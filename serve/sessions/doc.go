// Package sessions runs online sessions over a store. Each session in memory has an
// actor, a goroutine that applies the events to the session's policy. An answer is given
// once the event and its decisions are durable, so that a session can be recovered after
// a crash.
package sessions
