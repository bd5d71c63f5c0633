package api

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// repeatable marks, at the end of a name, a query parameter that may occur more than once.
const repeatable = "*"

// checkQuery refuses query parameters that takes does not name, and repeated parameters
// unless their name in takes ends in "*".
func checkQuery(r *http.Request, takes []string) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badQuery("the query is not percent-encoded: %v", err)
	}
	names := make([]string, len(takes))
	for i, name := range takes {
		names[i] = strings.TrimSuffix(name, repeatable)
	}
	for name, values := range q {
		switch i := slices.Index(names, name); {
		case i < 0 && len(names) == 0:
			return badQuery("?%.100s= is unknown here: this path takes no parameters", name)
		case i < 0:
			hint := ""
			if near := hare.Nearest(name, names); near != "" {
				hint = fmt.Sprintf("did you mean ?%s=? ", near)
			}
			return badQuery("?%.100s= is unknown here: %sthis path takes %s", name, hint, strings.Join(names, ", "))
		case len(values) > 1 && takes[i] == name:
			return badQuery("?%s= may come once", name)
		}
	}
	return nil
}

func badQuery(format string, a ...any) error {
	return &statusError{http.StatusBadRequest, "bad_query", fmt.Sprintf(format, a...)}
}

// flag reads a boolean query parameter; false where the parameter is absent.
func flag(r *http.Request, name string) (bool, error) {
	q := r.URL.Query()
	if !q.Has(name) {
		return false, nil
	}
	switch values := q[name]; {
	case len(values) == 1 && values[0] == "true":
		return true, nil
	case len(values) == 1 && values[0] == "false":
		return false, nil
	}
	return false, &statusError{http.StatusBadRequest, "bad_query", "?" + name + "= must be true or false"}
}

// pageLimit reads the query parameter limit: the most entries of a page.
func pageLimit(r *http.Request) (int, error) {
	limit, err := number(r, "limit")
	if err != nil || limit > maxListed || limit < 1 && r.URL.Query().Has("limit") {
		return 0, badQuery("?limit= must be a whole number from 1 to %d", maxListed)
	}
	if limit == 0 {
		limit = maxListed
	}
	return int(limit), nil
}

// sortOf reads the query parameter sort.
func sortOf(r *http.Request, names []string) (string, error) {
	text := r.URL.Query().Get("sort")
	if name := strings.TrimPrefix(text, "-"); text != "" && !slices.Contains(names, name) {
		return "", badQuery("?sort=%s must be one of %s, with - in front for the other direction", hare.Clip(text),
			strings.Join(names, ", "))
	}
	return text, nil
}
