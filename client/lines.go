package client

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
)

func malformedLine(err error) error {
	return fmt.Errorf("client: a line of the answer is not what was expected: %w", err)
}

// lines sends a body and calls take with each line of the answer; take must not retain
// the line. Until the first line has arrived the call is retried like any idempotent
// call. A stream that breaks later is an error, because the caller has used the lines
// before.
func (c *Client) lines(ctx context.Context, path string, body []byte, take func(line []byte) error) error {
	return c.do(ctx, call{method: http.MethodPost, path: path, body: body, repeatable: true,
		header: http.Header{"Accept": {kindNDJSON}},
		take: func(resp *http.Response) error {
			in := bufio.NewReaderSize(resp.Body, 64<<10)
			for n := int64(0); ; n++ {
				line, err := readLine(in, c.cfg.MaxBytes)
				if err == io.EOF {
					return nil
				}
				if err != nil && n > 0 {
					return &partError{n, err}
				}
				if err != nil {
					return err
				}
				if err := take(line); err != nil {
					return err
				}
			}
		}})
}
