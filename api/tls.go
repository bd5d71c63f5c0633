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

// certificatePoll is the interval at which Follow checks whether the files have
// changed.
const certificatePoll = time.Second

// Certificate is a certificate and its private key in files that may be replaced while
// the server runs. It is safe for concurrent use.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger
	now               atomic.Pointer[tls.Certificate]

	mu    sync.Mutex
	state string // state of the files when they were last read
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

func (cert *Certificate) read() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(cert.certFile, cert.keyFile)
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

// Reload reads the files again. If the pair is invalid, the old pair stays in use, and
// the log gives the reason once for each change of the files.
func (cert *Certificate) Reload() error { return cert.reload(true) }

func (cert *Certificate) reload(always bool) error {
	cert.mu.Lock()
	defer cert.mu.Unlock()
	state := fileStates(cert.certFile, cert.keyFile)
	if state == cert.state && !always {
		return nil
	}
	cert.state = state
	pair, err := cert.read()
	if err != nil {
		cert.log.Error("the certificate cannot be read: the one before stays", "expires", cert.Expires(), "error", err)
		return err
	}
	cert.now.Store(pair)
	cert.log.Info("certificate read", "expires", pair.Leaf.NotAfter)
	if time.Now().After(pair.Leaf.NotAfter) {
		cert.log.Error("the certificate has expired", "expires", pair.Leaf.NotAfter)
	}
	return nil
}

// Follow reloads the pair whenever the files change, until ctx ends.
func (cert *Certificate) Follow(ctx context.Context) {
	tick := time.NewTicker(certificatePoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = cert.reload(false) // reload logs the error
		}
	}
}

// Expires returns when the certificate in use expires.
func (cert *Certificate) Expires() time.Time { return cert.now.Load().Leaf.NotAfter }

// Config returns a configuration for servers: TLS 1.2 and later, HTTP/2 and HTTP/1.1,
// and the current pair for each new connection.
func (cert *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert.now.Load(), nil },
	}
}

// fileStates returns a text that differs whenever one of the files may have changed.
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
