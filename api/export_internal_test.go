package api

import "context"

// Flush sends the queued spans now.
func (t *Tracing) Flush(ctx context.Context) error { return t.provider.ForceFlush(ctx) }
