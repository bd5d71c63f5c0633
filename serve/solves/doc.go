// Package solves runs solves and keeps them in a store. A stored solve outlives its call
// and the server, answers a repeated request only once, and reports its progress as
// events.
package solves
