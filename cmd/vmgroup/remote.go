package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/hook"
)

// remote is a running server: its address, how to verify it, and how to authenticate.
type remote struct {
	server, caFile, serverName, tokenFile, certFile, keyFile string
	// ownFile is the file of the certificate of the server in the same container. That certificate, and no other, is trusted, also when it
	// has expired: then all other callers are refused, and the status says why.
	ownFile string
	// expired is when the certificate that the server showed expired; zero if it is valid.
	expired time.Time
}

// flags adds the flags, with what a command does without --server.
func (r *remote) flags(c *cobra.Command, otherwise string) {
	f := c.Flags()
	f.StringVar(&r.server, "server", "", "URL of a running vmgroup server; if empty, "+otherwise)
	f.StringVar(&r.tokenFile, "server-token-file", "", "file with the bearer token for --server's hooks")
	f.StringVar(&r.caFile, "server-ca-file", "", "PEM file of the CA of --server's certificate (default: the system's CAs)")
	f.StringVar(&r.serverName, "tls-server-name", "", "name in --server's certificate, if its URL has another (a forwarded port)")
	f.StringVar(&r.certFile, "server-client-cert-file", "", "PEM file of the client certificate for --server, if it requires one")
	f.StringVar(&r.keyFile, "server-client-key-file", "", "PEM file of that certificate's key")
	section(f, "Running server")
}

// findHere finds the server in the same container, by the variables that it was started with. It trusts only the server's certificate file,
// under the name in the certificate, and uses the server's own token. It can't use a server that requires client certificates: only callers
// have their keys.
func (r *remote) findHere(getenv func(string) string, note func(string)) {
	_, port, err := net.SplitHostPort(getenv("VMGROUP_LISTEN"))
	if err != nil {
		return
	}
	if getenv("VMGROUP_CLIENT_CA_FILE") != "" && r.certFile == "" {
		note("the server here requires a client certificate, so plan connects to vCenter itself, and knows only the user data in the manifests (to ask the server, set --server and --server-client-cert-file)")
		return
	}
	scheme := "http"
	if file := getenv("VMGROUP_TLS_CERT_FILE"); file != "" {
		scheme = "https"
		if r.caFile == "" {
			r.ownFile = file
		}
	}
	if r.tokenFile == "" {
		r.tokenFile = firstFile(getenv("VMGROUP_TOKEN_FILE"))
	}
	r.server = scheme + "://" + net.JoinHostPort("127.0.0.1", port)
}

// firstFile returns the first file of a list that exists; empty if none does.
func firstFile(list string) string {
	for file := range strings.SplitSeq(list, ",") {
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	return ""
}

// reach returns the server's address, the token for it, and the client that verifies it.
func (r *remote) reach() (target *url.URL, token string, client *http.Client, err error) {
	target, err = url.Parse(r.server)
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return nil, "", nil, usageError{fmt.Errorf(`--server: give a URL such as "https://127.0.0.1:8443"`)}
	}
	if token, err = r.token(target); err == nil {
		client, err = r.client()
	}
	if err != nil {
		return nil, "", nil, usageError{err}
	}
	return target, token, client, nil
}

// asker returns the function that asks the server for a plan.
func (r *remote) asker(remove bool) (asker, error) {
	target, token, client, err := r.reach()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, g *v1alpha1.VmGroup, related json.RawMessage) (answer hook.PlanAnswer, err error) {
		if related != nil && readable(target) {
			return answer, errors.New("--server is plain HTTP to another machine, so others on the network could read the user data; use https://, or leave it out of the files")
		}
		body, err := json.Marshal(map[string]any{"parent": g, "children": map[string]any{}, "related": related, "finalizing": remove})
		if err != nil {
			return answer, err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.JoinPath("plan").String(), bytes.NewReader(body))
		if err != nil {
			return answer, err
		}
		request.Header.Set("Content-Type", "application/json")
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		text, code, err := r.send(client, request)
		switch {
		case err != nil:
			return answer, err
		case code == http.StatusUnauthorized, code == http.StatusForbidden:
			return answer, fmt.Errorf("the server answered %d %s: give the hooks' token with --server-token-file (a reader's does not suffice)", code, http.StatusText(code))
		case code != http.StatusOK:
			return answer, fmt.Errorf("the server answered %d %s: %s", code, http.StatusText(code), bytes.TrimSpace(text))
		}
		if err := json.Unmarshal(text, &answer); err != nil {
			return answer, fmt.Errorf("%s is not a vmgroup server: %w", r.server, err)
		}
		return answer, nil
	}, nil
}

