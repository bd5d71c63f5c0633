package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/lp"
	"github.com/hare-sched/hare/solver"
)

// flushTime is how long sending the last spans may take at shutdown.
const flushTime = 3 * time.Second

// observeFlags are the flags for logs, metrics, profiles and traces.
type observeFlags struct {
	logFormat, logLevel string
	otlp                string
	debugListen         string
	privateMetrics      bool
	tenants             int
}

func (of *observeFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&of.logFormat, "log-format", "text", "format of the log on standard error: text, json")
	f.StringVar(&of.logLevel, "log-level", "info", "lowest level that is logged: debug, info, warn, error")
	f.StringVar(&of.otlp, "otlp-endpoint", "", "send traces to this OTLP/HTTP collector, e.g. http://127.0.0.1:4318 "+
		"(default: the environment variable OTEL_EXPORTER_OTLP_ENDPOINT)")
	f.StringVar(&of.debugListen, "debug-listen", "",
		"serve profiles (/debug/pprof/) and /metrics on this loopback address, e.g. 127.0.0.1:6060")
	f.BoolVar(&of.privateMetrics, "private-metrics", false, "serve /metrics only on --debug-listen")
	f.IntVar(&of.tenants, "metric-tenants", 50, "number of tenants that the metrics show separately; all others share "+
		"the label other")
	choices(c, "log-format", "text", "json")
	choices(c, "log-level", "debug", "info", "warn", "error")
	positive(c, "metric-tenants")
}

// observed holds the log, the metrics, the profiles and the traces of a server.
type observed struct {
	flags    *observeFlags
	log      *slog.Logger
	registry *prometheus.Registry
	tracing  *api.Tracing
	debug    *http.Server
	served   chan struct{} // closed when the debug server has ended
}

// open checks the flags and starts the debug server and the tracing that they ask for.
func (of *observeFlags) open(ctx context.Context) (*observed, error) {
	log, err := newLogger(stderr, of.logFormat, of.logLevel)
	if err != nil {
		return nil, usageError{err}
	}
	if of.privateMetrics && of.debugListen == "" {
		return nil, usageError{errors.New("--private-metrics needs --debug-listen, where they are served then")}
	}
	s := &observed{flags: of, log: log, registry: prometheus.NewRegistry(), served: make(chan struct{})}
	if of.debugListen != "" {
		if err := onLoopback(of.debugListen); err != nil {
			return nil, usageError{err}
		}
		l, err := net.Listen("tcp", of.debugListen)
		if err != nil {
			return nil, usageError{fmt.Errorf("--debug-listen: %w", err)}
		}
		s.debug = &http.Server{Handler: debugHandler(s.registry), ReadHeaderTimeout: 10 * time.Second}
		log.Info("profiles", "address", "http://"+l.Addr().String()+"/debug/pprof/")
		go func() {
			defer close(s.served)
			if err := s.debug.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				log.Error("profiles are gone", "error", err)
			}
		}()
	}
	if s.tracing, err = api.OpenTracing(ctx, api.TracingConfig{Endpoint: of.otlp, Version: version,
		Logger: log}); err != nil {
		s.close()
		var invalid *hare.InvalidError
		if errors.As(err, &invalid) {
			return nil, usageError{fmt.Errorf("%s: %s", invalid.Pointer, invalid.Detail)}
		}
		return nil, err
	}
	return s, nil
}

// config adds logs, metrics and traces to the configuration of the API.
func (ob *observed) config(cfg api.Config, engine solver.Config, dataDir string) api.Config {
	cfg.Logger, cfg.Registry, cfg.Tracing = ob.log, ob.registry, ob.tracing
	cfg.PrivateMetrics, cfg.MetricTenants = ob.flags.privateMetrics, ob.flags.tenants
	if pool, ok := engine.LP.(*lp.Pool); ok {
		cfg.Engine = func() api.EngineStats {
			x := pool.Stats()
			return api.EngineStats{Starts: x.Starts, Recycled: x.Recycled, Kills: x.Kills, Failures: x.Failures,
				Solves: x.Solves, Idle: x.Idle, Available: x.Available}
		}
	}
	if dataDir != "" {
		cfg.StoreBytes = func() int64 { return filesBytes(dataDir) }
	}
	return cfg
}

// close sends the last spans and stops the debug server.
func (ob *observed) close() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if err := ob.tracing.Close(ctx); err != nil {
		ob.log.Warn("the last traces are lost", "error", err)
	}
	if ob.debug != nil {
		_ = ob.debug.Close() // the error concerns connections that nobody waits for
		<-ob.served
	}
}

func newLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var opt slog.HandlerOptions
	switch level {
	case "debug":
		opt.Level = slog.LevelDebug
	case "info":
	case "warn":
		opt.Level = slog.LevelWarn
	case "error":
		opt.Level = slog.LevelError
	default:
		return nil, fmt.Errorf("--log-level %q: give debug, info, warn or error", level)
	}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, &opt)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, &opt)), nil
	}
	return nil, fmt.Errorf("--log-format %q: give text or json", format)
}

// onLoopback refuses addresses that other machines can reach, because profiles disclose
// the contents of memory.
func onLoopback(listen string) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("--debug-listen %q: %w", listen, err)
	}
	if !isLoopback(host) {
		return fmt.Errorf("--debug-listen %s is beyond loopback, where profiles must not be: give 127.0.0.1:6060, and "+
			"reach it through ssh -L or kubectl port-forward", listen)
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// debugHandler serves profiles and metrics, and refuses pages of other origins.
func debugHandler(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.Handle("/metrics", api.MetricsHandler(registry))
	return api.Guard(mux, &api.Hosts{})
}

// filesBytes returns the size of the files in a directory, without its subdirectories.
func filesBytes(dir string) (sum int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if info, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
	}
	return sum
}
