package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// serviceAccount is where a pod finds its token and the certificate of the API server.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// ErrNotInCluster says that this process is not in a pod of a cluster.
var ErrNotInCluster = errors.New("this is not a pod of a cluster: KUBERNETES_SERVICE_HOST is not set")

// InCluster asks the API server of the pod's own cluster with the pod's service account.
func InCluster() (*HTTP, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, ErrNotInCluster
	}
	authority, err := os.ReadFile(filepath.Join(serviceAccount, "ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s/ca.crt has no certificate", serviceAccount)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return &HTTP{
		Base:   "https://" + net.JoinHostPort(host, port),
		Client: &http.Client{Transport: transport},
		Token: func() (string, error) { // the kubelet replaces the file
			token, err := os.ReadFile(filepath.Join(serviceAccount, "token"))
			return strings.TrimSpace(string(token)), err
		},
	}, nil
}

// proxyStart is how long kubectl may take to listen.
const proxyStart = 20 * time.Second

// Kubectl runs kubectl proxy on a socket in a directory of its own, so that whatever kubectl needs to
// know who asks works here too. The proxy ends with ctx, with stop, and on Linux with this process.
func Kubectl(ctx context.Context, arguments ...string) (api *HTTP, stop func(), err error) {
	dir, err := os.MkdirTemp("", "hare-kube-")
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	socket := filepath.Join(dir, "api")
	cmd := exec.CommandContext(ctx, "kubectl", append(arguments, "proxy", "--unix-socket="+socket)...)
	var said bytes.Buffer
	cmd.Stderr = &limited{left: 4 << 10, to: &said}
	started, ended := make(chan error, 1), make(chan struct{})
	go func() { // a child that is bound to its parent ends with the thread that starts it
		runtime.LockOSThread()
		bindToParent(cmd)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		_ = os.RemoveAll(dir)
		close(ended)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	if err := <-started; err != nil {
		stop()
		return nil, nil, fmt.Errorf("kubectl proxy: %w: install kubectl, or give --api the address of an API server or "+
			"proxy", err)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	for deadline := time.Now().Add(proxyStart); ; {
		c, err := dial(ctx, "", "")
		if err == nil {
			_ = c.Close()
			transport := &http.Transport{DialContext: dial}
			return &HTTP{Base: "http://localhost", Client: &http.Client{Transport: transport}}, stop, nil
		}
		select {
		case <-ended:
			cancel()
			return nil, nil, fmt.Errorf("kubectl proxy: %s", strings.TrimSpace(said.String()))
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			stop()
			return nil, nil, fmt.Errorf("kubectl proxy does not listen after %s", proxyStart)
		}
	}
}

// limited keeps the beginning of what a command writes.
type limited struct {
	left int
	to   *bytes.Buffer
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	l.to.Write(p[:n])
	return len(p), nil
}
