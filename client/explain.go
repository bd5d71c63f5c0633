package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/hare-sched/hare"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// Jobs lists at most limit jobs (0 means 100) of a solve that has ended. sort is share
// (also ""), stretch, wait or jct, the greatest first, or start or end, the earliest
// first.
func (c *Client) Jobs(ctx context.Context, id, sort string, limit int) (*explaindoc.JobList, error) {
	query := url.Values{}
	if sort != "" {
		query.Set("sort", sort)
	}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return fetch[explaindoc.JobList](ctx, c, call{method: http.MethodGet, path: solvePath(id, "/jobs"), query: query,
		repeatable: true})
}

// Change asks which changes would make a job end earlier: either at the time By of the
// schedule, or Earlier than now by that time. The search for changes ends after
// TimeLimit; 0 means 10 s.
type Change struct {
	By, Earlier time.Duration
	TimeLimit   time.Duration
}

// Explain says why a job of a solve that has ended starts and ends when it does and,
// where change is not nil, which changes would make the job end earlier.
func (c *Client) Explain(ctx context.Context, id, job string, change *Change) (*explaindoc.Answer, error) {
	query := url.Values{}
	if change != nil {
		for name, d := range map[string]time.Duration{"by_s": change.By, "earlier_s": change.Earlier,
			"time_limit_s": change.TimeLimit} {
			if d > 0 {
				query.Set(name, hare.FormatMicros(d.Microseconds()))
			}
		}
	}
	return fetch[explaindoc.Answer](ctx, c, call{method: http.MethodGet,
		path: solvePath(id, "/jobs/"+url.PathEscape(job)), query: query, repeatable: true})
}

// Prices returns the prices of a solve that has ended with method price.
func (c *Client) Prices(ctx context.Context, id string) (*explaindoc.Prices, error) {
	return fetch[explaindoc.Prices](ctx, c, call{method: http.MethodGet, path: solvePath(id, "/prices"),
		repeatable: true})
}
