package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hare-sched/hare/history"
)

// API asks an API server of Kubernetes.
type API interface {
	// Do sends a request and returns status and body of the answer. An error means that there was no
	// whole answer.
	Do(ctx context.Context, method, path, contentType string, body []byte) (status int, answer []byte, err error)
}

// HTTP asks over HTTP. The zero values of Client and Token work for addresses that need neither.
type HTTP struct {
	Base   string // such as http://127.0.0.1:8001
	Client *http.Client
	// Token returns the bearer token, which may change; nil means none.
	Token func() (string, error)
}

// Limits of one request.
const (
	requestTime    = 30 * time.Second
	maxAnswerBytes = 256 << 20
)

// Watcher is an API that can also wait for changes.
type Watcher interface {
	// Changed waits until an object of a list has changed since a version of the list, or the API server
	// says that it cannot tell. An error means that no answer came, or that ctx ended.
	Changed(ctx context.Context, path, version string) error
}

var _ Watcher = (*HTTP)(nil)

// Changed implements Watcher.
func (h *HTTP) Changed(ctx context.Context, path, version string) error {
	query := "?watch=true&allowWatchBookmarks=true&resourceVersion=" + url.QueryEscape(version)
	res, err := h.send(ctx, http.MethodGet, path+query, "", nil)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fault(res.StatusCode, nil)
	}
	for d := json.NewDecoder(res.Body); ; {
		var event struct{ Type string }
		if err := d.Decode(&event); err != nil {
			return err
		}
		if event.Type != "BOOKMARK" {
			return nil
		}
	}
}

// Do implements API.
func (h *HTTP) Do(ctx context.Context, method, path, contentType string, body []byte) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	res, err := h.send(ctx, method, path, contentType, body)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswerBytes+1))
	if err == nil && len(answer) > maxAnswerBytes {
		err = fmt.Errorf("more than %d MiB", maxAnswerBytes>>20)
	}
	return res.StatusCode, answer, err
}

// send sends a request.
func (h *HTTP) send(ctx context.Context, method, path, contentType string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(h.Base, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if h.Token != nil {
		token, err := h.Token()
		if err != nil {
			return nil, fmt.Errorf("the token of the service account: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := h.Client
	if client == nil {
		client = http.DefaultClient
	}
	res, err := client.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, fmt.Errorf("%s: %w", h.Base, err)
	}
	return res, nil
}

// StatusError is an answer of the API server that is not what was asked for.
type StatusError struct {
	Status  int
	Message string // of the server
}

func (e *StatusError) Error() string { return fmt.Sprintf("%d: %s", e.Status, e.Message) }

// fault makes an error of an answer.
func fault(status int, answer []byte) error {
	var text struct{ Message, Reason string }
	if json.Unmarshal(answer, &text) != nil || text.Message == "" {
		text.Message = http.StatusText(status)
	}
	if len(text.Message) > 400 {
		text.Message = text.Message[:400] + " …"
	}
	return &StatusError{status, strings.ToValidUTF8(text.Message, "?")}
}

// statusOf returns the status of a StatusError; 0 for other errors.
func statusOf(err error) int {
	var s *StatusError
	if errors.As(err, &s) {
		return s.Status
	}
	return 0
}

// call asks and decodes an answer of 200 or 201.
func call(ctx context.Context, api API, method, path, contentType string, body []byte, into any) error {
	status, answer, err := api.Do(ctx, method, path, contentType, body)
	if err != nil {
		return err
	}
	if status != http.StatusOK && status != http.StatusCreated {
		return fault(status, answer)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%s %s: the answer cannot be read: %w", method, path, err)
	}
	return nil
}

// Pages of long lists.
const (
	pageLimit  = 500
	listBegins = 4 // how often a list is begun because its pages have expired
)

// partial is what objects have of which a value may be unreadable.
type partial struct {
	// unread says that a value of the object could not be read: the object lacks it.
	unread bool
}

func (p *partial) setUnread() { p.unread = true }

// list reads all objects of a kind, page by page, and the version of the list. Where pages expire
// meanwhile, it begins again. A value of another form than is known costs its object no more than the value, and is
// counted in the report; what is not an object is left out.
func list[T any](ctx context.Context, api API, path string, report *history.Report) (items []T, version string,
	err error) {
	next := ""
	for begins := 1; ; {
		var page struct {
			Metadata struct{ Continue, ResourceVersion string }
			Items    []json.RawMessage
		}
		query := "?limit=" + strconv.Itoa(pageLimit)
		if next != "" {
			query += "&continue=" + url.QueryEscape(next)
		}
		err := call(ctx, api, http.MethodGet, path+query, "", nil, &page)
		switch {
		case statusOf(err) == http.StatusGone && begins < listBegins:
			begins++
			items, next = nil, ""
			continue
		case err != nil:
			return nil, "", fmt.Errorf("GET %s: %w", path, err)
		}
		for _, text := range page.Items {
			var item T
			whole, err := report.DecodeObject(text, &item, path, "/items/"+strconv.Itoa(len(items)))
			if err != nil {
				continue
			}
			if p, ok := any(&item).(interface{ setUnread() }); ok && !whole {
				p.setUnread()
			}
			items = append(items, item)
		}
		if next = page.Metadata.Continue; next == "" {
			return items, page.Metadata.ResourceVersion, nil
		}
	}
}

// fieldManager is the name under which the API server knows the helper's writes.
const fieldManager = "fieldManager=hare"

// patchOperation is an operation of a JSON patch (RFC 6902).
type patchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// pointer makes a JSON pointer of steps.
func pointer(steps ...string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, s := range steps {
		b.WriteString("/" + escape.Replace(s))
	}
	return b.String()
}
