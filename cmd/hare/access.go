package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/serve/access"
	"github.com/hare-sched/hare/serve/admission"
)

// accessFlags are the flags of hare serve that control access: keys, quotas and TLS.
type accessFlags struct {
	insecure, requireKeys bool
	allow                 []string
	certFile, keyFile     string
	quota                 admission.Quota
	bodyMiB, storedMiB    int64

	cert  *api.Certificate
	hosts *api.Hosts // of api.Config; set by check
}

// allowHost is the flag that names the Host headers that a server or helper answers.
const allowHost = "allow-host"

func (a *accessFlags) flags(f *pflag.FlagSet) {
	d := admission.DefaultQuota
	f.BoolVar(&a.insecure, "insecure", false, "allow an address beyond loopback without keys, or with keys and without "+
		"TLS")
	f.BoolVar(&a.requireKeys, "require-keys", false, "require API keys on loopback too: see hare key --help")
	f.StringSliceVar(&a.allow, allowHost, nil, "answer requests that call the server by this name or address too, as "+
		"behind a proxy; * stands for all (default: without keys localhost, loopback addresses and that of the server)")
	f.StringVar(&a.certFile, "tls-cert", "", "serve HTTPS with this PEM file of a certificate and its chain; the "+
		"server reads the file again when it changes, and on SIGHUP")
	f.StringVar(&a.keyFile, "tls-key", "", "PEM file of the private key of --tls-cert")
	f.IntVar(&a.quota.Solves, "quota-solves", d.Solves, "with keys: most computing calls of a tenant, queued and "+
		"running together")
	f.Float64Var(&a.quota.Rate, "quota-rate", d.Rate, "with keys: most requests per second of a tenant; twice as many "+
		"are allowed at once")
	f.Int64Var(&a.bodyMiB, "quota-body", 0, "with keys: largest request body of a tenant in MiB (default: that of "+
		"--max-body)")
	f.Int64Var(&a.storedMiB, "quota-stored", d.StoredBytes>>20, "with keys: most MiB that a tenant may store")
	f.IntVar(&a.quota.Sessions, "quota-sessions", d.Sessions, "with keys: most sessions of a tenant")
	f.IntVar(&a.quota.Streams, "quota-streams", d.Streams, "with keys: most open streams of a tenant")
	f.IntVar(&a.quota.Jobs, "quota-jobs", d.Jobs, "with keys: most jobs of a tenant's clusters that have not ended")
}

// check refuses flags that would let anybody use the server or read its traffic.
func (a *accessFlags) check(listen, dataDir string) error {
	if (a.certFile == "") != (a.keyFile == "") {
		return usageError{errors.New("--tls-cert and --tls-key go together: give both")}
	}
	a.quota.BodyBytes, a.quota.StoredBytes = a.bodyMiB<<20, a.storedMiB<<20
	if err := a.quota.Check(); err != nil {
		return usageError{fmt.Errorf("--quota: %w", err)}
	}
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		port := "8080"
		if _, bad := strconv.ParseUint(listen, 10, 16); bad == nil {
			port = listen
		}
		return usageError{fmt.Errorf("--listen %q: %w: give an address and a port, such as 127.0.0.1:%s", listen, err, port)}
	}
	ip := net.ParseIP(host)
	if loopback := host == "localhost" || ip != nil && ip.IsLoopback(); !loopback && !a.insecure {
		if a.certFile == "" {
			return usageError{errors.New("--listen " + listen + " is beyond loopback, where keys must not travel in clear: " +
				"give --tls-cert and --tls-key, or add --insecure to do it all the same")}
		}
		a.requireKeys = true
	}
	if a.hosts, err = hostsOf(a.allow, listen); err != nil {
		return err
	}
	if a.requireKeys && len(a.allow) == 0 {
		a.hosts = nil // a page does not know a key, and a proxy may call the server by any name
	}
	if a.requireKeys && dataDir == "" {
		return usageError{errors.New("keys are kept in the data directory: give --data-dir, and make one with hare key " +
			"create --data-dir DIR")}
	}
	return nil
}

// hostsOf are the names by which a listener may be called: those of --allow-host, and the host of its address.
func hostsOf(allow []string, listen string) (*api.Hosts, error) {
	hosts := &api.Hosts{Flag: "--" + allowHost}
	for _, name := range allow {
		if err := hosts.Allow(name); err != nil {
			return nil, usageError{fmt.Errorf("--%s: %w", allowHost, err)}
		}
	}
	if host, _, err := net.SplitHostPort(listen); err == nil {
		_ = hosts.Allow(host) // no browser could call what is not a name
	}
	return hosts, nil
}

// open reads the keys and the certificate. Keys and quotas are nil where the server
// asks for no keys.
func (a *accessFlags) open(ctx context.Context, dataDir string,
	log *slog.Logger) (ring *access.Keyring, quotas *admission.Quotas, err error) {
	if a.certFile != "" {
		if openToOthers(a.keyFile, openPrivateKey) {
			log.Warn("the private key is open to other users of this machine: chmod 600 "+a.keyFile, "file", a.keyFile)
		}
		if a.cert, err = api.OpenCertificate(a.certFile, a.keyFile, log); err != nil {
			return nil, nil, usageError{fmt.Errorf("--tls-cert, --tls-key: %w", err)}
		}
		go a.cert.Follow(ctx)
		go a.reloadOnHangup(ctx)
	}
	if !a.requireKeys {
		return nil, nil, nil
	}
	ring, err = access.OpenKeyring(access.FileIn(dataDir), nil, log)
	if err != nil {
		return nil, nil, usageError{fmt.Errorf("--data-dir: %w: see hare key --help", err)}
	}
	if len(ring.List(access.Operator)) == 0 {
		log.Warn("there are no keys yet, so all calls are refused: hare key create --data-dir " + dataDir +
			" --tenant NAME --role admin")
	}
	if n := anyNode(ring); n > 0 {
		log.Warn("keys of role agent that were made before keys had nodes may be the agent of any node of their tenant: "+
			"replace them, see hare key list", "keys", n)
	}
	go ring.Follow(ctx)
	return ring, admission.NewQuotas(a.quota, ring.Quota), nil
}

// anyNode counts the valid keys of role agent that are for any node only because they are from before keys had nodes.
func anyNode(ring *access.Keyring) (n int) {
	for _, k := range ring.List(access.Operator) {
		if k.Role == access.RoleAgent && k.Nodes == nil && k.Valid(time.Now()) {
			n++
		}
	}
	return n
}

// reloadOnHangup reloads the certificate on SIGHUP.
func (a *accessFlags) reloadOnHangup(ctx context.Context) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			_ = a.cert.Reload() // Reload logs its error
		}
	}
}
