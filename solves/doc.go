// Package solves keeps solves over a store: they outlive their calls and the
// server, answer repeated requests once, and tell how they go on.
package solves
