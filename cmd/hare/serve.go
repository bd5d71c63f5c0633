package main

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

func serveCommand() *cobra.Command {
	return &cobra.Command{Use: "serve", Hidden: true, RunE: func(*cobra.Command, []string) error { return errors.New("not built") }}
}

func healthCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "healthcheck [URL]",
		Short:   "Exit with 0 when a server answers its health check",
		Example: "  hare healthcheck http://127.0.0.1:8080/healthz",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			url := "http://127.0.0.1:8080/healthz"
			if len(args) > 0 {
				url = args[0]
			}
			client := http.Client{Timeout: 3 * time.Second}
			resp, err := client.Get(url)
			if err != nil {
				fmt.Fprintln(c.ErrOrStderr(), "hare:", err)
				return errNo
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				fmt.Fprintf(c.ErrOrStderr(), "hare: %s answers %s\n", url, resp.Status)
				return errNo
			}
			return nil
		},
	}
}
