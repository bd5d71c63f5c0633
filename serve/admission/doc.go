// Package admission is the admission control of a server: a queue for a fixed
// number of slots, predicted costs of calls, and quotas of tenants.
package admission