// readable reports whether others on the network could read what is sent to the target.
func readable(target *url.URL) bool {
	ip := net.ParseIP(target.Hostname())
	return target.Scheme == "http" && target.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}

// token reads the token. It returns an error if the token would be sent unencrypted to another machine.
func (r *remote) token(target *url.URL) (string, error) {
	if r.tokenFile == "" {
		return "", nil
	}
	if readable(target) {
		return "", errors.New("--server-token-file: --server is plain HTTP to another machine, so others on the network could read the token; use https://")
	}
	text, err := os.ReadFile(r.tokenFile)
	if err != nil {
		return "", fmt.Errorf("--server-token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "", fmt.Errorf("--server-token-file: %s does not contain exactly one token of printable characters", r.tokenFile)
	}
	return token, nil
}

func (r *remote) client() (*http.Client, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: r.serverName}
	if r.caFile != "" {
		pem, err := os.ReadFile(r.caFile)
		if err != nil {
			return nil, fmt.Errorf("--server-ca-file: %w", err)
		}
		if cfg.RootCAs = x509.NewCertPool(); !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--server-ca-file: %s contains no PEM certificate", r.caFile)
		}
	}
	if r.ownFile != "" {
		cfg.InsecureSkipVerify = true // #nosec G402 -- VerifyConnection compares the whole certificate
		cfg.VerifyConnection = r.verifyOwn
	}
	if r.certFile != "" || r.keyFile != "" {
		pair, err := tls.LoadX509KeyPair(r.certFile, r.keyFile)
		if err != nil {
			return nil, fmt.Errorf("--server-client-cert-file, --server-client-key-file: %w", err)
		}
		// With Certificates, crypto/tls wouldn't send the certificate if none of the CAs that the server names has signed it, such as the
		// server's own certificate.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = cfg
	// The server sends no redirects, and a client that follows one would send the manifest to another server.
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// verifyOwn accepts the certificate in ownFile, and notes when it expired.
func (r *remote) verifyOwn(shown tls.ConnectionState) error {
	text, err := os.ReadFile(r.ownFile)
	if err != nil {
		return err
	}
	block, _ := pem.Decode(text)
	if block == nil || !bytes.Equal(block.Bytes, shown.PeerCertificates[0].Raw) {
		return fmt.Errorf("the server shows another certificate than that in %s", r.ownFile)
	}
	r.expired = time.Time{}
	if end := shown.PeerCertificates[0].NotAfter; time.Now().After(end) {
		r.expired = end
	}
	return nil
}

// hint adds to a connection's error which flag to set.
func (r *remote) hint(err error) error {
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("%w: renew the server's certificate (SECURITY.md#change-keys): Metacontroller doesn't accept it either", err)
	case errors.As(err, &name):
		return fmt.Errorf("%w: its certificate is for %s: name one of them with --tls-server-name", err, strings.Join(name.Certificate.DNSNames, ", "))
	case errors.As(err, &authority):
		return fmt.Errorf("%w: set --server-ca-file to the file of its CA (ca.crt of the Secret vmgroup-hook-client)", err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s serves plain HTTP: correct --server to http://", r.server)
	}
	return err
}

// send returns an answer's text and status.
func (r *remote) send(client *http.Client, request *http.Request) (text []byte, code int, err error) {
	response, err := client.Do(request)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, 0, fmt.Errorf("no server answers at %s: start one (vmgroup serve), forward a port to it, or correct --server", r.server)
	}
	if err != nil {
		return nil, 0, r.hint(err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	text, err = io.ReadAll(io.LimitReader(response.Body, 32<<20))
	if response.StatusCode == http.StatusBadRequest && bytes.Contains(text, []byte("HTTP request to an HTTPS server")) { // net/http's words
		return nil, 0, fmt.Errorf("%s serves HTTPS: correct --server to https://", r.server)
	}
	return text, response.StatusCode, err
}
