package main

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/hare-sched/hare/serve/access"
)

// keysCheck reads the keys and warns if other users can read the file.
func keysCheck(dir string) check {
	k := check{name: "keys"}
	f := access.FileIn(dir)
	exposed, err := f.Exposed()
	if errors.Is(err, fs.ErrNotExist) {
		k.ok, k.found = true, "none in "+dir
		return k
	}
	if err == nil && exposed != 0 {
		k.found, k.remedy = f.Path()+" is open to others", "chmod 600 "+f.Path()
		return k
	}
	ring, err := access.OpenKeyring(f, nil, nil)
	if err != nil {
		k.found, k.remedy = err.Error(), "put a copy of "+f.Path()+
			" back, or remove it, with which all keys end, and make new ones with hare key create"
		return k
	}
	valid := 0
	all := ring.List(access.Operator)
	for i := range all {
		if all[i].Valid(time.Now()) {
			valid++
		}
	}
	k.ok, k.found = true, fmt.Sprintf("%d, %d of them valid, for the owner of %s alone", len(all), valid, f.Path())
	if n := anyNode(ring); n > 0 {
		k.found += fmt.Sprintf("; %d of role agent for any node, from before keys had nodes: replace them", n)
	}
	return k
}

// expiresSoon is the remaining validity below which a certificate should be renewed.
const expiresSoon = 14 * 24 * time.Hour

func certificateCheck(path string, now time.Time) check {
	k := check{name: "certificate", remedy: "renew it; a running server reads it again by itself"}
	text, err := os.ReadFile(path)
	if err != nil {
		k.found, k.remedy = err.Error(), "make it readable for this user"
		return k
	}
	block, _ := pem.Decode(text)
	if block == nil {
		k.found, k.remedy = path+" is not PEM", "give the certificate, with its chain, as PEM"
		return k
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		k.found = err.Error()
		return k
	}
	k.found = fmt.Sprintf("for %v, valid until %s", append(cert.DNSNames, addresses(cert)...),
		cert.NotAfter.Format(time.RFC3339))
	k.ok = now.After(cert.NotBefore) && now.Add(expiresSoon).Before(cert.NotAfter)
	return k
}

// privateKeyCheck fails where other users can read the private key of the certificate.
func privateKeyCheck(path string) check {
	k := check{name: "private key", remedy: "chmod 600 " + path}
	switch _, err := os.Stat(path); {
	case err != nil:
		k.found, k.remedy = err.Error(), "name the file that hare serve --tls-key has"
	case openToOthers(path, openPrivateKey):
		k.found = path + " is open to others"
	default:
		k.ok, k.found = true, path+" is closed to other users"
	}
	return k
}

func addresses(cert *x509.Certificate) (all []string) {
	for _, ip := range cert.IPAddresses {
		all = append(all, ip.String())
	}
	return all
}
