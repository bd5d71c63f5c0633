package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// errStopped says that the reader of a stream wants no more.
var errStopped = errors.New("client: stopped")

func strangeLine(err error) error {
	return fmt.Errorf("client: a line of the answer is not what was expected: %w", err)
}

// lines sends a body and hands each line of the answer to take, which must not
// keep it. Until the first one came it is sent again like any call that changes
// nothing; a stream that breaks later is an error, for what came is of use.
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
