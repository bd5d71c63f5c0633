package api_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/serve/sessions"
)

// writePair writes a self-signed certificate for 127.0.0.1 and its key.
func writePair(t *testing.T, dir string, serial int64) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "hare"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der},
		keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// TestTLS checks HTTP/2 and 1.1, that a new certificate is used without dropping
// connections, and that a bad one changes nothing.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := writePair(t, dir, 1)
	told := &haretest.Buffer{}
	cert, err := api.OpenCertificate(certFile, keyFile, slog.New(slog.NewTextHandler(told, nil)))
	if err != nil {
		t.Fatal(err)
	}
	go cert.Follow(t.Context())
	s := newSessionServer(t, sessions.Config{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: s.Config.Handler, ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: log.New(io.Discard, "", 0)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = srv.Serve(tls.NewListener(l, cert.Config()))
	}()
	defer func() {
		_ = srv.Close()
		<-ended
	}()
	url := "https://" + l.Addr().String()
	client := func(two bool) *http.Client {
		// The serial number identifies the certificate.
		tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: two}
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr}
	}
	get := func(c *http.Client, method, path, body string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(text)
	}
	serial := func(resp *http.Response) int64 { return resp.TLS.PeerCertificates[0].SerialNumber.Int64() }
	old := client(true)
	resp, _ := get(old, "GET", "/docs", "")
	if resp.ProtoMajor != 2 || serial(resp) != 1 || resp.Header.Get("Strict-Transport-Security") == "" ||
		!strings.Contains(resp.Header.Get("Content-Security-Policy"), "script-src") {
		t.Error(resp.Proto, serial(resp), resp.Header)
	}
	if resp, _ := get(client(false), "GET", "/healthz", ""); resp.ProtoMajor != 1 {
		t.Error(resp.Proto)
	}
	// Streams are full duplex over HTTP/2.
	path := s.open(t, "") + "/events"
	hold, body := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), "POST", url+path, hold)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	stream, err := old.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Body.Close() }()
	answer := func(line string) {
		t.Helper()
		if _, err := io.WriteString(body, line); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 1000)
		if n, err := stream.Body.Read(b); err != nil || !bytes.Contains(b[:n], []byte(`"decisions":[]`)) {
			t.Fatalf("%v %s", err, b[:n])
		}
	}
	answer(tick(1))
	_, _ = writePair(t, dir, 2)
	wait(t, "the new pair is used", func() bool {
		resp, _ := get(client(true), "GET", "/healthz", "")
		return serial(resp) == 2
	})
	answer(tick(2)) // the connection stayed open
	if err := os.WriteFile(certFile, []byte("-----BEGIN"), 0o600); err != nil {
		t.Fatal(err)
	}
	if cert.Reload() == nil || !strings.Contains(told.String(), "the one before stays") {
		t.Errorf("a bad pair is taken: %s", told)
	}
	if resp, _ := get(client(true), "GET", "/healthz", ""); serial(resp) != 2 {
		t.Error(serial(resp))
	}
	_ = body.Close()
	if _, err := tls.Dial("tcp", l.Addr().String(),
		&tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	if _, err := api.OpenCertificate(certFile, keyFile, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a bad pair is opened")
	}
}
