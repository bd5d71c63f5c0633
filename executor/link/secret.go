package link

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"time"
)

// The sides of a connection, each with a key of its own.
const (
	SideHome   = "home"   // holds the parameters
	SideHelper = "helper" // computes for it
)

// keyOf derives the key of a side from the secret of the attempt, so that whoever knows the secret knows both keys.
func keyOf(secret, side string) ed25519.PrivateKey {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("hare rounds " + side))
	return ed25519.NewKeyFromSeed(mac.Sum(nil))
}

// errStranger says that the other side does not know the secret of the attempt.
var errStranger = errors.New("the other side does not know the secret of the attempt")

// Secure is the configuration of a side: TLS 1.3, in which each side proves that it has its key. No clock and no
// authority is asked, because machines' clocks differ and the keys live as long as the attempt.
func Secure(secret, side string) (*tls.Config, error) {
	other := SideHome
	if side == SideHome {
		other = SideHelper
	}
	own := keyOf(secret, side)
	peer, ok := keyOf(secret, other).Public().(ed25519.PublicKey)
	if !ok {
		return nil, errStranger
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, own.Public(), own)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: own}},
		ClientAuth:   tls.RequireAnyClientCert,
		// The key of the other side is known, and takes the place of a name and an authority.
		InsecureSkipVerify:     true,
		SessionTicketsDisabled: true,
		VerifyPeerCertificate: func(chain [][]byte, _ [][]*x509.Certificate) error {
			if len(chain) != 1 {
				return errStranger
			}
			c, err := x509.ParseCertificate(chain[0])
			if err != nil {
				return err
			}
			if key, ok := c.PublicKey.(ed25519.PublicKey); !ok || !peer.Equal(key) {
				return errStranger
			}
			return nil
		},
	}, nil
}
