package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// certificateLook is how often Follow looks whether the files have changed.
const certificateLook = time.Second

// Certificate is a certificate and its key in files, which may be replaced
// while connections go on. Safe for concurrent use.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger
	now               atomic.Pointer[tls.Certificate]

	mu    sync.Mutex
	state string // of the files, when they were read last
}

// OpenCertificate reads a pair of PEM files.
func OpenCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log, state: fileStates(certFile, keyFile)}
	pair, err := c.read()
	if err != nil {
		return nil, err
	}
	c.now.Store(pair)
	return c, nil
}

func (c *Certificate) read() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return nil, err
	}
	if pair.Leaf == nil {
		if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			return nil, err
		}
	}
	return &pair, nil
}

// Reload reads the files again. A bad pair leaves the old one, and the log
// says why; so it does until the pair is good, once for each change.
func (c *Certificate) Reload() error { return c.reload(true) }

func (c *Certificate) reload(always bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := fileStates(c.certFile, c.keyFile)
	if state == c.state && !always {
		return nil
	}
	c.state = state
	pair, err := c.read()
	if err != nil {
		c.log.Error("the certificate cannot be read: the one before stays", "expires", c.Expires(), "error", err)
		return err
	}
	c.now.Store(pair)
	c.log.Info("certificate read", "expires", pair.Leaf.NotAfter)
	if time.Now().After(pair.Leaf.NotAfter) {
		c.log.Error("the certificate has expired", "expires", pair.Leaf.NotAfter)
	}
	return nil
}

// Follow takes over what happens to the files, until ctx ends.
func (c *Certificate) Follow(ctx context.Context) {
	tick := time.NewTicker(certificateLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = c.reload(false) // the log has it
		}
	}
}

// Expires is when the certificate in use does.
func (c *Certificate) Expires() time.Time { return c.now.Load().Leaf.NotAfter }

// Config is for servers: TLS 1.2 and up, HTTP/2 and 1.1, and for each new
// connection the pair of that time.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.now.Load(), nil },
	}
}

// fileStates is another one when a file may have changed.
func fileStates(names ...string) (state string) {
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			state += err.Error()
			continue
		}
		state += fmt.Sprint(info.Size(), info.ModTime().UnixNano(), info.Mode(), " ")
	}
	return state
}
