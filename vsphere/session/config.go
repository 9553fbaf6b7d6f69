package session

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vim25/soap"

	"codeconnect.vmworld.com/vmgroup/sync/secret"
)

// Config says which vCenter to use, and with which account. It is validated once, and immutable.
type Config struct {
	// Host is "vc.example.com", "host:port", or a URL "https://host/sdk".
	Host string
	// User and Password, or the files that contain them. Files are read again at each login, so a rotated
	// password needs no restart; a trailing newline is dropped.
	User, Password         string
	UserFile, PasswordFile string
	// Insecure disables the verification of vCenter's certificate.
	Insecure bool
	// CAFile is a PEM file of the certificate authorities to trust instead of the system's. It is read again at each
	// handshake.
	CAFile string
	// Thumbprint is the SHA-256 thumbprint ("AA:BB:…", 32 bytes) of the one server certificate to accept.
	Thumbprint string
	// UserAgent is the text that vCenter's list of sessions shows.
	UserAgent string
	Log       zerolog.Logger
	// Dial makes the connections to vCenter, instead of TCP; it can be nil. It is for tests: no flag sets it.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Through returns what makes the SOAP calls of a session after its login, instead of HTTP. Its argument is the session's key. It can be
	// nil. It is for tests: no flag sets it.
	Through func(session string) soap.RoundTripper
	// Wire returns the transport of all calls of this client, which makes them with next; it can be nil. BodyOf says what is sent.
	Wire func(next http.RoundTripper) http.RoundTripper
	// SearchMost bounds the calls of one search; 0 means 3000. It is for tests: no flag sets it.
	SearchMost int32
	// Metrics can be nil.
	Metrics prometheus.Registerer
}

// Format keeps the password out of printed configurations.
func (c Config) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "vCenter %s", c.Host[strings.LastIndexByte(c.Host, '@')+1:])
}

// trust is how vCenter's certificate is verified: by the roots (nil for the system's), by one thumbprint, or not at all.
type trust struct {
	roots      *authorities
	thumbprint string
	insecure   bool
}

// Address is vCenter's host, with its port if that is not the usual one; empty if the configuration is wrong.
func (c Config) Address() string {
	u, err := c.endpoint()
	if err != nil {
		return ""
	}
	return u.Host
}

// endpoint returns the URL of vCenter's API. Errors name the flag and its variable, and never contain a password.
func (c Config) endpoint() (*url.URL, error) {
	if c.Host == "" {
		return nil, errors.New("--host (VC_HOST): give vCenter's name, such as vc.example.com")
	}
	host := strings.TrimSpace(c.Host)                                                             // a variable made of a file may end in a newline
	if i := strings.IndexFunc(host, func(r rune) bool { return r <= ' ' || r == 0x7f }); i >= 0 { // the message must not contain the rest, which may have a password
		return nil, fmt.Errorf("--host (VC_HOST): remove the character %q", host[i:i+1])
	}
	if net.ParseIP(host) != nil && strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	u, err := soap.ParseURL(host)
	if err != nil || u.Hostname() == "" {
		return nil, errors.New(`--host (VC_HOST): give a name, a host:port or a URL such as "https://vc.example.com/sdk"`)
	}
	if u.User.Username() != "" {
		return nil, errors.New("--host (VC_HOST): remove user and password from the URL; set VC_USER and VC_PASS, or use files")
	}
	switch {
	case u.Scheme == "https":
	case u.Scheme == "http" && c.Insecure:
	case u.Scheme == "http":
		return nil, errors.New("--host (VC_HOST): http:// sends the password in clear text; use https://, or add --insecure if that is acceptable")
	default:
		return nil, fmt.Errorf("--host (VC_HOST): the scheme is %q; it must be https", u.Scheme)
	}
	u.User = nil
	return u, nil
}

// trust reads how to verify vCenter's certificate.
func (c Config) trust() (trust, error) {
	t := trust{insecure: c.Insecure}
	switch {
	case c.Insecure && c.CAFile != "":
		return t, errors.New("--ca-file (VC_CA_FILE): --insecure verifies nothing; drop it to verify with the file")
	case c.Insecure && c.Thumbprint != "":
		return t, errors.New("--thumbprint (VC_THUMBPRINT): --insecure verifies nothing; drop it to verify by the thumbprint")
	case c.CAFile != "" && c.Thumbprint != "":
		return t, errors.New("--ca-file and --thumbprint: give one of them")
	}
	if c.Thumbprint != "" {
		raw, err := hex.DecodeString(strings.ReplaceAll(c.Thumbprint, ":", ""))
		if err != nil || len(raw) != 32 {
			return t, errors.New(`--thumbprint (VC_THUMBPRINT): give the certificate's SHA-256 thumbprint, 32 bytes as "AA:BB:…"`)
		}
		t.thumbprint = strings.ToUpper(strings.ReplaceAll(c.Thumbprint, ":", ""))
	}
	if c.CAFile != "" {
		roots, err := readAuthorities(c.CAFile, c.Log)
		if err != nil {
			return t, err
		}
		t.roots = roots
	}
	return t, nil
}

// TLS returns a TLS configuration that verifies vCenter's certificate, for host.
func (c Config) TLS(host string) (*tls.Config, error) {
	t, err := c.trust()
	if err != nil {
		return nil, err
	}
	return t.config(host), nil
}

// Validate finds errors that can be found without the network. The files of the credentials need not
// exist yet: their Secret may be created later.
func (c Config) Validate() error {
	_, hostErr := c.endpoint()
	_, trustErr := c.trust()
	return errors.Join(hostErr, trustErr,
		oneOf("--user (VC_USER)", c.User, "--user-file (VC_USER_FILE)", c.UserFile),
		oneOf("--password (VC_PASS)", c.Password, "--password-file (VC_PASS_FILE)", c.PasswordFile),
	)
}

func oneOf(name, value, fileName, file string) error {
	switch {
	case value != "" && file != "":
		return fmt.Errorf("%s and %s: give one of them", name, fileName)
	case value == "" && file == "":
		return fmt.Errorf("%s: set it, or name a file that contains it with %s", name, fileName)
	}
	return nil
}

// credentials reads the user and password.
func (c Config) credentials() (user, password string, err error) {
	if user, err = valueOf(c.User, c.UserFile); err != nil {
		return "", "", err
	}
	if password, err = valueOf(c.Password, c.PasswordFile); err == nil {
		secret.Keep("the password of vCenter's account", password)
	}
	return user, password, err
}

// valueOf returns value, or the content of file.
func valueOf(value, file string) (string, error) {
	if file == "" {
		return strings.TrimRight(value, "\r\n"), nil // as for a file: a variable from a Secret that was made of files ends in a newline, too
	}
	text, err := secret.ReadFile(file)
	if err != nil {
		return "", err
	}
	if value = strings.TrimRight(string(text), "\r\n"); value == "" {
		return "", fmt.Errorf("%s is empty", file)
	}
	return value, nil
}
