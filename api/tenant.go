package api

import "context"

type tenantKey struct{}

// tenantOf returns the tenant of the caller; "" where the server has no keys.
func tenantOf(ctx context.Context) string {
	id, _ := ctx.Value(tenantKey{}).(string)
	return id
}
