package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/hook"
)

// asking is how a running server is asked: where it is, how it is known, and who asks.
type asking struct {
	server, caFile, serverName, tokenFile, certFile, keyFile string
}

func (a *asking) flags(c *cobra.Command) {
	f := c.Flags()
	text := func(p *string, name, variable, usage string) {
		f.StringVar(p, name, "", usage)
		env(f, name, variable)
	}
	text(&a.server, "server", "VMGROUP_SERVER", "URL of a running vmgroup server; empty: look at vCenter directly")
	text(&a.tokenFile, "server-token-file", "VMGROUP_SERVER_TOKEN_FILE", "file of the bearer token that --server wants for its hooks")
	text(&a.caFile, "server-ca-file", "VMGROUP_SERVER_CA_FILE", "PEM file of the authority that signed --server's certificate (default: the system's authorities)")
	text(&a.serverName, "tls-server-name", "VMGROUP_TLS_SERVER_NAME", "name in --server's certificate, where its URL has another (a forwarded port)")
	text(&a.certFile, "server-client-cert-file", "VMGROUP_SERVER_CLIENT_CERT_FILE", "PEM file of the certificate to show to --server, if it wants one")
	text(&a.keyFile, "server-client-key-file", "VMGROUP_SERVER_CLIENT_KEY_FILE", "PEM file of its key")
}

// question makes what asks the server.
func (a *asking) question(remove bool) (func(context.Context, *v1alpha1.VmGroup) (hook.PlanAnswer, error), error) {
	target, err := url.Parse(a.server)
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return nil, usageError{fmt.Errorf(`--server: give a URL such as "https://127.0.0.1:8443"`)}
	}
	token, err := a.token(target)
	if err != nil {
		return nil, usageError{err}
	}
	client, err := a.client()
	if err != nil {
		return nil, usageError{err}
	}
	return func(ctx context.Context, g *v1alpha1.VmGroup) (answer hook.PlanAnswer, err error) {
		body, err := json.Marshal(map[string]any{"parent": g, "children": map[string]any{}, "finalizing": remove})
		if err != nil {
			return answer, err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, target.JoinPath("plan").String(), bytes.NewReader(body))
		if err != nil {
			return answer, err
		}
		r.Header.Set("Content-Type", "application/json")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		return a.send(client, r)
	}, nil
}

// token reads it. It is not sent where others could read it on its way.
func (a *asking) token(target *url.URL) (string, error) {
	if a.tokenFile == "" {
		return "", nil
	}
	if ip := net.ParseIP(target.Hostname()); target.Scheme == "http" && target.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", errors.New("--server-token-file: --server is plain HTTP to another machine, where others could read the token; use https://")
	}
	text, err := os.ReadFile(a.tokenFile)
	if err != nil {
		return "", fmt.Errorf("--server-token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("--server-token-file: %s does not hold one token of printable characters", a.tokenFile)
	}
	return token, nil
}

func (a *asking) client() (*http.Client, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: a.serverName}
	if a.caFile != "" {
		pem, err := os.ReadFile(a.caFile)
		if err != nil {
			return nil, fmt.Errorf("--server-ca-file: %w", err)
		}
		if cfg.RootCAs = x509.NewCertPool(); !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--server-ca-file: %s holds no certificate in PEM", a.caFile)
		}
	}
	if a.certFile != "" || a.keyFile != "" {
		pair, err := tls.LoadX509KeyPair(a.certFile, a.keyFile)
		if err != nil {
			return nil, fmt.Errorf("--server-client-cert-file, --server-client-key-file: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = cfg
	// A redirect would take the manifest elsewhere: the server makes none.
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

func (a *asking) send(client *http.Client, r *http.Request) (answer hook.PlanAnswer, err error) {
	response, err := client.Do(r)
	if err != nil {
		return answer, err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil {
		return answer, err
	}
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return answer, fmt.Errorf("the server answered %s: give its token by --server-token-file (a reader's will not do)", response.Status)
	default:
		return answer, fmt.Errorf("the server answered %s: %s", response.Status, bytes.TrimSpace(text))
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return answer, fmt.Errorf("what answers at %s is no vmgroup server: %w", a.server, err)
	}
	return answer, nil
}
