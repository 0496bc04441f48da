// Package credentials reads the files of ../../credentials for pion's DTLS.
package credentials

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pion/dtls/v3"
)

// Client returns the options of a client in a mode that protects.
func Client(mode, directory string) ([]dtls.ClientOption, error) {
	if mode == "psk" {
		identity, key, err := psk(directory)
		if err != nil {
			return nil, err
		}
		return []dtls.ClientOption{
			dtls.WithPSK(func([]byte) ([]byte, error) { return key, nil }),
			dtls.WithPSKIdentityHint(identity),
			dtls.WithCipherSuites(dtls.TLS_PSK_WITH_AES_128_CCM_8),
		}, nil
	}
	authorities, err := roots(directory)
	if err != nil {
		return nil, err
	}
	protection := []dtls.ClientOption{dtls.WithRootCAs(authorities)}
	if mode == "mutual" {
		own, err := pair(directory, "client")
		if err != nil {
			return nil, err
		}
		protection = append(protection, dtls.WithCertificates(own))
	}
	return protection, nil
}

// Server returns the options of a server in a mode that protects.
func Server(mode, directory string) ([]dtls.ServerOption, error) {
	if mode == "psk" {
		identity, key, err := psk(directory)
		if err != nil {
			return nil, err
		}
		known := func(hint []byte) ([]byte, error) {
			if !bytes.Equal(hint, identity) {
				return nil, fmt.Errorf("unknown identity %q", hint)
			}
			return key, nil
		}
		return []dtls.ServerOption{
			dtls.WithPSK(known),
			dtls.WithPSKIdentityHint([]byte("conche")),
			dtls.WithCipherSuites(dtls.TLS_PSK_WITH_AES_128_CCM_8),
		}, nil
	}
	own, err := pair(directory, "server")
	if err != nil {
		return nil, err
	}
	protection := []dtls.ServerOption{dtls.WithCertificates(own)}
	if mode == "mutual" {
		authorities, err := roots(directory)
		if err != nil {
			return nil, err
		}
		protection = append(protection, dtls.WithClientCAs(authorities), dtls.WithClientAuth(dtls.RequireAndVerifyClientCert))
	}
	return protection, nil
}

func psk(directory string) (identity, key []byte, err error) {
	line, err := os.ReadFile(filepath.Join(directory, "psk"))
	if err != nil {
		return nil, nil, err
	}
	identity, key, _ = bytes.Cut(bytes.TrimSpace(line), []byte(":"))
	return identity, key, nil
}

func pair(directory, name string) (tls.Certificate, error) {
	file := filepath.Join(directory, name)
	return tls.LoadX509KeyPair(file+".pem", file+".key")
}

func roots(directory string) (*x509.CertPool, error) {
	text, err := os.ReadFile(filepath.Join(directory, "ca.pem"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("ca.pem has no certificate")
	}
	return pool, nil
}
