// Package admission decides which calls a server takes: a queue for a fixed
// number of places, predicted costs, and quotas of tenants.
package admission
