package api

import "net/http"

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
