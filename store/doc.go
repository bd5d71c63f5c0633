// Package store says what is durable: the logs and snapshots of sessions, the
// records, events and documents of solves, and their checksums.
package store
