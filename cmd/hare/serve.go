package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/service"
)

func serveCommand() *cobra.Command {
	var listen string
	var insecure bool
	var bodyMiB int64
	var cfg service.Config
	var grace time.Duration
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve solves, bounds and checks over HTTP",
		Long: `Serve answers POST /v1/solves, /v1/bounds and /v1/verify; /docs describes them.
It listens on loopback; there are no keys yet, so other addresses need --insecure.
On SIGTERM it takes no new work, lets what runs finish for --grace, and ends the
rest with the best certified pair so far.`,
		Example: "  hare serve\n  hare serve --listen 127.0.0.1:9000 --running 4 --max-body 256",
		Args:    exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := loopback(listen); err != nil && !insecure {
				return usageError{err}
			}
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return usageError{fmt.Errorf("%w: see hare doctor --listen %s", err, listen)}
			}
			engine, closeEngine := startEngine()
			defer closeEngine()
			cfg.Solver = engine
			svc := service.New(cfg)
			log := slog.New(slog.NewTextHandler(os.Stderr, nil))
			log.Info("listening", "address", l.Addr().String(), "docs", "http://"+l.Addr().String()+"/docs", "version", version, "highs", engine.EngineVersion)
			h := api.New(svc, api.Config{MaxBodyBytes: bodyMiB << 20, Logger: log, EngineRestarts: engine.Restarts})
			return api.Serve(c.Context(), l, h, svc, grace)
		},
	}
	f := c.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:8080", "address and port")
	f.BoolVar(&insecure, "insecure", false, "allow an address beyond loopback, without keys or TLS")
	f.Int64Var(&bodyMiB, "max-body", 64, "largest request body in MiB")
	f.IntVar(&cfg.Running, "running", 0, "solves at a time (default: one a core)")
	f.IntVar(&cfg.Queue, "queue", 64, "calls that may wait")
	f.DurationVar(&cfg.MaxTime, "max-time", time.Minute, "limit of solves that name none")
	f.DurationVar(&grace, "grace", 10*time.Second, "how long running solves may go on at shutdown")
	return c
}

// loopback refuses addresses that others can reach.
func loopback(listen string) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("--listen %q: %w", listen, err)
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return errors.New("--listen " + listen + " is beyond loopback, and there are no keys yet: add --insecure to do it all the same")
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
