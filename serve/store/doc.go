// Package store defines what is durable: the logs and snapshots of sessions, the records,
// events and documents of solves, and their checksums. Memory and MemorySolves keep them
// in memory; package sqlite keeps them in a database.
package store
